"""Where to look for what covers a filter or an advertisement, and for what it covers.

Both are boxes: a set of values for each name. In both, a box covers another when on certain *shared* names its sets
cover the other's: the covering filter's names, the covered advertisement's names. An :class:`Index` misses no pair and
leaves most others out, in three steps:

* Boxes with the same names and the same kinds of sets (``features.Kind``) form a *group*. From names and kinds alone it
  is clear which groups can hold an answer.
* Within a group, single values on the shared names are looked up in a dictionary.
* Intervals are searched in a tree (``dominance.py``).

How a group is organized depends on the names and kinds that the question is about. Such a :class:`_View` is built when
it is first asked for, and kept up to date from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, product
from math import prod
from typing import Any, Final, Generic, NamedTuple, TypeVar

from palio.matching.dominance import DominanceTree, Place
from palio.matching.features import (
    ABSENT,
    Feature,
    Form,
    Hull,
    Kind,
    covered_kinds,
    covering_kinds,
    describe,
    part_of,
    reverse_hull,
    texts_of,
)
from palio.matching.groups import Directory, Signature
from palio.model.advertisement import Advertisement
from palio.model.filter import Filter
from palio.model.sets.intervals import Boundary
from palio.model.sets.strings import StringSet

E = TypeVar("E", Filter, Advertisement)
Hulls = tuple[Hull, ...]

_MOST_VIEWS: Final = 8
"""Views of a group that are made to measure for a question; further questions make do with simpler ones."""
_MOST_PLANS: Final = 4096
_MOST_PLACES: Final = 16
"""Places of one box in a tree."""
_MOST_DESCRIBED: Final = 1024
"""Elements whose features are remembered: those that come into one index often come into another right away."""
_FEW_AMONG: Final = 8
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


class _Spec(NamedTuple):
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


class _View(Generic[N]):
    """The boxes of a group, in cells by value and in each cell by interval."""

    __slots__ = ("_cells", "_lengths", "_spec")

    def __init__(self, spec: _Spec) -> None:
        self._spec = spec
        self._cells: dict[_Key, DominanceTree[_Placed[N]]] = {}
        self._lengths: dict[int, int] = {}
        """How many cells there are for texts of each length, if cells are by text."""

    def add(self, entry: N) -> None:
        places = self._stored_places(entry)
        for key in self._chosen(self._keys(entry, is_wide=self._spec.wide), is_stored=True):
            if key not in self._cells:
                self._cells[key] = DominanceTree()
                self._count_length(key, 1)
            for number, place in enumerate(places):
                self._cells[key].add((entry, number), place)

    def remove(self, entry: N) -> None:
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
                        if self._is_possible(entry, asked):
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


class _Group(Generic[N]):
    """The boxes of one signature, with views of them."""

    __slots__ = ("_made_to_measure", "_views", "entries", "signature")

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.entries: dict[N, None] = {}
        self._views: dict[_Spec, _View[N]] = {}
        self._made_to_measure = {True: 0, False: 0}
        """How many of them, for what covers and for what is covered."""

    def add(self, entry: N) -> None:
        self.entries[entry] = None
        for view in self._views.values():
            view.add(entry)

    def remove(self, entry: N) -> None:
        del self.entries[entry]
        for view in self._views.values():
            view.remove(entry)

    def views(self, wanted: Sequence[_Spec]) -> list[_View[N]]:
        """Views that serve the question, as good as can be had."""
        if any(spec not in self._views for spec in wanted):
            wide = wanted[0].wide
            if self._made_to_measure[wide] >= _MOST_VIEWS:
                wanted = [simple for spec in wanted for simple in _simpler(spec)]
            else:
                self._made_to_measure[wide] += 1
        return [self._view(spec) for spec in wanted]

    def _view(self, spec: _Spec) -> _View[N]:
        if spec not in self._views:
            view = self._views[spec] = _View(spec)
            for entry in self.entries:
                view.add(entry)
        return self._views[spec]


def _simpler(spec: _Spec) -> list[_Spec]:
    """Weaker questions about one name each, of which there are not many."""
    wide = spec.wide
    by_value = [_Spec(wide, ones=(name,)) for name in spec.ones]
    if spec.few is not None:
        by_value.append(_Spec(wide, few=spec.few))
    if spec.part is not None:
        by_value.append(_Spec(wide, part=spec.part))
    return by_value or [_Spec(wide, intervals=(interval,)) for interval in spec.intervals[:1]] or [_Spec(wide)]


def _specs(shared: Sequence[str], kinds: dict[str, Kind], wide: bool) -> list[_Spec]:
    """The questions to choose from, given the kinds of the covering box on the shared names."""
    names: dict[str, list[str]] = {}
    for name in shared:
        if kinds[name] != ABSENT:
            names.setdefault(kinds[name][1], []).append(name)
    reversible = names.get(Form.SUFFIX, [])
    intervals = [(name, Reading.WHOLE) for name in (*names.get(Form.RANGE, ()), *reversible)]
    intervals += [(name, Reading.ENDS) for name in names.get(Form.RANGES, ())]
    intervals += [(name, Reading.BACKWARDS) for name in reversible]
    fews = tuple(names.get(Form.FEW, ()))
    gaps = (*names.get(Form.LOOSE, ()), *names.get(Form.RANGES, ()))
    spec = _Spec(wide, tuple(names.get(Form.ONE, ())), intervals=tuple(intervals), fews=fews, gaps=gaps)
    choices = [spec._replace(few=name) for name in fews]
    choices += [spec._replace(part=name) for name in names.get(Form.PART, ())]
    return choices or [spec]


class _Step(Generic[N]):
    """A group that can hold an answer, and what to ask it."""

    __slots__ = ("_group", "_specs", "_views")

    def __init__(self, group: _Group[N], specs: list[_Spec]) -> None:
        self._group: _Group[N] = group
        self._specs = specs
        self._views: list[_View[N]] | None = None

    def views(self) -> list[_View[N]]:
        """Views to choose from, made when they are first needed."""
        if self._views is None:
            self._views = self._group.views(self._specs)
        return self._views


class Index(Generic[N]):
    """Entries of one class, found by what they may cover or be covered by.

    >>> index = Index(Filter)
    >>> for text in ("x > 3", "x > 5 and y = 1", "y = 2"):
    ...     index.add(Entry(Filter.parse(text)))
    >>> [str(each.element) for each in index.may_cover(Entry(Filter.parse("x > 4 and y = 2")))]
    ['x > 3', 'y = 2']
    """

    def __init__(self, kind: type[Filter] | type[Advertisement]) -> None:
        self._fewer_cover = kind is Filter
        """A filter that covers speaks of fewer names, an advertisement that covers speaks of more."""
        self._groups: dict[Signature, _Group[N]] = {}
        kinds = covering_kinds, covered_kinds
        self._directory: Directory[_Group[N]] = Directory(*(kinds if self._fewer_cover else kinds[::-1]))
        self._plans: dict[tuple[Signature, bool], list[_Step[N]]] = {}
        self._asked = 0
        """Groups that all searches together have asked."""

    @property
    def effort(self) -> int:
        """The cost of all searches so far, in groups that were looked at, about; candidates are not counted."""
        return self._asked + self._directory.effort

    def add(self, entry: N) -> None:
        """Add an entry that is not there yet."""
        group = self._groups.get(entry.signature)
        if group is None:
            group = self._groups[entry.signature] = _Group(entry.signature)
            self._directory.add(group, group.signature)
            self._plans.clear()
        group.add(entry)

    def remove(self, entry: N) -> None:
        """Remove an entry that is there."""
        group = self._groups[entry.signature]
        group.remove(entry)
        if not group.entries:
            del self._groups[entry.signature]
            self._directory.remove(group, group.signature)
            self._plans.clear()

    def may_cover(self, asked: Entry[Any]) -> Iterator[N]:
        """Entries among which are all that cover the one asked about."""
        return self._search(asked, wide=True)

    def may_be_covered(self, asked: Entry[Any]) -> Iterator[N]:
        """Entries among which are all that the one asked about covers."""
        return self._search(asked, wide=False)

    def _search(self, asked: Entry[Any], wide: bool) -> Iterator[N]:
        plan = self._plan(asked.signature, wide)
        self._asked += len(plan)
        for step in plan:
            views = step.views()
            best = views[0] if len(views) == 1 else min(views, key=lambda view: view.estimate(asked))
            yield from best.search(asked)

    def _plan(self, signature: Signature, wide: bool) -> list[_Step[N]]:
        """The groups that can hold an answer for a signature, and what to ask them."""
        plan = self._plans.get((signature, wide))
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            is_within = self._fewer_cover is wide
            directory = self._directory
            groups = directory.needing_at_most(signature) if is_within else directory.offering(signature)
            plan = [_Step(group, _questions(signature, group.signature, wide, is_within)) for group in groups]
            self._plans[signature, wide] = plan
        return plan


def _questions(asked: Signature, stored: Signature, wide: bool, is_within: bool) -> list[_Spec]:
    covering = stored if wide else asked
    fewer = stored if is_within else asked
    return _specs([name for name, _ in fewer], dict(covering), wide)


class Among(Generic[N]):
    """Entries that may cover each other; while they are few, all may.

    >>> among = Among(Filter)
    >>> among.add(Entry(Filter.parse("x > 3")))
    >>> among.add(Entry(Filter.parse("x > 5")))
    >>> len(among.may_cover(Entry(Filter.parse("x > 4"))))
    2
    """

    def __init__(self, kind: type[Filter] | type[Advertisement]) -> None:
        self._entries: list[N] = []
        self._indexed = 0
        """So many of them are in the index."""
        self._index: Index[N] = Index(kind)

    def add(self, entry: N) -> None:
        """There is one more. At most two are put into the index, so that all are there when they are no longer few."""
        self._entries.append(entry)
        count = len(self._entries)
        while self._indexed < min(count, 2 * count - _FEW_AMONG):
            self._index.add(self._entries[self._indexed])
            self._indexed += 1

    def may_cover(self, asked: Entry[Any]) -> Sequence[N]:
        """Those among which are all that cover the one asked about."""
        return self._entries if self._is_few else list(self._index.may_cover(asked))

    def may_be_covered(self, asked: Entry[Any]) -> Sequence[N]:
        """Those among which are all that the one asked about covers."""
        return self._entries if self._is_few else list(self._index.may_be_covered(asked))

    @property
    def effort(self) -> int:
        """The cost of all searches so far: see :attr:`Index.effort`."""
        return self._index.effort

    @property
    def _is_few(self) -> bool:
        return len(self._entries) < _FEW_AMONG
