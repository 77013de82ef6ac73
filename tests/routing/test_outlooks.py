"""What parties are told about demand and offers, against all pairs of a filter and an advertisement."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from palio import Advertisement, Filter
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
        news = outlooks.news()
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
    assert not outlooks.news()


def test_a_party_is_told_everything_once_more() -> None:
    outlooks = Outlooks(Centralized())
    offer = Advertisement.parse("x any")
    outlooks.add("me", offer)
    outlooks.add("you", offer)
    outlooks.news()
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
