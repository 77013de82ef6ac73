"""How far each pattern has been met, and where its monitor runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from palio.matching.candidates import Index
from palio.matching.preparation import Preparation, Preparations, Relatives, Searching, Steps
from palio.matching.views import Entry
from palio.model import Filter, Notification, Pattern
from palio.node.holdback import Arrival, Order, order_of

_FEW = 16
"""Up to so many patterns are compared one by one; an index would cost more than it spares."""


class Found(NamedTuple):
    """A sequence that matches a pattern of a party."""

    party: str
    pattern: Pattern
    notifications: tuple[Notification, ...]


class Commission(NamedTuple):
    """A neighbour for which a pattern is watched, and the number that it has given to this task."""

    peer: str
    tag: int


class Place(Enum):
    """Where a monitor runs."""

    HERE = "here"
    OFFERED = "offered"
    """Here, until the neighbour that was asked to watch is ready to."""
    AWAY = "away"
    """At a neighbour, which says what it takes."""
    RECALLED = "recalled"
    """At a neighbour, until it says that it has stopped; what comes here waits."""
    EXPECTED = "expected"
    """Still at the neighbour that has asked for it; what comes here waits."""
    OVER = "over"
    """Nowhere any more."""


COLLECTING = (Place.RECALLED, Place.EXPECTED)
"""Where what comes has to wait."""
Step = Filter | Pattern
"""What a monitor waits for: one notification, or a part that another monitor puts together."""


class Watch:
    """How far a pattern has been met, for a party, for a neighbour, or (without a name) as a part of other patterns."""

    __slots__ = (
        "after",
        "ahead",
        "begun",
        "factors",
        "is_catching_up",
        "is_leaving",
        "is_silent",
        "owner",
        "path",
        "pattern",
        "peer",
        "pending",
        "place",
        "position",
        "since",
        "tag",
        "taken",
        "wording",
    )

    def __init__(self, owner: str | Commission, pattern: Pattern, since: int, path: tuple[str, ...] = ()) -> None:
        self.owner = owner
        self.pattern = pattern.canonical()
        self.wording = pattern
        """The pattern in the words that its party has used: those it is told."""
        self.since = since
        """The first arrival that counts: those before it came before the party subscribed."""
        self.path = path
        """The servers that have passed the pattern on, if it comes from a neighbour."""
        self.position = 0
        """How many filters have been met."""
        self.taken: tuple[Notification, ...] = ()
        """By what; a neighbour knows that itself."""
        self.after: Order | None = None
        """The place of what was taken last, in this sequence or the one before."""
        self.begun = since
        """The arrival with which this sequence began."""
        self.factors: tuple[Step, ...] = self.pattern.filters
        self.ahead: tuple[Step, ...] = self.pattern.filters
        """What is still to be met."""
        self.place = Place.HERE
        self.peer = ""
        """The neighbour at which the monitor is, or will be."""
        self.tag = 0
        self.pending: dict[int, Notification] = {}
        """What has come and has to wait, by the numbers of arrivals."""
        self.is_silent = True
        """Whether no neighbour was told of the filters for the sake of this pattern."""
        self.is_leaving = False
        """Whether the neighbour that has asked for it wants it back."""
        self.is_catching_up = False
        """Whether notifications were ever held back for it alone."""

    @property
    def waiting(self) -> Step:
        """What is waited for."""
        return self.ahead[0]

    def accepts(self, arrival: Arrival) -> bool:
        """Whether an arrival that matches what is waited for is after all that was taken."""
        return arrival.number >= self.since and (self.after is None or arrival.order > self.after)

    def accepts_part(self, part: Sequence[Notification], begun: int) -> bool:
        """The same of a part, which counts from its first element on."""
        return begun >= self.since and (self.after is None or order_of(part[0]) > self.after)

    def take(self, notifications: Sequence[Notification], begun: int) -> tuple[Notification, ...] | None:
        """Take what was waited for; the whole sequence, if that was the last of it."""
        if not self.position:
            self.begun = begun
        self.after = order_of(notifications[-1])
        self.position += len(notifications)
        self.ahead = self.ahead[1:]
        taken = (*self.taken, *notifications)
        if self.ahead:
            self.taken = taken if isinstance(self.owner, str) else ()
            return None
        self.position, self.taken, self.ahead = 0, (), self.factors
        return taken

    def regroup(self, factors: tuple[Step, ...]) -> None:
        """From now on wait for other parts. Of a part that is half met the elements are given up."""
        position = 0
        for number, step in enumerate(factors):
            length = len(step) if isinstance(step, Pattern) else 1
            if position + length > self.position:
                self.ahead = factors[number:]
                break
            position += length
        self.factors, self.position, self.taken = factors, position, self.taken[:position]

    def state(self) -> tuple[Any, ...]:
        """What has to be kept of it, beside what is pending; with the wording, unless it is the canonical one."""
        place = self.place, self.peer, self.tag, self.is_silent, self.is_leaving
        kept = self.path, self.since, self.position, self.taken, self.after, self.begun, self.factors, place
        return kept if self.wording is self.pattern else (*kept, self.wording)

    @classmethod
    def restored(cls, owner: str | Commission, pattern: Pattern, state: tuple[Any, ...]) -> Watch:
        """The watch whose state was kept."""
        path, since, position, taken, after, begun, factors, place, *wording = state
        watch = cls(owner, wording[0] if wording else pattern, since, path)
        watch.position, watch.taken, watch.after, watch.begun = position, taken, after, begun
        watch.regroup(tuple([each.canonical() for each in factors]))
        watch.place, watch.peer, watch.tag, watch.is_silent, watch.is_leaving = place
        return watch


class PartyWatches:
    """The patterns of one party, in the order in which they came.

    >>> mine = PartyWatches()
    >>> mine.add(Watch("me", Pattern.parse("x > 1 then x > 2"), 0))
    >>> mine.has_broader(Pattern.parse("x > 1 then x > 3")), mine.narrower(Pattern.parse("x any then x any"))
    (True, [Pattern.parse('x > 1 then x > 2')])
    """

    __slots__ = ("_firsts", "_index", "_preparations", "watches")

    def __init__(self, preparations: Preparations | None = None) -> None:
        self._preparations = preparations or Preparations()
        self.watches: dict[Pattern, Watch] = {}
        self._index: Index[Entry[Filter]] | None = None
        """The first filters of all patterns, where there are many."""
        self._firsts: dict[Filter, tuple[Entry[Filter], dict[Pattern, None]]] = {}

    def add(self, watch: Watch) -> None:
        """There is one more."""
        self.watches[watch.pattern] = watch
        self._preparations.note(self, watch.pattern)
        if self._index is not None:
            self._enter(self._index, watch.pattern)
        elif len(self.watches) > _FEW:
            self._index = Index(Filter)
            for pattern in self.watches:
                self._enter(self._index, pattern)

    def remove(self, pattern: Pattern) -> Watch:
        """One is gone."""
        if self._index is not None:
            first = pattern.filters[0]
            entry, patterns = self._firsts[first]
            del patterns[pattern]
            if not patterns:
                del self._firsts[first]
                self._index.remove(entry)
        return self.watches.pop(pattern)

    def has_broader(self, pattern: Pattern) -> bool:
        """Whether there is one that covers a pattern."""
        if pattern in self.watches:
            return True
        found: Relatives[Pattern] | None = self._preparations.relatives(self, pattern)
        if found is None:
            return any(each.covers(pattern) for each in self._may_cover(pattern))
        return any(each in self.watches and (known or each.covers(pattern)) for each, known in found.may_cover())

    def narrower(self, pattern: Pattern) -> list[Pattern]:
        """Those that a pattern covers."""
        found: Relatives[Pattern] | None = self._preparations.relatives(self, pattern)
        if found is None:
            return [each for each in self._may_be_covered(pattern) if pattern.covers(each)]
        return [
            each for each, known in found.may_be_covered() if each in self.watches and (known or pattern.covers(each))
        ]

    def prepare(self, preparation: Preparation, begins: Sequence[Pattern], ends: Sequence[Pattern]) -> Steps:
        """Make the comparisons ahead that are needed to remove what some patterns cover, and then to add others."""
        family = preparation.family(self, begins)
        for pattern in (*ends, *begins):
            yield from preparation.compare(self, pattern, family, _itself, partial(self._around, pattern, begins))

    def _around(self, pattern: Pattern, begins: Sequence[Pattern]) -> Searching[Pattern]:
        if self._index is None or not pattern.is_satisfiable():
            return [*self.watches, *begins], [*self.watches, *begins]
        first = Entry(pattern.filters[0])
        wide = self._beginning_with((yield from self._index.find(first, wide=True)))
        narrow = self._beginning_with((yield from self._index.find(first, wide=False)))
        return [*wide, *begins], [*narrow, *begins]

    def _may_cover(self, pattern: Pattern) -> list[Pattern]:
        if self._index is None or not pattern.is_satisfiable():
            return list(self.watches)
        return self._beginning_with(self._index.may_cover(Entry(pattern.filters[0])))

    def _may_be_covered(self, pattern: Pattern) -> list[Pattern]:
        if self._index is None or not pattern.is_satisfiable():
            return list(self.watches)
        return self._beginning_with(self._index.may_be_covered(Entry(pattern.filters[0])))

    def _beginning_with(self, firsts: Iterable[Entry[Filter]]) -> list[Pattern]:
        return [each for first in firsts for each in self._firsts[first.element][1]]

    def _enter(self, index: Index[Entry[Filter]], pattern: Pattern) -> None:
        first = pattern.filters[0]
        if first not in self._firsts:
            entry: Entry[Filter] = Entry(first)
            self._firsts[first] = entry, {}
            index.add(entry)
        self._firsts[first][1][pattern] = None


def _itself(pattern: Pattern) -> Pattern:
    return pattern
