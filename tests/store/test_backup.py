"""Copies of stores in use, and stores made of copies."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from palio.store import Batch, DamagedStoreError, NoStoreError, Reader, Store, StoreInUseError, StorePathError, files
from palio.store import backup as backups
from tests.store.conftest import FILLED, Rome


@pytest.fixture
def copy(tmp_path: Path) -> Rome:
    return Rome(tmp_path / "copy.db")


def test_a_copy_is_a_new_incarnation(rome: Rome, copy: Rome) -> None:
    rome.fill()
    with rome.open() as store:
        store.backup(copy.path)
        assert (store.incarnation, store.damage) == (7, [])
    assert sorted(each.name for each in copy.path.parent.iterdir() if each.name.startswith("copy")) == ["copy.db"]
    with copy.open(incarnation=3) as store:
        assert copy.contents(store) == FILLED
        assert (store.is_new_incarnation, store.incarnation, store.damage) == (True, 8, [])
        store.commit([Batch([(b"c", b"3")])])
    with copy.open(incarnation=9) as store:
        assert (store.is_new_incarnation, store.incarnation) == (False, 8)
    with rome.open() as store:
        assert (store.is_new_incarnation, store.incarnation) == (False, 7)


def test_a_copy_that_is_put_back_by_hand_is_higher_than_what_was_there(rome: Rome, copy: Rome) -> None:
    rome.fill()
    with rome.open() as store:
        store.backup(copy.path)
    files.beside(rome.path, ".witness").unlink()
    with rome.open(incarnation=50) as store:
        assert store.incarnation == 50
    shutil.copy(copy.path, rome.path)
    with rome.open(incarnation=3) as store:
        assert (store.is_new_incarnation, store.incarnation) == (True, 51)
        assert rome.contents(store) == FILLED


def test_a_copy_is_of_one_moment(rome: Rome, tmp_path: Path) -> None:
    """While another thread commits without a pause, every copy has a whole number of its batches."""
    stop = threading.Event()
    with rome.open() as store:

        def write() -> None:
            position = 0
            while not stop.is_set():
                records = [(b"%d" % each, b"%d" % position) for each in range(200)]
                store.commit([Batch(records, [(position, b"%d" % position * 5_000)], max(0, position - 200))])
                position += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for each in range(5):
                target = Rome(tmp_path / f"copy-{each}.db")
                store.backup(target.path)
                with target.open() as made:
                    state, log = target.contents(made)
                    assert len(set(state.values())) <= 1
                    assert all(int(value) == made.next - 1 for value in state.values())
                    assert [position for position, _ in log] == list(range(made.first, made.next))
        finally:
            stop.set()
            writer.join()
        assert store.next > 5
        assert store.check().damage == []


def test_another_process_reads_and_copies(rome: Rome, copy: Rome) -> None:
    rome.fill()
    with rome.open() as store:
        done = subprocess.run(
            [sys.executable, "-m", "palio", "store", "backup", str(rome.path), str(copy.path)],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert "2 state records, 3 entries" in done.stdout
        store.commit([Batch([(b"c", b"3")], [(3, b"w")])])
        with Reader.open(rome.path) as reader:
            assert (reader.first, reader.next, reader.meta.name) == (0, 4, "rome")
            store.commit([Batch(entries=[(4, b"v")], trim=2)])
            assert (reader.first, reader.next) == (2, 5)
            assert reader.read(0, 9, 1 << 30) == [(2, b"z" * 30_000), (3, b"w"), (4, b"v")]
            store.commit([Batch(entries=[(5, b"u")], is_synced=False)])
            assert (reader.next, reader.synced) == (6, 5)
            store.commit([Batch()])
            assert reader.synced == 6
            assert reader.damage == []
    with copy.open() as made:
        assert copy.contents(made) == FILLED


def test_copies_overwrite_nothing(rome: Rome, copy: Rome) -> None:
    rome.fill()
    copy.path.write_text("something else")
    with rome.open() as store, pytest.raises(StorePathError, match="exists already; give the backup another name"):
        store.backup(copy.path)
    with pytest.raises(StorePathError, match="its folder does not exist"):
        backups.backup(rome.path, rome.path.parent / "not" / "there.db")
    assert copy.path.read_text() == "something else"


def test_restoring(rome: Rome, copy: Rome) -> None:
    rome.fill()
    with rome.open() as store:
        store.backup(copy.path)
        store.commit([Batch([(b"a", b"later")], [(3, b"later")])])
        with pytest.raises(StoreInUseError):
            backups.restore(copy.path, rome.path)
    before = rome.path.read_bytes()
    aside = backups.restore(copy.path, rome.path)
    assert aside is not None
    assert aside.name.startswith("rome.db.replaced-")
    assert aside.read_bytes() == before
    with rome.open(incarnation=3) as store:
        assert rome.contents(store) == FILLED
        assert (store.is_new_incarnation, store.incarnation, store.damage) == (True, 8, [])
        store.commit([Batch(entries=[(3, b"again")])])
    with rome.open() as store:
        assert (store.is_new_incarnation, store.damage) == (False, [])


def test_restoring_where_nothing_is(rome: Rome, copy: Rome, tmp_path: Path) -> None:
    rome.fill()
    with rome.open() as store:
        store.backup(copy.path)
    other = Rome(tmp_path / "elsewhere" / "rome.db")
    other.path.parent.mkdir()
    assert backups.restore(copy.path, other.path) is None
    with other.open() as store:
        assert other.contents(store) == FILLED


def test_what_is_no_backup_is_not_restored(rome: Rome, copy: Rome) -> None:
    rome.fill()
    copy.path.write_text("notes")
    with pytest.raises(NoStoreError):
        backups.restore(copy.path, rome.path)
    with pytest.raises(StorePathError, match="there is no such file"):
        backups.restore(copy.path.with_name("gone.db"), rome.path)
    copy.path.unlink()
    with rome.open() as store:
        store.backup(copy.path)
    data = bytearray(copy.path.read_bytes())
    place = data.index(b"z" * 1_000)
    data[place] ^= 1
    copy.path.write_bytes(data)
    with pytest.raises(DamagedStoreError, match="is damaged and was not copied: entry 2 of the log"):
        backups.restore(copy.path, rome.path)
    with Store.open(rome.path, name="rome") as store:
        assert rome.contents(store) == FILLED
