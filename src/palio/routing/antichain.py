"""What one party holds: filters, or advertisements, of which none covers another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

from palio.matching.candidates import E
from palio.matching.covering import CoveringOrder

_FEW = 64
"""Up to so many elements are compared one by one; an index would cost more than it spares."""


class Antichain(Generic[E]):
    """Elements of which none covers another, in the order in which they came.

    >>> from palio.model import Filter
    >>> held = Antichain(Filter)
    >>> held.add(Filter.parse("x > 5"))
    ()
    >>> held.add(Filter.parse("x > 3"))
    (Filter.parse('x > 5'),)
    >>> held.add(Filter.parse("x = 7")) is None
    True
    """

    __slots__ = ("_held", "_kind", "_order")

    def __init__(self, kind: type[E]) -> None:
        self._kind: type[E] = kind
        self._held: dict[E, None] = {}
        self._order: CoveringOrder[E] | None = None

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[E]:
        return iter(self._held)

    def __contains__(self, element: object) -> bool:
        return element in self._held

    def add(self, element: E) -> tuple[E, ...] | None:
        """Add an element; what it covers goes, and is returned. ``None`` if there is one that covers it."""
        if self._covering(element):
            return None
        replaced = self.remove(element)
        self._held[element] = None
        if self._order is not None:
            self._order.insert(element)
        elif len(self._held) > _FEW:
            self._order = CoveringOrder(self._kind, self._held)
        return replaced

    def remove(self, element: E) -> tuple[E, ...]:
        """Take out all that the element covers, and say what that was."""
        removed = self._covered(element)
        for each in removed:
            del self._held[each]
            if self._order is not None:
                self._order.remove(each)
        return removed

    def _covering(self, element: E) -> bool:
        if self._order is not None:
            return bool(self._order.covering(element))
        return any(each.covers(element) for each in self._held)

    def _covered(self, element: E) -> tuple[E, ...]:
        if self._order is not None:
            return self._order.covered_by(element)
        return tuple(each for each in self._held if element.covers(each))
