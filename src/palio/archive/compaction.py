"""Small files become large ones.

Neighbouring rolls of one day become one roll, in which files are one whose columns go together. It counts from the
moment on when all of its files have their names (:func:`palio.archive.rolls.sort_out`), and what it replaces does not
count from then on. Those files stay for a while, because somebody may have listed them and be about to read them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from palio.archive.disk import Disk
from palio.archive.inventory import BUSY, LOCK, Inventory, reading, remove_files
from palio.archive.progress import NOTED, Span
from palio.archive.rolls import Listing, Part, Roll
from palio.archive.settings import ArchiveSettings
from palio.archive.tables import About, MergedColumns, write_file

TARGET_BYTES = 134_217_728
"""Of files that become one, together; what has half as many is large enough."""
_INTENT = "_compaction.json"
TEMPORARY = ".compacted-"
_BATCH_ROWS = 65_536


class Compacted(msgspec.Struct, frozen=True):
    """What compaction has done."""

    rolls: int = 0
    """That have become parts of larger ones."""
    into: int = 0
    """Those larger ones."""
    files_before: int = 0
    files_after: int = 0
    swept: int = 0
    """Files that had been replaced long ago, and are gone now."""


def compact(
    disk: Disk,
    settings: ArchiveSettings,
    *,
    target_bytes: int = TARGET_BYTES,
    inventory: Inventory | None = None,
    clock: Callable[[], float] = time.time,
) -> Compacted:
    """Compact an archive, and remove what was replaced by earlier compactions long enough ago."""
    inventory = inventory or Inventory(disk)
    with disk.lock(LOCK, BUSY):
        _complete(disk)
        swept = _sweep(disk, inventory.listing(), clock() - settings.grace_seconds)
        done = Compacted(swept=swept)
        for rolls in list(_runs(inventory, target_bytes)):
            after = _write(disk, inventory, rolls, settings.columns)
            if after:
                done = Compacted(
                    rolls=done.rolls + len(rolls),
                    into=done.into + 1,
                    files_before=done.files_before + sum(map(len, rolls.values())),
                    files_after=done.files_after + after,
                    swept=swept,
                )
        return done


def _complete(disk: Disk) -> None:
    """Finish what an earlier compaction has begun, and remove what it has left."""
    content = disk.read(_INTENT)
    if content is not None:
        disk.move(msgspec.json.decode(content, type=tuple[tuple[str, str], ...]))
        disk.remove(_INTENT)
        disk.sync("")
    for name in disk.temporary(TEMPORARY):
        disk.remove(name)


def _runs(inventory: Inventory, target_bytes: int) -> Iterator[dict[Roll, list[str]]]:
    """Neighbours of one day that are small, as many as make a large roll."""
    listing = inventory.listing()
    run: dict[Roll, list[str]] = {}
    belongs: tuple[str, int] | None = None
    size = 0
    for roll, names in listing.current.items():
        bytes = sum(inventory.facts(name).bytes for name in names)
        place = names[0].rpartition("/")[0], roll.incarnation
        is_small = bytes < target_bytes / 2 and roll not in listing.incomplete
        if run and (not is_small or belongs != place or size + bytes > target_bytes):
            yield run
            run, size = {}, 0
        if is_small:
            run[roll] = names
            belongs, size = place, size + bytes
    if run:
        yield run


def _write(disk: Disk, inventory: Inventory, rolls: dict[Roll, list[str]], most_columns: int) -> int:
    """One roll of several; how many files it has, or none if there would be no fewer than before."""
    names = [name for of_roll in rolls.values() for name in of_roll]
    merged: list[MergedColumns] = []
    for name in names:
        columns = inventory.facts(name).columns
        if not any(each.take(name, columns) for each in merged):
            merged.append(MergedColumns(name, columns, most_columns))
    if len(merged) == len(names) or len(rolls) < 2:
        return 0
    about = _together([inventory.facts(name).about for name in names])
    first, last = min(rolls), max(rolls)
    whole = Roll(first.incarnation, first.first, last.last)
    day = names[0].rpartition("/")[0]
    moves = []
    for number, each in enumerate(merged, start=1):
        temporary = f"{TEMPORARY}{number}.parquet"
        disk.create(temporary, partial(write_file, schema=each.schema, batches=_batches(disk, each), about=about))
        moves.append((temporary, f"{day}/{Part(whole, number, len(merged))}"))
    disk.sync("")
    disk.replace(_INTENT, msgspec.json.encode(moves))
    _complete(disk)
    return len(moves)


def _together(abouts: Sequence[About]) -> About:
    def merged(spans: Iterator[Span]) -> tuple[Span, ...]:
        return tuple(sorted(set(spans), key=lambda span: (span.incarnation, span.first)))[-NOTED:]

    return About(
        abouts[0].server,
        max(about.mark for about in abouts),
        max(about.until for about in abouts),
        merged(span for about in abouts for span in about.gaps),
        merged(span for about in abouts for span in about.damaged),
    )


def _batches(disk: Disk, merged: MergedColumns) -> Iterator[pa.RecordBatch]:
    for name in merged.names:
        path = disk.folder / name
        with reading(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                yield merged.widened(batch)


def _sweep(disk: Disk, listing: Listing, before: float) -> int:
    """Remove what was replaced before this time."""
    swept = 0
    for roll, names in listing.replaced.items():
        larger = [name for each, of_roll in listing.current.items() if each.holds(roll) for name in of_roll]
        if max(map(disk.named_at, larger)) <= before:
            remove_files(disk, names)
            swept += len(names)
    return swept
