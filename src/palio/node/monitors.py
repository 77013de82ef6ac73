"""The monitors of a server: which sequences of notifications match the patterns of its parties.

A pattern is taken apart here: the router holds its filters, and tells which of them a notification matches. Filters
and matching are shared by all patterns; what each party has got of each of its patterns is kept apart, because no
sequence may begin before its party has subscribed. A notification costs work only for the patterns that wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from palio.model import Filter, Notification, Pattern
from palio.node.holdback import Arrival, HoldBack, order_of
from palio.node.journal import Journal
from palio.node.watches import Found, PartyWatches, Watch
from palio.routing.router import Router


class Monitors:
    """All patterns of a server's parties.

    >>> from palio.routing.architectures import ARCHITECTURES
    >>> monitors = Monitors(ARCHITECTURES["ce"]())
    >>> monitors.subscribe("me", Pattern.parse("x = 1 then x > 1"))
    >>> monitors.patterns("me")
    (Pattern.parse('x = 1 then x > 1'),)
    """

    def __init__(self, router: Router, window: int = 0, most: int = 1, journal: Journal | None = None) -> None:
        self._router = router
        self._window = window
        self._held = HoldBack(window, most)
        self._journal = journal
        self._parties: dict[str, PartyWatches] = {}
        self._waiting: dict[Filter, dict[Watch, None]] = {}
        """The watches by what they wait for."""
        self._arrivals = 0

    # -- patterns ------------------------------------------------------------------------------------------------------

    def patterns(self, party: str) -> tuple[Pattern, ...]:
        """The patterns of a party, of which none covers another."""
        known = self._parties.get(party)
        return () if known is None else tuple(known.watches)

    def count(self, party: str) -> int:
        """How many patterns a party has."""
        known = self._parties.get(party)
        return 0 if known is None else len(known.watches)

    def subscribe(self, party: str, pattern: Pattern) -> None:
        """A party wants the sequences that match a pattern; the patterns that it covers are no longer needed.

        What is covered by a pattern that the party has makes no difference.
        """
        known = self._parties.get(party) or PartyWatches()
        if known.has_broader(pattern):
            return
        narrower = known.narrower(pattern)
        watch = Watch(party, pattern, self._arrivals)
        self._begin(watch)
        self._keep(watch)
        for each in narrower:
            self._end(party, each)

    def unsubscribe(self, party: str, pattern: Pattern) -> None:
        """Cancel all patterns of a party that are covered, position by position."""
        known = self._parties.get(party)
        for each in known.narrower(pattern) if known is not None else ():
            self._end(party, each)

    def _begin(self, watch: Watch) -> None:
        if watch.party not in self._parties:
            self._parties[watch.party] = PartyWatches()
        self._parties[watch.party].add(watch)
        for filter in watch.pattern:
            self._router.watch(filter)
        self._waiting.setdefault(watch.waiting, {})[watch] = None

    def _end(self, party: str, pattern: Pattern) -> None:
        watch = self._parties[party].remove(pattern)
        if not self._parties[party].watches:
            del self._parties[party]
        self._stop_waiting(watch)
        for filter in pattern:
            self._router.unwatch(filter)
        if self._journal is not None:
            self._journal.delete(("pattern", party, pattern))

    # -- notifications -------------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> int | None:
        """When :meth:`release` has something to do."""
        return self._held.deadline

    def arrive(self, notification: Notification, met: tuple[Filter, ...], now: int) -> list[Found]:
        """A notification has come that matches filters of patterns; the sequences that are complete."""
        arrival = Arrival(order_of(notification), self._arrivals, notification, met)
        self._arrivals += 1
        if not self._window and not self._held:
            return self._offer(arrival)
        until = self._held.put(arrival, now)
        if self._journal is not None:
            self._journal.put(("held back", arrival.number), (until, notification))
        return self._let_go(self._held.overflow())

    def release(self, now: int) -> list[Found]:
        """The time of what was held back has come; the sequences that are complete."""
        return self._let_go(self._held.take(now))

    def _let_go(self, arrivals: Iterable[Arrival]) -> list[Found]:
        found: list[Found] = []
        for arrival in arrivals:
            if self._journal is not None:
                self._journal.delete(("held back", arrival.number))
            found += self._offer(arrival)
        return found

    def _offer(self, arrival: Arrival) -> list[Found]:
        found = []
        for filter in arrival.met:
            for watch in tuple(self._waiting.get(filter, ())):
                if watch.accepts(arrival):
                    self._stop_waiting(watch)
                    complete = watch.take(arrival)
                    self._waiting.setdefault(watch.waiting, {})[watch] = None
                    self._keep(watch)
                    if complete is not None:
                        found.append(complete)
        return found

    def _stop_waiting(self, watch: Watch) -> None:
        waiting = self._waiting[watch.waiting]
        del waiting[watch]
        if not waiting:
            del self._waiting[watch.waiting]

    # -- what is kept --------------------------------------------------------------------------------------------------

    def _keep(self, watch: Watch) -> None:
        if self._journal is not None:
            state = watch.since, watch.after, watch.taken
            self._journal.put(("pattern", watch.party, watch.pattern), state)

    def restore(self, known: Mapping[tuple[Any, ...], Any], now: int) -> None:
        """Take back what was kept. Though a clock may have been set back, nothing waits longer than the window."""
        for key, value in known.items():
            if key[0] == "pattern":
                watch = Watch(key[1], key[2], value[0])
                watch.after, watch.taken = value[1:]
                self._begin(watch)
                self._arrivals = max(self._arrivals, watch.since)
        for number, (until, notification) in sorted(_held_back(known), key=lambda item: item[0]):
            self._arrivals = max(self._arrivals, number + 1)
            arrival = Arrival(order_of(notification), number, notification, self._router.met(notification))
            self._held.restore(arrival, min(until, now + self._window))


def _held_back(known: Mapping[tuple[Any, ...], Any]) -> Iterable[tuple[int, tuple[int, Notification]]]:
    return [(key[1], value) for key, value in known.items() if key[0] == "held back"]
