"""Damage is found, reported by name, and never tidied away."""

from __future__ import annotations

import contextlib
import shutil
from itertools import permutations
from pathlib import Path
from random import Random

import apsw
import pytest

from palio.store import Batch, DamagedStoreError, FailedStoreError, Kind, Reader, Store, files, header, reading, witness
from palio.store.schema import PAGE_BYTES
from tests.store import flips
from tests.store.conftest import FILLED, Rome, corrupt


@pytest.mark.slow
@pytest.mark.parametrize("group", range(4))
def test_damage_anywhere_is_found_or_harmless(in_memory: Path, group: int) -> None:
    found = set()
    for template in range(3):
        place = in_memory / f"{template}"
        history = flips.make(place, group * 10 + template, is_closed=template == 0)
        for trial in range(30):
            found.add(flips.trial(place, history, in_memory / "trial", group * 1_000 + template * 100 + trial))
    assert "found" in found


def test_a_state_record_is_named(rome: Rome) -> None:
    with rome.open() as store:
        store.commit([Batch([(b"cursor/eva", b"17 of log 3"), (b"other", b"value")])])
    damaged = corrupt(rome.path, b"17 of log 3", b"18 of log 3")
    with Store.open(rome.path, name="rome", incarnation=3, describe=lambda key: f"[{key.decode()}]") as store:
        assert [str(each) for each in store.damage] == ["the state record [cursor/eva]"]
        assert store.damage[0].key == b"cursor/eva"
        assert (store.is_new_incarnation, store.incarnation) == (True, 8)
        assert dict(store.records()) == {b"other": b"value"}
    assert [each.read_bytes() for each in rome.asides()] == [damaged]


def test_a_new_incarnation_stays_new_until_something_is_written(rome: Rome) -> None:
    rome.fill()
    files.beside(rome.path, ".witness").unlink()
    for incarnation in (20, 30):
        with rome.open(incarnation) as store:
            assert (store.is_new_incarnation, store.incarnation, len(store.damage)) == (True, 20, 1)
            assert rome.contents(store) == FILLED
    with rome.open() as store:
        store.commit([Batch([(b"c", b"3")])])
    with rome.open(40) as store:
        assert (store.is_new_incarnation, store.incarnation, store.damage) == (False, 20, [])


def test_an_entry_that_is_damaged_is_reported_when_it_is_read(rome: Rome) -> None:
    with rome.open() as store:
        store.commit([Batch(entries=[(each, b"entry number %d" % each) for each in range(5)])])
    corrupt(rome.path, b"entry number 3", b"entry number 4")
    with rome.open() as store:
        assert store.damage == []
        assert store.read(2, 5, 1_000) == [(2, b"entry number 2"), (3, b""), (4, b"entry number 4")]
        store.read(3, 4, 1)
        assert [str(each) for each in store.damage] == ["entry 3 of the log"]
        assert not store.is_new_incarnation
        assert [str(each) for each in store.check().damage] == ["entry 3 of the log"]
        with pytest.raises(DamagedStoreError, match="entry 3 of the log"):
            store.backup(rome.path.with_name("copy.db"))
    assert not [each for each in rome.path.parent.iterdir() if each.name.startswith("copy.db")]
    assert rome.asides() == []


def test_a_lost_entry_is_reported_once(rome: Rome) -> None:
    """After it was salvaged its place is known to be empty, to all who read and check."""
    with rome.open() as store:
        store.commit([Batch([(b"k", b"the state")], [(each, b"entry number %d" % each) for each in range(5)])])
    corrupt(rome.path, b"entry number 3", b"entry number 4")
    corrupt(rome.path, b"the state", b"the stage")
    with rome.open() as store:
        assert {str(each) for each in store.damage} == {"the state record b'k'", "entry 3 of the log"}
        assert (store.first, store.next) == (0, 5)
        store.commit([Batch(entries=[(5, b"more")])])
    with rome.open() as store:
        assert store.read(3, 6, 1_000) == [(3, b""), (4, b"entry number 4"), (5, b"more")]
        assert store.check().damage == []
        assert store.damage == []


def test_a_first_page_is_made_anew(rome: Rome) -> None:
    rome.fill()
    data = bytearray(rome.path.read_bytes())
    data[:PAGE_BYTES] = Random(1).randbytes(PAGE_BYTES)
    rome.path.write_bytes(data)
    with rome.open() as store:
        assert rome.contents(store) == FILLED
        assert [str(each) for each in store.damage] == ["the file's first page, which could be made anew"]
        assert store.incarnation == 8
    assert rome.asides()[0].read_bytes() == data


def test_what_first_pages_say_is_known(rome: Rome) -> None:
    """The tables lie where those of a new store lie, however a store came about."""
    rome.fill()
    tables = "SELECT name, rootpage, sql FROM sqlite_schema ORDER BY name"
    connection = reading.connect(rome.path, vfs=header.rebuilding())
    wanted = connection.execute(tables).fetchall()
    connection.close()
    copy = rome.path.with_name("copy.db")
    with rome.open() as store:
        store.backup(copy)
    for path in (rome.path, copy):
        connection = reading.connect(path)
        assert connection.execute(tables).fetchall() == wanted
        connection.close()


@pytest.mark.parametrize(("source", "target"), list(permutations(("meta", "state", "log", "report"), 2)))
def test_pages_that_lie_in_the_wrong_place(rome: Rome, source: str, target: str) -> None:
    """Reports of earlier damage are checked as everything else is: pages of other tables are no reports."""
    rome.fill()
    files.beside(rome.path, ".witness").unlink()
    with rome.open() as store:
        store.commit([Batch([(b"c", b"3")])])
    connection = reading.connect(rome.path)
    pages = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema"))
    connection.close()
    data = bytearray(rome.path.read_bytes())
    begin, place = ((pages[each] - 1) * PAGE_BYTES for each in (source, target))
    data[place : place + PAGE_BYTES] = data[begin : begin + PAGE_BYTES]
    rome.path.write_bytes(data)
    with rome.open() as store:
        state, log = rome.contents(store)
        assert store.is_new_incarnation
        assert store.damage
        assert state == {b"a": b"1", b"b": b"2", b"c": b"3"} or target == "state"
        assert log == FILLED[1] or target == "log"
    assert data in [each.read_bytes() for each in rome.asides()]


def test_nothing_readable_is_unknown_damage(rome: Rome) -> None:
    rome.fill()
    rome.path.write_bytes(b"no database" * 1_000)
    with rome.open(incarnation=3) as store:
        assert str(store.damage[0]).startswith("unknown: the file's header or meta record is unreadable")
        assert store.incarnation == 8  # the witness knew the one before
        assert rome.contents(store) == ({}, [])
    assert rome.asides()[0].read_bytes() == b"no database" * 1_000


def test_without_any_knowledge_the_time_is_the_incarnation(rome: Rome) -> None:
    rome.fill()
    rome.path.write_bytes(b"no database" * 1_000)
    files.beside(rome.path, ".witness").write_bytes(b"nothing")
    with rome.open(incarnation=1_234) as store:
        assert store.incarnation == 1_234
        assert store.is_new_incarnation


def test_what_is_found_while_writing_is_mended_when_it_is_opened_again(rome: Rome) -> None:
    """The list of free pages, which nobody looks at before one is needed."""
    with rome.open() as store:
        store.commit([Batch([(b"a", b"1")], [(0, b"z" * 60_000), (1, b"y")])])
        store.commit([Batch(trim=1)])
        while store.tidy():
            pass
    data = bytearray(rome.path.read_bytes())
    trunk = (int.from_bytes(data[32:36], "big") - 1) * PAGE_BYTES
    data[trunk + 8 : trunk + 40] = b"\xff" * 32
    rome.path.write_bytes(data)
    with rome.open() as store:
        assert store.damage == []
        with pytest.raises(FailedStoreError, match="malformed"):
            store.commit([Batch([(b"a", b"2")], [(2, b"w" * 60_000)])])
        with pytest.raises(FailedStoreError):
            store.commit([Batch([(b"a", b"3")])])
    with rome.open() as store:
        assert [str(each) for each in store.damage] == ["the database's structure, as a commit had found"]
        assert rome.contents(store) == ({b"a": b"1"}, [(1, b"y")])
        store.commit([Batch([(b"a", b"4")], [(2, b"w" * 60_000)])])
    with rome.open() as store:
        assert (store.damage, store.incarnation) == ([], 8)
        assert store.check().damage == []


def test_tidying_comes_to_an_end(rome: Rome) -> None:
    """Positions that are out of order must not let it look for the same entries for ever."""
    with rome.open() as store:
        store.commit([Batch([(b"a", b"1")], [(each, b"entry %d" % each) for each in range(20)])])
    connection = reading.connect(rome.path)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'log'").fetchone()
    connection.close()
    data = bytearray(rome.path.read_bytes())
    page = (root - 1) * PAGE_BYTES
    pointer = page + 8 + 14 * 2  # behind a leaf's header: where its cells lie; a cell is a size, a position and a row
    cell = page + int.from_bytes(data[pointer : pointer + 2], "big")
    assert data[cell + 1] == 14
    data[cell + 1] = 0
    rome.path.write_bytes(data)
    with rome.open() as store:
        assert store.damage == []
        store.commit([Batch(trim=15)], then_tidy=False)
        steps = 0
        while store.tidy():
            steps += 1
            assert steps < 10
        assert [position for position, _ in store.read(0, 99, 1 << 20)] == list(range(15, 20))
        assert store.check().damage == []


def test_a_list_of_free_pages_that_is_shorter_than_it_says(rome: Rome) -> None:
    with rome.open() as store:
        store.commit([Batch([(b"a", b"1")], [(0, b"z" * 60_000), (1, b"y")], trim=1)])
    data = bytearray(rome.path.read_bytes())
    data[36:40] = (1 << 20).to_bytes(4, "big")
    rome.path.write_bytes(data)
    with rome.open() as store, contextlib.suppress(FailedStoreError):
        while store.tidy():
            pass
    with rome.open() as store:
        assert rome.contents(store) == ({b"a": b"1"}, [(1, b"y")])
        store.commit([Batch(entries=[(2, b"w" * 60_000)])])
        while store.tidy():
            pass
        assert store.check().damage == []


# -- what is sound by itself, and wrong all the same -------------------------------------------------------------------


def change(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for each in statements:
        connection.execute(each)
    connection.close()


def test_a_state_record_that_is_gone_is_noticed(rome: Rome) -> None:
    rome.fill()
    change(rome.path, "DELETE FROM state WHERE key = x'61'")
    with rome.open() as store:
        assert [str(each) for each in store.damage] == [
            "state records are missing or old: 2 were written, 1 are there",
            "1 state records whose keys are unreadable",
        ]
        assert dict(store.records()) == {b"b": b"2"}


def test_a_state_record_that_is_old_is_noticed(rome: Rome) -> None:
    """It is whole, with a checksum that fits; but it is not what was written last."""
    rome.fill()
    connection = apsw.Connection(str(rome.path))
    old = connection.execute("SELECT * FROM state WHERE key = x'61'").fetchone()
    connection.close()
    with rome.open() as store:
        store.commit([Batch([(b"a", b"new")])])
    connection = apsw.Connection(str(rome.path))
    connection.execute("REPLACE INTO state VALUES (?, ?, ?, ?)", old)
    connection.close()
    with rome.open() as store:
        assert [str(each) for each in store.damage] == ["state records are missing or old: 2 were written, 2 are there"]
        assert store.is_new_incarnation


@pytest.mark.parametrize(("position", "when"), [(0, "opened"), (1, "read"), (2, "opened")])
def test_an_entry_that_is_gone_is_noticed(rome: Rome, position: int, when: str) -> None:
    rome.fill()
    change(rome.path, f"DELETE FROM log WHERE position = {position}")
    with rome.open() as store:
        assert bool(store.damage) == (when == "opened")
        assert store.read(position, position + 1, 1) == [(position, b"")]
        assert f"entry {position} of the log" in [str(each) for each in store.damage]


def test_an_entry_from_nowhere_is_noticed(rome: Rome) -> None:
    rome.fill()
    change(rome.path, "INSERT INTO log SELECT 7, number, sum, value FROM log WHERE position = 1")
    with rome.open() as store:
        assert [str(each) for each in store.damage] == ["there is an entry 7, but the log ended before 3"]
        assert rome.contents(store) == FILLED


# -- the witness -------------------------------------------------------------------------------------------------------


def test_an_old_database_that_is_put_back_is_noticed(rome: Rome) -> None:
    rome.fill()
    old = rome.path.with_name("old")
    shutil.copy(rome.path, old)
    with rome.open() as store:
        store.commit([Batch([(b"a", b"new")])])
    shutil.copy(old, rome.path)
    with rome.open() as store:
        assert [str(each) for each in store.damage] == [
            "unknown: an old database was put in place of the last one, or another one"
        ]
        assert (store.is_new_incarnation, store.incarnation) == (True, 8)
        assert rome.contents(store) == FILLED
    assert rome.asides()[0].read_bytes() == old.read_bytes()


def test_a_wal_that_is_gone_is_noticed(rome: Rome, tmp_path: Path) -> None:
    """SQLite does not miss it, but the witness does."""
    with rome.open() as store:
        store.commit([Batch([(b"a", b"1")])])
        killed = Rome(tmp_path / "killed" / "rome.db")
        killed.path.parent.mkdir()
        for each in (rome.path, files.beside(rome.path, ".witness")):
            shutil.copy(each, killed.path.parent)
    with killed.open() as store:
        assert len(store.damage) == 1
        assert store.incarnation == 8


def test_a_database_that_is_gone_is_noticed(rome: Rome) -> None:
    rome.fill()
    rome.path.unlink()
    with rome.open(incarnation=3) as store:
        assert [(each.kind, each.text) for each in store.damage] == [(Kind.FILE, "unknown: the database file is gone")]
        assert store.incarnation == 8
        assert rome.contents(store) == ({}, [])


def test_a_witness_that_lags_behind_is_no_damage(rome: Rome) -> None:
    rome.fill()
    told = files.beside(rome.path, ".witness").read_bytes()
    with rome.open() as store:
        store.commit([Batch([(b"a", b"new")])])
    files.beside(rome.path, ".witness").write_bytes(told)
    with rome.open() as store:
        assert store.damage == []
        assert store.incarnation == 7


def test_one_place_of_the_witness_is_enough(rome: Rome) -> None:
    rome.fill()
    path = files.beside(rome.path, ".witness")
    told = witness.read(rome.path)
    for place in (0, 512):
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        found = witness.read(rome.path)
        assert found is not None
        assert told is not None
        assert found.opening == told.opening
        data[place] ^= 1
        path.write_bytes(data)


def test_readers_of_damaged_stores_are_told(rome: Rome) -> None:
    rome.fill()
    rome.path.write_bytes(rome.path.read_bytes()[: PAGE_BYTES * 2])
    with pytest.raises(DamagedStoreError, match="a server that opens it saves what can be saved"):
        Reader.open(rome.path)
