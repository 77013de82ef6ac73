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
from itertools import chain
from typing import Final, Generic, NamedTuple, TypeVar

from palio.matching.dominance import DominanceTree, Place
from palio.matching.features import (
    ABSENT,
    MIXED,
    Feature,
    Form,
    Hull,
    Kind,
    covered_kinds,
    covering_kinds,
    describe,
    reverse_hull,
)
from palio.model.advertisement import Advertisement
from palio.model.filter import Filter
from palio.model.sets.intervals import Boundary

E = TypeVar("E", Filter, Advertisement)
Token = tuple[str, Kind]
Signature = tuple[Token, ...]

_MOST_VIEWS: Final = 8
"""Views of a group that are made to measure for a question; further questions make do with simpler ones."""
_MOST_PLANS: Final = 4096


class Entry(Generic[E]):
    """An element of an order, or one that is asked about, with what indexes need to know of it."""

    __slots__ = ("children", "element", "features", "number", "parent", "signature")

    def __init__(self, element: E, number: int = -1) -> None:
        self.element: E = element
        self.number = number
        self.features: dict[str, Feature] = {name: describe(each) for name, each in element.value_sets().items()}
        self.signature: Signature = tuple((name, feature.kind) for name, feature in self.features.items())
        self.parent: Entry[E] | None = None
        self.children: dict[Entry[E], None] = {}

    def outer(self, name: str, backwards: bool) -> Hull:
        """The interval that holds the set of a name."""
        return reverse_hull(self.element.value_sets()[name].string) if backwards else self.features[name].outer

    def inner(self, name: str, backwards: bool) -> Hull:
        """The interval that is inside that of any set which covers this name's."""
        return reverse_hull(self.element.value_sets()[name].string) if backwards else self.features[name].inner


class _Spec(NamedTuple):
    """How a view is organized: which names by value, and which by interval."""

    wide: bool
    """Whether the question is for boxes that cover (else for covered ones)."""
    ones: tuple[str, ...] = ()
    """Names whose only value is part of the key."""
    few: str | None = None
    """A name with a few values, one of which completes the key."""
    intervals: tuple[tuple[str, bool], ...] = ()
    """Names and whether their strings are read backwards."""


class _View(Generic[E]):
    """The boxes of a group, in cells by value and in each cell by interval."""

    __slots__ = ("_cells", "_spec")

    def __init__(self, spec: _Spec) -> None:
        self._spec = spec
        self._cells: dict[tuple[Boundary, ...], DominanceTree[Entry[E]]] = {}

    def add(self, entry: Entry[E]) -> None:
        keys = self._keys(entry)
        if self._spec.few is not None and not self._spec.wide:
            # A covered box has all its values among those asked for, so that one of them, the rarest, will do.
            keys = [min(keys, key=self._count)]
        place = self._stored_place(entry)
        for key in keys:
            self._cells.setdefault(key, DominanceTree()).add(entry, place)

    def remove(self, entry: Entry[E]) -> None:
        place = self._stored_place(entry)
        for key in self._keys(entry):
            cell = self._cells.get(key)
            if cell is not None and cell.remove(entry, place) and not len(cell):
                del self._cells[key]

    def estimate(self, asked: Entry[E]) -> int:
        """How many boxes a search may have to consider, leaving intervals aside."""
        counts = map(self._count, self._keys(asked))
        return min(counts) if self._spec.wide else sum(counts)

    def search(self, asked: Entry[E]) -> Iterator[Entry[E]]:
        keys = self._keys(asked)
        if self._spec.wide and len(keys) > 1:
            keys = [min(keys, key=self._count)]  # what covers has all the values, so any one of them will do
        place = self._asked_place(asked)
        return chain.from_iterable(self._cells[key].search(place) for key in keys if key in self._cells)

    def _count(self, key: tuple[Boundary, ...]) -> int:
        cell = self._cells.get(key)
        return 0 if cell is None else len(cell)

    def _keys(self, entry: Entry[E]) -> list[tuple[Boundary, ...]]:
        features = entry.features
        key: tuple[Boundary, ...] = tuple([features[name].members[0] for name in self._spec.ones])
        if self._spec.few is None:
            return [key]
        return [(*key, member) for member in features[self._spec.few].members]

    def _stored_place(self, entry: Entry[E]) -> Place:
        if self._spec.wide:
            return _ends([entry.outer(*interval) for interval in self._spec.intervals])
        return _ends([entry.inner(*interval) for interval in self._spec.intervals])[::-1]

    def _asked_place(self, asked: Entry[E]) -> Place:
        if self._spec.wide:
            return _ends([asked.inner(*interval) for interval in self._spec.intervals])
        return _ends([asked.outer(*interval) for interval in self._spec.intervals])[::-1]


def _ends(hulls: Sequence[Hull]) -> Place:
    return tuple([low for low, _ in hulls]), tuple([high for _, high in hulls])


class _Group(Generic[E]):
    """The boxes of one signature, with views of them."""

    __slots__ = ("_made_to_measure", "_views", "entries", "signature")

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.entries: dict[Entry[E], None] = {}
        self._views: dict[_Spec, _View[E]] = {}
        self._made_to_measure = 0

    def add(self, entry: Entry[E]) -> None:
        self.entries[entry] = None
        for view in self._views.values():
            view.add(entry)

    def remove(self, entry: Entry[E]) -> None:
        del self.entries[entry]
        for view in self._views.values():
            view.remove(entry)

    def views(self, wanted: Sequence[_Spec]) -> list[_View[E]]:
        """Views that serve the question, as good as can be had."""
        if any(spec not in self._views for spec in wanted):
            if self._made_to_measure >= _MOST_VIEWS:
                wanted = [simple for spec in wanted for simple in _simpler(spec)]
            else:
                self._made_to_measure += 1
        return [self._view(spec) for spec in wanted]

    def _view(self, spec: _Spec) -> _View[E]:
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
    return by_value or [_Spec(wide, intervals=(interval,)) for interval in spec.intervals[:1]] or [_Spec(wide)]


def _specs(shared: Sequence[str], kinds: dict[str, Kind], wide: bool) -> list[_Spec]:
    """The questions to choose from, given the kinds of the covering box on the shared names."""
    ones = tuple(name for name in shared if kinds[name] not in (ABSENT, MIXED) and kinds[name][1] == Form.ONE)
    intervals = [(name, False) for name in shared if kinds[name][1] in (Form.RANGE, Form.SUFFIX)]
    intervals += [(name, True) for name in shared if kinds[name][1] == Form.SUFFIX]
    spec = _Spec(wide, ones, None, tuple(intervals))
    return [spec._replace(few=name) for name in shared if kinds[name][1] == Form.FEW] or [spec]


class Index(Generic[E]):
    """Entries of one class, found by what they may cover or be covered by.

    >>> index = Index(Filter)
    >>> for text in ("x > 3", "x > 5 and y = 1", "y = 2"):
    ...     index.add(Entry(Filter.parse(text)))
    >>> [str(each.element) for each in index.may_cover(Entry(Filter.parse("x > 4 and y = 2")))]
    ['x > 3', 'y = 2']
    """

    def __init__(self, kind: type[E]) -> None:
        self._fewer_cover = kind is Filter
        """A filter that covers speaks of fewer names, an advertisement that covers speaks of more."""
        self._groups: dict[Signature, _Group[E]] = {}
        self._by_need: dict[Token | None, dict[_Group[E], None]] = {None: {}}
        """Each group under one of its names and kinds, the one with fewest others; ``None`` if it has no names."""
        self._by_offer: dict[Token, dict[_Group[E], None]] = {}
        """Each group under all the names and kinds that it gets along with."""
        self._plans: dict[tuple[Signature, bool], list[tuple[_Group[E], list[_Spec]]]] = {}

    def add(self, entry: Entry[E]) -> None:
        """Add an entry that is not there yet."""
        group = self._groups.get(entry.signature)
        if group is None:
            group = self._groups[entry.signature] = _Group(entry.signature)
            self._announce(group)
        group.add(entry)

    def remove(self, entry: Entry[E]) -> None:
        """Remove an entry that is there."""
        group = self._groups[entry.signature]
        group.remove(entry)
        if not group.entries:
            del self._groups[entry.signature]
            self._withdraw(group)

    def may_cover(self, asked: Entry[E]) -> Iterator[Entry[E]]:
        """Entries among which are all that cover the one asked about."""
        return self._search(asked, wide=True)

    def may_be_covered(self, asked: Entry[E]) -> Iterator[Entry[E]]:
        """Entries among which are all that the one asked about covers."""
        return self._search(asked, wide=False)

    def _search(self, asked: Entry[E], wide: bool) -> Iterator[Entry[E]]:
        for group, specs in self._plan(asked.signature, wide):
            views = group.views(specs)
            best = views[0] if len(views) == 1 else min(views, key=lambda view: view.estimate(asked))
            yield from best.search(asked)

    def _plan(self, signature: Signature, wide: bool) -> list[tuple[_Group[E], list[_Spec]]]:
        """The groups that can hold an answer for a signature, and what to ask them."""
        plan = self._plans.get((signature, wide))
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            is_within = self._fewer_cover is wide
            groups = self._needing_at_most(signature) if is_within else self._offering(signature)
            plan = [(group, _questions(signature, group.signature, wide, is_within)) for group in groups]
            self._plans[signature, wide] = plan
        return plan

    def _announce(self, group: _Group[E]) -> None:
        self._plans.clear()
        need = min(group.signature, key=lambda token: len(self._by_need.get(token, ())), default=None)
        self._by_need.setdefault(need, {})[group] = None
        for token in self._offer(group.signature):
            self._by_offer.setdefault(token, {})[group] = None

    def _withdraw(self, group: _Group[E]) -> None:
        self._plans.clear()
        for need in (None, *group.signature):
            self._by_need.get(need, {}).pop(group, None)
        for token in self._offer(group.signature):
            self._by_offer[token].pop(group)

    def _offer(self, signature: Signature) -> list[Token]:
        kin = covering_kinds if self._fewer_cover else covered_kinds
        return [(name, other) for name, kind in signature for other in kin(kind)]

    def _needing_at_most(self, signature: Signature) -> list[_Group[E]]:
        """The groups all of whose names and kinds get along with a signature."""
        offer: dict[Token, None] = dict.fromkeys(self._offer(signature))
        return [
            group
            for token in (None, *offer)
            for group in self._by_need.get(token, ())
            if all(need in offer for need in group.signature)
        ]

    def _offering(self, signature: Signature) -> list[_Group[E]]:
        """The groups that get along with all names and kinds of a signature."""
        if not signature:
            return list(self._groups.values())
        lists = sorted((self._by_offer.get(token, {}) for token in signature), key=len)
        return [group for group in lists[0] if all(group in others for others in lists[1:])]


def _questions(asked: Signature, stored: Signature, wide: bool, is_within: bool) -> list[_Spec]:
    covering = stored if wide else asked
    fewer = stored if is_within else asked
    return _specs([name for name, _ in fewer], dict(covering), wide)
