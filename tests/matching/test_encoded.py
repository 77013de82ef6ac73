"""Matching an encoded body is decoding it and matching: the same answers, and the same errors for the same bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, Limits, Notification
from palio.codec import msgpack
from palio.errors import CallerError, DecodeError, DecodeLimitError
from palio.matching import FilterIndex
from tests.codec.documents import DOCUMENTS, NOTIFICATIONS
from tests.codec.refusals import pack
from tests.codec.test_fuzz import DOUBTFUL_VALUES, FRAGMENTS, GOOD_VALUES, bodies, damaged
from tests.codec.test_limits import MEASURED, document_of
from tests.matching.strategies import aimed, filter_lists
from tests.matching.twins import body_batch, flat, pairs_of

FILTERS = [
    *(Filter(), Filter.parse("x any"), Filter.parse("x absent"), Filter.parse("x > 3"), Filter.parse("x <= 3.5")),
    *(Filter.parse('x = "a"'), Filter.parse('x * "a"'), Filter.parse("x = true"), Filter.parse("integer x any")),
    *(Filter.parse("float x any"), Filter.parse("time x any"), Filter.parse("bytes x any"), Filter.parse("a any")),
]
INDEX = FilterIndex(FILTERS)
EMPTY = FilterIndex()
"""An index without filters could answer without reading. It must not: the bytes are checked all the same."""
UNRELATED = FilterIndex([Filter.parse('"no such name" = 1')])


def outcome(read: object, body: bytes) -> object:
    """The result, or the error's class, message and limit."""
    try:
        return read(body)
    except DecodeError as error:
        return type(error), str(error), error.path, getattr(error, "limit", None), getattr(error, "allowed", None)


def check(body: bytes, limits: Limits = Limits(), index: FilterIndex = INDEX) -> bool:  # noqa: B008
    """Compare all three ways; say whether the body was taken."""
    decoded = outcome(lambda body: msgpack.decode(Notification, body, limits), body)
    taken = isinstance(decoded, Notification)
    for each in (index, EMPTY, UNRELATED) if index is INDEX else (index,):
        expected = each.match(decoded) if taken else decoded
        assert outcome(each.match_encoded, body) == expected
    return taken


@given(body=bodies())
def test_bodies_put_together(body):
    check(body)


@given(body=damaged(msgpack, NOTIFICATIONS))
def test_damaged_bodies(body):
    check(body)


@given(body=st.binary(max_size=60))
def test_any_bytes(body):
    check(body)
    check(b"\x92\x01" + body)
    check(b"\x92\x01\x81\xa1x" + body)


@given(value=GOOD_VALUES)
def test_every_width_of_every_value(value):
    """Values in forms that the encoder does not choose: they must be understood, not only taken."""
    assert check(b"\x92\x01\x81\xa1x" + value)


@given(value=DOUBTFUL_VALUES)
def test_doubtful_values(value):
    check(b"\x92\x01\x81\xa1x" + value)
    check(b"\x92\x01\x82\xa1!\x01\xa1x" + value)


@given(data=st.data())
def test_damaged_tokens(data):
    whole = data.draw(bodies())
    place = data.draw(st.integers(0, len(whole)))
    piece = data.draw(st.sampled_from(FRAGMENTS[msgpack]) | st.binary(max_size=3))
    check(whole[:place] + piece + whole[place + data.draw(st.integers(0, 3)) :])


@given(filters=filter_lists(), data=st.data())
def test_bodies_that_match_and_were_damaged(filters, data):
    """An answer that was certain after the first attributes does not excuse what comes after them."""
    index = FilterIndex(filters)
    body = msgpack.encode(data.draw(aimed(filters)).with_payload(b"payload", "text/plain"))
    assert check(body, index=index)
    place = data.draw(st.integers(0, len(body) - 1))
    check(body[:place], index=index)
    check(body[:place] + bytes([data.draw(st.integers(0, 255))]) + body[place + 1 :], index=index)


@pytest.mark.parametrize("cls", [cls for cls in DOCUMENTS if cls is not Notification], ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_documents_of_other_kinds(cls, data):
    check(msgpack.encode(data.draw(DOCUMENTS[cls])))


def test_every_cut():
    body = msgpack.encode(Notification(a="ä", b=-5, c=1.5, d=True, f=b"\xff" * 40).with_payload(b"data", "text/plain"))
    assert check(body)
    assert not any(check(body[:size]) for size in range(len(body)))
    assert not check(body + b"\0")


def test_names_out_of_order_or_repeated():
    for names in (b"\xa1x\x01\xa1a\x01", b"\xa1x\x01\xa1x\x01", b"\xa0\x01\xa1x\x01"):
        assert not check(b"\x92\x01\x82" + names)


def test_other_versions():
    for version in (0, 2, -1, 1.0, "1", None, True, 2**63 - 1):
        assert not check(pack(version, {"x": 1}))


# -- limits ------------------------------------------------------------------------------------------------------------

BODY_LIMITS = {name: case for name, case in MEASURED.items() if isinstance(case[1](2), Notification)}


@pytest.mark.parametrize(("limit", "make"), BODY_LIMITS.values(), ids=BODY_LIMITS)
@pytest.mark.parametrize("allowed", [2, 9, 40, None])
def test_limits_at_their_edge(limit, make, allowed):
    limits = Limits() if allowed is None else Limits(**{limit: allowed})
    allowed = getattr(limits, limit)
    for index in (FilterIndex([Filter()], limits=limits), FilterIndex(limits=limits)):
        assert check(msgpack.encode(make(allowed)), limits, index)
        body = msgpack.encode(make(allowed + 1))
        assert not check(body, limits, index)
        with pytest.raises(DecodeLimitError) as caught:
            index.match_encoded(body)
        assert (caught.value.limit, caught.value.allowed) == (limit, allowed)


@pytest.mark.parametrize("allowed", [40, 1_000, 2_097_152])
def test_limit_of_the_document(allowed):
    limits = Limits(document_bytes=allowed)
    index = FilterIndex([Filter()], limits=limits)
    assert check(document_of(msgpack, allowed), limits, index)
    assert not check(document_of(msgpack, allowed + 1), limits, index)
    assert not check(b"\xff" * (allowed + 1), limits, index)


def test_limits_beyond_all_bounds():
    limits = Limits(attributes=2**64, name_bytes=2**64, value_bytes=2**64, payload_bytes=2**64, document_bytes=2**64)
    index = FilterIndex([Filter.parse("x = 1")], limits=limits)
    assert len(index.match_encoded(msgpack.encode(Notification(x=1)))) == 1


def test_limits_hold_after_reopening(tmp_path):
    FilterIndex([Filter()]).dump(tmp_path / "index")
    limits = Limits(attributes=2)
    opened = FilterIndex.open(tmp_path / "index", limits=limits)
    assert check(msgpack.encode(Notification(a=1, b=2)), limits, opened)
    assert not check(msgpack.encode(Notification(a=1, b=2, c=3)), limits, opened)


# -- bodies in batches -------------------------------------------------------------------------------------------------


@given(good=st.lists(NOTIFICATIONS, max_size=3), body=bodies() | damaged(msgpack, NOTIFICATIONS))
def test_batches_refuse_what_single_bodies_refuse(good, body):
    batch = body_batch([*good, None, Notification(x=1)])
    column = [*batch.column("body").to_pylist(), body, msgpack.encode(Notification())]
    batch = pa.record_batch({"body": pa.array(column, pa.binary())})
    refused = outcome(INDEX.match_encoded, body)
    if isinstance(refused, tuple):
        for ask in (INDEX.match_batch, INDEX.match_counts):
            with pytest.raises(DecodeError) as caught:
                ask(batch, bodies="body")
            assert type(caught.value) is refused[0]
    else:
        expected = [[] if each is None else INDEX.match_encoded(each) for each in column]
        assert pairs_of(INDEX.match_batch(batch, bodies="body")) == flat(expected)
        assert list(INDEX.match_counts(batch, bodies="body")) == [len(ids) for ids in expected]


# -- what is no body ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, "x", 5, [1], Notification(x=1), ...], ids=repr)
def test_what_is_no_bytes(wrong):
    with pytest.raises(CallerError):
        msgpack.decode(Notification, wrong)
    with pytest.raises(CallerError):
        INDEX.match_encoded(wrong)


@pytest.mark.parametrize("cls", [bytearray, memoryview], ids=lambda cls: cls.__name__)
def test_other_bytes_are_taken_or_refused(cls):
    body = msgpack.encode(Notification(x=5))
    try:
        found = INDEX.match_encoded(cls(body))
    except CallerError:
        return
    assert found == INDEX.match_encoded(body)
