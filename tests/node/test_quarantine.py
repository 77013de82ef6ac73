"""Records in quarantine: none takes the place of another, and there is a bound."""

from __future__ import annotations

from palio.node import records
from palio.node.loading import load
from palio.node.quarantine import Quarantine, dropped, kept
from tests.node.durable import Durable


def strange(server: Durable, value: object) -> None:
    """A record that does not fit."""
    server.records[records.encode_key(("in", "rome"))] = records.encode_value(value)


def test_two_records_of_one_key_are_both_kept() -> None:
    server = Durable(architecture="as")
    for value in ("first", "second"):
        strange(server, value)
        server.die(1)
        server.handle([], 2)
    found = kept(server.records.items())
    assert [(each.number, records.decode_value(each.value)) for each in found] == [(0, "first"), (1, "second")]
    server.records.pop(found[0].row)
    strange(server, "third")
    server.die(3)
    server.handle([], 4)
    assert [records.decode_value(each.value) for each in kept(server.records.items())] == ["second", "third"]


def test_also_if_they_cannot_be_read() -> None:
    rows = {b"\xc1": b"first"}
    for value in (b"second", b"third"):
        for key, each in load(rows.items()).changes:
            rows.pop(key, None)
            if each is not None:
                rows[key] = each
        rows[b"\xc1"] = value
    loaded = load(rows.items())
    assert (loaded.quarantine.count, len(loaded.quarantined)) == (3, 1)
    assert {each.value for each in kept(rows.items())} == {b"first", b"second"}


def test_records_that_an_earlier_release_has_put_aside_get_numbers() -> None:
    old = [
        (records.encode_value(("quarantine", key)), records.encode_value((b"value", f"reason {key!r}")))
        for key in (b"one", b"two")
    ]
    numbered = records.encode((("quarantine", 7), (b"three", b"value", "reason")))
    assert numbered[1] is not None
    rows = dict([*old, (numbered[0], numbered[1])])
    listed = kept(rows.items())
    assert [(each.number, each.key) for each in listed] == [(7, b"three"), (8, b"one"), (9, b"two")]
    loaded = load(rows.items())
    assert not loaded.quarantined
    for key, value in loaded.changes:
        rows.pop(key, None)
        if value is not None:
            rows[key] = value
    assert [each[2:] for each in kept(rows.items())] == [each[2:] for each in listed]
    assert not load(rows.items()).changes


def test_a_strange_record_of_the_quarantine_is_put_aside_itself() -> None:
    rows = [records.encode((("quarantine", "x"), 3)), records.encode((("quarantine dropped",), -1))]
    loaded = load([(key, value) for key, value in rows if value is not None])
    assert [each.reason for each in loaded.quarantined] == ["no record of the quarantine"]
    assert not loaded.records
    assert loaded.quarantine.dropped == 0


def test_what_there_is_no_room_for_is_named_and_counted() -> None:
    quarantine = Quarantine((), 5, most=2, most_bytes=100)
    names = [quarantine.put(key, value, "").is_kept for key, value in ((b"1", b""), (b"2", b"x" * 98), (b"3", b""))]
    assert names == [True, True, False]
    assert (quarantine.count, quarantine.dropped) == (2, 6)
    changes = dict(records.encode(each) for each in quarantine.changes())
    rows = [(key, value) for key, value in changes.items() if value is not None]
    assert [each.key for each in kept(rows)] == [b"1", b"2"]
    assert dropped(rows) == 6
    again = Quarantine(kept(rows), dropped(rows), most=3, most_bytes=100)
    assert not again.put(b"4", b"", "no room by bytes").is_kept
    assert again.dropped == 7
