"""Clocks of servers: each has its own, which is off and runs too fast or too slowly."""

from __future__ import annotations

RIGHT = 100
"""The rate of a clock that goes right, in percent."""


class Clock:
    """What one server takes for the time. It never goes back while the server runs.

    >>> clock = Clock()
    >>> clock.set(offset=500, rate=50, now=0)
    >>> clock.at(100), clock.when(550)
    (550, 100)
    >>> clock.set(offset=0, rate=50, now=100)  # earlier than it shows: that has to wait until the server starts again
    >>> clock.at(100)
    550
    >>> clock.restart(now=100)
    >>> clock.at(100)
    100
    """

    def __init__(self) -> None:
        self._offset = 0
        """How far the clock is off when the server starts."""
        self._rate = RIGHT
        self._begin = self._shown = 0
        """At this time the clock has shown that."""

    def set(self, offset: int, rate: int, now: int) -> None:
        """Put a clock forward, or back as soon as its server starts again; and let it run at another rate."""
        self._shown, self._begin = max(self.at(now), now + offset), now
        self._offset, self._rate = offset, rate

    def restart(self, now: int) -> None:
        """The server starts."""
        self._shown, self._begin = now + self._offset, now

    def at(self, now: int) -> int:
        """What the clock shows at a time."""
        return self._shown + (now - self._begin) * self._rate // RIGHT

    def when(self, shown: int) -> int:
        """The first time at which the clock shows at least this."""
        return self._begin - (self._shown - shown) * RIGHT // self._rate
