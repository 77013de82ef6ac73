"""Slices of what neighbours say, and of the ends of links, leave the tables that there would be without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from palio import Advertisement, Filter
from palio.matching.preparation import Preparation
from palio.matching.sharing import SharedOrder
from palio.routing.architectures import ARCHITECTURES
from palio.routing.messages import Advertise, Control, Standing, Subscribe, Unadvertise, Unsubscribe, ended
from palio.routing.router import Role, Router
from palio.routing.table import DEPARTED
from palio.sim.generators.networks import advertisement_text, filter_text
from tests.routing.test_preparation import TREES, Told, comparisons, connected, hostile

PEERS = ("rome", "oslo", "bari", "turin")
OPERATIONS = 150


class Sliced:
    """A router that neighbours, parties and the ends of links change in slices, beside one that knows of no slices."""

    def __init__(self, architecture: str, seed: int) -> None:
        self.random = Random(f"{architecture} {seed}")
        self.sliced, self.plain = connected(architecture), connected(architecture)
        if seed % 2:
            self.sliced.expect_neighbours(list(Role))
        self.plain.server = "plain"
        self.told, self.told_plainly = Told(), Told()
        self.role = Role.CLIENT if architecture == "hs" else Role.PEER
        self.filters = [Filter.parse(filter_text(self.random)).canonical() for _ in range(20)]
        self.offers = [Advertisement.parse(advertisement_text(self.random)).canonical() for _ in range(8)]
        self.under_way: dict[str, tuple[Preparation, Iterator[int], Callable[[], None]]] = {}
        """By neighbour: what it has said; and what departs."""

    def operate(self) -> None:
        draw, peer = self.random.random(), self.random.choice(PEERS)
        if draw < 0.12 and peer not in ("rome", "oslo"):
            self.change_link(peer)
        elif draw < 0.25:
            filter, party = self.random.choice(self.filters), self.random.choice(("adam", "eva"))
            for router in (self.sliced, self.plain):
                (Router.subscribe if draw < 0.2 else Router.unsubscribe)(router, party, filter)
        elif draw < 0.45 and (DEPARTED in self.under_way or self.sliced.standing(DEPARTED)):
            self.go_on(DEPARTED, self.depart)
        elif peer in self.sliced.peers:
            self.go_on(peer, lambda: self.say(peer))
        self.told.hear(self.sliced)
        self.told_plainly.hear(self.plain)

    def change_link(self, peer: str) -> None:
        preparation, _, _ = self.under_way.pop(peer, (None, None, None))
        if preparation is not None:
            self.sliced.preparations.close(preparation)
        for router, told in ((self.sliced, self.told), (self.plain, self.told_plainly)):
            if peer in router.peers:
                router.disconnect(peer)
                for known in [known for known in told.standing if known[0] == peer]:
                    del told.standing[known]
            else:
                router.connect(peer, self.role)
        for standing in self.plain.standing(DEPARTED):
            self.plain.forget(standing)

    def go_on(self, who: str, begin: Callable[[], tuple[Preparation, Iterator[int], Callable[[], None]]]) -> None:
        if who not in self.under_way:
            self.under_way[who] = begin()
        preparation, steps, change = self.under_way[who]
        for _ in range(self.random.choice((1, 5, 1_000))):
            if next(steps, None) is None:
                del self.under_way[who]
                with self.sliced.prepared(preparation):
                    change()
                return

    def say(self, peer: str) -> tuple[Preparation, Iterator[int], Callable[[], None]]:
        message: Control
        if self.sliced.advertisements_spread and self.random.random() < 0.4:
            offer = self.random.choice(self.offers)
            is_held = offer in self.plain.advertisements.held_by(peer)
            message = Unadvertise(offer) if is_held else Advertise(offer)
        else:
            filter = self.random.choice(self.filters)
            is_held = filter in self.plain.subscriptions.held_by(peer)
            message = Unsubscribe(filter) if is_held else Subscribe(filter)
        preparation = self.sliced.preparations.open()

        def change() -> None:
            for router in (self.sliced, self.plain):
                router.receive(peer, message)

        return preparation, self.sliced.prepare_hearing(preparation, peer, message), change

    def depart(self) -> tuple[Preparation, Iterator[int], Callable[[], None]]:
        standing = self.sliced.standing(DEPARTED)[0]
        preparation = self.sliced.preparations.open()
        steps = self.sliced.prepare_hearing(preparation, DEPARTED, ended(standing))
        return preparation, steps, lambda: self.sliced.forget(standing)

    def finish(self) -> None:
        while self.under_way or self.sliced.standing(DEPARTED):
            who = next(iter(self.under_way), DEPARTED)
            self.go_on(who, self.depart)
        self.told.hear(self.sliced)
        self.told_plainly.hear(self.plain)

    def check(self) -> None:
        known: Any = {key: value for key, value in self.told.standing.items() if value}
        assert known == {key: value for key, value in self.told_plainly.standing.items() if value}
        assert set(self.sliced.subscriptions) == set(self.plain.subscriptions)
        assert set(self.sliced.advertisements) == set(self.plain.advertisements)
        for party in ("adam", "eva"):
            assert self.sliced.is_sound(party)


@pytest.mark.parametrize("architecture", TREES)
@pytest.mark.parametrize("seed", range(20))
def test_slices_leave_the_tables_that_there_would_be_without_them(architecture: str, seed: int) -> None:
    sliced = Sliced(architecture, seed)
    for number in range(OPERATIONS):
        sliced.operate()
        if number % 50 == 49:
            sliced.finish()
        if not sliced.sliced.standing(DEPARTED):
            sliced.check()


def test_in_histories_things_depart_in_several_steps() -> None:
    seen = 0
    for seed in range(10):
        sliced = Sliced("as", seed)
        for _ in range(OPERATIONS):
            sliced.operate()
            seen += bool(sliced.sliced.standing(DEPARTED))
    assert seen > 20


def find_fault() -> bool:
    for seed in range(60):
        sliced = Sliced("as", seed)
        try:
            for number in range(OPERATIONS):
                sliced.operate()
                if number % 50 == 49:
                    sliced.finish()
                    sliced.check()
        except (AssertionError, KeyError):
            return True
    return False


def test_the_histories_notice_something_that_is_never_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    forget = Router.forget

    def forgetful(router: Router, standing: Standing, peer: str = DEPARTED) -> None:
        if peer or router.server == "plain":
            forget(router, standing, peer)
        else:
            router.subscriptions.add_party(standing.filter, "nobody")  # type: ignore[union-attr]
            forget(router, standing, peer)

    monkeypatch.setattr(Router, "forget", forgetful)
    assert find_fault()


def test_the_histories_notice_an_order_that_forgets_a_relative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedOrder, "_may_be_covered", lambda *_: iter(()))
    assert find_fault()


@pytest.mark.parametrize("begins", [True, False])
def test_what_a_neighbour_says_compares_next_to_nothing_when_it_was_prepared(
    begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = connected("as")
    broad, one = Filter.parse("x any").canonical(), hostile(1, seed=2)[0].canonical()
    for each in hostile(60):
        router.receive("oslo", Subscribe(each.canonical()))
    if not begins:
        router.receive("rome", Subscribe(broad))
    counted = comparisons(monkeypatch)
    for message in [Subscribe(one), Subscribe(broad)] if begins else [Unsubscribe(broad)]:
        preparation = router.preparations.open()
        assert sum(router.prepare_hearing(preparation, "rome", message)) > 60
        counted[0] = 0
        with router.prepared(preparation):
            router.receive("rome", message)
        assert counted[0] == 0


def test_tables_that_expect_neighbours_compare_nothing_when_the_first_one_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for architecture in ("as", "aa", "hs", "gs", "ga"):
        router = ARCHITECTURES[architecture]("milan", 1)
        role = Role.MASTER if architecture == "hs" else Role.PEER
        router.expect_neighbours([role])
        for each in hostile(20):
            router.subscribe(str(each), each)
        counted = comparisons(monkeypatch)
        router.connect("rome", role)
        router.control()
        assert counted[0] == 0
        if architecture in ("as", "hs"):
            assert len(router.told_to("rome")) == 20


def relevances(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts from now on how often it is asked whether an advertisement is relevant to a filter."""
    counted = [0]
    relevant_to = Advertisement.relevant_to

    def counting(self: Advertisement, other: Any) -> bool:
        counted[0] += 1
        return relevant_to(self, other)

    monkeypatch.setattr(Advertisement, "relevant_to", counting)
    return counted


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_an_advertisement_that_was_prepared_compares_next_to_nothing(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither when it comes nor when it goes, whatever part of the filters it matters to."""
    router = connected("aa")
    filters = hostile(40)
    relevant = int(share * len(filters))
    for number, each in enumerate(filters):
        kind = "a" if number < relevant else "b"
        wanted = Filter.parse(f"{each} and kind = '{kind}'")
        router.receive("oslo", Subscribe(wanted.canonical()))
    for number in range(20):
        router.receive("rome", Advertise(Advertisement.parse(f"kind = 'c{number}' and x any").canonical()))
    offer = Advertisement.parse("kind = 'a' and x any").canonical()
    counted, asked = comparisons(monkeypatch), relevances(monkeypatch)
    for message in (Advertise(offer), Unadvertise(offer)):
        preparation = router.preparations.open()
        assert sum(router.prepare_hearing(preparation, "rome", message)) > 40
        counted[0] = asked[0] = 0
        with router.prepared(preparation):
            router.receive("rome", message)
            router.control()
        assert [counted[0], asked[0]] == [0, 0]
        told = relevant if isinstance(message, Advertise) else 0
        assert sum(isinstance(each, Subscribe) for each in router.told_to("rome")) == told


def test_a_filter_that_was_prepared_is_not_compared_with_advertisements(monkeypatch: pytest.MonkeyPatch) -> None:
    router = connected("aa")
    for number in range(20):
        router.receive("rome", Advertise(Advertisement.parse(f"y = {number}").canonical()))
    asked = relevances(monkeypatch)
    message = Subscribe(Filter.parse("y = 7").canonical())
    preparation = router.preparations.open()
    assert sum(router.prepare_hearing(preparation, "oslo", message)) > 10
    asked[0] = 0
    with router.prepared(preparation):
        router.receive("oslo", message)
    assert asked[0] == 0
    router.control()
    assert router.told_to("rome") == [message]


def test_an_answer_from_before_a_link_ended_does_not_count_for_the_next_one() -> None:
    router = connected("aa")
    offer, wanted = Advertisement.parse("y = 7").canonical(), Filter.parse("y = 7")
    router.receive("rome", Advertise(offer))
    preparation = router.preparations.open()
    exhausted = sum(router.prepare_filters(preparation, "eva", [wanted]))
    assert exhausted
    router.disconnect("rome")
    router.connect("rome", Role.PEER)
    with router.prepared(preparation):
        router.subscribe("eva", wanted)
    assert router.told_to("rome") == []
    router.control()
    assert not [each for each in router.told_to("rome") if isinstance(each, Subscribe)]
