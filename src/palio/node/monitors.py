"""The monitors of a server: which sequences of notifications match the patterns of its parties.

A pattern is taken apart here: the router holds its filters, and tells which of them a notification matches. Filters
and matching are shared by all patterns; what each party has got of each of its patterns is kept apart, because no
sequence may begin before its party has subscribed. A notification costs work only for the patterns that wait for it.

Where advertisements spread, a neighbour may watch instead (:mod:`palio.node.delegation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from palio.matching.preparation import Preparation, Steps
from palio.model import Filter, Notification, Pattern
from palio.node.holdback import Arrival, HoldBack, order_of
from palio.node.journal import Journal
from palio.node.watches import COLLECTING, Commission, Found, PartyWatches, Place, Step, Watch
from palio.routing.messages import Element
from palio.routing.router import MONITORS, Router

_RUNNING = (Place.HERE, Place.OFFERED)


class Monitors:
    """All patterns of a server's parties, and those that neighbours have asked it to watch.

    >>> from palio.routing.architectures import ARCHITECTURES
    >>> monitors = Monitors(ARCHITECTURES["ce"]())
    >>> monitors.subscribe("me", Pattern.parse("x = 1 then x > 1"))
    >>> monitors.patterns("me")
    (Pattern.parse('x = 1 then x > 1'),)
    """

    def __init__(
        self,
        router: Router,
        window: int = 0,
        most: int = 1,
        journal: Journal | None = None,
        *,
        may_take: Callable[[str, Notification], bool] = lambda _peer, _notification: True,
    ) -> None:
        self._router = router
        self._may_take = may_take
        """Whether a neighbour can be told of a notification that was taken for it."""
        self._window = window
        self._most = most
        """How many notifications wait at most, for their time or for a neighbour's answer."""
        self._held = HoldBack(window, most)
        self._journal = journal
        self._parties: dict[str, PartyWatches] = {}
        self._parts: dict[Pattern, Watch] = {}
        """The monitors of parts of patterns."""
        self._users: dict[Pattern, int] = {}
        """How many patterns need each part."""
        self._waiting: dict[Step, dict[Watch, None]] = {}
        """The watches by what they wait for."""
        self._collecting: dict[Filter, dict[Watch, None]] = {}
        """The watches for which all that comes waits."""
        self._arrivals = 0
        self._found: list[Found] = []
        self._elements: dict[str, list[tuple[Notification, list[int]]]] = {}
        """What was taken for each neighbour, in order, with the numbers of its tasks."""
        self.moved: dict[Watch, None] = {}
        """The watches of which it has to be considered where they should be; those that are over as well."""

    # -- patterns ------------------------------------------------------------------------------------------------------

    def patterns(self, party: str) -> tuple[Pattern, ...]:
        """The patterns of a party, of which none covers another, in its own words."""
        known = self._parties.get(party)
        return () if known is None else tuple([watch.wording for watch in known.watches.values()])

    def count(self, party: str) -> int:
        """How many patterns a party has."""
        known = self._parties.get(party)
        return 0 if known is None else len(known.watches)

    def count_covered(self, party: str, pattern: Pattern) -> int:
        """How many patterns of a party a pattern covers."""
        known = self._parties.get(party)
        return 0 if known is None else len(known.narrower(pattern))

    def growth(self, party: str, pattern: Pattern) -> int:
        """How many more patterns a party would have with one that it asks for."""
        known = self._parties.get(party)
        if known is None:
            return 1
        return 0 if known.has_broader(pattern) else 1 - len(known.narrower(pattern))

    def subscribe(self, party: str, pattern: Pattern) -> None:
        """A party wants the sequences that match a pattern; the patterns that it covers are no longer needed.

        What is covered by a pattern that the party has makes no difference.
        """
        known = self._parties.get(party) or PartyWatches(self._router.preparations)
        if known.has_broader(pattern):
            return
        narrower = known.narrower(pattern)
        self._hold(Watch(party, pattern, self._arrivals))
        for each in narrower:
            self._drop(party, each)

    def unsubscribe(self, party: str, pattern: Pattern) -> None:
        """Cancel all patterns of a party that are covered, position by position."""
        known = self._parties.get(party)
        for each in known.narrower(pattern) if known is not None else ():
            self._drop(party, each)

    def prepare(
        self, preparation: Preparation, party: str, begins: Sequence[Pattern], ends: Sequence[Pattern] = ()
    ) -> Steps:
        """Make the comparisons ahead that are needed when a party unsubscribes from some patterns, and subscribes then.

        Each step says what it has cost. Nothing else changes.
        """
        known = self._parties.get(party)
        if known is not None:
            yield from known.prepare(preparation, begins, ends)
        filters = dict.fromkeys(filter for each in begins for filter in each.canonical().filters)
        yield from self._router.prepare_watched(preparation, list(filters))

    def _hold(self, watch: Watch) -> None:
        assert isinstance(watch.owner, str)
        if watch.owner not in self._parties:
            self._parties[watch.owner] = PartyWatches(self._router.preparations)
        self._parties[watch.owner].add(watch)
        self.begin(watch)

    def _drop(self, party: str, pattern: Pattern) -> None:
        watch = self._parties[party].remove(pattern)
        if not self._parties[party].watches:
            del self._parties[party]
        self.end(watch)

    # -- watches -------------------------------------------------------------------------------------------------------

    def begin(self, watch: Watch) -> None:
        """There is one more, which runs where it says."""
        self._enter(watch)
        self.keep(watch)

    def end(self, watch: Watch) -> None:
        """One is over."""
        self._leave(watch)
        self.take_pending(watch)
        self._discard_held(watch)
        watch.place = Place.OVER
        if self._journal is not None:
            self._journal.delete(_key(watch))
        self.moved[watch] = None

    def _discard_held(self, watch: Watch) -> None:
        """What is held back for a watch alone matters no longer; nor may it count for a later one of the same key."""
        if watch.is_catching_up:
            for arrival in self._held.discard(watch):
                if self._journal is not None:
                    self._journal.delete(("held back", arrival.number))

    def move(self, watch: Watch, place: Place, factors: tuple[Step, ...] | None = None) -> None:
        """From now on a watch runs elsewhere, or waits for other parts; what it needs first, then what it needs not."""
        before, needed = watch.place, watch.factors
        self._leave(watch, keeps=True)
        watch.place = place
        watch.regroup(watch.pattern.filters if factors is None else factors)
        if place in COLLECTING and before not in COLLECTING:
            watch.since = self._arrivals
        self._enter(watch)
        if before is not Place.AWAY:
            self._need_not(needed)
        self.keep(watch)

    def _enter(self, watch: Watch) -> None:
        self.moved[watch] = None
        if watch.place is Place.AWAY:
            return
        self._need(watch.factors)
        if watch.place in COLLECTING:
            for filter in watch.pattern:
                self._collecting.setdefault(filter, {})[watch] = None
        else:
            self._waiting.setdefault(watch.waiting, {})[watch] = None

    def _leave(self, watch: Watch, *, keeps: bool = False) -> None:
        if watch.place is Place.AWAY:
            return
        if watch.place in COLLECTING:
            for filter in dict.fromkeys(watch.pattern):
                _discard(self._collecting, filter, watch)
        else:
            _discard(self._waiting, watch.waiting, watch)
        if not keeps:
            self._need_not(watch.factors)

    def _need(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, Filter):
                self._router.watch(step)
                continue
            self._users[step] = self._users.get(step, 0) + 1
            if step not in self._parts:
                part = self._parts[step] = Watch(MONITORS, step, self._arrivals)
                self.begin(part)

    def _need_not(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, Filter):
                self._router.unwatch(step)
                continue
            self._users[step] -= 1
            if not self._users[step]:
                del self._users[step]
                self.end(self._parts.pop(step))

    # -- notifications -------------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> int | None:
        """When :meth:`release` has something to do."""
        return self._held.deadline

    @property
    def arrivals(self) -> int:
        """The number of the next arrival."""
        return self._arrivals

    def arrive(self, notification: Notification, met: tuple[Filter, ...], now: int) -> list[Found]:
        """A notification has come that matches filters of patterns; the sequences that are complete."""
        self._arrive(Arrival(order_of(notification), self._arrivals, notification, met), now)
        return self.found()

    def release(self, now: int) -> list[Found]:
        """The time of what was held back has come; the sequences that are complete."""
        self._let_go(self._held.take(now))
        return self.found()

    def found(self) -> list[Found]:
        """The sequences that are complete and were not asked for yet."""
        found, self._found = self._found, []
        return found

    def elements(self) -> list[tuple[str, Element]]:
        """What neighbours have to be told of what was taken for them."""
        if not self._elements:
            return []
        elements, self._elements = self._elements, {}
        return [(peer, Element(each, tuple(tags))) for peer, taken in elements.items() for each, tags in taken]

    def taken_of(self, notification: Notification, peers: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """The tasks of neighbours for which a notification was taken that these get anyway; that counts as told."""
        found: dict[str, tuple[int, ...]] = {}
        for peer in peers:
            elements = self._elements.get(peer, ())
            if len(elements) == 1 and elements[0][0] is notification:
                found[peer] = tuple(self._elements.pop(peer)[0][1])
        return found

    @property
    def has_elements(self) -> bool:
        """Whether something was taken for neighbours that they were not told."""
        return bool(self._elements)

    def catch_up(self, watch: Watch, held: Sequence[Notification], now: int) -> None:
        """What has come for a watch elsewhere, or had to wait, comes now."""
        for each in sorted([*self.take_pending(watch), *held], key=order_of):
            self._arrive(Arrival(order_of(each), self._arrivals, each, (), watch), now)

    def held_for(self, watch: Watch) -> tuple[Notification, ...]:
        """What is held back and matters to a watch, in order."""
        return tuple(
            arrival.notification
            for arrival in self._held
            if arrival.only is watch
            or (
                arrival.only is None
                and arrival.number >= watch.since
                and any(filter in watch.pattern.filters for filter in arrival.met)
            )
        )

    def take(self, watch: Watch, notifications: Sequence[Notification], begun: int) -> None:
        """A watch takes what it has waited for."""
        complete = watch.take(notifications, begun)
        self.keep(watch)
        if isinstance(watch.owner, Commission):
            elements = self._elements.setdefault(watch.owner.peer, [])
            for each in notifications:
                if not elements or order_of(elements[-1][0]) != order_of(each):
                    elements.append((each, []))
                elements[-1][1].append(watch.owner.tag)
        elif complete is not None and watch.owner != MONITORS:
            self._found.append(Found(watch.owner, watch.wording, complete))
        elif complete is not None:
            for user in tuple(self._waiting.get(watch.pattern, ())):
                if user.accepts_part(complete, watch.begun):
                    self._take_here(user, complete, watch.begun)

    def next_number(self) -> int:
        """The number of an arrival that comes now."""
        self._arrivals += 1
        return self._arrivals - 1

    def _arrive(self, arrival: Arrival, now: int) -> None:
        self._arrivals += 1
        if not self._window and not self._held:
            self._offer(arrival)
            return
        if arrival.only is not None:
            arrival.only.is_catching_up = True
        until = self._held.put(arrival, now)
        if self._journal is not None:
            only = None if arrival.only is None else _key(arrival.only)
            self._journal.put(("held back", arrival.number), (until, arrival.notification, only))
        self._let_go(self._held.overflow())

    def _let_go(self, arrivals: Iterable[Arrival]) -> None:
        for arrival in arrivals:
            if self._journal is not None:
                self._journal.delete(("held back", arrival.number))
            self._offer(arrival)

    def _offer(self, arrival: Arrival) -> None:
        if arrival.only is not None:
            self._offer_only(arrival.only, arrival)
            return
        for filter in arrival.met:
            for watch in tuple(self._waiting.get(filter, ())):
                if watch.accepts(arrival) and self._is_for(watch, arrival.notification):
                    self._take_here(watch, (arrival.notification,), arrival.number)
        if self._collecting:
            waiting = {watch: None for filter in arrival.met for watch in self._collecting.get(filter, ())}
            for watch in waiting:
                if arrival.number >= watch.since:
                    self._collect(watch, arrival)

    def _offer_only(self, watch: Watch, arrival: Arrival) -> None:
        if watch.place in COLLECTING:
            self._collect(watch, arrival)
        elif watch.place in _RUNNING:
            step = watch.waiting
            is_met = isinstance(step, Filter) and step.matches(arrival.notification)
            is_late = watch.after is not None and arrival.order <= watch.after
            if is_met and not is_late and self._is_for(watch, arrival.notification):
                self._take_here(watch, (arrival.notification,), arrival.number)

    def _is_for(self, watch: Watch, notification: Notification) -> bool:
        """Whether the owner of a watch can get a notification; it is not taken for one that never would."""
        return not isinstance(watch.owner, Commission) or self._may_take(watch.owner.peer, notification)

    def _collect(self, watch: Watch, arrival: Arrival) -> None:
        """Let an arrival wait; if too many do, because a neighbour does not answer, the first is given up."""
        watch.pending[arrival.number] = arrival.notification
        if self._journal is not None:
            self._journal.put(("pending", arrival.number, _key(watch)), arrival.notification)
        if len(watch.pending) > self._most:
            self._uncollect(watch, next(iter(watch.pending)))

    def take_pending(self, watch: Watch) -> list[Notification]:
        """What has come for a watch and had to wait; it waits no longer."""
        return [self._uncollect(watch, number) for number in tuple(watch.pending)]

    def _uncollect(self, watch: Watch, number: int) -> Notification:
        if self._journal is not None:
            self._journal.delete(("pending", number, _key(watch)))
        return watch.pending.pop(number)

    def _take_here(self, watch: Watch, notifications: Sequence[Notification], begun: int) -> None:
        _discard(self._waiting, watch.waiting, watch)
        self.take(watch, notifications, begun)
        self._waiting.setdefault(watch.waiting, {})[watch] = None

    # -- what is kept --------------------------------------------------------------------------------------------------

    def keep(self, watch: Watch) -> None:
        """A watch has changed."""
        if self._journal is not None:
            self._journal.put(_key(watch), watch.state())

    def restore(self, known: Mapping[tuple[Any, ...], Any], now: int) -> list[Watch]:
        """Take back what was kept; all watches.

        Though a clock may have been set back, nothing waits longer than the window.
        """
        watches = {key: Watch.restored(key[1], key[2], state) for key, state in known.items() if key[0] == "pattern"}
        for watch in watches.values():  # parts first, or those who need them would begin new ones
            if watch.owner == MONITORS:
                self._parts[watch.pattern] = watch
        for watch in watches.values():
            self._arrivals = max(self._arrivals, watch.since)
            if isinstance(watch.owner, str) and watch.owner != MONITORS:
                self._hold(watch)
            else:
                self.begin(watch)
        for (_, number, key), notification in _of_kind(known, "pending"):
            watches[key].pending[number] = notification
            self._arrivals = max(self._arrivals, number + 1)
        for (_, number), (until, notification, only) in _of_kind(known, "held back"):
            self._arrivals = max(self._arrivals, number + 1)
            met = self._router.met(notification) if only is None else ()
            arrival = Arrival(order_of(notification), number, notification, met, watches.get(only))
            if arrival.only is not None:
                arrival.only.is_catching_up = True
            if only is None or only in watches:
                self._held.restore(arrival, min(until, now + self._window))
        return list(watches.values())


def _discard(watches: dict[Any, dict[Watch, None]], key: Step, watch: Watch) -> None:
    found = watches[key]
    del found[watch]
    if not found:
        del watches[key]


def _key(watch: Watch) -> tuple[Any, ...]:
    return "pattern", watch.owner, watch.pattern


def _of_kind(known: Mapping[tuple[Any, ...], Any], kind: str) -> list[tuple[tuple[Any, ...], Any]]:
    """The records of a kind, by number of arrival."""
    return sorted([item for item in known.items() if item[0][0] == kind], key=lambda item: item[0][1])
