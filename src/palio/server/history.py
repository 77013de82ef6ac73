"""What went into a server's node and came out of it lately, for those who ask what became of a notification.

Only references are kept, turn by turn, up to a number of bytes: nothing is decoded or copied before somebody asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from palio.codec import frames, msgpack
from palio.errors import DecodeError
from palio.link.frames import Data
from palio.model import Advertisement, Filter, Limits, Notification, Pattern
from palio.node.ports import (
    Advertise,
    Deliver,
    DeliverBlock,
    DeliverSequence,
    FromPeer,
    Input,
    LinkDown,
    LinkUp,
    Operation,
    Output,
    PublishBlock,
    PublishWith,
    Reply,
    Request,
    Rest,
    Send,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Unwatch,
    Watch,
)

MOST_TURNS = 200_000
_TURN_BYTES = 400
_MESSAGE_BYTES = 600
_CONSTRAINT_BYTES = 800
"""What a constraint of a filter takes: with the filter's canonical form, and with its sets of values."""
_LITERAL_COPIES = 4
_DECODED = 4
"""What is decoded takes about so many times the bytes that it had on the wire."""
NOT_CONNECTED, SLOW = "not connected", "slow"


class Loss(msgspec.Struct, frozen=True, gc=False):
    """A delivery that did not leave the server."""

    party: str
    reason: str
    output: Output


class Turn(msgspec.Struct, frozen=True, gc=False):
    """What a node was given at a time, and what it gave.

    Tuples, because the collector of garbage need not look at those again and again: there are many turns.
    """

    time: int
    first: int
    end: int
    """The publications that it has accepted have these numbers, from the first on and before the end."""
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    losses: tuple[Loss, ...] = ()


class Published(NamedTuple):
    """A publication as a party has sent it."""

    sequence: int
    party: str
    document: bytes


class History:
    """The last turns of a node, within a bound in bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self.turns: deque[Turn] = deque()
        self._sizes: deque[int] = deque()
        self.is_whole = True
        """Whether nothing was forgotten yet."""

    def note(self, turn: Turn, link_bytes: int) -> None:
        """Keep a turn in which neighbours have sent so many bytes; the oldest go when there is too much."""
        size = _size_of_inputs(turn.inputs) + _size_of_outputs(turn.outputs)
        if not size:
            return
        size += _TURN_BYTES + _DECODED * link_bytes
        self.bytes += size
        self.turns.append(turn)
        self._sizes.append(size)
        while self.turns and (self.bytes > self.most_bytes or len(self.turns) > MOST_TURNS):
            self.turns.popleft()
            self.bytes -= self._sizes.popleft()
            self.is_whole = False

    @property
    def since(self) -> int | None:
        """The time from which on everything is known; None if nothing is."""
        return self.turns[0].time if self.turns else None

    def last_of(self, party: str, limits: Limits) -> int | None:
        """The number of the last publication of a party, if it is remembered."""
        for turn in reversed(self.turns):
            for each in reversed(publications(turn, limits)):
                if each.party == party:
                    return each.sequence
        return None


def _size_of_inputs(inputs: Iterable[Input]) -> int:
    """About how much memory is kept by what was given; none if nobody will ever ask for it."""
    size = 0
    for each in inputs:
        if isinstance(each, PublishBlock):
            size += 2 * len(each.frames) + 1  # some of it is decoded, for neighbours
        elif isinstance(each, FromPeer):
            size += _MESSAGE_BYTES * len(each.frame.messages) if isinstance(each.frame, Data) else 0
        elif isinstance(each, PublishWith):
            size += _MESSAGE_BYTES + 2 * len(each.content)
        elif isinstance(each, Request):
            size += _MESSAGE_BYTES + sum(map(_size_of_subject, _subjects(each.operation)))
        else:
            size += _MESSAGE_BYTES
    return size


def _subjects(operation: Operation) -> Iterator[Filter | Pattern | Advertisement]:
    """The filters, patterns and advertisements of a request."""
    match operation:
        case Unsubscribe(wanted, instead):
            yield wanted
            yield from instead
        case Subscribe(subject) | Advertise(subject) | Unadvertise(subject) | Watch(subject) | Unwatch(subject):
            yield subject


def _size_of_subject(subject: Filter | Pattern | Advertisement) -> int:
    if isinstance(subject, Pattern):
        return sum(map(_size_of_subject, subject.filters))
    literals = [each.value for each in subject if isinstance(each.value, str | bytes)]
    return _CONSTRAINT_BYTES * len(subject) + _LITERAL_COPIES * sum(map(len, literals))


def _size_of_outputs(outputs: Iterable[Output]) -> int:
    size = 0
    for each in outputs:
        if isinstance(each, DeliverBlock):
            size += len(each.frames)
        elif isinstance(each, Send):
            size += _MESSAGE_BYTES * len(each.frame.messages) if isinstance(each.frame, Data) else 0
        elif isinstance(each, Deliver | DeliverSequence | LinkUp | LinkDown):
            size += _MESSAGE_BYTES
    return size


def publications(turn: Turn, limits: Limits) -> list[Published]:
    """What was published in a turn, with the numbers that it got; nothing if these cannot be told for certain.

    Those that were refused got none: they have an answer of their own, or, if nobody wanted one, cannot be read.
    """
    if turn.first == turn.end:
        return []
    refused = [(each.party, each.number) for each in turn.outputs if isinstance(each, Reply) and each.problem]
    found: list[Published] = []
    for party, number, document in _given(turn):
        if (party, number) in refused and (number or not _is_readable(document, limits)):
            refused.remove((party, number))
        else:
            found.append(Published(turn.first + len(found), party, document))
    return found if len(found) == turn.end - turn.first else []


def _given(turn: Turn) -> Iterator[tuple[str, int, bytes]]:
    """All publications that were handled in a turn, with their parties and the parties' numbers."""
    rests = [each.given for each in turn.outputs if isinstance(each, Rest)]
    left = {each.party: len(each.frames) for each in rests if isinstance(each, PublishBlock)}
    for each in turn.inputs:
        if isinstance(each, PublishBlock):
            handled = each.frames[: len(each.frames) - left.get(each.party, 0)]
            for number, document in frames.publications_of(handled):
                yield each.party, number, document
        elif isinstance(each, PublishWith):
            number, _, document = frames.published_with(each.content)
            yield each.party, number, document


def _is_readable(document: bytes, limits: Limits) -> bool:
    try:
        msgpack.decode(Notification, document, limits)
    except DecodeError:
        return False
    return True
