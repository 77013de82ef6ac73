"""What one commit writes, and what is tidied up between commits."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from palio.store import schema
from palio.store.errors import InvalidWriteError
from palio.store.schema import Meta
from palio.store.settings import Batch
from palio.store.sums import added, entry_sum, state_sum

_SWEEP_BYTES = 16 << 20
_SWEEP_ENTRIES = 1_000
_VACUUM_PAGES = 64
_VACUUM_LEAST_PAGES = (64 << 20) // schema.PAGE_BYTES


class Plan:
    """Several batches as one: of each key the last value, entries in their order. What does not fit is refused."""

    def __init__(self, meta: Meta, batches: Sequence[Batch]) -> None:
        self._changes: dict[bytes, bytes | None] = {}
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
        is_settled = meta.is_settled or bool(batches)
        self._meta = meta.changed(
            commit=meta.commit + 1, first=first, next=next_position, is_settled=is_settled
        )  # fmt: skip

    def write(self, connection: apsw.Connection) -> Meta:
        """Write it, within a transaction; what the store then says of itself."""
        number = self._meta.commit
        rows, gone, count, total = [], [], 0, 0
        for key, value in sorted(self._changes.items()):
            before = connection.execute("SELECT sum FROM state WHERE key = ?", (key,)).fetchone()
            if before is not None:
                count -= 1
                total -= before[0]
            if value is not None:
                checksum = state_sum(number, key, value)
                rows.append((key, number, checksum, value))
                count += 1
                total += checksum
            elif before is not None:
                gone.append((key,))
        connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?)", rows)
        connection.executemany("DELETE FROM state WHERE key = ?", gone)
        connection.executemany(
            "INSERT INTO log VALUES (?, ?, ?, ?)",
            (
                (position, number, entry_sum(number, position, value), value)
                for position, value in self._entries
                if position >= self._meta.first
            ),
        )
        meta = self._meta.changed(records=self._meta.records + count, sum=added(self._meta.sum, total))
        schema.write_meta(connection, meta)
        return meta


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
