"""Drives a node: what has come in goes into it together, and what comes out goes to whom it is for.

One turn of the loop, one turn of the node: all that connections have read meanwhile is handled at once, and each
connection is written to once. But publications that come alone are handled while they are there, before the loop goes
round once more; as long as more comes in the same turn of the loop, all of it waits to be handled together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Protocol

import msgspec

from palio.codec import control, frames
from palio.codec.control import Answer, Sequence
from palio.errors import stack_of
from palio.link import wire
from palio.link.frames import Data, Frame
from palio.node.hybrid import date_of
from palio.node.node import Node
from palio.node.ports import (
    AcceptedUpTo,
    Acknowledged,
    Deliver,
    DeliverBlock,
    DeliverSequence,
    Duplicate,
    Fault,
    Fetch,
    Input,
    LeaseEnded,
    LinkDown,
    LinkRefused,
    LinkUp,
    Lost,
    Operation,
    Outlook,
    Output,
    Persist,
    Position,
    PublishBlock,
    PublishWith,
    Reply,
    Request,
    Rest,
    Send,
    TellLeaseEnded,
    TellMissed,
    Unsendable,
)
from palio.server.errors import code_of
from palio.server.history import NOT_CONNECTED, SLOW, History, Loss, Turn
from palio.server.metrics import Counts
from palio.server.storage import Storage

_NUMBERS = 1 << 32
"""Numbers of requests are below this, in one connection."""
_SPLIT = 1 << 20
"""Frames of links that are longer go in several, if they hold several messages."""
_SLICE = 256 << 10
"""Bytes of publications that are handled before it is looked whether neighbours can take more."""


class Connected(Protocol):
    """A connection that can be written to."""

    name: str
    """Of the party, or the server."""
    serial: int
    """No other connection has the same."""
    version: int
    """Of the protocol."""
    is_slow: bool
    """Whether it takes nothing that can do without."""
    is_closing: bool
    """Whether it takes nothing at all any more."""

    next_number: int
    """Of a durable party: the number of the next delivery."""
    highest_number: int
    """The highest that it ever was: what it is after a replay may be less than what the party has got before."""

    def put(self, data: bytes) -> None:
        """Write something when this turn ends."""

    def deliver(self, data: bytes, count: int) -> bool:
        """Write deliveries, so many, when this turn ends; whether there is room for them."""

    def flush(self) -> None:
        """Write all that was put."""

    def fail(self) -> None:
        """End it because of a fault of the server."""

    def fall_behind(self) -> None:
        """Read nothing more: what came before is not handled yet."""

    def catch_up(self) -> None:
        """All that came is handled; read on."""


_Given = tuple[Connected | None, Input]
"""What has come in, and over which connection of a party."""


class Driver:
    """A node with a clock and a loop."""

    def __init__(
        self,
        node: Node,
        counts: Counts,
        events: Callable[[LinkUp | LinkDown | LinkRefused | Unsendable | LeaseEnded], None],
        failed: Callable[[Fault], None],
        history_bytes: int = 0,
    ) -> None:
        self.node = node
        self.storage: Storage | None = None
        """Writes and reads what the node wants, if it is durable."""
        self._counts = counts
        self.parties: dict[str, Connected] = {}
        self.observers: dict[int, Connected] = {}
        """Connections with the name of a party that do not take its place, by serial number."""
        self.peers: dict[str, Connected] = {}
        self._events = events
        self._failed = failed
        self._inbox: list[_Given] = []
        self._rests: dict[str, list[_Given]] = {}
        """What parties have given that waits until what came of it before is on its way."""
        self._publishing: dict[str, Connected] = {}
        """Whose publications are being handled: a party may have come back while those of before wait."""
        self._asking: dict[str, Connected] = {}
        """Whose requests are being handled."""
        self._behind: dict[str, Connected] = {}
        """The connections of those parties; nothing is read from them meanwhile, so that what waits has a bound."""
        self._dirty: dict[Connected, None] = {}
        self._loop = asyncio.get_running_loop()
        self._start = time.time_ns() // 1000 - time.monotonic_ns() // 1000
        self._is_planned = self._is_finished = False
        self._is_alone = True
        """Whether nothing else came when something was handled last."""
        self._is_held = False
        self.broken: Callable[[Exception], None] = lambda _: None
        """Told when nothing is handled any more, because the state of the node may be wrong."""
        self.congested: Callable[[bool], None] = lambda _: None
        """Told when too much waits for a neighbour, and when it does no longer."""
        self._is_congested = False
        self.delayed: Callable[[bool], None] = lambda _: None
        """Told when too much waits for the disk, and when it does no longer."""
        self._is_delayed = False
        self._alarm: asyncio.TimerHandle | None = None
        self.history = History(history_bytes) if history_bytes else None
        self.link_bytes = 0
        """What neighbours have sent since the last turn; for the history's bound."""
        self._losses: list[Loss] = []
        self._unnoted: list[tuple[int, int, int, list[Input], list[Output], tuple[Loss, ...]]] = []
        """What the history has to be told of."""
        self._first = node.publishing.count
        """Numbers of publications go on where earlier lives have ended, or beyond."""
        self.turns = 0
        self.seconds = 0.0
        """Spent in turns."""
        self.deliveries = 0

    @property
    def now(self) -> int:
        """Microseconds since 1970; the clock never goes back, even if somebody sets it."""
        return self._start + time.monotonic_ns() // 1000

    @property
    def publications(self) -> int:
        """How many were accepted since the server was started."""
        return self.node.publishing.count - self._first

    def give(self, given: Input, party: Connected | None = None) -> None:
        """Something has come in, from a party or not; it is handled with what else comes in this turn."""
        self._inbox.append((party, given))
        if not self._is_planned:
            self._plan()
            if self._is_alone and isinstance(given, PublishBlock):
                self._turn()

    def give_at_once(self, given: Input) -> None:
        """Something has come in that others wait for."""
        self._inbox.append((None, given))
        self._turn()

    def ask(self, party: Connected, number: int, operation: Operation) -> None:
        """A party asks for something. The answer may come late, and is for this connection and no other."""
        self.give(Request(party.name, number + party.serial * _NUMBERS, operation), party)

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._planned)

    def hold(self) -> None:
        """Let publications wait: too much is to be written already."""
        self._is_held = True

    def release(self) -> None:
        """There is room again."""
        self._is_held = False
        if self._rests:
            self._resume()

    def _resume(self) -> None:
        rests, self._rests = self._rests, {}
        self._inbox[:0] = [given for waiting in rests.values() for given in waiting]
        self._plan()

    def _planned(self) -> None:
        self._is_planned = False
        self._is_alone = len(self._inbox) < 2
        if self._inbox:
            self._turn()

    def _turn(self) -> None:
        if self._is_finished:
            return
        try:
            self._do_turn()
        except Exception as error:  # noqa: BLE001 (neither an input nor an output is to blame)
            self._break(error)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for connection in dirty:
            try:
                connection.flush()
            except Exception as error:  # noqa: BLE001 (it concerns one connection)
                self._failed(Fault("flush", stack_of(error)))
                connection.fail()

    def _do_turn(self) -> None:
        began = time.perf_counter()
        self.turns += 1
        inbox, self._inbox = self._inbox, []
        self._handle_all(inbox)
        self._look_at_links()
        self._flush()
        if self.history is not None:
            self._note(self.history)
        self._set_alarm()
        self._note_who_is_behind()
        if self._rests and not self._is_held:
            self._resume()
        self.seconds += time.perf_counter() - began

    def _handle_all(self, inbox: list[_Given]) -> None:
        """What a party says after publications waits until none of those is left; others do not wait for it."""
        batch: list[Input] = []
        published: set[str] = set()
        size = 0
        for source, given in inbox:
            party = source.name if source is not None else ""
            is_publication = isinstance(given, PublishBlock | PublishWith)
            is_another = is_publication and self._publishing.get(party, source) is not source
            if party in published or size > _SLICE or is_another:
                self._handle(batch)
                self._look_at_links()
                batch, published, size = [], set(), 0
            if party in self._rests or (is_publication and self._is_held):
                self._rests.setdefault(party, []).append((source, given))
                continue
            if source is not None and is_publication:
                self._publishing[party] = source
            elif source is not None and isinstance(given, Request):
                self._asking[party] = source
            if isinstance(given, PublishBlock):
                published.add(party)
                size += len(given.frames)
            batch.append(given)
        self._handle(batch)

    def _look_at_links(self) -> None:
        """Tell whether too much waits for a neighbour or the disk, if that has changed."""
        is_full = self.node.links.is_full
        if is_full != self._is_congested:
            self._is_congested = is_full
            self.congested(is_full)
        if self.storage is not None:
            is_behind = self.storage.is_behind(self.node.holding.bytes)
            if is_behind != self._is_delayed:
                self._is_delayed = is_behind
                self.delayed(is_behind)

    def _note_who_is_behind(self) -> None:
        for party in [party for party in self._behind if party not in self._rests]:
            self._behind.pop(party).catch_up()
        for party in self._rests:
            connection = self.parties.get(party)
            if connection is not None and self._behind.get(party) is not connection:
                self._behind[party] = connection
                connection.fall_behind()

    def _handle(self, batch: list[Input]) -> None:
        first, now = self.node.publishing.count, self.now
        if self._is_finished:
            return
        try:
            outputs = self.node.handle(batch, now)
        except Exception as error:  # noqa: BLE001 (the node contains what it can; its state may be wrong now)
            self._break(error)
            return
        for output in outputs:
            try:
                self._take(output)
            except Exception as error:  # noqa: BLE001 (it concerns one output, and all others are due)
                self._not_taken(output, error)
        if self.history is not None:
            losses, self._losses = tuple(self._losses), []
            self._unnoted.append((now, first, self.node.publishing.count, _handled(batch, outputs), outputs, losses))
        self._publishing.clear()
        self._asking.clear()

    def _break(self, error: Exception) -> None:
        """Handle nothing any more, and acknowledge nothing: the state of the node may be wrong."""
        self._is_finished = True
        self._rests.clear()
        self.broken(error)

    def _not_taken(self, output: Output, error: Exception) -> None:
        """A fault concerns one output. Whoever would miss it without noticing is disconnected."""
        self._failed(Fault(type(output).__name__, stack_of(error)))
        match output:
            case Persist() | Fetch() | Rest():
                self._break(error)  # what depends on it would wait for ever
            case Send(peer):
                self.give(Lost(peer))  # else the same frame would be tried again and again
            case Deliver(parties, _, _, readings):
                for party, reading in zip(parties, readings or repeat(0), strict=False):
                    self._end(party, reading)
            case DeliverBlock(party, _, _, _, reading) | DeliverSequence(party, _, _, _, reading):
                self._end(party, reading)
            case Position(party, reading) | Acknowledged(party, reading):
                self._end(party, reading)
            case TellLeaseEnded(party, reading) | TellMissed(party, reading):
                self._end(party, reading)
            case AcceptedUpTo(party) | Duplicate(party) | Reply(party) | Outlook(party):
                self._end(party, 0)

    def _end(self, party: str, reading: int) -> None:
        """End the connection of a party; of a durable one only if it reads its log."""
        connection = self.parties.get(party)
        if connection is not None and reading in (0, connection.serial):
            connection.fail()

    def _note(self, history: History) -> None:
        """Keep what was done; nobody waits for that, so it comes behind all that is written."""
        turns, self._unnoted = self._unnoted, []
        for now, first, end, inputs, outputs, losses in turns:
            link_bytes, self.link_bytes = self.link_bytes, 0
            history.note(Turn(now, first, end, tuple(inputs), tuple(outputs), losses), link_bytes)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        deadline = self.node.deadline
        if deadline is not None:
            self._alarm = self._loop.call_later(max(0.0, (deadline - self.now) / 1e6), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._turn()

    def stop(self) -> None:
        """Handle what has come in; from now on what comes waits until this is called again."""
        self._turn()
        if self._alarm is not None:
            self._alarm.cancel()
        self._is_planned = True

    def finish(self) -> None:
        """Handle nothing any more."""
        self._is_finished = True

    # -- what comes out ------------------------------------------------------------------------------------------------

    def _take(self, output: Output) -> None:
        match output:
            case DeliverBlock(party, block, count, _, reading):
                self._deliver(party, block, count, output, reading)
            case Deliver(parties, notification, _, readings):
                frame = frames.deliver(notification)
                for party, reading in zip(parties, readings or repeat(0), strict=False):
                    self._deliver(party, frame, 1, output, reading)
            case Send(peer, frame_of_link):
                connection = self.peers.get(peer)
                if connection is not None and not connection.is_slow:  # links say it again
                    for each in _encoded(frame_of_link, connection.version):
                        self._put(connection, each)
            case AcceptedUpTo(party, number, mode, source):
                self._put(self._connection(party, source), frames.accepted(number, mode))
            case Persist() if self.storage is not None:
                self.storage.persist(output)
            case Rest(left):
                self._rests.setdefault(output.asker, []).append((self._said_by(output.asker, left), left))
            case _:
                self._take_other(output)

    def _said_by(self, party: str, left: PublishBlock | PublishWith | Request) -> Connected | None:
        """The connection over which something came that has to be given again."""
        if isinstance(left, Request):
            return self._asking.get(party)
        return self._publishing.get(party)

    def _take_other(self, output: Output) -> None:
        match output:
            case Reply():
                self._reply(output)
            case DeliverSequence(party, pattern, notifications, _, reading):
                told = tuple(control.enveloped(each) for each in notifications)
                self._deliver(party, control.encode(Sequence(control.document(pattern)[1], told)), 1, output, reading)
            case Position(party, reading, _, first):
                connection = self._connection(party, reading)
                if connection is not None:
                    connection.next_number = first
                    connection.highest_number = max(first, connection.highest_number)
                    self._put(connection, control.encode(control.Position(*msgspec.structs.astuple(output)[2:])))
            case TellLeaseEnded() | TellMissed():
                self._tell_loss(output)
            case Duplicate(party, number, source):
                self._put_since(3, party, source, frames.duplicate(number))
            case Acknowledged(party, reading, number):
                self._put(self._connection(party, reading), frames.acknowledge(number, frames.ACKNOWLEDGED))
            case Fetch() if self.storage is not None:
                self.storage.fetch(output)
            case Outlook(party, subject, is_good):
                kind, document = control.document(subject)
                self._put(self.parties.get(party), control.encode(control.Outlook(kind, document, is_good)))
            case Fault():
                self._take_fault(output)
            case LinkUp() | LinkDown() | LinkRefused() | Unsendable() | LeaseEnded():
                self._events(output)

    def _tell_loss(self, told: TellLeaseEnded | TellMissed) -> None:
        if isinstance(told, TellMissed):
            self._put_since(4, told.party, told.reading, control.encode(control.Missed(told.first)))
            return
        ended = control.LeaseEnded(told.log, told.done, told.lost, date_of(told.time))
        self._put_since(3, told.party, told.reading, control.encode(ended))

    def _reply(self, reply: Reply) -> None:
        if not reply.number and reply.problem is None:
            return  # nobody wants to hear of it
        serial, number = divmod(reply.number, _NUMBERS)
        answer = Answer(number)
        if reply.problem is not None:
            answer = Answer(number, code_of(reply.problem).value, str(reply.problem).partition("\n")[0])
            self._counts.refused(answer.code)
        self._put(self._connection(reply.party, serial or reply.source), control.encode(answer))

    def _take_fault(self, fault: Fault) -> None:
        self._failed(fault)
        if fault.reading:
            self._end(fault.party, fault.reading)

    def _connection(self, party: str, serial: int) -> Connected | None:
        """The connection of a party, or of an observer of it, if it is still the one that was meant."""
        connection = self.parties.get(party)
        return connection if connection is not None and connection.serial == serial else self.observers.get(serial)

    def _deliver(self, party: str, data: bytes, count: int, output: Output, reading: int) -> None:
        """Deliver something; to a durable party if its connection is still the one that reads its log."""
        connection = self.parties.get(party)
        if connection is None or connection.is_closing or (reading and connection.serial != reading):
            if not reading:
                self._lost(party, NOT_CONNECTED, output)
            return
        if reading:
            connection.next_number += count
            connection.highest_number = max(connection.next_number, connection.highest_number)
        self.deliveries += count
        if not connection.deliver(data, count):
            self._lost(party, SLOW, output)
        self._dirty[connection] = None

    def _lost(self, party: str, reason: str, output: Output) -> None:
        if self.history is not None:
            self._losses.append(Loss(party, reason, output))

    def _put_since(self, version: int, party: str, serial: int, data: bytes) -> None:
        """Write something to a connection, unless it uses an earlier version of the protocol."""
        connection = self._connection(party, serial)
        if connection is not None and connection.version >= version:
            self._put(connection, data)

    def _put(self, connection: Connected | None, data: bytes) -> None:
        """Whoever is not here gets nothing."""
        if connection is not None:
            connection.put(data)
            self._dirty[connection] = None


def _handled(batch: list[Input], outputs: list[Output]) -> list[Input]:
    """The inputs of a turn without those that have to be given again as they are."""
    left = {id(output.given) for output in outputs if isinstance(output, Rest)}
    return [given for given in batch if id(given) not in left] if left else batch


def _encoded(frame: Frame, version: int) -> Iterator[bytes]:
    """A frame of a link; if it is long, as several that say the same."""
    content = wire.encode(frame, version)
    if len(content) <= _SPLIT or not isinstance(frame, Data) or len(frame.messages) < 2:
        yield frames.frame(frames.LINK, content)
        return
    half = len(frame.messages) // 2
    yield from _encoded(msgspec.structs.replace(frame, messages=frame.messages[:half]), version)
    rest = msgspec.structs.replace(frame, first=frame.first + half, messages=frame.messages[half:])
    yield from _encoded(rest, version)
