"""The quarantine of a store: records that a node could not use, each under a number of its own.

It is bounded. When it is full, the records in it stay and others are dropped: the first ones tell most of what went
wrong. Each record that is dropped is named and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from palio.errors import DecodeError
from palio.node import records
from palio.node.journal import Record

QUARANTINE = "quarantine"
"""The kind of the records. Earlier releases wrote them by the bytes of their keys instead of numbers."""
DROPPED: tuple[str] = ("quarantine dropped",)
"""The record that says how many were dropped because there was no room."""
MOST_RECORDS = 10_000
MOST_BYTES = 64 << 20
"""Of keys and values together."""


class Quarantined(NamedTuple):
    """A record that was put aside."""

    key: str
    """In words."""
    reason: str
    is_kept: bool = True
    """Whether there was room for it."""


class Kept(NamedTuple):
    """A record in quarantine."""

    number: int
    row: bytes
    """The key under which it lies in quarantine."""
    key: bytes
    value: bytes
    reason: str

    @property
    def size(self) -> int:
        """What it counts for."""
        return len(self.key) + len(self.value)


def kept(rows: Iterable[tuple[bytes, bytes]]) -> list[Kept]:
    """The records in quarantine, by number, among all rows of a store.

    Those of earlier releases get the numbers behind the others.
    """
    numbered: list[Kept] = []
    old: list[tuple[bytes, bytes, bytes, str]] = []
    for row, data in rows:
        match _decoded(row, data):
            case (("quarantine", int(number)), (bytes(key), bytes(value), str(reason))) if number >= 0:
                numbered.append(Kept(number, row, key, value, reason))
            case (("quarantine", bytes(key)), (bytes(value), str(reason))):
                old.append((row, key, value, reason))
    first = max((each.number for each in numbered), default=-1) + 1
    numbered += [Kept(number, *each) for number, each in enumerate(sorted(old), first)]
    return sorted(numbered)


def dropped(rows: Iterable[tuple[bytes, bytes]]) -> int:
    """How many records were dropped because there was no room, by the rows of a store."""
    row = records.encode_key(DROPPED)
    found = [_decoded(key, value) for key, value in rows if key == row]
    count = found[0][1] if found and found[0] is not None else 0
    return count if type(count) is int and count >= 0 else 0


def _decoded(row: bytes, data: bytes) -> Record | None:
    try:
        return records.decode(row, data)
    except DecodeError:
        return None


class Quarantine:
    """Takes the records that are put aside in a start.

    >>> quarantine = Quarantine([], 0)
    >>> quarantine.put(records.encode_key(("in", "rome")), b"?", "it makes no sense")
    Quarantined(key="('in', 'rome')", reason='it makes no sense', is_kept=True)
    >>> [key for key, _ in quarantine.changes()], quarantine.count
    ([('quarantine', 0)], 1)
    """

    def __init__(
        self, known: Iterable[Kept] = (), dropped: int = 0, *, most: int = MOST_RECORDS, most_bytes: int = MOST_BYTES
    ) -> None:
        known = list(known)
        self._next = max((each.number for each in known), default=-1) + 1
        self._most, self._most_bytes = most, most_bytes
        self.count = len(known)
        self._bytes = sum(each.size for each in known)
        self.dropped = dropped
        """How many records there was no room for, ever."""
        self._changes: list[Record] = []

    def put(self, key: bytes, value: bytes, reason: str) -> Quarantined:
        """Put a record aside, or drop it if there is no room."""
        size = len(key) + len(value)
        is_kept = self.count < self._most and self._bytes + size <= self._most_bytes
        if is_kept:
            self._changes.append(((QUARANTINE, self._next), (key, value, reason)))
            self._next += 1
            self.count += 1
            self._bytes += size
        else:
            self.dropped += 1
            self._changes.append((DROPPED, self.dropped))
        return Quarantined(records.describe(key), reason, is_kept)

    def changes(self) -> Iterator[Record]:
        """The records that have to be written since the last call."""
        changes, self._changes = self._changes, []
        yield from changes
