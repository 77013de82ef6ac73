"""The boxes of a group, arranged for one kind of question.

A :class:`View` looks up single values on the names that the question shares with the boxes in a dictionary, and
searches intervals in a tree (``dominance.py``). Which names these are, and how they are read, is its :class:`Spec`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, product
from math import prod
from typing import Any, Final, Generic, NamedTuple, TypeVar

from palio.matching.dominance import DominanceTree, Place
from palio.matching.features import Feature, Hull, describe, part_of, reverse_hull, texts_of
from palio.matching.groups import Signature
from palio.model.advertisement import Advertisement
from palio.model.filter import Filter
from palio.model.sets.intervals import Boundary
from palio.model.sets.strings import StringSet

E = TypeVar("E", Filter, Advertisement)
Hulls = tuple[Hull, ...]

_MOST_PLACES: Final = 16
"""Places of one box in a tree."""
_MOST_DESCRIBED: Final = 1024
"""Elements whose features are remembered: those that come into one index often come into another right away."""
_CLEARED: Final = 2
"""Entries that are gone and are taken out of their cells whenever another one is added."""
_GRAM: Final = 3
_LONG: Final = 256
"""Characters of text from which on a box is not kept under all pieces of it: they would take too much memory."""
_ANY_GRAM: Final = ""


class Reading:
    """How intervals of a name's values are compared; it depends on the covering set."""

    WHOLE = "whole"
    """It has one interval, which holds all of the covered set."""
    ENDS = "ends"
    """It has several, one of which holds the covered set's first interval, and one the last."""
    BACKWARDS = "backwards"
    """Its strings have a common end, so that one interval holds all of the covered set in reverse."""


@lru_cache(_MOST_DESCRIBED)
def _described(element: Filter | Advertisement) -> tuple[dict[str, Feature], Signature]:
    features = {name: describe(each) for name, each in element.value_sets().items()}
    return features, tuple((name, feature.kind) for name, feature in features.items())


class Entry(Generic[E]):
    """An element of an order, or one that is asked about, with what indexes need to know of it."""

    __slots__ = ("element", "features", "owner", "signature")

    def __init__(self, element: E, owner: str = "") -> None:
        self.element: E = element
        self.owner = owner
        """Only entries of the same owner find each other: an index of many small sets is one, with few big groups."""
        self.features: dict[str, Feature]
        self.signature: Signature
        self.features, self.signature = _described(element)

    def outers(self, name: str, reading: str, in_pairs: bool) -> list[Hulls]:
        """Where to find the ``inners`` of a set that this name's covers: in one of these, interval by interval.

        Of several intervals there are many pairs, each telling exactly where the first and the last of the other set
        are; or as many as there are intervals, each telling that of the first alone.
        """
        if reading == Reading.BACKWARDS:
            return [(reverse_hull(self.string(name)),)]
        outers = self.features[name].outers
        if reading == Reading.WHOLE:
            return [outers]
        if in_pairs:
            return list(combinations_with_replacement(outers, 2))
        return [(each, (each[0], outers[-1][1])) for each in outers]

    def inners(self, name: str, reading: str) -> Hulls:
        """Intervals of the set of a name, which a set that covers it holds."""
        if reading == Reading.BACKWARDS:
            return (reverse_hull(self.string(name)),)
        first, last = self.features[name].inners
        return ((first[0], last[1]),) if reading == Reading.WHOLE else (first, last)

    def string(self, name: str) -> StringSet:
        """The strings that are allowed for a name."""
        return self.element.value_sets()[name].string


N = TypeVar("N", bound=Entry[Any])


class Spec(NamedTuple):
    """How a view is organized: which names by value, and which by interval."""

    wide: bool
    """Whether the question is for boxes that cover (else for covered ones)."""
    ones: tuple[str, ...] = ()
    """Names whose only value is part of the key."""
    few: str | None = None
    """A name with a few values, one of which (or two, among covered boxes) completes the key."""
    part: str | None = None
    """A name with strings of which a part completes the key."""
    intervals: tuple[tuple[str, str], ...] = ()
    """Names and how they are compared (:class:`Reading`)."""
    fews: tuple[str, ...] = ()
    """All names on which the covering box has a few values: comparing them is much quicker than ``covers``."""
    gaps: tuple[str, ...] = ()
    """All names on which it may have all values but for single ones: the same."""


_Key = tuple[Boundary, ...]
_Placed = tuple[N, int]
"""An entry may be in several places of a tree, one for each of its intervals."""


class View(Generic[N]):
    """The boxes of a group, in cells by value and in each cell by interval.

    They are put there and taken out step by step. To take one out costs more than to pass over it in a search, and
    thousands may go at once.
    """

    __slots__ = ("_cells", "_gone", "_lengths", "_placed", "_spec", "_waiting")

    def __init__(self, spec: Spec, entries: Iterable[N]) -> None:
        self._spec = spec
        self._waiting: dict[N, None] = dict.fromkeys(entries)
        """The entries that are not in cells yet."""
        self._gone: dict[N, None] = {}
        """The entries that are still in cells, and count no longer."""
        self._placed = 0
        """How many entries are in cells."""
        self._cells: dict[_Key, DominanceTree[_Placed[N]]] = {}
        self._lengths: dict[int, int] = {}
        """How many cells there are for texts of each length, if cells are by text."""

    def add(self, entry: N) -> None:
        """Put an entry into its cells, and take out some of those that are gone."""
        if entry in self._gone:
            del self._gone[entry]
            return
        self._place(entry)
        for _ in range(min(_CLEARED, len(self._gone))):
            self._displace(self._gone.popitem()[0])

    def remove(self, entry: N) -> None:
        """An entry counts no longer."""
        if entry in self._waiting:
            del self._waiting[entry]
            return
        self._gone[entry] = None
        if len(self._gone) == self._placed:
            self._placed = 0
            for emptied in (self._gone, self._cells, self._lengths):
                emptied.clear()

    def fill(self, count: int) -> bool:
        """Put so many more entries into their cells, or take out those that are gone; whether there were any."""
        found = bool(self._waiting or self._gone)
        for _ in range(min(count, len(self._waiting) + len(self._gone))):
            if self._waiting:
                self._place(self._waiting.popitem()[0])
            else:
                self._displace(self._gone.popitem()[0])
        return found

    def complete(self) -> None:
        """Put all entries into their cells that are not there yet."""
        while self._waiting:
            self._place(self._waiting.popitem()[0])

    def _place(self, entry: N) -> None:
        self._placed += 1
        places = self._stored_places(entry)
        for key in self._chosen(self._keys(entry, is_wide=self._spec.wide), is_stored=True):
            if key not in self._cells:
                self._cells[key] = DominanceTree()
                self._count_length(key, 1)
            for number, place in enumerate(places):
                self._cells[key].add((entry, number), place)

    def _displace(self, entry: N) -> None:
        self._placed -= 1
        places = self._stored_places(entry)
        for key in self._keys(entry, is_wide=self._spec.wide):
            cell = self._cells.get(key)
            if cell is not None:
                for number, place in enumerate(places):
                    cell.remove((entry, number), place)
                if not len(cell):
                    del self._cells[key]
                    self._count_length(key, -1)

    def estimate(self, asked: Entry[Any]) -> int:
        """How many boxes a search may have to consider, leaving intervals aside."""
        return sum(map(self._count, self._chosen(self._keys(asked, is_wide=not self._spec.wide), is_stored=False)))

    def search(self, asked: Entry[Any]) -> Iterator[N]:
        """Boxes among which are all that answer the question, each once."""
        places = None
        for key in self._chosen(self._keys(asked, is_wide=not self._spec.wide), is_stored=False):
            cell = self._cells.get(key)
            if cell is not None:
                if places is None:  # only now, as many searches end at the key
                    places = self._asked_places(asked)
                for place in places:
                    for entry, _ in cell.search(place):
                        if entry not in self._gone and self._is_possible(entry, asked):
                            yield entry

    def _is_possible(self, entry: Entry[Any], asked: Entry[Any]) -> bool:
        """Whether one box has all values of the other on names with a few, and lacks none on names with nearly all."""
        spec = self._spec
        if not spec.fews and not spec.gaps:
            return True
        wide, narrow = (entry.features, asked.features) if spec.wide else (asked.features, entry.features)
        for name in spec.gaps:
            if wide[name].gaps & ~narrow[name].may_lack:
                return False
        for name in spec.fews:
            members = wide[name].members
            if not all(map(members.__contains__, narrow[name].members)):
                return False
        return True

    def _count(self, key: _Key) -> int:
        cell = self._cells.get(key)
        return 0 if cell is None else len(cell)

    def _count_length(self, key: _Key, change: int) -> None:
        if self._spec.part is not None and self._spec.wide:
            length = len(key[-1])
            self._lengths[length] = self._lengths.get(length, 0) + change
            if not self._lengths[length]:
                del self._lengths[length]

    def _keys(self, entry: Entry[Any], is_wide: bool) -> list[_Key]:
        """The keys of a box that is on the covering side (``is_wide``) or on the covered one."""
        spec, features = self._spec, entry.features
        key: _Key = (entry.owner, *[features[name].members[0] for name in spec.ones])
        if spec.few is not None:
            return _value_keys(key, features[spec.few].members, spec.wide, is_wide)
        if spec.part is None:
            return [key]
        return self._text_keys(key, entry.string(spec.part), is_wide)

    def _text_keys(self, key: _Key, string: StringSet, is_wide: bool) -> list[_Key]:
        if not self._spec.wide:  # by short pieces of text
            return [(*key, gram) for gram in _grams([part_of(string)] if is_wide else texts_of(string), is_wide)]
        if is_wide:
            return [(*key, part_of(string))]
        texts = texts_of(string)
        if sum(map(len, texts)) * len(self._lengths) > 8 * len(self._cells):  # a search is quicker than a piece
            return [cell for cell in self._cells if cell[:-1] == key and any(cell[-1] in text for text in texts)]
        return [(*key, text) for text in _substrings(texts, self._lengths)]

    def _chosen(self, keys: list[_Key], is_stored: bool) -> list[_Key]:
        """Of keys that are equally good one, the rarest.

        What covers has all values of what it covers, which therefore is known by any one (or two) of its values; and
        what contains a text contains all pieces of that text, any one of which leads to it.
        """
        spec = self._spec
        if spec.few is not None and spec.wide is not is_stored:
            return [min(keys, key=self._count)]
        if spec.part is not None and not spec.wide and not is_stored:
            return [min(keys, key=self._count), (*keys[0][:-1], _ANY_GRAM)]
        return keys

    def _stored_places(self, entry: N) -> list[Place]:
        if self._spec.wide:
            return [_ends(outers) for outers in self._outers(entry)]
        return [_ends([entry.inners(*interval) for interval in self._spec.intervals])[::-1]]

    def _asked_places(self, asked: Entry[Any]) -> list[Place]:
        if self._spec.wide:
            return [_ends([asked.inners(*interval) for interval in self._spec.intervals])]
        return [_ends(outers)[::-1] for outers in self._outers(asked)]

    def _outers(self, entry: Entry[Any]) -> list[tuple[Hulls, ...]]:
        """The boxes of intervals that a box consists of, or one around all if they are many."""
        for in_pairs in (True, False):
            outers = [entry.outers(*interval, in_pairs) for interval in self._spec.intervals]
            if prod(map(len, outers)) <= _MOST_PLACES:
                return list(product(*outers))
        return [tuple([_around(each[0], each[-1]) for each in outers])]


def _around(lowest: Hulls, highest: Hulls) -> Hulls:
    return tuple((low, high) for (low, _), (_, high) in zip(lowest, highest, strict=True))


def _ends(intervals: Sequence[Hulls]) -> Place:
    lows = [low for hulls in intervals for low, _ in hulls]
    highs = [high for hulls in intervals for _, high in hulls]
    return tuple(lows), tuple(highs)


def _value_keys(key: _Key, members: tuple[Boundary, ...], by_one: bool, is_wide: bool) -> list[_Key]:
    """Keys by one member, or by two where there are two: covered sets are by two, so that fewer share a key."""
    singles = [(*key, member) for member in members]
    if by_one or len(members) == 1:
        return singles
    pairs = [(*key, *pair) for pair in combinations(sorted(members), 2)]
    return [*pairs, *singles] if is_wide else pairs


def _grams(texts: list[str], only_longest: bool) -> list[str]:
    """The pieces of up to three characters, each once; or only the longest such pieces."""
    if not only_longest and sum(map(len, texts)) > _LONG:
        return [_ANY_GRAM]
    found: dict[str, None] = {}
    for text in texts:
        longest = min(_GRAM, len(text))
        for length in range(longest if only_longest else 1, longest + 1):
            found.update(dict.fromkeys(text[start : start + length] for start in range(len(text) - length + 1)))
    return list(found)


def _substrings(texts: list[str], lengths: dict[int, int]) -> list[str]:
    """The pieces of certain lengths, each once."""
    return list(
        dict.fromkeys(
            text[start : start + length]
            for text in texts
            for length in lengths
            for start in range(len(text) - length + 1)
        )
    )
