"""The archiver as a process: it follows a store until it is told to stop, whatever the disk does meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from palio.archive.archiver import Archiver
from palio.archive.disk import Disk
from palio.archive.errors import ArchiveBusyError, ArchiveError
from palio.archive.inventory import Inventory
from palio.archive.progress import Progress
from palio.archive.retention import Removed, retain
from palio.archive.settings import ArchiveSettings
from palio.store import Reader

_LOOK_SECONDS = 0.2
"""Between two looks at a log in which nothing is new."""
_RETRY_SECONDS = 2.0
"""After an error of the disk."""


class Happening(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the archiver tells: of itself, of what it has written or removed, of what went wrong."""

    kind: Literal["began", "wrote", "removed", "failed", "stopped"]
    progress: Progress | None = None
    """Since it began, and whenever something was written."""
    removed: Removed | None = None
    problem: str = ""


Tell = Callable[[Happening], None]


class Follower:
    """Archives a store into a folder."""

    def __init__(
        self,
        store: Path,
        folder: Path,
        settings: ArchiveSettings,
        tell: Tell,
        *,
        make_disk: Callable[[Path], Disk] = Disk,
    ) -> None:
        self._store = store
        self._disk = make_disk(folder)
        self._settings = settings
        self._tell = tell
        self._inventory = Inventory(self._disk)
        self._problem = ""

    def once(self) -> Progress:
        """Archive all that is there now, and end; an error of the disk is one of ours."""
        try:
            with Reader.open(self._store) as source, Archiver(source, self._disk, self._settings) as archiver:
                self._tell(Happening("began", archiver.progress))
                while archiver.step():
                    pass
                archiver.write()
                self._after_writing(archiver.progress)
                return archiver.progress
        except OSError as error:
            raise ArchiveError(_problem(self._disk.folder, error)) from error

    def follow(self, stop: threading.Event) -> None:
        """Archive until told to stop; what was taken by then is written.

        If the disk fails, or another archiver is at work, it is tried again and again; what is not in the archive stays
        in the log.
        """
        while True:
            try:
                self._follow(stop)
            except (OSError, ArchiveBusyError) as error:
                self._fail(error)
            if stop.is_set():
                self._tell(Happening("stopped"))
                return
            stop.wait(_RETRY_SECONDS)

    def _follow(self, stop: threading.Event) -> None:
        place = self._store.stat()
        with Reader.open(self._store) as source, Archiver(source, self._disk, self._settings) as archiver:
            self._problem = ""
            self._tell(Happening("began", archiver.progress))
            written = archiver.progress.next
            is_stopping = False
            while not is_stopping:
                is_stopping = stop.is_set()
                if not archiver.step() and not is_stopping:
                    stop.wait(_LOOK_SECONDS)
                if is_stopping:
                    archiver.write()
                source.damage.clear()  # the archiver tells of it, too
                if archiver.progress.next != written:
                    written = archiver.progress.next
                    self._after_writing(archiver.progress)
                found = self._store.stat()
                if (found.st_dev, found.st_ino) != (place.st_dev, place.st_ino):
                    return  # another store lies there now: begin anew

    def _after_writing(self, progress: Progress) -> None:
        self._tell(Happening("wrote", progress))
        try:
            removed = retain(self._disk, self._settings, inventory=self._inventory, clock=time.time)
        except ArchiveBusyError:
            return  # there will be another time
        if removed.rolls:
            self._tell(Happening("removed", removed=removed))

    def _fail(self, error: Exception) -> None:
        problem = _problem(self._disk.folder, error) if isinstance(error, OSError) else str(error)
        if problem != self._problem:  # once is enough
            self._problem = problem
            self._tell(Happening("failed", problem=problem))


def _problem(folder: Path, error: OSError) -> str:
    what = error.strerror or str(error)
    place = error.filename or folder
    return f"{place}: {what}; nothing is lost as long as the log keeps it: make room, or make the folder writable"
