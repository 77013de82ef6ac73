"""Bytes from anywhere: refused with a DecodeError, or a value that holds up. Nothing else ever happens.

The compiled reader of notification bodies is compared with a second reader, written here in plain Python from
docs/protocol.md: both must take and refuse the same bytes, and read the same values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType

import pytest
from hypothesis import example, find, given, settings
from hypothesis import strategies as st

from palio import Constraint, Filter, Limits, Notification
from palio.codec import json, msgpack
from palio.errors import DecodeError
from tests.codec.documents import DOCUMENTS, EPOCH, FORMS, NOTIFICATIONS, exact

both_forms = pytest.mark.parametrize("codec", [pytest.param(codec, id=name) for name, codec in FORMS.items()])
every_kind = pytest.mark.parametrize("cls", [pytest.param(cls, id=cls.__name__.lower()) for cls in DOCUMENTS])

LIMITS = Limits()


def check_reader(codec: ModuleType, cls: type, data: bytes) -> object:
    """The value that was read, after checking that it can be written and read again; ``None`` for refused bytes."""
    try:
        value = codec.decode(cls, data)
    except DecodeError:
        return None
    assert type(value) is cls
    again = codec.decode(cls, codec.encode(value))
    assert again == value
    assert exact(again) == exact(value)
    return value


# -- a second reader of bodies -----------------------------------------------------------------------------------------


class RefusedError(Exception):
    """The second reader refuses the bytes."""


class SecondReader:
    """MessagePack as docs/protocol.md allows it, read with recursion and without haste."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def take(self, size: int) -> bytes:
        piece = self.data[self.place : self.place + size]
        if len(piece) < size:
            raise RefusedError("end")
        self.place += size
        return piece

    def number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "big", signed=signed)

    def count(self, first: int, fixed: range, sizes: dict[int, int]) -> int | None:
        """The length or count that a first byte announces, if it is of this family."""
        if first in fixed:
            return first - fixed.start
        return self.number(sizes[first]) if first in sizes else None

    def value(self) -> object:
        first = self.number(1)
        simple = {0xC0: None, 0xC2: False, 0xC3: True}
        unsigned = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
        signed = {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
        if first in simple:
            return simple[first]
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first in unsigned:
            return self.fit(self.number(unsigned[first]))
        if first in signed:
            return self.fit(self.number(signed[first], signed=True))
        if first in (0xCA, 0xCB):
            return self.real(">f" if first == 0xCA else ">d")
        if (size := self.count(first, range(0xA0, 0xC0), {0xD9: 1, 0xDA: 2, 0xDB: 4})) is not None:
            return self.string(size)
        if (size := self.count(first, range(0), {0xC4: 1, 0xC5: 2, 0xC6: 4})) is not None:
            return self.take(size)
        if (size := self.count(first, range(0x90, 0xA0), {0xDC: 2, 0xDD: 4})) is not None:
            return [self.value() for _ in range(size)]
        if (size := self.count(first, range(0x80, 0x90), {0xDE: 2, 0xDF: 4})) is not None:
            return Pairs([(self.value(), self.value()) for _ in range(size)])
        if first in (0xD6, 0xD7, 0xC7):
            return self.time({0xD6: 4, 0xD7: 8}.get(first) or self.number(1))
        raise RefusedError(f"first byte {first:#x}")

    def fit(self, number: int) -> int:
        if number >= 2**63:
            raise RefusedError("integer")
        return number

    def real(self, layout: str) -> float:
        (number,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        if number != number or number in (float("inf"), float("-inf")):
            raise RefusedError("float")
        return number

    def string(self, size: int) -> str:
        try:
            return self.take(size).decode("utf-8", "strict")
        except UnicodeDecodeError:
            raise RefusedError("UTF-8") from None

    def time(self, size: int) -> object:
        if self.number(1, signed=True) != -1:
            raise RefusedError("extension")
        if size == 4:
            seconds, nanoseconds = self.number(4), 0
        elif size == 8:
            nanoseconds, seconds = divmod(self.number(8), 2**34)
        elif size == 12:
            nanoseconds, seconds = self.number(4), self.number(8, signed=True)
        else:
            raise RefusedError("extension")
        if nanoseconds >= 10**9 or nanoseconds % 1000:
            raise RefusedError("nanoseconds")
        try:
            return EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
        except OverflowError:
            raise RefusedError("year") from None


class Pairs(list):
    """A map, with its pairs as they came."""


def second_opinion(data: bytes) -> object:
    """What :func:`exact` says of the notification in these bytes; raises :class:`RefusedError`."""
    reader = SecondReader(data)
    document = reader.value()
    if reader.place != len(data):
        raise RefusedError("bytes after the end")
    if type(document) is not list or len(document) not in (2, 4):
        raise RefusedError("no array of two or four")
    version, pairs, *payload = document
    if type(version) is not int or version != 1 or type(pairs) is not Pairs:
        raise RefusedError("version or map")
    check_pairs(pairs)
    notification = Notification(pairs)
    if payload:
        content_type, content = payload
        if type(content_type) is not str or not content_type or type(content) is not bytes:
            raise RefusedError("payload")
        if len(content_type.encode()) > LIMITS.name_bytes or len(content) > LIMITS.payload_bytes:
            raise RefusedError("payload too large")
        notification = notification.with_payload(content, content_type)
    return exact(notification)


def check_pairs(pairs: Pairs) -> None:
    if len(pairs) > LIMITS.attributes:
        raise RefusedError("attributes")
    last = b""
    for name, value in pairs:
        if type(name) is not str or not last < name.encode() or len(name.encode()) > LIMITS.name_bytes:
            raise RefusedError("name")
        last = name.encode()
        if value is None or isinstance(value, list):
            raise RefusedError("value")
        if (
            isinstance(value, str | bytes)
            and len(value.encode() if isinstance(value, str) else value) > LIMITS.value_bytes
        ):
            raise RefusedError("value too large")


def check_body(data: bytes) -> None:
    """The compiled reader and the second one must agree."""
    value = check_reader(msgpack, Notification, data)
    try:
        expected = second_opinion(data)
    except RefusedError:
        expected = None
    assert (None if value is None else exact(value)) == expected


# -- what is sent ------------------------------------------------------------------------------------------------------

FRAGMENTS = {
    msgpack: [
        *(
            bytes([byte])
            for byte in (0x00, 0x01, 0x7F, 0x80, 0x81, 0x90, 0x91, 0x92, 0x94, 0xA0, 0xA1, 0xBF, 0xC0, 0xC1)
        ),
        *(bytes([byte]) for byte in (*range(0xC2, 0xE0), 0xFF)),
        b"\xa1x",
        b"\xd6\xff\x00\x00\x00\x00",
        b"\xc7\x0c\xff",
        b"\xed\xa0\x80",
        b"\x93\xa1x\xa3any\xa3any",
        b"\xa6absent",
        b"\xa1=",
    ],
    json: [
        *(bytes([byte]) for byte in b'{}[]":,\\ 0159-+.eE\n\x00'),
        *(b"null", b"true", b"NaN", b"1e999", b"1.5", b"-0", b"9223372036854775808", b'"x"', b'"x":1,', b'{"time":'),
        *(rb"\ud800", rb"\u0000", rb"\u0078", b"\xed\xa0\x80", b"\xff", "é😀".encode(), b'"palio":1,', b'"value":5,'),
        *(b'{"integer":"5"}', b'{"float":5}', b'{"bytes":"AA=="}', b'{"time":"2026-07-02T12:00Z"}', b'"absent"'),
    ],
}


@st.composite
def damaged(draw: st.DrawFn, codec: ModuleType, documents: st.SearchStrategy[object]) -> bytes:
    """A document that was changed in one to four places."""
    data = codec.encode(draw(documents))
    pieces = st.one_of(st.binary(min_size=1, max_size=4), st.sampled_from(FRAGMENTS[codec]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 4)))
        match draw(st.sampled_from(["insert", "replace", "delete", "flip", "cut", "repeat", "swap"])):
            case "insert":
                data = data[:start] + draw(pieces) + data[start:]
            case "replace":
                data = data[:start] + draw(pieces) + data[end:]
            case "delete":
                data = data[:start] + data[end:]
            case "flip" if start < len(data):
                flipped = data[start] ^ 1 << draw(st.integers(0, 7))
                data = data[:start] + bytes([flipped]) + data[start + 1 :]
            case "cut":
                data = data[:start]
            case "repeat":
                data = data[:end] + data[start:]
            case "swap":
                data = data[:start] + data[end : end + 4] + data[start:end] + data[end + 4 :]
    return data


def widths(number: int, fixed: int, most: int, *leads: int) -> Iterator[bytes]:
    """Every way to announce a length or count: in the first byte if it fits, or in the bytes after it."""
    if number <= most:
        yield bytes([fixed + number])
    for lead, size in zip(leads, (1, 2, 4)[-len(leads) :], strict=True):
        yield bytes([lead]) + number.to_bytes(size, "big")


def announced(number: int, fixed: int, most: int, *leads: int) -> st.SearchStrategy[bytes]:
    return st.sampled_from(list(widths(number, fixed, most, *leads)))


def strings(texts: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Texts as strings of MessagePack, in every width."""
    return texts.flatmap(lambda each: announced(len(each), 0xA0, 31, 0xD9, 0xDA, 0xDB).map(lambda head: head + each))


def words(lead: int, size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size).map(lambda word: bytes([lead]) + word)


UTF8 = st.text(max_size=6).map(str.encode)
NEARLY_UTF8 = st.lists(
    st.sampled_from([b"a", b"\x80", b"\xc3\xa9", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xc0\xaf"]), max_size=4
).map(b"".join)
MICROSECONDS = st.integers(0, 999_999).map(lambda number: number * 1000)
SECONDS = st.one_of(
    st.integers(-62135596802, 253402300801),
    st.sampled_from([-62135596801, -62135596800, -1, 0, 253402300799, 253402300800, -(2**63), 2**63 - 1]),
)
TIMESTAMPS = st.one_of(
    words(0xD6, 5),
    st.binary(min_size=4, max_size=4).map(lambda word: b"\xd6\xff" + word),
    st.binary(min_size=4, max_size=4).map(lambda word: b"\xc7\x04\xff" + word),
    st.builds(lambda n, s: b"\xd7\xff" + (n << 34 | s).to_bytes(8, "big"), MICROSECONDS, st.integers(0, 2**34 - 1)),
    st.binary(min_size=8, max_size=8).map(lambda word: b"\xc7\x08\xff" + word),
    st.builds(
        lambda n, s: b"\xc7\x0c\xff" + n.to_bytes(4, "big") + s.to_bytes(8, "big", signed=True),
        MICROSECONDS | st.integers(0, 2**32 - 1),
        SECONDS,
    ),
)
GOOD_VALUES = st.one_of(
    st.integers(0, 255).filter(lambda byte: byte < 0x80 or byte >= 0xE0).map(lambda byte: bytes([byte])),
    st.sampled_from([b"\xc2", b"\xc3"]),
    *(
        words(lead, size)
        for lead, size in [(0xCC, 1), (0xCD, 2), (0xCE, 4), (0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8)]
    ),
    st.integers(0, 2**63 - 1).map(lambda number: b"\xcf" + number.to_bytes(8, "big")),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: struct.pack(">Bd", 0xCB, number)),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda number: struct.pack(">Bf", 0xCA, number)),
    strings(UTF8),
    st.binary(max_size=6).flatmap(
        lambda data: announced(len(data), 0, -1, 0xC4, 0xC5, 0xC6).map(lambda head: head + data)
    ),
)
DOUBTFUL_VALUES = st.one_of(
    TIMESTAMPS,
    strings(NEARLY_UTF8),
    words(0xCF, 8),
    words(0xCA, 4),
    words(0xCB, 8),
    st.sampled_from([b"\xcb\x7f\xf0" + bytes(6), b"\xcb\xff\xf8" + bytes(6), b"\xca\x7f\x80\x00\x00"]),
    st.sampled_from(
        [b"\xc0", b"\xc1", b"\x90", b"\x80", b"\x91\x01", b"\x81\xa1a\x01", b"\xd4\xff\x00", b"\xc7\x00\xff"]
    ),
    st.binary(min_size=1, max_size=12),
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Bodies of notifications put together token by token: most of them valid, in all widths, or nearly so."""
    doubt = draw(st.integers(0, 3))
    names = draw(st.lists(UTF8.filter(bool), max_size=4, unique=True))
    if doubt:
        names.sort()
    values = st.one_of(GOOD_VALUES, DOUBTFUL_VALUES, TIMESTAMPS) if doubt < 2 else st.one_of(GOOD_VALUES, TIMESTAMPS)
    pairs = [draw(strings(st.just(name))) + draw(values) for name in names]
    count = len(pairs) + draw(st.sampled_from([0, 0, 0, 1])) * (doubt == 0)
    document = draw(st.sampled_from([b"\x01", b"\x01", b"\xcc\x01", b"\xd3" + bytes(7) + b"\x01"]))
    document += draw(announced(count, 0x80, 15, 0xDE, 0xDF)) + b"".join(pairs)
    fields = 2
    if draw(st.booleans()):
        fields = 4
        document += draw(strings(UTF8.filter(bool) if doubt else NEARLY_UTF8))
        content = draw(st.binary(max_size=5))
        document += draw(announced(len(content), 0, -1, 0xC4, 0xC5, 0xC6)) + content
    if doubt == 0:
        fields = draw(st.sampled_from([fields, fields, 2, 3, 4]))
        document += draw(st.sampled_from([b"", b"", b"\x00"]))
    return draw(announced(fields, 0x90, 15, 0xDC, 0xDD)) + document


# -- the tests ---------------------------------------------------------------------------------------------------------


@both_forms
@every_kind
@given(data=st.binary(max_size=200))
def test_any_bytes(codec, cls, data):
    check_reader(codec, cls, data)


@both_forms
@every_kind
@given(data=st.data())
def test_damaged_documents(codec, cls, data):
    check_reader(codec, cls, data.draw(damaged(codec, DOCUMENTS[cls])))


@every_kind
@given(text=st.text())
def test_any_text(cls, text):
    check_reader(json, cls, text)


@every_kind
@given(data=st.data())
def test_json_put_together_from_pieces(cls, data):
    document = b"".join(data.draw(st.lists(st.sampled_from(FRAGMENTS[json]), max_size=12)))
    kind = cls.__name__.lower().encode()
    check_reader(json, cls, document)
    check_reader(json, cls, b'{"palio":1,"' + kind + b'":' + document + b"}")
    check_reader(json, cls, b'{"palio":1,"' + kind + b'":{"x":' + document + b"}}")
    check_reader(
        json, cls, b'{"palio":1,"' + kind + b'":[{"name":"x","type":"number","op":"=","value":' + document + b"}]}"
    )


@every_kind
@given(data=st.data())
def test_msgpack_put_together_from_pieces(cls, data):
    document = b"".join(data.draw(st.lists(st.sampled_from(FRAGMENTS[msgpack]) | GOOD_VALUES, max_size=12)))
    for head in (
        b"",
        b"\x92\x01",
        b"\x92\x01\x91",
        b"\x92\x01\x91\x91",
        b"\x92\x01\x94\xa1x\xa6number\xa1=",
        b"\x98\x01",
    ):
        check_reader(msgpack, cls, head + document)


@given(data=st.binary(max_size=100))
@example(b"\x92\x01\x80")
def test_readers_agree_on_any_bytes(data):
    check_body(data)
    check_body(b"\x92\x01" + data)
    check_body(b"\x92\x01\x81\xa1x" + data)


@given(data=bodies())
def test_readers_agree_on_bodies(data):
    check_body(data)


@given(data=damaged(msgpack, NOTIFICATIONS))
def test_readers_agree_on_damaged_bodies(data):
    check_body(data)


@given(data=st.data())
def test_readers_agree_on_damaged_tokens(data):
    whole = data.draw(bodies())
    place = data.draw(st.integers(0, len(whole)))
    piece = data.draw(st.sampled_from(FRAGMENTS[msgpack]) | st.binary(max_size=3))
    check_body(whole[:place] + piece + whole[place + data.draw(st.integers(0, 3)) :])


@given(value=GOOD_VALUES)
def test_values_that_are_good_are_taken(value):
    """So that agreement is not agreement to refuse."""
    assert check_reader(msgpack, Notification, b"\x92\x01\x81\xa1x" + value) is not None
    check_body(b"\x92\x01\x81\xa1x" + value)


@pytest.mark.slow
@pytest.mark.parametrize("attributes", [0, 1, 3])
def test_bodies_of_both_fates_are_drawn(attributes):
    def taken(data: bytes) -> bool:
        value = check_reader(msgpack, Notification, data)
        return value is not None and len(value) == attributes

    enough = settings(max_examples=10_000)
    find(bodies(), taken, settings=enough)
    find(bodies(), lambda data: check_reader(msgpack, Notification, data) is None, settings=enough)


@pytest.mark.parametrize("size", [255, 256, 257])
def test_readers_agree_at_the_limits_of_names(size):
    name = b"\xda" + size.to_bytes(2, "big") + b"n" * size
    check_body(b"\x92\x01\x81" + name + b"\x01")
    check_body(b"\x94\x01\x80" + name + b"\xc4\x00")


def test_readers_agree_on_filters_that_look_like_bodies():
    for value in (Filter(), Filter([Constraint("x", "any")]), Constraint("x", "any")):
        check_body(msgpack.encode(value))
