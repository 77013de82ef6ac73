"""The parts of a router on their own: antichains, tables, waves and windows, each against the plainest way to do it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter
from palio.errors import InternalError
from palio.matching.candidates import Index
from palio.node.seen import Seen
from palio.node.waves import Waves
from palio.routing import antichain
from palio.routing.antichain import Antichain
from palio.routing.table import Table
from palio.sim.generators.networks import filter_text
from palio.sim.invariants.world import maximal


@pytest.mark.parametrize("few", [0, 3, 1000], ids=["indexed", "growing", "one by one"])
@pytest.mark.parametrize("seed", range(20))
def test_an_antichain_is_what_comparing_all_gives(few: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(antichain, "_FEW", few)
    random = Random(seed)
    made, plain = Antichain("me", Index(Filter)), list[Filter]()
    for _ in range(60):
        filter = Filter.parse(filter_text(random))
        if random.random() < 0.7:
            replaced = made.add(filter)
            if any(each.covers(filter) for each in plain):
                assert replaced is None
                continue
            assert replaced == tuple(each for each in plain if filter.covers(each))
            plain = [each for each in plain if not filter.covers(each)] + [filter]
        else:
            assert made.remove(filter) == tuple(each for each in plain if filter.covers(each))
            plain = [each for each in plain if not filter.covers(each)]
        assert list(made) == plain
        assert len(made) == len(plain)
        assert (filter in made) == (filter in plain)


@pytest.mark.parametrize("few", [0, 3])
@pytest.mark.parametrize("seed", range(10))
def test_antichains_that_share_an_index_do_not_see_each_other(
    few: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(antichain, "_FEW", few)
    random, index = Random(seed), Index(Filter)
    shared = {name: Antichain(name, index) for name in ("me", "you", "")}
    alone = {name: Antichain(name, Index(Filter)) for name in shared}
    nothing = Filter.parse("x > 3 and x < 2")
    for _ in range(120):
        name, draw = random.choice(list(shared)), random.random()
        filter = nothing if random.random() < 0.05 else Filter.parse(filter_text(random))
        if draw < 0.7:
            assert shared[name].add(filter) == alone[name].add(filter)
        elif draw < 0.95:
            assert shared[name].remove(filter) == alone[name].remove(filter)
        else:
            shared[name].clear()
            alone[name].clear()
        assert {each: list(held) for each, held in shared.items()} == {each: list(held) for each, held in alone.items()}
    for held in shared.values():
        held.clear()
    assert not index._groups


@pytest.mark.parametrize("seed", range(40))
def test_what_neighbours_are_told_is_always_the_maximal_part_for_them(seed: int) -> None:
    """Neighbours come and go, some things are not meant for some of them, and updates are asked for now and then."""
    random = Random(seed)
    barred: dict[str, set[Filter]] = {name: set() for name in "abc"}
    table = Table(Filter, lambda peer, filter: filter not in barred[peer])
    holders: dict[Filter, set[tuple[bool, str]]] = {}
    told: dict[str, set[Filter]] = {}
    for _ in range(80):
        filter, draw = Filter.parse(filter_text(random)), random.random()
        is_peer, name = random.choice([(True, "a"), (True, "b"), (True, "c"), (False, "me"), (False, "you")])
        if draw < 0.1:
            if name in told:
                table.close(name)
                del told[name]
            elif is_peer:
                table.open(name)
                told[name] = set()
        elif draw < 0.2 and is_peer:
            barred[name] ^= {filter}
            if name in told:
                table.reconsider(name)
        elif (is_peer, name) in holders.get(filter, ()):
            holders[filter].remove((is_peer, name))
            is_gone = (table.remove_peer if is_peer else table.remove_party)(filter, name)
            assert is_gone == (not holders[filter])
        else:
            is_new = (table.add_peer if is_peer else table.add_party)(filter, name)
            assert is_new == (not holders.get(filter))
            holders.setdefault(filter, set()).add((is_peer, name))
        if random.random() < 0.6:
            for update in table.updates():
                assert not told[update.peer] & set(update.begun)
                assert told[update.peer] >= set(update.ended)
                told[update.peer] = (told[update.peer] | set(update.begun)) - set(update.ended)
            for peer, known in told.items():
                held = {f for f, who in holders.items() if who - {(True, peer)} and f not in barred[peer]}
                assert known == maximal(held) == set(table.told_to(peer))
        assert set(table) == {f for f, who in holders.items() if who}


def test_a_neighbour_is_opened_once() -> None:
    table = Table(Filter)
    table.open("rome")
    with pytest.raises(InternalError, match="rome is told already"):
        table.open("rome")


@given(st.lists(st.integers(0, 3000), max_size=60))
def test_what_was_here_and_what_comes_too_late(numbers: list[int]) -> None:
    seen, known = Seen(), set[int]()
    for number in numbers:
        latest = max(known, default=-1)
        assert seen.is_new("milan", 0, number) is (number > latest)
        known.add(number)
        again = Seen()
        again.restore("milan", 0, max(known))
        assert not again.is_new("milan", 0, number)
        assert again.is_new("milan", 1, number)


def test_waves_are_kept() -> None:
    waves: Waves[str] = Waves()
    first, second = waves.begin("me", ["a", "b"]), waves.begin("you", ["b"])
    assert waves.answered("a", first) == []
    assert waves.answered("a", first) == waves.answered("c", second) == waves.answered("a", 99) == []
    again: Waves[str] = Waves()
    again.restore(waves.kept())
    assert again.kept() == {0: ("me", ("b",)), 1: ("you", ("b",))}
    assert again.lost("b", lambda waiting: waiting == "you") == ["me"]
    assert again.kept() == {}
    assert waves.begin("other", ["a"]) == 2
