"""Notifications that wait for a while, so that those before them in the order of publication can overtake."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from palio.errors import InternalError
from palio.model import Filter, Notification
from palio.model.envelope import NotificationId

if TYPE_CHECKING:
    from palio.node.watches import Watch

Order = tuple[datetime, NotificationId]
"""The place of a notification among all: by publication time, then origin, incarnation and sequence."""


def order_of(notification: Notification) -> Order:
    """The place of a notification among all."""
    envelope = notification.envelope
    if envelope is None:
        raise InternalError("a notification without an envelope has no place in the order")
    return envelope.published, envelope.id


class Arrival(NamedTuple):
    """A notification that has reached the server."""

    order: Order
    number: int
    """Arrivals are numbered as they come."""
    notification: Notification
    met: tuple[Filter, ...]
    """The filters of patterns that it matches."""
    only: Watch | None = None
    """The only monitor for which it counts, if it has come from another server that held it back for that one."""


class HoldBack:
    """Holds each arrival for a while, and gives arrivals in order.

    An arrival goes when its time has come, and those before it in the order go first. Of so many arrivals within one
    window that there is no room for them, the earliest goes as if its time had come.
    """

    __slots__ = ("_due", "_heap", "_most", "_window")

    def __init__(self, window: int, most: int) -> None:
        self._window = window
        self._most = most
        self._heap: list[Arrival] = []
        self._due: deque[tuple[int, Order]] = deque()
        """When each arrival has to go, as they came; it may have gone already."""

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Arrival]:
        return iter(sorted(self._heap))

    @property
    def deadline(self) -> int | None:
        """When :meth:`take` has something to give."""
        return self._due[0][0] if self._due else None

    def put(self, arrival: Arrival, now: int) -> int:
        """Hold an arrival back; until when."""
        until = now + self._window
        if self._due:
            until = max(until, self._due[-1][0])  # though a clock may be set back
        self.restore(arrival, until)
        return until

    def restore(self, arrival: Arrival, until: int) -> None:
        """Take back an arrival that was held; those that came before it come first."""
        heappush(self._heap, arrival)
        self._due.append((until, arrival.order))

    def take(self, now: int) -> list[Arrival]:
        """What goes because its time has come."""
        found: list[Arrival] = []
        while self._due and self._due[0][0] <= now:
            found += self._take_first()
        return found

    def overflow(self) -> list[Arrival]:
        """What goes because there is no room for it."""
        found: list[Arrival] = []
        while len(self._due) > self._most:
            found += self._take_first()
        return found

    def discard(self, watch: Watch) -> list[Arrival]:
        """Give up what is held for one monitor only; what was given up."""
        found = [arrival for arrival in self._heap if arrival.only is watch]
        if found:
            self._heap = [arrival for arrival in self._heap if arrival.only is not watch]
            heapify(self._heap)
        return found

    def _take_first(self) -> list[Arrival]:
        """The earliest arrival and those before it in the order; none if it has gone already."""
        _, order = self._due.popleft()
        found = []
        while self._heap and self._heap[0].order <= order:
            found.append(heappop(self._heap))
        return found
