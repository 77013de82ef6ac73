"""Nodes, driven by virtual time; what they say to parties goes into a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableSequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from palio.errors import DecodeError, InternalError
from palio.link import wire
from palio.link.frames import Data, Frame
from palio.model import Advertisement, Filter, Limits, Notification, Pattern
from palio.node.journal import Record
from palio.node.keeping import tail_from
from palio.node.loading import load
from palio.node.node import Node, NodeSettings
from palio.node.ports import (
    Acknowledge,
    Acknowledged,
    Deliver,
    DeliverSequence,
    Fault,
    Fetch,
    Fetched,
    FromPeer,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Outlook,
    Output,
    Persist,
    Persisted,
    Position,
    Reply,
    Rest,
    Send,
)
from palio.node.records import encode_key, encode_value
from palio.routing.messages import Message, Publish, Stamp
from palio.sim.engine.clock import Clock
from palio.sim.engine.disk import FIRST, Disk
from palio.sim.engine.network import Network
from palio.sim.engine.readers import Readers
from palio.sim.engine.scheduler import Action, Scheduler

OF_THE_SIMULATOR = ("log", "turn")
"""Kinds of records that no server writes."""

TURN = 2
"""A server that has more to compare than one turn permits goes on after so many microseconds. Anything may happen
meanwhile.
"""


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

    make_node: Callable[..., Node] = Node

    def __init__(self, random: Random, latency: Callable[[str, str], int]) -> None:
        self.scheduler = Scheduler()
        self._random = random
        self.disks: dict[str, Disk] = {}
        self.syncing: Random | None = None
        """If disks tell what is written from what is synced: the luck for that."""
        self.readers = Readers()
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
        self.has_doors = False
        """Whether frames are read as bytes before a server takes them."""
        self.refusals: list[str] = []
        """The frames that were refused."""
        self.messages = 0
        self.quarantined: list[str] = []
        """Records that servers have put aside when they started. What servers write themselves always fits, unless
        some of it was damaged."""
        self.moment = 0
        """How many things have happened to servers and parties, for the record."""
        self._highest: dict[tuple[str, object], int] = {}

    def start(self, settings: NodeSettings, inputs: Iterable[Input] = ()) -> None:
        """A server begins, or goes on with what is on its disk; this comes in before anything else does."""
        server = settings.server
        if settings.durable:
            disk = self.disks.setdefault(server, Disk(self.scheduler, self._random, self.syncing))
            self.nodes[server] = self.make_node(settings, *found_on(disk, settings, self.time(server)))
        else:
            self.nodes[server] = self.make_node(settings)
        if server not in self.disks or not self.disks[server].is_other:
            aside = self.nodes[server].quarantined
            self.quarantined += [f"{server} puts aside {each.key}: {each.reason}" for each in aside]
        self.give(server, inputs)

    def time(self, server: str) -> int:
        """What a server's clock shows."""
        clock, now = self._clocks.get(server), self.scheduler.now
        return now if clock is None else clock.at(now)

    def crash(self, server: str, *, torn: bool = False, is_power: bool = True) -> bool:
        """A server dies without a word, alone or with its machine; of what was being written, some may have reached
        the disk.

        Whether it left a write that is torn, if it may.
        """
        del self.nodes[server]
        self._wakes.pop(server, None)
        return server in self.disks and self.disks[server].crash(torn=torn, is_power=is_power)

    def lose_disk(self, server: str, parties: Iterable[str]) -> None:
        """The disk of a server that has died is gone; its parties get other logs."""
        self.disks.pop(server, None)
        self.first_sequence[server] = len(self.sequences)
        for party in parties:
            self.readers.leave(party)

    def give(self, server: str, inputs: Iterable[Input]) -> None:
        """A server takes input now."""
        node = self.nodes[server]
        for output in handled(node, inputs, self.scheduler.now):
            self._take(server, output)
        self._plan(server, node)

    def _arrive(self, source: str, target: str, frame: Frame) -> None:
        if target not in self.nodes:
            return
        if self.has_doors:
            try:
                wire.decode(wire.encode(frame), self.door(target))
            except DecodeError as error:
                self.refusals.append(f"{target} refuses a frame of {source}: {error}")
                return
        self.give(target, (FromPeer(source, frame),))

    def door(self, server: str) -> Limits:
        """What a server takes from its peers; a connection ends with whatever exceeds it."""
        return self.nodes[server].settings.accepted

    def _take(self, server: str, output: Output) -> None:
        if isinstance(output, Send):
            peer, frame = output.peer, output.frame
            if isinstance(frame, Data) and frame.messages:
                self._count(server, peer, frame)
            self.network.send(server, peer, frame)
            return
        now = self.scheduler.now
        match output:
            case Deliver(parties, notification, numbers, readings):
                if numbers:
                    parties = self._fresh(server, parties, numbers, readings, _content(notification))
                self.deliveries += [Delivery(now, server, party, notification, self.moment) for party in parties]
            case DeliverSequence(party, pattern, notifications, number, reading):
                content = pattern, *map(_content, notifications)
                if number is None or self._fresh(server, (party,), (number,), (reading,), content):
                    self.sequences.append(SequenceDelivery(now, server, party, pattern, notifications))
            case Persist() | Fetch():
                self._use_disk(server, output)
            case Position() | Acknowledged():
                self._tell_reader(server, output)
            case Outlook(party, subject, is_good):
                self.outlooks[party, subject] = is_good
            case _:
                self._note(server, output)

    def _note(self, server: str, output: Output) -> None:
        """What is told to those who have asked, and to operators."""
        now = self.scheduler.now
        match output:
            case Reply():
                self.answers.append(Answer(now, server, output))
            case LinkUp() | LinkDown() | LinkRefused():
                self.links.append((now, server, output))
            case Fault():
                self._failed(server, output)

    def _failed(self, server: str, fault: Fault) -> None:
        """A node has contained a fault; here that is an error, because nobody has put it there."""
        raise InternalError(f"{server} has failed: {fault.stack}")

    def _written(self, server: str, node: Node, persisted: Persisted) -> None:
        if self.nodes.get(server) is node:
            self.give(server, (persisted,))

    def _use_disk(self, server: str, output: Persist | Fetch) -> None:
        node, disk = self.nodes[server], self.disks[server]
        if isinstance(output, Persist):
            token = output.token
            disk.write(
                as_records(output),
                lambda: self._written(server, node, Persisted(token)),
                written=lambda: self._written(server, node, Persisted(token, is_synced=False)),
                is_pressing=output.is_pressing,
            )
            return
        found: list[tuple[int, bytes]] = []
        for position in range(output.position, output.end):
            found.append((position, disk.records.get(("entry", position), b"")))
            if sum(len(data) for _, data in found) >= output.bytes:
                break
        later = self.scheduler.now + self._random.randrange(30)
        self.scheduler.at(later, self._read, server, node, Fetched(output.token, tuple(found)))

    def _read(self, server: str, node: Node, fetched: Fetched) -> None:
        if self.nodes.get(server) is node:
            self.give(server, (fetched,))

    def _tell_reader(self, server: str, told: Position | Acknowledged) -> None:
        """A party that remembers what it has got acknowledges that when it hears that the log is the same."""
        if isinstance(told, Acknowledged):
            self.readers.noted_for_good(told)
            return
        self.readers.position(told)
        last = told.first - 1
        if told.party in self.readers and last == self.readers[told.party].last > self.readers[told.party].acknowledged:
            self._plan_acknowledgement(server, told.party, last, 0)

    def _fresh(
        self,
        server: str,
        parties: tuple[str, ...],
        numbers: tuple[int, ...],
        readings: tuple[int, ...],
        content: object,
    ) -> tuple[str, ...]:
        """The parties that have not got this delivery before; all of them acknowledge it after a while."""
        fresh = []
        for party, number, reading in zip(parties, numbers, readings, strict=True):
            is_news = self.readers.got(party, number, reading, content)
            if is_news is None:
                continue
            if is_news:
                fresh.append(party)
            self._plan_acknowledgement(server, party, number, self._random.randrange(50))
        return tuple(fresh)

    def _plan_acknowledgement(self, server: str, party: str, number: int, later: int) -> None:
        """A connection may have ended, or another one may be there, when an acknowledgement arrives."""
        given = self.readers.acknowledge(party, number) if self.readers.acknowledges(party, number) else None
        if given is not None:
            self.scheduler.at(self.scheduler.now + later, self._acknowledge, server, given)

    def _acknowledge(self, server: str, given: Acknowledge) -> None:
        if server in self.nodes:
            self.give(server, (given,))

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
        time = self._due(server, deadline)
        if node.arrivals or node.departures:
            time = max(time, self.scheduler.now + TURN)
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

    def _is_void(self, action: Action, given: Any) -> bool:
        """Whether a node was to be woken and does not want to be any more, or only later."""
        if action != self._wake:
            return False
        server, planned = given[0], given[2]
        node: Node = given[1]
        if self.nodes.get(server) is not node or self._wakes.get(server) != planned:
            return True
        if node.deadline is not None and self._due(server, node.deadline) <= planned:
            return False
        del self._wakes[server]
        self._plan(server, node)
        return True

    def _due(self, server: str, deadline: int) -> int:
        """When a server's clock shows a time."""
        return self._clocks[server].when(deadline) if server in self._clocks else deadline

    def settle(self, most: int = 1_000_000) -> bool:
        """Let everything come to rest; false if it does not after so many events."""
        self.scheduler.run(most=most, is_void=self._is_void)
        return not len(self.scheduler)


def handled(node: Node, inputs: Iterable[Input], now: int) -> Iterator[Output]:
    """What a node says to inputs, over as many turns as it needs for them."""
    given: Iterable[Input] = inputs
    while True:
        rests: list[Input] = []
        for output in node.handle(given, now):
            if isinstance(output, Rest):
                rests.append(output.given)
            else:
                yield output
        if not rests:
            return
        given = rests


def as_records(output: Persist) -> tuple[Record, ...]:
    """What a simulated disk keeps: entries of the log are records like others there."""
    entries = tuple((("entry", position), data) for position, data in output.entries)
    return (*output.records, *entries, *(() if output.trim is None else ((FIRST, output.trim),)))


def found_on(disk: Disk, settings: NodeSettings, now: int) -> tuple[list[Record], int, list[tuple[int, bytes]], int]:
    """What a node is made from: records, the time, the end of the log, and the position of its first entry.

    As in a server, the disk first gets rid of rows that mean the same.
    """
    found = disk.read()
    apart = ("entry", FIRST[0], *OF_THE_SIMULATOR)
    loaded = load((encode_key(key), encode_value(value)) for key, value in found if key[0] not in apart)
    disk.rewrite(loaded.changes)
    records = [*loaded.records, *(each for each in found if each[0][0] in OF_THE_SIMULATOR)]
    entries: list[Any] = [(key[1], value) for key, value in found if key[0] == "entry"]
    begin = tail_from(records, settings.incarnation)
    tail = sorted(each for each in entries if each[0] >= begin)
    return records, now, tail, disk.records.get(FIRST, 0)


def _content(notification: Notification) -> object:
    assert notification.envelope is not None
    return notification.envelope.id, notification
