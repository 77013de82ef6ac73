"""What parties are told about demand and offers, against all pairs of a filter and an advertisement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import pytest

from palio import Advertisement, Filter
from palio.matching.preparation import Preparation
from palio.routing.architectures import AdvertisementForwarding, Centralized, Flooding, Hierarchical
from palio.routing.outlooks import NotKnownHereError, Outlooks, Prospect, Subject
from palio.sim.generators.networks import advertisement_text, filter_text

FILTERS = ["x absent", "x any", "z > 3", 'symbol = "A" and z any', 'symbol >= "A" and symbol <= "B"', "y absent"]
OFFERS = ["z any", 'symbol >* "A"', 'symbol = "C" and symbol = "A"', "y any", "integer symbol any"]


def filters(random: Random) -> list[Filter]:
    texts = [*(filter_text(random) for _ in range(12)), *FILTERS]
    return [*dict.fromkeys([*map(Filter.parse, texts), Filter()])]


def offers(random: Random) -> list[Advertisement]:
    texts = [*(advertisement_text(random) for _ in range(12)), *OFFERS]
    return [*dict.fromkeys([*map(Advertisement.parse, texts), Advertisement()])]


def truth(subject: Subject, wanted: Iterable[Filter], offered: Iterable[Advertisement]) -> bool:
    if isinstance(subject, Advertisement):
        return any(subject.relevant_to(each) for each in wanted)
    return any(each.relevant_to(subject) for each in offered)


def told_at_rest(outlooks: Outlooks) -> list[Prospect]:
    """The news when all comparisons are made."""
    assert all(cost > 0 for cost in outlooks.work())
    assert not outlooks.is_behind
    return outlooks.news()


@pytest.mark.parametrize("seed", range(60))
def test_each_change_is_told_and_nothing_else(seed: int) -> None:
    random = Random(seed)
    wishes, promises = filters(random), offers(random)
    router = AdvertisementForwarding()
    outlooks = Outlooks(router)
    wanted: dict[Filter, None] = {}
    offered: dict[Advertisement, None] = {}
    told: dict[tuple[str, Subject], bool] = {}
    for _ in range(80):
        for _ in range(random.randrange(4)):
            wish, promise = random.choice(wishes), random.choice(promises)
            if random.random() < 0.5:  # parties of their own, so that none replaces another
                if wish in wanted:
                    router.unsubscribe(f"s{wishes.index(wish)}", wish)
                    del wanted[wish]
                else:
                    router.subscribe(f"s{wishes.index(wish)}", wish)
                    wanted[wish] = None
            elif promise in offered:
                router.unadvertise(f"p{promises.index(promise)}", promise)
                del offered[promise]
            else:
                router.advertise(f"p{promises.index(promise)}", promise)
                offered[promise] = None
        party, subject = random.choice(["me", "you"]), random.choice([*wishes, *promises])
        fresh: set[tuple[str, Subject]] = set()
        if (party, subject) in told and random.random() < 0.5:
            outlooks.remove(party, subject)
            del told[party, subject]
        elif random.random() < 0.5:
            outlooks.add(party, subject)
            fresh = {(party, subject)}
        news = told_at_rest(outlooks)
        assert len({(each.party, each.subject) for each in news}) == len(news)
        for each in news:
            key = each.party, each.subject
            assert key in fresh or told[key] is not each.is_good
            told[key] = each.is_good
        assert told == {key: truth(key[1], wanted, offered) for key in told}
        assert fresh <= told.keys()
        assert set(outlooks.of("me")) == {known for name, known in told if name == "me"}
    for name, known in told:
        outlooks.remove(name, known)
    assert router.subscriptions.news is None
    assert router.advertisements.news is None
    assert not told_at_rest(outlooks)


def test_a_party_is_told_everything_once_more() -> None:
    outlooks = Outlooks(Centralized())
    offer = Advertisement.parse("x any")
    outlooks.add("me", offer)
    outlooks.add("you", offer)
    told_at_rest(outlooks)
    outlooks.repeat("me")
    outlooks.repeat("stranger")
    assert outlooks.news() == [Prospect("me", offer, False)]


def test_who_never_asked_cannot_lose_interest() -> None:
    outlooks = Outlooks(Centralized())
    outlooks.remove("me", Advertisement.parse("x any"))
    assert outlooks.news() == []


@pytest.mark.parametrize(
    ("router", "subject"),
    [
        (Hierarchical(), Advertisement.parse("x any")),
        (Flooding(), Advertisement.parse("x any")),
        (Centralized(), Filter.parse("x any")),
    ],
)
def test_what_servers_cannot_know_is_refused(router: Centralized, subject: Subject) -> None:
    with pytest.raises(NotKnownHereError, match="do not spread to all servers, so none can tell; choose one"):
        Outlooks(router).add("me", subject)


class Steps:
    """Questions, changes and comparisons in any order, beside what is true."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"steps {seed}")
        self.wishes, self.promises = filters(self.random), offers(self.random)
        self.router = AdvertisementForwarding()
        self.outlooks = Outlooks(self.router)
        self.held: dict[Subject, None] = {}
        self.told: dict[tuple[str, Subject], bool | None] = {}
        self.searches: dict[tuple[str, Subject], tuple[Preparation, Iterator[int]]] = {}

    def change(self) -> None:
        """Something comes or goes; parties of their own, so that none replaces another."""
        element = self.random.choice([*self.wishes, *self.promises])
        is_held, router = element in self.held, self.router
        if isinstance(element, Filter):
            party = f"s{self.wishes.index(element)}"
            (router.unsubscribe if is_held else router.subscribe)(party, element)
        else:
            party = f"p{self.promises.index(element)}"
            (router.unadvertise if is_held else router.advertise)(party, element)
        if is_held:
            del self.held[element]
        else:
            self.held[element] = None

    def ask(self) -> None:
        party, subject = self.random.choice(["me", "you"]), self.random.choice([*self.wishes, *self.promises])
        if (party, subject) in self.told:
            self.outlooks.remove(party, subject)
            del self.told[party, subject]
        elif (party, subject) not in self.searches:
            preparation = self.router.preparations.open()
            self.searches[party, subject] = preparation, self.outlooks.prepare(preparation, subject)

    def search(self) -> None:
        """Go on with the search for one question; ask it when the search has ended."""
        if not self.searches:
            return
        key = self.random.choice([*self.searches])
        preparation, steps = self.searches[key]
        if self.random.random() < 0.9 and next(steps, None) is not None:
            return
        if next(steps, None) is None:
            with self.router.prepared(preparation):
                self.outlooks.add(*key)
            self.told[key] = None
        else:  # refused for another reason
            self.router.preparations.close(preparation)
        del self.searches[key]

    def work(self) -> None:
        for _ in zip(range(self.random.randrange(4)), self.outlooks.work(), strict=False):
            pass
        self.hear()

    def hear(self) -> None:
        for party, subject, is_good in self.outlooks.news():
            assert self.told[party, subject] is not is_good, "an answer comes once"
            self.told[party, subject] = is_good

    def rest(self) -> None:
        for _ in self.outlooks.work():
            pass
        self.hear()
        assert not self.outlooks.is_behind
        wanted = [each for each in self.held if isinstance(each, Filter)]
        offered = [each for each in self.held if isinstance(each, Advertisement)]
        assert self.told == {key: truth(key[1], wanted, offered) for key in self.told}


@pytest.mark.parametrize("seed", range(150))
def test_at_rest_answers_are_true_whatever_happened_between_steps(seed: int) -> None:
    steps = Steps(seed)
    weights = [steps.random.randrange(1, 8) for _ in range(4)]
    for _ in range(6):
        for _ in range(60):
            steps.random.choices([steps.change, steps.ask, steps.search, steps.work], weights)[0]()
        steps.rest()
    for name, known in [*steps.told]:
        steps.outlooks.remove(name, known)
    assert steps.router.subscriptions.news is None
    assert steps.router.advertisements.news is None
    assert not steps.outlooks.is_behind


def test_a_party_does_not_hear_that_its_witness_is_gone_before_the_search_for_another_one_has_ended() -> None:
    router = Centralized()
    outlooks = Outlooks(router)
    offer = Advertisement.parse("x any")
    for number in range(20):
        router.subscribe(f"s{number}", Filter.parse(f"x > {number}"))
    outlooks.add("me", offer)
    assert told_at_rest(outlooks) == [Prospect("me", offer, True)]
    for number in range(19):
        router.unsubscribe(f"s{number}", Filter.parse(f"x > {number}"))
        for _ in outlooks.work():
            outlooks.repeat("me")
            assert all(each.is_good for each in outlooks.news())
    router.unsubscribe("s19", Filter.parse("x > 19"))
    assert told_at_rest(outlooks) == [Prospect("me", offer, False)]


def test_an_answer_waits_for_all_that_has_come_before_the_question() -> None:
    router = Centralized()
    outlooks = Outlooks(router)
    outlooks.add("me", Advertisement.parse("y any"))
    told_at_rest(outlooks)
    router.subscribe("s", Filter.parse("x > 3"))
    offer = Advertisement.parse("x any")
    preparation = router.preparations.open()
    assert sum(outlooks.prepare(preparation, offer)) > 0
    with router.prepared(preparation):
        outlooks.add("me", offer)
    assert outlooks.news() == []
    assert told_at_rest(outlooks) == [Prospect("me", offer, True)]
