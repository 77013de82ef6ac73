"""What all tests of the store use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from palio.store import Batch, Store

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Rome:
    """A place for one store, and what is in it by default."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, incarnation: int = 7, name: str = "rome") -> Store:
        return Store.open(self.path, name=name, incarnation=incarnation)

    def fill(self) -> None:
        with self.open() as store:
            store.commit([Batch([(b"a", b"1"), (b"b", b"2")], [(0, b"x" * 9_000), (1, b"y"), (2, b"z" * 30_000)])])

    def asides(self) -> list[Path]:
        return sorted(each for each in self.path.parent.iterdir() if ".damaged-" in each.name)

    def contents(self, store: Store) -> tuple[dict[bytes, bytes], list[tuple[int, bytes]]]:
        return dict(store.records()), store.read(0, 1 << 40, 1 << 40)


def corrupt(path: Path, what: bytes, with_what: bytes) -> bytes:
    """Replace some bytes of a file, which must be there once; the file as it is then."""
    data = path.read_bytes()
    assert data.count(what) == 1
    path.write_bytes(data.replace(what, with_what))
    return path.read_bytes()


FILLED = ({b"a": b"1", b"b": b"2"}, [(0, b"x" * 9_000), (1, b"y"), (2, b"z" * 30_000)])


@pytest.fixture
def rome(tmp_path: Path) -> Rome:
    return Rome(tmp_path / "rome.db")


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder in memory, where there is one: for tests that open thousands of stores, each with many syncs."""
    with TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)
