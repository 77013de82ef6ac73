"""Filters, or advertisements, ordered by covering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple

from palio.errors import CallerError, UnknownElementError, brief
from palio.matching.candidates import Index
from palio.matching.sharing import NOBODY, Node, SharedOrder, is_never
from palio.matching.views import E, Entry
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

    How it works: an index (``candidates.py``) proposes, ``covers`` decides. The maximal elements are kept apart
    (``sharing.py``, with one reader), and every other element hangs below one that covers it. So an insertion looks at
    maximal elements only, and a removal only at what hung below the removed element.
    """

    def __init__(self, kind: type[E], elements: Iterable[E] = ()) -> None:
        if kind not in (Filter, Advertisement):
            raise CallerError(f"an order holds Filter or Advertisement, not {brief(kind)}")
        self._kind: type[E] = kind
        self._nodes: dict[E, Node[E]] = {}
        self._inserted = 0
        self._all: Index[Node[E]] = Index(kind)
        self._never: Node[E] | None = None
        """The one that nothing can match, which the index does not hold."""
        self._order: SharedOrder[E] = SharedOrder(kind)
        for element in elements:
            self.insert(element)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[E]:
        return (node.element for node in self._nodes.values())

    def __contains__(self, element: object) -> bool:
        return isinstance(element, self._kind) and element in self._nodes

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
        if element in self._nodes:
            return Change(False, (), ())
        node = self._nodes[element] = Node(element, self._inserted)
        self._inserted += 1
        if node.is_never:
            self._never = node
        else:
            self._all.add(node)
        self._order.bar(node, NOBODY)
        return self._change()

    def remove(self, element: E) -> Change[E]:
        """Take an element out; :class:`~palio.errors.UnknownElementError` if it is not there.

        >>> order = CoveringOrder(Filter, map(Filter.parse, ["x > 3", "x > 5"]))
        >>> order.remove(Filter.parse("x > 3"))
        Change(changed=True, risen=(Filter.parse('x > 5'),), fallen=(Filter.parse('x > 3'),))
        """
        expect(element, self._kind)
        node = self._nodes.pop(element, None)
        if node is None:
            raise UnknownElementError(f"{brief(str(element))} is not in the order; 'in' tells what is")
        if node.is_never:
            self._never = None
        else:
            self._all.remove(node)
        self._order.remove(node)
        return self._change()

    def _change(self) -> Change[E]:
        """What became maximal, or is so no longer, since this was last asked."""
        touched = self._order.touched
        risen = [node for node in touched if node.free and not node.known]
        fallen = [node for node in touched if node.known and not node.free]
        for node in touched:
            node.known = node.free
        touched.clear()
        return Change(True, _in_order(risen), _in_order(fallen))

    # -- questions -----------------------------------------------------------------------------------------------------

    def maximal(self) -> tuple[E, ...]:
        """The elements that no other one covers."""
        return _in_order(self._order.free)

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

    def _coverers(self, element: E) -> list[Node[E]]:
        expect(element, self._kind)
        if is_never(element):
            return list(self._nodes.values())
        return [each for each in self._all.may_cover(Entry(element)) if each.element.covers(element)]

    def _covered(self, element: E) -> list[Node[E]]:
        expect(element, self._kind)
        never = [] if self._never is None else [self._never]
        if is_never(element):
            return never
        covers = element.covers
        return [each for each in self._all.may_be_covered(Entry(element)) if covers(each.element)] + never

    def _edge(self, nodes: list[Node[E]], lower: bool) -> list[Node[E]]:
        """The minimal (``lower``) or the maximal ones of some nodes."""
        if len(nodes) > 1 and not lower:
            nodes = [node for node in nodes if node is not self._never]
        index: Index[Node[E]] = Index(self._kind)
        edge: dict[Node[E], None] = {}
        for node in nodes:
            above = (each for each in index.may_cover(node) if each.element.covers(node.element))
            below = (each for each in index.may_be_covered(node) if node.element.covers(each.element))
            better, worse = (below, above) if lower else (above, below)
            if next(better, None) is not None:
                continue
            for other in list(worse):
                del edge[other]
                index.remove(other)
            edge[node] = None
            index.add(node)
        return list(edge)


def _in_order(nodes: Iterable[Node[E]]) -> tuple[E, ...]:
    return tuple(node.element for node in sorted(nodes, key=lambda node: node.number))
