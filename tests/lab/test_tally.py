"""Figures that are added up on the way are those of the trace."""

from __future__ import annotations

from statistics import fmean, pstdev

import pytest

from palio.lab.play import Play
from palio.lab.tally import METRICS, Tally
from palio.sim.engine.trace import TraceEntry
from tests.lab.test_play import NETWORK, scenario


def slowly(trace: list[TraceEntry]) -> tuple[dict[str, float], dict[str, int]]:
    """The figures by their definitions alone."""
    services = {entry.service_id: [each for each in trace if each.service_id == entry.service_id] for entry in trace}
    costs = {number: sum(each.cost for each in group) for number, group in services.items()}
    times = {
        number: max(each.arrival for each in group) - min(each.departure for each in group)
        for number, group in services.items()
    }
    sites = {
        site: sum(each.cost for each in trace if site in (each.source_site, each.destination_site))
        for site in NETWORK.names
    }
    total = sum(each.cost for each in trace)

    def mean_of(kind: str, values: dict[int, int]) -> float:
        found = [values[number] for number, group in services.items() if group[0].type == kind]
        return fmean(found) if found else 0.0

    figures = {
        "messages": len(trace),
        "cost": total,
        "services": len(services),
        "service_cost": total / len(services),
        "site_variation": pstdev(sites.values()) / fmean(sites.values()),
        "subscription_cost": mean_of("subscribe", costs),
        "notification_cost": mean_of("publish", costs),
        "subscription_delay": mean_of("subscribe", times),
        "publication_delay": mean_of("publish", times),
        "mean_delay": fmean(times.values()),
        "longest_delay": max(times.values()),
    }
    return figures, sites


@pytest.mark.parametrize("architecture", ["ce", "hs", "as", "aa"])
def test_the_same_as_from_the_trace(architecture: str) -> None:
    played = scenario(architecture)
    trace, tally = Play(played, 1).run(), Tally(NETWORK.names)
    assert Play(played, 1, tally.add).run() == []
    figures, sites = slowly(trace)
    assert tally.figures() == pytest.approx(figures)
    assert tally.sites() == sites
    quick = Tally(NETWORK.names)
    assert Play(played, 1, tally=quick).run() == []
    assert (quick.figures(), quick.sites()) == (tally.figures(), tally.sites())
    assert tuple(figures) == METRICS


def test_nothing() -> None:
    tally = Tally(["a"])
    assert tally.figures() == dict.fromkeys(METRICS, 0.0)
    assert tally.sites() == {"a": 0}
