"""Links come about, end, and come back, whatever is lost on the way."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Any

import pytest

from palio.errors import CallerError
from palio.link.end import MOST_CLOSING
from palio.link.frames import Accept, Close, Closed, Data, Frame, Known, Open, Probe, Refuse, Why
from palio.link.links import Links
from palio.link.ports import Down, LinkEvent, Members, Received, Refused, Up, Wish
from palio.link.session import LinkSettings
from palio.link.states import State
from palio.node.journal import Journal
from palio.routing.messages import Message, Spread, Stamp

SETTINGS = LinkSettings(retransmit=10, most_patience=40, acknowledge=3, full=4, outbox=5)


class Server:
    """One end, which refuses whom it is told to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.refuses: dict[str, str] = {}
        self.obstacles: dict[str, str] = {}
        self.stamps = 0
        self.journal = Journal()
        self.records: dict[tuple[Hashable, ...], Any] = {}
        self.links = Links(name, self, SETTINGS, self.journal)
        self.events: list[LinkEvent] = []

    def save(self) -> None:
        """What has changed reaches the disk."""
        self.links.keep()
        for key, value in self.journal.take():
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value

    def restart(self, now: int) -> None:
        """Go on with what is on the disk."""
        self.links = Links(self.name, self, SETTINGS, self.journal)
        self.links.restore(self.records, now)

    def next_stamp(self) -> Stamp:
        self.stamps += 1
        return (self.stamps, self.name, 0)

    def introduction(self) -> tuple[str, Members, tuple[int, ...]]:
        return "as", ((self.name, (0, "", 0)),), ()

    def obstacle(self, peer: str, wish: Wish, *, only_cycles: bool = False) -> str | None:
        return self.obstacles.get(peer)

    def refusal(self, peer: str, role: str, architecture: str | None, members: Members) -> str | None:
        return self.refuses.get(peer)

    def got(self) -> list[Message]:
        return [message for event in self.events if isinstance(event, Received) for message in event.messages]

    def changes(self) -> list[type[LinkEvent]]:
        return [type(event) for event in self.events if not isinstance(event, Received)]


class Pair:
    """Two servers, and a network that loses what it is told to."""

    def __init__(self) -> None:
        self.servers = {name: Server(name) for name in ("milan", "rome")}
        self.milan, self.rome = self.servers.values()
        self.now = 0
        self.lost: list[Frame] = []

    def forget(self, name: str) -> None:
        """A server begins anew and knows nothing."""
        stamps = self.servers[name].stamps
        self.servers[name] = Server(name)
        self.servers[name].stamps = stamps
        self.milan, self.rome = self.servers["milan"], self.servers["rome"]

    def run(self, lose: type[Frame] | None = None, until: int | None = None) -> None:
        """Until rest, or some moment; frames of one kind are lost."""
        for _ in range(2000):
            for server in self.servers.values():
                server.events += server.links.wake(self.now)
            flying = [
                (name, peer, frame) for name, s in self.servers.items() for peer, frame in s.links.frames(self.now)
            ]
            for server in self.servers.values():
                server.save()
            for source, target, frame in flying:
                if lose is not None and isinstance(frame, lose):
                    self.lost.append(frame)
                else:
                    self.servers[target].events += self.servers[target].links.receive(source, frame, self.now)
                    self.servers[target].save()
            if flying:
                continue
            deadlines = [s.links.deadline for s in self.servers.values() if s.links.deadline is not None]
            if not deadlines or (until is not None and min(deadlines) > until):
                return
            self.now = max(self.now + 1, min(deadlines))
        raise AssertionError("no rest")

    def is_linked(self) -> tuple[bool, bool]:
        return "rome" in self.milan.links.peers, "milan" in self.rome.links.peers


@pytest.fixture
def pair() -> Pair:
    made = Pair()
    made.milan.links.connect("rome", Wish("peer"), 0)
    made.run()
    return made


def test_a_link_comes_about_and_carries_messages(pair: Pair) -> None:
    assert pair.is_linked() == (True, True)
    pair.milan.links.send("rome", [Spread(1), Spread(2)], pair.now)
    pair.rome.links.send("milan", [Spread(3)], pair.now)
    pair.run()
    assert pair.rome.got() == [Spread(1), Spread(2)]
    assert pair.milan.got() == [Spread(3)]


@pytest.mark.parametrize("kind", [Open, Accept, Data])
def test_what_is_lost_at_the_beginning_is_repeated(kind: type[Frame]) -> None:
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.run(lose=kind, until=100)
    assert pair.lost
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.milan.changes() == pair.rome.changes() == [Up]


def test_the_end_of_a_link_is_told_until_it_is_known(pair: Pair) -> None:
    assert pair.milan.links.disconnect("rome", pair.now) == [Down("rome", "the operator of milan has removed the link")]
    pair.run(lose=Close, until=pair.now + 100)
    assert pair.is_linked() == (False, True)
    pair.run()
    assert pair.is_linked() == (False, False)
    assert pair.rome.changes() == [Up, Down]


def end_twice(pair: Pair, server: Server, peer: str) -> None:
    """While no Close gets through, a link is ended, another one is asked for, and that is ended, too."""
    server.links.disconnect(peer, pair.now)
    server.links.connect(peer, Wish("peer"), pair.now)
    server.links.disconnect(peer, pair.now)


@pytest.mark.parametrize("name", ["milan", "rome"])
def test_every_end_of_a_link_is_told(pair: Pair, name: str) -> None:
    end_twice(pair, pair.servers[name], "rome" if name == "milan" else "milan")
    pair.run()
    assert pair.is_linked() == (False, False)
    other = pair.rome if name == "milan" else pair.milan
    assert [each for each in other.changes() if each is not Refused] == [Up, Down]


def test_an_end_that_is_known_says_nothing_of_the_others(pair: Pair) -> None:
    end_twice(pair, pair.milan, "rome")
    pair.run(lose=Frame, until=pair.now)
    pair.now += 10 * SETTINGS.most_patience
    first, second = [frame for _, frame in pair.milan.links.frames(pair.now) if isinstance(frame, Close)]
    pair.milan.links.receive("rome", Closed(first.session), pair.now)
    pair.now += 10 * SETTINGS.most_patience
    assert [frame for _, frame in pair.milan.links.frames(pair.now)] == [second]
    pair.milan.links.receive("rome", Closed(second.session), pair.now)
    pair.now += 10 * SETTINGS.most_patience
    assert pair.milan.links.frames(pair.now) == []


def test_a_link_that_was_ended_before_the_last_one_is_not_just_unknown(pair: Pair) -> None:
    end_twice(pair, pair.rome, "milan")
    pair.milan.links.send("rome", [Spread(1)], pair.now)
    pair.run(lose=Close, until=pair.now)
    assert {frame.why for frame in pair.lost if isinstance(frame, Close)} == {Why.ENDED}
    pair.run()
    assert pair.is_linked() == (False, False)
    assert pair.milan.links.status("rome").state is State.REFUSED


def test_the_link_that_an_operator_removed_stays_wanted_at_the_other_end_and_is_refused_with_the_reason(
    pair: Pair,
) -> None:
    pair.rome.links.disconnect("milan", pair.now)
    pair.run()
    assert pair.is_linked() == (False, False)
    assert pair.milan.links.status("rome").reason == "the operator of rome has removed the link"
    pair.milan.links.connect("rome", Wish("peer"), pair.now)  # the driver tries again
    pair.run()
    assert pair.is_linked() == (False, False)
    assert "palio net link add milan" in pair.milan.links.status("rome").reason


@pytest.mark.parametrize("lifts", ["allow", "connect", "restart"])
def test_a_link_that_an_operator_removed_comes_back_when_it_is_allowed_again(pair: Pair, lifts: str) -> None:
    pair.rome.links.disconnect("milan", pair.now)
    pair.run()
    if lifts == "connect":
        pair.rome.links.connect("milan", Wish("peer"), pair.now)
    elif lifts == "allow":
        pair.rome.links.allow("milan")
    else:
        pair.rome.restart(pair.now)
    pair.milan.links.doubt("rome", pair.now)
    pair.run()
    assert pair.is_linked() == (True, True)


def test_a_link_that_ended_without_the_operator_is_opened_again_later(pair: Pair) -> None:
    pair.rome.events += pair.rome.links.break_off("milan", "milan breaks the rules", pair.now)
    pair.run()
    assert pair.is_linked() == (False, False)
    assert pair.milan.events[-1] == Refused("rome", "milan breaks the rules")
    pair.milan.links.connect("rome", Wish("peer"), pair.now)  # the driver tries again
    pair.run()
    assert pair.is_linked() == (True, True)


def test_a_refused_link_is_asked_for_when_the_obstacle_is_gone() -> None:
    pair = Pair()
    pair.milan.obstacles["rome"] = "a cycle"
    assert pair.milan.links.connect("rome", Wish("peer"), 0) == [Refused("rome", "a cycle")]
    pair.run()
    assert pair.milan.links.reconsider(pair.now) == []
    del pair.milan.obstacles["rome"]
    pair.milan.links.reconsider(pair.now)
    pair.run()
    assert pair.is_linked() == (True, True)


def test_a_link_that_the_neighbour_refused_is_not_asked_for_at_every_change_of_the_network() -> None:
    pair = Pair()
    pair.rome.refuses["milan"] = "no"
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.run()
    pair.milan.links.reconsider(pair.now)
    assert pair.milan.links.frames(pair.now) == []


@pytest.mark.parametrize("name", ["milan", "rome"])
def test_a_server_that_forgets_gets_its_link_back(pair: Pair, name: str) -> None:
    pair.forget(name)
    if name == "milan":
        pair.milan.links.connect("rome", Wish("peer"), pair.now)
    else:
        pair.milan.links.doubt("rome", pair.now)
    pair.run()
    assert pair.is_linked() == (True, True)
    pair.milan.links.send("rome", [Spread(1)], pair.now)
    pair.run()
    assert pair.rome.got() == [Spread(1)]


def test_what_came_before_a_question_is_no_answer_to_it(pair: Pair) -> None:
    """A server forgets the link while a frame of its former life is still under way."""
    late = Data((1, "milan", 0), 0, (), 0)
    pair.forget("rome")
    pair.milan.links.doubt("rome", pair.now)
    pair.milan.links.receive("rome", late, pair.now)
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.rome.changes() == [Up], "it is another link"


def test_both_ask_at_once() -> None:
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.rome.links.connect("milan", Wish("peer"), 0)
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.milan.changes() == pair.rome.changes() == [Up]


def test_a_link_that_is_lost_and_found_by_the_other_side_is_not_opened_twice(pair: Pair) -> None:
    """Milan wants the link, loses it, and before it asks again rome has asked."""
    stamp = (1, "milan", 0)
    pair.milan.events += pair.milan.links.receive("rome", Close(stamp, Why.UNKNOWN), pair.now)
    pair.forget("rome")
    pair.rome.stamps = 7
    pair.rome.links.connect("milan", Wish("peer"), pair.now)
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.milan.changes() == [Up, Down, Up]


def test_an_old_request_is_no_new_link(pair: Pair) -> None:
    asked = Open((1, "milan", 0), "peer", "as", ())
    pair.milan.links.disconnect("rome", pair.now)
    pair.run()
    pair.milan.links.allow("rome")
    assert pair.rome.links.receive("milan", asked, pair.now) == []
    pair.run()
    assert pair.is_linked() == (False, False)
    assert pair.rome.changes() == [Up, Down], "nothing came up meanwhile"


def test_refused() -> None:
    pair = Pair()
    pair.rome.refuses["milan"] = "no"
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.run()
    assert pair.milan.events == [Refused("rome", "no")]
    assert pair.is_linked() == (False, False)
    assert pair.milan.links.receive("rome", Refuse((1, "milan", 0), "again"), 0) == []


def test_a_role_that_is_none() -> None:
    pair = Pair()
    assert pair.rome.links.receive("milan", Open((1, "milan", 0), "emperor", "as", ()), 0) == []
    assert pair.rome.links.frames(0) == [
        ("milan", Refuse((1, "milan", 0), "the role is 'emperor'; it must be one of peer, master, client, gateway"))
    ]


def test_refused_by_the_one_who_asked() -> None:
    pair = Pair()
    pair.milan.refuses["rome"] = "no more"
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.run()
    assert pair.milan.events == [Refused("rome", "no more")]
    assert pair.is_linked() == (False, False)


def test_frames_of_an_old_session_change_nothing(pair: Pair) -> None:
    old = Data((0, "milan", 0), 0, (Spread(9),), 0)
    assert pair.rome.links.receive("milan", old, pair.now) == []
    assert (("milan", Close((0, "milan", 0), Why.UNKNOWN))) in pair.rome.links.frames(pair.now)
    assert pair.is_linked() == (True, True)


def test_too_much_waits(pair: Pair) -> None:
    pair.milan.events += pair.milan.links.send("rome", [Spread(n) for n in range(6)], pair.now)
    assert pair.is_linked() == (False, True)
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.milan.changes() == pair.rome.changes() == [Up, Down, Up]


@pytest.mark.parametrize("seed", range(400))
def test_after_any_luck_both_ends_agree(seed: int) -> None:
    random = Random(seed)
    pair = Pair()
    for _ in range(random.randrange(1, 8)):
        name, other = random.sample(["milan", "rome"], 2)
        links = pair.servers[name].links
        draw = random.random()
        try:
            if draw < 0.4:
                links.connect(other, Wish("peer"), pair.now)
            elif draw < 0.6:
                pair.servers[name].events += links.disconnect(other, pair.now)
            elif draw < 0.7:
                pair.forget(name)
                pair.servers[other].links.doubt(name, pair.now)
            elif other in links.peers:
                links.send(other, [Spread(0)], pair.now)
        except CallerError:
            pass
        lose = random.choice([None, Open, Accept, Data, Close, Refuse, Probe])
        pair.run(lose=lose, until=pair.now + random.randrange(60))
    pair.run()
    one, other_ = pair.is_linked()
    assert one is other_


def test_links_that_cannot_be(pair: Pair) -> None:
    with pytest.raises(CallerError, match="cannot be linked with itself"):
        pair.milan.links.connect("milan", Wish("peer"), 0)
    with pytest.raises(CallerError, match="there is a link to 'rome' already"):
        pair.milan.links.connect("rome", Wish("peer"), 0)
    with pytest.raises(CallerError, match="there is no link to 'bari'"):
        pair.milan.links.disconnect("bari", 0, bars=False)


@pytest.mark.parametrize("seed", range(200))
def test_servers_that_remember_lose_nothing(pair: Pair, seed: int) -> None:
    random = Random(seed)
    sent: dict[str, list[Message]] = {"milan": [], "rome": []}
    for number in range(random.randrange(1, 12)):
        name, other = random.sample(["milan", "rome"], 2)
        if random.random() < 0.3:
            pair.servers[name].restart(pair.now)
        elif other in pair.servers[name].links.peers and len(sent[name]) < 4:
            pair.servers[name].links.send(other, [Spread(number)], pair.now)
            pair.servers[name].save()
            sent[name].append(Spread(number))
        lose = random.choice([None, Open, Accept, Data, Probe])
        pair.run(lose=lose, until=pair.now + random.randrange(60))
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.rome.got() == sent["milan"]
    assert pair.milan.got() == sent["rome"]
    assert pair.milan.changes() == pair.rome.changes() == [Up]


@pytest.mark.parametrize("seed", range(200))
def test_what_was_ended_stays_so_also_for_servers_that_come_back(seed: int) -> None:
    """Where the server that wanted the link ends it; a bar at the other one lasts until that is restarted."""
    random = Random(seed)
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.run(lose=random.choice([None, Open, Accept]), until=random.randrange(40))
    pair.milan.links.disconnect("rome", pair.now)
    for _ in range(random.randrange(1, 5)):
        pair.run(lose=random.choice([None, Close, Closed, Data]), until=pair.now + random.randrange(60))
        pair.servers[random.choice(["milan", "rome"])].restart(pair.now)
    pair.run()
    assert pair.is_linked() == (False, False)
    assert not pair.milan.links.wishes
    assert [server.links.deadline for server in pair.servers.values()] == [None, None]
    assert (pair.milan.records, pair.rome.records) == ({}, {}), "nothing is left on disk of a link that ended"


def test_a_question_is_repeated_less_and_less_often() -> None:
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    assert [now for now in range(160) if pair.milan.links.frames(now)] == [0, 10, 30, 70, 110, 150]


def test_who_has_opened_the_link_doubts_it_when_the_other_asks_for_one(pair: Pair) -> None:
    asked = Open((9, "rome", 0), "peer", "as", (("rome", (0, "", 0)),))
    assert pair.milan.links.receive("rome", asked, pair.now) == []
    assert ("rome", Probe((1, "milan", 0), pair.now)) in pair.milan.links.frames(pair.now)
    assert pair.is_linked() == (True, True)


def test_a_late_question_does_not_end_a_link_that_both_know(pair: Pair) -> None:
    asked = Open((9, "milan", 0), "peer", "as", (("milan", (0, "", 0)),))
    assert pair.rome.links.receive("milan", asked, pair.now) == []
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.milan.changes() == pair.rome.changes() == [Up]


def test_a_server_with_an_older_clock_gets_its_link_back(pair: Pair) -> None:
    """It has forgotten the link, and the stamps that it gives are older than those of its former life."""
    pair.forget("milan")
    pair.milan.stamps = -100
    pair.milan.links.connect("rome", Wish("peer"), pair.now)
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.rome.changes() == [Up, Down, Up]


@pytest.mark.parametrize("name", ["milan", "rome"])
@pytest.mark.parametrize("sender", ["milan", "rome"])
def test_a_server_that_comes_back_with_an_older_state_begins_a_new_session(pair: Pair, name: str, sender: str) -> None:
    """Its disk was restored from a copy, and messages have gone over the link since that was made."""
    copy = dict(pair.servers[name].records)
    receiver = "rome" if sender == "milan" else "milan"
    pair.servers[sender].links.send(receiver, [Spread(1), Spread(2)], pair.now)
    pair.run()
    pair.servers[name].records = copy
    pair.servers[name].stamps += 100
    pair.servers[name].restart(pair.now)
    pair.servers[sender].links.send(receiver, [Spread(3)], pair.now)
    pair.run()
    assert pair.is_linked() == (True, True)
    other = "rome" if name == "milan" else "milan"
    downs = [event for event in pair.servers[other].events if isinstance(event, Down)]
    assert len(downs) == 1
    assert f"{name} came back with an older state of the link" in downs[0].reason
    pair.servers[sender].links.send(receiver, [Spread(4)], pair.now)
    pair.run()
    assert pair.servers[receiver].got()[-1] == Spread(4)


def test_no_message_is_sent_before_both_ends_agree_about_the_link(pair: Pair) -> None:
    pair.milan.links.send("rome", [Spread(1)], pair.now)
    pair.milan.save()
    pair.milan.restart(pair.now)
    asked = pair.milan.links.frames(pair.now)
    assert [type(frame) for _, frame in asked] == [Probe]
    pair.run()
    assert pair.rome.got() == [Spread(1)]


def test_a_lost_link_is_opened_again_after_a_while(pair: Pair) -> None:
    [down] = pair.milan.links.receive("rome", Close((1, "milan", 0), Why.UNKNOWN), pair.now)
    assert down == Down("rome", "rome does not know the link any more")
    times = []
    for now in range(pair.now, pair.now + 15):
        pair.milan.links.wake(now)
        if any(isinstance(frame, Open) for _, frame in pair.milan.links.frames(now)):
            times.append(now)
    assert times == [pair.now + 10]


def test_a_link_that_is_lost_again_and_again_is_opened_less_and_less_often() -> None:
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pauses = []
    for is_steady in (False, False, False, False, True, False):
        pair.run()
        if is_steady:
            pair.now += SETTINGS.most_patience
        pair.milan.links.lose("rome", pair.now)
        waiting = pair.milan.links._ends["rome"].reopen_at
        assert waiting is not None
        pauses.append(waiting - pair.now)
    assert pauses == [10, 20, 40, 40, 10, 20]


def test_the_wish_for_a_lost_link_can_be_given_up(pair: Pair) -> None:
    pair.milan.links.receive("rome", Close((1, "milan", 0), Why.UNKNOWN), pair.now)
    assert pair.milan.links.disconnect("rome", pair.now) == []
    pair.run()
    assert not [frame for now in range(pair.now, pair.now + 50) for _, frame in pair.milan.links.frames(now)]
    assert pair.milan.links.deadline is None


def test_data_may_overtake_the_answer_but_not_come_out_of_nowhere() -> None:
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.milan.links.frames(0)
    assert pair.milan.links.receive("rome", Data((1, "milan", 0), 0, (Spread(1),), 0), 1) == []
    assert pair.milan.links.frames(1) == []
    assert pair.milan.links.receive("rome", Data((7, "milan", 0), 0, (Spread(1),), 0), 1) == []
    assert pair.milan.links.frames(1) == [("rome", Close((7, "milan", 0), Why.UNKNOWN))]


def test_a_doubt_is_settled_by_its_answer_and_by_nothing_else(pair: Pair) -> None:
    stamp = (1, "milan", 0)
    pair.milan.links.doubt("rome", pair.now)
    assert pair.milan.links.frames(pair.now) == [("rome", Probe(stamp, pair.now))]
    for frame in (Data(stamp, 0, (), 0), Known(stamp, pair.now + 1), Known((9, "milan", 0), pair.now)):
        pair.milan.links.receive("rome", frame, pair.now)
    assert ("rome", Probe(stamp, pair.now)) in pair.milan.links.frames(pair.now + 10)
    pair.milan.links.receive("rome", Known(stamp, pair.now), pair.now)
    assert not [frame for now in range(50) for _, frame in pair.milan.links.frames(pair.now + 11 + now)]


def test_the_answer_is_acknowledged_at_once() -> None:
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    [(_, asked)] = pair.milan.links.frames(0)
    pair.rome.links.receive("milan", asked, 0)
    [(_, answer)] = pair.rome.links.frames(0)
    pair.milan.links.receive("rome", answer, 0)
    assert pair.milan.links.frames(0) == [("rome", Data((1, "milan", 0), 0, (), 0))]
    pair.rome.links.receive("milan", Data((1, "milan", 0), 0, (), 0), 1)
    assert not [frame for now in range(1, 100) for frame in pair.rome.links.frames(now)]


def test_a_neighbour_that_cannot_be_reached_is_given_up_and_comes_back(pair: Pair) -> None:
    pair.milan.events += pair.milan.links.lose("rome", pair.now)
    assert pair.is_linked() == (False, True)
    assert pair.milan.links.lose("rome", pair.now) == []
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.milan.changes() == pair.rome.changes() == [Up, Down, Up]


@pytest.mark.parametrize("name", ["milan", "rome"])
def test_whoever_gives_up_the_link_is_opened_again_by_the_one_who_wants_it(pair: Pair, name: str) -> None:
    server = pair.servers[name]
    server.events += server.links.lose("rome" if name == "milan" else "milan", pair.now)
    pair.run()
    assert pair.is_linked() == (True, True)


def test_when_the_way_is_there_again_all_that_waits_is_said_at_once() -> None:
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.run(lose=Open, until=500)
    pair.now = 501
    assert pair.milan.links.frames(pair.now) == []
    pair.milan.links.doubt("rome", pair.now)
    assert [type(frame) for _, frame in pair.milan.links.frames(pair.now)] == [Open]


def two_neighbours() -> Links:
    """Of milan: rome and bari."""
    milan = Server("milan").links
    for number, peer in enumerate(("rome", "bari")):
        milan.receive(peer, Open((number + 1, peer, 0), "peer", "as", ()), 0)
        milan.receive(peer, Data((number + 1, peer, 0), 0, (), 0), 0)
    milan.frames(0)
    return milan


def room_told(links: Links, now: int) -> dict[str, bool]:
    return {peer: frame.has_room for peer, frame in links.frames(now) if isinstance(frame, Data)}


def test_what_waits_for_one_neighbour_holds_all_others_back() -> None:
    milan = two_neighbours()
    milan.send("rome", [Spread(n) for n in range(4)], 0)
    assert milan.is_full
    assert room_told(milan, 0) == {"rome": True, "bari": False}
    milan.receive("rome", Data((1, "rome", 0), 0, (), 2), 1)
    assert milan.is_full  # until half of it is gone
    milan.receive("rome", Data((1, "rome", 0), 0, (), 3), 2)
    assert not milan.is_full
    assert room_told(milan, 2)["bari"]


def test_a_neighbour_that_is_gone_holds_nobody_back() -> None:
    milan = two_neighbours()
    milan.send("rome", [Spread(n) for n in range(4)], 0)
    milan.frames(0)
    milan.lose("rome", 1)
    assert not milan.is_full
    assert room_told(milan, 1)["bari"]


def test_a_crowded_server_holds_all_neighbours_back_also_new_ones() -> None:
    milan = two_neighbours()
    milan.room(0, is_there=False)
    assert room_told(milan, 0) == {"rome": False, "bari": False}
    milan.receive("pisa", Open((7, "pisa", 0), "peer", "as", ()), 1)
    milan.receive("pisa", Data((7, "pisa", 0), 0, (), 0), 1)
    milan.send("pisa", [Spread(1)], 1)
    assert room_told(milan, 1) == {"pisa": False}
    milan.room(2, is_there=True)
    assert room_told(milan, 2) == {"rome": True, "bari": True, "pisa": True}


def test_an_answer_that_the_neighbour_relies_on_survives_a_restart() -> None:
    """Milan is up with the answer, and may have acknowledged messages; rome is killed before milan's confirmation."""
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.run(lose=Data, until=3)
    assert pair.is_linked() == (True, False)
    pair.milan.links.send("rome", [Spread(1)], pair.now)
    pair.milan.save()
    pair.rome.restart(pair.now)
    pair.milan.links.doubt("rome", pair.now)
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.rome.got() == [Spread(1)]
    assert pair.milan.changes() == [Up]
    assert ("answer", "milan") not in pair.rome.records


def test_a_confirmation_is_judged_again() -> None:
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.run(lose=Data, until=3)
    pair.rome.refuses["milan"] = "no more"
    pair.run()
    assert pair.is_linked() == (False, False)
    assert pair.milan.links.status("rome").reason == "no more"
    assert pair.rome.changes() == []


def test_a_neighbour_that_never_answers_a_close_costs_little(pair: Pair) -> None:
    for number in range(2, 100):
        stamp = (number, "milan", 0)
        pair.rome.links.receive("milan", Open(stamp, "peer", "as", ()), pair.now)
        pair.rome.links.receive("milan", Data(stamp, 0, (), 0), pair.now)
        pair.rome.links.break_off("milan", "it breaks the rules", pair.now)
    pair.rome.save()
    assert len(pair.rome.records) <= MOST_CLOSING
    assert len(pair.rome.links._ends["milan"].closing) <= MOST_CLOSING


def test_a_stamp_that_leaves_no_higher_ones_is_refused() -> None:
    pair = Pair()
    for session, members in (((1 << 62, "milan", 0), ()), ((1, "milan", 0), (("bari", (1 << 63, "bari", 0)),))):
        pair.rome.links.receive("milan", Open(session, "peer", "as", members), 0)
        [(_, refused)] = pair.rome.links.frames(0)
        assert refused == Refuse(session, "the number of a stamp is too high")


def change(pair: Pair, wish: Wish, *, latency_counts: bool = True) -> None:
    """Milan wants the link to rome in another way."""
    links = pair.milan.links
    pair.milan.events += links.renew("rome", wish, pair.now, latency_counts=latency_counts)
    pair.milan.events += links.connect("rome", wish, pair.now)


@pytest.mark.parametrize(
    ("wish", "change_"),
    [(Wish("peer", 5), "the latency from 1 to 5"), (Wish("gateway"), "the role from peer to gateway")],
)
def test_a_link_that_is_wanted_in_another_way_is_renewed_and_both_ends_see_why(
    pair: Pair, wish: Wish, change_: str
) -> None:
    change(pair, wish)
    pair.run()
    assert pair.is_linked() == (True, True)
    reason = f"milan renews the link, because its configuration has changed: {change_}"
    for server, peer in ((pair.milan, "rome"), (pair.rome, "milan")):
        assert server.changes() == [Up, Down, Up]
        assert server.events[1] == Down(peer, reason)
        up = server.events[2]
        assert isinstance(up, Up)
        assert (up.role, up.latency, server.links.latency(peer)) == (wish.role, wish.latency, wish.latency)
    assert pair.milan.links.wishes == {"rome": wish}


def test_a_latency_that_does_not_count_ends_no_session_and_loses_no_message(pair: Pair) -> None:
    pair.milan.links.send("rome", [Spread(1)], pair.now)
    change(pair, Wish("peer", 5), latency_counts=False)
    pair.run()
    assert pair.milan.changes() == pair.rome.changes() == [Up]
    assert pair.rome.got() == [Spread(1)]
    pair.milan.events += pair.milan.links.lose("rome", pair.now)
    pair.run()
    assert (pair.milan.links.latency("rome"), pair.rome.links.latency("milan")) == (5, 5)


@pytest.mark.parametrize("kind", [Open, Accept, Data])
def test_a_link_that_is_not_up_yet_can_be_renewed(kind: type[Frame]) -> None:
    pair = Pair()
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.run(lose=kind, until=3)
    change(pair, Wish("peer", 5))
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.rome.links.latency("milan") == 5


def test_a_link_that_is_renewed_while_the_neighbour_cannot_be_reached_survives_a_restart(pair: Pair) -> None:
    change(pair, Wish("peer", 5))
    pair.run(lose=Frame, until=pair.now + 100)
    pair.milan.restart(pair.now)
    pair.run()
    assert pair.is_linked() == (True, True)
    assert pair.rome.links.latency("milan") == 5


def test_a_link_that_is_not_wanted_here_is_not_renewed(pair: Pair) -> None:
    assert pair.rome.links.renew("milan", Wish("peer", 5), pair.now, latency_counts=True) == []
    assert pair.rome.links.renew("bari", Wish("peer", 5), pair.now, latency_counts=True) == []
    pair.run()
    assert pair.is_linked() == (True, True)


def test_the_neighbour_receives_the_reason_for_the_end(pair: Pair) -> None:
    pair.milan.links.disconnect("rome", pair.now, bars=False, reason="milan has no url of rome any more")
    pair.run()
    assert pair.rome.events[-1] == Down("milan", "milan has no url of rome any more")


def lives_of_milan(pair: Pair, *, is_stamp_new: bool) -> tuple[Pair, list[Message]]:
    """Milan sends two messages, loses its store, and sends four others as soon as the link is up; what rome receives.

    A copy of rome's first answer is late: it comes when milan asks again. Rome has sent nothing, so nothing that it
    knows contradicts the new session.
    """
    pair.milan.links.connect("rome", Wish("peer"), 0)
    pair.run()
    pair.milan.links.send("rome", [Spread(1), Spread(2)], pair.now)
    pair.run()
    pair.rome.events.clear()
    pair.forget("milan")
    pair.milan.stamps = 1 if is_stamp_new else 0
    pair.milan.links.connect("rome", Wish("peer"), pair.now)
    pair.milan.links.receive("rome", Accept((1, "milan", 0), ()), pair.now)
    if "rome" not in pair.milan.links.peers:
        pair.rome.links.doubt("milan", pair.now)
        pair.run()
    pair.milan.links.send("rome", [Spread(number) for number in (11, 12, 13, 14)], pair.now)
    pair.run()
    pair.rome.links.doubt("milan", pair.now)
    pair.run()
    return pair, pair.rome.got()


def test_a_stamp_that_is_given_again_loses_messages() -> None:
    """So stamps contain the start of the server: see ``Membership.next_stamp``."""
    pair, got = lives_of_milan(Pair(), is_stamp_new=True)
    assert got == [Spread(11), Spread(12), Spread(13), Spread(14)]
    assert pair.rome.changes() == [Down, Up]
    pair, got = lives_of_milan(Pair(), is_stamp_new=False)
    assert got == [Spread(13), Spread(14)], "rome takes the others for messages that it knows"
    assert pair.rome.changes() == [], "and nobody notices"
