"""Comparisons that are made ahead of a change, while other changes happen, leave the same tables as no preparation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from palio import Advertisement, Filter
from palio.matching import preparation as preparation_module
from palio.matching.preparation import Family, Preparation
from palio.matching.sharing import SharedOrder
from palio.node.preparing import Job
from palio.routing.antichain import Antichain
from palio.routing.architectures import ARCHITECTURES
from palio.routing.messages import Advertise, Subscribe, Unadvertise, Unsubscribe
from palio.routing.router import Role, Router
from palio.sim.generators.networks import advertisement_text, filter_text
from palio.sim.invariants.world import maximal

PARTIES = ("adam", "eva", "zoe")
TREES = ("hs", "as", "aa")


def connected(architecture: str) -> Router:
    router = ARCHITECTURES[architecture]("milan", 1)
    router.connect("rome", Role.MASTER if architecture == "hs" else Role.PEER)
    router.connect("oslo", Role.CLIENT if architecture == "hs" else Role.PEER)
    return router


class Told:
    """What neighbours know, by what they were told."""

    def __init__(self) -> None:
        self.standing: dict[tuple[str, str], set[Filter | Advertisement]] = {}

    def hear(self, router: Router) -> None:
        for peer, messages in router.control():
            for message in messages:
                match message:
                    case Subscribe(element) | Advertise(element):
                        known = self.standing.setdefault((peer, type(element).__name__), set())
                        assert element not in known
                        known.add(element)
                    case Unsubscribe(element) | Unadvertise(element):
                        self.standing[peer, type(element).__name__].remove(element)


class Twins:
    """One router whose changes are prepared, several at the same time, beside one that knows of no preparations."""

    def __init__(self, architecture: str, seed: int) -> None:
        self.random = Random(f"{architecture} {seed}")
        self.prepared, self.plain = connected(architecture), connected(architecture)
        self.told, self.told_plainly = Told(), Told()
        self.filters = [Filter.parse(filter_text(self.random)) for _ in range(20)]
        self.offers = [Advertisement.parse(advertisement_text(self.random)) for _ in range(10)]
        self.under_way: dict[str, tuple[Preparation, Iterator[int], Callable[[Router], None]]] = {}

    def operate(self) -> None:
        """A neighbour says something, a party begins to ask for something, or what it asks for goes on."""
        draw, party = self.random.random(), self.random.choice(PARTIES)
        if draw < 0.2:
            self.neighbour(self.random.choice(("rome", "oslo")), self.random.choice(self.filters))
        elif party in self.under_way:
            self.go_on(party)
        else:
            preparation, steps, change = self.begin(party)
            self.under_way[party] = preparation, Job.begin(preparation, steps).steps, change
        self.told.hear(self.prepared)
        self.told_plainly.hear(self.plain)

    def neighbour(self, peer: str, filter: Filter) -> None:
        canonical = filter.canonical()
        holds = canonical in self.plain.subscriptions.held_by(peer)
        for router in (self.prepared, self.plain):
            router.receive(peer, Unsubscribe(canonical) if holds else Subscribe(canonical))

    def begin(self, party: str) -> tuple[Preparation, Iterator[int], Callable[[Router], None]]:
        preparation = self.prepared.preparations.open()
        wanted, offer = self.random.choice(self.filters), self.random.choice(self.offers)
        instead = self.random.sample(self.filters, self.random.choice((1, 2, 12)))
        match self.random.randrange(5):
            case 0:
                steps = self.prepared.prepare_filters(preparation, party, [wanted])
                return preparation, steps, lambda router: router.subscribe(party, wanted)
            case 1:
                steps = self.prepared.prepare_filters(preparation, party, [], [wanted])
                return preparation, steps, lambda router: void(router.unsubscribe(party, wanted))
            case 2:
                steps = self.prepared.prepare_filters(preparation, party, instead, [wanted])
                return preparation, steps, lambda router: replace(router, party, wanted, instead)
            case 3:
                steps = self.prepared.prepare_advertisements(preparation, party, [offer])
                return preparation, steps, lambda router: router.advertise(party, offer)
            case _:
                steps = self.prepared.prepare_advertisements(preparation, party, [], [offer])
                return preparation, steps, lambda router: void(router.unadvertise(party, offer))

    def go_on(self, party: str) -> None:
        preparation, steps, change = self.under_way[party]
        for _ in range(self.random.choice((1, 5, 1_000))):
            if next(steps, None) is None:
                break
        else:
            return
        del self.under_way[party]
        with self.prepared.prepared(preparation):
            change(self.prepared)
        change(self.plain)

    def check(self) -> None:
        assert self.told.standing == self.told_plainly.standing
        for party in PARTIES:
            assert self.prepared.profile(party) == self.plain.profile(party)
            assert self.prepared.is_sound(party)


def void(_: object) -> None:
    pass


def replace(router: Router, party: str, wanted: Filter, instead: list[Filter]) -> None:
    router.unsubscribe(party, wanted)
    for each in instead:
        router.subscribe(party, each)


@pytest.mark.parametrize("architecture", TREES)
@pytest.mark.parametrize("seed", range(25))
def test_what_is_prepared_leaves_the_tables_that_it_would_leave_unprepared(
    architecture: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some preparations catch up with everything that has come meanwhile, others leave all of it to the change."""
    monkeypatch.setattr(preparation_module, "_MOST_AT_ONCE", (0, 4, 2_048)[seed % 3])
    twins = Twins(architecture, seed)
    for _ in range(120):
        twins.operate()
        twins.check()


def find_fault(architecture: str = "as") -> bool:
    """Whether one of the histories above notices that something is wrong."""
    for seed in range(25):
        twins = Twins(architecture, seed)
        try:
            for _ in range(120):
                twins.operate()
                twins.check()
        except (AssertionError, KeyError):
            return True
    return False


def test_the_histories_notice_a_preparation_that_forgets_what_has_come_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Family, "news", lambda _: {})
    assert find_fault()


@pytest.mark.slow
def test_the_histories_notice_a_preparation_that_catches_up_without_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation_module, "_MOST_AT_ONCE", 0)
    assert not find_fault()
    monkeypatch.setattr(Preparation, "_relate", lambda *_: iter(()))
    assert find_fault()


def test_the_histories_notice_an_order_that_does_not_tell_what_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Preparation, "note", lambda *_: None)
    assert find_fault()


def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the comparisons from now on."""
    counted = [0]
    covers = Filter.covers

    def counting(self: Filter, other: Filter) -> bool:
        counted[0] += 1
        return covers(self, other)

    monkeypatch.setattr(Filter, "covers", counting)
    return counted


def hostile(count: int, seed: int = 1) -> list[Filter]:
    """Filters of which none covers another, though an index cannot know that."""
    random = Random(seed)
    return [
        Filter.parse(" and ".join(f"x !* 's{number}'" for number in sorted(random.sample(range(100, 1_000), 20))))
        for _ in range(count)
    ]


def exhaust(steps: Iterator[int]) -> int:
    return sum(steps)


def test_a_change_that_was_prepared_compares_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a subscription among many, nor many in the place of one, nor the end of one that covers many."""
    router = connected("as")
    for number, filter in enumerate(hostile(60)):
        router.subscribe(f"party {number}", filter)
    counted = comparisons(monkeypatch)

    def prepared(begins: list[Filter], ends: list[Filter]) -> None:
        preparation = router.preparations.open()
        cost = exhaust(router.prepare_filters(preparation, "adam", begins, ends))
        assert cost > len(begins) + len(ends)
        counted[0] = 0
        with router.prepared(preparation):
            for each in ends:
                router.unsubscribe("adam", each)
            for each in begins:
                router.subscribe("adam", each)
        assert counted[0] <= 4, "the comparisons were made before"

    prepared(hostile(1, seed=2), [])
    prepared(hostile(40, seed=3), hostile(1, seed=2))
    prepared([Filter.parse("x any")], [])
    prepared([], [Filter.parse("x any")])
    assert [len(maximal([*router.subscriptions])), len(router.told_to("rome"))] == [60, 0]
    router.control()
    assert len(router.told_to("rome")) == 60


@pytest.mark.slow
def test_a_change_that_was_prepared_beside_large_ones_compares_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would compare all its filters with all that have come since, in one piece."""
    router = connected("as")
    mine, others = hostile(100, seed=4), hostile(200, seed=5)
    preparation = router.preparations.open()
    exhaust(router.prepare_filters(preparation, "adam", mine))
    for number, each in enumerate(others):
        router.subscribe(f"party {number}", each)
    costs = list(preparation.catch_up())
    assert len(costs) > len(others) / 2
    assert max(costs) < 200
    counted = comparisons(monkeypatch)
    with router.prepared(preparation):
        for each in mine:
            router.subscribe("adam", each)
    assert counted[0] <= 2 * 2_048
    assert len(router.subscriptions) == len(maximal([*router.subscriptions])) == 300


def test_a_filter_that_another_party_has_given_up_meanwhile_is_prepared_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As long as the other party holds it, no comparison is needed."""
    router = connected("as")
    wanted, others = hostile(60, seed=6), hostile(100, seed=7)
    for each in others:
        router.subscribe("zoe", each)
    for each in wanted:
        router.subscribe("eva", each)
    preparation = router.preparations.open()
    changes = router.prepare_filters(preparation, "adam", wanted)
    exhaust(changes)
    counted = comparisons(monkeypatch)
    steps = Job.begin(preparation, changes).steps
    for each in wanted:
        router.unsubscribe("eva", each)
    router.control()
    exhaust(steps)
    counted[0] = 0
    with router.prepared(preparation):
        for each in wanted:
            router.subscribe("adam", each)
    assert counted[0] <= 4, "the comparisons were made before"
    assert len(router.subscriptions) == 160


@pytest.mark.slow
def test_the_same_filters_once_more_in_their_own_place_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that says all that it wants again, with the request that replaces subscriptions."""
    router = connected("as")
    for each in hostile(100, seed=7):
        router.subscribe("zoe", each)
    wanted, everything = hostile(60, seed=6), Filter()
    for each in wanted:
        router.subscribe("adam", each)
    router.control()
    preparation = router.preparations.open()
    exhaust(Job.begin(preparation, router.prepare_filters(preparation, "adam", wanted, [everything])).steps)
    counted = comparisons(monkeypatch)
    with router.prepared(preparation):
        replace(router, "adam", everything, wanted)
    assert counted[0] <= 4, "the comparisons were made before"
    assert not router.control()
    assert len(router.subscriptions) == len(router.told_to("rome")) == 160


def test_a_preparation_that_is_given_up_leaves_nothing() -> None:
    router = connected("as")
    preparation = router.preparations.open()
    steps = router.prepare_filters(preparation, "adam", [Filter.parse("x > 1")])
    next(steps)
    router.preparations.close(preparation)
    assert router.profile("adam") == ((), ())
    assert not router.control()
    assert SharedOrder(Filter).new_node(Filter.parse("x > 1")).free == 0


def test_a_party_that_holds_nothing_is_compared_with_itself() -> None:
    """Else many filters at once would be compared with each other when they are placed."""
    held = Antichain("adam", connected("as")._held_filters)
    preparation = Preparation()
    broad, narrow = Filter.parse("x any"), Filter.parse("x > 1")
    exhaust(held.prepare(preparation, [narrow, broad]))
    assert held.foresee(preparation, [narrow, broad]) == ([narrow, broad], [])
    assert held.foresee(preparation, [broad, narrow])[0][0] == broad
