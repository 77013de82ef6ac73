"""Whether anybody wants what a publisher offers, or offers what a subscriber wants: told at once and on each change.

Who asks relies on one *witness*, a filter (or an advertisement) of the table that answers the question with yes. So a
new filter concerns only those that have none, and one that is gone only those that rely on it. Both are looked up by
names, and by single strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from palio.errors import CallerError
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
    """What parties ask about, and the table in which the answers are."""

    def __init__(self, table: Table[Any], is_relevant: Callable[[S, T], bool], hopeless: Any, elements: Any) -> None:
        self._table, self._is_relevant = table, is_relevant
        self._parties: dict[S, dict[str, None]] = {}
        self._witness: dict[S, T] = {}
        self._relying: dict[T, dict[S, None]] = {}
        self._hopeless, self._elements = hopeless, elements
        """The subjects without a witness; all of the table, while anybody asks."""
        self._known: dict[T, None] = {}

    def parties(self, subject: S) -> Mapping[str, None]:
        return self._parties.get(subject, {})

    def add(self, subject: S, party: str) -> None:
        if not self._parties:
            self._table.news = {}
            for element in self._table:
                self._learn(element)
        if subject not in self._parties:
            self._parties[subject] = {}
            self._search(subject)
        self._parties[subject][party] = None

    def remove(self, subject: S, party: str) -> None:
        del self._parties[subject][party]
        if self._parties[subject]:
            return
        del self._parties[subject]
        witness = self._witness.pop(subject, None)
        if witness is None:
            self._hopeless.remove(subject)
        else:
            self._unrely(subject, witness)
        if not self._parties:
            self._table.news = None
            for element in tuple(self._known):
                self._forget(element)

    def is_good(self, subject: S) -> bool:
        return subject in self._witness

    def changed(self) -> list[S]:
        """The subjects for which the answer is another one since this was last asked."""
        news = self._table.news
        if not news:
            return []
        self._table.news = {}
        before: dict[S, bool] = {}
        for element in news:
            if element in self._table and element not in self._known:
                self._learn(element)
                found = [each for each in self._hopeless.candidates(element) if self._is_relevant(each, element)]
                for subject in found:
                    before.setdefault(subject, False)
                    self._hopeless.remove(subject)
                    self._rely(subject, element)
            elif element not in self._table and element in self._known:
                self._forget(element)
                for subject in self._relying.pop(element, {}):
                    before.setdefault(subject, True)
                    del self._witness[subject]
                    self._search(subject)
        return [subject for subject, was_good in before.items() if was_good is not self.is_good(subject)]

    def _learn(self, element: T) -> None:
        self._known[element] = None
        self._elements.add(element)

    def _forget(self, element: T) -> None:
        del self._known[element]
        self._elements.remove(element)

    def _search(self, subject: S) -> None:
        for element in self._elements.candidates(subject):
            if self._is_relevant(subject, element):
                self._rely(subject, element)
                return
        self._hopeless.add(subject)

    def _rely(self, subject: S, element: T) -> None:
        self._witness[subject] = element
        self._relying.setdefault(element, {})[subject] = None

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
    >>> [each.is_good for each in outlooks.news()]
    [False]
    >>> router.subscribe("me", Filter.parse("price > 3"))
    >>> [each.is_good for each in outlooks.news()]
    [True]
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._demand: _Side[Advertisement, Filter] = _Side(
            router.subscriptions, lambda offer, wanted: offer.relevant_to(wanted), _Offers(), _Needs()
        )
        self._supply: _Side[Filter, Advertisement] = _Side(
            router.advertisements, lambda wanted, offer: offer.relevant_to(wanted), _Needs(), _Offers()
        )
        self._asked: dict[str, dict[Subject, Subject]] = {}
        """By party: what it asks about in canonical form, and in the words that it has used."""
        self._fresh: dict[tuple[str, Subject], None] = {}
        """Questions that have to be answered now."""

    def of(self, party: str) -> tuple[Subject, ...]:
        """What a party asks about, in its own words."""
        return tuple(self._asked.get(party, {}).values())

    def wording(self, party: str, known: Subject) -> Subject | None:
        """The words in which a party asks about a subject that is in canonical form, if it does."""
        return self._asked.get(party, {}).get(known)

    def add(self, party: str, subject: Subject) -> None:
        """A party wants to know, from now on, whether its publications, or its subscriptions, are of use."""
        router = self._router
        is_known = router.subscriptions_spread if isinstance(subject, Advertisement) else router.advertisements_spread
        if not is_known:
            what = "subscriptions" if isinstance(subject, Advertisement) else "advertisements"
            raise NotKnownHereError(
                f"in the architecture {router.name} {what} do not spread to all servers, so none can tell; "
                f"choose one in which they do"
            )
        known = subject.canonical()
        self._fresh[party, known] = None
        if known not in self._asked.setdefault(party, {}):
            self._side(known).add(known, party)
        self._asked[party][known] = subject

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

    def news(self) -> list[Prospect]:
        """What parties have to be told now."""
        if not self._asked:
            return []
        sides: tuple[_Side[Any, Any], ...] = (self._demand, self._supply)
        for side in sides:
            for subject in side.changed():
                self._fresh.update(dict.fromkeys((party, subject) for party in side.parties(subject)))
        fresh, self._fresh = self._fresh, {}
        return [Prospect(party, self._asked[party][known], self._side(known).is_good(known)) for party, known in fresh]

    def _side(self, subject: Subject) -> _Side[Any, Any]:
        return self._demand if isinstance(subject, Advertisement) else self._supply
