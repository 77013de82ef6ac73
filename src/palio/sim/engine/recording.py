"""Nodes that write down what reaches them, so that somebody else can work out what their monitors should find."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from palio.model import Notification, Pattern
from palio.node.containment import BrokenNodeError, Containment
from palio.node.journal import Record
from palio.node.node import Node, NodeSettings
from palio.node.ports import Input, Leave, Output, Persist, Request, Subscribe, Unsubscribe
from palio.routing.messages import Publish


class Arrived(NamedTuple):
    """A notification has reached the server."""

    notification: Notification


class Wanted(NamedTuple):
    """A party has subscribed for a pattern, or cancelled what it covers."""

    party: str
    pattern: Pattern
    is_over: bool


class Entry(NamedTuple):
    """What a node has handled at once."""

    begun: int
    """When this life of the server began, by its clock."""
    now: int
    events: tuple[Arrived | Wanted, ...]


class InjectedError(Exception):
    """A fault that was put into a node."""


class _InjectedOnly(Containment):
    """Contains the faults that were put into a node; any other is a bug that a run has to find."""

    def contain(self, given: Input, error: Exception) -> None:
        if not isinstance(error, InjectedError | BrokenNodeError):
            raise error
        super().contain(given, error)


class RecordingNode(Node):
    """A node with a log. If it is durable, the log is on its disk, and is as complete as all that is there."""

    def __init__(self, settings: NodeSettings, records: Iterable[Record] = (), now: int = 0, *given: Any) -> None:
        records = list(records)
        self.log: list[Entry] = [value for key, value in records if key[0] == "log"]
        self._begun = now
        self._next = max([key[1] + 1 for key, _ in records if key[0] == "log"], default=0)  # type: ignore[operator]
        self._events: list[Arrived | Wanted] = []
        super().__init__(settings, records, now, *given)
        self.containment = _InjectedOnly(self)

    def handle(self, inputs: Iterable[Input], now: int) -> list[Output]:
        """As always; and write down what matters to monitors."""
        holds_back = self.monitors.deadline is not None
        outputs = super().handle(inputs, now)
        events, self._events = tuple(self._events), []
        if events or holds_back:
            entry = Entry(self._begun, now, events)
            record = ("log", self._next), entry
            self._next += 1
            self.log.append(entry)
            return [_with(output, record) if isinstance(output, Persist) else output for output in outputs]
        return outputs

    def _forward(self, message: Publish, source: str | None, *, to_parties: bool = True) -> None:
        self._events.append(Arrived(message.notification))
        super()._forward(message, source, to_parties=to_parties)

    def _perform(self, request: Request) -> bool:
        operation = request.operation
        if isinstance(operation, Subscribe | Unsubscribe) and isinstance(operation.filter, Pattern):
            self._events.append(Wanted(request.party, operation.filter, isinstance(operation, Unsubscribe)))
        if isinstance(operation, Leave):
            patterns = self.monitors.patterns(request.party)
            self._events += [Wanted(request.party, each, is_over=True) for each in patterns]
        if isinstance(operation, Unsubscribe):
            instead = [each for each in operation.instead if isinstance(each, Pattern)]
            self._events += [Wanted(request.party, each, is_over=False) for each in instead]
        return super()._perform(request)


def _with(output: Persist, record: Record) -> Persist:
    return msgspec.structs.replace(output, records=(*output.records, record))
