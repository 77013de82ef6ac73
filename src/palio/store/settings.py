"""What a store is told, and what is written to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from palio.errors import InvalidValueError

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """What is written together, all of it or nothing."""

    records: Sequence[tuple[bytes, bytes | None]] = ()
    """State records, by key; ``None`` removes one."""
    entries: Sequence[tuple[int, bytes]] = ()
    """Entries of the log, at the positions that come next; none is empty."""
    trim: int | None = None
    """Entries before this position are not needed any more."""
    is_synced: bool = True
    """Whether it has to survive a power loss, and not only the end of the process."""

    @property
    def size(self) -> int:
        """About how many bytes it writes.

        >>> Batch([(b"key", b"value")], [(0, b"entry")]).size
        13
        """
        return sum(len(key) + len(value or b"") for key, value in self.records) + sum(
            len(value) for _, value in self.entries
        )


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Limits of a store."""

    most_bytes: int = 0
    """How much the store may hold before :meth:`Store.has_room` says no; zero: as much as the disk has."""
    reserve_bytes: int = 64 * _MIB
    """With less than this free on the disk and in the store's file together it says no, too: enough for trims and state
    to be written all the same."""

    def __post_init__(self) -> None:
        for name in ("most_bytes", "reserve_bytes"):
            if getattr(self, name) < 0:
                raise InvalidValueError(f"{name} of a store: {getattr(self, name)}; zero or more bytes, please")
