"""Encoded publications find the parties that a look at every filter would find."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, Limits, Notification
from palio.codec import frames, msgpack
from palio.errors import DecodeError, DecodeLimitError
from palio.matching import FilterIndex
from palio.model.envelope import Envelope, NotificationId
from palio.node import entries
from palio.routing import board as boards
from palio.routing.board import Board
from tests.matching.strategies import aimed_lists, examples, filter_lists

FIRST = NotificationId("milan", 3, 100)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = 1_783_000_000_123_456


def expected(notification: Notification, sequence: int, published: int, publisher: str) -> bytes:
    id = NotificationId(FIRST.origin, FIRST.incarnation, sequence)
    envelope = Envelope(id, EPOCH + timedelta(microseconds=published), publisher)
    return frames.deliver(notification.with_envelope(envelope))


@examples(1)
@given(st.data(), st.integers(0, 2**32), st.booleans())
def test_everyone_gets_what_its_filters_match_once_and_in_order(data: st.DataObject, seed: int, goes_on: bool) -> None:
    random, filters = Random(seed), data.draw(filter_lists(10))
    events = data.draw(aimed_lists(filters))
    index = FilterIndex()
    board, held, others = Board(index), [], set()
    for filter in filters:
        slot = index.add(filter)
        for party in random.sample(["a", "b", "c", "d"], random.randrange(4)):
            board.add(slot, party)
            held.append((slot, filter, party))
        if random.random() < 0.3:
            board.set_others(slot, True)
            others.add(slot)
    for entry in random.sample(held, len(held) // 3):
        board.remove(entry[0], entry[2])
        held.remove(entry)
    for slot in [slot for slot in range(len(filters)) if random.random() < 0.2]:
        index.remove(slot)
        board.forget(slot)
        held = [entry for entry in held if entry[0] != slot]
        others.discard(slot)
    block = b"".join(frames.publish(event, number) for number, event in enumerate(events, 5))
    logged, everything = random.sample("abcd", random.randrange(5)), random.random() < 0.3
    for party in logged:
        board.log(party)
    done = board.dispatch(block, FIRST, NOW, "adam", goes_on=goes_on, is_logged=everything)
    got = {party: list(frames.frames_of(stream)) for party, stream, _, _ in done.deliveries}
    for party in "abcd":
        wanted = [
            expected(event, FIRST.sequence + place, NOW + place, "adam")
            for place, event in enumerate(events)
            if any(holder == party and filter.matches(event) for _, filter, holder in held)
        ]
        assert [frames.frame(kind, content) for kind, content in got.get(party, [])] == wanted
    assert all(count == len(got[party]) for party, _, count, _ in done.deliveries)
    log = list(frames.frames_of(done.log))
    all_frames = [expected(event, FIRST.sequence + place, NOW + place, "adam") for place, event in enumerate(events)]
    assert done.log_count == len(log)
    to_logged = {frames.frame(*each) for party in logged for each in got.get(party, ())}
    assert [frames.frame(*each) for each in log] == [each for each in all_frames if everything or each in to_logged]
    for party, _, _, selection in done.deliveries:
        chosen = [log[place] for run in entries.ordinals(selection) for place in range(*run)]
        assert chosen == (got[party] if party in logged else [])
    assert [party for party, *_ in done.deliveries] == list(dict.fromkeys(got))
    assert (done.consumed, done.accepted, done.refused) == (len(block), len(events), [])
    assert done.last_number == (4 + len(events) if events else 0)
    elsewhere = [
        place
        for place, event in enumerate(events)
        if goes_on or any(filters[slot].matches(event) for slot in sorted(others))
    ]
    assert [other.sequence - FIRST.sequence for other in done.others] == elsewhere
    for other in done.others:
        event = events[other.sequence - FIRST.sequence]
        assert block[other.offset : other.offset + other.size] == msgpack.encode(event)
        assert other.published - NOW == other.sequence - FIRST.sequence


def one_party() -> Board:
    index = FilterIndex()
    board = Board(index)
    board.add(index.add(Filter.parse("x any")), "eva")
    return board


def sequences(stream: bytes) -> list[int]:
    found = [frames.delivered(content).envelope for _, content in frames.frames_of(stream)]
    return [envelope.id.sequence for envelope in found if envelope is not None]


def test_what_is_no_notification_is_refused_and_has_no_number() -> None:
    good, bad = frames.publish(Notification(x=1), 1), frames.frame(frames.PUBLISH, b"\0\0\0\x02" + b"\x92\x01\xc0")
    done = one_party().dispatch(good + bad + frames.publish(Notification(x=2), 3), FIRST, NOW, "adam")
    assert (done.accepted, done.last_number) == (2, 3)
    assert sequences(done.deliveries[0][1]) == [100, 101]
    ((number, problem),) = done.refused
    assert number == 2
    assert isinstance(problem, DecodeError)
    assert "expected a map of attributes" in str(problem)


def test_limits_hold_at_their_edges() -> None:
    limits = Limits(attributes=2, document_bytes=40, payload_bytes=3)
    board = one_party()

    def refusal(notification: Notification) -> str | None:
        done = board.dispatch(frames.publish(notification, 1), FIRST, NOW, "adam", limits=limits)
        assert done.accepted + len(done.refused) == 1
        if not done.refused:
            return None
        problem = done.refused[0][1]
        assert isinstance(problem, DecodeLimitError)
        return problem.limit

    assert refusal(Notification(x=1, y=2)) is None
    assert refusal(Notification(x=1, y=2, z=3)) == "attributes"
    assert refusal(Notification(x=1).with_payload(b"abc", "a")) is None
    assert refusal(Notification(x=1).with_payload(b"abcd", "a")) == "payload_bytes"
    longest = 40 - len(msgpack.encode(Notification(x="")))
    assert refusal(Notification(x="y" * (longest - 1))) is None  # its length takes a byte more
    assert refusal(Notification(x="y" * longest)) == "document_bytes"


@pytest.mark.parametrize(
    "block",
    [
        frames.publish(Notification(x=1))[:-1],
        frames.publish(Notification(x=1)) + b"\0\0\0",
        frames.publish(Notification(x=1)) + frames.frame(0x20, b"\0\0\0\0\x92\x01\x80"),
        frames.frame(frames.PUBLISH, b"\0\0\0"),
        b"\xff\xff\xff\xff\x10\0\0\0\0",
        b"\0\0\0\0\x10\0\0\0\0",
    ],
)
def test_a_block_that_is_none_is_refused_as_a_whole(block: bytes) -> None:
    board = one_party()
    with pytest.raises(DecodeError, match="no block of whole frames"):
        board.dispatch(block, FIRST, NOW, "adam")
    done = board.dispatch(frames.publish(Notification(x=2)), FIRST, NOW, "adam")
    assert sequences(done.deliveries[0][1]) == [100]


def test_a_block_that_makes_too_much_is_handled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "MOST_BYTES", 1)
    board, block = one_party(), b"".join(frames.publish(Notification(x=number)) for number in range(3))
    place, found = 0, []
    while place < len(block):
        first = NotificationId("milan", 3, 100 + len(found))
        done = board.dispatch(block[place:], first, NOW, "adam")
        assert done.accepted == 1
        found += sequences(done.deliveries[0][1])
        place += done.consumed
    assert found == [100, 101, 102]


def test_parties_that_come_and_go_are_not_confused() -> None:
    index = FilterIndex()
    board = Board(index)
    slot = index.add(Filter.parse("x any"))
    for party in ("a", "b", "c"):
        board.add(slot, party)
    board.remove(slot, "b")
    board.add(slot, "d")
    board.add(slot, "e")
    done = board.dispatch(frames.publish(Notification(x=1)), FIRST, NOW, "adam")
    assert sorted(party for party, *_ in done.deliveries) == ["a", "c", "d", "e"]


@pytest.mark.parametrize("published", [0, 1_000_000, NOW, 2**32 * 1_000_000, 2**34 * 1_000_000 + 1, -1])
@pytest.mark.parametrize("number", [0, 127, 128, 2**16, 2**32, 2**63 - 1])
def test_envelopes_are_written_as_the_codec_writes_them(published: int, number: int) -> None:
    publisher = "p" * (number % 300)
    first = NotificationId("milan", 3, number)
    done = one_party().dispatch(frames.publish(Notification(x=1)), first, published, publisher)
    envelope = Envelope(first, EPOCH + timedelta(microseconds=published), publisher)
    assert done.deliveries[0][1] == frames.deliver(Notification(x=1).with_envelope(envelope))
