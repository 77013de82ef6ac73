"""A roll that grows: entries of the log come in, and it is written as a whole."""

from __future__ import annotations

import logging
from datetime import date

from msgspec.structs import replace

from palio._core import EventTables
from palio.archive.disk import Disk
from palio.archive.progress import FILE, NOTED, Progress, Span, encode_progress
from palio.archive.rolls import Part, Roll
from palio.archive.settings import ArchiveSettings
from palio.archive.tables import About, batch_of, fold, write_file
from palio.errors import DecodeError
from palio.node import entries

_LOG = logging.getLogger("palio.archive")
TEMPORARY = ".roll-"
"""How files begin that belong to no roll yet."""
QUARANTINE = "_damaged"
"""The folder for entries of which something could not be read."""
_DAY = 86_400_000_000
"""In microseconds."""
_EPOCH = date(1970, 1, 1).toordinal()


class GrowingRoll:
    """What was read of the log since the last roll; nothing of it counts before :meth:`write`."""

    def __init__(self, disk: Disk, settings: ArchiveSettings, before: Progress, gap: Span | None = None) -> None:
        self._disk = disk
        self._settings = settings
        self._before = before
        self.first = self.next = before.next if gap is None else gap.last + 1
        self.day: int | None = None
        """Of its entries, as :func:`day_of` counts; unknown as long as it has none."""
        self._until = 0
        self._files: list[str] = []
        self._gaps = before.gaps if gap is None else (*before.gaps, gap)[-NOTED:]
        self._missing = 0 if gap is None else gap.last + 1 - gap.first
        self._damaged: list[Span] = []
        self._tables = EventTables(
            before.server, fold, tables=settings.tables, columns=settings.columns, bytes=settings.bytes
        )
        self._tables.mark = before.mark

    @property
    def has_news(self) -> bool:
        """Whether writing it would change anything."""
        return self.next > self.first or self._missing > 0

    @property
    def is_full(self) -> bool:
        """Whether there is as much as a roll may have."""
        tables, settings = self._tables, self._settings
        return bool(self._files) or tables.rows >= settings.rows or tables.bytes >= settings.bytes

    @property
    def rows(self) -> int:
        """Notifications in it."""
        return self._tables.taken

    # -- taking ------------------------------------------------------------------------------------------------------

    def take(self, position: int, entry: entries.Entry, data: bytes) -> None:
        """The next entry, as it was read and as it lies in the log; it is of the same day as those before it."""
        if self.day is None:
            self.day = day_of(entry)
        self._until = max(self._until, entry.head.time)
        offset = 0
        while (offset := self._tables.add(entry.frames, offset, position)) < len(entry.frames):
            self._write_largest()
        for place, problem in self._tables.take_bad():
            self.quarantine(position, data, f"the frame at byte {place} is none: {problem}")
        self.next = position + 1

    def quarantine(self, position: int, data: bytes, problem: str) -> None:
        """Note an entry of which something could not be read, and keep its bytes."""
        self.next = position + 1
        if self._damaged and self._damaged[-1].last == position:
            return  # more than one of its frames
        _LOG.error("the entry at position %s cannot be archived as a whole: %s", position, problem)
        span = Span(self._before.incarnation, position, position)
        self._damaged.append(span)
        if data and self._before.figures.damaged + len(self._damaged) <= NOTED:
            self._disk.make_folder(QUARANTINE)
            self._disk.replace(f"{QUARANTINE}/{span.incarnation}-{position}.entry", data)

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write_largest(self) -> bool:
        table = self._tables.take()
        if table is None:
            return False
        batch = batch_of(table)
        name = f"{TEMPORARY}{len(self._files)}.parquet"
        self._disk.create(name, lambda file: write_file(file, batch.schema, [batch], self._about()))
        self._files.append(name)
        return True

    def _about(self) -> About:
        before = self._before
        damaged = (*before.damaged, *self._damaged)[-NOTED:]
        return About(before.server, self._tables.mark, self._until, self._gaps, damaged)

    def write(self) -> Progress:
        """Write all of it. When the progress is on disk it is archived, and files get their names in any case."""
        while self._write_largest():
            pass
        if self._files:
            self._disk.sync("")
        progress = self._progress()
        self._disk.replace(FILE, encode_progress(progress))
        return complete(self._disk, progress)

    def _progress(self) -> Progress:
        before, tables = self._before, self._tables
        roll = Roll(before.incarnation, self.first, self.next - 1)
        count = len(self._files)
        moves = tuple(
            (name, f"{folder_of(self.day or 0)}/{Part(roll, number, count)}")
            for number, name in enumerate(self._files, start=1)
        )
        figures = before.figures
        figures = replace(
            figures,
            entries=figures.entries + self.next - self.first,
            rows=figures.rows + tables.taken,
            foreign=figures.foreign + tables.foreign,
            repeated=figures.repeated + tables.repeated,
            rolls=figures.rolls + (count > 0),
            missing=figures.missing + self._missing,
            damaged=figures.damaged + len(self._damaged),
        )
        damaged = (*before.damaged, *self._damaged)[-NOTED:]
        return replace(
            before, next=self.next, mark=tables.mark, moves=moves, gaps=self._gaps, damaged=damaged, figures=figures
        )


def complete(disk: Disk, progress: Progress) -> Progress:
    """Give files their names, if there are any that wait for them; afterwards they may be removed, too."""
    if not progress.moves:
        return progress
    disk.move(progress.moves)
    progress = replace(progress, moves=())
    disk.replace(FILE, encode_progress(progress))
    return progress


def read_entry(data: bytes) -> entries.Entry:
    """An entry of the log; an empty one is what the log has instead of one that is damaged."""
    if not data:
        raise DecodeError("it was lost, or damaged in the log")
    return entries.decode(data)


def day_of(entry: entries.Entry) -> int:
    """The day, in UTC, on which an entry was made, counted from 1970 on."""
    return entry.head.time // _DAY


def folder_of(day: int) -> str:
    """The folder for what was made on a day.

    >>> folder_of(20_773)
    '2026-11-16'
    """
    return date.fromordinal(min(max(_EPOCH + day, 1), date.max.toordinal())).isoformat()
