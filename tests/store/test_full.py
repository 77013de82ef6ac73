"""Disks that are full, or fail: nothing is lost and order stays, or the store says that it is over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from palio.store import Batch, FailedStoreError, FullStoreError, Store, StoreSettings
from tests.store.conftest import FILLED, Rome
from tests.store.faults import faults


@pytest.mark.parametrize("room", [0, 1, 2, 3, 5, 8])
def test_a_full_disk_writes_nothing_of_a_commit(rome: Rome, room: int) -> None:
    with faults() as disk:
        rome.fill()
        with rome.open() as store:
            disk.is_full, disk.room = True, room
            batch = Batch([(b"a", b"new"), (b"c", b"3")], [(3, b"w" * 50_000)], trim=1)
            for _ in range(3):
                with pytest.raises(FullStoreError, match=r"there is no room for .*rome\.db.*make room on its disk"):
                    store.commit([batch])
                assert rome.contents(store) == FILLED
                assert (store.first, store.next) == (0, 3)
            disk.is_full = False
            store.commit([batch])
            written = ({b"a": b"new", b"b": b"2", b"c": b"3"}, [*FILLED[1][1:], (3, b"w" * 50_000)])
            assert rome.contents(store) == written
        with rome.open() as store:
            assert store.damage == []
            assert rome.contents(store) == written


def test_tidying_waits_for_room(rome: Rome) -> None:
    with faults() as disk:
        rome.fill()
        with rome.open() as store:
            store.commit([Batch(trim=2)], then_tidy=False)
            disk.is_full = True
            assert store.tidy() is False
            disk.is_full = False
            while store.tidy():
                pass
            assert rome.contents(store)[1] == FILLED[1][2:]


@pytest.mark.parametrize("fault", ["has_bad_syncs", "has_bad_writes"])
def test_a_disk_that_fails_ends_it(rome: Rome, fault: str) -> None:
    """Never go on after a failed sync: what the disk holds is not known."""
    with faults() as disk:
        rome.fill()
        store = rome.open()
        setattr(disk, fault, True)
        with pytest.raises(FailedStoreError, match="see whether the disk is in order, then start the server again"):
            store.commit([Batch([(b"a", b"new")])])
        setattr(disk, fault, False)
        with pytest.raises(FailedStoreError):
            store.commit([Batch([(b"a", b"newer")])])
        store.close()
        with rome.open() as again:
            assert again.damage == []
            assert rome.contents(again)[0][b"a"] in {b"1", b"new"}


_FILL = """
import resource, sys
from palio.store import Batch, FullStoreError, Store
store = Store.open(sys.argv[1], name="rome")
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
position = 0
try:
    while position < 1_000:
        store.commit([Batch([(b"next", b"%d" % position)], [(position, b"e" * 10_000)])])
        position += 1
except FullStoreError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.commit([Batch([(b"next", b"%d" % position)], [(position, b"f" * 10_000)])])
    store.close()
    print(position)
"""


def test_a_file_that_may_not_grow(rome: Rome) -> None:
    """A limit of the system itself: the real error, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _FILL, str(rome.path)], capture_output=True, text=True, check=True, timeout=60
    )
    position = int(done.stdout)
    assert 10 < position < 100
    with rome.open() as store:
        assert store.damage == []
        assert store.next == position + 1
        assert dict(store.records()) == {b"next": b"%d" % position}
        assert store.read(position, position + 1, 1) == [(position, b"f" * 10_000)]
        assert store.check().damage == []


def test_room_is_told_before_it_is_too_late(tmp_path: Path) -> None:
    path = tmp_path / "rome.db"
    with Store.open(path, name="rome", settings=StoreSettings(most_bytes=1_000_000, reserve_bytes=0)) as store:
        assert store.has_room()
        assert store.free > 0
        position = 0
        while store.has_room():
            store.commit([Batch(entries=[(position, b"e" * 50_000)])])
            position += 1
            assert position < 30
        assert 900_000 < store.used < 1_200_000
        assert store.size >= store.used - 100_000
        store.commit([Batch([(b"state", b"is written all the same")], trim=position)])
        while store.tidy():
            pass
        assert store.has_room()
    with Store.open(path, name="rome", settings=StoreSettings(reserve_bytes=1 << 60)) as store:
        assert not store.has_room()


def test_pages_that_are_free_again_count_as_room_on_a_disk_that_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rome.db"
    with Store.open(path, name="rome", settings=StoreSettings(reserve_bytes=0)) as store:
        for position in range(100):
            store.commit([Batch(entries=[(position, b"e" * 50_000)])])
        assert store.reusable < 100_000
        store.commit([Batch(trim=100)])
        while store.tidy():
            pass
        reusable, free = store.reusable, 12_345
        assert reusable > 4_000_000
        monkeypatch.setattr(Store, "free", free)
        for reserve, has_room in [(free + reusable - 1, True), (free + reusable, True), (free + reusable + 1, False)]:
            store.settings = StoreSettings(reserve_bytes=reserve)
            assert store.has_room() is has_room


@pytest.mark.slow
def test_trimmed_space_is_used_again_and_given_back(tmp_path: Path) -> None:
    with Store.open(tmp_path / "rome.db", name="rome") as store:
        entry = os.urandom(200_000)
        for position in range(600):
            trim = max(0, position - 50)
            store.commit([Batch(entries=[(position, entry)], trim=trim, is_synced=False)])
        assert store.used < 15_000_000
        assert store.size < 30_000_000
        for position in range(600, 1_100):
            store.commit([Batch(entries=[(position, entry)], is_synced=False)])
        assert store.size > 100_000_000
        store.commit([Batch(trim=1_099)])
        while store.tidy():
            pass
        store.commit([Batch()])
        assert store.used < 2_000_000
    assert (tmp_path / "rome.db").stat().st_size < 80_000_000
