"""A process that may open no more files goes on to write and read its store."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from palio.store import Batch, Store

_RECORDS = 200


@contextmanager
def no_files_left() -> Iterator[None]:
    """Whatever is open stays so, and nothing can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_store_is_written_tidied_and_read(tmp_path: Path) -> None:
    """SQLite would open temporary files for what a large transaction may have to undo."""
    with Store.open(tmp_path / "a.db", name="a") as store:
        store.commit([Batch([(b"%d" % i, b"v" * 2_000) for i in range(_RECORDS)])])
        with no_files_left():
            for n in range(30):
                records = [(b"%d" % i, b"w" * (2_000 + n)) for i in range(_RECORDS)]
                entries = [(3 * n + i, bytes([n]) * 200_000) for i in range(3)]
                store.commit([Batch(records, entries, trim=max(0, 3 * n - 20))])
                while store.tidy():
                    pass
            assert [value for _, value in store.read(87, 90, 1 << 20)] == [bytes([29]) * 200_000] * 3
