"""Readers take what is exactly of the form and within the limits, and refuse everything else in good order."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import product
from types import ModuleType

import msgspec
import pytest

from palio import (
    Advertisement,
    Constraint,
    Envelope,
    Filter,
    Limits,
    Notification,
    NotificationId,
    Operator,
    Pattern,
    Payload,
)
from palio.codec import json, msgpack
from palio.errors import CallerError, DecodeError, DecodeLimitError
from tests.codec.documents import EPOCH, FORMS, exact

CLASSES = [Notification, Constraint, Filter, Advertisement, Pattern, Envelope]
HUGE = 10_000_000
ROOMY = Limits(document_bytes=4 * HUGE)
NOON = datetime(2026, 7, 2, 12, tzinfo=UTC)

both_forms = pytest.mark.parametrize("codec", [pytest.param(codec, id=name) for name, codec in FORMS.items()])
every_class = pytest.mark.parametrize("cls", CLASSES)


def pack(*fields: object) -> bytes:
    return msgspec.msgpack.encode(fields)


def text(**document: object) -> bytes:
    return msgspec.json.encode({"palio": 1, **document})


def refuse(codec: ModuleType, cls: type, data: bytes | str, fragment: str = "", limits: Limits = ROOMY) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        codec.decode(cls, data, limits)
    assert fragment in str(caught.value)
    return caught.value


# -- limits ------------------------------------------------------------------------------------------------------------


def sized(size: int) -> str:
    """A string of so many bytes and fewer characters."""
    return "é" * (size // 2) + "x" * (size % 2)


def constraints(count: int) -> list[Constraint]:
    return [Constraint(f"x{number}", "any") for number in range(count)]


def enveloped(origin: str = "a", publisher: str = "p", key: str = "k") -> Envelope:
    return Envelope(NotificationId(origin, 0, 0), NOON, publisher, NOON, key)


MEASURED = {
    "attributes": ("attributes", lambda size: Notification({f"x{number:04}": number for number in range(size)})),
    "attribute's name": ("name_bytes", lambda size: Notification({sized(size): 1})),
    "second name": ("name_bytes", lambda size: Notification({"!": 1, sized(size): 1})),
    "content type": ("name_bytes", lambda size: Notification().with_payload(b"", sized(size))),
    "constraint's name": ("name_bytes", lambda size: Constraint(sized(size), "any")),
    "name in a filter": ("name_bytes", lambda size: Filter([Constraint(sized(size), "=", 1)])),
    "name in an advertisement": ("name_bytes", lambda size: Advertisement([Constraint(sized(size), "=", 1)])),
    "name in a pattern": ("name_bytes", lambda size: Pattern([Filter(), Filter([Constraint(sized(size), "any")])])),
    "string value": ("value_bytes", lambda size: Notification(a=1, x=sized(size))),
    "bytes value": ("value_bytes", lambda size: Notification(a=1, x=bytes(size))),
    "payload": ("payload_bytes", lambda size: Notification().with_payload(bytes(size), "a")),
    "filter": ("constraints", lambda size: Filter(constraints(size))),
    "advertisement": ("constraints", lambda size: Advertisement(constraints(size))),
    "filter in a pattern": ("constraints", lambda size: Pattern([Filter(), Filter(constraints(size))])),
    "pattern": ("pattern_filters", lambda size: Pattern([Filter()] * size)),
    "string literal": ("literal_bytes", lambda size: Constraint("x", "!*", sized(size))),
    "bytes literal": ("literal_bytes", lambda size: Filter([Constraint("x", "<", bytes(size))])),
    "literal in an advertisement": ("literal_bytes", lambda size: Advertisement([Constraint("x", "=", sized(size))])),
    "origin": ("literal_bytes", lambda size: enveloped(origin=sized(size))),
    "publisher": ("literal_bytes", lambda size: enveloped(publisher=sized(size))),
    "key": ("literal_bytes", lambda size: enveloped(key=sized(size))),
}
"""For each place that a limit bounds: the limit, and a value of a given size at that place."""

everything_measured = pytest.mark.parametrize(("limit", "make"), MEASURED.values(), ids=MEASURED)


def check_edge(codec: ModuleType, limit: str, make: object, allowed: int, limits: Limits) -> None:
    fits, exceeds = make(allowed), make(allowed + 1)
    assert exact(codec.decode(type(fits), codec.encode(fits), limits)) == exact(fits)
    error = refuse(codec, type(exceeds), codec.encode(exceeds), f"limit {limit!r}", limits)
    assert isinstance(error, DecodeLimitError)
    assert (error.limit, error.allowed) == (limit, allowed)


@both_forms
@everything_measured
@pytest.mark.parametrize("allowed", [2, 9, 40])
def test_limit_that_was_set(codec, limit, make, allowed):
    check_edge(codec, limit, make, allowed, Limits(**{limit: allowed}))


@both_forms
@everything_measured
def test_default_limit(codec, limit, make):
    limits = Limits()
    check_edge(codec, limit, make, getattr(limits, limit), limits)


def document_of(codec: ModuleType, size: int) -> bytes:
    """A notification whose document has exactly so many bytes, and no value beyond its limit."""
    full = {f"x{number}": "x" * 262_000 for number in range(size // 262_100)}
    rest = size - len(codec.encode(Notification(full)))
    for padding in range(rest, -1, -1):
        data = codec.encode(Notification(full, y="y" * padding))
        if len(data) <= size:
            assert len(data) == size
            return data
    raise AssertionError(f"no document of {size} bytes")


@both_forms
@pytest.mark.parametrize("allowed", [40, 1_000, 2_097_152])
def test_limit_of_the_document(codec, allowed):
    limits = Limits(document_bytes=allowed)
    codec.decode(Notification, document_of(codec, allowed), limits)
    error = refuse(codec, Notification, document_of(codec, allowed + 1), limits=limits)
    assert isinstance(error, DecodeLimitError)
    assert (error.limit, error.allowed) == ("document_bytes", allowed)
    assert Limits().document_bytes == 2_097_152


@both_forms
@every_class
def test_size_of_the_document_is_checked_first(codec, cls):
    error = refuse(codec, cls, b"\xff" * 101, limits=Limits(document_bytes=100))
    assert isinstance(error, DecodeLimitError)
    assert error.limit == "document_bytes"
    assert not isinstance(refuse(codec, cls, b"\xff" * 100, limits=Limits(document_bytes=100)), DecodeLimitError)


def test_size_of_json_text_is_counted_in_bytes():
    document = '{"palio":1,"notification":{"x":"éé"}}'
    limits = Limits(document_bytes=len(document.encode()))
    assert json.decode(Notification, document, limits)["x"] == "éé"
    assert isinstance(refuse(json, Notification, document + " ", limits=limits), DecodeLimitError)


@both_forms
def test_constraints_are_counted_as_written(codec):
    """Repeated constraints fall together, but not before they were counted."""
    row = ("x", "any", "any") if codec is msgpack else {"name": "x", "type": "any", "op": "any"}
    for cls, key in ((Filter, "filter"), (Advertisement, "advertisement")):
        three, four = ([row] * 3, [row] * 4)
        limits = Limits(constraints=3)
        data = [pack(1, rows) if codec is msgpack else text(**{key: rows}) for rows in (three, four)]
        assert len(codec.decode(cls, data[0], limits)) == 1
        assert isinstance(refuse(codec, cls, data[1], limits=limits), DecodeLimitError)


@both_forms
def test_limits_that_do_not_concern_a_document(codec):
    """A limit bounds its own places only."""
    tight = Limits(text_characters=1, nesting=1, union_filters=1, constraints=1, pattern_filters=1, literal_bytes=1)
    notification = Notification(long="x" * 100, other=1).with_payload(b"x" * 100, "text/plain")
    assert codec.decode(Notification, codec.encode(notification), tight) == notification
    tight = Limits(text_characters=1, nesting=1, union_filters=1, attributes=1, value_bytes=1, payload_bytes=1)
    pattern = Pattern([Filter([Constraint("a", "=", "x" * 100), Constraint("b", "any")])] * 2)
    assert exact(codec.decode(Pattern, codec.encode(pattern), tight)) == exact(pattern)
    assert codec.decode(Envelope, codec.encode(enveloped("x" * 100)), tight) == enveloped("x" * 100)


@both_forms
def test_limits_may_be_beyond_all_bounds(codec):
    unlimited = Limits(attributes=2**64, name_bytes=2**64, value_bytes=2**64, payload_bytes=2**64)
    assert codec.decode(Notification, codec.encode(Notification(x=1)), unlimited) == Notification(x=1)


# -- input that is cut, lengthened or of the wrong kind ----------------------------------------------------------------

SAMPLES = [
    Notification(a="ä", b=-5, c=1.5, d=True, e=NOON, f=b"\xff" * 40).with_payload(b"data", "text/plain"),
    Constraint("level", ">", 3, type="integer"),
    Filter.parse('event = "alarm" and level > 300 and user absent and note any'),
    Advertisement.parse('event in ("alarm", "login"); float level any'),
    Pattern.parse('a = "x" then b < 2026-07-02T12:00:00.5Z then true'),
    enveloped(),
]
every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)


@both_forms
@every_sample
def test_every_shorter_input_is_refused(codec, sample):
    data = codec.encode(sample)
    for size in range(len(data)):
        refuse(codec, type(sample), data[:size])


@both_forms
@every_sample
def test_every_byte_too_many_is_refused(codec, sample):
    data = codec.encode(sample)
    white = b" \t\r\n" if codec is json else b""
    for byte in range(256):
        if byte not in white:
            refuse(codec, type(sample), data + bytes([byte]))
    refuse(codec, type(sample), data + data)


@both_forms
@every_sample
def test_documents_of_other_kinds_are_refused(codec, sample):
    alike = {Filter, Advertisement} if codec is msgpack else {type(sample)}
    for cls in CLASSES:
        if cls is not type(sample) and not {cls, type(sample)} <= alike:
            refuse(codec, cls, codec.encode(sample))


@every_sample
def test_other_versions_are_refused(sample):
    data = msgpack.encode(sample)
    assert data[1] == 1
    for version in (0, 2, -1, 127, 128, 2**32, 1.0, True, None, "1", b"1", [], [1]):
        refuse(msgpack, type(sample), data[:1] + msgspec.msgpack.encode(version) + data[2:], "version")
    document = json.encode(sample)
    for version in ("0", "2", "-1", "4294967296", "1.0", "1e0", "true", "null", '"1"', "[]", "[1]", "{}"):
        refuse(json, type(sample), document.replace(b'"palio":1', f'"palio":{version}'.encode()), "version")
    refuse(json, type(sample), document.replace(b'"palio":1,', b""), "version")


@every_class
def test_what_is_no_document_at_all(cls):
    for data in (
        b"",
        b"\xc0",
        b"\x01",
        b"\xa0",
        b"\x90",
        b"\x91\x01",
        b"\x80",
        b"\xdc\x00\x00",
        b"\xdd\x00\x00\x00\x00",
    ):
        refuse(msgpack, cls, data)
    for data in (
        b"",
        b" ",
        b"null",
        b"1",
        b'""',
        b"[]",
        b"{}",
        b'{"palio":1}',
        b"\xef\xbb\xbf{}",
        b"\x00",
        b"{'palio':1}",
    ):
        refuse(json, cls, data)


@pytest.mark.parametrize("cls", [int, str, object, Payload, NotificationId, Operator, type(None)])
@both_forms
def test_unknown_classes_are_the_callers_fault(codec, cls):
    data = codec.encode(Filter())
    with pytest.raises(CallerError, match="no encoded form"):
        codec.decode(cls, data)


@pytest.mark.parametrize("value", [None, 5, "x", b"x", [], {}, Payload(b""), NotificationId("a", 0, 0), Filter, NOON])
@both_forms
def test_other_values_have_no_encoded_form(codec, value):
    with pytest.raises(CallerError, match="no encoded form"):
        codec.encode(value)


@every_class
@pytest.mark.parametrize("data", [None, 5, 1.5, object()])
@both_forms
def test_input_that_is_no_bytes(codec, cls, data):
    with pytest.raises((TypeError, CallerError)):
        codec.decode(cls, data)


@every_class
def test_msgpack_is_no_text(cls):
    with pytest.raises((TypeError, CallerError)):
        msgpack.decode(cls, "\x92\x01\x80")


@every_sample
def test_json_is_read_from_text_too(sample):
    assert exact(json.decode(type(sample), json.encode(sample).decode())) == exact(sample)


@every_class
def test_json_text_with_lone_surrogates(cls):
    refuse(json, cls, "\ud800", "not UTF-8")
    refuse(json, cls, '{"palio":1,"notification":{"x":"\udfff"}}', "not UTF-8")


def test_a_list_of_integers_is_no_bytes():
    with pytest.raises(CallerError, match="a document is bytes, not list"):
        msgpack.decode(Notification, list(msgpack.encode(Notification())))


@pytest.mark.parametrize("like", [bytearray, memoryview])
def test_bytes_like_input_is_taken_everywhere(like):
    for sample, codec in product(SAMPLES, FORMS.values()):
        assert exact(codec.decode(type(sample), like(codec.encode(sample)))) == exact(sample)


# -- MessagePack, token by token ---------------------------------------------------------------------------------------


def body(token: bytes) -> bytes:
    return b"\x92\x01\x81\xa1x" + token


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


# -- JSON --------------------------------------------------------------------------------------------------------------


@every_class
def test_json_that_is_not_utf8(cls):
    for broken in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98", b"\x80"):
        refuse(json, cls, b'{"palio":1,"notification":{"x":"' + broken + b'"}}', "not UTF-8 at byte 32")
        refuse(json, cls, broken, "not UTF-8 at byte 0")
    for encoding in ("utf-16", "utf-16-le", "utf-32", "utf-8-sig"):
        refuse(json, cls, '{"palio":1,"notification":{}}'.encode(encoding))


@pytest.mark.parametrize(
    "number",
    [
        "NaN", "Infinity", "-Infinity", "nan", "+1", "01", "-01", "1.", ".5", "1e", "0x10", "1_000", "--1", "-",
        "1e309", "-1e309", "9223372036854775808", "-9223372036854775809", "1" * 5000, "-" + "9" * 100_000, "٣",
        "true1", "True", "undefined",
    ],
)  # fmt: skip
def test_json_numbers_that_are_none(number):
    refuse(json, Notification, f'{{"palio":1,"notification":{{"x":{number}}}}}')
    refuse(json, Constraint, f'{{"palio":1,"constraint":{{"name":"x","type":"number","op":"=","value":{number}}}}}')


@pytest.mark.parametrize(
    ("digits", "expected"),
    [("0", 0), ("-1", -1), ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63))],
)
def test_json_tagged_integers(digits, expected):
    assert json.decode(Notification, text(notification={"x": {"integer": digits}}))["x"] == expected
    assert json.decode(Notification, f'{{"palio":1,"notification":{{"x":{{"integer":{digits}}}}}}}')["x"] == expected


@pytest.mark.parametrize(
    "wrong",
    ["", "-", "+1", "1.0", "1e3", " 1", "1 ", "1\n", "٣", "0x1", "9223372036854775808", "1" * 20, 1.0, True, None],
)
def test_json_tagged_integers_that_are_none(wrong):
    refuse(json, Notification, text(notification={"x": {"integer": wrong}}))


@pytest.mark.parametrize("wrong", ["5", True, None, [], {"float": 5}])
def test_json_tagged_floats_that_are_none(wrong):
    refuse(json, Notification, text(notification={"x": {"float": wrong}}))


@pytest.mark.parametrize(
    "wrong",
    [
        "", "now", "2026-07-02", "2026-07-02T12:00:00", "12:00:00Z", "2026-07-02T12:00:00.Z",
        "2026-07-02T12:00:00.1234567Z", "2026-07-02T24:00:00Z", "2026-02-29T12:00:00Z", "2026-13-01T12:00:00Z",
        "2026-07-02T12:00:60Z", "26-07-02T12:00Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01", "10000-01-01T00:00:00Z", "2026-07-02T12:00:00+24:00", "2026-07-02T12:00:00+2",
        " 2026-07-02T12:00:00Z", "2026-07-02T12:00:00Z ", "Z" * 70_000, "Thu Jul 2 12:00:00 UTC 2026",
        "Jul 2 12:00:00 UTC 2026", "2026-07-02T12Z", "2026-W27-4T12:00Z", 5, 1.5, True, None,
        "\u0662\u0660\u0662\u0666-07-02T12:00:00Z", "\uff12026-07-02T12:00:00Z", "2026-07-02T12:00:0\u0660Z",
        "\u00b2026-07-02T12:00:00Z", "2026-07-02T12:00:00Z\0", "2026-07-02T12:00:00Z\n", "-2026-07-02T12:00:00Z",
    ],
)  # fmt: skip
def test_json_times_that_are_none(wrong):
    error = refuse(json, Notification, text(notification={"x": {"time": wrong}}))
    assert error.path == "notification[x].time"
    fields = {"origin": "a", "incarnation": 0, "sequence": 0, "published": wrong, "publisher": "p"}
    assert refuse(json, Envelope, text(envelope=fields)).path == "envelope.published"


def test_json_times_have_offsets_of_at_most_59_minutes():
    refuse(json, Notification, text(notification={"x": {"time": "2026-07-02T12:00:00+00:60"}}))


@pytest.mark.parametrize(
    "wrong",
    ["A", "AA", "AA=", "AB==", "AAB=", "AAAA=", "AA==AA==", "A-_A", "AA==\n", " AAAA", "AA AA", "é===", 5, None, []],
)
def test_json_bytes_that_are_none(wrong):
    assert refuse(json, Notification, text(notification={"x": {"bytes": wrong}})).path == "notification[x].bytes"
    document = text(notification={}, payload={"content_type": "a", "data": wrong})
    assert refuse(json, Notification, document).path == "payload.data"


@pytest.mark.parametrize("wrong", [None, 5, True, "", [], {}, "\ud800"])
def test_json_content_types_that_are_none(wrong):
    content_type = r'"\ud800"' if wrong == "\ud800" else msgspec.json.encode(wrong).decode()
    document = f'{{"palio":1,"notification":{{}},"payload":{{"content_type":{content_type},"data":""}}}}'
    assert refuse(json, Notification, document).path == "payload"


@pytest.mark.parametrize("escaped", [r"\ud800", r"\udfff", r"\udc00\ud800", r"a\ud800b", r"\uD83D", r"\ud83d\u0041"])
def test_json_lone_surrogates(escaped):
    refuse(json, Notification, f'{{"palio":1,"notification":{{"x":"{escaped}"}}}}', "surrogate")
    refuse(json, Notification, f'{{"palio":1,"notification":{{"{escaped}":1}}}}', "surrogate")
    refuse(json, Constraint, f'{{"palio":1,"constraint":{{"name":"{escaped}","type":"any","op":"any"}}}}', "surrogate")
    row = f'{{"name":"x","type":"string","op":"=","value":"{escaped}"}}'
    refuse(json, Constraint, f'{{"palio":1,"constraint":{row}}}', "surrogate")
    for field in ("origin", "publisher", "key"):
        document = json.encode(enveloped()).decode().replace(f'"{field}":"', f'"{field}":"{escaped}')
        refuse(json, Envelope, document, "surrogate")


@every_sample
def test_json_keys(sample):
    """One key more, one key less and one key twice are refused in every object but the attributes."""
    document = json.encode(sample).decode()
    refuse(json, type(sample), document[:-1] + ',"more":1}', "unknown key 'more'")
    refuse(json, type(sample), '{"palio":1,' + document[1:], "key 'palio' given twice")
    for key in (
        "name",
        "type",
        "op",
        "origin",
        "incarnation",
        "sequence",
        "published",
        "publisher",
        "content_type",
        "data",
    ):
        if f'"{key}":' in document:
            refuse(json, type(sample), document.replace(f'"{key}":', f'"{key}s":', 1), f"key '{key}' is missing")
            refuse(json, type(sample), document.replace(f'"{key}":', f'"{key}":0,"{key}":', 1), "given twice")
            refuse(json, type(sample), document.replace(f'"{key}":', f'"more":0,"{key}":', 1), "unknown key 'more'")


@pytest.mark.parametrize("key", ["expires", "key"])
def test_json_has_no_null_for_what_is_missing(key):
    fields = {"origin": "a", "incarnation": 0, "sequence": 0, "published": "2026-07-02T12:00:00Z", "publisher": "p"}
    json.decode(Envelope, text(envelope=fields))
    refuse(json, Envelope, text(envelope={**fields, key: None}))


# -- what a hostile peer may send --------------------------------------------------------------------------------------

HOSTILE_TEXTS = {
    "brackets": lambda: b"[" * HUGE,
    "brackets that close": lambda: b"[" * (HUGE // 2) + b"]" * (HUGE // 2),
    "brackets in pairs": lambda: b"[]" * (HUGE // 20),
    "closing brackets": lambda: b"]" * (HUGE // 10),
    "braces": lambda: b"{" * HUGE,
    "objects": lambda: b'{"a":' * (HUGE // 5),
    "brackets in an attribute": lambda: b'{"palio":1,"notification":{"x":' + b"[" * HUGE,
    "objects in an attribute": lambda: b'{"palio":1,"notification":{"x":' + b'{"time":' * (HUGE // 8),
    "brackets in a filter": lambda: b'{"palio":1,"filter":' + b"[" * HUGE + b"]" * HUGE + b"}",
    "brackets in a pattern": lambda: b'{"palio":1,"pattern":[[' + b"[" * HUGE,
    "brackets in a version": lambda: b'{"palio":' + b"[" * HUGE,
    "brackets after a string with brackets": lambda: b'{"palio":"]]]]]\\"]]]","x":' + b"[" * HUGE,
    "minus signs": lambda: b"-" * HUGE,
    "digits": lambda: b"9" * HUGE,
    "quotes": lambda: b'"' * (HUGE // 10),
    "zeros": lambda: bytes(HUGE),
}
HOSTILE_BYTES = {
    "arrays": lambda: b"\x91" * HUGE,
    "arrays of two": lambda: b"\x92" * HUGE,
    "empty arrays": lambda: b"\xdd" + (HUGE // 10).to_bytes(4, "big") + b"\x90" * (HUGE // 10),
    "arrays 16": lambda: b"\xdc\x00\x01" * (HUGE // 3),
    "maps": lambda: b"\x81" * HUGE,
    "maps with keys": lambda: b"\x81\xa1a" * (HUGE // 3),
    "arrays in an attribute": lambda: body(b"\x91" * HUGE),
    "maps in an attribute": lambda: body(b"\x81\xa1a" * (HUGE // 3)),
    "arrays in a filter": lambda: b"\x92\x01" + b"\x91" * HUGE,
    "maps in a filter": lambda: b"\x92\x01" + b"\x81" * HUGE,
    "arrays as the version": lambda: b"\x92" + b"\x91" * HUGE,
    "arrays as a name": lambda: b"\x92\x01\x81" + b"\x91" * HUGE,
    "names that ask for more": lambda: b"\x92\x01\xdf\xff\xff\xff\xff" + b"\xa1x" * (HUGE // 2),
    "zeros": lambda: bytes(HUGE),
}


@pytest.mark.parametrize("make", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_hostile_json(make):
    data = make()
    for cls in CLASSES:
        refuse(json, cls, data)
    if len(data) > Limits().document_bytes:
        assert isinstance(refuse(json, Notification, data, limits=Limits()), DecodeLimitError)


@pytest.mark.parametrize("make", HOSTILE_BYTES.values(), ids=HOSTILE_BYTES)
def test_hostile_msgpack(make):
    data = make()
    for cls in CLASSES:
        refuse(msgpack, cls, data)
    if len(data) > Limits().document_bytes:
        assert isinstance(refuse(msgpack, Notification, data, limits=Limits()), DecodeLimitError)


@both_forms
def test_depth_is_bounded_exactly(codec):
    """Eight levels are looked at, nine are not; no document has more than five."""
    for depth, fragment in ((8, "expected"), (9, "nested deeper")):
        if codec is msgpack:
            data = b"\x92\x01" + b"\x91" * (depth - 2) + b"\x90"
        else:
            data = b'{"palio":1,"pattern":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
        refuse(codec, Pattern, data, fragment)


def test_depth_is_not_confused_by_strings():
    for string in ("[" * 20, "{" * 20, '"[[[[[[[[[[', "\\", '\\"[[[[[[[[[[\\', "]" * 20, "é[[[[[[[[[[\n[[[["):
        notification = Notification({string: string, "~": "["})
        assert json.decode(Notification, json.encode(notification)) == notification
    refuse(json, Notification, '{"palio":1,"notification":{"x":"]]]]]]]]]]","y":' + "[" * 20, "nested deeper")


def test_little_stack_is_enough():
    """Under a low recursion limit, and deep in a chain of calls, documents are read and refused as always."""
    script = """
import sys
from palio import *
from palio.codec import json, msgpack
from palio.errors import DecodeError

room = Limits(document_bytes=2**30)
pattern = Pattern.parse('a = "x" and b < 5 then at > 2026-07-02T12:00:00Z')
hostile = {json: [b"[" * 10**7, b'{"a":' * 10**6, b'{"palio":1,"filter":' + b"[" * 10**6],
           msgpack: [b"\\x91" * 10**7, b"\\x81" * 10**7, b"\\x92\\x01" + b"\\x91" * 10**6,
                     b"\\x92\\x01\\x81\\xa1x" + b"\\x91" * 10**6]}

def check():
    for codec, inputs in hostile.items():
        assert codec.decode(Pattern, codec.encode(pattern)) == pattern
        for data in inputs:
            for cls in (Notification, Constraint, Filter, Advertisement, Pattern, Envelope):
                try:
                    codec.decode(cls, data, room)
                except DecodeError:
                    continue
                raise AssertionError(f"{codec.__name__} took {data[:10]!r} for a {cls.__name__}")

def deep(levels):
    return deep(levels - 1) if levels else check()

check()
deep(sys.getrecursionlimit() - 100)
sys.setrecursionlimit(120)
check()
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    "document",
    [
        """'"' + '\\\\"' * 250_000""",
        """'{"palio":1,' + ",".join(f'"k{n}":0' for n in range(100_000)) + ',"z":0,"z":0}'""",
    ],
    ids=["open string full of escaped quotes", "many keys before one that is given twice"],
)
def test_time_is_linear_in_the_input(document):
    """Half a megabyte takes a fraction of a second; three seconds of processor time are plenty."""
    script = f"""
import resource
from palio import Notification
from palio.codec import json
from palio.errors import DecodeError

resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
try:
    json.decode(Notification, {document})
except DecodeError:
    print("refused")
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.stdout == "refused\n", run.stderr


# -- what the errors say -----------------------------------------------------------------------------------------------

ROW = ("x", "number", "=", 5)
BAD_ROW = ("x", "number", "~", 5)
JSON_ROW = {"name": "x", "type": "number", "op": "=", "value": 5}
JSON_BAD_ROW = {**JSON_ROW, "op": "~"}
JSON_ENVELOPE = {"origin": "", "incarnation": 0, "sequence": 0, "published": "2026-07-02T12:00:00Z", "publisher": "p"}

PATHS = [
    (msgpack, Notification, b"\x92\x01\x82\xa1a\x01\xa1b\xc0", "attributes[b]"),
    (msgpack, Notification, b"\x92\x01\x82\xa1b\x01\xa1a\x01", "attributes[a]"),
    (msgpack, Notification, b"\x92\x01\x81\xa2\xc3\xa9\xa1\xff", "attributes[é]"),
    (msgpack, Notification, pack(1, {"x": "y" * 300_000}), "attributes[x]"),
    (msgpack, Notification, pack(1, {}, "", b""), "payload"),
    (msgpack, Constraint, pack(1, BAD_ROW), "constraint"),
    (msgpack, Constraint, pack(1, ("x" * 300, "any", "any")), "constraint.name"),
    (msgpack, Constraint, pack(1, ("x", 5, "any")), "constraint.type"),
    (msgpack, Constraint, pack(1, ("x", "any", 5)), "constraint.op"),
    (msgpack, Constraint, pack(1, ("x", "string", "=", None)), "constraint.value"),
    (msgpack, Filter, pack(1, [ROW, ROW, BAD_ROW]), "constraints[2]"),
    (msgpack, Filter, pack(1, [("x", "string", "=", "y" * 5_000)]), "constraints[0].value"),
    (msgpack, Filter, pack(1, [ROW] * 257), "constraints"),
    (msgpack, Advertisement, pack(1, [ROW, ("x", "any", "absent")]), "constraints"),
    (msgpack, Pattern, pack(1, []), "filters"),
    (msgpack, Pattern, pack(1, [[ROW], [ROW, BAD_ROW]]), "filters[1][1]"),
    (msgpack, Pattern, pack(1, [[ROW], 5]), "filters[1]"),
    (msgpack, Envelope, pack(1, "", 0, 0, NOON, "p", None, None), "envelope"),
    (json, Notification, text(notification={"a": 1, "b": None}), "notification[b]"),
    (json, Notification, text(notification={"b": 1, "a": 1}), "notification[a]"),
    (json, Notification, text(notification={"é": {"bytes": "?"}}), "notification[é].bytes"),
    (json, Notification, text(notification={"x": "y" * 300_000}), "notification[x]"),
    (json, Notification, text(notification={f"{n:04}": n for n in range(1_025)}), "notification"),
    (json, Notification, text(notification={}, payload={"content_type": "", "data": ""}), "payload"),
    (json, Notification, text(notification={}, payload={"content_type": "a", "data": "?"}), "payload.data"),
    (
        json,
        Notification,
        text(notification={}, payload={"content_type": "a" * 300, "data": ""}),
        "payload.content_type",
    ),
    (json, Constraint, text(constraint=JSON_BAD_ROW), "constraint"),
    (json, Constraint, text(constraint={**JSON_ROW, "name": 5}), "constraint.name"),
    (json, Constraint, text(constraint={**JSON_ROW, "value": {"time": "now"}}), "constraint.value.time"),
    (json, Filter, text(filter=[JSON_ROW, JSON_BAD_ROW]), "filter[1]"),
    (json, Filter, text(filter=[JSON_ROW] * 257), "filter"),
    (json, Advertisement, text(advertisement=[{"name": "x", "type": "any", "op": "absent"}]), "advertisement"),
    (json, Pattern, text(pattern=[[JSON_ROW], [JSON_ROW, JSON_BAD_ROW]]), "pattern[1][1]"),
    (json, Pattern, text(pattern=[]), "pattern"),
    (json, Envelope, text(envelope=JSON_ENVELOPE), "envelope"),
    (json, Envelope, text(envelope={**JSON_ENVELOPE, "expires": "now"}), "envelope.expires"),
    (json, Filter, b'{"palio":1,\n "filter":}', "line 2 column 11"),
    (json, Filter, b'{"palio":1,"filter":' + b"[" * 9, "character 27"),
]


@pytest.mark.parametrize(
    ("codec", "cls", "data", "path"), PATHS, ids=lambda part: part if isinstance(part, str) else ""
)
def test_errors_name_the_place(codec, cls, data, path):
    error = refuse(codec, cls, data, limits=Limits())
    assert error.path == path
    assert str(error) == f"{path}: {error.problem}"


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (msgpack, pack(1, {f"{n:04}": n for n in range(1_025)})),
        (msgpack, pack(1, {"x" * 300: 1})),
        (msgpack, pack(1, {"": 1})),
        (msgpack, b"\x92\x01\x81\xa1\xff\x01"),
        (msgpack, b"\x92\x01\x81\x01\x01"),
        (msgpack, pack(1, {}, "a" * 300, b"")),
        (msgpack, pack(1, {}, None, b"")),
        (msgpack, pack(1, {}, "a", None)),
        (msgpack, pack(1, {}, "a", bytes(1_048_577))),
        (json, text(notification={"x": {"integer": "9" * 19}})),
    ],
    ids=[
        "attributes",
        "long name",
        "empty name",
        "name not UTF-8",
        "name no string",
        "long content type",
        "content type no string",
        "data no bytes",
        "long data",
        "tagged integer",
    ],
)
def test_errors_name_the_part(codec, data):
    assert refuse(codec, Notification, data, limits=Limits()).path


@pytest.mark.parametrize(
    ("codec", "cls", "data"),
    [
        (json, Notification, text(notification={"x" * 100_000: 1})),
        (json, Notification, rb'{"palio":1,"notification":{"\ud800":null}}'),
        (json, Notification, text(**{"notification": {}, "x" * 100_000: 1})),
        (msgpack, Constraint, pack(1, ("x", "any", "y" * 100_000))),
        (msgpack, Filter, pack("1" * 100_000, [])),
        (msgpack, Envelope, pack(1, "a", "9" * 100_000, 0, NOON, "p", None, None)),
    ],
    ids=["name", "surrogate", "key", "operator", "version", "incarnation"],
)
def test_messages_are_short_and_can_be_printed(codec, cls, data):
    message = str(refuse(codec, cls, data, limits=Limits()))
    assert len(message) < 2_000
    message.encode()
