"""Items with pairs of coordinates, and which of them lie below in all the first ones and above in all the second.

Intervals that contain a given one are such a question: lower end not above, upper end not below. So are intervals
inside one, with the ends swapped. The tree splits at medians, one coordinate after the other; each node knows how far
its items reach, so that a search leaves out what cannot hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import gt, lt
from typing import Generic, TypeVar

from palio.model.sets.intervals import Boundary

T = TypeVar("T")
Vector = tuple[Boundary, ...]
Place = tuple[Vector, Vector]
"""The first coordinates and the second ones, as many of each."""

_LEAF = 12  # items up to which going through them all costs less than another level
_LOPSIDED = 0.75  # share of a node's items in one child from which on it is built anew


class _Node(Generic[T]):
    """A leaf has items; an inner node has two children, told apart by one coordinate."""

    __slots__ = ("built", "coordinate", "items", "least", "left", "most", "right", "size", "split")

    def __init__(self, items: dict[T, Place], depth: int) -> None:
        self.size = self.built = len(items)
        self.least: Vector = tuple(map(min, zip(*[firsts for firsts, _ in items.values()], strict=True)))
        self.most: Vector = tuple(map(max, zip(*[seconds for _, seconds in items.values()], strict=True)))
        self.items = items
        self.left: _Node[T] | None = None
        self.right: _Node[T] | None = None
        self.coordinate = depth
        self.split: Boundary = None
        if len(items) > _LEAF:
            self._divide(depth)

    def _divide(self, depth: int) -> None:
        """Split at the median of the first coordinate, from this depth's on, in which the items differ."""
        count = 2 * len(self.least)
        for coordinate in range(depth, depth + count):
            side, index = coordinate % 2, coordinate % count // 2
            values = sorted(place[side][index] for place in self.items.values())
            if values[0] != values[-1]:
                middle = values[len(values) // 2]
                if middle == values[0]:
                    middle = next(value for value in values if value != middle)
                self.coordinate, self.split = coordinate % count, middle
                low = {what: place for what, place in self.items.items() if place[side][index] < middle}
                high = {what: place for what, place in self.items.items() if what not in low}
                self.left, self.right = _Node(low, coordinate + 1), _Node(high, coordinate + 1)
                self.items = {}
                return

    def child(self, place: Place) -> _Node[T]:
        assert self.left is not None
        assert self.right is not None
        return self.left if place[self.coordinate % 2][self.coordinate // 2] < self.split else self.right

    def all_items(self) -> dict[T, Place]:
        found: dict[T, Place] = {}
        nodes = [self]
        while nodes:
            node = nodes.pop()
            found.update(node.items)
            if node.left is not None and node.right is not None:
                nodes += (node.right, node.left)
        return found

    def is_overgrown(self) -> bool:
        """Whether it has doubled, and building it anew would make it better; asked once for each doubling."""
        if self.size <= 2 * self.built or self.size <= _LEAF:
            return False
        self.built = self.size
        return self.left is None or not 1 - _LOPSIDED < self.left.size / self.size < _LOPSIDED

    def widen(self, firsts: Vector, seconds: Vector) -> None:
        if any(map(gt, self.least, firsts)):
            self.least = tuple(map(min, self.least, firsts))
        if any(map(lt, self.most, seconds)):
            self.most = tuple(map(max, self.most, seconds))


class DominanceTree(Generic[T]):
    """A set of items with their coordinates; those in one position must be comparable.

    >>> tree = DominanceTree()
    >>> tree.add("wide", ((0,), (10,)))
    >>> tree.add("narrow", ((4,), (5,)))
    >>> list(tree.search(((3,), (7,))))
    ['wide']

    Without coordinates it is a plain set.
    """

    __slots__ = ("_few", "_root")

    def __init__(self) -> None:
        self._few: tuple[tuple[T, Place], ...] = ()
        """All items while they are few: most cells of an index hold one or two, and there are very many cells."""
        self._root: _Node[T] | None = None

    def __len__(self) -> int:
        return len(self._few) if self._root is None else self._root.size

    def add(self, what: T, place: Place) -> None:
        """Add an item that is not there yet."""
        if self._root is None:
            self._few = (*self._few, (what, place))
            if len(self._few) > _LEAF:
                self._root, self._few = _Node(dict(self._few), 0), ()
            return
        path = self._path(self._root, place)
        for node in path:
            if node.size:
                node.widen(*place)
            else:
                node.least, node.most = place
            node.size += 1
        path[-1].items[what] = place
        for level, node in enumerate(path):
            if node.is_overgrown():
                self._rebuild(path, level)
                break

    def remove(self, what: T, place: Place) -> bool:
        """Remove an item from the place where it was added; whether it was there."""
        if self._root is None:
            known = len(self._few)
            self._few = tuple([item for item in self._few if item[0] != what])
            return len(self._few) < known
        path = self._path(self._root, place)
        if path[-1].items.pop(what, None) is None:
            return False
        for node in path:
            node.size -= 1
        for level, node in enumerate(path):
            if 2 * node.size < node.built:  # what the nodes know of their reach has become too generous
                self._rebuild(path, level)
                break
        return True

    def search(self, place: Place) -> Iterator[T]:
        """The items none of whose first coordinates is above, and none of whose second ones is below, these."""
        firsts, seconds = place
        if self._root is None:
            for what, (its_firsts, its_seconds) in self._few:
                if not any(map(gt, its_firsts, firsts)) and not any(map(lt, its_seconds, seconds)):
                    yield what
            return
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            if any(map(gt, node.least, firsts)) or any(map(lt, node.most, seconds)):
                continue
            if node.left is not None and node.right is not None:
                nodes += (node.left, node.right)
            else:
                for what, (its_firsts, its_seconds) in node.items.items():
                    if not any(map(gt, its_firsts, firsts)) and not any(map(lt, its_seconds, seconds)):
                        yield what

    @staticmethod
    def _path(root: _Node[T], place: Place) -> list[_Node[T]]:
        path = [root]
        while path[-1].left is not None:
            path.append(path[-1].child(place))
        return path

    def _rebuild(self, path: list[_Node[T]], level: int) -> None:
        old = path[level]
        new = _Node(old.all_items(), old.coordinate)
        if level == 0:
            self._root = new
        elif path[level - 1].left is old:
            path[level - 1].left = new
        else:
            path[level - 1].right = new
