"""Link frames as bytes: all that servers say in simulated histories, and what is no frame."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, Limits, Notification, Pattern
from palio.errors import CallerError, DecodeError
from palio.link import frames, wire
from palio.link.frames import Frame
from palio.model import Envelope
from palio.routing import messages
from palio.sim.engine.network import Network
from palio.sim.generators.networks import FAULTS, generate
from palio.sim.run import run
from palio.sim.suites import SUITES

SESSION = (4, "milan", 1)


@pytest.fixture(scope="module")
def said() -> list[Frame]:
    """Frames of histories in which every kind of frame and message occurs."""
    found: list[Frame] = []
    send = Network.send

    def listening(self: Network, source: str, target: str, frame: Any, *rest: Any) -> Any:
        found.append(frame)
        return send(self, source, target, frame, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "send", listening)
        for architecture in ("aa", "ga"):
            for faults in FAULTS:
                for seed in range(2):
                    run(generate(seed, architecture, faults))
                    run(SUITES["patterns"].generate(seed, architecture, faults, 60))
    return found


def messages_of(found: list[Frame]) -> list[messages.Message]:
    return [message for frame in found if isinstance(frame, frames.Data) for message in frame.messages]


@pytest.mark.slow
def test_what_servers_say_arrives_as_it_was(said: list[Frame]) -> None:
    for frame in said:
        data = wire.encode(frame)
        read = wire.decode(data)
        assert read == frame
        assert wire.encode(read) == data  # envelopes, which equality does not look at, included
    kinds = {type(frame) for frame in said} | {type(message) for message in messages_of(said)}
    assert (wire.FRAME_KINDS.keys() | wire.MESSAGE_KINDS.keys()) - kinds == set()


def test_every_frame_and_message_has_a_number_of_its_own() -> None:
    for kinds, base in ((wire.FRAME_KINDS, Frame), (wire.MESSAGE_KINDS, messages.Message)):
        assert set(kinds) == set(base.__subclasses__())
        assert len(set(kinds.values())) == len(kinds)


@pytest.mark.slow
def test_damaged_frames_are_refused(said: list[Frame]) -> None:
    """They become another frame or an error that says so, and nothing else."""
    random, refused = Random(1), 0
    for frame in random.sample(said, 400):
        data = bytearray(wire.encode(frame))
        for _ in range(3):
            data[random.randrange(len(data))] = random.randrange(256)
        for bad in (bytes(data), bytes(data[: random.randrange(len(data))]), bytes(data) + b"\0"):
            try:
                wire.decode(bad)
            except DecodeError:
                refused += 1
    assert refused > 800


@given(st.binary(max_size=60))
def test_anything_is_a_frame_or_refused(data: bytes) -> None:
    try:
        frame = wire.decode(data)
    except DecodeError:
        return
    assert wire.decode(wire.encode(frame)) == frame


@pytest.mark.parametrize(
    "document",
    [
        [8, SESSION, 0, [[2, [1, [["x", "number", "~", 5]]], ""]], 0],
        [8, SESSION, 0, [[2, [1, [["x", "number", "=", 5]]], 7]], 0],
        [8, SESSION, 0, [[99]], 0],
        [8, SESSION, 0, [[9, 5, 6]], 0],
        [4, SESSION, "tired"],
        [99, SESSION],
        [6, SESSION],
        [6, ["milan", 4, 1], 7],
        [],
        7,
    ],
)
def test_what_is_no_frame_is_refused(document: object) -> None:
    with pytest.raises(DecodeError):
        wire.decode(msgspec.msgpack.encode(document))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(DecodeError):
        wire.decode(b"\x95\x08\x93\x04\xa5milan\x01\x00\x91\x93\x02" + b"\x91" * 100_000)


def test_limits_hold_for_what_servers_say() -> None:
    data = wire.encode(frames.Data(SESSION, 0, (messages.Subscribe(Filter.parse("a = 1 and b = 2")),), 0))
    wire.decode(data, Limits(constraints=2))
    with pytest.raises(DecodeError, match="more than the 1 allowed"):
        wire.decode(data, Limits(constraints=1))


def test_a_notification_needs_its_envelope() -> None:
    bare = frames.Data(SESSION, 0, (messages.Publish(Notification(x=1)),), 0)
    with pytest.raises(CallerError, match="has no envelope"):
        wire.encode(bare)


def test_the_monitor_that_takes_over_is_told_all(said: list[Frame]) -> None:
    given = [each for each in messages_of(said) if isinstance(each, messages.Delegate) and each.state is not None]
    assert given
    for each in given:
        read = wire.decode(wire.encode(frames.Data(SESSION, 0, (each,), 0)))
        assert isinstance(read, frames.Data)
        (message,) = read.messages
        assert isinstance(message, messages.Delegate)
        assert isinstance(message.pattern, Pattern)
        assert message.state == each.state
        assert message.state is not None
        assert all(isinstance(held.envelope, Envelope) for held in message.state.held)


@pytest.mark.slow
def test_version_1_is_written_without_the_fields_of_version_2(said: list[Frame]) -> None:
    for frame in said:
        names = frame.__struct_fields__
        defaults = dict(zip(reversed(names), reversed(frame.__struct_defaults__), strict=False))
        since = {name: defaults[name] for name in wire.SINCE_2.get(type(frame), ())}
        older = msgspec.structs.replace(frame, **since)
        data = wire.encode(frame, 1)
        assert len(msgspec.msgpack.decode(data)) == 1 + len(frame.__struct_fields__) - len(since)
        assert wire.decode(data) == older
        assert wire.encode(wire.decode(data), 1) == data
        if not since:
            assert data == wire.encode(frame)


def test_fields_of_version_2_are_the_last_ones_and_have_defaults() -> None:
    for cls, names in wire.SINCE_2.items():
        assert cls.__struct_fields__[-len(names) :] == names
        assert len(cls.__struct_defaults__) >= len(names)
