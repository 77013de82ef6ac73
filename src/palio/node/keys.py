"""Keys of publications: a party's publications with the same key count once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

import msgspec

_Key = tuple[str, str]
"""A party, and the key that it has chosen."""
KEY_BYTES = 128
"""What each known key counts for besides the bytes of its text."""


class KeyLimits(msgspec.Struct, frozen=True):
    """How many keys a server knows, and for how long."""

    count: int = 100_000
    """Of one party; with more its oldest are forgotten, and counted."""
    bytes: int = 16 << 20
    """The same by their bytes; the newest one is kept in any case."""
    all_bytes: int = 256 << 20
    """Of all parties together: with more, the oldest of the party whose keys have most bytes are forgotten."""
    age: int = 3_600_000_000
    """In microseconds; within this time a publication with the same key counts once."""


class _OfParty:
    """The keys of one party."""

    __slots__ = ("bytes", "since")

    def __init__(self) -> None:
        self.since: dict[str, int] = {}
        """Since when each is known, the oldest first."""
        self.bytes = 0


class Keys:
    """The keys of the last publications, by party; bounded in number, bytes and age.

    If keys have to go before their time, they are those of the party that has too many: it does not displace the keys
    of others.

    >>> keys = Keys(KeyLimits(count=2, age=10))
    >>> [keys.is_new("me", key, now) for key, now in [("a", 0), ("a", 1), ("b", 2), ("a", 13)]]
    [True, False, True, True]
    >>> keys.changes()
    [('me', 'b', None), ('me', 'a', 13)]
    >>> keys.is_new("me", "c", 13), keys.is_new("me", "d", 13), keys.evicted
    (True, True, 1)
    """

    __slots__ = ("_by_age", "_changes", "_largest", "_limits", "_parties", "bytes", "count", "evicted")

    def __init__(self, limits: KeyLimits) -> None:
        self._limits = limits
        self._parties: dict[str, _OfParty] = {}
        self._by_age: dict[_Key, None] = {}
        """All keys, the oldest first."""
        self._largest: list[tuple[int, str]] = []
        """Parties by the bytes of their keys, negative, as a heap; some figures are not those of now."""
        self._changes: dict[_Key, int | None] = {}
        self.bytes = self.count = 0
        """Of all keys that are known."""
        self.evicted = 0
        """Keys that were forgotten before their time, since the server started, because there were too many."""

    def is_new(self, party: str, key: str, now: int) -> bool:
        """Whether a publication has a key that is not known; from now on it is."""
        self._expire(now)
        known = self._parties.get(party)
        if known is not None and key in known.since:
            return False
        self._put(party, key, now)
        self._note((party, key), now)
        self._evict(party)
        return True

    def take_back(self, party: str, key: str) -> None:
        """The publication was refused after all."""
        self._drop(party, key)

    def _expire(self, now: int) -> None:
        while self._by_age:
            party, key = next(iter(self._by_age))
            if self._parties[party].since[key] > now - self._limits.age:
                return
            self._drop(party, key)

    def _evict(self, party: str) -> None:
        """Forget what is too much: of this party, then of all."""
        limits, mine = self._limits, self._parties[party]
        while len(mine.since) > max(1, limits.count) or (mine.bytes > limits.bytes and len(mine.since) > 1):
            self._evict_oldest(party)
        while self.bytes > limits.all_bytes and self.count > 1:
            self._evict_oldest(self._find_largest())

    def _evict_oldest(self, party: str) -> None:
        self.evicted += 1
        self._drop(party, next(iter(self._parties[party].since)))

    def _find_largest(self) -> str:
        """The party whose keys have most bytes."""
        while True:
            size, party = self._largest[0]
            known = self._parties.get(party)
            if known is not None and known.bytes == -size:
                return party
            heappop(self._largest)
            if known is not None and known.bytes < -size:  # it may be nowhere else in the heap
                heappush(self._largest, (-known.bytes, party))

    def _put(self, party: str, key: str, since: int) -> None:
        known = self._parties.setdefault(party, _OfParty())
        known.since[key] = since
        self._by_age[party, key] = None
        self._count(known, 1, _size_of(key))
        heappush(self._largest, (-known.bytes, party))
        if len(self._largest) > 2 * self.count + 64:
            self._largest = [(-each.bytes, name) for name, each in self._parties.items()]
            heapify(self._largest)

    def _drop(self, party: str, key: str) -> None:
        known = self._parties.get(party)
        if known is None or known.since.pop(key, None) is None:
            return
        del self._by_age[party, key]
        self._count(known, -1, -_size_of(key))
        if not known.since:
            del self._parties[party]
        self._note((party, key), None)

    def _count(self, known: _OfParty, count: int, size: int) -> None:
        known.bytes += size
        self.bytes += size
        self.count += count

    def _note(self, known: _Key, since: int | None) -> None:
        self._changes.pop(known, None)
        self._changes[known] = since

    def changes(self) -> list[tuple[str, str, int | None]]:
        """What has changed since the last call: keys, with the time since which they are known, or none."""
        changes, self._changes = self._changes, {}
        return [(*known, since) for known, since in changes.items()]

    def restore(self, known: Iterable[tuple[str, str, int]]) -> None:
        """Take back what was known; if bounds are narrower now, they hold from the next key on."""
        for party, key, since in sorted(known, key=lambda each: each[2]):
            self._put(party, key, since)

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._by_age)


def _size_of(key: str) -> int:
    return len(key.encode("utf-8", "replace")) + KEY_BYTES
