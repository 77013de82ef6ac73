"""Patterns that a neighbour watches: who watches, what travels, how monitors move, and what neighbours may not say."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from palio import Advertisement, Notification, Pattern
from palio.model.envelope import Envelope
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.node.settings import Delegation
from palio.node.watches import Place, Watch
from palio.routing import messages
from palio.routing.messages import Message, Stamp
from palio.sim.engine.cluster import Cluster

AB = Pattern.parse('kind = "a" then kind = "b"')
OFFER = Advertisement.parse('kind = "a"; kind = "b"')


class Row(Cluster):
    """Servers in a row, 1 to 4, and what they say to each other."""

    def __init__(self, architecture: str = "aa", **settings: Any) -> None:
        super().__init__(Random(1), lambda _source, _target: 10_000)
        self.said: list[tuple[str, str, Message]] = []
        for server in "1234":
            self.start(NodeSettings(server, architecture)._replace(**settings))
            if server != "1":
                self.give(server, [ports.Connect(str(int(server) - 1))])
            self.settle()

    def _sent(self, server: str, peer: str, number: int, stamp: Stamp, message: Message) -> None:
        super()._sent(server, peer, number, stamp, message)
        self.said.append((server, peer, message))

    def ask(self, server: str, party: str, operation: ports.Operation) -> None:
        """A party asks for something, and all comes to rest."""
        self.hasten(server, party, operation)
        self.settle()

    def hasten(self, server: str, party: str, operation: ports.Operation) -> None:
        """A party asks for something, and what follows is on its way."""
        self.give(server, [ports.Request(party, 1, operation)])

    def publish(self, server: str, kinds: str) -> None:
        for kind in kinds:
            self.hasten(server, "source", ports.Publish(Notification(kind=kind)))
        self.settle()

    def place(self, server: str, party: str, pattern: Pattern = AB) -> Place:
        watch: Watch = self.nodes[server].monitors._parties[party].watches[pattern]
        return watch.place

    def watched(self) -> str:
        """The servers whose routers hold filters for monitors."""
        return "".join(server for server, node in self.nodes.items() if node.router.profile("").filters)

    def found(self, party: str = "me") -> list[tuple[int, ...]]:
        return [
            tuple(one.envelope.id.sequence for one in each.notifications if one.envelope)
            for each in self.sequences
            if each.party == party
        ]

    def heard(self, kind: type[Message]) -> int:
        return sum(isinstance(message, kind) for _, _, message in self.said)


def test_a_pattern_is_watched_where_all_of_it_comes_from() -> None:
    row = Row()
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    assert row.watched() == "4"
    assert row.heard(messages.Subscribe) == 0
    row.said.clear()
    row.publish("4", "bbaaabbab")
    assert row.found() == [(2, 5), (7, 8)]
    assert row.heard(messages.Publish) == 0
    assert row.heard(messages.Element) == 4 * 3


def test_also_if_it_is_advertised_only_later() -> None:
    row = Row()
    row.ask("1", "me", ports.Subscribe(AB))
    assert row.watched() == "1"
    row.ask("4", "source", ports.Advertise(OFFER))
    assert row.watched() == "4"
    assert row.heard(messages.Subscribe) == 0


@pytest.mark.parametrize("architecture", ["aa", "ga"])
def test_a_second_source_fetches_the_monitor_to_where_the_ways_part(architecture: str) -> None:
    row = Row(architecture)
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    row.publish("4", "a")
    row.ask("2", "other", ports.Advertise(OFFER))
    assert row.watched() == "2"
    row.publish("2", "b")
    assert row.found() == [(0, 0)]
    row.ask("2", "other", ports.Unadvertise(OFFER))
    assert row.watched() == "4"


def test_nothing_is_lost_while_a_monitor_moves() -> None:
    row = Row()
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    count = 0
    for deed in (ports.Advertise(OFFER), ports.Unadvertise(OFFER), ports.Advertise(OFFER)):
        row.hasten("1", "other", deed)
        for _ in range(40):
            row.hasten("4", "source", ports.Publish(Notification(kind="ab"[count % 2])))
            count += 1
            row.scheduler.run(most=7)
    row.settle()
    assert row.found() == [(number, number + 1) for number in range(0, count, 2)]


def test_a_pattern_that_is_cancelled_is_released_everywhere() -> None:
    row = Row()
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    row.ask("1", "me", ports.Unsubscribe(AB))
    assert row.watched() == ""
    assert not any(node.delegating.lent or node.delegating.taken_in for node in row.nodes.values())
    assert not any(len(node.router.subscriptions) for node in row.nodes.values())


def test_one_message_tells_all_monitors_of_a_neighbour() -> None:
    row = Row()
    row.ask("4", "source", ports.Advertise(OFFER))
    for party in ("me", "you"):
        row.ask("1", party, ports.Subscribe(AB))
    row.ask("2", "them", ports.Subscribe(AB))
    row.said.clear()
    row.publish("4", "ab")
    assert row.found() == row.found("you") == row.found("them") == [(0, 1)]
    assert row.heard(messages.Element) == 2 * 3


def test_no_sequence_begins_before_its_party_has_subscribed() -> None:
    row = Row()
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    row.publish("4", "a")
    row.ask("1", "you", ports.Subscribe(AB))
    row.publish("4", "bab")
    assert row.found() == [(0, 1), (2, 3)]
    assert row.found("you") == [(2, 3)]


def test_what_is_taken_goes_with_the_notification_if_that_goes_anyway() -> None:
    row = Row()
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    row.ask("1", "me", ports.Subscribe(AB.filters[0]))
    row.said.clear()
    row.publish("4", "ab")
    assert row.found() == [(0, 1)]
    assert (row.heard(messages.Publish), row.heard(messages.Element)) == (3, 3)


def test_a_neighbour_that_is_gone_takes_no_elements_along() -> None:
    row = Row()
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    row.publish("4", "a")
    row.give("2", [ports.Disconnect("1")])
    row.settle()
    assert row.place("1", "me") is Place.HERE
    row.ask("1", "here", ports.Advertise(OFFER))
    row.publish("1", "b")
    assert row.found() == [(0, 0)]


def offered() -> Row:
    """Server 1 has just asked server 2 to watch a pattern, because its own party advertises nothing of it any more."""
    row = Row()
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "other", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    row.publish("4", "a")
    row.hasten("1", "other", ports.Unadvertise(OFFER))
    assert row.place("1", "me") is Place.OFFERED
    return row


def test_an_offer_is_withdrawn_when_it_is_out_of_date() -> None:
    row = offered()
    row.hasten("1", "other", ports.Advertise(OFFER))
    assert row.place("1", "me") is Place.HERE
    row.settle()
    assert row.watched() == "1"
    assert not any(node.delegating.lent or node.delegating.taken_in for node in row.nodes.values())
    row.publish("1", "b")
    assert row.found() == [(0, 0)]


def test_an_offer_is_over_when_the_neighbour_is_gone() -> None:
    row = offered()
    row.give("1", [ports.Disconnect("2")])
    assert row.place("1", "me") is Place.HERE
    assert not row.nodes["1"].delegating.lent
    row.settle()
    row.ask("1", "other", ports.Advertise(OFFER))
    row.publish("1", "b")
    assert row.found() == [(0, 0)]


def test_a_pattern_may_be_cancelled_wherever_its_monitor_is() -> None:
    for place, row in ((Place.OFFERED, offered()), (Place.RECALLED, Row(durable=True))):
        if place is Place.RECALLED:
            row.ask("4", "source", ports.Advertise(OFFER))
            row.ask("1", "me", ports.Subscribe(AB))
            row.hasten("1", "source", ports.Advertise(OFFER))
            row.scheduler.run(most=1)
            row.hasten("1", "source", ports.Publish(Notification(kind="a")))
        assert row.place("1", "me") is place
        row.ask("1", "me", ports.Unsubscribe(AB))
        assert row.watched() == ""
        for node in row.nodes.values():
            assert not node.delegating.lent
            assert not node.delegating.taken_in
            assert not node.delegating._by_filter
            assert not node.delegating.available._providers
            assert not node.monitors._waiting
            assert not node.monitors._collecting
    row.crash("1")
    row.start(NodeSettings("1", "aa", durable=True))  # nothing is left on the disk that nobody knows
    row.settle()
    assert row.nodes["1"].monitors.patterns("me") == ()


@pytest.mark.parametrize(("most", "found"), [(4, [(0, 1), (2, 3)]), (3, [(2, 3)]), (2, [(2, 3)])])
def test_what_waits_for_an_answer_has_a_limit(most: int, found: list[tuple[int, ...]]) -> None:
    row = Row(held_back=most)
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    row.hasten("1", "source", ports.Advertise(OFFER))
    assert row.place("1", "me") is Place.RECALLED
    row.publish("1", "abab")
    assert row.found() == found
    row.publish("1", "ab")
    assert row.found() == [*found, (4, 5)]


def test_it_can_be_switched_off() -> None:
    row = Row(delegation=Delegation.NONE)
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    assert row.watched() == "1"
    row.publish("4", "ab")
    assert row.found() == [(0, 1)]


@pytest.mark.parametrize("before", [Delegation.WHOLE, Delegation.GROUPS])
def test_a_server_that_comes_back_with_other_settings_fetches_its_monitors(before: Delegation) -> None:
    row = Row(durable=True, delegation=before)
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    row.ask("1", "me", ports.Subscribe(Pattern.parse('kind = "c" then kind = "a" then kind = "b"')))
    row.publish("4", "a")
    row.crash("1")
    row.start(NodeSettings("1", "aa", durable=True, delegation=Delegation.NONE), [ports.Attach("me")])
    row.settle()
    assert row.watched() == "1"
    assert len(row.nodes["1"].router.profile("").filters) == 3
    row.publish("4", "b")
    assert row.found() == [(0, 1)]


def test_groups_spare_traffic_and_miss_what_began_too_early() -> None:
    found: dict[Delegation, tuple[list[tuple[int, ...]], int]] = {}
    for delegation in (Delegation.WHOLE, Delegation.GROUPS):
        row = Row(delegation=delegation)
        for kind in "ab":
            row.ask("4", kind, ports.Advertise(Advertisement.parse(f'kind = "{kind}"')))
        row.ask("1", "c", ports.Advertise(Advertisement.parse('kind = "c"')))
        row.ask("2", "me", ports.Subscribe(Pattern.parse('kind = "c" then kind = "a" then kind = "b"')))
        row.said.clear()
        row.publish("4", "aa")
        row.publish("1", "c")
        row.publish("4", "abbaab")
        found[delegation] = row.found(), row.heard(messages.Publish) + row.heard(messages.Element)
    # a group takes the first a, which is before c; with the b after it, it comes too early for the whole
    assert found[Delegation.WHOLE][0] == [(0, 2, 3)]
    assert found[Delegation.GROUPS][0] == [(0, 5, 7)]
    assert found[Delegation.GROUPS][1] < found[Delegation.WHOLE][1]


def test_a_group_is_watched_as_long_as_a_pattern_needs_it() -> None:
    row = Row(delegation=Delegation.GROUPS)
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "c", ports.Advertise(Advertisement.parse('kind = "c"')))
    one, other = (Pattern.parse(text) for text in (f'kind = "c" then {AB}', f'{AB} then kind = "c"'))
    for wanted in (one, other):
        row.ask("2", "me", ports.Subscribe(wanted))
    assert len(row.nodes["2"].delegating.lent) == 1
    row.ask("2", "me", ports.Unsubscribe(one))
    row.publish("4", "ab")
    row.publish("1", "c")
    assert row.found() == [(0, 1, 0)]
    row.ask("2", "me", ports.Unsubscribe(other))
    assert row.watched() == ""
    assert not row.nodes["2"].monitors._parts
    assert not any(node.delegating.lent or node.delegating.taken_in for node in row.nodes.values())


# -- what neighbours may not say ---------------------------------------------------------------------------------------


def lent() -> tuple[Row, Watch, int]:
    """Server 1 has left a pattern to server 2."""
    row = Row()
    row.ask("4", "source", ports.Advertise(OFFER))
    row.ask("1", "me", ports.Subscribe(AB))
    (commission, watch), *_ = row.nodes["1"].delegating.lent.items()
    return row, watch, commission.tag


def say(row: Row, server: str, peer: str, message: Message) -> None:
    row.nodes[server]._received(peer, [message])


def enveloped(node: Node, kind: str) -> Notification:
    id = messages.NotificationId("4", 0, 99)
    return Notification(kind=kind).with_envelope(Envelope(id, node.publishing.clock.next(10**9), "source"))


@pytest.mark.parametrize(
    "make",
    [
        lambda row, tag: messages.Element(enveloped(row.nodes["1"], "b"), (tag,)),
        lambda row, tag: messages.Element(Notification(kind="a"), (tag,)),
        lambda row, tag: messages.Continue(7, 0, None, ()),
        lambda row, tag: messages.Recall(7),
    ],
    ids=["an element that does not fit", "no envelope", "of nothing", "of nothing either"],
)
def test_a_neighbour_that_breaks_the_rules_is_given_up(make: Any) -> None:
    row, watch, tag = lent()
    say(row, "1", "2", make(row, tag))
    assert "2" not in row.nodes["1"].router.peers
    assert watch.place is Place.HERE


def test_a_task_is_not_given_twice_nor_continued_twice() -> None:
    for message in (messages.Delegate(AB, 1, ("1",)), messages.Continue(1, 0, None, ())):
        row, _, tag = lent()
        assert tag == 1
        say(row, "2", "1", message)
        assert "1" not in row.nodes["2"].router.peers


def test_a_position_is_one_of_the_pattern() -> None:
    row, *_ = lent()
    say(row, "2", "1", messages.Delegate(AB, 5, ("1",)))
    say(row, "2", "1", messages.Continue(5, 2, None, ()))
    assert "1" not in row.nodes["2"].router.peers


def test_what_is_over_may_still_be_spoken_of() -> None:
    row, _, tag = lent()
    row.ask("1", "me", ports.Unsubscribe(AB))
    for message in (messages.Element(enveloped(row.nodes["1"], "a"), (tag,)), messages.Accepted(tag)):
        say(row, "1", "2", message)
    say(row, "1", "2", messages.Returned(tag, ()))
    say(row, "2", "1", messages.Release(tag))
    assert "2" in row.nodes["1"].router.peers
    assert "1" in row.nodes["2"].router.peers


def test_only_where_advertisements_spread() -> None:
    row = Row("as")
    say(row, "2", "1", messages.Delegate(AB, 1, ("1",)))
    assert "1" not in row.nodes["2"].router.peers
