"""What parties hold: filters, or advertisements, of which none of the same party covers another."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Generic

from palio.matching.candidates import Among, Index
from palio.matching.preparation import (
    ENTERING,
    Family,
    Preparation,
    Preparations,
    Relatives,
    Steps,
    cost_of,
)
from palio.matching.sharing import is_always, is_never
from palio.matching.views import E, Entry
from palio.model import Advertisement, Filter

_FEW = 8
"""Up to so many elements of a party are compared one by one; an index would cost more than it spares."""


class Antichain(Generic[E]):
    """Elements of which none covers another, in the order in which they came.

    Many antichains share one index: what is in it has an owner, and each finds only what is its own.

    >>> from palio.model import Advertisement, Filter
    >>> held = Antichain("me", Index(Filter))
    >>> held.add(Filter.parse("x > 5"))
    ()
    >>> held.add(Filter.parse("x > 3"))
    (Filter.parse('x > 5'),)
    >>> held.add(Filter.parse("x = 7")) is None
    True
    """

    __slots__ = ("_held", "_index", "_is_indexed", "_key", "_owner", "_preparations")

    def __init__(self, owner: str, index: Index[Entry[E]], preparations: Preparations | None = None) -> None:
        self._owner = owner
        self._preparations = preparations or Preparations()
        self._key: tuple[Index[Entry[E]], str] = index, owner
        """In preparations: an owner that holds nothing is forgotten, and is the same when it comes back."""
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

    def covered_by(self, element: E) -> tuple[E, ...]:
        """All that the element covers."""
        return self._covered(element, self._asked(element))

    def growth(self, element: E) -> int:
        """How many more elements there would be if one were added; it may replace others."""
        asked = self._asked(element)
        return 0 if self._is_covered(element, asked) else 1 - len(self._covered(element, asked))

    def remove(self, element: E) -> tuple[E, ...]:
        """Take out all that the element covers, and say what that was."""
        return self._take(self.covered_by(element))

    def clear(self) -> None:
        """Take out all."""
        self._take(tuple(self._held))

    def _asked(self, element: E) -> Entry[E] | None:
        """How to ask the index, if it is of use; it knows nothing of elements that nothing can match."""
        if not self._is_indexed or is_never(element):
            return None
        return self._preparations.item(self._key, element, self._entry)

    def _entry(self, element: E) -> Entry[E]:
        return Entry(element, self._owner)

    # -- ahead of changes ----------------------------------------------------------------------------------------------

    def prepare(self, preparation: Preparation, begins: Sequence[E], ends: Sequence[E] = ()) -> Steps:
        """Make the comparisons ahead that are needed to remove what some elements cover, and then to add others."""
        family: Family[E] = preparation.family(self._key, begins)
        among: Among[Entry[E]] | None = None
        if len(begins) > _FEW:
            among = Among(Filter if isinstance(begins[0], Filter) else Advertisement)
            for begun in begins:
                if not is_never(begun):
                    among.add(preparation.item(self._key, begun, self._entry))
                    yield ENTERING * cost_of(begun)
        for elements in (ends, begins):
            for element in elements:
                around = partial(self._around, preparation, element, begins, among)
                yield from preparation.compare(self._key, element, family, _itself, around)

    def foresee(self, preparation: Preparation, begins: Sequence[E], ends: Sequence[E] = ()) -> tuple[list[E], list[E]]:
        """What will be held in addition, and what will be held no longer, as far as the comparisons tell."""
        gone = {each: None for element in ends for each in self._foreseen(preparation, element).covered}
        begun = []
        for element in begins:
            found = self._foreseen(preparation, element)
            if not any(each in self._held and each not in gone for each in found.covering):
                begun.append(element)
                gone.update(dict.fromkeys(found.covered))
        return begun, [each for each in gone if each in self._held]

    def _foreseen(self, preparation: Preparation, element: E) -> Relatives[E]:
        found: Relatives[E] | None = preparation.relatives(self._key, element)
        assert found is not None
        return found

    def _around(
        self, preparation: Preparation, element: E, begins: Sequence[E], among: Among[Entry[E]] | None
    ) -> Generator[int, None, tuple[list[E], list[E]]]:
        """What may cover an element, and what it may cover, of what is held and of what will be."""
        asked: Entry[E] | None = None
        if (self._is_indexed or among is not None) and not is_never(element):
            asked = preparation.item(self._key, element, self._entry)
        wide = yield from self._candidates(asked, begins, among, wide=True)
        if is_always(element):  # it covers all, so that there is nothing to look for
            asked = None
        return wide, (yield from self._candidates(asked, begins, among, wide=False))

    def _candidates(
        self, asked: Entry[E] | None, begins: Sequence[E], among: Among[Entry[E]] | None, *, wide: bool
    ) -> Generator[int, None, list[E]]:
        found: list[E] = []
        if asked is not None and self._is_indexed:
            found += [each.element for each in (yield from self._index.find(asked, wide))]
        else:
            found += self._held
        if asked is not None and among is not None:
            found += [each.element for each in (yield from among.find(asked, wide))]
        else:
            found += begins
        return found

    # -- comparisons ---------------------------------------------------------------------------------------------------

    def _is_covered(self, element: E, asked: Entry[E] | None) -> bool:
        found: Relatives[E] | None = self._preparations.relatives(self._key, element)
        if found is not None:
            return any(
                each in self._held and (is_known or each.covers(element)) for each, is_known in found.may_cover()
            )
        if asked is not None:
            return any(each.element.covers(element) for each in self._index.may_cover(asked))
        return any(each.covers(element) for each in self._held)

    def _covered(self, element: E, asked: Entry[E] | None) -> tuple[E, ...]:
        if is_always(element):
            return tuple(self._held)
        prepared: Relatives[E] | None = self._preparations.relatives(self._key, element)
        if prepared is not None:
            found = {
                each: None
                for each, is_known in prepared.may_be_covered()
                if each in self._held and (is_known or element.covers(each))
            }
        elif asked is not None:
            found = {each.element: None for each in self._index.may_be_covered(asked) if element.covers(each.element)}
        else:
            return tuple(each for each in self._held if element.covers(each))
        return tuple(found) if len(found) < 2 else tuple(each for each in self._held if each in found)

    def _put(self, element: E, asked: Entry[E] | None) -> None:
        self._held[element] = asked
        self._preparations.note(self._key, element)
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


def _itself(element: E) -> E:
    return element
