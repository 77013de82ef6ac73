"""What a durable node has to say and does not say yet: first what it depends on is written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from palio.node.acceptances import Acceptances
from palio.node.journal import Record
from palio.node.ports import DeliverBlock, Output, Persist


class Unwritten(NamedTuple):
    """What one turn wants to be written."""

    records: tuple[Record, ...]
    entries: tuple[tuple[int, bytes], ...]
    trim: int | None
    is_pressing: bool


class _Turn(NamedTuple):
    """What a turn has to say, when all up to a token is on disk."""

    token: int
    position: int
    """How long the message log is then."""
    outputs: list[Output]


class Holding:
    """The outputs of turns, in order, until what they depend on is on disk.

    What depends on nothing new still waits for what is before it. Answers to publishers wait for as much as they were
    promised (:class:`~palio.node.acceptances.Acceptances`).
    """

    def __init__(self) -> None:
        self.acceptances = Acceptances()
        self.bytes = 0
        """About how much waits."""
        self._turns: deque[_Turn] = deque()
        self._released: list[Output] = []
        self._token = 0

    def hold(self, outputs: list[Output], unwritten: Unwritten | None, position: int) -> list[Output]:
        """A turn is over, with what it says and wants to be written, if anything: what can be said now."""
        said, self._released = self._released, []
        if unwritten is not None:
            self._token += 1
            self._turns.append(_Turn(self._token, position, outputs))
            self.bytes += _size_of(outputs)
            said.append(Persist(self._token, *unwritten))
        elif self._turns:
            self._turns[-1].outputs.extend(outputs)
            self.bytes += _size_of(outputs)
        else:
            said += outputs
        said += self.acceptances.due(self._token)
        return said

    def written(self, token: int) -> None:
        """All up to a token is written, and not synced yet."""
        self._released += self.acceptances.written(token)

    def synced(self, token: int) -> int | None:
        """All up to a token is on disk; how much of the message log, if that is news."""
        position = None
        while self._turns and self._turns[0].token <= token:
            _, position, outputs = self._turns.popleft()
            self._released += outputs
            self.bytes -= _size_of(outputs)
        self._released += self.acceptances.synced(token)
        return position


def _size_of(outputs: Iterable[Output]) -> int:
    """About how much memory outputs take: deliveries are the most of it."""
    return sum(len(each.frames) for each in outputs if isinstance(each, DeliverBlock))
