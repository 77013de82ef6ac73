"""The archiver: follows a log and writes what it has to archive, roll by roll."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from palio.archive.disk import Disk
from palio.archive.errors import ArchiveError
from palio.archive.growing import TEMPORARY, GrowingRoll, day_of, read_entry
from palio.archive.progress import Progress, Span
from palio.archive.recovery import recover
from palio.archive.settings import ArchiveSettings
from palio.archive.source import Source
from palio.errors import DecodeError

_LOG = logging.getLogger("palio.archive")
_READ_BYTES = 4 << 20
"""Of the log, at a time."""
_LOCK = "_archiver.lock"


class Archiver:
    """Takes what is new in a log whenever it is asked to, and writes it when there is enough or it is time.

    Use it as a context: it begins where the last complete roll ends, and meanwhile the folder is locked against a
    second one. After an error of the disk (``OSError``) use a new one; nothing is lost.
    """

    progress: Progress
    """What is archived."""

    def __init__(
        self,
        source: Source,
        disk: Disk,
        settings: ArchiveSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._disk = disk
        self._settings = settings or ArchiveSettings()
        self._clock = clock
        self._held = ExitStack()
        self._roll: GrowingRoll
        self._since = clock()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._disk.make_folder("")  # and what is read in it lasts: what is done from now on relies on it
            stack.enter_context(self._disk.lock(_LOCK, "archives into this folder"))
            self._recover()
            self._held = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def _recover(self) -> None:
        """Begin where the last complete roll ends."""
        extent = self._source.meta
        progress = recover(self._disk, extent)
        for name in self._disk.temporary(TEMPORARY):
            self._disk.remove(name)
        gap = None
        if extent.incarnation != progress.incarnation:
            # the log may be an earlier state of itself: what is in it and was archived is known by its id
            _LOG.warning("the log has a new incarnation, %s after %s", extent.incarnation, progress.incarnation)
            if extent.first > progress.next:
                gap = self._note_gap(progress, extent.first)
            progress = replace(progress, incarnation=extent.incarnation, next=extent.first)
        elif extent.next < progress.next:
            raise ArchiveError(
                f"{self._disk.folder}: archived up to position {progress.next:,}, but the log ends at "
                f"{extent.next:,}; it is another log, or an old copy: archive it into another folder"
            )
        self._begin(progress, gap)

    def _begin(self, progress: Progress, gap: Span | None = None) -> None:
        self.progress = progress
        self._roll = GrowingRoll(self._disk, self._settings, progress, gap)

    def step(self) -> bool:
        """Take some of what is new, and write a roll if it is time; whether there was anything new."""
        found = self._source.read(self._roll.next, self._source.meta.synced, _READ_BYTES)
        for position, data in found:
            self._take(position, data)
        if self.is_due:
            self.write()
        return bool(found)

    @property
    def is_due(self) -> bool:
        """Whether there is enough for a roll, or it is time for one."""
        roll = self._roll
        return roll.has_news and (roll.is_full or self._clock() - self._since >= self._settings.seconds)

    def write(self) -> None:
        """Write what was taken, if anything was, however little."""
        if self._roll.has_news:
            self._begin(self._roll.write())

    def _take(self, position: int, data: bytes) -> None:
        if position > self._roll.next:
            self.write()  # so that no roll has a hole in it
            self._begin(self.progress, self._note_gap(self.progress, position))
        try:
            entry = read_entry(data)
        except DecodeError as error:
            self._roll.quarantine(position, data, str(error))
            return
        if self._roll.is_full or self._roll.day not in (None, day_of(entry)):
            self.write()
        if self._roll.next == self._roll.first:
            self._since = self._clock()
        self._roll.take(position, entry, data)

    def _note_gap(self, before: Progress, end: int) -> Span:
        gap = Span(before.incarnation, before.next, end - 1)
        _LOG.error("positions %s to %s were trimmed from the log before they were archived: lost", gap.first, gap.last)
        return gap
