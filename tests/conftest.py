"""Hypothesis profiles: the same examples every time in CI, few while working, many in a soak; and signals as a terminal
has them."""

from __future__ import annotations

import gc
import os
import signal
from typing import Any

from hypothesis import HealthCheck, settings

_COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much],
}

settings.register_profile("default", max_examples=200, **_COMMON)
settings.register_profile("ci", max_examples=200, derandomize=True, **_COMMON)
settings.register_profile("check", max_examples=20, derandomize=True, **_COMMON)
settings.register_profile("soak", max_examples=20_000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts background jobs so, and the programs that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """All tests, and all that they import, stay to the end: let collections of garbage pass over them."""
    gc.collect()
    gc.freeze()
