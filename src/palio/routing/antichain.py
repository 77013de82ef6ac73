"""What parties hold: filters, or advertisements, of which none of the same party covers another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

from palio.matching.candidates import E, Entry, Index
from palio.matching.sharing import is_never

_FEW = 8
"""Up to so many elements of a party are compared one by one; an index would cost more than it spares."""


class Antichain(Generic[E]):
    """Elements of which none covers another, in the order in which they came.

    Many antichains share one index: what is in it has an owner, and each finds only what is its own.

    >>> from palio.model import Filter
    >>> held = Antichain("me", Index(Filter))
    >>> held.add(Filter.parse("x > 5"))
    ()
    >>> held.add(Filter.parse("x > 3"))
    (Filter.parse('x > 5'),)
    >>> held.add(Filter.parse("x = 7")) is None
    True
    """

    __slots__ = ("_held", "_index", "_is_indexed", "_owner")

    def __init__(self, owner: str, index: Index[Entry[E]]) -> None:
        self._owner = owner
        self._index: Index[Entry[E]] = index
        self._held: dict[E, Entry[E] | None] = {}
        """With what is in the index, if they are."""
        self._is_indexed = False

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[E]:
        return iter(self._held)

    def __contains__(self, element: object) -> bool:
        return element in self._held

    def add(self, element: E) -> tuple[E, ...] | None:
        """Add an element; what it covers goes, and is returned. ``None`` if there is one that covers it."""
        asked = self._asked(element)
        if self._is_covered(element, asked):
            return None
        replaced = self._take(self._covered(element, asked))
        self._put(element, asked)
        return replaced

    def remove(self, element: E) -> tuple[E, ...]:
        """Take out all that the element covers, and say what that was."""
        return self._take(self._covered(element, self._asked(element)))

    def clear(self) -> None:
        """Take out all."""
        self._take(tuple(self._held))

    def _asked(self, element: E) -> Entry[E] | None:
        """How to ask the index, if it is of use; it knows nothing of elements that nothing can match."""
        return Entry(element, self._owner) if self._is_indexed and not is_never(element) else None

    def _is_covered(self, element: E, asked: Entry[E] | None) -> bool:
        if asked is not None:
            return any(each.element.covers(element) for each in self._index.may_cover(asked))
        return any(each.covers(element) for each in self._held)

    def _covered(self, element: E, asked: Entry[E] | None) -> tuple[E, ...]:
        if asked is None:
            return tuple(each for each in self._held if element.covers(each))
        found = {each.element: None for each in self._index.may_be_covered(asked) if element.covers(each.element)}
        return tuple(found) if len(found) < 2 else tuple(each for each in self._held if each in found)

    def _put(self, element: E, asked: Entry[E] | None) -> None:
        self._held[element] = asked
        if asked is not None:
            self._is_indexed = True
            self._index.add(asked)
        elif len(self._held) > _FEW:  # so none of them is one that nothing can match: that would be covered
            self._is_indexed = True
            for each in self._held:
                entry = self._held[each] = Entry(each, self._owner)
                self._index.add(entry)

    def _take(self, elements: tuple[E, ...]) -> tuple[E, ...]:
        for each in elements:
            entry = self._held.pop(each)
            if entry is not None:
                self._index.remove(entry)
        self._is_indexed = self._is_indexed and bool(self._held)
        return elements
