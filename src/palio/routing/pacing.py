"""How many changes of filters may be on their way to each neighbour.

A neighbour handles what comes over a link in its order. So everything that is sent behind many changes of filters,
notifications too, waits until the neighbour has made its comparisons. That is why only some changes are in flight;
others wait on this side, and notifications go before them.

The number follows the time that the neighbour takes, as the congestion control of TCP Vegas does: more changes may be
in flight while acknowledgements come about as soon as the earliest ones did, and fewer when they come later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

FIRST: Final = 64
"""The number of changes that may be in flight on a new link."""
LEAST: Final = 4
MOST: Final = 1_024
_TARGET: Final = 15_000
"""Microseconds. Acknowledgements that are delayed by less permit more changes, twice as much permits fewer."""
_FADING: Final = 64
"""The shortest delay grows by this part of it with each acknowledgement, because networks change."""


class _Flight(NamedTuple):
    """Changes that were sent together."""

    end: int
    """The number of the message behind them."""
    changes: int
    sent: int


class _Pace:
    """The changes that are in flight to one neighbour."""

    __slots__ = ("_decreased", "_flights", "_least_delay", "in_flight", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_flight = 0
        self._flights: deque[_Flight] = deque()
        self._least_delay: int | None = None
        self._decreased = -1
        """When the limit was last decreased: what was sent before says nothing about the new limit."""

    def send(self, end: int, changes: int, now: int) -> None:
        self._flights.append(_Flight(end, changes, now))
        self.in_flight += changes

    def acknowledge(self, base: int, now: int) -> None:
        while self._flights and self._flights[0].end <= base:
            was_full = self.in_flight >= self.limit
            flight = self._flights.popleft()
            self.in_flight -= flight.changes
            self._learn(flight, now, was_full=was_full)

    def _learn(self, flight: _Flight, now: int, *, was_full: bool) -> None:
        delay, least = now - flight.sent, self._least_delay
        self._least_delay = least = delay if least is None else min(delay, least + least // _FADING + 1)
        if delay - least < _TARGET:
            if was_full:
                self.limit = min(MOST, self.limit + max(1, flight.changes // 4))
        elif delay - least > 2 * _TARGET and flight.sent > self._decreased:
            self.limit = max(min(self.limit, LEAST), self.limit * 2 // 3)
            self._decreased = now


class Pacing:
    """The changes that are in flight to all neighbours.

    >>> pacing = Pacing(first=2)
    >>> pacing.send("rome", end=7, changes=2, now=0)
    >>> pacing.room("rome"), pacing.room("oslo")
    (0, 2)
    """

    def __init__(self, first: int = FIRST) -> None:
        self._first = first
        self._paces: dict[str, _Pace] = {}

    def room(self, peer: str) -> int:
        """How many more changes may be sent to a neighbour now."""
        pace = self._paces.get(peer)
        return self._first if pace is None else max(0, pace.limit - pace.in_flight)

    def send(self, peer: str, end: int, changes: int, now: int) -> None:
        """Changes were sent; ``end`` is the number of the message behind them."""
        pace = self._paces.get(peer)
        if pace is None:
            pace = self._paces[peer] = _Pace(self._first)
        pace.send(end, changes, now)

    def acknowledge(self, base_of: Callable[[str], int], now: int) -> None:
        """Note which changes were acknowledged: those before the number that ``base_of`` returns for a neighbour."""
        for peer, pace in self._paces.items():
            if pace.in_flight:
                pace.acknowledge(base_of(peer), now)

    def forget(self, peer: str) -> None:
        """The link has ended."""
        self._paces.pop(peer, None)
