"""MessagePack, token by token."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product

import msgspec
import pytest

from palio import (
    Constraint,
    Envelope,
    Filter,
    Notification,
    NotificationId,
    Pattern,
)
from palio.codec import json, msgpack
from palio.errors import DecodeError
from tests.codec.documents import EPOCH, exact
from tests.codec.refusals import (
    CLASSES,
    NOON,
    body,
    pack,
    refuse,
    text,
)


def test_every_first_byte_of_a_value():
    """Each first byte with the zeros that it asks for, none to eighty of them, is a value of its kind or refused."""
    kinds = {0xC2: bool, 0xC3: bool, 0xCA: float, 0xCB: float}
    kinds |= dict.fromkeys([*range(0x80), *range(0xCC, 0xD4), *range(0xE0, 0x100)], int)
    kinds |= dict.fromkeys([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB], str)
    kinds |= dict.fromkeys([0xC4, 0xC5, 0xC6], bytes)
    for first in range(256):
        taken = []
        for zeros in range(81):
            try:
                taken.append(type(msgpack.decode(Notification, body(bytes([first]) + bytes(zeros)))["x"]))
            except DecodeError:
                continue
        assert taken == ([kinds[first]] if first in kinds else []), hex(first)


@pytest.mark.parametrize("before", range(10))
def test_utf8_is_judged_as_by_python(before):
    """Strings of one to four bytes at the edges of what UTF-8 allows, after some ASCII and before some."""
    edges = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE]
    edges += [0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
    following = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    for size in range(1, 5):
        for first, *rest in product(edges, *[following] * (size - 1)):
            data = b"a" * before + bytes([first, *rest]) + b"b" * (before % 3)
            try:
                expected = data.decode()
            except UnicodeDecodeError:
                expected = None
            try:
                found = msgpack.decode(Notification, body(bytes([0xD9, len(data)]) + data))["x"]
            except DecodeError:
                found = None
            assert found == expected, data


@pytest.mark.slow
def test_two_bytes_of_utf8_exhaustively():
    for number in range(2**16):
        data = number.to_bytes(2, "big")
        try:
            expected = Notification(x=data.decode())
        except UnicodeDecodeError:
            refuse(msgpack, Notification, body(b"\xa2" + data), "not valid UTF-8")
        else:
            assert msgpack.decode(Notification, body(b"\xa2" + data)) == expected


@pytest.mark.parametrize("seconds", [-62135596801, -62135596800, -1, 0, 1, 2**32, 2**34, 253402300799, 253402300800])
@pytest.mark.parametrize("nanoseconds", [0, 1, 999, 1000, 500_000_000, 999_999_000, 999_999_999, 10**9, 2**32 - 1])
def test_timestamps(seconds, nanoseconds):
    data = body(b"\xc7\x0c\xff" + nanoseconds.to_bytes(4, "big") + seconds.to_bytes(8, "big", signed=True))
    if nanoseconds % 1000 == 0 and nanoseconds < 10**9 and -62135596800 <= seconds <= 253402300799:
        expected = EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
        assert exact(msgpack.decode(Notification, data)["x"]) == exact(expected)
    else:
        refuse(msgpack, Notification, data, "attributes[x]: time ")


def test_extreme_timestamps():
    for seconds in (-(2**63), 2**63 - 1):
        refuse(
            msgpack, Notification, body(b"\xc7\x0c\xff" + bytes(4) + seconds.to_bytes(8, "big", signed=True)), "years"
        )
    for word in (10**9 << 34, 2**64 - 1, 1 << 34, 999 << 34):
        refuse(msgpack, Notification, body(b"\xd7\xff" + word.to_bytes(8, "big")), "attributes[x]: time ")
    last = EPOCH + timedelta(seconds=2**34 - 1, microseconds=999_999)
    word = 999_999_000 << 34 | 2**34 - 1
    assert msgpack.decode(Notification, body(b"\xd7\xff" + word.to_bytes(8, "big")))["x"] == last


def test_extensions_of_other_types_and_sizes():
    for kind in {*range(256)} - {0xFF}:
        for head in (b"\xd6", b"\xd7", b"\xc7\x0c", b"\xc7\x00"):
            refuse(msgpack, Notification, body(head + bytes([kind]) + bytes(12)), "extension of a type")
    for size in {*range(256)} - {4, 8, 12}:
        refuse(msgpack, Notification, body(bytes([0xC7, size, 0xFF]) + bytes(size)), "extension of a type")


def test_counts_and_lengths_beyond_the_input():
    most = b"\xff\xff\xff\xff"
    for head in (b"\xdd", b"\xdf", b"\xc6", b"\xdb"):
        for cls in CLASSES:
            refuse(msgpack, cls, head + most)
            refuse(msgpack, cls, b"\x92\x01" + head + most)
        refuse(msgpack, Notification, body(head + most))
        refuse(msgpack, Notification, b"\x92\x01\x81" + head + most)
        refuse(msgpack, Filter, b"\x92\x01\x91" + head + most)


def test_names_are_ordered_by_bytes():
    names = ["", "\0", "a", "a\0", "aa", "b", "\x7f", "\x80", "ÿ", "\uffff", "\U00010000", "\U0010ffff"]
    for first, second in product(names, names):
        data = b"\x92\x01\x82" + b"".join(msgspec.msgpack.encode(name) + b"\x01" for name in (first, second))
        document = f'{{"palio":1,"notification":{{{json_string(first)}:1,{json_string(second)}:1}}}}'
        if "" < first < second:
            assert list(msgpack.decode(Notification, data)) == [first, second]
            assert list(json.decode(Notification, document)) == [first, second]
        else:
            refuse(msgpack, Notification, data)
            refuse(json, Notification, document)


def json_string(string: str) -> str:
    return msgspec.json.encode(string).decode()


def test_values_where_none_belongs():
    for value in (None, [], [1], {}, {"a": 1}):
        refuse(msgpack, Notification, pack(1, {"x": value}), "attributes[x]: expected a string, number, boolean")
        refuse(msgpack, Constraint, pack(1, ["x", "string", "=", value]))
    for value in (None, [], [1], {}, {"a": 1}, {"time": None}, {"bytes": 5}, {"integer": None}, {"float": []}):
        refuse(json, Notification, text(notification={"x": value}), "notification[x]")
        refuse(
            json, Constraint, text(constraint={"name": "x", "type": "string", "op": "=", "value": value}), "constraint"
        )


def test_rows_that_are_none():
    for row in (None, 5, "x", b"x", [], ["x"], ["x", "any"], ["x", "number", "=", 5, 5], NOON):
        refuse(msgpack, Constraint, pack(1, row), "constraint: expected an array of name")
        refuse(msgpack, Filter, pack(1, [row]), "constraints[0]: expected an array of name")
        refuse(msgpack, Pattern, pack(1, [[], [row]]), "filters[1][0]: expected an array of name")
    for part in range(3):
        for wrong in (None, 5, True, b"any", ["any"]):
            row = ["any"] * 3
            row[part] = wrong
            refuse(msgpack, Filter, pack(1, [row]), "expected a string")


@pytest.mark.parametrize("field", range(7))
def test_fields_of_envelopes(field):
    fields = ["milan", 1, 7, NOON, "p", None, None]
    assert msgpack.decode(Envelope, pack(1, *fields)) == Envelope(NotificationId("milan", 1, 7), NOON, "p")
    kinds = [str, int, int, datetime, str, datetime, str]
    for wrong in ("", "x", 5, -1, 2**63 - 1, 1.5, True, NOON, b"x", None, [], ["x"]):
        changed = [*fields]
        changed[field] = wrong
        nothing = wrong is None and field >= 5
        sensible = type(wrong) is kinds[field] and not (field == 0 and wrong == "") and wrong != -1
        if nothing or sensible:
            envelope = msgpack.decode(Envelope, pack(1, *changed))
            assert msgpack.encode(envelope) == pack(1, *changed)
        else:
            assert refuse(msgpack, Envelope, pack(1, *changed)).path.startswith("envelope")
