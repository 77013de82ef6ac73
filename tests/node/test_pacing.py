"""Changes of filters that wait for a neighbour: whatever happens to the link, they are told, in an order that fits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from palio import Advertisement, Filter, Notification, Pattern
from palio.link.frames import Data, Open
from palio.link.session import LinkSettings
from palio.model.limits import WIRE_FIELDS
from palio.node import ports
from palio.node.ports import FromPeer, LinkDown
from palio.routing.border import Gateway
from palio.routing.messages import Advertise, Delegate, Publish, Release, Spread, Subscribe
from palio.routing.telling import TellingSettings
from tests.node.durable import of_kind
from tests.node.neighbours import Milan, Neighbour, answer

FEW = {"telling": TellingSettings(in_flight=2), "comparisons": 100_000}


def subscribe(texts: Sequence[str], party: str = "me") -> list[ports.Input]:
    return [ports.Request(party, number, ports.Subscribe(Filter.parse(text))) for number, text in enumerate(texts)]


class Odd(Neighbour):
    """A neighbour that asks for another role, or has limits of its own."""

    role, architecture, limits = "gateway", "as", ()

    def question(self) -> Open:
        return Open(self.stamp, self.role, self.architecture, ((self.name, (0, "", 0)),), 1, self.limits)


class Old(Odd):
    """It takes filters of one constraint."""

    role, limits = "peer", tuple(1 if name == "constraints" else 1 << 20 for name in WIRE_FIELDS)


@pytest.mark.parametrize("architecture", ["as", "hs", "gs"])
def test_changes_that_a_gateway_does_not_let_out_hold_up_no_others(architecture: str) -> None:
    """They counted as in flight, and were never acknowledged: the others waited until something else came."""
    gateways = {"rome": Gateway(imports=Filter.parse("x < 0"))}
    milan = Milan(architecture, gateways=gateways, **FEW)
    rome = Odd(milan, "rome")
    milan.turn(*subscribe([*(f"x = {number}" for number in range(20)), "x = -1"]))
    assert rome.standing == {Subscribe(Filter.parse("x = -1").canonical())}


def test_changes_that_are_the_same_for_an_older_peer_hold_up_no_others() -> None:
    milan = Milan(**FEW)
    rome = Old(milan, "rome")
    milan.turn(*subscribe([*(f"a any and x = {number}" for number in range(20)), "b = 1"]))
    milan.turn(rome.say())
    assert {str(each.filter) for each in rome.standing if isinstance(each, Subscribe)} == {"a any", "b = 1"}


def test_what_comes_of_the_loss_of_a_link_is_told_behind_what_was_to_be_told_before() -> None:
    """Rome's link is lost because too much waits for it, in the middle of what all neighbours have to be told. Oslo
    heard first that a filter has ended, then that it has begun: the link would have ended, with all that waited.
    """
    milan = Milan(link=LinkSettings(outbox=10), comparisons=100_000)
    rome, oslo = Neighbour(milan, "rome"), Neighbour(milan, "oslo")
    milan.turn(rome.say(Subscribe(Filter.parse("news any").canonical())))
    milan.turn(oslo.say(Spread(1, "oslo", ("oslo", 1, 1))))
    milan.turn(*(ports.Request("me", number, ports.Publish(Notification(news=number))) for number in range(8)))
    wanted = Subscribe(Filter.parse("y = 1").canonical())
    outputs = milan.turn(
        FromPeer("rome", Data(rome.stamp, 1, (wanted,), 0)),  # it has acknowledged nothing
        *subscribe(["x = 1", "x = 2", "x = 3"]),
    )
    assert [each.peer for each in of_kind(outputs, LinkDown)] == ["rome"]
    assert wanted not in oslo.standing
    assert {str(each.filter) for each in oslo.standing if isinstance(each, Subscribe)} == {"x = 1", "x = 2", "x = 3"}


PATTERNS = [Pattern.parse(f"x = {number} then y = {number}") for number in range(12)]


def left_to(rome: Neighbour) -> list[Pattern]:
    return [each.pattern for each in rome.handed_over if isinstance(each, Delegate)]


def with_offers(**settings: object) -> tuple[Milan, Neighbour]:
    milan = Milan("aa", **FEW, **settings)
    rome = Neighbour(milan, "rome")
    milan.turn(rome.say(Advertise(Advertisement.parse("x any; y any").canonical())))
    return milan, rome


def follow(patterns: Sequence[Pattern], *, wait: bool = False) -> list[ports.Input]:
    return [ports.Request("me", number, ports.Subscribe(each, wait)) for number, each in enumerate(patterns)]


def acknowledged(milan: Milan, rome: Neighbour) -> None:
    """The neighbour acknowledges all that it has heard, until it hears nothing new."""
    heard = -1
    while heard != rome.heard:
        heard = rome.heard
        milan.turn(rome.say())


def test_patterns_are_left_to_a_neighbour_only_as_fast_as_it_takes_them_in() -> None:
    """Notifications on the same link waited until thousands of patterns were taken in."""
    milan, rome = with_offers()
    milan.turn(rome.say(Subscribe(Filter.parse("news any").canonical())))
    milan.turn(*follow(PATTERNS))
    assert 0 < len(left_to(rome)) <= 2
    milan.turn(ports.Request("you", 1, ports.Publish(Notification(news=1))))
    before = [type(each) for each in rome.handed_over].index(Publish)
    assert len(left_to(rome)) <= 2
    assert before <= 3, "it goes before patterns that wait"
    acknowledged(milan, rome)
    assert left_to(rome) == PATTERNS
    assert not any(isinstance(each, Subscribe) for each in rome.handed_over), "nobody needs the filters here"


def test_a_wave_goes_behind_all_patterns() -> None:
    milan, rome = with_offers()
    milan.turn(*follow(PATTERNS))
    milan.turn(*follow([Pattern.parse("x any then y = 99")], wait=True))
    assert len(left_to(rome)) == len(PATTERNS) + 1
    assert isinstance(rome.handed_over[-1], Spread)


def test_a_pattern_that_is_given_up_while_it_waits_is_never_left_to_the_neighbour() -> None:
    milan, rome = with_offers()
    milan.turn(*follow(PATTERNS))
    milan.turn(ports.Request("me", 99, ports.Unsubscribe(PATTERNS[-1])))
    acknowledged(milan, rome)
    assert left_to(rome) == PATTERNS[:-1]
    assert not any(isinstance(each, Release) for each in rome.handed_over)


def test_patterns_that_wait_survive_a_restart() -> None:
    milan, rome = with_offers(durable=True)
    milan.turn(*follow(PATTERNS))
    milan.made.die(milan.now)
    assert not milan.node.quarantined
    milan.turn()
    answer(milan, rome)
    acknowledged(milan, rome)
    assert left_to(rome) == PATTERNS


def test_patterns_that_wait_are_watched_here_when_the_neighbour_is_gone_or_another_one_offers_the_same() -> None:
    milan, rome = with_offers()
    oslo = Neighbour(milan, "oslo")
    milan.turn(*follow(PATTERNS))
    milan.turn(oslo.say(Advertise(Advertisement.parse("x any").canonical())))
    for neighbour in (rome, oslo):
        acknowledged(milan, neighbour)
    assert len(left_to(rome)) <= 3
    assert {str(each.filter) for each in oslo.standing if isinstance(each, Subscribe)} >= {"x = 11", "x = 10"}
    milan.turn(ports.Disconnect("rome"))
    acknowledged(milan, oslo)
    assert not milan.node.delegating.lent
