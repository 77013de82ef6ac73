"""A node and peers of an earlier release: what they are sent, what becomes a letter, what survives a restart."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from palio import Advertisement, Envelope, Filter, Limits, Notification, NotificationId, Pattern
from palio.link.session import LinkSettings
from palio.model import PROTOCOL_LIMITS
from palio.model.limits import VERSION_1_LIMITS, from_wire, to_wire
from palio.node import peer_limits, ports
from palio.node.node import Node, NodeSettings
from palio.node.records import decode_value, encode_value
from palio.node.watches import Place
from palio.routing.messages import Advertise, Continue, Element, Message, Returned, Stamp, Subscribe
from palio.sim.engine.cluster import Cluster

OLD = replace(PROTOCOL_LIMITS, constraints=2, value_bytes=8, literal_bytes=20, key_bytes=20)
"""What servers take that are of an earlier release here."""
LONG = "x" * 9


class Network(Cluster):
    """Milan and Rome; frames are read as bytes with the limits of who gets them, and none may be refused."""

    def __init__(self, architecture: str = "as", *, old: str = "rome", durable: bool = False, **settings: Any) -> None:
        super().__init__(Random(1), lambda _source, _target: 10_000)
        self.has_doors = True
        self.said: list[tuple[str, Message]] = []
        self.settings = {
            server: NodeSettings(
                server, architecture, accepted=OLD if server == old else PROTOCOL_LIMITS, durable=durable
            )._replace(**settings)
            for server in ("milan", "rome")
        }
        for each in self.settings.values():
            self.start(each)
        self.give("milan", [ports.Connect("rome")])
        self.rest()

    @property
    def milan(self) -> Node:
        return self.nodes["milan"]

    def _sent(self, server: str, peer: str, number: int, stamp: Stamp, message: Message) -> None:
        super()._sent(server, peer, number, stamp, message)
        self.said.append((server, message))

    def rest(self) -> None:
        assert self.settle()
        assert not self.refusals
        assert all("rome" in node.links.peers or "milan" in node.links.peers for node in self.nodes.values())

    def ask(self, server: str, party: str, operation: ports.Operation) -> None:
        self.give(server, [ports.Request(party, 1, operation)])
        self.rest()

    def publish(self, server: str, **attributes: Any) -> None:
        self.ask(server, "source", ports.Publish(Notification(attributes)))

    def got(self, party: str) -> list[Any]:
        return [each.notification["x"] for each in self.deliveries if each.party == party]

    def letters(self, server: str = "milan", peer: str = "rome") -> list[Any]:
        return [each.notification["x"] for each in self.nodes[server].peer_limits.letters[peer].letters.values()]

    def told(self, server: str = "rome", peer: str = "milan") -> set[Message]:
        return set(self.nodes[server].router.standing(peer))

    def restart(self, server: str, **settings: Any) -> None:
        self.crash(server)
        self.start(self.settings[server]._replace(**settings))
        self.rest()

    def reconnect(self, limits: Limits | None) -> None:
        """There is a new connection to Rome, of version 1 if it comes with limits."""
        if limits is not None:
            self.nodes["rome"].settings = self.nodes["rome"].settings._replace(accepted=limits)
        self.give("milan", [ports.Doubt("rome", () if limits is None else to_wire(limits))])


@pytest.mark.parametrize("architecture", ["as", "aa", "gs", "ga", "nf"])
def test_a_publication_that_a_peer_cannot_take_is_a_letter_and_the_link_goes_on(architecture: str) -> None:
    network = Network(architecture)
    if architecture in ("aa", "ga"):
        network.ask("milan", "source", ports.Advertise(Advertisement.parse("x any")))
    network.ask("rome", "me", ports.Subscribe(Filter.parse("x any")))
    for value in ("short", LONG, "again"):
        network.publish("milan", x=value)
    assert network.got("me") == ["short", "again"]
    (letter,) = network.milan.peer_limits.letters["rome"].letters.values()
    assert letter.notification == Notification(x=LONG)
    assert "value_bytes" in letter.reason


def test_envelopes_count_too() -> None:
    network = Network()
    network.ask("rome", "me", ports.Subscribe(Filter.parse("x any")))
    for number, party in enumerate(("source", "a publisher with a long name")):
        network.ask("milan", party, ports.Publish(Notification(x=number)))
    assert (network.got("me"), network.letters()) == ([0], [1])


def test_letters_are_bounded_and_counted() -> None:
    network = Network(link=LinkSettings(letters=2))
    network.ask("rome", "me", ports.Subscribe(Filter.parse("x any")))
    for number in range(5):
        network.publish("milan", x=LONG + str(number))
    letters = network.milan.peer_limits.letters["rome"]
    assert ([*letters.letters], letters.forgotten, letters.next) == ([3, 4], 3, 5)
    assert network.milan.peer_limits.letters.totals() == {"rome": 5}
    network.give("milan", [ports.DiscardLinkLetters("rome", (3, 17))])
    assert [*network.milan.peer_limits.letters["rome"].letters] == [4]


def test_letters_are_bounded_in_bytes() -> None:
    network = Network(link=LinkSettings(letters_bytes=3_000))
    network.ask("rome", "me", ports.Subscribe(Filter.parse("x any")))
    for number in range(4):
        network.publish("milan", x=str(number) * 1_200)
    assert [each[0] for each in network.letters()] == ["2", "3"]
    network.publish("milan", x="4" * 5_000)
    assert [each[0] for each in network.letters()] == ["4"]  # the last one is kept in any case


def test_letters_survive_a_restart() -> None:
    network = Network(durable=True)
    network.ask("rome", "me", ports.Subscribe(Filter.parse("x any")))
    network.publish("milan", x=LONG)
    network.restart("milan")
    assert network.letters() == [LONG]
    network.publish("milan", x="short")
    network.publish("milan", x=LONG + "2")
    assert network.got("me") == ["short"]
    assert [*network.milan.peer_limits.letters["rome"].letters] == [0, 1]


def test_a_filter_that_a_peer_cannot_take_is_widened_and_nothing_is_missed() -> None:
    network = Network()
    network.ask("milan", "me", ports.Subscribe(Filter.parse('x > 3 and y any and note != "long"')))
    assert network.told() == {Subscribe(Filter.parse("x > 3 and y any"))}
    network.publish("rome", x=4, y=1, note="short")
    network.publish("rome", x=5, y=1, note="long")
    assert network.got("me") == [4]
    network.ask("milan", "me", ports.Unsubscribe(Filter()))
    assert network.told() == set()


def test_filters_with_the_same_form_are_told_once_and_taken_back_with_the_last() -> None:
    network = Network(durable=True)
    texts = [f'x > 3 and y any and note = "{word}"' for word in ("aaaaaa", "bbbbbb")]
    for party, text in zip(("me", "you"), texts, strict=True):
        network.ask("milan", party, ports.Subscribe(Filter.parse(text)))
    form = Subscribe(Filter.parse("x > 3 and y any"))
    assert network.told() == {form}
    network.restart("milan")
    network.ask("milan", "me", ports.Unsubscribe(Filter()))
    assert network.told() == {form}
    network.ask("milan", "he", ports.Subscribe(Filter.parse("x > 3 and y any")))  # the form itself
    network.ask("milan", "you", ports.Unsubscribe(Filter()))
    assert network.told() == {form}
    network.ask("milan", "he", ports.Unsubscribe(Filter()))
    assert network.told() == set()
    keys = [decode_value(encode_value(key)) for key in network.disks["milan"].records]
    assert not [key for key in keys if key[0] == "widened"]


def test_an_advertisement_that_a_peer_cannot_take_is_widened() -> None:
    network = Network("aa")
    network.ask("milan", "source", ports.Advertise(Advertisement.parse("x = 1; x = 2; x = 3; y = 1")))
    assert network.told() == {Advertise(Advertisement.parse("x any; y = 1"))}
    network.ask("rome", "me", ports.Subscribe(Filter.parse("x > 2")))
    network.publish("milan", x=3)
    assert network.got("me") == [3]
    network.ask("milan", "source", ports.Unadvertise(Advertisement.parse("x any; y any")))
    assert network.told() == set()


def test_an_advertisement_with_too_many_names_is_not_told_and_can_be_taken_back() -> None:
    network = Network("aa")
    network.ask("milan", "source", ports.Advertise(Advertisement.parse("x any; y any; z any")))
    assert network.told() == set()
    network.ask("milan", "source", ports.Unadvertise(Advertisement.parse("x any; y any; z any")))
    assert network.told() == set()


def test_new_releases_are_sent_everything_as_it_is() -> None:
    network = Network(old="")
    filter = Filter.parse("a any and b any and c any and x any")
    network.ask("rome", "me", ports.Subscribe(filter))
    assert network.told("milan", "rome") == {Subscribe(filter)}
    network.publish("milan", x="x" * 300_000, a=1, b=1, c=1)
    assert len(network.got("me")) == 1
    assert not network.milan.peer_limits.is_tight("rome")


# -- patterns ----------------------------------------------------------------------------------------------------------


def test_a_pattern_that_a_peer_cannot_take_is_not_delegated() -> None:
    network = Network("aa")
    network.ask("rome", "source", ports.Advertise(Advertisement.parse("x any; y any")))
    large = Pattern.parse("x = 1 and y != 5 and y != 6 then x = 2")
    network.ask("milan", "me", ports.Subscribe(large))
    network.ask("milan", "you", ports.Subscribe(Pattern.parse("x = 1 then x = 3")))
    places = {
        party: next(iter(network.milan.monitors._parties[party].watches.values())).place for party in ("me", "you")
    }
    assert places == {"me": Place.HERE, "you": Place.AWAY}
    for number in (1, 2, 3):
        network.ask("rome", "source", ports.Publish(Notification(x=number, y=1)))
    assert [each.party for each in network.sequences] == ["me", "you"]


def test_a_monitor_takes_nothing_for_a_peer_that_cannot_get_it() -> None:
    network = Network("aa", old="milan")
    network.ask("rome", "source", ports.Advertise(Advertisement.parse("x any; y any")))
    network.ask("milan", "me", ports.Subscribe(Pattern.parse("x any then y any")))
    assert next(iter(network.milan.monitors._parties["me"].watches.values())).place is Place.AWAY
    network.publish("rome", x=LONG)
    network.publish("rome", y=1)  # nothing has begun yet
    for attributes in ({"x": "a"}, {"x": LONG, "y": LONG}, {"y": 2}):
        network.publish("rome", **attributes)
    assert [[dict(each) for each in found.notifications] for found in network.sequences] == [[{"x": "a"}, {"y": 2}]]


def test_what_is_held_back_fits_into_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_limits, "MOST_HELD_BYTES", 1_000)
    network = Network("aa", old="", window=60_000_000)
    network.ask("milan", "source", ports.Advertise(Advertisement.parse("x any")))
    network.ask("milan", "me", ports.Subscribe(Pattern.parse("x any then x any then x any")))
    for number in range(8):
        network.give("milan", [ports.Request("source", 1, ports.Publish(Notification(x=f"{number}" + "." * 300)))])
    network.give("rome", [ports.Request("source", 1, ports.Advertise(Advertisement.parse("x any")))])
    network.give("milan", [ports.Request("source", 1, ports.Unadvertise(Advertisement.parse("x any")))])
    network.rest()
    said = [getattr(message, "state", None) or message for _, message in network.said]
    held = [message.held for message in said if isinstance(message, Continue | Returned)]
    assert held
    assert all(sum(each.size for each in several) <= 1_000 for several in held)
    assert len(network.letters()) + len(held[0]) == 8


# -- peers that come back as another release ---------------------------------------------------------------------------


def test_what_waits_for_a_peer_that_comes_back_as_an_earlier_release() -> None:
    network = Network(old="", durable=True)
    network.ask("rome", "me", ports.Subscribe(Filter.parse("x any")))
    early = Filter.parse("x any and y any and a = 1")
    network.ask("milan", "she", ports.Subscribe(early))
    network.network.cut("milan", "rome")
    late = [Filter.parse(f"x any and y any and z = {number}") for number in (1, 2)]
    for party, filter in zip(("you", "he"), late, strict=True):
        network.give("milan", [ports.Request(party, 1, ports.Subscribe(filter))])
    for value in ("short", LONG, "again"):
        network.give("milan", [ports.Request("source", 1, ports.Publish(Notification(x=value)))])
    network.scheduler.run(until=network.scheduler.now + 100_000)
    network.reconnect(OLD)
    network.network.mend()
    network.rest()
    assert (network.got("me"), network.letters()) == (["short", "again"], [LONG])
    form = Subscribe(Filter.parse("x any and y any"))
    assert network.told() == {Subscribe(early), form}
    network.restart("milan")
    assert network.letters() == [LONG]
    for party in ("you", "he", "she"):
        network.ask("milan", party, ports.Unsubscribe(Filter()))
    assert network.told() == {Subscribe(early)}  # it cannot be told to drop this one, which does no harm


def test_a_peer_that_comes_back_as_a_later_release_gets_everything() -> None:
    network = Network(old="", durable=True)
    network.ask("rome", "me", ports.Subscribe(Filter.parse("x any")))
    network.reconnect(OLD)
    network.rest()
    network.ask("milan", "you", ports.Subscribe(Filter.parse("x any and y any and z = 1")))
    network.publish("milan", x=LONG)
    network.nodes["rome"].settings = network.nodes["rome"].settings._replace(accepted=PROTOCOL_LIMITS)
    network.reconnect(None)
    network.publish("milan", x=LONG + "2")
    assert (network.got("me"), network.letters()) == ([LONG + "2"], [LONG])
    network.restart("milan")
    assert ("takes", "rome") not in network.disks["milan"].records
    network.ask("milan", "he", ports.Subscribe(Filter.parse("x any and y any and z = 2")))
    network.ask("milan", "you", ports.Unsubscribe(Filter()))
    assert network.told() == {Subscribe(Filter.parse("x any and y any and z = 2"))}


def test_what_was_kept_for_a_peer_before_limits_were_known_of() -> None:
    """A store of an earlier release may hold what its peers refuse for ever."""
    network = Network(old="", durable=True)
    network.ask("rome", "me", ports.Subscribe(Filter.parse("x any")))
    network.network.cut("milan", "rome")
    network.give("milan", [ports.Request("source", 1, ports.Publish(Notification(x=LONG)))])
    network.give("milan", [ports.Request("source", 1, ports.Publish(Notification(x="short")))])
    network.scheduler.run(until=network.scheduler.now + 100_000)
    network.crash("milan")
    assert ("takes", "rome") not in network.disks["milan"].records
    network.start(network.settings["milan"])
    network.reconnect(OLD)
    network.network.mend()
    network.rest()
    assert (network.got("me"), network.letters()) == (["short"], [LONG])


# -- limits on the wire ------------------------------------------------------------------------------------------------


def test_limits_on_the_wire() -> None:
    assert from_wire(to_wire(OLD)) == OLD
    assert from_wire(()) == PROTOCOL_LIMITS
    assert from_wire((*to_wire(OLD), 7, 8)) == OLD
    assert from_wire((0, -5)) == replace(PROTOCOL_LIMITS, constraints=1, pattern_filters=1)
    assert from_wire((2**60,) * 9) == PROTOCOL_LIMITS
    assert to_wire(VERSION_1_LIMITS) == to_wire(Limits())


def test_an_element_is_never_sent_that_a_peer_cannot_take() -> None:
    network = Network("aa")
    message = Element(_enveloped(), (1,))
    assert network.milan.peer_limits.fit("rome", [message], 0) == []
    assert network.letters() == [LONG]


def _enveloped() -> Notification:
    return Notification(x=LONG).with_envelope(
        Envelope(NotificationId("milan", 0, 1), datetime(2026, 1, 1, tzinfo=UTC), "source")
    )
