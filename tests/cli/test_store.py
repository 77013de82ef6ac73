"""``palio store`` as its users run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio
from palio.model import Filter, Pattern
from palio.node import records
from palio.node.quarantine import Quarantine
from palio.node.watches import Watch
from palio.routing.messages import Subscribe
from palio.store import Batch, Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "rome.db", name="rome", incarnation=1_700_000_000_000_000) as store:
        record = records.encode((("seen", "milan", 0), 1))
        store.commit([Batch([record], [(0, b"first entry"), (1, b"second entry")])])
    return tmp_path / "rome.db"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(palio, ["store", *map(str, arguments)], catch_exceptions=False)


def test_show(path: Path) -> None:
    shown = invoke("show", path).stdout
    assert "store of          rome\n" in shown
    assert "incarnation       1700000000000000, since 2023-11-14 22:13:20 UTC" in shown
    assert "entries           2, from position 0 to before 2" in shown
    found = json.loads(invoke("show", path, "--json").stdout)
    assert {key: found[key] for key in ("name", "version", "records", "first", "next", "is_copy", "damage")} == {
        "name": "rome", "version": 1, "records": 1, "first": 0, "next": 2, "is_copy": False, "damage": []
    }  # fmt: skip
    assert found["bytes"] == path.stat().st_size


def test_check(path: Path) -> None:
    assert invoke("check", path).stdout == "1 state records, 2 entries, 23 B: as they were written\n"
    path.write_bytes(path.read_bytes().replace(b"second entry", b"second enemy"))
    result = invoke("check", path)
    assert result.exit_code == 1
    assert "damaged: entry 1 of the log\n" in result.stdout
    result = invoke("check", path, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "is_sound": False, "entries": 1, "bytes": 11,
        "damage": [{"kind": "entries", "text": "entry 1 of the log", "key": None, "first": 1, "end": 2}],
        "misfits": [], "doubles": [], "quarantined": 0,
    }  # fmt: skip


def test_check_knows_what_a_server_would_put_aside(path: Path) -> None:
    rows = [
        (b"\xc1", b"1"),
        records.encode((("life",), 1_700_000_000_000_000)),
        records.encode((("held", "milan", Subscribe(Filter.parse("x > 3"))), True)),
        records.encode((("cursor", "urn:eva"), (0, 0, 0, 0, 0, 0, None, 0, 0))),
        records.encode((("in", "milan"), "seven")),
    ]
    with Store.open(path, name="rome") as store:
        store.commit([Batch(rows)])
    result = invoke("check", path)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert sum(line.startswith("does not fit: ") for line in lines) == 4
    assert any("'milan' is no neighbour" in line for line in lines)
    assert any("there is no such log" in line for line in lines)
    found = json.loads(invoke("check", path, "--json").stdout)
    assert (found["is_sound"], found["damage"], len(found["misfits"])) == (False, [], 4)


def test_check_finds_doubles(path: Path) -> None:
    """Rows as a server without canonical keys has written them."""
    words = ["x > 5 and y any", "y any and x > 5"]
    keys = [records.encode_value(("pattern", "urn:eva", Pattern.parse(f"{each} then x = 1"))) for each in words]
    state = records.encode_value(Watch("urn:eva", Pattern.parse(f"{words[0]} then x = 1"), 0).state())
    with Store.open(path, name="rome") as store:
        store.commit([Batch([(key, state) for key in keys])])
    result = invoke("check", path, "--json")
    assert result.exit_code == 1
    assert len(json.loads(result.stdout)["doubles"]) == 1


def test_backup_and_restore(path: Path) -> None:
    copy = path.with_name("copy.db")
    assert invoke("backup", path, copy).stdout.startswith(f"{copy}: 1 state records, 2 entries, ")
    assert "store of          rome, a backup\n" in invoke("show", copy).stdout
    shown = invoke("restore", copy, path).stdout
    assert shown.startswith(f"{path} is what {copy} was; the old one is kept as rome.db.replaced-")
    found = json.loads(invoke("restore", copy, path, "--json").stdout)
    assert Path(found["kept"]).exists()
    with Store.open(path, name="rome") as store:
        assert store.is_new_incarnation
        assert store.next == 2
        result = invoke("restore", copy, path)
        assert result.exit_code == 1
        assert "is in use by process" in result.stderr
    made = json.loads(invoke("backup", path, path.with_name("another.db"), "--json").stdout)
    assert (made["records"], made["first"], made["next"]) == (1, 0, 2)


def test_earlier_damage_is_shown(path: Path) -> None:
    path.unlink()
    Store.open(path, name="rome").close()
    assert "lost before       unknown: the database file is gone (incarnation " in invoke("show", path).stdout


@pytest.fixture
def strange(path: Path) -> Path:
    """A store on which a server has started that has put records aside."""
    quarantine = Quarantine()
    quarantine.put(records.encode_key(("in", "milan")), records.encode_value("seven"), "no value")
    quarantine.put(records.encode_key(("in", "milan")), records.encode_value("eight"), "no value again")
    quarantine.put(b"\xc1", b"\x00\x01", "no record")
    with Store.open(path, name="rome") as store:
        store.commit([Batch([records.encode(each) for each in quarantine.changes()])])
    return path


def test_quarantine_lists_what_was_put_aside(strange: Path) -> None:
    lines = invoke("quarantine", strange).stdout.splitlines()
    assert lines[:2] == ["0  ('in', 'milan')  no value  16 B", "1  ('in', 'milan')  no value again  16 B"]
    found = json.loads(invoke("quarantine", strange, "--json").stdout)
    assert found["dropped"] == 0
    assert found["records"][2] == {
        "number": 2, "key": "a key that cannot be read: b'\\xc1'", "reason": "no record", "bytes": 3,
        "key_bytes": "c1", "value_bytes": "0001",
    }  # fmt: skip
    assert "`palio store quarantine` lists them" in invoke("check", strange).stdout


def test_quarantine_drops_what_is_named(strange: Path) -> None:
    assert json.loads(invoke("quarantine", strange, "--drop", 1, "--drop", 0, "--json").stdout) == {"dropped": [1, 0]}
    assert [each["number"] for each in json.loads(invoke("quarantine", strange, "--json").stdout)["records"]] == [2]
    result = invoke("quarantine", strange, "--drop", 2, "--drop", 1)
    assert result.exit_code == 1
    assert "there is no record 1 in quarantine; nothing was deleted" in result.stderr
    assert invoke("quarantine", strange, "--drop-all").stderr == "dropped: 2\n"
    assert invoke("quarantine", strange).stdout == ""
    assert invoke("check", strange).exit_code == 0
    assert invoke("quarantine", strange, "--drop-all").stderr == "dropped: none\n"
    assert invoke("quarantine", strange, "--drop-all", "--drop", 1).exit_code == 2


def test_quarantine_drops_nothing_of_a_store_that_its_server_needs(strange: Path) -> None:
    with Store.open(strange, name="rome"):
        assert len(invoke("quarantine", strange).stdout.splitlines()) == 3, "it may be looked at"
        result = invoke("quarantine", strange, "--drop-all")
        assert (result.exit_code, "is in use by process" in result.stderr) == (1, True)
    copy = strange.with_name("copy.db")
    invoke("backup", strange, copy)
    result = invoke("quarantine", copy, "--drop-all")
    assert (result.exit_code, "a backup" in result.stderr) == (1, True)
    strange.write_bytes(strange.read_bytes().replace(b"no value again", b"no value alien"))
    before = strange.read_bytes()
    result = invoke("quarantine", strange, "--drop-all")
    assert (result.exit_code, "is damaged; start its server first" in result.stderr) == (1, True)
    assert strange.read_bytes() == before


@pytest.mark.parametrize("command", ["show", "check", "quarantine"])
def test_what_is_no_store_is_refused(tmp_path: Path, command: str) -> None:
    result = invoke(command, tmp_path / "gone.db")
    assert (result.exit_code, result.stderr) == (
        1, f"Error: {tmp_path / 'gone.db'}: there is no such file; name the database of a store\n"
    )  # fmt: skip
    (tmp_path / "notes.txt").write_text("notes " * 1_000)
    result = invoke(command, tmp_path / "notes.txt")
    assert result.exit_code == 1
    assert "is no store of a server; give another path" in result.stderr
