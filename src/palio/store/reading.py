"""Reading a store without changing it: connections, verified records, entries of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from palio.errors import brief
from palio.store import reports, schema
from palio.store.damage import READING, Damage, entries_lost, sign_of_damage
from palio.store.errors import DamagedStoreError
from palio.store.schema import Meta
from palio.store.sums import entry_sum, state_sum

BUSY_MILLISECONDS = 10_000
_CACHE_KIB = 16 * 1024


def connect(path: Path, flags: int = apsw.SQLITE_OPEN_READONLY, vfs: str | None = None) -> apsw.Connection:
    """A connection that reads, and changes no byte of the database or its WAL, not even when it closes."""
    connection = apsw.Connection(str(path), flags=flags | apsw.SQLITE_OPEN_NOFOLLOW, vfs=vfs)
    try:
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        if flags == apsw.SQLITE_OPEN_READONLY:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.pragma("cache_size", -_CACHE_KIB)
        connection.pragma("cell_size_check", True)
        connection.pragma("trusted_schema", False)
    except apsw.Error:
        connection.close()
        raise
    return connection


@contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[None]:
    """All that is read within is of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # SQLite ends it by itself when some pages cannot be read
            connection.execute("ROLLBACK")


def state_rows(connection: apsw.Connection, order: str = "ASC") -> Iterator[tuple[bytes, int, int, bytes]]:
    """State records as they lie there: key, number, checksum, value."""
    statement = f"SELECT key, number, sum, value FROM state ORDER BY key {order}"  # noqa: S608 (ours)
    yield from connection.execute(statement)


def is_state_sound(row: tuple[bytes, int, int, bytes]) -> bool:
    """Whether a state record is as it was written."""
    key, number, total, value = row
    is_typed = isinstance(key, bytes) and isinstance(value, bytes) and isinstance(number, int) and number >= 0
    return is_typed and state_sum(number, key, value) == total


def records(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """All state records of a store that was checked when it was opened, in the order of their keys."""
    connection = connect(path)
    try:
        for row in state_rows(connection):
            if not is_state_sound(row):
                raise DamagedStoreError(
                    f"{path}: the state record {brief(row[0])} is not as it was when the store was opened; start again"
                )
            yield row[0], row[3]
    finally:
        connection.close()


def entry_at(connection: apsw.Connection, position: int) -> bytes | None:
    """One entry of the log, if it is there and as it was written."""
    row = connection.execute("SELECT number, sum, value FROM log WHERE position = ?", (position,)).fetchone()
    return _sound_entry(position, *row) if row is not None else None


def _sound_entry(position: int, number: int, total: int, value: bytes) -> bytes | None:
    is_typed = isinstance(value, bytes) and isinstance(number, int) and number >= 0
    return value if is_typed and entry_sum(number, position, value) == total else None


def entries(connection: apsw.Connection, position: int, end: int) -> Iterator[tuple[int, bytes | None]]:
    """Every position of a range with its entry, or ``None`` where that cannot be read. A failing disk is an error."""
    path = Path(connection.filename)
    wanted = position
    statement = "SELECT position, number, sum, value FROM log WHERE position >= ? AND position < ? ORDER BY position"
    try:
        for found, *rest in connection.execute(statement, (position, end)):
            while wanted < found:
                yield wanted, None
                wanted += 1
            yield wanted, _sound_entry(found, *rest)
            wanted += 1
    except READING as error:
        sign_of_damage(path, error)
    while wanted < end:  # a page could not be read: others behind it perhaps can
        try:
            value = entry_at(connection, wanted)
        except READING as error:
            sign_of_damage(path, error)
            value = None
        yield wanted, value
        wanted += 1


class LogReader:
    """Reads the log with a connection of its own: what is committed, also while another one writes."""

    def __init__(self, path: Path, noticed: Callable[[Damage], None] = lambda _: None) -> None:
        self._path = path
        self._noticed = noticed
        self._connection = connect(path)

    def meta(self) -> Meta:
        """What the store says of itself now."""
        try:
            return schema.read_meta(self._connection)
        except READING as error:
            raise DamagedStoreError(f"{self._path}: {sign_of_damage(self._path, error)}") from error

    def read(self, position: int, end: int, most_bytes: int) -> list[tuple[int, bytes]]:
        """The entries from a position on, within the log: at least one, then as many as have so many bytes together.

        An entry that cannot be read comes as ``b""`` and is reported.
        """
        found: list[tuple[int, bytes]] = []
        size = 0
        with snapshot(self._connection):
            meta = self.meta()
            for each, value in entries(self._connection, max(position, meta.first), min(end, meta.next)):
                found.append((each, value or b""))
                size += len(value or b"")
                if value is None:
                    self._report(each)
                if size >= most_bytes:
                    break
        return found

    def lost_ranges(self) -> list[tuple[int, int]]:
        """Positions whose entries an earlier damage has cost, as far as that is known."""
        try:
            return reports.lost_ranges(reports.read_sound(self._connection))
        except READING as error:
            sign_of_damage(self._path, error)
            return []

    def _report(self, position: int) -> None:
        if not any(first <= position < end for first, end in self.lost_ranges()):
            self._noticed(entries_lost(position, position + 1))

    def close(self) -> None:
        """End."""
        self._connection.close()
