"""Input that was decoded, however strange it is, never makes a node fail: a fault would be a missing check."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palio.codec import frames
from palio.errors import PalioError
from palio.link import wire
from palio.link.frames import Data, Frame
from palio.model import Envelope, Filter, NotificationId, Pattern
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.node.party_log import Keep
from palio.node.ports import Fault, FromPeer, Request, Send
from palio.routing import messages
from tests.codec.test_doors import LINKS, OPTIONS, SENT, STAMP, WHEN, pack

NUMBERS = st.one_of(st.integers(-2, 3), st.sampled_from([2**31, 2**32, 2**63 - 1, -(2**63), 255, 256]))
NAMES = st.sampled_from(["", "milan", "rome", "bari", "eva", "\0", "é" * 512, "a/b"])
STAMPS = st.tuples(NUMBERS, NAMES, NUMBERS)
FILTERS = st.sampled_from(["x any", "x > 3", "x = 1", "y any", "x > 3 and x < 2"]).map(Filter.parse)
PATTERNS = st.sampled_from(["x = 1 then x = 2", "x any then y any then x = 1", "x any"]).map(Pattern.parse)
LATE = st.sampled_from(["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-07-02T00:00:00Z"])
NOTIFICATIONS = st.builds(
    lambda published, sequence, origin: SENT.with_envelope(
        Envelope(NotificationId(origin, 1, sequence), msgspec.convert(published, type(WHEN)), "eva")
    ),
    LATE,
    NUMBERS.filter(lambda number: number >= 0),
    NAMES.filter(bool),
)
PLACES = st.one_of(st.none(), st.just((WHEN, SENT.envelope.id if SENT.envelope else None)))
TAGS = st.lists(NUMBERS, max_size=3).map(tuple)
CONTINUE = st.builds(messages.Continue, NUMBERS, NUMBERS, PLACES, st.lists(NOTIFICATIONS, max_size=2).map(tuple))
PATHS = st.lists(NAMES, max_size=3).map(tuple)
MEMBERS = st.lists(st.tuples(NAMES, STAMPS), max_size=3).map(tuple)
NEIGHBOURS = st.lists(st.tuples(NAMES, NUMBERS, STAMPS), max_size=3).map(tuple)
MESSAGES = st.one_of(
    st.builds(messages.Publish, NOTIFICATIONS, NAMES, NUMBERS, TAGS),
    st.builds(messages.Subscribe, FILTERS, NAMES),
    st.builds(messages.Unsubscribe, FILTERS, NAMES),
    st.builds(messages.Members, MEMBERS, PATHS),
    st.builds(messages.Account, NAMES, NUMBERS, NUMBERS, NEIGHBOURS, MEMBERS),
    st.builds(messages.Spread, NUMBERS, NAMES, st.tuples(NAMES, NUMBERS, NUMBERS)),
    st.builds(messages.Spreaded, NUMBERS),
    st.builds(messages.Delegate, PATTERNS, NUMBERS, PATHS, st.one_of(st.none(), CONTINUE)),
    CONTINUE,
    st.builds(messages.Accepted, NUMBERS),
    st.builds(messages.Element, NOTIFICATIONS, TAGS),
    st.builds(messages.Recall, NUMBERS),
    st.builds(messages.Returned, NUMBERS, st.lists(NOTIFICATIONS, max_size=2).map(tuple)),
    st.builds(messages.Release, NUMBERS),
)
ARCHITECTURES = ("hs", "as", "aa", "nf", "gs", "ga")
slow_to_draw = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)


class Pair:
    """Two nodes with a link; what one of them sends is chosen by a test."""

    def __init__(self, architecture: str, *, durable: bool) -> None:
        self.here = Node(NodeSettings("milan", architecture, durable=durable))
        self.there = Node(NodeSettings("rome", architecture))
        self.now = 0
        role = ports.Role.CLIENT if architecture == "hs" else ports.Role.PEER
        self.give(Request("eva", 1, ports.Subscribe(Filter.parse("x any"))))
        self.give(Request("eva", 2, ports.Subscribe(Pattern.parse("x = 1 then x = 2"))))
        self.give(ports.Attach("eva", Keep(0, 0, 0, 0, 0, 0), 7))
        sent = self.give(ports.Connect("rome", role))
        while sent:
            replies = [each for frame in sent for each in self.there.handle([FromPeer("milan", frame)], self.now)]
            sent = [
                frame
                for each in replies
                if isinstance(each, Send)
                for frame in self.give(FromPeer("rome", wire.decode(wire.encode(each.frame))))
            ]
        assert "rome" in self.here.router.peers

    @property
    def session(self) -> tuple[Any, int]:
        """The name of the link, and the number of the next message."""
        link = self.here.links._sessions["rome"]
        return link.stamp, link.expected

    def give(self, given: ports.Input) -> list[Frame]:
        """The frames that the node sends; it never reports a fault."""
        self.now += 1
        sent, todo = [], [given]
        while todo:
            outputs = self.here.handle(todo, self.now)
            assert not [each for each in outputs if isinstance(each, Fault)]
            sent += [each.frame for each in outputs if isinstance(each, Send)]
            todo = [ports.Persisted(each.token) for each in outputs if isinstance(each, ports.Persist)]
        for frame in sent:
            wire.decode(wire.encode(frame))
        return sent


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("durable", [False, True])
@slow_to_draw
@given(said=st.lists(MESSAGES, min_size=1, max_size=6))
def test_messages_of_a_peer(architecture: str, durable: bool, said: list[messages.Message]) -> None:
    pair = Pair(architecture, durable=durable)
    for message in said:
        if "rome" not in pair.here.router.peers:
            return
        stamp, number = pair.session
        data = wire.encode(Data(stamp, number, (message,), 0))
        try:
            frame = wire.decode(data)
        except PalioError:
            continue
        pair.give(FromPeer("rome", frame))
    pair.now += 10_000_000
    pair.give(ports.Room(is_there=True))


@pytest.mark.parametrize("architecture", ["as", "ga"])
@slow_to_draw
@given(data=st.data())
def test_frames_of_a_peer(architecture: str, data: st.DataObject) -> None:
    pair = Pair(architecture, durable=True)
    stamp, _ = pair.session
    for _ in range(4):
        made = bytearray(data.draw(st.sampled_from(LINKS)).replace(pack(STAMP), pack(stamp)))
        for place, instead in data.draw(
            st.lists(st.tuples(st.integers(0, 200), st.binary(min_size=1, max_size=2)), max_size=3)
        ):
            made[place % len(made) : place % len(made) + len(instead)] = instead
        try:
            frame = wire.decode(bytes(made))
        except PalioError:
            continue
        pair.give(FromPeer("rome", frame))


def published(fields: dict[str, bytes]) -> ports.PublishWith:
    """A publication with options as they are."""
    options = bytes([0x80 + len(fields)]) + b"".join(pack(name) + value for name, value in fields.items())
    content = frames.publish_with(SENT, frames.Options(), 3)[frames.HEADER :]
    return ports.PublishWith("eva", content.replace(b"\x00\x01\x80", len(options).to_bytes(2, "big") + options, 1))


def asked(operation: ports.Operation) -> Request:
    return Request("eva", 5, operation)


WANTED = st.one_of(FILTERS, PATTERNS)
READINGS = st.sampled_from([0, 7, 8])
SINCE = st.one_of(st.none(), LATE.map(lambda text: msgspec.convert(text, type(WHEN))))
PARTY = st.one_of(
    OPTIONS.map(published),
    st.builds(ports.Replay, NUMBERS, SINCE, NUMBERS).map(asked),
    st.builds(ports.Reject, NUMBERS, NAMES).map(asked),
    st.builds(ports.Letters, st.sampled_from(["requeue", "discard", "x"]), TAGS).map(asked),
    st.builds(ports.Acknowledge, NAMES, NUMBERS, READINGS),
    st.builds(ports.Detach, NAMES, READINGS),
    st.builds(ports.Attach, NAMES.filter(bool), st.builds(Keep, *[NUMBERS] * 6), st.just(8), NUMBERS, NUMBERS),
    st.builds(ports.Subscribe, WANTED, st.booleans()).map(asked),
    st.builds(ports.Unsubscribe, WANTED, st.lists(WANTED, max_size=2).map(tuple)).map(asked),
    NAMES.map(lambda name: Request(name, 5, ports.Leave())),
)


@pytest.mark.parametrize("durable", [False, True])
@slow_to_draw
@given(said=st.lists(PARTY, min_size=1, max_size=8))
def test_input_of_parties(durable: bool, said: list[ports.Input]) -> None:
    pair = Pair("as", durable=durable)
    for each in said:
        pair.give(each)
    pair.now += 10**13
    pair.give(ports.Room(is_there=True))


def test_reasons_that_servers_log_hold_no_content() -> None:
    """Why a link is given up is logged; the notification that a peer has sent wrongly is named and not shown."""
    pair = Pair("aa", durable=False)
    secret = SENT.with_envelope(Envelope(NotificationId("rome", 1, 5), WHEN, "eva"))
    secret = type(secret)(x="very-secret").with_envelope(secret.envelope)
    reasons: list[str] = []
    for message in (
        messages.Element(secret, (1,)),
        messages.Continue(1, 1, None, (secret,)),
        messages.Delegate(Pattern.parse("x any then x any"), 1, (), messages.Continue(1, 9, None, (secret,))),
    ):
        if "rome" not in pair.here.router.peers:
            pair = Pair("aa", durable=False)
        stamp, number = pair.session
        outputs = pair.here.handle([FromPeer("rome", Data(stamp, number, (message,), 0))], pair.now)
        reasons += [each.reason for each in outputs if isinstance(each, ports.LinkRefused)]
    assert len(reasons) == 2
    assert "very-secret" not in str(reasons)
