"""A neighbour names a gateway of this server as the source of a filter: neither of the two brings the server down."""

from __future__ import annotations

import pytest

from palio.errors import CallerError
from palio.link.frames import Data, Frame, Open
from palio.model import Advertisement, Filter
from palio.node.ports import Fault, FromPeer, LinkDown, LinkRefused, Output
from palio.node.records import encode
from palio.routing.border import Gateway
from palio.routing.messages import Advertise, Control, Stamp, Subscribe, ended
from palio.routing.router import Role
from tests.node.durable import Durable, of_kind

GATE = "gate"
SAID = [Subscribe(Filter.parse("x any").canonical()), Advertise(Advertisement.parse("x any").canonical())]
LIES = [Subscribe(Filter.parse("x any").canonical(), GATE), Advertise(Advertisement.parse("x any").canonical(), GATE)]


class Milan:
    """A server with the neighbour rome in its own network and the gateway gate; both are only frames."""

    def __init__(self, architecture: str) -> None:
        self.made = Durable(server="milan", architecture=architecture, gateways={GATE: Gateway()}, boot=1_000)
        self._architecture = architecture
        self._now = 0
        self._stamps: dict[str, Stamp] = {}
        self._said: dict[str, int] = {}

    def give(self, peer: str, frame: Frame) -> list[Output]:
        self._now += 1_000_000
        outputs = self.made.handle([FromPeer(peer, frame)], self._now)
        assert not of_kind(outputs, Fault)
        return outputs

    def link(self, peer: str) -> list[Output]:
        """A peer opens a link and confirms it, whatever the answer is."""
        stamp = self._stamps[peer] = len(self._stamps) + self._now, peer, 7
        self._said[peer] = 0
        role, other = ("gateway", "as") if peer == GATE else ("peer", self._architecture)
        asked = self.give(peer, Open(stamp, role, other, ((peer, (0, "", 0)),)))
        return asked + self.give(peer, Data(stamp, 0, (), 0))

    def tell(self, peer: str, message: Control) -> list[Output]:
        first = self._said[peer]
        self._said[peer] += 1
        return self.give(peer, Data(self._stamps[peer], first, (message,), 0))

    def restart(self) -> None:
        self._now += 1
        self.made.die(self._now, boot=self.made.settings.start + 1)
        self.made.handle([], self._now)

    @property
    def peers(self) -> set[str]:
        return set(self.made.node.links.peers)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("architecture", ["gs", "ga"])
def test_a_gateway_waits_while_the_network_has_a_source_of_its_name(
    architecture: str, lie: Subscribe | Advertise, is_restarted: bool
) -> None:
    milan = Milan(architecture)
    milan.link("rome")
    milan.tell("rome", lie)
    milan.link(GATE)
    assert milan.peers == {"rome"}
    with pytest.raises(CallerError, match="'gate' cannot be a gateway now"):
        milan.made.node.router.connect(GATE, Role.GATEWAY)
    if is_restarted:
        milan.restart()
        assert milan.made.node.quarantined == []
        assert milan.peers == {"rome"}
    milan.tell("rome", ended(lie))
    milan.link(GATE)
    assert milan.peers == {"rome", GATE}
    for said in SAID:
        assert not of_kind(milan.tell(GATE, said), LinkDown)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("architecture", ["gs", "ga"])
def test_a_neighbour_that_names_a_gateway_as_a_source_loses_its_own_link(
    architecture: str, lie: Subscribe | Advertise
) -> None:
    milan = Milan(architecture)
    milan.link("rome")
    milan.link(GATE)
    for said in SAID:
        milan.tell(GATE, said)
    assert [each.peer for each in of_kind(milan.tell("rome", lie), LinkDown)] == ["rome"]
    assert milan.peers == {GATE}
    milan.restart()
    assert milan.made.node.quarantined == []
    assert milan.peers == {GATE}
    assert not of_kind(milan.tell(GATE, ended(SAID[0])), LinkDown)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("architecture", ["gs", "ga"])
def test_a_lie_between_an_answer_and_its_confirmation_counts_as_one_before(
    architecture: str, lie: Subscribe | Advertise
) -> None:
    milan = Milan(architecture)
    milan.link("rome")
    stamp = (9, GATE, 7)
    milan.give(GATE, Open(stamp, "gateway", "as", ((GATE, (0, "", 0)),)))
    milan.tell("rome", lie)
    milan.give(GATE, Data(stamp, 0, (), 0))
    assert milan.peers == {"rome"}


@pytest.mark.parametrize("architecture", ["gs", "ga"])
@pytest.mark.parametrize("lie", LIES)
def test_a_store_of_an_earlier_release_in_which_both_are_is_started(
    architecture: str, lie: Subscribe | Advertise
) -> None:
    milan = Milan(architecture)
    milan.link("rome")
    milan.link(GATE)
    key, value = encode((("held", "rome", lie), True))
    assert value is not None
    milan.made.records[key] = value
    milan.restart()
    assert [each.reason for each in milan.made.node.quarantined] == [
        "its source is 'gate', which is a gateway and so is not in this network"
    ]
    milan.restart()
    assert milan.made.node.quarantined == []
    assert not of_kind(milan.link(GATE), LinkRefused)
