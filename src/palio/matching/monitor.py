"""Monitors: which sequences of notifications match a pattern."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Generic, TypeVar

from palio.errors import CallerError, brief
from palio.model.conditions import expect
from palio.model.notification import Notification
from palio.model.pattern import Pattern

T = TypeVar("T")


class Sequence(Generic[T]):
    """How far a pattern has been met: elements are offered in order, each with the positions whose filters it matches.

    The first element that matches the filter waited for is taken, others are passed over. When the last position is
    met the sequence is complete, and the next one begins with what is offered after it.

    >>> sequence = Sequence[str](2)
    >>> [sequence.offer(positions, name) for positions, name in [({1}, "a"), ({0, 1}, "b"), ({0}, "c"), ({1}, "d")]]
    [None, None, None, ('b', 'd')]
    """

    __slots__ = ("length", "taken")

    def __init__(self, length: int, taken: Iterable[T] = ()) -> None:
        self.length = length
        self.taken = list(taken)
        if type(length) is not int or not 0 <= len(self.taken) < length:
            raise CallerError(f"{len(self.taken)} elements of {brief(length)} are no beginning of a sequence")

    @property
    def waiting(self) -> int:
        """The position whose filter is waited for."""
        return len(self.taken)

    def offer(self, positions: Container[int], element: T) -> tuple[T, ...] | None:
        """Take the element if its filter is waited for; the whole sequence if that completes it."""
        if self.waiting not in positions:
            return None
        self.taken.append(element)
        if len(self.taken) < self.length:
            return None
        complete = tuple(self.taken)
        self.taken.clear()
        return complete


class Monitor:
    """Finds the sequences that match a pattern among notifications that are given in order.

    >>> monitor = Monitor(Pattern.parse('symbol = "A" then symbol = "B" and change > 0'))
    >>> for event in [Notification(symbol="A"), Notification(symbol="B", change=1), Notification(symbol="B", change=2)]:
    ...     print(monitor.feed(event))
    None
    (Notification(symbol='A'), Notification(change=1, symbol='B'))
    None
    """

    __slots__ = ("_sequence", "pattern")

    def __init__(self, pattern: Pattern) -> None:
        expect(pattern, Pattern)
        self.pattern = pattern
        self._sequence = Sequence[Notification](len(pattern))

    def feed(self, notification: Notification) -> tuple[Notification, ...] | None:
        """The sequence that the notification completes, or ``None``."""
        waiting = self._sequence.waiting
        positions = (waiting,) if self.pattern.filters[waiting].matches(notification) else ()
        return self._sequence.offer(positions, notification)
