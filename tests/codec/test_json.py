"""JSON, value by value."""

from __future__ import annotations

import msgspec
import pytest

from palio import (
    Constraint,
    Envelope,
    Notification,
)
from palio.codec import json
from tests.codec.refusals import (
    enveloped,
    every_class,
    every_sample,
    refuse,
    text,
)


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


@pytest.mark.parametrize("digits", ["007", "-0", "00", "-07", "+7", " 7", "7 ", "\u0667"])
def test_json_tagged_integers_have_one_spelling(digits):
    refuse(json, Notification, text(notification={"x": {"integer": digits}}), "expected an integer")


def test_json_tagged_floats_are_not_rounded():
    assert json.decode(Notification, text(notification={"x": {"float": 2**53}})) == Notification(x=2.0**53)
    refuse(json, Notification, text(notification={"x": {"float": 2**53 + 1}}), "9007199254740993 is no float")
