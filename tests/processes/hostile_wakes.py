"""Measures how late the machine wakes a process: ``python -m tests.processes.hostile_wakes FILE``.

It does nothing else, so its delays are those of a machine that is busy, and not those of Palio. It ends with its input.
"""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path

_SECONDS = 0.02


def main() -> None:
    """Append a line for each time that it was to be woken: when, and how many milliseconds too late."""
    with Path(sys.argv[1]).open("w") as file:
        while True:
            due = time.monotonic() + _SECONDS
            if select.select([sys.stdin], [], [], _SECONDS)[0] and not sys.stdin.readline():
                return
            file.write(json.dumps([round(due, 6), round(1e3 * max(0.0, time.monotonic() - due), 3), ""]) + "\n")


if __name__ == "__main__":
    main()
