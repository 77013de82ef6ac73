"""``palio`` on a small disk, for tests: ``SMALL_DISK_BYTES=9000000 python -m tests.processes.small_disk serve ...``.

What the system says of free room is replaced: a folder has as many bytes free as its files leave of the limit.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

VARIABLE = "SMALL_DISK_BYTES"
"""The environment variable that says how large the disk is."""


def shrink(most: int) -> None:
    """Let ``os.statvfs`` tell of a disk of so many bytes, for the folder that it is asked for."""

    def statvfs(folder: Any) -> Any:
        used = 0
        for each in Path(folder).iterdir():
            with suppress(FileNotFoundError):
                used += each.stat().st_size
        return SimpleNamespace(f_bavail=max(0, most - used), f_frsize=1)

    os.statvfs = statvfs  # type: ignore[assignment]


if __name__ == "__main__":
    shrink(int(os.environ[VARIABLE]))
    from palio.cli.main import palio

    palio(prog_name="palio")
