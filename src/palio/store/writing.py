"""What one commit writes, and what is tidied up between commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from palio.store import schema
from palio.store.errors import InvalidWriteError
from palio.store.schema import Meta
from palio.store.settings import Batch
from palio.store.sums import added, entry_sum, state_sum

_SWEEP_BYTES = 16 << 20
_SWEEP_ENTRIES = 1_000
_VACUUM_PAGES = 64
_SIZES = (64, 8, 1)
"""Rows that are written by one statement."""
_VACUUM_LEAST_PAGES = (64 << 20) // schema.PAGE_BYTES


class Plan:
    """Several batches as one: of each key the last value, entries in their order. What does not fit is refused."""

    def __init__(self, meta: Meta, batches: Sequence[Batch], *, is_synced: bool) -> None:
        self._changes: dict[bytes, bytes | None] = {}
        self.sums: dict[bytes, int | None] = {}
        """The checksums of state records that have changed, when it is written."""
        self._entries: list[tuple[int, bytes]] = []
        first, next_position = meta.first, meta.next
        for batch in batches:
            self._changes.update(batch.records)
            for position, value in batch.entries:
                if position != next_position:
                    raise InvalidWriteError(f"an entry at position {position}, where {next_position} comes next")
                if not value:
                    raise InvalidWriteError(f"the entry at position {position} is empty; that would read as damaged")
                self._entries.append((position, value))
                next_position += 1
            if batch.trim is not None:
                if batch.trim > next_position:
                    raise InvalidWriteError(f"a trim before position {batch.trim}, where {next_position} comes next")
                first = max(first, batch.trim)
        self.is_synced = is_synced
        self._meta = meta.changed(
            commit=meta.commit + 1,
            first=first,
            next=next_position,
            synced=next_position if is_synced else meta.synced,
            is_settled=meta.is_settled or bool(batches),
        )

    def write(self, connection: apsw.Connection, known: Mapping[bytes, int]) -> Meta:
        """Write it, within a transaction, where state records have these checksums; what the store then says of itself.

        Rows go to SQLite many at a time: for each statement another thread may have to be waited for.
        """
        number, count, total = self._meta.commit, 0, 0
        rows: list[tuple[bytes, int, int, bytes]] = []
        gone: list[tuple[bytes]] = []
        for key, value in sorted(self._changes.items()):
            before = known.get(key)
            if before is not None:
                count -= 1
                total -= before
            if value is not None:
                checksum = self.sums[key] = state_sum(number, key, value)
                rows.append((key, number, checksum, value))
                count += 1
                total += checksum
            elif before is not None:
                self.sums[key] = None
                gone.append((key,))
        _many(connection, "INSERT OR REPLACE INTO state VALUES {}", "(?, ?, ?, ?)", rows)
        _many(connection, "DELETE FROM state WHERE key IN ({})", "?", gone)
        entries = [
            (position, number, entry_sum(number, position, value), value)
            for position, value in self._entries
            if position >= self._meta.first
        ]
        _many(connection, "INSERT INTO log VALUES {}", "(?, ?, ?, ?)", entries)
        meta = self._meta.changed(records=self._meta.records + count, sum=added(self._meta.sum, total))
        schema.write_meta(connection, meta)
        return meta


def _many(connection: apsw.Connection, statement: str, place: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """A statement for many rows, with few different texts, so that SQLite knows them."""
    done = 0
    for size in _SIZES:
        text = statement.format(", ".join([place] * size))
        while len(rows) - done >= size:
            connection.execute(text, [value for row in rows[done : done + size] for value in row])
            done += size


def sweep(connection: apsw.Connection, first: int) -> bool:
    """Remove some of the entries that lie before the log's first, within a transaction; whether none is left."""
    size, end = 0, None
    statement = "SELECT position, coalesce(length(value), 0) FROM log WHERE position < ? ORDER BY position LIMIT ?"
    for position, length in connection.execute(statement, (first, _SWEEP_ENTRIES)):
        if size > _SWEEP_BYTES:
            break
        size += length
        end = max(position + 1, end or 0)  # pages that are damaged may have them out of order
    if end is None:
        return True
    connection.execute("DELETE FROM log WHERE position < ?", (end,))
    if not connection.changes():  # rows that are seen and cannot be found: it would never end
        raise apsw.CorruptError("the log's pages are malformed: entries are not where they should be")
    return False


def is_vacuum_due(pages: int, free_pages: int) -> bool:
    """Whether so much of the file is free that it should shrink; a little is left, to be used again."""
    return free_pages > _VACUUM_LEAST_PAGES and free_pages > pages // 4


def vacuum(connection: apsw.Connection) -> None:
    """Give some free pages back to the file system, within a transaction."""
    connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
