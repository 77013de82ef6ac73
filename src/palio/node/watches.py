"""How far each pattern of a party has been met."""

from __future__ import annotations

from typing import NamedTuple

from palio.matching.covering import CoveringOrder
from palio.model import Filter, Notification, Pattern
from palio.node.holdback import Arrival, Order

_FEW = 16
"""Up to so many patterns are compared one by one; an index would cost more than it spares."""


class Found(NamedTuple):
    """A sequence that matches a pattern of a party."""

    party: str
    pattern: Pattern
    notifications: tuple[Notification, ...]


class Watch:
    """How far a pattern of a party has been met."""

    __slots__ = ("after", "party", "pattern", "since", "taken")

    def __init__(self, party: str, pattern: Pattern, since: int) -> None:
        self.party = party
        self.pattern = pattern
        self.since = since
        """The first arrival that counts: those before it came before the party subscribed."""
        self.taken: tuple[Notification, ...] = ()
        self.after: Order | None = None
        """The place of what was taken last, in this sequence or the one before."""

    @property
    def waiting(self) -> Filter:
        """What is waited for."""
        return self.pattern.filters[len(self.taken)]

    def accepts(self, arrival: Arrival) -> bool:
        """Whether an arrival that matches what is waited for is after all that was taken."""
        return arrival.number >= self.since and (self.after is None or arrival.order > self.after)

    def take(self, arrival: Arrival) -> Found | None:
        """Take an arrival; what it completes."""
        self.after = arrival.order
        taken = (*self.taken, arrival.notification)
        if len(taken) < len(self.pattern):
            self.taken = taken
            return None
        self.taken = ()
        return Found(self.party, self.pattern, taken)


class PartyWatches:
    """The patterns of one party, in the order in which they came.

    >>> mine = PartyWatches()
    >>> mine.add(Watch("me", Pattern.parse("x > 1 then x > 2"), 0))
    >>> mine.has_broader(Pattern.parse("x > 1 then x > 3")), mine.narrower(Pattern.parse("x any then x any"))
    (True, [Pattern.parse('x > 1 then x > 2')])
    """

    __slots__ = ("_firsts", "_order", "watches")

    def __init__(self) -> None:
        self.watches: dict[Pattern, Watch] = {}
        self._order: CoveringOrder[Filter] | None = None
        """The first filters of all patterns, where there are many."""
        self._firsts: dict[Filter, dict[Pattern, None]] = {}

    def add(self, watch: Watch) -> None:
        """There is one more."""
        self.watches[watch.pattern] = watch
        if self._order is not None:
            self._index(self._order, watch.pattern)
        elif len(self.watches) > _FEW:
            self._order = CoveringOrder(Filter)
            for pattern in self.watches:
                self._index(self._order, pattern)

    def remove(self, pattern: Pattern) -> Watch:
        """One is gone."""
        if self._order is not None:
            first = pattern.filters[0]
            del self._firsts[first][pattern]
            if not self._firsts[first]:
                del self._firsts[first]
                self._order.remove(first)
        return self.watches.pop(pattern)

    def has_broader(self, pattern: Pattern) -> bool:
        """Whether there is one that covers a pattern."""
        if pattern in self.watches:
            return True
        if self._order is None:
            return any(each.covers(pattern) for each in self.watches)
        firsts = self._order.covering(pattern.filters[0])
        return any(each.covers(pattern) for first in firsts for each in self._firsts[first])

    def narrower(self, pattern: Pattern) -> list[Pattern]:
        """Those that a pattern covers."""
        if self._order is None:
            return [each for each in self.watches if pattern.covers(each)]
        firsts = self._order.covered_by(pattern.filters[0])
        return [each for first in firsts for each in self._firsts[first] if pattern.covers(each)]

    def _index(self, order: CoveringOrder[Filter], pattern: Pattern) -> None:
        first = pattern.filters[0]
        if first not in self._firsts:
            self._firsts[first] = {}
            order.insert(first)
        self._firsts[first][pattern] = None
