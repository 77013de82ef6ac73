"""A walk over all of a store: every record and every entry, and SQLite's own structures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from palio.errors import brief
from palio.store import files, reading, witness
from palio.store.damage import READING, Damage, Describe, Kind, entries_lost, ranges, sign_of_damage
from palio.store.errors import StorePathError
from palio.store.inspection import inspect
from palio.store.schema import VERSION, Meta

Progress = Callable[[int, int], None]
"""Told how much is done, and of how much."""

_PIECE = 64  # entries between two reports of progress


@dataclass(frozen=True, slots=True)
class Checked:
    """What a walk over a store has found."""

    meta: Meta | None
    entries: int
    """Entries that were read and are as they were written."""
    bytes: int
    """Of them."""
    damage: list[Damage]


def check(path: Path, progress: Progress = lambda _done, _of: None, describe: Describe = brief) -> Checked:
    """Read all of a store, which a server may be writing to, and tell what is not as it was written."""
    path = files.existing(path)
    told = witness.read(path)  # before the database: it may only be older
    findings = inspect(path, told, was_store=witness.is_there(path), describe=describe)
    if findings.version < VERSION:
        raise StorePathError(f"{path} has store version {findings.version}; let a server of this version open it first")
    damage = list(findings.damage)
    count = size = 0
    if findings.meta is not None:
        count, size, lost = _walk(path, findings.meta, progress)
        damage += [entries_lost(first, end) for first, end in ranges(lost)]
        damage += _structure(path)
    return Checked(findings.meta, count, size, damage)


def _walk(path: Path, meta: Meta, progress: Progress) -> tuple[int, int, list[int]]:
    """Every entry, a few in one transaction, so that a server's WAL does not wait for the end."""
    reader = reading.LogReader(path)
    count = size = 0
    lost: list[int] = []
    try:
        known = reader.lost_ranges()
        for begin in range(meta.first, meta.next, _PIECE):
            progress(begin - meta.first, meta.next - meta.first)
            for position, value in reader.read(begin, min(begin + _PIECE, meta.next), 1 << 62):
                if value:
                    count += 1
                    size += len(value)
                elif not any(first <= position < end for first, end in known):
                    lost.append(position)
        progress(meta.next - meta.first, meta.next - meta.first)
    finally:
        reader.close()
    return count, size, lost


def _structure(path: Path) -> list[Damage]:
    """What SQLite itself finds wrong with its pages."""
    connection = reading.connect(path)
    try:
        found = [str(text) for (text,) in connection.execute("PRAGMA integrity_check(10)")]
    except READING as error:
        found = [sign_of_damage(path, error)]
    finally:
        connection.close()
    return [] if found == ["ok"] else [Damage(Kind.FILE, f"the database's structure: {brief(text)}") for text in found]
