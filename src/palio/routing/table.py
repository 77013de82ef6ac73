"""Who holds what, and what of it each neighbour has to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, NamedTuple

from palio.errors import InternalError
from palio.matching.candidates import E
from palio.matching.covering import CoveringOrder


class Holders:
    """The parties and the neighbours that hold one element."""

    __slots__ = ("parties", "peers")

    def __init__(self) -> None:
        self.parties: dict[str, None] = {}
        self.peers: dict[str, None] = {}

    def has_other_than(self, peer: str) -> bool:
        """Whether anyone but this neighbour holds the element."""
        return bool(self.parties) or len(self.peers) > (peer in self.peers)

    def __bool__(self) -> bool:
        return bool(self.parties) or bool(self.peers)


class Update(NamedTuple, Generic[E]):
    """What a neighbour has to be told, so that it knows exactly what it should."""

    peer: str
    begun: tuple[E, ...]
    ended: tuple[E, ...]


class _Side(Generic[E]):
    """What one neighbour should know, and what it was told."""

    __slots__ = ("order", "told", "tops", "touched")

    def __init__(self, kind: type[E]) -> None:
        self.order: CoveringOrder[E] = CoveringOrder(kind)
        self.tops: dict[E, None] = {}
        """The maximal elements of the order."""
        self.told: dict[E, None] = {}
        self.touched: dict[E, None] = {}
        """What may have to be told, or taken back."""

    def put(self, element: E) -> None:
        change = self.order.insert(element)
        self._note(change.risen, change.fallen)

    def take(self, element: E) -> None:
        change = self.order.remove(element)
        self._note(change.risen, change.fallen)

    def _note(self, risen: tuple[E, ...], fallen: tuple[E, ...]) -> None:
        for element in fallen:
            del self.tops[element]
            self.touched[element] = None
        for element in risen:
            self.tops[element] = None
            self.touched[element] = None


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

    def __init__(self, kind: type[E], is_meant_for: Callable[[str, E], bool] | None = None) -> None:
        self._kind: type[E] = kind
        self._is_meant_for: Callable[[str, E], bool] | None = is_meant_for
        self._holders: dict[E, Holders] = {}
        self._sides: dict[str, _Side[E]] = {}
        self._by_peer: dict[str, dict[E, None]] = {}
        self._touched: dict[str, None] = {}
        """Neighbours that may have to be told something."""

    def __len__(self) -> int:
        return len(self._holders)

    def __iter__(self) -> Iterator[E]:
        return iter(self._holders)

    def holders(self, element: E) -> Holders:
        """Who holds an element of the table."""
        return self._holders[element]

    def held_by(self, peer: str) -> Mapping[E, None]:
        """What a neighbour holds, in the order in which it came; to be looked at only."""
        return self._by_peer.get(peer, {})

    def told_to(self, peer: str) -> tuple[E, ...]:
        """What a neighbour was told and not told to forget."""
        return tuple(self._sides[peer].told)

    # -- neighbours that are told --------------------------------------------------------------------------------------

    def open(self, peer: str) -> None:
        """From now on a neighbour is told; at first all that it has to know."""
        if peer in self._sides:
            raise InternalError(f"{peer} is told already")
        self._sides[peer] = _Side(self._kind)
        for element in self._holders:
            self._place(element, peer)

    def close(self, peer: str) -> None:
        """A neighbour is told no longer."""
        self._sides.pop(peer, None)

    def reconsider(self, peer: str) -> None:
        """What is meant for a neighbour has changed."""
        for element in self._holders:
            self._place(element, peer)

    @property
    def is_touched(self) -> bool:
        """Whether a neighbour may have to be told something."""
        return bool(self._touched)

    def updates(self) -> list[Update[E]]:
        """What has to be told now, by neighbour; it counts as told."""
        if not self._touched:
            return []
        touched, self._touched = self._touched, {}
        found = []
        for peer, side in self._sides.items():
            if peer in touched:
                begun = tuple(each for each in side.touched if each in side.tops and each not in side.told)
                ended = tuple(each for each in side.touched if each in side.told and each not in side.tops)
                side.touched.clear()
                side.told.update(dict.fromkeys(begun))
                for each in ended:
                    del side.told[each]
                if begun or ended:
                    found.append(Update(peer, begun, ended))
        return found

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
        del self._holders[element].parties[party]
        return self._removed(element)

    def remove_peer(self, element: E, peer: str) -> bool:
        """A neighbour holds an element no longer; whether nobody does now."""
        del self._by_peer[peer][element]
        del self._holders[element].peers[peer]
        return self._removed(element)

    def _add(self, element: E, name: str, *, is_peer: bool) -> bool:
        holders = self._holders.get(element)
        is_new = holders is None
        if holders is None:
            holders = self._holders[element] = Holders()
        (holders.peers if is_peer else holders.parties)[name] = None
        self._place_everywhere(element)
        return is_new

    def _removed(self, element: E) -> bool:
        self._place_everywhere(element)
        if self._holders[element]:
            return False
        del self._holders[element]
        return True

    def _place_everywhere(self, element: E) -> None:
        for peer in self._sides:
            self._place(element, peer)

    def _place(self, element: E, peer: str) -> None:
        """See to it that the element is among those for the neighbour if it should be, and only then."""
        side = self._sides[peer]
        should_be = self._holders[element].has_other_than(peer) and (
            self._is_meant_for is None or self._is_meant_for(peer, element)
        )
        if should_be is not (element in side.order):
            (side.put if should_be else side.take)(element)
            self._touched[peer] = None
