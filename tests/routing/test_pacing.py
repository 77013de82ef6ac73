"""Few changes of filters are in flight to a neighbour; others wait, and whatever the order, make goes before break."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter
from palio.errors import CallerError
from palio.routing.messages import Control, Spread, Subscribe, Unsubscribe
from palio.routing.pacing import LEAST, MOST, Pacing
from palio.routing.saying import messages_for
from palio.routing.table import Table
from palio.routing.telling import Behind, Telling, TellingSettings

RANGES = [
    Filter.parse(f"integer x >= {low} and x <= {low + size}").canonical() for low in range(5) for size in range(5)
]

BROAD = [Filter.parse(text).canonical() for text in ("integer x any", "integer x >= 1", "integer x <= 6")]


class Server:
    """The filters of the parties of a server, and a neighbour that acknowledges only when it is asked to."""

    def __init__(self, in_flight: int, *, is_kept: bool = False) -> None:
        self.table: Table[Filter] = Table(Filter)
        self.table.open("rome")
        self.is_kept = is_kept
        self.settings = TellingSettings(in_flight=in_flight)
        self.telling = self._telling()
        self.sent: list[Control | Behind] = []
        self.waves: dict[int, set[Filter]] = {}
        """What has to be known when a wave is sent: what is held since it began."""
        self.records: dict[tuple[object, ...], object] = {}
        self.acknowledged = 0

    def _telling(self) -> Telling:
        return Telling(self.settings, is_kept=self.is_kept)

    def toggle(self, filter: Filter, party: str) -> None:
        if filter in self.table and party in self.table.holders(filter).parties:
            self.table.remove_party(filter, party)
        else:
            self.table.add_party(filter, party)
        for held in self.waves.values():
            held &= set(self.table)

    def begin_wave(self) -> None:
        """A wave goes behind all that has changed."""
        self.tell(pressing=True)
        wave = Spread(len(self.waves), "here", ("here", 1, len(self.waves)))
        self.waves[wave.token] = set(self.table)
        if not self.telling.hold("rome", wave):
            self._send([wave])
        self._write()

    @property
    def waves_sent(self) -> list[int]:
        return [message.token for message in self.sent if isinstance(message, Spread)]

    def tell(self, *, pressing: bool = False, whole: bool = False) -> int:
        """Tell the neighbour what it can take; return how much that is."""
        updates = [("", update) for update in self.table.updates()]
        told = 0
        for peer, messages in self.telling.take(messages_for([], updates), 0, pressing=pressing, whole=whole):
            assert messages, "nothing is sent"
            assert peer == "rome"
            self._send(messages)
            told += len(messages)
            self.telling.sent(peer, len(self.sent), len(messages), 0)
        self._write()
        return told

    def _send(self, messages: Iterable[Control | Behind]) -> None:
        for message in messages:
            self.sent.append(message)
            if isinstance(message, Spread):
                known = list(self.known)
                assert all(any(each.covers(held) for each in known) for held in self.waves[message.token])
                assert self.waves_sent == sorted(set(self.waves_sent))

    def _write(self) -> None:
        for key, value in self.telling.records().items():
            if value is None:
                del self.records[key]  # nothing is deleted that was not written
            else:
                self.records[key] = value

    def acknowledge(self, count: int) -> None:
        self.acknowledged = min(len(self.sent), self.acknowledged + count)
        self.telling.acknowledge(lambda _: self.acknowledged, 0)

    def restart(self) -> None:
        self.telling = self._telling()
        required: list[Control] = [Subscribe(each) for each in self.table.told_to("rome")]
        said, misfits = self.telling.restore([("rome", required)], self.records, 0)
        assert not misfits
        assert {message for _, messages in said for message in messages} == set(map(Subscribe, self.known))
        self.acknowledged = len(self.sent)

    @property
    def known(self) -> list[Filter]:
        return list(standing_after(self.sent))

    def drain(self) -> None:
        for _ in range(10_000):
            self.acknowledge(len(self.sent))
            if not self.tell() and not self.telling.is_waiting:
                return
        raise AssertionError("what waits is never told")


def standing_after(messages: Iterable[Control | Behind]) -> dict[Filter, None]:
    """What a neighbour holds that gets such messages; it would refuse those that make no sense."""
    known: dict[Filter, None] = {}
    for message in messages:
        if isinstance(message, Subscribe):
            assert message.filter not in known
            known[message.filter] = None
        elif not isinstance(message, Spread):
            assert isinstance(message, Unsubscribe)
            del known[message.filter]
    return known


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(RANGES), st.sampled_from(["me", "you"])),
        st.integers(0, 4),
        st.sampled_from(["press", "whole", "wave", "restart"]),
    ),
    max_size=60,
)


@given(steps=STEPS, in_flight=st.integers(1, 4))
def test_a_filter_that_has_spread_stays_covered_at_the_neighbour(
    steps: list[tuple[Filter, str] | int | str], in_flight: int
) -> None:
    """However little the neighbour can take, and in whatever moment it takes it, make goes before break."""
    check(steps, in_flight)


def test_a_filter_that_has_spread_stays_covered_when_broad_ones_come_and_go() -> None:
    """So do those in whose place others have come while they waited."""
    random = Random(3)
    for _ in range(120):
        narrow = random.sample(RANGES, 6)
        steps: list[tuple[Filter, str] | int | str] = [(each, "you") for each in narrow]
        for _ in range(12):
            broad = random.choice(BROAD)
            steps += [(broad, "me"), "drain", (broad, "me")]
            steps += [random.choice([(random.choice(narrow), "you"), 1]) for _ in range(5)]
        check(steps, in_flight=1)


def check(steps: list[tuple[Filter, str] | int | str], in_flight: int) -> None:
    server = Server(in_flight, is_kept=True)
    covered: set[Filter] = set()
    checked = 0
    for step in steps:
        if isinstance(step, tuple):
            server.toggle(*step)
            covered &= set(server.table)
            server.tell()
        elif isinstance(step, int):
            server.acknowledge(step)
            server.tell()
        elif step == "press":
            server.tell(pressing=True)
        elif step == "whole":
            server.tell(whole=True)
            assert not server.telling.is_waiting
        elif step == "wave":
            server.begin_wave()
        elif step == "drain":
            server.drain()
        else:
            server.restart()
        for end in range(checked, len(server.sent)):
            known = standing_after(server.sent[: end + 1])
            assert all(any(each.covers(held) for each in known) for held in covered)
        checked = len(server.sent)
        if not server.telling.is_waiting:
            covered |= set(server.table)
    server.drain()
    assert set(server.known) == set(server.table.told_to("rome"))
    assert server.waves_sent == list(server.waves)
    assert not server.records


def test_only_so_many_changes_are_in_flight() -> None:
    server = Server(in_flight=3)
    for number in range(10):
        server.table.add_party(Filter.parse(f"x = {number}").canonical(), "me")
    assert [server.tell(), server.tell()] == [3, 0]
    server.acknowledge(2)
    assert server.tell() == 0, "they were sent together, and are not all acknowledged"
    server.acknowledge(1)
    assert server.tell() == 4, "the limit has grown, because the acknowledgement came at once"
    assert server.tell(pressing=True) == 0, "pressing changes wait for the neighbour, too"
    assert server.tell(whole=True) == 3
    assert not server.telling.is_waiting


def test_a_wave_waits_for_the_changes_before_it_and_not_for_later_ones() -> None:
    server = Server(in_flight=2, is_kept=True)
    for number in range(8):
        server.table.add_party(Filter.parse(f"x = {number}").canonical(), "me")
    server.begin_wave()
    assert len(server.sent) == 2, "what waits is not sent because of the wave"
    for number in range(50):
        server.table.add_party(Filter.parse(f"y = {number}").canonical(), "me")
    server.tell()
    server.acknowledge(2)
    server.tell()
    assert not server.waves_sent
    server.acknowledge(len(server.sent))
    server.tell()
    assert server.waves_sent == [0]
    assert len(server.sent) == 8 + 1


def test_waves_that_wait_are_sent_after_a_restart_in_their_order() -> None:
    server = Server(in_flight=2, is_kept=True)
    for number in range(8):
        server.toggle(Filter.parse(f"x = {number}").canonical(), "me")
    server.begin_wave()
    server.toggle(Filter.parse("y = 1").canonical(), "me")
    server.begin_wave()
    assert not server.waves_sent
    for _ in range(2):
        server.restart()
    server.begin_wave()
    server.drain()
    assert server.waves_sent == [0, 1, 2]
    assert not server.records


def test_a_wave_is_sent_when_the_changes_before_it_were_undone() -> None:
    server = Server(in_flight=2, is_kept=True)
    filters = [Filter.parse(f"x = {number}").canonical() for number in range(4)]
    for each in filters[:2]:
        server.toggle(each, "me")
    server.tell()
    for each in filters[2:]:
        server.toggle(each, "me")
    server.begin_wave()
    for each in filters[2:]:
        server.toggle(each, "me")
    server.tell()
    assert server.waves_sent == [0]
    assert not server.telling.is_waiting


def test_what_waits_for_a_neighbour_does_not_wait_for_other_changes_as_well() -> None:
    """Each part waited for the delay once more."""
    telling = Telling(TellingSettings(delay=500, in_flight=2))
    changes: list[Control] = [Subscribe(Filter.parse(f"x = {number}").canonical()) for number in range(6)]
    assert telling.take([("rome", changes)], 0) == []
    now = 500
    while telling.is_waiting:
        assert telling.is_due(now), "no other delay begins"
        ((peer, said),) = telling.take([], now)
        assert len(said) <= 3
        telling.sent(peer, now, len(said), now)
        assert not telling.is_due(now + 5)
        telling.acknowledge(lambda _: 1_000, now + 5)
        now += 10
    assert now == 530


def test_what_was_cancelled_before_its_round_began_is_never_told() -> None:
    server = Server(in_flight=1)
    first, second, third, fourth = (Filter.parse(f"x = {number}").canonical() for number in range(4))
    for each in (first, second):
        server.table.add_party(each, "me")
    server.tell()
    for each in (third, fourth):
        server.table.add_party(each, "me")
    server.tell()
    server.table.remove_party(third, "me")
    server.drain()
    assert server.sent == [Subscribe(first), Subscribe(second), Subscribe(fourth)]


def test_an_end_does_not_wait_for_ever_while_new_filters_come() -> None:
    """A party that subscribes to other filters again and again: else the neighbour would hold all of them."""
    server, random = Server(in_flight=4), Random(1)
    held: list[Filter] = []
    most = 0
    for number in range(500):
        for place in range(3):
            held.append(Filter.parse(f"x = {3 * number + place}").canonical())
            server.table.add_party(held[-1], "me")
        while len(held) > 20:
            server.table.remove_party(held.pop(random.randrange(len(held))), "me")
        server.tell()
        server.acknowledge(len(server.sent))
        most = max(most, len(server.known))
    assert most < 200
    server.drain()
    assert set(server.known) == set(held)


def test_the_limit_follows_the_delay_of_acknowledgements() -> None:
    pacing, end, now = Pacing(64), 0, 0

    def flight(delay: int) -> None:
        nonlocal end, now
        room = pacing.room("rome")
        end += room
        pacing.send("rome", end, room, now)
        assert pacing.room("rome") == 0
        now += delay
        pacing.acknowledge(lambda _: end, now)

    for _ in range(40):
        flight(5_000)
    assert pacing.room("rome") == MOST
    for _ in range(40):
        flight(200_000)
    assert pacing.room("rome") == LEAST
    for _ in range(400):
        flight(200_000)
    assert pacing.room("rome") > LEAST, "the network has become slower, and the neighbour has not"
    pacing.forget("rome")
    assert pacing.room("rome") == 64


def test_a_link_that_is_not_full_keeps_its_limit() -> None:
    pacing = Pacing(8)
    for number in range(100):
        pacing.send("rome", number + 1, 1, number)
        pacing.acknowledge(lambda _, end=number + 1: end, number)
    assert pacing.room("rome") == 8


def test_no_change_in_flight_would_be_none_at_all() -> None:
    with pytest.raises(CallerError, match=r"telling\.in_flight: 0; one change is in flight at least"):
        Telling(TellingSettings(in_flight=0))
