"""Nodes whose turns are written into a ledger, and all of whose records go through their form in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from palio.codec import frames
from palio.errors import InternalError
from palio.model import Notification
from palio.node import records
from palio.node.hybrid import date_of
from palio.node.journal import Record
from palio.node.node import NodeSettings
from palio.node.ports import (
    Acknowledge,
    Deliver,
    DeliverBlock,
    DeliverSequence,
    Input,
    Output,
    Persist,
    Position,
)
from palio.sim.engine.cluster import OF_THE_SIMULATOR
from palio.sim.engine.recording import RecordingNode
from palio.sim.histories.ledger import TURN, Book


class LedgerNode(RecordingNode):
    """A node that a book is kept of, and whose deliveries are looked at when they are made."""

    def __init__(self, book: Book, settings: NodeSettings, records: Iterable[Record], *given: Any) -> None:
        self._book = book
        self._starts: dict[tuple[str, int], int] = {}
        """The number from which on each connection reads, or which it was told last."""
        self._acknowledged: dict[str, int] = {}
        """The number behind the last one that each party has acknowledged, in any connection."""
        super().__init__(settings, [_read_again(each) for each in records], *given)

    def handle(self, inputs: Iterable[Input], now: int) -> list[Output]:
        """As always; and write into the book what was taken and what is written."""
        given = tuple(inputs)
        for each in given:
            if isinstance(each, Acknowledge):
                self._acknowledged[each.party] = max(self._acknowledged.get(each.party, 0), each.number + 1)
        outputs = super().handle(given, now)
        persist = next((each for each in outputs if isinstance(each, Persist)), None)
        self._book.note(given, persist, now)
        return [self._with_turn(each) if isinstance(each, Persist) else each for each in outputs]

    def _with_turn(self, output: Persist) -> Persist:
        for record in output.records:
            if record[1] is not None and _read_again(record) != record:
                raise InternalError(f"{record} is read as {_read_again(record)}")
        return msgspec.structs.replace(output, records=(*output.records, (TURN, self._book.turn)))

    def emit(self, output: Output) -> None:
        """As always; and look at what is delivered."""
        super().emit(output)
        match output:
            case Position(party, reading, _, first):
                self._starts[party, reading] = first
            case Deliver(parties, notification, numbers, readings):
                for party, number, reading in zip(parties, numbers, readings, strict=bool(numbers)):
                    self._judge(party, number, reading, notification)
            case DeliverBlock(party, content, _, first, reading):
                for place, each in enumerate(_notifications(content)):
                    self._judge(party, None if first is None else first + place, reading, each)
            case DeliverSequence(party, _, _, number, reading) if number is not None:
                self._judge(party, number, reading, None)

    def _judge(self, party: str, number: int | None, reading: int, notification: Notification | None) -> None:
        """What is delivered is worth something, not too old, and within the window of whoever gets it."""
        envelope = None if notification is None else notification.envelope
        if envelope is not None and envelope.expires is not None and envelope.expires <= date_of(self._now):
            raise InternalError(
                f"{party} is sent {envelope.id} at {self._now}, which has expired at {envelope.expires}"
            )
        if number is None:
            return
        log, facts = self.logs.of(party), self._book.logs.get(party)
        rejected = [letter.delivery for letter in log.letters.values()]
        rejected += [] if facts is None else facts.lettered
        begun = self._starts.get((party, reading), 0), self._acknowledged.get(party, 0)
        if number >= max(*begun, *(each + 1 for each in rejected)) + log.keep.window:
            raise InternalError(f"{party} is sent delivery {number}, beyond its window of {log.keep.window}")
        if facts is None or number >= facts.length:
            return
        if self._book.items_of(party)[number].time < self._now - log.keep.age:
            raise InternalError(f"{party} is sent delivery {number}, which is older than {log.keep.age}")


def _notifications(content: bytes) -> Iterator[Notification | None]:
    for kind, body in frames.frames_of(content):
        yield frames.delivered(body) if kind == frames.DELIVER else None


def _read_again(record: Record) -> Record:
    """A record as it comes back from a file."""
    key, value = records.encode(record) if record[0][0] not in OF_THE_SIMULATOR else (b"", None)
    return record if value is None else records.decode(key, value)
