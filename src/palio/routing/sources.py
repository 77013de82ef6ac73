"""What is known of the sources in a network of any shape: a table for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic

from palio.matching.preparation import Preparations
from palio.matching.views import E
from palio.routing.table import Table, Update


class Sources(Generic[E]):
    """Filters, or advertisements, by source: a table each, all with the same neighbours.

    ``everything`` has the elements of all tables; there the sources are the holders.
    """

    def __init__(
        self,
        kind: type[E],
        is_meant_for: Callable[[str, str, E], bool],
        everything: Table[E],
        preparations: Preparations,
    ) -> None:
        self._kind: type[E] = kind
        self._preparations = preparations
        self._is_meant_for: Callable[[str, str, E], bool] = is_meant_for
        self._everything: Table[E] = everything
        self._peers: dict[str, None] = {}
        self._tables: dict[str, Table[E]] = {}
        self._touched: dict[str, None] = {}
        self.is_ordered = False
        """Whether tables are ordered before there is a neighbour."""

    def __len__(self) -> int:
        return len(self._tables)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __contains__(self, source: object) -> bool:
        return source in self._tables

    def __getitem__(self, source: str) -> Table[E]:
        """What is known of a source, to be changed."""
        self._touched[source] = None
        found = self._tables.get(source)
        if found is None:
            found = self._tables[source] = Table(self._kind, partial(self._is_meant_for, source), self._preparations)
            if self.is_ordered:
                found.order()
            for peer in self._peers:
                found.open(peer)
        return found

    def known(self, source: str) -> list[Table[E]]:
        """What is known of a source, to be looked at; nothing is known of most servers."""
        return [self._tables[source]] if source in self._tables else []

    def touched(self) -> list[str]:
        """Sources of which there may be something to tell."""
        return list(self._touched)

    def told_by(self, peer: str) -> list[tuple[str, E]]:
        """What a neighbour has told and not taken back, by source."""
        return [(source, each) for source, table in self._tables.items() for each in table.held_by(peer)]

    def told_to(self, peer: str) -> list[tuple[str, E]]:
        """What a neighbour was told and not told to forget, by source."""
        return [(source, each) for source, table in self._tables.items() for each in table.told_to(peer)]

    def knows(self, source: str, element: E, peer: str) -> bool:
        """Whether a neighbour has told of an element of a source."""
        return source in self._tables and element in self._tables[source].held_by(peer)

    def learn(self, source: str, element: E, peer: str) -> bool:
        """A neighbour tells of an element of a source; whether the element is new here."""
        return self[source].add_peer(element, peer) and self._everything.add_peer(element, source)

    def forget(self, source: str, element: E, peer: str) -> bool:
        """A neighbour takes back an element of a source; whether the element is gone from here."""
        return self[source].remove_peer(element, peer) and self._everything.remove_peer(element, source)

    def open(self, peer: str) -> None:
        """From now on a neighbour is told."""
        self._peers[peer] = None
        self._touched.update(dict.fromkeys(self._tables))
        for table in self._tables.values():
            table.open(peer)

    def close(self, peer: str) -> None:
        """A neighbour is told no longer."""
        self._peers.pop(peer, None)
        for table in self._tables.values():
            table.close(peer)

    def reconsider(self, source: str, peer: str, may_matter: Callable[[E], bool] = lambda _: True) -> None:
        """What is meant for a neighbour, if it still is one, has changed, for certain elements of a source at most."""
        if peer in self._peers:
            self[source].reconsider(peer, may_matter)

    def updates(self) -> list[tuple[str, Update[E]]]:
        """What has to be told now, by source; sources of which nothing is known any more are forgotten."""
        touched, self._touched = self._touched, {}
        tables = {source: self._tables[source] for source in touched}
        found = [(source, update) for source, table in tables.items() for update in table.updates()]
        for source, table in tables.items():
            if not table:
                del self._tables[source]
        return found
