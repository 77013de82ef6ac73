"""Tables, versions and the meta record: what a store says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from struct import Struct, error
from typing import Self

import apsw

from palio.store.errors import DamagedStoreError
from palio.store.sums import plain_sum

APPLICATION_ID = 0x50414C49
"""``PALI``: says that a SQLite file is one of ours."""
VERSION = 1
PAGE_BYTES = 8192

TABLES = {
    "meta": "CREATE TABLE meta (id INTEGER PRIMARY KEY, sum INTEGER NOT NULL, value BLOB NOT NULL)",
    "state": "CREATE TABLE state (key BLOB PRIMARY KEY, number INTEGER NOT NULL, sum INTEGER NOT NULL,"
    " value BLOB NOT NULL) WITHOUT ROWID",
    "log": "CREATE TABLE log (position INTEGER PRIMARY KEY, number INTEGER NOT NULL, sum INTEGER NOT NULL,"
    " value BLOB NOT NULL)",
    "report": "CREATE TABLE report (id INTEGER PRIMARY KEY, sum INTEGER NOT NULL, value BLOB NOT NULL)",
}
"""``state`` holds records by key, ``log`` entries by position, ``report`` what earlier damage has cost."""

MIGRATIONS: dict[int, Callable[[apsw.Connection], None]] = {}
"""For each earlier version, what makes it the next one; all of it, with the new version, is one transaction."""

_NUMBERS = Struct("<HQQQQQqQQQ??")


@dataclass(frozen=True, slots=True)
class Meta:
    """What a store says of itself; written with every commit."""

    name: str
    """Whose store it is."""
    incarnation: int
    opening: int = 0
    """How often it was opened to be written."""
    nonce: int = 0
    """A random number of that opening: two files that were both opened seven times are told apart."""
    commit: int = 0
    """The number of the last commit."""
    records: int = 0
    sum: int = 0
    """Of the checksums of all state records."""
    first: int = 0
    next: int = 0
    synced: int = 0
    """Entries before this position are on disk, as far as this commit knows: itself included, if it was synced. Others
    may be lost with the power, and their positions given again."""
    is_copy: bool = False
    """Whether it is a backup, which is old by definition."""
    is_settled: bool = False
    """Whether anything was written in this incarnation."""

    def encode(self) -> bytes:
        """Its bytes; ``decode`` reads them.

        >>> Meta.decode(Meta("rome", 7, next=3).encode()).next
        3
        """
        numbers = _NUMBERS.pack(
            VERSION, self.incarnation, self.opening, self.nonce, self.commit, self.records, self.sum, self.first,
            self.next, self.synced, self.is_copy, self.is_settled,
        )  # fmt: skip
        return numbers + self.name.encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read it; what is none is refused."""
        try:
            _, *numbers = _NUMBERS.unpack_from(data)
            return cls(data[_NUMBERS.size :].decode(), *numbers)
        except (error, UnicodeDecodeError) as problem:
            raise DamagedStoreError(f"the store's meta record is malformed: {problem}") from problem

    def changed(self, **changes: object) -> Self:
        """With some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]  # fields by name


def create(connection: apsw.Connection, meta: Meta) -> None:
    """Make the tables of an empty store in an empty file."""
    set_up_file(connection)
    with connection:
        for statement in TABLES.values():
            connection.execute(statement)
        connection.pragma("application_id", APPLICATION_ID)
        write_meta(connection, meta)


def set_up_file(connection: apsw.Connection) -> None:
    """What must be said before the first table is made. From then on there is never a rollback journal: a reader that
    found one after a crash could not use it.
    """
    connection.pragma("page_size", PAGE_BYTES)
    connection.pragma("auto_vacuum", "INCREMENTAL")
    connection.pragma("journal_mode", "WAL")


def migrate(connection: apsw.Connection, version: int) -> None:
    """Bring an earlier version up to date, in one transaction; the last step writes a meta record of this version."""
    with connection:
        for each in range(version, VERSION):
            MIGRATIONS[each](connection)


def read_meta_bytes(connection: apsw.Connection) -> bytes:
    """The meta record's bytes, if it is there and as it was written; of any version."""
    row = connection.execute("SELECT sum, value FROM meta WHERE id = 1").fetchone()
    if row is None:
        raise DamagedStoreError("the store's meta record is missing")
    found, value = row
    if not isinstance(value, bytes) or plain_sum(b"meta", value) != found:
        raise DamagedStoreError("the store's meta record is not as it was written")
    return value


def version_of(meta: bytes) -> int:
    """Which version has written a meta record: in all versions its first two bytes."""
    return int.from_bytes(meta[:2], "little")


def read_meta(connection: apsw.Connection) -> Meta:
    """The meta record of this version."""
    return Meta.decode(read_meta_bytes(connection))


def write_meta(connection: apsw.Connection, meta: Meta) -> None:
    """Replace the meta record."""
    value = meta.encode()
    connection.execute("INSERT OR REPLACE INTO meta VALUES (1, ?, ?)", (plain_sum(b"meta", value), value))
