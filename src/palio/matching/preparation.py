"""Comparisons that are made ahead of a change, in steps, so that the change itself is quick.

To place one filter among many, an order may have to compare it with all of them. A server must not do that in one
piece, because everybody else waits meanwhile. So the comparisons are made ahead of the change, a few at a time, and
between two steps anything may happen. They have no effect: only the pairs that were found are kept. The change then
looks at these pairs, and at the elements that have come since, instead of looking at everything.

A preparation is never needed. Without one, or with one that is of no use any more, a change does all comparisons
itself and comes to the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from palio.model.advertisement import Advertisement
from palio.model.filter import Filter
from palio.model.pattern import Pattern

Element = Filter | Advertisement | Pattern
E = TypeVar("E", Filter, Advertisement, Pattern)
T = TypeVar("T")
"""What an order consists of: elements, or nodes that have one."""


Steps = Iterator[int]
"""Work that is done piece by piece; each piece says what it has cost, in comparisons of small filters, about."""
Searching = Generator[int, None, tuple[Sequence[T], Sequence[T]]]
"""Steps that find candidates for an element: those that may cover it, and those that it may cover."""

ENTERING = 16
"""To put an element into all indexes costs as much as so many comparisons of it, about."""
_READING = 8
"""To find the canonical form of an element costs so much for each of its constraints."""
_SEARCHING = 4
"""To search an index for candidates costs so much for each name of an element beyond the first few."""
_FEW_NAMES = 8
_SMALL = 4
"""Constraints that are compared at the price of one step."""
_ENUMERATED = 16
"""Candidates that an index finds at the price of one step."""
_MOST_AT_ONCE = 2_048
"""A change makes at most so many comparisons with what has come since it was prepared."""


def cost_of(element: Element) -> int:
    """What a comparison costs in which this element is the one that may cover the other."""
    if isinstance(element, Pattern):
        return sum(map(cost_of, element.filters))
    return 1 + len(element.constraints) // _SMALL


def cost_of_reading(element: Filter | Advertisement) -> int:
    """The cost of finding the canonical form of an element, and of putting it into indexes."""
    return max(ENTERING * cost_of(element), _READING * len(element.constraints))


def _cost_of_search(element: Element) -> int:
    """What it costs to search an index for candidates, however many there are."""
    if isinstance(element, Pattern):
        return sum(map(_cost_of_search, element.filters))
    return _SEARCHING * max(0, len(element.value_sets()) - _FEW_NAMES)


def cost_of_listing(found: Collection[object]) -> int:
    """What it costs to find so many candidates in an index."""
    return 1 + len(found) // _ENUMERATED


class Family(Generic[T]):
    """Elements that are compared ahead of one change: with those that were there, and with each other."""

    __slots__ = ("_log", "_news", "_seen", "members")

    def __init__(self, members: Mapping[T, None], log: list[T]) -> None:
        self.members = members
        """They are candidates for each other as well, because the change itself puts them beside each other."""
        self._log = log
        self._seen = len(log)
        self._news: dict[T, None] = {}

    def news(self) -> Mapping[T, None]:
        """What has come since the comparisons began, and is no member."""
        log = self._log
        if self._seen < len(log):
            self._news.update(dict.fromkeys(each for each in log[self._seen :] if each not in self.members))
            self._seen = len(log)
        return self._news

    @property
    def is_stale(self) -> bool:
        """Whether the change would take long, because it compares each member with all that has come since."""
        return len(self.news()) * len(self.members) > _MOST_AT_ONCE

    def take_news(self) -> T:
        """Take out one of the items that have come since: it is compared now."""
        return self._news.popitem()[0]


class Indexed(NamedTuple, Generic[T]):
    """A family whose members are in an index."""

    order: object
    family: Family[T]
    element_of: Callable[[T], Any]
    around: Callable[[T], Searching[T]]
    """Searches the members for those that may cover an item, and those that it may cover."""


class Relatives(Generic[T]):
    """What was found for one element."""

    __slots__ = ("_family", "covered", "covering", "is_complete")

    def __init__(self, family: Family[T]) -> None:
        self._family = family
        self.covering: dict[T, None] = {}
        self.covered: dict[T, None] = {}
        self.is_complete = False

    def may_cover(self) -> Iterator[tuple[T, bool]]:
        """All that may cover the element, and whether it is known to."""
        return self._with_news(self.covering)

    def may_be_covered(self) -> Iterator[tuple[T, bool]]:
        """All that the element may cover, and whether it is known to."""
        return self._with_news(self.covered)

    def _with_news(self, known: Mapping[T, None]) -> Iterator[tuple[T, bool]]:
        for each in known:
            yield each, True
        for each in self._family.news():
            if each not in known:
                yield each, False


class Preparation:
    """All comparisons that are made ahead of one operation, in whatever orders it will change."""

    __slots__ = ("_checks", "_indexed", "_items", "_logs", "_relatives", "answers", "findings")

    def __init__(self) -> None:
        self.answers: dict[Hashable, bool] = {}
        """Answers to other questions that the operation will ask. Whoever asks chooses the key, so that an answer that
        is out of date is not found.
        """
        self.findings: dict[Hashable, Any] = {}
        """The results of other searches. Whoever uses one checks that it still holds."""
        self._indexed: list[Indexed[Any]] = []
        self._checks: list[Callable[[], Steps]] = []
        self._items: dict[tuple[object, Element], object] = {}
        """By order: what will stand for an element there."""
        self._logs: dict[object, list[object]] = {}
        """By order: what has come there since this preparation began to look at it."""
        self._relatives: dict[tuple[object, Element], Relatives[object]] = {}

    def note(self, order: object, item: object) -> None:
        """Something has come into an order, or has become important there."""
        log = self._logs.get(order)
        if log is not None:
            log.append(item)

    def family(self, order: object, members: Iterable[T] = ()) -> Family[T]:
        """Elements that will come into an order together."""
        log: list[T] = self._logs.setdefault(order, [])  # type: ignore[assignment]  # an order has one class of items
        return Family(dict.fromkeys(members), log)

    def note_index(self, indexed: Indexed[Any]) -> None:
        """The members of a family are in an index: so they can :meth:`catch_up`."""
        self._indexed.append(indexed)

    def check_again(self, check: Callable[[], Steps]) -> None:
        """Make further comparisons before the change, if they are needed by then; ``check`` finds that out."""
        self._checks.append(check)

    def catch_up(self) -> Steps:
        """Compare what has come into the orders since the comparisons began, until the change will not take long.

        All other comparisons have been made. The change itself would compare each member with all that has come, which
        takes long if other changes were large; the index finds those that have to be compared.
        """
        is_ready = False
        while not is_ready:
            is_ready = True
            for check in self._checks:
                for cost in check():
                    is_ready = False
                    yield cost
            while stale := [each for each in self._indexed if each.family.is_stale]:
                is_ready = False
                for indexed in stale:
                    yield from self._relate(indexed, indexed.family.take_news())

    def _relate(self, indexed: Indexed[T], item: T) -> Steps:
        """Compare an item with the members of a family."""
        element = indexed.element_of(item)
        wide, narrow = yield from indexed.around(item)
        yield 1 + (len(wide) + len(narrow)) // _ENUMERATED + _cost_of_search(element)
        for member in wide:
            its = indexed.element_of(member)
            if its.covers(element):
                self._relatives[indexed.order, its].covered[item] = None
            yield cost_of(its)
        cost = cost_of(element)
        for member in narrow:
            its = indexed.element_of(member)
            if element.covers(its):
                self._relatives[indexed.order, its].covering[item] = None
            yield cost

    def compare(
        self,
        order: object,
        element: Element,
        family: Family[T],
        element_of: Callable[[T], Any],
        candidates: Callable[[], Searching[T]],
    ) -> Steps:
        """Compare an element with all that may cover it, and with all that it may cover, members among them.

        All are of one class.
        """
        key = order, element
        if key in self._relatives:
            return
        found: Relatives[T] = Relatives(family)
        self._relatives[key] = found  # type: ignore[assignment]
        wide, narrow = yield from candidates()
        yield 1 + (len(wide) + len(narrow)) // _ENUMERATED + _cost_of_search(element)
        for other in wide:
            its = element_of(other)
            if its.covers(element):
                found.covering[other] = None
            yield cost_of(its)
        cost = cost_of(element)
        for other in narrow:
            its = element_of(other)
            if element.covers(its):
                found.covered[other] = None
            yield cost
        found.is_complete = True

    def item(self, order: object, element: E, make: Callable[[E], T]) -> T:
        """What will stand for an element in an order."""
        found = self._items.get((order, element))
        if found is None:
            found = self._items[order, element] = make(element)
        return found  # type: ignore[return-value]  # an order has one class of items

    def relatives(self, order: object, element: Element) -> Relatives[T] | None:
        """What was found for an element, if all comparisons were made."""
        found = self._relatives.get((order, element))
        return found if found is not None and found.is_complete else None  # type: ignore[return-value]


class Preparations:
    """The preparations that are under way at one server, and the one whose operation is being done now."""

    def __init__(self) -> None:
        self._open: dict[Preparation, None] = {}
        self._current: Preparation | None = None

    def open(self) -> Preparation:
        """Begin to prepare an operation."""
        begun = Preparation()
        self._open[begun] = None
        return begun

    def close(self, preparation: Preparation) -> None:
        """An operation is done, or will not be."""
        self._open.pop(preparation, None)
        if self._current is preparation:
            self._current = None

    def use(self, preparation: Preparation | None) -> None:
        """An operation is done now: it uses what was prepared for it."""
        self._current = preparation

    def note(self, order: object, item: object) -> None:
        """Something has come into an order, or has become important there."""
        for each in self._open:
            each.note(order, item)

    def item(self, order: object, element: E, make: Callable[[E], T]) -> T:
        """What stands for an element in an order: as it was compared, if it was."""
        return make(element) if self._current is None else self._current.item(order, element, make)

    def relatives(self, order: object, element: Element) -> Relatives[T] | None:
        """What was found ahead for an element that is placed now."""
        return None if self._current is None else self._current.relatives(order, element)

    def answer(self, question: Hashable) -> bool | None:
        """The answer to a question that was found ahead, if there is one."""
        return None if self._current is None else self._current.answers.get(question)

    def finding(self, key: Hashable) -> Any:
        """The result of a search that was made ahead, if there is one."""
        return None if self._current is None else self._current.findings.get(key)
