"""A server with neighbours that a test plays; it is given its turns one by one."""

from __future__ import annotations

from datetime import UTC, datetime

from palio import Filter, Notification
from palio.link.frames import Data, Known, Open, Probe
from palio.model.envelope import Envelope, NotificationId
from palio.node.node import Node
from palio.node.ports import FromPeer, Input, Output, Send
from palio.routing.messages import Advertise, Message, Publish, Subscribe, Unadvertise, Unsubscribe
from palio.routing.telling import TellingSettings
from tests.node.durable import Durable

BUDGET = 640
LARGEST = 16 * 6
"""To enter one filter of twenty constraints is one step."""
BROAD = Filter.parse("x any")


def published(text: str, origin: str) -> Publish:
    envelope = Envelope(NotificationId(origin, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), "eva")
    return Publish(Notification.parse(text).with_envelope(envelope))


class Neighbour:
    """The other end of a link of ``milan``: it says what tests want, and notes what it hears."""

    def __init__(self, milan: Milan, name: str, number: int = 1) -> None:
        self.milan, self.name = milan, name
        self.stamp = (number, name, number)
        self.said: list[Message] = []
        self.acknowledged = 0
        self.standing: set[Message] = set()
        self.heard = 0
        self.handed_over: list[Message] = []
        milan.neighbours[name] = self
        milan.turn(FromPeer(name, self.question()))
        milan.turn(FromPeer(name, Data(self.stamp, 0, (), 0)))

    def question(self) -> Open:
        return Open(self.stamp, "peer", self.milan.architecture, ((self.name, (0, "", 0)),))

    def say(self, *said: Message) -> Input:
        first = len(self.said)
        self.said += said
        return FromPeer(self.name, Data(self.stamp, first, tuple(said), self.heard))

    def again(self) -> Input:
        """Everything that is not acknowledged, as after a time-out."""
        return FromPeer(
            self.name, Data(self.stamp, self.acknowledged, tuple(self.said[self.acknowledged :]), self.heard)
        )

    def hear(self, frame: object) -> None:
        if not isinstance(frame, Data) or frame.session != self.stamp:
            return
        self.acknowledged = max(self.acknowledged, frame.expected)
        for message in frame.messages[self.heard - frame.first :]:
            self.heard += 1
            self.handed_over.append(message)
            match message:
                case Subscribe() | Advertise():
                    assert message not in self.standing
                    self.standing.add(message)
                case Unsubscribe(filter):
                    self.standing.remove(Subscribe(filter))
                case Unadvertise(advertisement):
                    self.standing.remove(Advertise(advertisement))


class Milan:
    """The server under test; it is given its turns one by one."""

    def __init__(self, architecture: str = "as", **settings: object) -> None:
        self.architecture = architecture
        options = {
            "comparisons": BUDGET,
            "durable": False,
            "reserve": 1_000_000,
            "telling": TellingSettings(in_flight=1_000),
            **settings,
        }
        self.made = Durable(architecture=architecture, **options)
        self.neighbours: dict[str, Neighbour] = {}
        self.now = 0
        self.costs: list[int] = []
        self.outputs: list[Output] = []

    @property
    def node(self) -> Node:
        return self.made.node

    @property
    def is_busy(self) -> bool:
        return bool(self.node.arrivals) or bool(self.node.departures)

    def turn(self, *inputs: Input) -> list[Output]:
        self.now += 1_000
        before = self.node.allowance.total
        outputs = self.made.handle(inputs, self.now)
        self.costs.append(self.node.allowance.total - before)
        for each in outputs:
            if isinstance(each, Send) and each.peer in self.neighbours:
                self.neighbours[each.peer].hear(each.frame)
        self.outputs += outputs
        return outputs

    def finish(self) -> int:
        """Give turns until nothing waits; how many."""
        turns = 0
        while self.is_busy:
            assert self.node.deadline is not None
            assert self.node.deadline <= self.now, "the node wants another turn at once"
            self.turn()
            turns += 1
        self.turn()
        return turns


def answer(milan: Milan, neighbour: Neighbour) -> None:
    """A neighbour answers the question of a server that has come back whether the link is still known."""
    asked = [each.frame for each in milan.outputs if isinstance(each, Send) and each.peer == neighbour.name]
    probe = next(each for each in reversed(asked) if isinstance(each, Probe))
    said = len(neighbour.said)
    known = Known(neighbour.stamp, probe.number, neighbour.acknowledged, said, neighbour.heard)
    milan.turn(FromPeer(neighbour.name, known))
