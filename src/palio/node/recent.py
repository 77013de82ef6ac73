"""The last entries of the message log, in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from palio.node.entries import Entry, Share


class RecentEntry:
    """An entry whose shares can be looked up."""

    __slots__ = ("_shares", "entry", "position", "size")

    def __init__(self, position: int, entry: Entry, size: int) -> None:
        self.position, self.entry, self.size = position, entry, size
        self._shares: dict[int, Share] | None = None

    def share(self, reader: int) -> Share | None:
        """What is for a reader, if anything is."""
        if self._shares is None:
            self._shares = {share.reader: share for share in self.entry.head.shares}
        return self._shares.get(reader)


class Recent:
    """Entries at dense positions; those that are on disk go when there are too many.

    >>> recent = Recent(10)
    >>> for position in range(3):
    ...     recent.add(position, Entry(None, b""), 8)
    >>> recent.persisted(2)
    >>> recent.first, [each.position for each in recent.since(2)]
    (2, [2])
    """

    __slots__ = ("_bytes", "_entries", "_most", "_persisted")

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: deque[RecentEntry] = deque()
        self._bytes = 0
        self._persisted = 0

    @property
    def first(self) -> int | None:
        """The position of the first one, if there is one."""
        return self._entries[0].position if self._entries else None

    def add(self, position: int, entry: Entry, size: int) -> None:
        """There is one more."""
        self._entries.append(RecentEntry(position, entry, size))
        self._bytes += size
        self._shrink()

    def persisted(self, end: int) -> None:
        """All before a position are on disk."""
        self._persisted = max(self._persisted, end)
        self._shrink()

    def _shrink(self) -> None:
        while self._bytes > self._most and self._entries and self._entries[0].position < self._persisted:
            self._bytes -= self._entries.popleft().size

    def since(self, position: int) -> Iterator[RecentEntry]:
        """Those from a position on, which is not before the first one."""
        first = self.first
        return iter(()) if first is None else islice(self._entries, max(0, position - first), None)
