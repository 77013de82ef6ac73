"""What goes into one end of a link comes out of the other once and in order, whatever happens to the frames."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import LimitError
from palio.link.frames import Data
from palio.link.session import BrokenSequenceError, LinkSettings, Session
from palio.model import Notification
from palio.routing.messages import Message, Publish, Spread, Stamp

STAMP: Stamp = (1, "milan", 0)
SETTINGS = LinkSettings(retransmit=10, most_patience=40, acknowledge=3, window=4, frame=2)


def numbered(*numbers: int) -> list[Message]:
    return [Spread(number) for number in numbers]


class Pair:
    """Two ends, and the frames between them."""

    def __init__(self) -> None:
        self.ends = Session(STAMP, SETTINGS), Session(STAMP, SETTINGS)
        self.flying: tuple[list[Data], list[Data]] = ([], [])
        """On their way to each end."""
        self.got: tuple[list[Message], list[Message]] = ([], [])
        self.now = 0

    def pump(self) -> None:
        for end in (0, 1):
            is_due = self.ends[end].is_due(self.now)
            frames = self.ends[end].frames(self.now)
            assert is_due == bool(frames)
            self.flying[1 - end].extend(frames)

    def land(self, end: int, place: int) -> None:
        frame = self.flying[end].pop(place)
        self.got[end].extend(self.ends[end].receive(frame, self.now))

    def settle(self) -> None:
        """From now on nothing is lost."""
        for _ in range(1000):
            self.pump()
            if not any(self.flying):
                deadlines = [end.deadline for end in self.ends if end.deadline is not None]
                if not deadlines:
                    return
                self.now = max(self.now, min(deadlines))
            for end in (0, 1):
                while self.flying[end]:
                    self.land(end, 0)
        raise AssertionError("no rest")


moves = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 1), st.integers(1, 5)),
        st.tuples(st.sampled_from(["land", "lose", "double"]), st.integers(0, 1), st.integers(0, 20)),
        st.tuples(st.just("wait"), st.just(0), st.integers(0, 50)),
    ),
    max_size=80,
)


@given(moves)
def test_once_and_in_order(taken: list[tuple[str, int, int]]) -> None:
    pair = Pair()
    sent: tuple[list[Message], list[Message]] = ([], [])
    for move, end, number in taken:
        if move == "send":
            messages = numbered(*range(len(sent[end]), len(sent[end]) + number))
            pair.ends[end].send(messages, 0)
            sent[end].extend(messages)
        elif move == "wait":
            pair.now += number
        elif pair.flying[end]:
            place = number % len(pair.flying[end])
            if move == "double":
                pair.flying[end].append(pair.flying[end][place])
            elif move == "lose":
                del pair.flying[end][place]
            else:
                pair.land(end, place)
        pair.pump()
        for one in (0, 1):
            assert pair.got[1 - one] == sent[one][: len(pair.got[1 - one])]
            assert pair.ends[one].base <= len(pair.got[1 - one]), "acknowledged before it came"
    pair.settle()
    assert pair.got == (sent[1], sent[0])
    assert all(not end.unacknowledged() for end in pair.ends)


def carried(frames: Sequence[Data]) -> list[tuple[int, int]]:
    return [(frame.first, len(frame.messages)) for frame in frames]


def test_no_more_than_the_window_is_on_its_way() -> None:
    session = Session(STAMP, SETTINGS)
    session.send(numbered(*range(9)), 0)
    assert carried(session.frames(0)) == [(0, 2), (2, 2)]
    assert session.frames(1) == []
    session.receive(Data(STAMP, 0, (), 3), 2)
    assert carried(session.frames(2)) == [(4, 2), (6, 1)]


def test_what_is_not_acknowledged_is_sent_again_with_growing_patience() -> None:
    session = Session(STAMP, SETTINGS)
    session.send(numbered(0), 0)
    times = [now for now in range(200) if session.frames(now)]
    assert times == [0, 10, 30, 70, 110, 150, 190]


def test_an_acknowledgement_waits_for_messages_that_carry_it() -> None:
    session = Session(STAMP, SETTINGS)
    session.receive(Data(STAMP, 0, tuple(numbered(0)), 0), 5)
    assert session.deadline == 8
    assert session.frames(7) == []
    assert session.frames(8) == [Data(STAMP, 0, (), 1)]
    session.receive(Data(STAMP, 1, tuple(numbered(1)), 0), 10)
    session.send(numbered(7), 0)
    assert session.frames(10) == [Data(STAMP, 0, tuple(numbered(7)), 2)]
    assert session.deadline == 20


def test_a_gap_is_told_at_once() -> None:
    session = Session(STAMP, SETTINGS)
    assert session.receive(Data(STAMP, 2, tuple(numbered(2)), 0), 5) == ()
    assert session.frames(5) == [Data(STAMP, 0, (), 0)]


def test_what_comes_twice_is_acknowledged_at_once() -> None:
    """The other end would not send it again if the acknowledgement had come."""
    session = Session(STAMP, SETTINGS)
    frame = Data(STAMP, 0, tuple(numbered(0, 1)), 0)
    assert list(session.receive(frame, 5)) == numbered(0, 1)
    assert session.frames(8) == [Data(STAMP, 0, (), 2)]
    assert list(session.receive(frame, 9)) == []
    assert session.frames(9) == [Data(STAMP, 0, (), 2)]


def test_an_acknowledgement_of_nothing_new_delays_nothing() -> None:
    session = Session(STAMP, SETTINGS)
    session.send(numbered(0), 0)
    session.frames(0)
    session.receive(Data(STAMP, 0, (), 0), 9)
    assert session.deadline == 10
    assert carried(session.frames(10)) == [(0, 1)]


def test_after_all_was_sent_again_late_acknowledgements_count() -> None:
    session = Session(STAMP, SETTINGS)
    session.send(numbered(0, 1, 2, 3, 4), 0)
    session.frames(0)
    assert carried(session.frames(10)) == [(0, 2), (2, 2)]
    session.receive(Data(STAMP, 0, (), 4), 11)
    assert carried(session.frames(11)) == [(4, 1)]
    session.receive(Data(STAMP, 0, (), 5), 12)
    assert session.deadline is None


def test_patience_is_short_again_after_an_acknowledgement() -> None:
    session = Session(STAMP, SETTINGS)
    session.send(numbered(0, 1), 0)
    assert [now for now in range(35) if session.frames(now)] == [0, 10, 30]
    session.receive(Data(STAMP, 0, (), 1), 40)
    assert session.deadline == 50


def test_a_session_goes_on_from_what_was_kept() -> None:
    session = Session(STAMP, SETTINGS, expected=7, base=3, outbox=numbered(3, 4))
    assert session.next == 5
    session.receive(Data(STAMP, 6, tuple(numbered(6, 7)), 4), 0)
    assert session.expected == 8
    assert session.unacknowledged() == (Spread(4),)


def test_more_than_may_wait_is_refused() -> None:
    session = Session(STAMP, msgspec.structs.replace(SETTINGS, outbox=3))
    session.send(numbered(0, 1, 2), 0)
    with pytest.raises(LimitError, match="messages waiting for a neighbour: 4 where at most 3"):
        session.send(numbered(3), 0)
    assert session.next == 3


def test_what_was_never_sent_cannot_be_acknowledged() -> None:
    session = Session(STAMP, SETTINGS)
    session.send(numbered(0, 1, 2, 3, 4, 5), 0)
    session.frames(0)
    with pytest.raises(BrokenSequenceError, match="number 5 is expected where only 4 were sent"):
        session.receive(Data(STAMP, 0, (), 5), 0)


def test_an_acknowledgement_goes_out_also_while_the_window_is_full() -> None:
    session = Session(STAMP, SETTINGS)
    session.send(numbered(*range(9)), 0)
    session.frames(0)
    session.receive(Data(STAMP, 0, tuple(numbered(0)), 0), 1)
    assert session.frames(4) == [Data(STAMP, 0, (), 1)]
    assert session.deadline == 10


# -- room --------------------------------------------------------------------------------------------------------------


def big(size: int) -> Publish:
    return Publish(Notification(x=1).with_payload(b"." * size))


def test_who_has_no_room_says_so_and_gets_no_more_than_a_frame_now_and_then() -> None:
    pair = Pair()
    sender, taker = pair.ends
    taker.has_room = False
    sender.send(numbered(*range(10)), 0)
    pair.pump()
    while pair.flying[1]:
        pair.land(1, 0)
    pair.now = SETTINGS.acknowledge
    pair.pump()
    pair.land(0, 0)
    assert sender.is_held
    assert len(pair.got[1]) == SETTINGS.window  # what was on its way is taken
    for _ in range(2):
        assert not sender.frames(pair.now)
        assert sender.deadline is not None
        pair.now = sender.deadline
        before = len(pair.got[1])
        pair.pump()
        pair.land(1, 0)
        assert len(pair.got[1]) == before + SETTINGS.frame
        pair.now += SETTINGS.acknowledge
        pair.pump()
        pair.land(0, 0)
    taker.has_room = True
    taker.acknowledge_soon(pair.now)
    pair.pump()
    pair.land(0, 0)
    assert not sender.is_held
    pair.settle()
    assert pair.got[1] == numbered(*range(10))


def test_full_by_count_and_relieved_at_the_half() -> None:
    session = Session(STAMP, msgspec.structs.replace(SETTINGS, full=4))
    session.send(numbered(0, 1, 2), 0)
    assert not session.is_full()
    session.send(numbered(3), 0)
    assert session.is_full()
    session.frames(0)
    session.receive(Data(STAMP, 0, (), 2), 0)
    assert (session.is_full(), session.is_full(2)) == (False, True)
    session.receive(Data(STAMP, 0, (), 3), 0)
    assert not session.is_full(2)


def test_full_by_bytes() -> None:
    session = Session(STAMP, msgspec.structs.replace(SETTINGS, full_bytes=10_000, outbox_bytes=30_000))
    session.send([big(9_000)], 0)
    assert not session.is_full()
    session.send([big(9_000)], 0)
    assert session.is_full()
    with pytest.raises(LimitError, match="bytes waiting for a neighbour"):
        session.send([big(15_000)], 0)
    assert session.next == 2
    session.frames(0)
    session.receive(Data(STAMP, 0, (), 2), 0)
    assert not session.is_full(2)
    session.send([big(15_000)], 0)


def test_what_waits_is_sent_at_once_when_the_way_is_there_again() -> None:
    session = Session(STAMP, SETTINGS)
    session.send(numbered(0), 0)
    session.frames(0)
    for _ in range(4):
        assert session.deadline is not None
        session.frames(session.deadline)
    assert session.deadline is not None
    now = session.deadline - 1
    assert not session.frames(now)
    session.hasten(now)
    assert session.frames(now) == [Data(STAMP, 0, tuple(numbered(0)), 0)]
    assert session.deadline <= now + 2 * SETTINGS.retransmit


def test_half_a_window_is_acknowledged_at_once() -> None:
    session = Session(STAMP, SETTINGS)
    session.receive(Data(STAMP, 0, tuple(numbered(0)), 0), 0)
    assert not session.is_due(0)
    session.receive(Data(STAMP, 1, tuple(numbered(1)), 0), 0)
    assert session.frames(0) == [Data(STAMP, 0, (), 2)]
    session.receive(Data(STAMP, 2, tuple(numbered(2)), 0), 0)
    assert not session.is_due(0)
