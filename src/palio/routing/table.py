"""Who holds what, and what of it each neighbour has to know."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import count
from typing import Generic, NamedTuple

from palio.errors import InternalError
from palio.matching.preparation import Preparation, Preparations, Steps
from palio.matching.sharing import EVERYBODY, NOBODY, Node, SharedOrder
from palio.matching.views import E

_ROWS = 16
"""So many rows are looked at for the price of a comparison."""
DEPARTED = ""
"""Holds what neighbours held whose links have ended, until the comparisons for its removal are made. No server has this
name, and nothing is sent there.
"""


class Holders:
    """The parties and the neighbours that hold one element."""

    __slots__ = ("parties", "peers")

    def __init__(self) -> None:
        self.parties: dict[str, None] = {}
        self.peers: dict[str, None] = {}

    def only_peer(self) -> str | None:
        """The neighbour that alone holds the element."""
        return next(iter(self.peers)) if len(self.peers) == 1 and not self.parties else None

    def __bool__(self) -> bool:
        return bool(self.parties) or bool(self.peers)


class Update(NamedTuple, Generic[E]):
    """What a neighbour has to be told, so that it knows exactly what it should."""

    peer: str
    begun: tuple[E, ...]
    ended: tuple[E, ...]


class _Later(NamedTuple, Generic[E]):
    """Elements that a party will begin to hold, and that it will hold no longer, as far as they are not prepared."""

    begins: dict[E, None]
    ends: dict[E, None]

    def __bool__(self) -> bool:
        return bool(self.begins) or bool(self.ends)


class _Row(Holders):
    """The holders of an element, and the neighbours (as bits) for which it is not meant."""

    __slots__ = ("unmeant",)

    def __init__(self) -> None:
        super().__init__()
        self.unmeant: int = NOBODY


class Table(Generic[E]):
    """Filters, or advertisements, with their holders.

    A neighbour that is *told* has to know the maximal ones of those elements that somebody else holds and that are
    meant for it: no more, no less. :meth:`updates` says what is missing; what happened in between and was undone again
    is not told.

    >>> from palio.model import Filter
    >>> table = Table(Filter)
    >>> table.open("rome")
    >>> table.add_party(Filter.parse("x > 5"), "me"), table.add_party(Filter.parse("x > 3"), "you")
    (True, True)
    >>> [str(f) for f in table.updates()[0].begun]
    ['x > 3']
    """

    def __init__(
        self,
        kind: type[E],
        is_meant_for: Callable[[str, E], bool] | None = None,
        preparations: Preparations | None = None,
        foresee: Callable[[Preparation, str, E], Steps] | None = None,
    ) -> None:
        """Make an empty table. ``foresee`` answers ``is_meant_for`` ahead, step by step."""
        self._kind: type[E] = kind
        self._foresee: Callable[[Preparation, str, E], Steps] | None = foresee
        self._preparations = preparations
        self._is_meant_for: Callable[[str, E], bool] | None = is_meant_for
        self._rows: dict[E, _Row] = {}
        self._by_peer: dict[str, dict[E, None]] = {}
        self._bits: dict[str, int] = {}
        """The neighbours that are told: readers of the order, each a bit in the masks of its nodes."""
        self.news: dict[E, None] | None = None
        """What has come or gone since its owner looked; ``None`` as long as nobody wants to know."""
        self.version = 0
        """Goes up whenever somebody begins or ceases to hold something."""
        self._order: SharedOrder[E] | None = None
        """Made for the first neighbour that is told, or before. A node's ``known`` are those that were told of it."""
        self._nodes: dict[E, Node[E]] = {}
        """The elements as the order has them, and those that nobody holds any more until the next updates."""

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[E]:
        return iter(self._rows)

    def __contains__(self, element: object) -> bool:
        return element in self._rows

    def holders(self, element: E) -> Holders:
        """Who holds an element of the table."""
        return self._rows[element]

    def held_by(self, peer: str) -> dict[E, None]:
        """What a neighbour holds, in the order in which it came; to be looked at only."""
        return self._by_peer.get(peer, {})

    def is_held_by_party(self, party: str, elements: Collection[E]) -> bool:
        """Whether a party holds these elements and no others."""
        return sum(party in row.parties for row in self._rows.values()) == len(elements) and all(
            each in self._rows and party in self._rows[each].parties for each in elements
        )

    def told_to(self, peer: str) -> tuple[E, ...]:
        """What a neighbour was told and not told to forget."""
        bit = self._bits.get(peer, NOBODY)
        return tuple([element for element, node in self._nodes.items() if node.known & bit])

    # -- neighbours that are told --------------------------------------------------------------------------------------

    def open(self, peer: str) -> None:
        """From now on a neighbour is told; at first all that it has to know."""
        if peer in self._bits:
            raise InternalError(f"{peer} is told already")
        bit = next(1 << number for number in count() if 1 << number not in self._bits.values())
        self._bits[peer] = bit
        if self._is_meant_for is not None:
            for element, row in self._rows.items():
                row.unmeant |= NOBODY if self._is_meant_for(peer, element) else bit
        if self._order is None:
            self.order()
        else:
            self._align(self._order, bit, [each for each, row in self._rows.items() if self._barred(row) & bit])
            self._order.touched.update(dict.fromkeys(node for node in self._order.free if node.free & bit))

    def order(self) -> None:
        """Order all elements now, instead of when the first neighbour is told; later ones are ordered as they come."""
        if self._order is None:
            self._order = SharedOrder(self._kind, self._preparations)
            for element, row in self._rows.items():
                self._place(element, row)

    def close(self, peer: str) -> None:
        """A neighbour is told no longer."""
        bit = self._bits.pop(peer, NOBODY)
        if self._order is not None and bit:
            self._order.show_all(self._nodes.values(), bit)
            for row in self._rows.values():
                row.unmeant &= ~bit
            for node in self._nodes.values():
                node.known &= ~bit

    def reconsider(self, peer: str, may_matter: Callable[[E], bool] = lambda _: True) -> None:
        """What is meant for a neighbour has changed, for certain elements at most."""
        if self._order is None or self._is_meant_for is None:
            return
        bit = self._bits[peer]
        changed = []
        for element, row in self._rows.items():
            if may_matter(element) and self._is_meant_for(peer, element) is bool(row.unmeant & bit):
                row.unmeant ^= bit
                changed.append(element)
        self._align(self._order, bit, changed)

    def _align(self, order: SharedOrder[E], bit: int, changed: list[E]) -> None:
        """See to it that a neighbour sees in the order what it should, after that has changed for some elements.

        If it has changed for most of them, it is quicker to begin with everything, or with nothing.
        """
        if 2 * len(changed) > len(self._rows):
            unseen = sum(bool(self._barred(row) & bit) for row in self._rows.values())
            (order.hide_all if 2 * unseen > len(self._rows) else order.show_all)(self._nodes.values(), bit)
            changed = list(self._rows)
        for element in changed:
            self._place(element, self._rows[element])

    def updates(self) -> list[Update[E]]:
        """What has to be told now, by neighbour; it counts as told."""
        if self._order is None or not self._order.touched:
            return []
        everybody = sum(self._bits.values())
        lists: dict[int, tuple[list[E], list[E]]] = {bit: ([], []) for bit in self._bits.values()}
        for node in self._order.touched:
            free, known = node.free & everybody, node.known
            if free != known:
                node.known = free
                for bit, (begun, ended) in lists.items():
                    if (free ^ known) & bit:
                        (begun if free & bit else ended).append(node.element)
            if node.barred == EVERYBODY:
                del self._nodes[node.element]
        self._order.touched.clear()
        return [
            Update(peer, tuple(begun), tuple(ended))
            for peer, (begun, ended) in zip(self._bits, lists.values(), strict=True)
            if begun or ended
        ]

    # -- ahead of changes ----------------------------------------------------------------------------------------------

    def prepare_parties(
        self, preparation: Preparation, party: str, begins: Collection[E], ends: Collection[E]
    ) -> Steps:
        """Make the comparisons ahead that are needed when a party begins to hold elements, and holds others no longer.

        Each step says what it has cost.
        """
        order = self._order
        if order is None:
            return
        for element in begins:
            yield from self._prepare_row(preparation, element)
        later = _Later(dict.fromkeys(begins), dict.fromkeys(ends))
        yield from self._prepare_some(preparation, order, party, later)
        if later:
            preparation.check_again(partial(self._prepare_some, preparation, order, party, later))

    def _prepare_some(self, preparation: Preparation, order: SharedOrder[E], party: str, later: _Later[E]) -> Steps:
        """Prepare what would need comparisons if the change were made now; others may still need some later.

        An element that another party holds has its place already, until that party holds it no longer.
        """
        begins = [each for each in later.begins if self._will_be_placed(each, party)]
        ends = [each for each in later.ends if self._will_be_removed(each, party)]
        for each in begins:
            del later.begins[each]
        for each in ends:
            del later.ends[each]
        if begins:
            yield from order.prepare_placing(preparation, begins, self._nodes)
        for each in ends:
            node = self._nodes.get(each)
            if node is not None:
                yield from order.prepare_removal(preparation, node)

    def prepare_peer(self, preparation: Preparation, peer: str, element: E, *, begins: bool) -> Steps:
        """The same for one element that a neighbour begins to hold, or holds no longer.

        With a second neighbour that holds it, the first one has to know of it; when the second one ceases to hold it,
        the first one need not.
        """
        order, row = self._order, self._rows.get(element)
        if order is None:
            return
        if begins:
            yield from self._prepare_row(preparation, element)
            if row is None or row.only_peer() is not None:
                yield from order.prepare_placing(preparation, [element], self._nodes)
        elif self._may_rise(element, peer):
            yield from order.prepare_removal(preparation, self._nodes[element])

    def _prepare_row(self, preparation: Preparation, element: E) -> Steps:
        """Find out ahead for which neighbours a new element is meant."""
        if self._foresee is not None and element not in self._rows:
            for peer in tuple(self._bits):
                yield from self._foresee(preparation, peer, element)

    def is_meant(self, peer: str, element: E) -> bool:
        """Whether an element of the table is meant for a neighbour that is told."""
        return not self._rows[element].unmeant & self._bits[peer]

    def prepare_reconsidering(self, preparation: Preparation, peer: str, changed: Collection[E]) -> Steps:
        """Make the comparisons ahead for :meth:`reconsider`, which will find that these elements have changed."""
        order, bit = self._order, self._bits.get(peer, NOBODY)
        if order is None or not bit:
            return
        flipped = {each: None for each in changed if each in self._rows}
        seen: list[Node[E]] = []
        unseen: list[Node[E]] = []
        for element, row in self._rows.items():
            holds = row.only_peer() == peer
            is_unmeant = bool(row.unmeant & bit) is not (element in flipped)
            (unseen if holds or is_unmeant else seen).append(self._nodes[element])
        if 2 * len(flipped) <= len(self._rows):
            shown = [node for node in seen if node.element in flipped]
            hidden = [node for node in unseen if node.element in flipped]
        elif 2 * len(unseen) > len(self._rows):
            shown, hidden = seen, []
        else:
            shown, hidden = [], unseen
        yield 1 + len(self._rows) // _ROWS
        yield from order.prepare_change(preparation, shown, hidden)

    def _will_be_placed(self, element: E, party: str) -> bool:
        """Whether no other party holds it. The party itself gives it up before it begins to hold it again."""
        row = self._rows.get(element)
        return row is None or row.parties.keys() <= {party}

    def _will_be_removed(self, element: E, party: str) -> bool:
        row = self._rows.get(element)
        return row is not None and party in row.parties and len(row.parties) == 1 and len(row.peers) < 2

    # -- holders -------------------------------------------------------------------------------------------------------

    def add_party(self, element: E, party: str) -> bool:
        """A party holds an element; whether the element is new."""
        return self._add(element, party, is_peer=False)

    def add_peer(self, element: E, peer: str) -> bool:
        """A neighbour holds an element; whether the element is new."""
        self._by_peer.setdefault(peer, {})[element] = None
        return self._add(element, peer, is_peer=True)

    def remove_party(self, element: E, party: str) -> bool:
        """A party holds an element no longer; whether nobody does now."""
        row = self._rows[element]
        del row.parties[party]
        return self._removed(element, row)

    def remove_peer(self, element: E, peer: str) -> bool:
        """A neighbour holds an element no longer; whether nobody does now."""
        del self._by_peer[peer][element]
        row = self._rows[element]
        del row.peers[peer]
        return self._removed(element, row)

    def is_costly(self, element: E, peer: str) -> bool:
        """Whether comparisons are needed to remove a neighbour from the holders of an element."""
        if self._order is None or not self._may_rise(element, peer):
            return False
        node = self._nodes[element]
        return bool(node.free) and bool(node.below)

    def hand_over(self, element: E, peer: str) -> None:
        """What a neighbour held is held by :data:`DEPARTED` now; for all others this changes nothing."""
        del self._by_peer[peer][element]
        row = self._rows[element]
        del row.peers[peer]
        self._by_peer.setdefault(DEPARTED, {})[element] = None
        row.peers[DEPARTED] = None
        self.version += 1
        self._place(element, row)

    def _may_rise(self, element: E, peer: str) -> bool:
        """Whether elements below one may become free when a neighbour holds it no longer."""
        row = self._rows.get(element)
        return row is not None and peer in row.peers and len(row.peers) <= 2 and not row.parties

    def _add(self, element: E, name: str, *, is_peer: bool) -> bool:
        row = self._rows.get(element)
        is_new = row is None
        if row is None:
            row = self._rows[element] = self._new_row(element)
            self._note(element)
        self.version += 1
        (row.peers if is_peer else row.parties)[name] = None
        self._place(element, row)
        return is_new

    def _removed(self, element: E, row: _Row) -> bool:
        self.version += 1
        if row:
            self._place(element, row)
            return False
        del self._rows[element]
        self._note(element)
        if self._order is not None:
            node = self._nodes[element]
            self._order.remove(node)
            self._order.touched[node] = None
        return True

    def _note(self, element: E) -> None:
        if self.news is not None:
            self.news[element] = None

    def _new_row(self, element: E) -> _Row:
        row = _Row()
        if self._is_meant_for is not None:
            row.unmeant = sum(bit for peer, bit in self._bits.items() if not self._is_meant_for(peer, element))
        return row

    def _place(self, element: E, row: _Row) -> None:
        """See to it that just those neighbours see the element in the order that should."""
        if self._order is not None:
            node = self._nodes.get(element)
            if node is None:
                node = self._nodes[element] = self._order.new_node(element)
            self._order.bar(node, self._barred(row))

    def _barred(self, row: _Row) -> int:
        """The neighbours that need not know of an element: it is not meant for them, or nobody else holds it."""
        peer = row.only_peer()
        return row.unmeant if peer is None else row.unmeant | self._bits.get(peer, NOBODY)
