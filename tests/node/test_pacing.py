"""Changes of filters that wait for a neighbour: whatever happens to the link, they are told, in an order that fits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from palio import Filter, Notification
from palio.link.frames import Data, Open
from palio.link.session import LinkSettings
from palio.model.limits import WIRE_FIELDS
from palio.node import ports
from palio.node.ports import FromPeer, LinkDown
from palio.routing.border import Gateway
from palio.routing.messages import Spread, Subscribe
from palio.routing.telling import TellingSettings
from tests.node.durable import of_kind
from tests.node.neighbours import Milan, Neighbour

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
