"""What counts instead of all that was said: what a neighbour is told, or what a server holds from one.

Perfect merging: the union of what stands instead equals the union of what has to be known. Imperfect merging: the
former covers the latter, and what each merged filter selects beyond its parts keeps within the budget
(:class:`~palio.routing.unions.Merging`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic

from palio.matching.candidates import Index
from palio.matching.sharing import is_never
from palio.matching.views import E, Entry
from palio.routing.pool import Pool, in_order
from palio.routing.unions import Merging, United


class Merged(Generic[E]):
    """Filters, or advertisements, of one source: which of them stand as one.

    What is new is united with what stands already, if they are neighbours, so that what comes one by one is merged as
    well as what comes at once. What came apart because a part was cancelled is united only with its like, and with what
    is new. Thus churn has a bound: a cancellation ends one element, and begins one for each part that is left at most;
    what is new begins one element at most, which ends once, so that without cancellations there are no more than two
    changes for each new element. The cost is that of the change, not that of all.

    >>> from palio.model import Filter
    >>> one, two, three = (Filter.parse(f"integer x = {number}") for number in (1, 2, 3))
    >>> merged = Merged(Filter, Merging())
    >>> merged.change([one, two], [])
    ([Filter.parse('integer x >= 1 and integer x <= 2')], [])
    >>> merged.change([three], [])
    ([Filter.parse('integer x >= 1 and integer x <= 3')], [Filter.parse('integer x >= 1 and integer x <= 2')])
    >>> merged.change([], [one])
    ([Filter.parse('integer x >= 2 and integer x <= 3')], [Filter.parse('integer x >= 1 and integer x <= 3')])
    """

    def __init__(self, kind: type[E], limits: Merging) -> None:
        self._limits = limits
        self._pool: Pool[E] = Pool(limits)
        """What stands, with its parts."""
        self._stands_as: dict[E, E] = {}
        self._index: Index[Entry[E]] = Index(kind)
        """What stands for others, by what it covers."""
        self._entries: dict[E, Entry[E]] = {}
        self._touched: dict[E, None] = {}
        self._before: dict[E, bool] = {}
        """During a change: what it has touched, and whether that stood before."""

    def __contains__(self, part: object) -> bool:
        return part in self._stands_as

    def groups(self) -> Iterator[United[E]]:
        """What stands for others than itself."""
        return (self._pool[each] for each in self._entries)

    def touched(self) -> dict[E, United[E] | None]:
        """What stood for others, or does, and has changed since this was last asked; nothing if it does no longer."""
        touched, self._touched = self._touched, {}
        return {each: self._pool[each] if each in self._entries else None for each in touched}

    def change(self, begun: Iterable[E], ended: Iterable[E]) -> tuple[list[E], list[E]]:
        """What has to be known has changed: what stands from now on, and then what does no longer."""
        self._before = {}
        fresh: dict[E, None] = {}
        for each in in_order(self._absorb(self._take_apart(ended))):
            fresh[self._settle(each, fresh.__contains__)] = None
        for each in in_order(self._absorb(begun)):
            self._settle(each)
        changes = self._before.items()
        return (
            [each for each, stood in changes if not stood and each in self._pool],
            [each for each, stood in changes if stood and each not in self._pool],
        )

    def _take_apart(self, ended: Iterable[E]) -> dict[E, None]:
        """Some parts are no more; the others that stood as one with them."""
        over: dict[E, None] = {}
        for each in ended:
            over[self._stands_as[each]] = None
            del self._stands_as[each]
        return {part: None for each in over for part in self.end(each).parts if part in self._stands_as}

    def _absorb(self, fresh: Iterable[E]) -> list[E]:
        """Let what stands for others stand for new ones, too, that it covers; those that are left."""
        left = []
        for each in fresh:
            whole = None if is_never(each) or not self._entries else self._covering(each)
            if whole is None:
                left.append(each)
            else:
                self._pool.add_part(whole, each)
                self._stands_as[each] = whole
                self._touched[whole] = None
        return left

    def _covering(self, element: E) -> E | None:
        if element in self._entries:
            return element
        for entry in self._index.may_cover(Entry(element)):
            if len(self._pool[entry.element].parts) < self._limits.parts and entry.element.covers(element):
                return entry.element
        return None

    def _settle(self, element: E, may_join: Callable[[E], bool] = lambda _: True) -> E:
        """Find a new element its place, alone or with others; as what it stands."""
        united, taken = self._pool.grow(United(element, (element,)), may_join)
        for each in taken:
            self.end(each.element)
        self.begin(united)
        return united.element

    def begin(self, united: United[E]) -> None:
        """From now on an element stands, for itself or for others."""
        element = united.element
        self._before.setdefault(element, element in self._pool)
        self._pool.add(united)
        self._stands_as.update(dict.fromkeys(united.parts, element))
        if not united.is_single:
            self._touched[element] = None
            entry = self._entries[element] = Entry(element)
            self._index.add(entry)

    def end(self, element: E) -> United[E]:
        """An element stands no longer; what it stood for."""
        self._before.setdefault(element, True)
        united = self._pool[element]
        self._pool.remove(united)
        if element in self._entries:
            self._touched[element] = None
            self._index.remove(self._entries.pop(element))
        return united
