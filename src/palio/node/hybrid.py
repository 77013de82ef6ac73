"""Publication times that respect causality, though clocks differ."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from palio.errors import PeerError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_LAST = datetime(9999, 1, 1, tzinfo=UTC)
"""No clock is that far ahead; times could not grow any more."""


def date_of(microseconds: int) -> datetime:
    """A moment that is counted in microseconds."""
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds_of(date: datetime) -> int:
    """The same, the other way round."""
    return (date - _EPOCH) // _TICK


class HybridClock:
    """A publication has the time of the clock, but is later than every notification that was here before it.

    >>> clock = HybridClock()
    >>> str(clock.next(5)), str(clock.next(5))
    ('1970-01-01 00:00:00.000005+00:00', '1970-01-01 00:00:00.000006+00:00')
    """

    __slots__ = ("_date", "latest")

    def __init__(self) -> None:
        self.latest = _EPOCH - _TICK
        """The latest publication time that is known here."""
        self._date = 0, _EPOCH
        """The last moment at which something was published, as a date, too."""

    def next(self, now: int) -> datetime:
        """The time of a publication at a moment in microseconds."""
        if self._date[0] != now:
            self._date = now, date_of(now)
        date = self._date[1]
        self.latest = date if date > self.latest else self.latest + _TICK
        return self.latest

    def reserve(self, now: int) -> int:
        """The time in microseconds that :meth:`next` would give; as many after it as are then said to be used."""
        return max(now, microseconds_of(self.latest) + 1)

    def use(self, first: int, count: int) -> None:
        """The times from the first one, one after the other, are those of publications."""
        if count:
            self.latest = date_of(first + count - 1)

    def saw(self, published: datetime) -> None:
        """A notification has come that was published at a time."""
        if published > self.latest:
            if published > _LAST:
                raise PeerError(f"a notification published at {published}: that clock is wrong")
            self.latest = published
