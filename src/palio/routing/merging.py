"""What a neighbour is told instead of all that it has to know.

Perfect merging: the union of what a neighbour was told equals the union of what the table says it has to know.
Imperfect merging: the former covers the latter, and what each merged filter selects beyond its parts keeps within the
budget (:class:`~palio.routing.unions.Merging`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic

from palio.matching.candidates import E, Entry, Index
from palio.matching.sharing import is_never
from palio.routing.unions import Merging, unite


class Merged(Generic[E]):
    """Filters, or advertisements, of one source for one neighbour: which of them were told as one.

    Only what becomes known at the same time is merged, with what came apart just then; so nothing is taken back only
    to be told as a part of something else, and the cost is that of the change and not that of the table. What comes
    later joins a merged element that covers it, without a word.

    >>> from palio.model import Filter
    >>> one, two, three = (Filter.parse(f"integer x = {number}") for number in (1, 2, 3))
    >>> merged = Merged(Filter, Merging())
    >>> merged.change([one, two, three], [])
    ([Filter.parse('integer x >= 1 and integer x <= 3')], [])
    >>> merged.change([], [three])
    ([Filter.parse('integer x >= 1 and integer x <= 2')], [Filter.parse('integer x >= 1 and integer x <= 3')])
    """

    def __init__(self, kind: type[E], limits: Merging) -> None:
        self._limits = limits
        self._parts: dict[E, dict[E, None]] = {}
        self._merged_of: dict[E, E] = {}
        self._index: Index[Entry[E]] = Index(kind)
        self._entries: dict[E, Entry[E]] = {}
        self._touched: dict[E, None] = {}

    def groups(self) -> Mapping[E, Iterable[E]]:
        """What was told, with the parts that it stands for; to be looked at only."""
        return self._parts

    def touched(self) -> dict[E, tuple[E, ...]]:
        """The merged elements that have changed since this was last asked; without parts if they are no more."""
        touched, self._touched = self._touched, {}
        return {each: tuple(self._parts.get(each, ())) for each in touched}

    def change(self, begun: Iterable[E], ended: Iterable[E]) -> tuple[list[E], list[E]]:
        """What has to be known has changed: what has to be told about it, and then taken back."""
        fresh = dict.fromkeys(begun)
        over: dict[E, None] = {}
        for each in ended:
            merged = self._merged_of.pop(each, None)
            if merged is None:
                over[each] = None
            else:
                del self._parts[merged][each]
                over[merged] = None
        for each in over:
            if each in self._parts:
                fresh.update(self.split(each))
        told = self._form(self._absorb(fresh))
        return [each for each in told if each not in over], [each for each in over if each not in told]

    def combine(self, merged: E, parts: Iterable[E]) -> None:
        """From now on an element stands for others."""
        self._parts[merged] = dict.fromkeys(parts)
        self._merged_of.update(dict.fromkeys(self._parts[merged], merged))
        self._touched[merged] = None
        entry = self._entries[merged] = Entry(merged)
        self._index.add(entry)

    def split(self, merged: E) -> dict[E, None]:
        """An element stands for others no longer, and these are on their own again."""
        self._touched[merged] = None
        self._index.remove(self._entries.pop(merged))
        parts = self._parts.pop(merged)
        for part in parts:
            del self._merged_of[part]
        return parts

    def _absorb(self, fresh: Iterable[E]) -> list[E]:
        """Let merged elements that were told stand for new ones that they cover; those that are left."""
        left = []
        for each in fresh:
            merged = None if is_never(each) or not self._parts else self._covering(each)
            if merged is None:
                left.append(each)
            else:
                self._parts[merged][each] = None
                self._merged_of[each] = merged
                self._touched[merged] = None
        return left

    def _covering(self, element: E) -> E | None:
        for entry in self._index.may_cover(Entry(element)):
            if len(self._parts[entry.element]) < self._limits.parts and entry.element.covers(element):
                return entry.element
        return None

    def _form(self, fresh: list[E]) -> dict[E, None]:
        """Merge new elements with each other as far as possible; what is to be told of them."""
        told = dict.fromkeys(each for each in fresh if is_never(each))
        for united in unite([each for each in fresh if each not in told], self._limits):
            if len(united.parts) > 1 and united.element not in self._parts:
                self.combine(united.element, united.parts)
                told[united.element] = None
            else:
                told.update(dict.fromkeys(united.parts))
        return told
