"""Whatever neighbours say, in whatever order: no fault, tables that agree, and records that fit after every restart."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from palio.codec import frames
from palio.errors import PalioError
from palio.link import wire
from palio.model import Filter, Notification
from palio.model.limits import VERSION_1_LIMITS, to_wire
from palio.node import ports
from palio.node.party_log import Keep
from palio.node.ports import Fault, FromPeer, Input, LinkDown, LinkUp, Reply, Request, Role, Send
from palio.routing.border import Gateway
from tests.node.durable import Durable
from tests.node.hostile import CONTENTS, FILTERS, OFFERS, PATTERNS, Hostile

PARTIES = ("eva", "adam", "rome", "dura")
"""One of them has the name of a neighbour, one a log."""


class Game:
    """A durable node, three hostile neighbours, and parties."""

    def __init__(self, architecture: str, seed: int) -> None:
        random = self.random = Random(f"{architecture} {seed}")
        border = Gateway(
            random.choice([None, Filter.parse("x any")]), None, OFFERS[:1] if random.random() < 0.5 else ()
        )
        self.made = Durable(server="milan", architecture=architecture, gateways={"gate": border}, boot=1_000)
        names = ("rome", "bari") if architecture == "nf" else ("rome", "bari", "gate")
        self.neighbours = {name: Hostile(name, random, is_gateway=name == "gate") for name in names}
        self.now = 10
        self.ups = 0

    def give(self, *inputs: Input) -> None:
        for output in self.made.handle(inputs, self.now):
            assert not isinstance(output, Fault), output
            assert not (isinstance(output, Reply) and "fault" in str(output.problem)), output
            match output:
                case Send(peer, frame):
                    wire.encode(frame, 1)
                    self.neighbours[peer].hear(wire.decode(wire.encode(frame)))
                case LinkUp(peer) | LinkDown(peer):
                    self.ups += isinstance(output, LinkUp)
                    self.neighbours[peer].forget()

    def play(self, steps: int) -> None:
        for step in range(steps):
            self.now += self.random.choice([0, 1, 1_000, 30_000, 300_000])
            chance = self.random.random()
            if chance < 0.72:
                self.hear(self.random.choice([*self.neighbours.values()]))
            elif chance < 0.99:
                self.give(self.local())
            else:
                self.restart()
            node = self.made.node
            assert node.router.peers.keys() == set(node.links.peers)
            assert step % 40 or all(map(node.router.is_sound, PARTIES))
            if node.deadline is not None and node.deadline <= self.now:
                self.give()

    def hear(self, neighbour: Hostile) -> None:
        try:
            frame = wire.decode(wire.encode(neighbour.frame(self.made.node)))
        except (PalioError, OverflowError):
            return  # it does not get through
        self.give(FromPeer(neighbour.name, frame))

    def local(self) -> Input:
        """What parties and the operator ask for."""
        random = self.random
        party, peer = random.choice(PARTIES), random.choice([*self.neighbours])
        blocks = [Notification(random.choice(CONTENTS[:-1])) for _ in range(2)]
        role = "gateway" if peer == "gate" else "client" if self.made.settings.architecture == "hs" else "peer"
        operations: list[ports.Operation] = [
            *(ports.Subscribe(random.choice([*FILTERS, *PATTERNS]), random.random() < 0.3) for _ in range(3)),
            ports.Unsubscribe(random.choice([*FILTERS, *PATTERNS])),
            ports.Advertise(random.choice(OFFERS), random.random() < 0.3),
            ports.Unadvertise(random.choice(OFFERS)),
            random.choice([ports.Watch, ports.Unwatch])(random.choice(OFFERS)),
            ports.Leave() if random.random() < 0.2 else ports.Unsubscribe(FILTERS[1]),
        ]
        given: list[Input] = [
            *(Request(party, 5, operation) for operation in operations),
            *[ports.PublishBlock(party, b"".join(map(frames.publish, blocks, (1, 2))), source=7)] * 4,
            ports.Attach("dura", Keep(0, 0, 0, 0, 0, 0), random.randrange(1, 9)),
            ports.Detach("dura", random.randrange(1, 9)),
            *[ports.Connect(peer, Role(role), random.choice([1, 1, 2]))] * 2,
            *[ports.Doubt(peer, random.choice([(), (), to_wire(VERSION_1_LIMITS), (2,) * 9, None]))] * 2,
            ports.Allow(peer),
            ports.Room(random.random() < 0.7),
            ports.Space(random.random() < 0.7),
        ]
        if random.random() < 0.1:
            given = [ports.Disconnect(peer, random.random() < 0.5), ports.Lost(peer)]
        return random.choice(given)

    def restart(self) -> None:
        """The node dies and comes back; nothing is put aside, and it knows what it knew."""
        before = self.state()
        self.made.die(self.now, boot=self.made.settings.start + 1)
        assert self.made.node.quarantined == []
        assert self.state() == before
        self.give(ports.Room(is_there=True))

    def state(self) -> dict[str, Any]:
        node = self.made.node
        return {
            "peers": node.router.peers,
            "held": {peer: {*node.router.standing(peer)} for peer in node.router.peers},
            "parties": {party: node.router.profile(party) for party in PARTIES},
            "patterns": {party: {*node.monitors.patterns(party)} for party in PARTIES},
            "wishes": node.links.wishes,
        }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("architecture", ["hs", "as", "aa", "nf", "gs", "ga"])
def test_neighbours_that_follow_no_rules(architecture: str, seed: int) -> None:
    game = Game(architecture, seed)
    game.play(300)
    assert game.ups  # else it has shown nothing
