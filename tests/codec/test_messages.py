"""What the errors say."""

from __future__ import annotations

import pytest

from palio import (
    Advertisement,
    Constraint,
    Envelope,
    Filter,
    Limits,
    Notification,
    Pattern,
)
from palio.codec import json, msgpack
from tests.codec.refusals import (
    NOON,
    pack,
    refuse,
    text,
)

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


@pytest.mark.parametrize("name", ["a\n\x1b[31m", "a\u2028b", "\x7f"])
def test_a_name_in_a_path_cannot_draw_on_the_terminal(name):
    for codec, data in ((msgpack, pack(1, {name: None})), (json, text(notification={name: None}))):
        error = refuse(codec, Notification, data)
        assert str(error).isprintable()


def test_messages_of_decoding_have_one_line():
    error = refuse(json, Notification, text(notification={"x": {"time": "2026-02-30T00:00:00Z"}}), "no such instant")
    assert "\n" not in str(error)


def test_the_byte_that_messagepack_does_not_use_is_named():
    refuse(msgpack, Notification, b"\x92\x01\x81\xa1x\xc1", "byte 0xc1")
