"""The table of available patterns: providers and factoring, against brute force and the thesis's example."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio import Advertisement, Filter, Pattern
from palio.routing.architectures import ARCHITECTURES
from palio.routing.available import Available
from palio.routing.messages import Advertise, Unadvertise
from palio.routing.router import LOCAL, Role, Router

KINDS = "abc"
NEIGHBOURS = ("2", "3")


def offer(kinds: str) -> Advertisement:
    return Advertisement.parse("; ".join(f'kind = "{kind}"' for kind in kinds))


def kind(name: str) -> Filter:
    return Filter.parse(f'kind = "{name}"')


def pattern(kinds: str) -> Pattern:
    return Pattern(map(kind, kinds))


def network(**offers: str) -> Router:
    """A server with neighbours that offer kinds; what its own party offers is under "local"."""
    router = ARCHITECTURES["aa"]("1")
    for peer in NEIGHBOURS:
        router.connect(peer, Role.PEER)
        if offers.get(f"_{peer}"):
            router.receive(peer, Advertise(offer(offers[f"_{peer}"])))
    if offers.get("local"):
        router.advertise("me", offer(offers["local"]))
    return router


def factor(router: Router, wanted: Pattern) -> tuple[Filter | Pattern, ...]:
    return Available(router).factor(wanted, lambda peer: peer != LOCAL)


def test_the_example_of_the_thesis() -> None:
    router = ARCHITECTURES["aa"]("1")
    for peer in NEIGHBOURS:
        router.connect(peer, Role.PEER)
        router.receive(peer, Advertise(Advertisement.parse('file any; operation = "file-change"')))
    router.receive("3", Advertise(Advertisement.parse('alarm = "bad-login"; attempts > 0')))
    login = 'alarm = "bad-login" and attempts'
    wanted = Pattern.parse(
        f'{login} = 1 then {login} = 2 then file = "/etc/passwd" and operation = "file-change"',
    )
    available = Available(router)
    assert [available.providers(each) for each in wanted] == [("3",), ("3",), ("2", "3")]
    assert factor(router, wanted) == (Pattern(wanted.filters[:2]), wanted.filters[2])


def test_what_is_needed_alone_is_in_no_group() -> None:
    router = network(_2="ab", _3="c")
    assert factor(router, pattern("abc")) == (pattern("ab"), kind("c"))
    assert factor(router, pattern("abca")) == (kind("a"), kind("b"), kind("c"), kind("a"))
    assert factor(router, pattern("abcab")) == (pattern("ab"), kind("c"), pattern("ab"))
    assert factor(router, pattern("abcb")) == tuple(map(kind, "abcb"))


def test_a_whole_pattern_is_no_group() -> None:
    assert factor(network(_2="abc"), pattern("ab")) == (kind("a"), kind("b"))


def test_changes_are_noticed() -> None:
    router = network(_2="a")
    available = Available(router)
    assert available.only_provider(pattern("a").filters) == "2"
    assert available.only_provider(pattern("ab").filters) is None
    router.receive("3", Advertise(offer("a")))
    assert available.refresh() == [kind("a")]
    assert available.providers(kind("a")) == ("2", "3")
    assert available.only_provider(pattern("a").filters) is None
    router.receive("2", Unadvertise(offer("a")))
    router.advertise("me", offer("b"))
    assert sorted(available.refresh(), key=str) == [kind("a"), kind("b")]
    assert available.providers(kind("a")) == ("3",)
    assert available.only_provider(pattern("bb").filters) == LOCAL
    assert available.refresh() == []
    router.disconnect("3")
    assert available.refresh() == [kind("a")]
    assert available.providers(kind("a")) == ()


def test_nothing_is_looked_at_again_if_nothing_has_changed() -> None:
    router = network(_2="a")
    available = Available(router)
    router.offers = None  # type: ignore[method-assign, assignment]
    router.subscribe("me", kind("a"))
    assert available.refresh() == []
    assert available.providers(kind("a")) == ("2",)


offers = st.sets(st.sampled_from(KINDS)).map(sorted).map("".join)


@given(
    st.fixed_dictionaries({"_2": offers, "_3": offers, "local": offers}),
    st.text(KINDS, min_size=2, max_size=6),
)
def test_factors_are_as_the_four_conditions_say(offered: dict[str, str], kinds: str) -> None:
    router, wanted = network(**offered), pattern(kinds)
    found = factor(router, wanted)
    assert [each for step in found for each in ([step] if isinstance(step, Filter) else step)] == list(wanted)
    places = {"2": offered["_2"], "3": offered["_3"], LOCAL: offered["local"]}
    begin = 0
    for step in found:
        length = 1 if isinstance(step, Filter) else len(step)
        group, begin = kinds[begin : begin + length], begin + length
        if length == 1:
            continue
        providers = [{peer for peer, has in places.items() if each in has} for each in group]
        assert providers in ([{"2"}] * length, [{"3"}] * length)
        (peer,) = providers[0]
        rest = kinds.replace(group, "-" * length)
        assert not any(each in places[peer] for each in rest), "one advertisement announces all of a neighbour's kinds"
