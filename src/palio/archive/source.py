"""What the archiver reads from: the message log of a server, also while the server writes to it."""

from __future__ import annotations

from typing import Protocol


class Extent(Protocol):
    """How far a log reaches, and whose it is."""

    @property
    def name(self) -> str:
        """Of the server."""

    @property
    def incarnation(self) -> int:
        """Which life of that server."""

    @property
    def first(self) -> int:
        """The position of the oldest entry that is still there."""

    @property
    def next(self) -> int:
        """The position that the next entry will have."""

    @property
    def synced(self) -> int:
        """The position before which all entries are on disk. Others may be lost, and their positions given again."""


class Source(Protocol):
    """Entries at dense positions; :class:`palio.store.Reader` is one."""

    @property
    def meta(self) -> Extent:
        """How far the log reaches now."""

    def read(self, position: int, end: int, most_bytes: int) -> list[tuple[int, bytes]]:
        """Entries from a position on, at least one if there is one; one that is damaged is empty."""
