"""``palio`` with a wrong clock, for tests: ``SHIFTED_SECONDS=-3600 python -m tests.processes.shifted serve ...``.

Shifts the wall clock of this process (``time.time``, ``time.time_ns`` and the clock of the log's timestamps). Monotonic
clocks stay as they are, as on a machine whose date was changed.
"""

from __future__ import annotations

import datetime
import os
import time
from types import SimpleNamespace

VARIABLE = "SHIFTED_SECONDS"
"""The environment variable that says by how much; it must not begin with the prefix of configuration keys."""


def shift(seconds: float) -> None:
    """Shift the wall clock of this process.

    Only the log's library asks ``datetime`` for the time in a server, so only there is the class replaced: everywhere
    else its identity matters.
    """
    import structlog.processors  # noqa: PLC0415 (the clock has to be shifted before Palio is loaded)

    real, real_ns, by = time.time, time.time_ns, datetime.timedelta(seconds=seconds)

    class Shifted(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Shifted:
            return super().now(tz) + by

    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + round(seconds * 1e9)
    setattr(structlog.processors, "datetime", SimpleNamespace(datetime=Shifted, timezone=datetime.timezone))  # noqa: B010


if __name__ == "__main__":
    shift(float(os.environ[VARIABLE]))
    from palio.cli.main import palio

    palio(prog_name="palio")
