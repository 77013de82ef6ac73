"""What monitors should find, worked out by the words of the law alone: slowly, and from everything that is known."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from palio.model import Notification, Pattern
from palio.model.envelope import NotificationId
from palio.sim.engine.recording import Arrived, Entry, Wanted

Sequence = tuple[NotificationId, ...]
Place = tuple[datetime, str, int, int]


def place(notification: Notification) -> Place:
    """Where a notification is in the order of all: hybrid time of publication, origin, incarnation, sequence."""
    envelope = notification.envelope
    assert envelope is not None
    return envelope.published, envelope.id.origin, envelope.id.incarnation, envelope.id.sequence


class Ideal:
    """One monitor for one pattern.

    The first notification that matches is taken, then the first one after it that matches the next filter, and so on.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.found: list[Sequence] = []
        self._taken: list[Notification] = []
        self._last: Place | None = None

    def feed(self, notification: Notification) -> None:
        """A notification, in the order in which they are to be looked at."""
        filter = self.pattern.filters[len(self._taken)]
        if not filter.matches(notification) or (self._last is not None and place(notification) <= self._last):
            return
        self._last = place(notification)
        self._taken.append(notification)
        if len(self._taken) == len(self.pattern):
            self.found.append(tuple(each.envelope.id for each in self._taken if each.envelope))
            self._taken = []


class _Held:
    def __init__(self, number: int, until: int, notification: Notification) -> None:
        self.number = number
        self.said = self.until = until
        self.notification = notification
        self.is_gone = False


class _Watch:
    def __init__(self, since: int, ideal: Ideal) -> None:
        self.since = since
        """How many notifications had come before the party subscribed."""
        self.ideal = ideal


class AccessPoint:
    """The monitors of one server as they should be, by the server's log."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._held: list[_Held] = []
        """What has come and whose time is not over."""
        self._watches: dict[str, list[_Watch]] = {}
        self._arrived = 0
        self._begun: int | None = None
        self._all: dict[tuple[str, Pattern], list[Ideal]] = {}

    def found(self) -> dict[tuple[str, Pattern], list[Sequence]]:
        """The sequences for each party and pattern, also of patterns that were cancelled."""
        return {key: [each for ideal in ideals for each in ideal.found] for key, ideals in self._all.items()}

    def follow(self, log: Iterable[Entry]) -> None:
        """What has happened at the server."""
        for entry in log:
            if self._begun not in (None, entry.begun):
                for each in self._held:  # the server has come back; nothing waits longer than the window from then on
                    each.until = min(each.said, entry.begun + self._window)
            self._begun = entry.begun
            for event in entry.events:
                if isinstance(event, Arrived):
                    self._arrive(event.notification, entry.now)
                else:
                    self._want(event)
            self._release(entry.now)

    def _want(self, event: Wanted) -> None:
        watches, pattern = self._watches.setdefault(event.party, []), event.pattern
        if not event.is_over:
            if any(each.ideal.pattern.covers(pattern) for each in watches):
                return
            ideal = Ideal(pattern)
            self._all.setdefault((event.party, pattern), []).append(ideal)
        watches[:] = [each for each in watches if not pattern.covers(each.ideal.pattern)]
        if not event.is_over:
            watches.append(_Watch(self._arrived, ideal))

    def _arrive(self, notification: Notification, now: int) -> None:
        filters = [filter for watches in self._watches.values() for each in watches for filter in each.ideal.pattern]
        if not any(filter.matches(notification) for filter in filters):
            return
        until = max([now + self._window, *(each.until for each in self._held)])
        self._held.append(_Held(self._arrived, until, notification))
        self._arrived += 1
        if not self._window:
            self._release(now)

    def _release(self, now: int) -> None:
        due = [each for each in self._held if each.until <= now]
        self._held = [each for each in self._held if each.until > now]
        waiting = [each for each in (*due, *self._held) if not each.is_gone]
        last = max((place(each.notification) for each in due), default=None)
        for each in sorted(waiting, key=lambda each: place(each.notification)):
            if last is not None and place(each.notification) <= last:
                each.is_gone = True
                for watches in self._watches.values():
                    for watch in watches:
                        if each.number >= watch.since:
                            watch.ideal.feed(each.notification)
