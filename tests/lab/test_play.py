"""Scenarios that are played: what objects and parties do, and what is traced of it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from palio.lab.play import Play
from palio.lab.scenario import Delay, Objects, Parties, Scenario, Specification, expand
from palio.lab.topology import Topology, transit_stub

NETWORK = transit_stub(3)


def scenario(architecture: str, network: Topology = NETWORK) -> Scenario:
    specification = Specification(
        architecture,
        (Objects("A", 5, 4, Delay(2000, 2500), 3), Objects("B", 1, 2, Delay(700, is_poisson=True), 1)),
        (
            Parties("A", 20, 2, Delay(2000, 2500), 3),
            Parties("B", 3, 1, Delay(0), None, Delay(9000)),
            Parties("A", 2, 1, Delay(10), 10_000),
        ),
    )
    return expand(specification, network, Random(5))


@pytest.mark.parametrize("architecture", ["ce", "hs", "as", "aa", "gs", "ga"])
def test_objects_and_parties_go_through_their_cycles(architecture: str) -> None:
    trace = Play(scenario(architecture), 1).run()
    requests = Counter((entry.type, entry.source_object) for entry in trace if entry.source_object[0] in "op")
    for number in range(5):
        name = f"o{number}"
        assert (requests["advertise", name], requests["publish", name], requests["unadvertise", name]) == (3, 12, 3)
    assert (requests["advertise", "o5"], requests["publish", "o5"]) == (1, 2)
    got = Counter(entry.destination_object for entry in trace if entry.destination_object[0] == "p")
    for number in range(20):
        assert requests["subscribe", f"p{number}"] == requests["unsubscribe", f"p{number}"] == 2
        assert got[f"p{number}"] >= 6
    for number in range(20, 23):
        assert requests["subscribe", f"p{number}"] == requests["unsubscribe", f"p{number}"] == 1
    for number in range(23, 25):  # they wait for more than there is
        assert (requests["subscribe", f"p{number}"], requests["unsubscribe", f"p{number}"]) == (1, 0)


@pytest.mark.parametrize("architecture", ["ce", "hs", "as", "aa"])
def test_entries_are_as_the_thesis_says(architecture: str) -> None:
    played = scenario(architecture)
    trace, ways = Play(played, 1).run(), NETWORK.sites()
    assert [entry.message_id for entry in trace] == list(range(len(trace)))
    for entry in trace:
        way = ways.way(entry.source_site, entry.destination_site)
        assert (entry.cost, entry.arrival - entry.departure) == (way.cost, way.latency)
        service = trace[entry.service_id]
        assert service.message_id <= entry.message_id
        assert service.source_object[0] in "op"
        assert service.departure <= entry.departure


def test_a_seed_says_everything() -> None:
    played = scenario("as")
    assert Play(played, 1).run() == Play(played, 1).run()
    assert Play(played, 1).run() != Play(played, 2).run()  # the times of the object that is Poisson
