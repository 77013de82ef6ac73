"""The configurations of two servers contradict each other: neither decides, and both operators can see why."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from palio.link.frames import Accept, Open, Refuse
from palio.link.states import State
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.node.ports import FromPeer, Input, LinkDown, LinkRefused, Output, Send
from palio.routing.border import Gateway
from palio.routing.router import Role
from tests.node.durable import of_kind


class Pair:
    """Two servers; what one says reaches the other one at once."""

    def __init__(self, architecture: str, **gateways: Gateway) -> None:
        self.nodes = {
            name: Node(NodeSettings(name, architecture, boot=number)._replace(gateways=gateways if number == 1 else {}))
            for number, name in enumerate(("milan", "rome"), 1)
        }
        self.now = 0

    def give(self, server: str, *inputs: Input) -> list[Output]:
        """All that comes of it, at both servers."""
        self.now += 1_000_000
        waiting: list[tuple[str, Sequence[Input]]] = [(server, inputs)]
        said: list[Output] = []
        while waiting:
            name, given = waiting.pop(0)
            for output in self.nodes[name].handle(given, self.now):
                said.append(output)
                if isinstance(output, Send):
                    waiting.append((output.peer, (FromPeer(name, output.frame),)))
        return said

    def state(self, server: str) -> State:
        return self.nodes[server].links.status(self._other(server)).state

    def reason(self, server: str) -> str:
        return self.nodes[server].links.status(self._other(server)).reason

    @staticmethod
    def _other(server: str) -> str:
        return "rome" if server == "milan" else "milan"

    @property
    def is_up(self) -> bool:
        return self.state("milan") is self.state("rome") is State.UP


def test_two_servers_that_are_each_the_master_of_the_other_are_not_linked() -> None:
    pair = Pair("hs")
    milan = pair.nodes["milan"].handle([ports.Connect("rome", Role.MASTER)], 0)  # both ask at the same time
    pair.give("rome", ports.Connect("milan", Role.MASTER))
    pair.give("rome", *(FromPeer("milan", each.frame) for each in of_kind(milan, Send)))
    pair.give("milan")
    assert (pair.state("milan"), pair.state("rome")) == (State.REFUSED, State.REFUSED)
    for here, there in (("milan", "rome"), ("rome", "milan")):
        assert pair.reason(here) == (
            f"in the configuration of {there} {here} is its master, and {here} asks to be its client; "
            "correct the role in one of the two configurations"
        )
    pair.give("rome", ports.Connect("milan", Role.CLIENT))
    assert pair.is_up


def test_a_contradiction_does_not_end_a_link_that_is_up() -> None:
    pair = Pair("hs")
    pair.give("milan", ports.Connect("rome", Role.MASTER))
    assert pair.is_up
    outputs = pair.give("rome", ports.Connect("milan", Role.MASTER))
    reason = (
        "there is a link to 'milan' already, which is the client of this server and not its master; "
        "correct the role in one of the two configurations"
    )
    assert [each.reason for each in of_kind(outputs, LinkRefused)] == [reason]
    pair.give("rome", ports.Expect("milan", Role.MASTER))
    assert not of_kind(outputs, LinkDown)
    assert pair.is_up


def test_a_contradiction_counts_while_a_link_is_being_opened() -> None:
    """Rome has accepted the question of milan, and gets its own wish before milan has confirmed the link."""
    pair = Pair("hs")
    asked = of_kind(pair.nodes["milan"].handle([ports.Connect("rome", Role.MASTER)], 0), Send)
    answers = of_kind(pair.nodes["rome"].handle([FromPeer("milan", each.frame) for each in asked], 0), Send)
    assert [type(each.frame) for each in answers] == [Accept]
    assert of_kind(pair.give("rome", ports.Connect("milan", Role.MASTER)), LinkRefused)
    pair.give("milan", *(FromPeer("rome", each.frame) for each in answers))
    assert pair.is_up
    pair.give("rome", ports.Lost("milan"))
    pair.now += 10_000_000
    pair.give("milan")
    assert pair.is_up, "it comes back when it is lost"


@pytest.mark.parametrize("is_configured", [False, True])
def test_the_configured_role_of_a_neighbour_counts_if_it_opens_the_link_itself(is_configured: bool) -> None:
    pair = Pair("hs")
    if is_configured:
        pair.give("rome", ports.Expect("milan", Role.MASTER))
    pair.give("milan", ports.Connect("rome", Role.MASTER))
    assert pair.is_up is not is_configured
    pair.give("rome", ports.Expect("milan", None))
    if is_configured:
        pair.give("milan", ports.Connect("rome", Role.MASTER))
    assert pair.is_up


def test_a_gateway_is_not_linked_as_a_peer() -> None:
    """Otherwise everything passed that its filters should keep back."""
    pair = Pair("as", rome=Gateway())
    pair.give("rome", ports.Connect("milan", Role.PEER))
    assert pair.state("rome") is State.REFUSED
    assert pair.reason("rome").startswith(
        "in the configuration of milan rome is its gateway, and rome asks to be its peer"
    )


def test_two_links_that_exclude_each_other_are_not_asked_for_in_turn_for_ever() -> None:
    """Each was asked for again as soon as the other one was refused: as often as frames go to and fro."""
    milan = Node(NodeSettings("milan", "hs"))
    waiting = milan.handle([ports.Connect("rome", Role.MASTER), ports.Connect("oslo", Role.MASTER)], 0)
    asked = 0
    while waiting and asked < 100:
        frames = [(each.peer, each.frame) for each in of_kind(waiting, Send) if isinstance(each.frame, Open)]
        asked += len(frames)
        refusals = [FromPeer(peer, Refuse(frame.session, "it was removed")) for peer, frame in frames]
        waiting = milan.handle(refusals, asked * 1_000) if refusals else []
    assert asked == 2
