"""Whether anybody wants what a publisher offers, or offers what a subscriber wants: told at once and on each change.

Who asks relies on one *witness*, a filter (or an advertisement) of the table that answers the question with yes. So a
new filter concerns only those that have none, and one that is gone only those that rely on it. Both are looked up by
names, and by single strings.

Thousands of questions and filters need many comparisons, so these are made in steps. The search for a new question is
made ahead of it. Elements that come or go wait in a queue, and so do questions whose witness is gone. While a question
waits its party keeps the last answer; the next one is sent when the search has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Generic, NamedTuple, TypeVar

from palio.errors import CallerError
from palio.matching.preparation import Preparation, Steps, cost_of, cost_of_listing
from palio.model import Advertisement, Filter
from palio.model.sets.cones import is_finite, points
from palio.model.sets.valueset import ValueSet
from palio.routing.router import Router
from palio.routing.table import Table

Subject = Filter | Advertisement
S = TypeVar("S", bound=Subject)
T = TypeVar("T", bound=Subject)

_Shelves = dict[str | None, dict[Any, None]]
"""Elements by a single string that they allow; ``None`` for those that allow anything else."""


class Prospect(NamedTuple):
    """What a party is told about what it asked for."""

    party: str
    subject: Subject
    is_good: bool
    """Whether there is somebody."""


class Finding(NamedTuple):
    """The result of a search that was made ahead of a question."""

    witness: Any
    """``None`` if there is none."""
    learned: int
    """The number of the last element that was compared, if none is a witness."""


class NotKnownHereError(CallerError):
    """A question that servers of this architecture cannot answer."""


def _strings(allowed: ValueSet) -> tuple[str, ...] | None:
    """The strings that are allowed, if they are few and nothing else is."""
    strings = allowed.string
    is_plain = not allowed.absent and not any(allowed.orders) and not strings.shapes and is_finite(strings.order)
    return tuple(points(strings.order)) if is_plain else None


class _Needs:
    """Filters, each under one of the names that it requires."""

    def __init__(self) -> None:
        self._shelves: dict[str | None, _Shelves] = {}
        self._places: dict[Filter, tuple[str | None, str | None]] = {}

    def __contains__(self, filter: object) -> bool:
        return filter in self._places

    def add(self, filter: Filter) -> None:
        place = self._places[filter] = self._place(filter)
        self._shelves.setdefault(place[0], {}).setdefault(place[1], {})[filter] = None

    def remove(self, filter: Filter) -> None:
        name, text = self._places.pop(filter)
        del self._shelves[name][text][filter]
        if not self._shelves[name][text]:
            del self._shelves[name][text]

    @staticmethod
    def _place(filter: Filter) -> tuple[str | None, str | None]:
        required = {name: _strings(allowed) for name, allowed in filter.value_sets().items() if not allowed.absent}
        single = next((name for name, texts in required.items() if texts is not None and len(texts) == 1), None)
        if single is not None:
            return single, (required[single] or (None,))[0]
        return next(iter(required), None), None

    def candidates(self, offer: Advertisement) -> Iterator[Filter]:
        """All filters that the advertisement may be relevant to."""
        yield from self._shelves.get(None, {}).get(None, ())
        for name, allowed in offer.value_sets().items():
            yield from _chosen(self._shelves.get(name, {}), _strings(allowed))


class _Offers:
    """Advertisements, each under all of its names."""

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelves] = {}
        self._all: dict[Advertisement, None] = {}

    def __contains__(self, offer: object) -> bool:
        return offer in self._all

    def add(self, offer: Advertisement) -> None:
        self._all[offer] = None
        for name, text in self._places(offer):
            self._shelves.setdefault(name, {}).setdefault(text, {})[offer] = None

    def remove(self, offer: Advertisement) -> None:
        del self._all[offer]
        for name, text in self._places(offer):
            del self._shelves[name][text][offer]
            if not self._shelves[name][text]:
                del self._shelves[name][text]

    @staticmethod
    def _places(offer: Advertisement) -> Iterator[tuple[str, str | None]]:
        for name, allowed in offer.value_sets().items():
            for text in _strings(allowed) or (None,):
                yield name, text

    def candidates(self, filter: Filter) -> Iterator[Advertisement]:
        """All advertisements that may be relevant to the filter."""
        required = {name: _strings(allowed) for name, allowed in filter.value_sets().items() if not allowed.absent}
        if not required:
            return iter(self._all)
        name = next((name for name, texts in required.items() if texts is not None), next(iter(required)))
        return iter(dict.fromkeys(_chosen(self._shelves.get(name, {}), required[name])))


def _chosen(shelves: _Shelves, texts: tuple[str, ...] | None) -> Iterator[Any]:
    chosen = list(shelves) if texts is None else [None, *texts]
    for text in chosen:
        yield from shelves.get(text, ())


class _Side(Generic[S, T]):
    """The questions about one table, and the elements of the table that were compared with them.

    Each question has a witness, or is hopeless (no element that was learned answers it with yes), or needs a search.
    """

    def __init__(
        self,
        table: Table[Any],
        kind: type[S],
        is_relevant: Callable[[S, T], bool],
        shelves: tuple[type[Any], type[Any]],
    ) -> None:
        """Make a side for questions of a kind. ``shelves`` index the questions and the elements."""
        self._table, self._kind, self._is_relevant, self._shelves = table, kind, is_relevant, shelves
        self._parties: dict[S, dict[str, None]] = {}
        self._witness: dict[S, T] = {}
        self._relying: dict[T, dict[S, None]] = {}
        self._hopeless, self._elements = (each() for each in shelves)
        """The subjects without a witness, and the elements that were learned."""
        self._known: dict[T, int] = {}
        """The elements that were learned, in this order, each with the number that it got then."""
        self._learned = 0
        """The last of these numbers; it never goes back."""
        self._waiting: dict[S | T, None] = {}
        """Elements that have come or gone, and subjects that need a search, in their order."""
        self._open: dict[S, None] = {}
        """The subjects whose answers are not certain, because they or something before them waits."""
        self._answers: dict[S, bool] = {}
        """The last answer of each subject that was certain."""
        self._moved: dict[S, bool | None] = {}
        """The subjects whose answers may have changed since :meth:`changed`, with the answers before."""
        self._steps: Steps | None = None
        """The work on what waited first, if it has begun."""

    def parties(self, subject: S) -> Mapping[str, None]:
        return self._parties.get(subject, {})

    def prepare(self, preparation: Preparation, subject: S) -> Steps:
        """Search for a witness ahead of a question; each step says what it has cost."""
        if subject in self._parties:
            return
        learned = self._learned
        candidates = list(self._elements.candidates(subject) if self._parties else self._table)
        while True:
            yield cost_of_listing(candidates)
            for element in candidates:
                if element in self._table and self._is_relevant(subject, element):
                    preparation.findings[self, subject] = Finding(element, learned)
                    return
                yield self._cost(subject, element)
            if learned == self._learned:
                break
            candidates = self._learned_since(learned)
            learned = self._learned
        preparation.findings[self, subject] = Finding(None, learned)

    def add(self, subject: S, party: str, finding: Finding | None) -> None:
        """Note a question; without a finding the search for a witness is made later."""
        is_first = not self._parties
        if is_first:
            self._table.news = {}
            self._waiting = dict.fromkeys(self._table)
        if subject not in self._parties:
            self._parties[subject] = {}
            if finding is not None and finding.witness in self._table:
                self._rely(subject, finding.witness)
            else:
                is_hopeless = finding is not None and finding.witness is None and finding.learned == self._learned
                self._want(subject)
                if is_hopeless and not is_first:
                    self._hopeless.add(subject)
        self._parties[subject][party] = None

    def remove(self, subject: S, party: str) -> None:
        del self._parties[subject][party]
        if self._parties[subject]:
            return
        for noted in (self._parties, self._waiting, self._open, self._answers, self._moved):
            noted.pop(subject, None)
        if subject in self._hopeless:
            self._hopeless.remove(subject)
        witness = self._witness.pop(subject, None)
        if witness is not None:
            self._unrely(subject, witness)
        if not self._parties:
            self._table.news = self._steps = None
            self._hopeless, self._elements = (each() for each in self._shelves)
            self._known, self._waiting = {}, {}

    def is_certain(self, subject: S) -> bool:
        """Whether the answer can be told."""
        return subject not in self._open

    def is_good(self, subject: S) -> bool:
        return self._answers[subject]

    def changed(self) -> list[S]:
        """The subjects for which the answer is certain, and another one since this was last asked."""
        certain = [subject for subject in self._moved if subject not in self._open]
        return [subject for subject in certain if self._moved.pop(subject) is not self._answers[subject]]

    # -- work in steps -------------------------------------------------------------------------------------------------

    def is_behind(self) -> bool:
        """Whether there is work."""
        news = self._table.news
        if news:
            self._waiting.update(dict.fromkeys(news))
            self._table.news = {}
        return bool(self._waiting) or self._steps is not None

    def work(self) -> Steps:
        """Compare what waits, in its order; each step says what it has cost."""
        while self.is_behind():
            if self._steps is None:
                first = next(iter(self._waiting))
                del self._waiting[first]
                self._steps = self._search(first) if isinstance(first, self._kind) else self._look_at(first)  # type: ignore[arg-type]
            cost = next(self._steps, None)
            if cost is None:
                self._steps = None
            else:
                yield cost

    def _look_at(self, element: T) -> Steps:
        """An element has come or gone, or both: look for those that it concerns."""
        if element not in self._table:
            if self._known.pop(element, None) is not None:
                self._elements.remove(element)
            relying = self._relying.pop(element, {})
            for subject in relying:
                del self._witness[subject]
                self._want(subject)
            yield cost_of_listing(relying)
            return
        if self._known.pop(element, None) is None:
            self._elements.add(element)
        self._learned += 1
        self._known[element] = self._learned
        found = list(self._hopeless.candidates(element))
        yield cost_of(element) + cost_of_listing(found)
        for subject in found:
            if element not in self._table:
                return  # this is noted, and it is looked at once more
            if subject in self._hopeless and self._is_relevant(subject, element):
                self._hopeless.remove(subject)
                self._rely(subject, element)
            yield self._cost(subject, element)

    def _search(self, subject: S) -> Steps:
        """Look for a witness; no element is learned meanwhile."""
        if not self._is_placed(subject):
            found = list(self._elements.candidates(subject))
            yield cost_of_listing(found)
            for element in found:
                if self._is_placed(subject) or subject not in self._parties:
                    break
                if element in self._table and self._is_relevant(subject, element):
                    self._rely(subject, element)
                    return
                yield self._cost(subject, element)
        if subject in self._open:
            if not self._is_placed(subject):
                self._hopeless.add(subject)
            self._settle(subject)

    def _learned_since(self, learned: int) -> list[T]:
        """The elements that were learned after the one with a number."""
        return list(takewhile(lambda each: self._known[each] > learned, reversed(self._known)))

    @staticmethod
    def _cost(subject: S, element: T) -> int:
        return cost_of(subject) + cost_of(element)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _is_placed(self, subject: S) -> bool:
        return subject in self._witness or subject in self._hopeless

    def _want(self, subject: S) -> None:
        """A subject waits behind all that waits now."""
        self._open[subject] = None
        self._waiting.pop(subject, None)
        self._waiting[subject] = None

    def _settle(self, subject: S) -> None:
        """The answer is certain."""
        self._open.pop(subject, None)
        self._moved.setdefault(subject, self._answers.get(subject))
        self._answers[subject] = subject in self._witness

    def _rely(self, subject: S, element: T) -> None:
        self._witness[subject] = element
        self._relying.setdefault(element, {})[subject] = None
        self._settle(subject)

    def _unrely(self, subject: S, element: T) -> None:
        del self._relying[element][subject]
        if not self._relying[element]:
            del self._relying[element]


class Outlooks:
    """The questions of the parties of one server.

    >>> from palio.routing.architectures import Centralized
    >>> router = Centralized()
    >>> outlooks = Outlooks(router)
    >>> outlooks.add("ticker", Advertisement.parse("price any"))
    >>> _ = list(outlooks.work())
    >>> [each.is_good for each in outlooks.news()]
    [False]
    >>> router.subscribe("me", Filter.parse("price > 3"))
    >>> _ = list(outlooks.work())
    >>> [each.is_good for each in outlooks.news()]
    [True]
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._demand: _Side[Advertisement, Filter] = _Side(
            router.subscriptions, Advertisement, lambda offer, wanted: offer.relevant_to(wanted), (_Offers, _Needs)
        )
        self._supply: _Side[Filter, Advertisement] = _Side(
            router.advertisements, Filter, lambda wanted, offer: offer.relevant_to(wanted), (_Needs, _Offers)
        )
        self._sides: tuple[_Side[Any, Any], ...] = (self._demand, self._supply)
        self._asked: dict[str, dict[Subject, Subject]] = {}
        """By party: what it asks about in canonical form, and in the words that it has used."""
        self._fresh: dict[tuple[str, Subject], None] = {}
        """Questions that have to be answered as soon as the answer is certain."""

    def of(self, party: str) -> tuple[Subject, ...]:
        """What a party asks about, in its own words."""
        return tuple(self._asked.get(party, {}).values())

    def wording(self, party: str, known: Subject) -> Subject | None:
        """The words in which a party asks about a subject that is in canonical form, if it does."""
        return self._asked.get(party, {}).get(known)

    def prepare(self, preparation: Preparation, subject: Subject) -> Steps:
        """Search for an answer ahead of a question; each step says what it has cost."""
        self._check(subject)
        known = subject.canonical()
        yield from self._side(known).prepare(preparation, known)

    def add(self, party: str, subject: Subject) -> None:
        """A party wants to know, from now on, whether its publications, or its subscriptions, are of use."""
        self._check(subject)
        known = subject.canonical()
        self._fresh[party, known] = None
        if known not in self._asked.setdefault(party, {}):
            side = self._side(known)
            side.add(known, party, self._router.preparations.finding((side, known)))
        self._asked[party][known] = subject

    def _check(self, subject: Subject) -> None:
        """Refuse a question that this server cannot answer."""
        router = self._router
        is_known = router.subscriptions_spread if isinstance(subject, Advertisement) else router.advertisements_spread
        if not is_known:
            what = "subscriptions" if isinstance(subject, Advertisement) else "advertisements"
            raise NotKnownHereError(
                f"in the architecture {router.name} {what} do not spread to all servers, so none can tell; "
                f"choose one in which they do"
            )

    def remove(self, party: str, subject: Subject) -> None:
        """A party does not want to know any more; nothing happens if it never did."""
        known = subject.canonical()
        if known in self._asked.get(party, {}):
            del self._asked[party][known]
            self._fresh.pop((party, known), None)
            self._side(known).remove(known, party)
            if not self._asked[party]:
                del self._asked[party]

    def repeat(self, party: str) -> None:
        """A party has to be told everything once more."""
        self._fresh.update(dict.fromkeys((party, known) for known in self._asked.get(party, ())))

    @property
    def is_behind(self) -> bool:
        """Whether there are comparisons to make."""
        return bool(self._asked) and any(side.is_behind() for side in self._sides)

    def work(self) -> Steps:
        """Compare elements that have come or gone with the questions; each step says what it has cost.

        It goes on where earlier work was left. The side that was first is last the next time.
        """
        self._sides = self._sides[::-1]
        for side in self._sides:
            yield from side.work()

    def news(self) -> list[Prospect]:
        """What parties have to be told now. An answer that is not certain yet is told later."""
        if not self._asked:
            return []
        sides: tuple[_Side[Any, Any], ...] = (self._demand, self._supply)
        for side in sides:
            for subject in side.changed():
                self._fresh.update(dict.fromkeys((party, subject) for party in side.parties(subject)))
        certain = [(party, known) for party, known in self._fresh if self._side(known).is_certain(known)]
        for each in certain:
            del self._fresh[each]
        return [
            Prospect(party, self._asked[party][known], self._side(known).is_good(known)) for party, known in certain
        ]

    def _side(self, subject: Subject) -> _Side[Any, Any]:
        return self._demand if isinstance(subject, Advertisement) else self._supply
