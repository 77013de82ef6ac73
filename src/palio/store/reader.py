"""The log of a store that a server may be writing to, read from another process."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from palio.store import files
from palio.store.damage import Damage
from palio.store.inspection import require_store
from palio.store.reading import LogReader
from palio.store.schema import Meta


class Reader:
    """What is committed of a store, read only. Entries that cannot be read come as ``b""``; ``damage`` tells of them.

    >>> from tempfile import TemporaryDirectory
    >>> from palio.store import Batch, Store
    >>> with TemporaryDirectory() as folder, Store.open(Path(folder, "rome.db"), name="rome") as store:
    ...     store.commit([Batch(entries=[(0, b"first"), (1, b"second")])])
    ...     with Reader.open(store.path) as reader:
    ...         reader.next, reader.read(1, reader.next, 1_000_000)
    (2, [(1, b'second')])
    """

    def __init__(self, path: Path) -> None:
        """Use :meth:`open`."""
        self.damage: list[Damage] = []
        self._reader = LogReader(path, self.damage.append)

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open a store to be read; no store, or one that cannot be read, is an error."""
        path = files.existing(Path(path))
        require_store(path)
        return cls(path)

    @property
    def meta(self) -> Meta:
        """What the store says of itself now."""
        return self._reader.meta()

    @property
    def first(self) -> int:
        """The position of the log's first entry."""
        return self.meta.first

    @property
    def next(self) -> int:
        """The position that the next entry will have."""
        return self.meta.next

    @property
    def synced(self) -> int:
        """The position before which all entries are on disk; what is not may be lost with the power."""
        return self.meta.synced

    def read(self, position: int, end: int, most_bytes: int) -> list[tuple[int, bytes]]:
        """Entries from a position on, within the log: at least one, then until there are so many bytes."""
        return self._reader.read(position, end, most_bytes)

    def close(self) -> None:
        """End."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
