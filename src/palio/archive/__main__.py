"""The archiver of a server: ``python -m palio.archive``, started by the server with one line of JSON on standard input.

The line has ``store``, ``path`` and the settings. What happens is told on standard output, a line of JSON each. It
ends when standard input does, and so with the server whatever happens to that; or on SIGTERM. What was taken by then
is written.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from palio.archive.errors import ArchiveError
from palio.archive.process import Follower, Happening
from palio.archive.settings import ArchiveSettings
from palio.errors import PalioError, brief


def main() -> int:
    """Follow until told to stop; the code of the process."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        store, folder, settings = _read(sys.stdin.buffer.readline())
        threading.Thread(target=_wait_for_the_end, args=(stop,), daemon=True).start()
        Follower(store, folder, settings, _tell).follow(stop)
    except PalioError as error:
        _tell(Happening("failed", problem=str(error)))
        return 2
    return 0


def _read(line: bytes) -> tuple[Path, Path, ArchiveSettings]:
    try:
        given: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        store, path = Path(given.pop("store")), Path(given.pop("path"))
        return store, path, ArchiveSettings(**given)
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise ArchiveError(f"expected a line with store, path and settings, as JSON: {brief(str(error))}") from error


def _tell(happening: Happening) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(happening) + b"\n")
    sys.stdout.buffer.flush()


def _wait_for_the_end(stop: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):  # a thread that waits in Python's own file when it ends is a fatal error
        pass
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
