"""Elements among which those that can be united with a new one are found quickly.

Two elements can make one exactly only if they agree in all names but one. So each is kept in a *line* for each of its
names, with those that agree with it in all others, ordered along this name; a new one is compared with its neighbours
in its lines. Where a merged filter may select a little too much, boxes that agree in all names but two are kept in
*planes*, too, along a curve on which boxes with near corners are mostly near each other.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import chain, combinations, islice
from typing import Any, Generic

from palio.matching.sharing import is_never
from palio.matching.views import E
from palio.model import Advertisement, Filter
from palio.model.sets.valueset import ValueSet
from palio.routing.unions import Merging, United, join, range_of

_Shelf = tuple[tuple[str, ...], frozenset[Any]]
"""The one name, or two, in which elements may differ, and what they agree in."""
_Place = tuple[Any, ...]
_REACH = 3
"""So many neighbours on each side a new box is compared with in a plane; in a line it is one."""


class Pool(Generic[E]):
    """Elements that stand for others or for themselves, none of them twice.

    >>> pool = Pool(Merging())
    >>> for text in ("integer x = 1", "integer x = 3", "y = 1"):
    ...     one = Filter.parse(text)
    ...     pool.add(United(one, (one,)))
    >>> two = Filter.parse("integer x = 2")
    >>> united, taken = pool.grow(United(two, (two,)))
    >>> str(united.element), [str(each.element) for each in taken]
    ('integer x >= 1 and integer x <= 3', ['integer x = 1', 'integer x = 3'])
    """

    def __init__(self, limits: Merging) -> None:
        self._limits = limits
        self._all: dict[E, United[E]] = {}
        self._shelves: dict[_Shelf, _Row[E]] = {}

    def __contains__(self, element: object) -> bool:
        return element in self._all

    def __iter__(self) -> Iterator[United[E]]:
        return iter(self._all.values())

    def __getitem__(self, element: E) -> United[E]:
        return self._all[element]

    def add(self, united: United[E]) -> None:
        """Add an element that is not there."""
        self._all[united.element] = united
        for shelf, place in self._places(united.element):
            row = self._shelves.get(shelf)
            if row is None:
                row = self._shelves[shelf] = _Row()
            row.add(united.element, place)

    def remove(self, united: United[E]) -> None:
        """Remove an element that is there."""
        del self._all[united.element]
        for shelf, place in self._places(united.element):
            row = self._shelves[shelf]
            row.remove(united.element, place)
            if not row.elements:
                del self._shelves[shelf]

    def add_part(self, element: E, part: E) -> None:
        """The element stands for one more."""
        united = self._all[element]
        self._all[element] = united._replace(parts=tuple(dict.fromkeys(chain(united.parts, (part,)))))

    def grow(
        self, united: United[E], may_join: Callable[[E], bool] = lambda _: True
    ) -> tuple[United[E], list[United[E]]]:
        """Unite something with what is there, as far as possible; the union, and what is not needed any more."""
        taken: dict[E, United[E]] = {}
        while True:
            found: tuple[United[E], United[E]] | None = None
            for other, names in self._neighbours(united.element, taken):
                if not may_join(other):
                    continue
                joined = join(self._all[other], united, names, self._limits)
                if joined is None or (joined.element in self._all and joined.element not in (other, *taken)):
                    continue
                if found is None or joined.waste < found[0].waste:
                    found = joined, self._all[other]
                if not joined.waste:
                    break
            if found is None:
                return united, list(taken.values())
            united = found[0]
            taken[found[1].element] = found[1]

    def _neighbours(self, element: E, taken: Container[E]) -> Iterator[tuple[E, tuple[str, ...]]]:
        if self._limits.parts < 2:
            return
        for shelf, place in self._places(element):
            row = self._shelves.get(shelf)
            if row is not None:
                for other in row.near(place, 1 if len(shelf[0]) == 1 else _REACH, taken):
                    yield other, shelf[0]

    def _places(self, element: E) -> Iterator[tuple[_Shelf, _Place]]:
        """Where an element is kept, lines first; what nothing can match is nowhere."""
        if is_never(element):
            return
        sets = element.value_sets()
        for name, allowed in sets.items():
            rest = frozenset([item for item in sets.items() if item[0] != name])
            yield ((name,), rest), place_of(allowed)
        if self._limits.slack and isinstance(element, Filter):
            corners = {name: _corner(allowed) for name, allowed in sets.items()}
            numeric = [name for name, corner in corners.items() if corner is not None]
            for pair in combinations(numeric, 2):
                rest = frozenset([item for item in sets.items() if item[0] not in pair])
                yield (pair, rest), (_curve(*(corners[name] or 0 for name in pair)),)


class _Row(Generic[E]):
    """Elements in order of their places."""

    __slots__ = ("_places", "elements")

    def __init__(self) -> None:
        self._places: list[_Place] = []
        self.elements: list[E] = []

    def add(self, element: E, place: _Place) -> None:
        number = bisect_right(self._places, place)
        self._places.insert(number, place)
        self.elements.insert(number, element)

    def remove(self, element: E, place: _Place) -> None:
        number = self.elements.index(element, bisect_left(self._places, place))
        del self._places[number], self.elements[number]

    def near(self, place: _Place, reach: int, taken: Container[E]) -> Iterator[E]:
        """The last elements before a place and the first ones from there on, without certain ones."""
        number = bisect_left(self._places, place)
        for way in (range(number - 1, -1, -1), range(number, len(self.elements))):
            yield from islice((self.elements[each] for each in way if self.elements[each] not in taken), reach)


def place_of(allowed: ValueSet) -> _Place:
    """Where a set begins: the first type that it has values of, and the least value."""
    for number, bounds in enumerate(allowed.orders):
        if bounds:
            return number, bounds[0]
    shape = next(allowed.string.parts(), None)
    return len(allowed.orders), "" if shape is None or not shape.order else shape.order[0]


def _corner(allowed: ValueSet) -> int | None:
    """The least value of a bounded range, as a number without a sign that keeps the order."""
    fields = range_of(allowed)
    if fields is None:
        return None
    (bits,) = struct.unpack(">Q", struct.pack(">d", float(next(reversed(fields.values()))[0])))
    return int(bits ^ (0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else 1 << 63))


def _curve(one: int, other: int) -> int:
    """Two numbers as one, whose bits alternate: so what is near in both is mostly near in it."""
    return 2 * int(f"{one:b}", 4) + int(f"{other:b}", 4)


def in_order(elements: Iterable[E]) -> list[E]:
    """Elements in an order in which neighbours, where there are any, mostly follow each other."""
    return sorted(elements, key=_beginnings)


def _beginnings(element: Filter | Advertisement) -> list[tuple[Any, ...]]:
    return [(name, *place_of(allowed)) for name, allowed in element.value_sets().items()]


def unite(elements: Iterable[E], limits: Merging) -> list[United[E]]:
    """Put elements together as far as a quick search finds out how; those that stay alone come out, too.

    >>> texts = ["integer x = 1 and y > 0", "integer x = 2 and y > 0", "integer x > 2 and y > 0", "y < 0"]
    >>> [str(each.element) for each in unite(map(Filter.parse, texts), Merging())]
    ['integer x >= 1 and y > 0', 'y < 0']
    """
    pool: Pool[E] = Pool(limits)
    for each in in_order(elements):
        united, taken = pool.grow(United(each, (each,)))
        for other in taken:
            pool.remove(other)
        pool.add(united)
    return list(pool)
