"""All that a connection may bring is read, or refused with an error of Palio; nothing else ever happens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palio import Filter, Limits, Notification, Pattern
from palio.codec import control, frames, json, msgpack
from palio.codec.control import Ask, Durable, Hello, Letters, Query, Reject, Replay
from palio.codec.frames import MOST_ENVELOPE, Options, options_of
from palio.errors import DecodeError, DecodeLimitError, PalioError, brief
from palio.link import wire
from palio.link.frames import Data, Open, Probe
from palio.matching import FilterIndex
from palio.model import Advertisement, Envelope, Mode, NotificationId, Trace
from palio.model.limits import HIGHEST_LIMITS, MOST_NAME_BYTES
from palio.node import entries
from palio.routing import messages
from palio.routing.board import Board

pack = msgspec.msgpack.encode
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
WHEN = datetime(2026, 7, 2, tzinfo=UTC)
SENT = Notification(x=1, y="a").with_envelope(Envelope(NotificationId("milan", 1, 2), WHEN, "eva", WHEN, "k"))
STAMP = (1, "milan", 3)


def link(*said: messages.Message) -> bytes:
    return wire.encode(Data(STAMP, 0, said, 0))


CONTROL = {
    kind: control.encode(frame)[frames.HEADER :]
    for kind, frame in {
        0x01: Hello((1,), "party", "eva", durable=Durable(5, log=1, after=7), mode=Mode.LOCAL),
        0x12: Ask(1, "subscribe", *control.document(Filter.parse("x > 3")), True),
        0x17: Replay(1, since=WHEN),
        0x18: Reject(1, 2, "reason"),
        0x19: Letters(1, "requeue", (1, 2)),
        0x40: Query(1, "explain", {"id": "milan/1/2", "at": [WHEN, {"a": 1.5}, b"x"]}),
    }.items()
}
LINKS = [
    wire.encode(Open(STAMP, "peer", "as", (("rome", STAMP),))),
    wire.encode(Probe(STAMP, 7)),
    link(messages.Publish(SENT, "milan", 3, (1, 2))),
    link(messages.Subscribe(Filter.parse("x > 3")), messages.Advertise(Advertisement.parse("x any"))),
    link(messages.Account("milan", 1, 2, (("rome", 1, STAMP),), (("bari", STAMP),))),
    link(messages.Delegate(Pattern.parse("x = 1 then x = 2"), 1, ("milan",), messages.Continue(1, 1, None, (SENT,)))),
    link(messages.Continue(1, 1, (WHEN, NotificationId("milan", 1, 2)), (SENT,)), messages.Members((), ("rome",))),
    link(messages.Spread(1, "milan", ("milan", 1, 1)), messages.Spreaded(2), messages.Recall(1)),
]
ENTRY = entries.encode(
    entries.Head(1, 7, 1, 0, (entries.Share(0, 3, 1, 5, entries.select([0])),)), frames.deliver(SENT)
)
Door = Callable[[bytes], Any]
DOORS: dict[str, tuple[Door, list[bytes]]] = {
    "options": (
        options_of,
        [pack(Options(TRACE, WHEN, "key", Mode.SYNCED)), pack({"expires": "2026-07-02T00:00:00Z"})],
    ),
    "publication with options": (frames.published_with, [frames.publish_with(SENT, Options(key="k"), 7)[5:]]),
    "delivery": (frames.delivered, [frames.deliver(SENT)[5:]]),
    "acceptance": (frames.accepted_up_to, [frames.accepted(7)[5:]]),
    "acknowledgement": (frames.acknowledged, [frames.acknowledge(7)[5:]]),
    "publications": (lambda data: list(frames.publications_of(data)), [frames.publish(SENT, 7)]),
    "trace": (lambda data: frames.trace_of(data.decode("latin-1")), [f"{TRACE} a=1".encode()]),
    "link": (wire.decode, LINKS),
    "message of a link": (wire.decode_message, [wire.encode_message(messages.Publish(SENT))]),
    "entry of a log": (entries.decode, [ENTRY]),
    **{
        f"control {kind:#04x}": (lambda data, kind=kind: control.decode(kind, data), [CONTROL[kind]])
        for kind in CONTROL
    },
}
every_door = pytest.mark.parametrize(("door", "good"), DOORS.values(), ids=DOORS)
CHOPS = st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=6))
"""Where something is replaced, how many bytes of it, and by what."""
TIMES = st.sampled_from(
    [
        b"\xd6\xff\xff\xff\xff\xff",
        b"\xc7\x0c\xff\x00\x00\x00\x00\xff\xff\xff\xf1\x86\x8b\x84\x00",
        b"\xc7\x0c\xff\x3b\x9a\xc9\xff\x00\x00\x00\x3a\xff\xf4\x41\x7f",
        pack("0001-01-01T00:00:00+14:00"),
        pack("9999-12-31T23:59:59.999999-23:59"),
        pack("2026-07-02T00:00:00"),
        pack("2026-07-02T00:00:60Z"),
    ]
)


def read(door: Door, data: bytes) -> Any:
    """What was read; None if it was refused as it should be."""
    try:
        return door(data)
    except PalioError:
        return None


@every_door
def test_good_input_is_read(door: Door, good: list[bytes]) -> None:
    assert all(read(door, each) is not None for each in good)


@every_door
@given(data=st.data())
def test_damaged_input_is_read_or_refused(door: Door, good: list[bytes], data: st.DataObject) -> None:
    made = bytearray(data.draw(st.sampled_from(good)))
    for place, size, instead in data.draw(st.lists(CHOPS, min_size=1, max_size=4)):
        at = place % (len(made) + 1)
        made[at : at + size] = instead
    read(door, bytes(made[: data.draw(st.integers(0, len(made) + 1))] if data.draw(st.booleans()) else made))


@every_door
@given(st.binary(max_size=60))
def test_noise_is_read_or_refused(door: Door, good: list[bytes], data: bytes) -> None:
    read(door, data)


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=5), st.binary(max_size=5),
)  # fmt: skip
TREES = st.recursive(
    LEAVES.map(pack),
    lambda inner: st.one_of(
        TIMES,
        st.just(b"\xa2\xff\xfe"),
        st.just(b"\xd4\x07\x01"),
        st.lists(inner, max_size=8).map(lambda each: bytes([0x90 + len(each)]) + b"".join(each)),
        st.lists(st.tuples(inner, inner), max_size=3).map(
            lambda pairs: bytes([0x80 + len(pairs)]) + b"".join(key + value for key, value in pairs)
        ),
    ),
    max_leaves=12,
)
"""MessagePack of any shape."""


@every_door
@given(TREES)
def test_other_values_are_read_or_refused(door: Door, good: list[bytes], data: bytes) -> None:
    read(door, data)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "trace": st.one_of(st.just(pack(TRACE)), st.text(max_size=60).map(pack), LEAVES.map(pack)),
        "expires": st.one_of(TIMES, st.datetimes(timezones=st.timezones()).map(lambda time: pack(time.isoformat()))),
        "key": st.one_of(
            st.text(max_size=9).map(pack), st.just(b"\xa2\xff\xfe"), st.integers(900, 1100).map(lambda n: pack("k" * n))
        ),
        "mode": st.one_of(st.sampled_from(["memory", "local", "synced", "x"]).map(pack), LEAVES.map(pack)),
    },
)  # fmt: skip


@given(OPTIONS)
@example({"expires": pack("0001-01-01T00:00:00+14:00")})
@example({"key": b"\xa2\xff\xfe"})
@example({"key": pack("k" * 65_500)})
def test_options_that_are_read_can_be_used(fields: dict[str, bytes]) -> None:
    packed = bytes([0x80 + len(fields)]) + b"".join(pack(name) + value for name, value in fields.items())
    options = read(options_of, packed)
    if options is not None:
        trace = None if options.trace is None else read(frames.trace_of, options.trace)
        envelope = Envelope(NotificationId("milan", 1, 2), WHEN, "eva", options.expires, options.key, trace)
        sent = Notification(x=1).with_envelope(envelope)
        assert frames.delivered(frames.deliver(sent)[frames.HEADER :]).envelope == envelope


@pytest.mark.parametrize(
    ("fields", "fragment"),
    [
        (pack({"expires": "0001-01-01T00:00:00+14:00"}), "outside years 1 to 9999"),
        (pack({"expires": "9999-12-31T23:59:59-01:00"}), "outside years 1 to 9999"),
        (pack({"expires": "2026-07-02T00:00:00"}), "naive"),
        (b"\x81\xa3key\xa2\xff\xfe", "utf-8"),
        (b"\x81\xa5trace\xa3\xed\xa0\x80", "utf-8"),
        (b"\x81\xa2\xff\xfe\x01", "options"),
        (b"\x81\xa3key" + b"\x91" * 60_000, "options"),
    ],
)
def test_options_that_cannot_be_used(fields: bytes, fragment: str) -> None:
    with pytest.raises(DecodeError, match=fragment):
        options_of(fields)


@pytest.mark.parametrize("allowed", [1, 40, 1_024, HIGHEST_LIMITS.key_bytes])
def test_the_limit_of_a_key(allowed: int) -> None:
    limits = Limits(key_bytes=allowed)
    assert options_of(pack(Options(key="k" * allowed)), limits).key == "k" * allowed
    for key in ("k" * (allowed + 1), "é" * (allowed // 2 + 1)):
        with pytest.raises(DecodeLimitError, match="key_bytes"):
            options_of(pack(Options(key=key)), limits)


def test_times_and_numbers_from_peers_are_checked() -> None:
    good = wire.encode(Data(STAMP, 0, (messages.Continue(1, 1, (WHEN, NotificationId("milan", 1, 2)), ()),), 0))
    assert pack(WHEN) in good
    for time in ("2026-07-02T00:00:00", "0001-01-01T00:00:00+14:00"):
        with pytest.raises(DecodeError):
            wire.decode(good.replace(pack(WHEN), pack(time)))
    probe = wire.encode(Probe(STAMP, 2**63 - 1))
    assert wire.decode(probe) == Probe(STAMP, 2**63 - 1)
    with pytest.raises(DecodeError):
        wire.decode(probe.replace(pack(2**63 - 1), pack(2**63)))


# -- the largest envelope ----------------------------------------------------------------------------------------------

LONGEST_TRACE = Trace(TRACE, "a" * (511 - len(TRACE)))
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def largest(key_bytes: int) -> Envelope:
    id = NotificationId("s" * MOST_NAME_BYTES, 2**63 - 1, 2**63 - 1)
    return Envelope(id, LATEST, "p" * MOST_NAME_BYTES, LATEST, "k" * key_bytes, LONGEST_TRACE)


def test_the_largest_envelope_fits_a_delivery() -> None:
    limits, envelope = Limits(key_bytes=HIGHEST_LIMITS.key_bytes), largest(HIGHEST_LIMITS.key_bytes)
    assert len(str(LONGEST_TRACE)) == 512
    assert len(msgpack.encode(envelope)) <= MOST_ENVELOPE
    delivery = frames.deliver(Notification(x=1).with_envelope(envelope))
    assert frames.delivered(delivery[frames.HEADER :], limits).envelope == envelope
    sent = messages.Publish(Notification(x=1).with_envelope(envelope))
    assert wire.decode_message(wire.encode_message(sent), limits) == sent
    assert json.decode(Envelope, json.encode(envelope), limits) == envelope


def test_a_larger_envelope_is_refused() -> None:
    limits = Limits(key_bytes=2**20, literal_bytes=2**20)
    edge = MOST_ENVELOPE - len(msgpack.encode(largest(HIGHEST_LIMITS.key_bytes))) + HIGHEST_LIMITS.key_bytes
    for key_bytes, fits in ((edge, True), (edge + 1, False)):
        sent = Notification(x=1).with_envelope(largest(key_bytes))
        message = wire.encode_message(messages.Publish(sent))
        if fits:
            assert frames.delivered(frames.deliver(sent)[frames.HEADER :], limits).envelope == sent.envelope
            assert wire.decode_message(message, limits) == messages.Publish(sent)
        else:
            with pytest.raises(PalioError):
                frames.deliver(sent)
            with pytest.raises(DecodeError):
                wire.decode_message(message, limits)


def test_the_largest_envelope_of_a_block_fits() -> None:
    index = FilterIndex()
    board = Board(index)
    board.add(index.add(Filter.parse("x any")), "eva")
    first = NotificationId("s" * MOST_NAME_BYTES, 2**63 - 1, 2**63 - 1)
    latest = 253_402_300_799_999_999
    done = board.dispatch(frames.publish(Notification(x=1), 1), first, latest, "p" * MOST_NAME_BYTES, is_logged=True)
    ((party, block, count, _),) = done.deliveries
    assert (party, count, done.log) == ("eva", 1, block)
    envelope = frames.delivered(block[frames.HEADER :]).envelope
    assert envelope == Envelope(first, LATEST, "p" * MOST_NAME_BYTES)


def test_what_is_nested_deeply_is_quoted_nevertheless() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert brief(value) == "<list>"
