"""What enters one server passes every later door: other servers, stores, logs, archives, clients, and restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palio import Advertisement, Constraint, Filter, Limits, Notification, Pattern
from palio._core import EventTables
from palio.codec import control, frames, msgpack
from palio.errors import DecodeError, PalioError
from palio.link import wire
from palio.link.frames import Data
from palio.matching import FilterIndex
from palio.model import PROTOCOL_LIMITS
from palio.model.limits import DEFAULT_LIMITS, HIGHEST_LIMITS, READING_LIMITS, WIRE_FIELDS
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.node.party_log import Keep
from palio.node.records import decode_value, encode_value
from palio.routing.border import Border, Gateway
from palio.routing.messages import Advertise, Delegate, Message, Publish, Subscribe
from tests.node.durable import Durable

KEY = Keep(window=10)


def limits_from(draw: Callable[[st.SearchStrategy[int]], int]) -> Limits:
    """Limits that an operator may configure; small ones, so that edges are reached, but for one that is the highest."""
    small = {
        "constraints": 6, "pattern_filters": 3, "attributes": 4, "name_bytes": 8, "literal_bytes": 12,
        "value_bytes": 20, "payload_bytes": 20, "document_bytes": 400, "key_bytes": 30,
    }  # fmt: skip
    chosen = {name: draw(st.integers(1, most)) for name, most in small.items()}
    return Limits(**{**chosen, "document_bytes": draw(st.integers(40, 400))})


@st.composite
def pairs(draw: Any) -> tuple[Limits, Limits]:
    return limits_from(draw), limits_from(draw)


_TEXTS = st.text("aé\x00", max_size=24)
_VALUES = _TEXTS | st.integers(-5, 5) | st.floats(-1, 1, width=32) | st.binary(max_size=24)
_NAMES = st.text("xé", min_size=1, max_size=10)
_NOTIFICATIONS = st.builds(
    lambda attributes, payload: (
        Notification(attributes) if payload is None else Notification(attributes).with_payload(payload)
    ),
    st.dictionaries(_NAMES, _VALUES, max_size=5),
    st.none() | st.binary(max_size=24),
)
_CONSTRAINTS = st.builds(Constraint, _NAMES, st.sampled_from(["=", "!=", "<", ">="]), _VALUES)
_FILTERS = st.lists(_CONSTRAINTS, max_size=7).map(Filter)


def enter(node: Node, party: str, notification: Notification, key: str) -> list[Any]:
    """Publish as connections do; what goes out of the node."""
    content = frames.publish_with(notification, frames.Options(key=key), 1)[frames.HEADER :]
    return node.handle([ports.PublishWith(party, content)], 1)


def accepted(outputs: list[Any]) -> bool:
    return not any(isinstance(each, ports.Reply) and each.problem is not None for each in outputs)


def pass_on(message: Message) -> Message:
    """Through the door of another server."""
    frame = wire.decode(wire.encode(Data((1, "milan", 0), 0, (message,), 0)))
    assert isinstance(frame, Data)
    assert wire.decode_message(wire.encode_message(message)) == message
    return frame.messages[0]


@given(pairs(), _NOTIFICATIONS, _TEXTS.filter(bool), st.text("p", min_size=1, max_size=1_024))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_publication(both: tuple[Limits, Limits], notification: Notification, key: str, party: str) -> None:
    milan = Node(NodeSettings("milan", "ce", limits=both[0]))
    milan.handle([ports.Request("me", 1, ports.Subscribe(Filter()))], 0)
    outputs = enter(milan, party, notification, key)
    if not accepted(outputs):
        return
    (delivered,) = [each.notification for each in outputs if isinstance(each, ports.Deliver)]
    rome = Durable(limits=both[1], server="rome", architecture="as")
    rome.handle([ports.Attach("me", KEY, 1), ports.Request("me", 1, ports.Subscribe(Filter()))], 0)
    arrived = pass_on(Publish(delivered))
    assert isinstance(arrived, Publish)
    rome.node.logs.deliver(["me"], arrived.notification, 1)
    rome.handle([], 1)
    rome.die(2)  # what is in the log is read again
    (block,) = [
        each
        for each in rome.handle([ports.Attach("me", KEY, 2)], 3)
        if isinstance(each, ports.DeliverBlock | ports.Deliver)
    ]
    data = block.frames if isinstance(block, ports.DeliverBlock) else frames.deliver(block.notification)
    ((_, content),) = frames.frames_of(data)
    found = frames.delivered(content)  # the door of a client
    assert found == notification
    assert found.envelope == delivered.envelope
    assert decode_value(encode_value(found)) == notification
    tables = EventTables("milan", str.casefold, tables=4, columns=100, bytes=1 << 20)
    assert tables.add(data, 0, 0) == len(data)
    assert not tables.take_bad()


@given(pairs(), _FILTERS)
def test_a_subscription(both: tuple[Limits, Limits], filter: Filter) -> None:
    try:
        entered = msgpack.decode(Filter, msgpack.encode(filter), both[0])
    except DecodeError:
        return
    rome = Node(NodeSettings("rome", "as", limits=both[1]))
    for wording in (entered, entered.canonical()):
        message = pass_on(Subscribe(wording))
        assert message == Subscribe(wording)
        assert isinstance(message, Subscribe)
        rome.router.connect("milan", ports.Role.PEER)
        rome.router.receive("milan", message)
        rome.router.disconnect("milan")
        kind, raw = control.document(wording)
        assert control.subject(kind, raw) == wording
        assert decode_value(encode_value(wording)) == wording
        FilterIndex(limits=PROTOCOL_LIMITS).add(wording)


@given(pairs(), st.lists(_CONSTRAINTS, max_size=7).map(Advertisement))
def test_an_advertisement(both: tuple[Limits, Limits], advertisement: Advertisement) -> None:
    try:
        entered = msgpack.decode(Advertisement, msgpack.encode(advertisement), both[0])
    except DecodeError:
        return
    assert pass_on(Advertise(entered)) == Advertise(entered)


@given(pairs(), st.lists(_FILTERS, min_size=1, max_size=4).map(Pattern))
def test_a_pattern(both: tuple[Limits, Limits], pattern: Pattern) -> None:
    try:
        entered = msgpack.decode(Pattern, msgpack.encode(pattern), both[0])
    except DecodeError:
        return
    assert pass_on(Delegate(entered, 1, ())) == Delegate(entered, 1, ())


# -- the highest limits ------------------------------------------------------------------------------------------------


def test_every_maximum_is_at_least_the_highest_limit_and_that_the_default() -> None:
    for field in fields(Limits):
        usual, highest, most = (
            getattr(limits, field.name) for limits in (DEFAULT_LIMITS, HIGHEST_LIMITS, PROTOCOL_LIMITS)
        )
        assert usual <= highest <= most
    assert {field.name for field in fields(Limits)} - set(WIRE_FIELDS) == {
        "text_characters",
        "nesting",
        "union_filters",
    }
    assert READING_LIMITS.value_bytes == PROTOCOL_LIMITS.value_bytes


def highest_publication() -> tuple[Notification, str]:
    limits = HIGHEST_LIMITS
    names = (f"{number:05}" for number in count())
    notification = Notification(
        {"n" * limits.name_bytes: 1, **{next(names): 1.5 for _ in range(limits.attributes - 1)}}
    ).with_payload(b"." * 3_500_000, "t" * limits.name_bytes)
    return notification, "k" * limits.key_bytes


def test_the_largest_publication_passes_as_float_32_too() -> None:
    """Floats of 32 bits become longer when they are passed on."""
    notification, key = highest_publication()
    document = msgpack.encode(notification)
    short = document.replace(b"\xcb\x3f\xf8" + bytes(6), b"\xca\x3f\xc0\x00\x00")
    assert len(short) < len(document) - 4 * 16_000
    filler = HIGHEST_LIMITS.document_bytes - len(short)
    whole = notification.with_payload(b"." * (3_500_000 + filler), "t" * HIGHEST_LIMITS.name_bytes)
    short = msgpack.encode(whole).replace(b"\xcb\x3f\xf8" + bytes(6), b"\xca\x3f\xc0\x00\x00")
    assert len(short) == HIGHEST_LIMITS.document_bytes
    node = Node(NodeSettings("m" * 1_024, "ce", limits=HIGHEST_LIMITS))
    node.handle([ports.Request("me", 1, ports.Subscribe(Filter()))], 0)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 " + "s=" + "v" * 450
    options = msgspec.msgpack.encode(frames.Options(key=key, trace=trace, expires=datetime(2999, 1, 1, tzinfo=UTC)))
    content = (1).to_bytes(4, "big") + len(options).to_bytes(2, "big") + options + short
    outputs = node.handle([ports.PublishWith("p" * 1_024, content)], 1)
    assert accepted(outputs)
    (delivered,) = [each.notification for each in outputs if isinstance(each, ports.Deliver)]
    assert len(msgpack.encode(delivered)) > HIGHEST_LIMITS.document_bytes
    assert pass_on(Publish(delivered)) == Publish(delivered)
    found = frames.delivered(frames.deliver(delivered)[frames.HEADER :])
    assert found == whole
    assert found.envelope == delivered.envelope
    with pytest.raises(PalioError):
        msgpack.decode(Notification, short, replace(HIGHEST_LIMITS, document_bytes=HIGHEST_LIMITS.document_bytes - 1))


def test_the_largest_filter_passes() -> None:
    literal = "l" * 4_000
    filter = Filter([Constraint(f"n{number}", "!=", f"{number}{literal}") for number in range(1_024)])
    entered = msgpack.decode(Filter, msgpack.encode(filter), HIGHEST_LIMITS)
    for wording in (entered, entered.canonical()):
        assert pass_on(Subscribe(wording)) == Subscribe(wording)
    long = Filter([Constraint("n" * 4_096, ">", "l" * 16_384)])
    for wording in (msgpack.decode(Filter, msgpack.encode(long), HIGHEST_LIMITS), long.canonical()):
        assert pass_on(Subscribe(wording)) == Subscribe(wording)


def test_a_filter_that_gateways_narrow_beyond_the_maxima_is_passed_on_without_their_constraints() -> None:
    def many(letter: str, number: int) -> Filter:
        return Filter([Constraint(f"{letter}{each}", "any") for each in range(number)])

    border = Border(Gateway(exports=many("g", 1_000)))
    fits, exceeds = many("a", 15_000), many("a", 16_000)
    (within,) = border.take_in(Subscribe(fits))
    assert isinstance(within, Subscribe)
    assert len(within.filter) == 16_000
    assert border.take_in(Subscribe(exceeds)) == [Subscribe(exceeds)]


def test_programs_that_read_archives_take_whatever_a_server_took() -> None:
    batch = pa.record_batch({"x": ["." * HIGHEST_LIMITS.value_bytes], "n" * HIGHEST_LIMITS.name_bytes: [1]})
    for limits in (READING_LIMITS, PROTOCOL_LIMITS):
        assert FilterIndex([Filter.parse("x any")], limits=limits).match_counts(batch).tolist() == [1]
    with pytest.raises(PalioError):
        FilterIndex([Filter.parse("x any")]).match_counts(batch)
