"""Power losses at any moment: what was synced is there, batches are whole, and nobody calls it damage."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from palio.store import Batch, Store
from tests.store import flips, losses
from tests.store.conftest import Rome, corrupt
from tests.store.power import Disk, recording


@pytest.mark.slow
@pytest.mark.parametrize("group", range(4))
def test_what_was_synced_survives(in_memory: Path, group: int) -> None:
    for seed in range(group * 8, group * 8 + 8):
        losses.play(in_memory / str(seed), seed, 20)


@pytest.mark.parametrize("sync", [("sync", "rome.db-wal"), ("sync", "rome.db"), ("sync folder",)])
def test_a_store_that_forgot_a_sync_would_be_caught(in_memory: Path, sync: tuple[str, ...]) -> None:
    def play() -> None:
        for seed in range(100):
            losses.play(in_memory / str(seed), seed, 20, leave_out=sync)

    with pytest.raises(AssertionError):
        play()


@pytest.mark.slow
def test_a_salvage_may_be_interrupted_anywhere(rome: Rome, in_memory: Path) -> None:
    """Either nothing has happened yet, or the new store is there; the damaged bytes are never gone."""
    with rome.open() as store:
        store.commit([Batch([(b"k", b"the state"), (b"l", b"more of it")], [(0, b"x" * 20_000)])])
    damaged = corrupt(rome.path, b"the state", b"the stage")
    disk, random = Disk(rome.path.parent), Random(3)
    with recording() as journal, rome.open(incarnation=20) as store:
        state, log = rome.contents(store)
        assert store.damage
        begun = len(journal)
        store.commit([Batch([(b"after", b"all")])])
        done = len(journal)
    assert (state, log) == ({b"l": b"more of it"}, [(0, b"x" * 20_000)])
    places = sorted([*range(len(journal) + 1), *range(len(journal) + 1)])
    for _, place, found in losses.walk(journal, places, in_memory / "found", disk, random):
        assert damaged in [each.read_bytes() for each in found.iterdir()]
        with Store.open(found / "rome.db", name="rome", incarnation=30) as store:
            records = dict(store.records())
            after = records.pop(b"after", None)
            assert after == b"all" or place < done
            assert (records, store.read(0, 1 << 40, 1 << 40)) == (state, log)
            assert (store.damage == [], store.is_new_incarnation) == (after == b"all", after is None)
            assert store.incarnation in {20, 30}
            assert store.incarnation == 20 or place < begun
        assert damaged in [each.read_bytes() for each in found.iterdir()]
        shutil.rmtree(found)


def test_a_killed_process_loses_nothing(in_memory: Path) -> None:
    """Its files are as they are, also those that were not synced."""
    for seed in range(10):
        history = flips.make(in_memory / str(seed), seed, is_closed=False)
        with Store.open(in_memory / str(seed) / "rome.db", name="rome") as store:
            assert store.damage == []
            assert dict(store.records()) == history.state
            assert store.next == len(history.log)
