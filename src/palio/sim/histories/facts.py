"""What was asked for and what came of it: the facts that the oracle judges by."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from palio.model import Advertisement, Filter, Notification, Pattern, Trace
from palio.model.envelope import NotificationId


class Change(NamedTuple):
    """What a party held from a moment on. Moments number all that happens; at each, one thing does."""

    moment: int
    filters: tuple[Filter, ...]
    advertisements: tuple[Advertisement, ...]
    patterns: tuple[Pattern, ...] = ()

    def is_like(self, other: Change) -> bool:
        """Whether the party held the same."""
        return all(set(mine) == set(theirs) for mine, theirs in zip(self[1:], other[1:], strict=True))

    def taken_apart(self) -> Change:
        """The filters of the patterns, and nothing else."""
        return Change(self.moment, tuple(filter for pattern in self.patterns for filter in pattern), ())


class Publication(NamedTuple):
    """A notification that a server has accepted."""

    id: NotificationId
    moment: int
    server: str
    party: str
    notification: Notification
    deliveries: int
    """How many deliveries there had been in the whole network."""
    trace: Trace | None = None
    """In which span it was published; it comes along, whatever happens."""
    expires: datetime | None = None
    """When it is worth nothing any more."""


class PartyRecord:
    """What one party has asked for, by the words of the law alone."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.filters: tuple[Filter, ...] = ()
        self.advertisements: tuple[Advertisement, ...] = ()
        self.patterns: tuple[Pattern, ...] = ()
        self.changes: list[Change] = [Change(-1, (), ())]
        self.watched: dict[Filter | Advertisement, None] = {}
        """What the party wants to be told the outlook of."""
        self.spread: list[tuple[int, int]] = []
        """When the party was told that a subscription had spread, and when its server had taken that subscription."""

    def subscribe(self, moment: int, filter: Filter | Pattern) -> None:
        """A broader filter replaces narrower ones; what is covered makes no difference. So it is with patterns."""
        if isinstance(filter, Pattern):
            if not any(each.covers(filter) for each in self.patterns):
                self.patterns = (*(each for each in self.patterns if not filter.covers(each)), filter)
        elif not any(each.covers(filter) for each in self.filters):
            self.filters = (*(each for each in self.filters if not filter.covers(each)), filter)
        self._note(moment)

    def unsubscribe(self, moment: int, filter: Filter | Pattern) -> None:
        """Everything that the filter covers is cancelled, and nothing is narrowed. So it is with patterns."""
        if isinstance(filter, Pattern):
            self.patterns = tuple(each for each in self.patterns if not filter.covers(each))
        else:
            self.filters = tuple(each for each in self.filters if not filter.covers(each))
        self._note(moment)

    def advertise(self, moment: int, advertisement: Advertisement) -> None:
        """As for filters."""
        if not any(each.covers(advertisement) for each in self.advertisements):
            left = (each for each in self.advertisements if not advertisement.covers(each))
            self.advertisements = (*left, advertisement)
        self._note(moment)

    def unadvertise(self, moment: int, advertisement: Advertisement) -> None:
        """As for filters."""
        self.advertisements = tuple(each for each in self.advertisements if not advertisement.covers(each))
        self._note(moment)

    def forget(self, moment: int) -> None:
        """The server has died and lost everything, or the party has gone."""
        self.filters, self.advertisements, self.patterns = (), (), ()
        self.watched.clear()
        self._note(moment)

    def reset(self, known: Change) -> None:
        """The server has come back and still knows this."""
        if not known.is_like(Change(known.moment, self.filters, self.advertisements, self.patterns)):
            _, self.filters, self.advertisements, self.patterns = known
            self._note(known.moment)

    def _note(self, moment: int) -> None:
        self.changes.append(Change(moment, self.filters, self.advertisements, self.patterns))

    def taken_apart(self) -> PartyRecord:
        """The same party, had it asked for the filters of its patterns alone."""
        record = PartyRecord(self.server)
        record.changes = [change.taken_apart() for change in self.changes]
        record.spread = self.spread
        return record

    def at(self, moment: int) -> Change:
        """What the party held after a moment."""
        return next(change for change in reversed(self.changes) if change.moment <= moment)

    def between(self, begin: int, end: int) -> list[Change]:
        """What changed after the one moment and not after the other."""
        return [change for change in self.changes if begin < change.moment <= end]


class Epoch:
    """The time from one rest to the next."""

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.end = begin
        self.publications: list[Publication] = []
        self.is_disturbed = False
        """Whether links or servers came or went."""
        self.had_cycle = False
        """Whether there were two ways between servers for a moment, until a link was cut."""
        self.is_busy = False
        """Whether parties changed what they hold."""
        self.died: set[str] = set()
        """Servers that died and forgot everything."""
        self.crashed: set[str] = set()
        """Servers that died and kept what was on their disks."""
        self.first_delivery = 0
        self.first_hop = 0
