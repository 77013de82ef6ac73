"""Every limit that decoding knows, at its edge."""

from __future__ import annotations

from types import ModuleType

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
from palio.errors import DecodeLimitError
from tests.codec.documents import exact
from tests.codec.refusals import (
    both_forms,
    enveloped,
    every_class,
    pack,
    refuse,
    text,
)


def sized(size: int) -> str:
    """A string of so many bytes and fewer characters."""
    return "é" * (size // 2) + "x" * (size % 2)


def constraints(count: int) -> list[Constraint]:
    return [Constraint(f"x{number}", "any") for number in range(count)]


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
    "key": ("key_bytes", lambda size: enveloped(key=sized(size))),
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
