"""Input that is cut, lengthened or of the wrong kind is refused in good order."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from palio import (
    Advertisement,
    Filter,
    Notification,
    NotificationId,
    Operator,
    Payload,
)
from palio.codec import json, msgpack
from palio.errors import CallerError
from tests.codec.documents import FORMS, exact
from tests.codec.refusals import (
    CLASSES,
    NOON,
    SAMPLES,
    both_forms,
    every_class,
    every_sample,
    refuse,
)


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


@both_forms
@pytest.mark.parametrize("cls", ["Filter", [], None, 5, int, object])
def test_what_is_no_class_of_the_model(codec, cls):
    with pytest.raises(CallerError, match="has no encoded form"):
        codec.decode(cls, b"")
