"""Where to look for what covers a filter or an advertisement, and for what it covers.

Both are boxes: a set of values for each name. In both, a box covers another when on certain *shared* names its sets
cover the other's: the covering filter's names, the covered advertisement's names. An :class:`Index` misses no pair and
leaves most others out, in three steps:

* Boxes with the same names and the same kinds of sets (``features.Kind``) form a *group*. From names and kinds alone it
  is clear which groups can hold an answer.
* Within a group, single values on the shared names are looked up in a dictionary.
* Intervals are searched in a tree (``dominance.py``).

How a group is organized depends on the names and kinds that the question is about. Such a view (``views.py``) is built,
step by step, when it is first asked for, and kept up to date from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic

from palio.matching.features import ABSENT, Form, Kind, covered_kinds, covering_kinds
from palio.matching.groups import Directory, Signature
from palio.matching.preparation import ENTERING
from palio.matching.views import Entry, N, Reading, Spec, View
from palio.model.advertisement import Advertisement
from palio.model.filter import Filter

_MOST_VIEWS: Final = 8
"""Views of a group that are made to measure for a question; further questions make do with simpler ones."""
_MOST_PLANS: Final = 4096
_FEW_AMONG: Final = 8
_FEW_IN_GROUP: Final = 2
"""Entries of a group that are compared themselves: to look into a view of them would cost more."""
_FILLED: Final = 4
"""Entries that are put into a view in one step."""
_SEARCHED: Final = 32
"""Groups that are searched in one step."""


class _Group(Generic[N]):
    """The boxes of one signature, with views of them."""

    __slots__ = ("_made_to_measure", "_views", "entries", "signature")

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.entries: dict[N, None] = {}
        self._views: dict[Spec, View[N]] = {}
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

    def views(self, wanted: Sequence[Spec]) -> list[View[N]]:
        """Views that serve the question, as good as can be had."""
        if any(spec not in self._views for spec in wanted):
            wide = wanted[0].wide
            if self._made_to_measure[wide] >= _MOST_VIEWS:
                wanted = [simple for spec in wanted for simple in _simpler(spec)]
            else:
                self._made_to_measure[wide] += 1
        return [self._view(spec) for spec in wanted]

    def _view(self, spec: Spec) -> View[N]:
        if spec not in self._views:
            self._views[spec] = View(spec, self.entries)
        return self._views[spec]


def _simpler(spec: Spec) -> list[Spec]:
    """Weaker questions about one name each, of which there are not many."""
    wide = spec.wide
    by_value = [Spec(wide, ones=(name,)) for name in spec.ones]
    if spec.few is not None:
        by_value.append(Spec(wide, few=spec.few))
    if spec.part is not None:
        by_value.append(Spec(wide, part=spec.part))
    return by_value or [Spec(wide, intervals=(interval,)) for interval in spec.intervals[:1]] or [Spec(wide)]


def _specs(shared: Sequence[str], kinds: dict[str, Kind], wide: bool) -> list[Spec]:
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
    spec = Spec(wide, tuple(names.get(Form.ONE, ())), intervals=tuple(intervals), fews=fews, gaps=gaps)
    choices = [spec._replace(few=name) for name in fews]
    choices += [spec._replace(part=name) for name in names.get(Form.PART, ())]
    return choices or [spec]


class _Step(Generic[N]):
    """A group that can hold an answer, and what to ask it."""

    __slots__ = ("_group", "_specs", "_views")

    def __init__(self, group: _Group[N], specs: Callable[[], list[Spec]]) -> None:
        self._group: _Group[N] = group
        self._specs = specs
        self._views: list[View[N]] | None = None
        """Views to choose from, made when they are first needed."""

    def fill(self) -> Iterator[None]:
        """Make the views step by step."""
        for view in self._needed():
            while view.fill(_FILLED):
                yield

    def search(self, asked: Entry[Any]) -> Iterable[N]:
        """The entries of the group that may be answers. While they are few, all may: a view would cost more."""
        views = self._needed()
        if not views:
            return [each for each in self._group.entries if each.owner == asked.owner]
        for view in views:
            view.complete()
        best = views[0] if len(views) == 1 else min(views, key=lambda view: view.estimate(asked))
        return best.search(asked)

    def _needed(self) -> list[View[N]]:
        if self._views is None and len(self._group.entries) > _FEW_IN_GROUP:
            self._views = self._group.views(self._specs())
        return self._views or []


class Index(Generic[N]):
    """Entries of one class, found by what they may cover or be covered by.

    >>> index = Index(Filter)
    >>> for text in ("x > 3", "x > 5", "x > 7", "y = 2", "z = 2"):
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

    def find(self, asked: Entry[Any], wide: bool) -> Generator[int, None, list[N]]:
        """Search step by step, for what may cover an entry (``wide``) or for what it may cover; a step yields its cost.

        Between two steps entries may come and go; those that come meanwhile may be missing.
        """
        found: list[N] = []
        before = self._directory.effort
        plan = self._plan(asked.signature, wide)
        yield self._directory.effort - before
        for number, step in enumerate(plan, 1):
            for _ in step.fill():
                yield _FILLED * ENTERING
            found += step.search(asked)
            if not number % _SEARCHED:
                yield _SEARCHED
        return found

    def _search(self, asked: Entry[Any], wide: bool) -> Iterator[N]:
        for step in self._plan(asked.signature, wide):
            yield from step.search(asked)

    def _plan(self, signature: Signature, wide: bool) -> list[_Step[N]]:
        """The groups that can hold an answer for a signature, and what to ask them."""
        plan = self._plans.get((signature, wide))
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            is_within = self._fewer_cover is wide
            directory = self._directory
            groups = directory.needing_at_most(signature) if is_within else directory.offering(signature)
            plan = [_Step(group, partial(_questions, signature, group.signature, wide, is_within)) for group in groups]
            self._plans[signature, wide] = plan
        return plan


def _questions(asked: Signature, stored: Signature, wide: bool, is_within: bool) -> list[Spec]:
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

    def find(self, asked: Entry[Any], wide: bool) -> Generator[int, None, Sequence[N]]:
        """Search step by step: see :meth:`Index.find`."""
        return self._entries if self._is_few else (yield from self._index.find(asked, wide))

    @property
    def _is_few(self) -> bool:
        return len(self._entries) < _FEW_AMONG
