"""Drives a node: what has come in goes into it together, and what comes out goes to whom it is for.

One turn of the loop, one turn of the node: all that connections have read meanwhile is handled at once, and each
connection is written to once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from palio.codec import control, frames
from palio.codec.control import Answer, Sequence
from palio.link import wire
from palio.node.node import Node
from palio.node.ports import (
    AcceptedUpTo,
    Deliver,
    DeliverBlock,
    DeliverSequence,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Outlook,
    Output,
    Reply,
    Rest,
    Send,
)
from palio.server.errors import code_of

ACCEPTED = 0x11
"""The kind of frames that say up to which number publications were accepted."""
LINK = 0x30
"""The kind of frames that carry frames of a link."""


class Connected(Protocol):
    """A connection that can be written to."""

    def put(self, data: bytes) -> None:
        """Write something when this turn ends."""

    def flush(self) -> None:
        """Write all that was put."""


class Driver:
    """A node with a clock and a loop."""

    def __init__(self, node: Node, events: Callable[[LinkUp | LinkDown | LinkRefused], None] = lambda _: None) -> None:
        self.node = node
        self.parties: dict[str, Connected] = {}
        self.peers: dict[str, Connected] = {}
        self._events = events
        self._inbox: list[Input] = []
        self._dirty: dict[Connected, None] = {}
        self._loop = asyncio.get_running_loop()
        self._start = time.time_ns() // 1000 - time.monotonic_ns() // 1000
        self._is_planned = False
        self._alarm: asyncio.TimerHandle | None = None
        self.turns = 0

    @property
    def now(self) -> int:
        """Microseconds since 1970; the clock never goes back, even if somebody sets it."""
        return self._start + time.monotonic_ns() // 1000

    def give(self, given: Input) -> None:
        """Something has come in; it is handled with what else comes in this turn."""
        self._inbox.append(given)
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        inbox, self._inbox = self._inbox, []
        self.turns += 1
        for output in self.node.handle(inbox, self.now):
            self._take(output)
        dirty, self._dirty = self._dirty, {}
        for connection in dirty:
            connection.flush()
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        deadline = self.node.deadline
        if deadline is not None:
            self._alarm = self._loop.call_later(max(0.0, (deadline - self.now) / 1e6), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if not self._is_planned:
            self._turn()

    def stop(self) -> None:
        """No more turns."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._is_planned = True

    # -- what comes out ------------------------------------------------------------------------------------------------

    def _take(self, output: Output) -> None:
        match output:
            case DeliverBlock(party, block):
                self._put(self.parties.get(party), block)
            case Deliver(parties, notification):
                frame = frames.deliver(notification)
                for party in parties:
                    self._put(self.parties.get(party), frame)
            case Send(peer, frame_of_link):
                self._put(self.peers.get(peer), frames.frame(LINK, wire.encode(frame_of_link)))
            case AcceptedUpTo(party, number):
                self._put(self.parties.get(party), frames.frame(ACCEPTED, number.to_bytes(4, "big")))
            case Rest(block_left):
                self.give(block_left)
            case _:
                self._take_other(output)

    def _take_other(self, output: Output) -> None:
        match output:
            case Reply(party, number, problem):
                code = "" if problem is None else code_of(problem).value
                text = "" if problem is None else str(problem).partition("\n")[0]
                self._put(self.parties.get(party), control.encode(Answer(number, code, text)))
            case DeliverSequence(party, pattern, notifications):
                told = tuple(control.enveloped(each) for each in notifications)
                self._put(self.parties.get(party), control.encode(Sequence(control.document(pattern)[1], told)))
            case Outlook(party, subject, is_good):
                kind, document = control.document(subject)
                self._put(self.parties.get(party), control.encode(control.Outlook(kind, document, is_good)))
            case LinkUp() | LinkDown() | LinkRefused():
                self._events(output)

    def _put(self, connection: Connected | None, data: bytes) -> None:
        """Whoever is not here gets nothing."""
        if connection is not None:
            connection.put(data)
            self._dirty[connection] = None
