"""What is in an archive: its rolls, and what their files say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from palio.archive.disk import Disk
from palio.archive.errors import DamagedArchiveError
from palio.archive.progress import FILE, read_progress
from palio.archive.rolls import Listing, Part, Roll, sort_out
from palio.archive.tables import About

LOCK = "_maintenance.lock"
"""Held by whoever removes files, or puts others in their place."""
BUSY = "cares for this archive"


class Facts(NamedTuple):
    """What is known of a file."""

    rows: int
    bytes: int
    columns: pa.Schema
    about: About


class Inventory:
    """Looks into files once: they never change."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._known: dict[str, Facts] = {}

    def listing(self) -> Listing:
        """All files, without those that the archiver is still busy with."""
        content = self._disk.read(FILE)  # before the files: what comes meanwhile is left alone
        files = self._disk.files()
        if content is not None:
            progress = read_progress(content, str(self._disk.folder / FILE))
            busy = {new for _, new in progress.moves}
            here = progress.incarnation, progress.next
            files = [name for name in files if name not in busy and _end(name) <= here]
        self._known = {name: self._known[name] for name in files if name in self._known}
        return sort_out(files)

    def facts(self, name: str) -> Facts:
        """What a file says of itself."""
        if name not in self._known:
            path = self._disk.folder / name
            with reading(path), pq.ParquetFile(path) as file:
                about = About.read(file.metadata.metadata, str(path))
                columns = file.schema_arrow.remove_metadata()
                self._known[name] = Facts(file.metadata.num_rows, self._disk.size(name), columns, about)
        return self._known[name]


def _end(name: str) -> tuple[int, int]:
    """Incarnation and position after the end of a file's roll."""
    part = Part.parse(name)
    return (0, 0) if part is None else (part.roll.incarnation, part.roll.last + 1)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around what reads a file: if that cannot be read, say which it was."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise DamagedArchiveError(f"{path}: {error}; move it elsewhere to go on without it") from error


def remove_roll(disk: Disk, roll: Roll, listing: Listing) -> None:
    """Remove a roll for good; what it has replaced goes first, lest that count again."""
    for other, names in listing.replaced.items():
        if roll.holds(other):
            remove_files(disk, names)
    remove_files(disk, listing.current[roll])


def remove_files(disk: Disk, names: list[str]) -> None:
    """Remove files of one folder for good, and the folder if it is empty then."""
    for name in names:
        disk.remove(name)
    folder = names[0].rpartition("/")[0]
    disk.sync(folder)
    disk.remove_folder(folder)
