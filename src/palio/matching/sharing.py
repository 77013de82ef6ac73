"""One order by covering for several readers, each of whom sees a part of its elements.

For each reader every element is one of three: *barred* (the reader does not see it), *free* (no other element that the
reader sees covers it), or hanging below exactly one element that the reader sees and that covers it. So each reader has
a forest whose roots are the maximal elements of what it sees; as most readers see nearly the same, one edge stands for
all the forests that it is part of.

Sets of readers are numbers whose bits are the readers. A reader that never said anything has a bit as well, one of the
endlessly many leading ones of a negative number, and sees everything: so a new reader costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Generic

from palio.matching.candidates import Among, Index
from palio.matching.preparation import (
    ENTERING,
    Indexed,
    Preparation,
    Preparations,
    Relatives,
    Searching,
    Steps,
    cost_of,
)
from palio.matching.views import E, Entry
from palio.model.advertisement import Advertisement
from palio.model.filter import Filter

EVERYBODY: Final = -1
NOBODY: Final = 0


def is_never(element: Filter | Advertisement) -> bool:
    """Whether nothing can match; every filter covers such a one. There is no such advertisement."""
    return isinstance(element, Filter) and not element.is_satisfiable()


def is_always(element: Filter | Advertisement) -> bool:
    """Whether everything matches: such a filter covers all others. There is no such advertisement."""
    return isinstance(element, Filter) and not element.constraints


class Node(Entry[E]):
    """An element with its place in the forests of all readers."""

    __slots__ = ("above", "barred", "below", "free", "is_never", "known", "number")

    def __init__(self, element: E, number: int = 0) -> None:
        super().__init__(element)  # type: ignore[arg-type]  # mypy forgets which of the two classes E is
        self.number = number
        self.is_never = is_never(element)
        self.barred: int = EVERYBODY
        """At first, and again when it was removed, it is barred for everybody, and only then."""
        self.free: int = NOBODY
        self.above: dict[Node[E], int] = {}
        """What it hangs below, with the readers for whom it does; no reader occurs twice."""
        self.below: dict[Node[E], None] = {}
        self.known: int = NOBODY
        """For the owner of the order: for which readers the element was free when that was last of interest."""


def _members_around(members: list[Node[E]], among: Among[Node[E]], node: Node[E]) -> Searching[Node[E]]:
    """The members of a family that may cover a node, and those that it may cover."""
    if node.is_never:
        return members, []  # the index does not know such nodes
    wide = yield from among.find(node, wide=True)
    return wide, (yield from among.find(node, wide=False))


def _element_of(node: Node[E]) -> E:
    return node.element


class SharedOrder(Generic[E]):
    """Elements ordered by covering, for all readers at once.

    >>> order = SharedOrder(Filter)
    >>> wide, narrow = Node(Filter.parse("x > 3")), Node(Filter.parse("x > 5"))
    >>> order.bar(wide, 0b10)
    >>> order.bar(narrow, 0b00)
    >>> bin(wide.free & 0b111), bin(narrow.free & 0b111)
    ('0b101', '0b10')
    """

    def __init__(self, kind: type[E], preparations: Preparations | None = None) -> None:
        self._kind: type[E] = kind
        self._preparations = preparations or Preparations()
        self.touched: dict[Node[E], None] = {}
        """Nodes that became free for somebody, or are so no longer; the owner clears it."""
        self.free: dict[Node[E], None] = {}
        """Nodes that are free for anybody."""
        self._index: Index[Node[E]] = Index(kind)
        """The same, but for the one that nothing can match."""
        self._never: Node[E] | None = None

    def new_node(self, element: E) -> Node[E]:
        """A node for an element that is not there yet; nobody sees it so far."""
        make: Callable[[E], Node[E]] = Node
        return self._preparations.item(self, element, make)

    def bar(self, node: Node[E], barred: int) -> None:
        """From now on these readers do not see the element, and all others do; at first nobody sees it."""
        if barred == node.barred:
            return
        if node.is_never:
            self._never = None if barred == EVERYBODY else node
        leaving, coming = barred & ~node.barred, node.barred & ~barred
        node.barred = barred
        if leaving:
            self._withdraw(node, leaving)
        if coming:
            self._settle(node, coming)

    def remove(self, node: Node[E]) -> None:
        """Nobody sees the element any more."""
        self.bar(node, EVERYBODY)

    def _settle(self, node: Node[E], readers: int) -> None:
        """Hang a node below free ones that cover it; for whom there is none, it is free and tops what it covers."""
        element = node.element
        for other, is_known in self._may_cover(node):
            shared = readers & other.free
            if shared and other is not node and (is_known or other.element.covers(element)):
                self._hang(node, other, shared)
                readers &= ~shared
                if not readers:
                    return
        topped = [
            other
            for other, is_known in self._may_be_covered(node)
            if other.free & readers and other is not node and (is_known or element.covers(other.element))
        ]
        for other in topped:
            shared = other.free & readers
            self._set_free(other, other.free & ~shared)
            self._hang(other, node, shared)
        self._set_free(node, node.free | readers)

    def _withdraw(self, node: Node[E], readers: int) -> None:
        """Take a node out of some forests.

        Covering is transitive: what hung below it can hang below what it hung below itself. Where it was free, what
        hung below it looks for another hold.
        """
        free = node.free & readers
        ways = [(other, readers & shared) for other, shared in node.above.items() if readers & shared]
        for other, shared in ways:
            self._loosen(node, other, shared)
        if free:
            self._set_free(node, node.free & ~free)
        loose: list[tuple[Node[E], int]] = []
        for child in [child for child in node.below if child.above[node] & readers]:
            hung = child.above[node] & readers
            self._loosen(child, node, hung)
            for other, shared in ways:
                if hung & shared:
                    self._hang(child, other, hung & shared)
            if hung & free:
                loose.append((child, hung & free))
        for child, hung in loose:
            self._settle(child, hung)

    @staticmethod
    def _hang(node: Node[E], other: Node[E], readers: int) -> None:
        node.above[other] = node.above.get(other, NOBODY) | readers
        other.below[node] = None

    @staticmethod
    def _loosen(node: Node[E], other: Node[E], readers: int) -> None:
        left = node.above[other] & ~readers
        if left:
            node.above[other] = left
        else:
            del node.above[other], other.below[node]

    def _set_free(self, node: Node[E], free: int) -> None:
        was_free = node.free
        node.free = free
        self.touched[node] = None
        if free & ~was_free:
            self._preparations.note(self, node)
        if bool(was_free) is not bool(free):
            if free:
                self.free[node] = None
            else:
                del self.free[node]
            if not node.is_never:
                (self._index.add if free else self._index.remove)(node)

    def _may_cover(self, node: Node[E]) -> Iterator[tuple[Node[E], bool]]:
        """Nodes among which are all free ones that cover a node, and whether it is known that they do."""
        found: Relatives[Node[E]] | None = self._preparations.relatives(self, node.element)
        return ((each, False) for each in self._wide(node)) if found is None else found.may_cover()

    def _may_be_covered(self, node: Node[E]) -> Iterator[tuple[Node[E], bool]]:
        """Nodes among which are all free ones that a node covers, and whether it is known that it does."""
        found: Relatives[Node[E]] | None = self._preparations.relatives(self, node.element)
        return ((each, False) for each in self._narrow(node)) if found is None else found.may_be_covered()

    def _wide(self, node: Node[E]) -> Iterator[Node[E]]:
        return iter(self.free) if node.is_never else self._index.may_cover(node)

    def _narrow(self, node: Node[E]) -> Iterator[Node[E]]:
        if is_always(node.element):
            yield from self.free
        elif not node.is_never:
            yield from self._index.may_be_covered(node)
            if self._never is not None:
                yield self._never

    # -- ahead of changes ----------------------------------------------------------------------------------------------

    def prepare_placing(self, preparation: Preparation, elements: Iterable[E], known: Mapping[E, Node[E]]) -> Steps:
        """Compare elements that will be placed together with all others, and with each other.

        ``known`` has the nodes of those that are placed already: they leave their places before.
        """

        def node(element: E) -> Node[E]:
            return known.get(element) or Node(element)

        yield from self._prepare(preparation, [preparation.item(self, element, node) for element in elements])

    def prepare_removal(self, preparation: Preparation, node: Node[E]) -> Steps:
        """Compare the elements that hang below one with all others, and with each other: it will be removed."""
        if node.free:
            yield from self._prepare(preparation, list(node.below))

    def prepare_change(self, preparation: Preparation, shown: Iterable[Node[E]], hidden: Iterable[Node[E]]) -> Steps:
        """Make the comparisons ahead for nodes that a reader will see, or see no longer."""
        below = {child: None for node in hidden if node.free for child in node.below}
        yield from self._prepare(preparation, list(below | dict.fromkeys(shown)))

    def _prepare(self, preparation: Preparation, nodes: list[Node[E]]) -> Steps:
        nodes = [node for node in nodes if not node.is_never]
        family = preparation.family(self, nodes)
        among: Among[Node[E]] = Among(self._kind)
        preparation.note_index(Indexed(self, family, _element_of, partial(_members_around, nodes, among)))
        for node in nodes:
            among.add(node)
            yield ENTERING * cost_of(node.element)
        for node in nodes:
            yield from preparation.compare(self, node.element, family, _element_of, partial(self._around, node, among))

    def _around(self, node: Node[E], among: Among[Node[E]]) -> Searching[Node[E]]:
        wide: list[Node[E]] = yield from self._index.find(node, wide=True)
        wide += yield from among.find(node, wide=True)
        narrow: list[Node[E]] = []
        if is_always(node.element):
            narrow += self.free
        else:
            narrow += yield from self._index.find(node, wide=False)
            if self._never is not None:
                narrow.append(self._never)
        narrow += yield from among.find(node, wide=False)
        return wide, narrow

    # -- all elements at once ------------------------------------------------------------------------------------------

    def show_all(self, nodes: Iterable[Node[E]], reader: int) -> None:
        """One reader sees all elements, which are among the given ones: its forest is that of a reader that is new."""
        for node in nodes:
            if node.barred == EVERYBODY:
                continue
            node.barred &= ~reader
            for other, shared in tuple(node.above.items()):
                if shared < 0:
                    node.above[other] = shared | reader
                elif shared & reader:
                    self._loosen(node, other, reader)
            free = node.free | reader if node.free < 0 else node.free & ~reader
            if free != node.free:
                self._set_free(node, free)

    def hide_all(self, nodes: Iterable[Node[E]], reader: int) -> None:
        """One reader sees none of the elements, which are among the given ones."""
        for node in nodes:
            node.barred |= reader
            for other, shared in tuple(node.above.items()):
                if shared & reader:
                    self._loosen(node, other, reader)
            if node.free & reader:
                self._set_free(node, node.free & ~reader)
