"""Nodes, driven by virtual time; what they say to parties goes into a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableSequence
from random import Random
from typing import NamedTuple

import msgspec

from palio.errors import InternalError
from palio.link.frames import Data, Frame
from palio.model import Advertisement, Filter, Notification, Pattern
from palio.node.node import Node, NodeSettings
from palio.node.ports import (
    Acknowledge,
    Deliver,
    DeliverSequence,
    FromPeer,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Outlook,
    Output,
    Persist,
    Persisted,
    Reply,
    Send,
)
from palio.routing.messages import Message, Publish, Stamp
from palio.sim.clock import Clock
from palio.sim.disk import Disk
from palio.sim.network import Network
from palio.sim.scheduler import Scheduler


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A copy of a notification that a party got."""

    time: int
    server: str
    party: str
    notification: Notification
    moment: int
    """The last thing that had happened to servers or parties."""


class SequenceDelivery(msgspec.Struct, frozen=True, gc=False):
    """A sequence that a party got for a pattern."""

    time: int
    server: str
    party: str
    pattern: Pattern
    notifications: tuple[Notification, ...]


class Answer(NamedTuple):
    """What a party was told about a request."""

    time: int
    server: str
    reply: Reply


class Hop(msgspec.Struct, frozen=True, gc=False):
    """A notification that went over a link, counted when it was sent for the first time."""

    time: int
    source: str
    target: str
    notification: Notification


class Cluster:
    """Servers on a simulated network, with simulated disks."""

    make_node: type[Node] = Node

    def __init__(self, random: Random, latency: Callable[[str, str], int]) -> None:
        self.scheduler = Scheduler()
        self._random = random
        self._disks: dict[str, Disk] = {}
        self._got: dict[str, int] = {}
        """The number of the last delivery that each party got, where they have numbers."""
        self.left: set[str] = set()
        """Parties that once left: what they had not got by then they will not get."""
        self.network = Network(self.scheduler, random, latency, self._arrive)
        self.nodes: dict[str, Node] = {}
        self._wakes: dict[str, int] = {}
        self._clocks: dict[str, Clock] = {}
        """Of servers whose clocks go wrong."""
        self.deliveries: MutableSequence[Delivery] = []
        self.outlooks: dict[tuple[str, Filter | Advertisement], bool] = {}
        """What parties were last told about what they watch."""
        self.sequences: list[SequenceDelivery] = []
        self.first_sequence: dict[str, int] = {}
        """Of servers that have lost everything: where the sequences begin that they have found since."""
        self.answers: MutableSequence[Answer] = []
        self.links: list[tuple[int, str, LinkUp | LinkDown | LinkRefused]] = []
        self.hops: MutableSequence[Hop] = []
        self.messages = 0
        self.moment = 0
        """How many things have happened to servers and parties, for the record."""
        self._highest: dict[tuple[str, object], int] = {}

    def start(self, settings: NodeSettings, inputs: Iterable[Input] = ()) -> None:
        """A server begins, or goes on with what is on its disk; this comes in before anything else does."""
        server = settings.server
        if settings.durable:
            disk = self._disks.setdefault(server, Disk(self.scheduler, self._random))
            self.nodes[server] = self.make_node(settings, disk.read(), self.time(server))
        else:
            self.nodes[server] = self.make_node(settings)
        self.give(server, inputs)

    def time(self, server: str) -> int:
        """What a server's clock shows."""
        clock, now = self._clocks.get(server), self.scheduler.now
        return now if clock is None else clock.at(now)

    def crash(self, server: str, *, torn: bool = False) -> bool:
        """A server dies without a word; of what was being written, some may have reached the disk.

        Whether it left a write that is torn, if it may.
        """
        del self.nodes[server]
        self._wakes.pop(server, None)
        return server in self._disks and self._disks[server].crash(torn=torn)

    def lose_disk(self, server: str, parties: Iterable[str]) -> None:
        """The disk of a server that has died is gone; deliveries to its parties are numbered anew."""
        self._disks.pop(server, None)
        self.first_sequence[server] = len(self.sequences)
        for party in parties:
            self._got.pop(party, None)

    def give(self, server: str, inputs: Iterable[Input]) -> None:
        """A server takes input now."""
        node = self.nodes[server]
        for output in node.handle(inputs, self.scheduler.now):
            self._take(server, output)
        self._plan(server, node)

    def _arrive(self, source: str, target: str, frame: Frame) -> None:
        if target in self.nodes:
            self.give(target, (FromPeer(source, frame),))

    def _take(self, server: str, output: Output) -> None:
        if isinstance(output, Send):
            peer, frame = output.peer, output.frame
            if isinstance(frame, Data) and frame.messages:
                self._count(server, peer, frame)
            self.network.send(server, peer, frame)
            return
        now = self.scheduler.now
        match output:
            case Deliver(parties, notification, numbers):
                if numbers:
                    parties = self._fresh(server, parties, numbers)
                self.deliveries += [Delivery(now, server, party, notification, self.moment) for party in parties]
            case DeliverSequence(party, pattern, notifications, number):
                if number is None or self._fresh(server, (party,), (number,)):
                    self.sequences.append(SequenceDelivery(now, server, party, pattern, notifications))
            case Persist(token, records):
                node = self.nodes[server]
                self._disks[server].write(records, lambda: self._written(server, node, token))
            case Outlook(party, subject, is_good):
                self.outlooks[party, subject] = is_good
            case Reply():
                self.answers.append(Answer(now, server, output))
            case LinkUp() | LinkDown() | LinkRefused():
                self.links.append((now, server, output))

    def _written(self, server: str, node: Node, token: int) -> None:
        if self.nodes.get(server) is node:
            self.give(server, (Persisted(token),))

    def _fresh(self, server: str, parties: tuple[str, ...], numbers: tuple[int, ...]) -> tuple[str, ...]:
        """The parties that have not got this delivery before; all of them acknowledge it after a while."""
        fresh = []
        for party, number in zip(parties, numbers, strict=True):
            last = self._got.get(party, -1)
            if number > last + 1 and party not in self.left:
                raise InternalError(f"{party} got delivery {number} after {last}")
            if number > last:
                self._got[party] = number
                fresh.append(party)
            later = self.scheduler.now + self._random.randrange(50)
            self.scheduler.at(later, self._acknowledge, server, party, number)
        return tuple(fresh)

    def _acknowledge(self, server: str, party: str, number: int) -> None:
        if server in self.nodes:
            self.give(server, (Acknowledge(party, number),))

    def _count(self, server: str, peer: str, frame: Data) -> None:
        """Messages that are sent again count once."""
        stamp, number, fresh = frame.session, frame.first, frame.messages
        key = server, stamp
        highest = self._highest.get(key, 0)
        if highest > number:
            number, fresh = highest, fresh[highest - number :]
        self.messages += len(fresh)
        for message in fresh:
            self._sent(server, peer, number, stamp, message)
            number += 1
        self._highest[key] = number

    def _sent(self, server: str, peer: str, number: int, stamp: Stamp, message: Message) -> None:  # noqa: ARG002
        """A message has set out for the first time."""
        if isinstance(message, Publish):
            self.hops.append(Hop(self.scheduler.now, server, peer, message.notification))

    def _plan(self, server: str, node: Node) -> None:
        """Wake a node when it wants to be, or before: then it is asked again."""
        deadline = node.deadline
        if deadline is None:
            return
        time = self._clocks[server].when(deadline) if server in self._clocks else deadline
        planned = self._wakes.get(server)
        if planned is None or time < planned:
            self._wakes[server] = time
            self.scheduler.at(time, self._wake, server, node, time, priority=1)

    def _wake(self, server: str, node: Node, planned: int) -> None:
        """The time has come that was planned, unless the plan was made for an earlier life, or is not the last one."""
        if self.nodes.get(server) is not node or self._wakes.get(server) != planned:
            return
        del self._wakes[server]
        deadline = node.deadline
        if deadline is not None and deadline <= self.time(server):
            self.give(server, ())
        else:
            self._plan(server, node)

    def settle(self, most: int = 1_000_000) -> bool:
        """Let everything come to rest; false if it does not after so many events."""
        self.scheduler.run(most=most)
        return not len(self.scheduler)
