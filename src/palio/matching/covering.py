"""Filters, or advertisements, ordered by covering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple

from palio.errors import CallerError, UnknownElementError, brief
from palio.matching.candidates import E, Entry, Index
from palio.model.advertisement import Advertisement
from palio.model.conditions import expect
from palio.model.filter import Filter


class Change(NamedTuple, Generic[E]):
    """What an insertion or a removal did; false if it did nothing.

    >>> bool(Change(False, (), ()))
    False
    """

    changed: bool
    """Whether the order has changed."""
    risen: tuple[E, ...]
    """Elements that have become maximal, in the order of their insertion."""
    fallen: tuple[E, ...]
    """Elements that are no longer maximal, those that were removed among them."""

    def __bool__(self) -> bool:
        return self.changed


class CoveringOrder(Generic[E]):
    """A set of filters, or of advertisements, that knows which covers which.

    >>> order = CoveringOrder(Filter, map(Filter.parse, ["x > 3", "x > 5", "x > 5 and y = 1", "y = 2"]))
    >>> [str(f) for f in order.maximal()]
    ['x > 3', 'y = 2']
    >>> [str(f) for f in order.covering(Filter.parse("x = 7"))]
    ['x > 3', 'x > 5']
    >>> [str(f) for f in order.covered_by(Filter.parse("x > 4"))]
    ['x > 5', 'x > 5 and y = 1']
    >>> [str(f) for f in order.remove(Filter.parse("x > 3")).risen]
    ['x > 5']

    Elements that are equal (by canonical form) are one; the first that was inserted stands for all. Everything comes
    out in the order of insertion. Asking changes nothing, and what is asked about need not be an element.

    How it works: an index (``candidates.py``) proposes, ``covers`` decides. A second index holds the maximal elements
    alone, and every other element hangs below one that covers it. So an insertion looks at maximal elements only, and
    a removal only at what hung below the removed element.
    """

    def __init__(self, kind: type[E], elements: Iterable[E] = ()) -> None:
        if kind not in (Filter, Advertisement):
            raise CallerError(f"an order holds Filter or Advertisement, not {brief(kind)}")
        self._kind: type[E] = kind
        self._entries: dict[E, Entry[E]] = {}
        self._maximal: dict[Entry[E], None] = {}
        self._inserted = 0
        self._all: Index[E] = Index(kind)
        self._tops: Index[E] = Index(kind)
        """The maximal elements, as ``_maximal``; neither index holds the one that nothing can match."""
        self._never: Entry[E] | None = None
        for element in elements:
            self.insert(element)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[E]:
        return (entry.element for entry in self._entries.values())

    def __contains__(self, element: object) -> bool:
        return isinstance(element, self._kind) and element in self._entries

    def __repr__(self) -> str:
        return f"<CoveringOrder of {len(self)} {self._kind.__name__}s, {len(self.maximal())} of them maximal>"

    # -- changes -------------------------------------------------------------------------------------------------------

    def insert(self, element: E) -> Change[E]:
        """Add an element; nothing happens if it is there already.

        >>> order = CoveringOrder(Filter)
        >>> order.insert(Filter.parse("x > 3"))
        Change(changed=True, risen=(Filter.parse('x > 3'),), fallen=())
        >>> bool(order.insert(Filter.parse("x > 3")))
        False
        """
        expect(element, self._kind)
        if element in self._entries:
            return Change(False, (), ())
        before = self._alone()
        entry = self._entries[element] = Entry(element, self._inserted)
        self._inserted += 1
        fallen: list[Entry[E]] = []
        if _is_never(element):
            self._never = entry
        else:
            self._all.add(entry)
            fallen = self._settle(entry)
        risen = [entry] if entry in self._maximal else []
        return self._change(before, risen, fallen)

    def remove(self, element: E) -> Change[E]:
        """Take an element out; :class:`~palio.errors.UnknownElementError` if it is not there.

        >>> order = CoveringOrder(Filter, map(Filter.parse, ["x > 3", "x > 5"]))
        >>> order.remove(Filter.parse("x > 3"))
        Change(changed=True, risen=(Filter.parse('x > 5'),), fallen=(Filter.parse('x > 3'),))
        """
        expect(element, self._kind)
        before = self._alone()
        entry = self._entries.pop(element, None)
        if entry is None:
            raise UnknownElementError(f"{brief(str(element))} is not in the order; 'in' tells what is")
        risen: list[Entry[E]] = []
        fallen: list[Entry[E]] = []
        if entry is self._never:
            self._never = None
        else:
            self._all.remove(entry)
            if entry.parent is not None:
                self._hand_over(entry, entry.parent)
            else:
                fallen = [entry]
                risen = self._release(entry)
        return self._change(before, risen, fallen)

    def _settle(self, entry: Entry[E]) -> list[Entry[E]]:
        """Hang an entry below a maximal one that covers it, or make it maximal; what it tops is returned."""
        covers = entry.element.covers
        for other in self._tops.may_cover(entry):
            if other.element.covers(entry.element):
                entry.parent = other
                other.children[entry] = None
                return []
        topped = [other for other in self._tops.may_be_covered(entry) if covers(other.element)]
        for other in topped:
            self._lower(other)
            other.parent = entry
            entry.children[other] = None
        self._maximal[entry] = None
        self._tops.add(entry)
        return topped

    def _lower(self, entry: Entry[E]) -> None:
        del self._maximal[entry]
        self._tops.remove(entry)

    def _hand_over(self, entry: Entry[E], parent: Entry[E]) -> None:
        """Covering is transitive: what hung below a removed entry can hang below the one that covered that."""
        del parent.children[entry]
        for child in entry.children:
            child.parent = parent
        parent.children.update(entry.children)

    def _release(self, entry: Entry[E]) -> list[Entry[E]]:
        """Remove a maximal entry; what hung below it looks for another hold, and what finds none has risen."""
        self._lower(entry)
        for child in entry.children:
            child.parent = None
            self._settle(child)
        return [child for child in entry.children if child in self._maximal]

    def _alone(self) -> Entry[E] | None:
        """The entry that nothing can match, if it is maximal, as there is no other."""
        return self._never if len(self._entries) == 1 else None

    def _change(self, before: Entry[E] | None, risen: list[Entry[E]], fallen: list[Entry[E]]) -> Change[E]:
        """The entry that nothing can match, alone before or after, is not among the maximal ones of the indexes."""
        after = self._alone()
        if before is not after:
            risen = risen + [entry for entry in (after,) if entry is not None]
            fallen = fallen + [entry for entry in (before,) if entry is not None]
        return Change(True, _in_order(risen), _in_order(fallen))

    # -- questions -----------------------------------------------------------------------------------------------------

    def maximal(self) -> tuple[E, ...]:
        """The elements that no other one covers."""
        alone = self._alone()
        return (alone.element,) if alone is not None else _in_order(self._maximal)

    def covering(self, element: E) -> tuple[E, ...]:
        """The elements that cover the given one; if it is an element, it is among them."""
        return _in_order(self._coverers(element))

    def covered_by(self, element: E) -> tuple[E, ...]:
        """The elements that the given one covers; if it is an element, it is among them."""
        return _in_order(self._covered(element))

    def predecessors(self, element: E) -> tuple[E, ...]:
        """The elements that cover the given one immediately: strictly, and without another one between.

        >>> order = CoveringOrder(Filter, map(Filter.parse, ["x any", "x > 3", "x > 5"]))
        >>> order.predecessors(Filter.parse("x > 5"))
        (Filter.parse('x > 3'),)
        """
        return _in_order(self._edge([each for each in self._coverers(element) if each.element != element], lower=True))

    def successors(self, element: E) -> tuple[E, ...]:
        """The elements that the given one covers immediately: strictly, and without another one between.

        >>> order = CoveringOrder(Filter, map(Filter.parse, ["x any", "x > 3", "x > 5"]))
        >>> order.successors(Filter.parse("x any"))
        (Filter.parse('x > 3'),)
        """
        return _in_order(self._edge([each for each in self._covered(element) if each.element != element], lower=False))

    def _coverers(self, element: E) -> list[Entry[E]]:
        expect(element, self._kind)
        if _is_never(element):
            return list(self._entries.values())
        return [each for each in self._all.may_cover(Entry(element)) if each.element.covers(element)]

    def _covered(self, element: E) -> list[Entry[E]]:
        expect(element, self._kind)
        never = [] if self._never is None else [self._never]
        if _is_never(element):
            return never
        covers = element.covers
        return [each for each in self._all.may_be_covered(Entry(element)) if covers(each.element)] + never

    def _edge(self, entries: list[Entry[E]], lower: bool) -> list[Entry[E]]:
        """The minimal (``lower``) or the maximal ones of some entries."""
        if len(entries) > 1 and not lower:
            entries = [entry for entry in entries if entry is not self._never]
        index = Index(self._kind)
        edge: dict[Entry[E], None] = {}
        for entry in entries:
            above = (each for each in index.may_cover(entry) if each.element.covers(entry.element))
            below = (each for each in index.may_be_covered(entry) if entry.element.covers(each.element))
            better, worse = (below, above) if lower else (above, below)
            if next(better, None) is not None:
                continue
            for other in list(worse):
                del edge[other]
                index.remove(other)
            edge[entry] = None
            index.add(entry)
        return list(edge)


def _is_never(element: Filter | Advertisement) -> bool:
    """Whether nothing can match; every filter covers such a one. There is no such advertisement."""
    return isinstance(element, Filter) and not element.is_satisfiable()


def _in_order(entries: Iterable[Entry[E]]) -> tuple[E, ...]:
    return tuple(entry.element for entry in sorted(entries, key=lambda entry: entry.number))
