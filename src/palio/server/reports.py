"""Lines of the log about things that others can bring about as often as they like: the first ones, then counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

MOST_SAID = 10
"""Lines about events of one kind in one interval; the others are counted in one line when the interval ends."""
REPEAT_SECONDS = 60.0
"""Between two lines about the same failure of the same peer."""
INTERVAL_SECONDS, LONGEST_SECONDS = 5.0, 80.0
"""The length of an interval. It doubles while there are too many events in each, and begins again after a quiet one."""
_PLURALS = {
    "connection-closed": "connections-closed",
    "fault": "faults",
    "lease-ended": "leases-ended",
    "link-down": "links-down",
    "link-refused": "links-refused",
    "link-up": "links-up",
    "name-taken": "names-taken",
    "peer-connected": "peers-connected",
    "peer-lost": "peers-lost",
    "slow-consumer": "slow-consumers",
}
"""The events, and the events of the lines that count those which were not logged."""


class _Interval:
    """The events of one kind in the present interval."""

    __slots__ = ("count", "end", "seconds")

    def __init__(self, now: float) -> None:
        self.count = 0
        self.seconds = INTERVAL_SECONDS
        self.end = now + INTERVAL_SECONDS

    @property
    def more(self) -> int:
        """The events that were not logged."""
        return max(0, self.count - MOST_SAID)

    def begin(self, now: float) -> None:
        """Begin the next interval."""
        self.seconds = min(2 * self.seconds, LONGEST_SECONDS) if self.more else INTERVAL_SECONDS
        self.count, self.end = 0, now + self.seconds


class Reports:
    """Logs events of a few kinds, and bounds how many lines there are."""

    def __init__(self, log: structlog.stdlib.BoundLogger, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._intervals: dict[tuple[str, str], _Interval] = {}
        """By level and event."""

    def say(self, level: str, event: str, **fields: Any) -> None:
        """Log an event, or count it if there were too many of its kind."""
        now = self._clock()
        interval = self._intervals.get((level, event))
        if interval is None:
            interval = self._intervals[level, event] = _Interval(now)
        elif now >= interval.end:
            self._end(level, event, interval, now)
        interval.count += 1
        if interval.count <= MOST_SAID:
            getattr(self._log, level)(event, **fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log an event of the level info."""
        self.say("info", event, **fields)

    def warn(self, event: str, **fields: Any) -> None:
        """Log a warning."""
        self.say("warning", event, **fields)

    def finish(self, now: float) -> None:
        """Log the counts of intervals that have ended."""
        for (level, event), interval in self._intervals.items():
            if interval.more and now >= interval.end:
                self._end(level, event, interval, now)

    def _end(self, level: str, event: str, interval: _Interval, now: float) -> None:
        if interval.more:
            getattr(self._log, level)(_PLURALS[event], more=interval.more)
        interval.begin(now)


class RepeatedFailures:
    """Logs why something fails again and again: a new reason at once, the same one once a minute with a count."""

    def __init__(self, log: structlog.stdlib.BoundLogger, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._known: dict[str, tuple[str, float]] = {}
        """By name: the reason that was logged last, and when."""
        self._more: dict[str, int] = {}
        """By name: the failures since then."""

    def note(self, event: str, name: str, reason: str, **fields: Any) -> None:
        """Something of a name has failed."""
        now, (known, logged) = self._clock(), self._known.get(name, ("", 0.0))
        if reason == known and now < logged + REPEAT_SECONDS:
            self._more[name] = self._more.get(name, 0) + 1
            return
        self._known[name] = reason, now
        more = self._more.pop(name, 0)
        say = self._log.info if reason == known else self._log.warning
        say(event, peer=name, reason=reason, **fields, **({"attempts": more + 1} if more else {}))

    def forget(self, name: str) -> None:
        """Nothing more is tried for a name."""
        self._known.pop(name, None)
        self._more.pop(name, None)
