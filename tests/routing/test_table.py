"""What neighbours are told, against the maximal part of what others hold, computed from scratch."""

from __future__ import annotations

from random import Random

import pytest

from palio import Filter
from palio.routing.table import Table
from palio.sim.generators.networks import filter_text
from palio.sim.invariants.world import maximal

PEERS = ("a", "b", "c", "d", "e")
PARTIES = ("me", "you")


class History:
    """A table beside the plainest account of what should be in it, under random operations."""

    def __init__(self, seed: int, is_selective: bool) -> None:
        self.random = Random(f"{seed} {is_selective}")
        self.unwanted: dict[str, set[Filter]] = {peer: set() for peer in PEERS}
        self.deaf: set[str] = set()
        self.table = Table(Filter, self.is_meant_for if is_selective else None)
        self.is_selective = is_selective
        self.holders: dict[Filter, set[str]] = {}
        self.told: dict[str, set[Filter]] = {}
        self.filters = [Filter.parse(filter_text(self.random)) for _ in range(25)]

    def is_meant_for(self, peer: str, filter: Filter) -> bool:
        return peer not in self.deaf and filter not in self.unwanted[peer]

    def operate(self) -> None:
        peer, draw = self.random.choice(PEERS), self.random.random()
        if draw < 0.06:
            self.open_or_close(peer)
        elif draw < 0.15 and self.is_selective:
            self.reconsider(peer)
        else:
            self.hold_or_let_go(self.random.choice([*PEERS, *PARTIES]), self.random.choice(self.filters))

    def open_or_close(self, peer: str) -> None:
        if peer in self.told:
            self.table.close(peer)
            del self.told[peer]
        else:
            self.table.open(peer)
            self.told[peer] = set()

    def reconsider(self, peer: str) -> None:
        if self.random.random() < 0.3:  # for a neighbour everything changes
            self.deaf ^= {peer}
            changed = set(self.filters)
        else:
            changed = set(self.random.sample(self.filters, 4))
            self.unwanted[peer] ^= changed
        if peer in self.told:
            self.table.reconsider(peer, lambda filter: filter in changed)

    def hold_or_let_go(self, name: str, filter: Filter) -> None:
        held, table = self.holders.setdefault(filter, set()), self.table
        if name in held:
            held.remove(name)
            assert (table.remove_peer if name in PEERS else table.remove_party)(filter, name) == (not held)
        else:
            assert (table.add_peer if name in PEERS else table.add_party)(filter, name) == (not held)
            held.add(name)

    def tell(self) -> None:
        for update in self.table.updates():
            known, begun, ended = self.told[update.peer], set(update.begun), set(update.ended)
            assert not known & begun
            assert known >= ended
            assert len(begun) == len(update.begun)
            assert len(ended) == len(update.ended)
            self.told[update.peer] = (known | begun) - ended

    def check(self) -> None:
        for peer, known in self.told.items():
            mine = {
                filter
                for filter, names in self.holders.items()
                if names - {peer} and (not self.is_selective or self.is_meant_for(peer, filter))
            }
            assert known == maximal(mine) == set(self.table.told_to(peer))
        assert self.table.updates() == []
        assert set(self.table) == {filter for filter, names in self.holders.items() if names}
        assert not self.table._nodes or set(self.table._nodes) == set(self.table), "what is gone is not kept"


@pytest.mark.parametrize("is_selective", [False, True], ids=["everything", "selected"])
@pytest.mark.parametrize("seed", range(40))
def test_neighbours_are_told_the_maximal_part(seed: int, is_selective: bool) -> None:
    history = History(seed, is_selective)
    for _ in range(150):
        history.operate()
        if history.random.random() < 0.5:
            history.tell()
            history.check()


def test_the_order_of_what_is_told_does_not_depend_on_who_else_is_told() -> None:
    """Sets of readers are masks, so nothing may depend on which bit a neighbour has."""
    said = []
    for others in ((), ("b",), ("b", "c")):
        random, table = Random(7), Table(Filter)
        for peer in (*others, "a"):
            table.open(peer)
        told = []
        for number in range(60):
            table.add_party(Filter.parse(filter_text(random)), f"p{number}")
            told += [update for update in table.updates() if update.peer == "a"]
        said.append(told)
    assert said[0] == said[1] == said[2]


def test_a_table_that_nobody_is_told_of_keeps_no_order() -> None:
    """A central server has no neighbours, and must not pay for them."""
    table = Table(Filter)
    table.add_party(Filter.parse("x > 3"), "me")
    assert table.updates() == []
    assert not table._nodes
