"""Sites and what it costs to cross them; traces with the papers' fields."""

from __future__ import annotations

from random import Random

import pytest

from palio import Advertisement, Filter, Notification, Pattern
from palio.errors import CallerError
from palio.node import ports
from palio.node.node import NodeSettings
from palio.routing.router import Role
from palio.sim.engine.sites import SiteLink, Sites, Way
from palio.sim.engine.trace import TracedCluster, TraceEntry

LINE = Sites([SiteLink("a", "b", 10, 3), SiteLink("b", "c", 20, 4)])


def test_ways() -> None:
    sites = Sites([SiteLink("a", "b", 1, 10), SiteLink("b", "c", 1, 10), SiteLink("a", "c", 9, 15, 2)], ["alone"])
    assert sites.way("a", "a") == Way(0, 0, 0)
    assert sites.way("a", "c") == sites.way("c", "a") == Way(9, 15, 2)
    assert list(sites) == ["alone", "a", "b", "c"]
    with pytest.raises(CallerError, match="no way from site 'a' to site 'alone'"):
        sites.way("a", "alone")
    with pytest.raises(CallerError, match="there is no site 'x'"):
        sites.way("x", "a")
    with pytest.raises(CallerError, match="cannot be negative"):
        Sites([SiteLink("a", "b", -1, 1)])


def cluster(architecture: str) -> TracedCluster:
    made = TracedCluster(LINE, {"sa": "a", "sb": "b", "sc": "c", "party": "a", "object": "c"}, Random(0))
    role = Role.MASTER if architecture == "hs" else Role.PEER
    for server in ("sa", "sb", "sc"):
        made.start(NodeSettings(server, architecture))
    made.give("sa", [ports.Connect("sb", role)])
    made.give("sc", [ports.Connect("sb", role)])
    made.settle()
    assert made.trace == []
    return made


def told(trace: list[TraceEntry]) -> list[tuple[str, str, str, int, int]]:
    return [(each.type, each.source_object, each.destination_object, each.service_id, each.cost) for each in trace]


def test_every_message_belongs_to_the_service_that_it_follows_from() -> None:
    made = cluster("as")
    made.request("party", "sa", ports.Subscribe(Filter.parse("x > 3")))
    made.settle()
    begin = made.scheduler.now
    made.request("object", "sc", ports.Publish(Notification(x=4)))
    made.request("object", "sc", ports.Publish(Notification(x=2)))
    made.settle()
    assert told(made.trace) == [
        ("subscribe", "party", "sa", 0, 0),
        ("subscribe", "sa", "sb", 0, 3),
        ("subscribe", "sb", "sc", 0, 4),
        ("publish", "object", "sc", 3, 0),
        ("publish", "object", "sc", 4, 0),
        ("notification", "sc", "sb", 3, 4),
        ("notification", "sb", "sa", 3, 3),
        ("notification", "sa", "party", 3, 0),
    ]
    assert [each.message_id for each in made.trace] == list(range(8))
    service = [each for each in made.trace if each.service_id == 3]
    assert (service[0].departure, service[-1].arrival) == (begin, begin + 30)
    assert all(
        each.arrival - each.departure == LINE.way(each.source_site, each.destination_site).latency for each in service
    )


def test_in_a_hierarchy_notifications_go_up_for_nothing() -> None:
    made = cluster("hs")
    made.request("object", "sc", ports.Publish(Notification(x=4)))
    made.settle()
    assert told(made.trace) == [("publish", "object", "sc", 0, 0), ("notification", "sc", "sb", 0, 4)]


def test_one_server_far_away() -> None:
    made = TracedCluster(LINE, {"s": "c", "party": "a"}, Random(0))
    made.start(NodeSettings("s", "ce"))
    made.request("party", "s", ports.Subscribe(Filter.parse("x > 3")))
    made.settle()
    made.place("object", "b")
    made.request("object", "s", ports.Publish(Notification(x=4)))
    made.settle()
    assert [(each.type, each.cost, each.arrival - each.departure) for each in made.trace] == [
        ("subscribe", 7, 30),
        ("publish", 4, 20),
        ("notification", 7, 30),
    ]


def test_patterns_that_are_watched_elsewhere_are_traced() -> None:
    made = cluster("aa")
    made.request("object", "sc", ports.Advertise(Advertisement.parse("x any")))
    made.settle()
    made.request("party", "sa", ports.Subscribe(Pattern.parse("x > 3 then x > 5")))
    made.settle()
    before = len(made.trace)
    made.request("object", "sc", ports.Publish(Notification(x=4)))
    made.settle()
    made.request("object", "sc", ports.Publish(Notification(x=6)))
    made.settle()
    assert [each.type for each in made.trace[:before]] == ["advertise"] * 3 + ["subscribe", "monitor", "monitor"]
    services = [before, before + 3]
    assert told(made.trace[before:]) == [
        *((kind, source, target, services[0], cost) for kind, source, target, cost in ON_THE_WAY),
        *((kind, source, target, services[1], cost) for kind, source, target, cost in ON_THE_WAY),
        ("sequence", "sa", "party", services[1], 0),
    ]


ON_THE_WAY = [("publish", "object", "sc", 0), ("element", "sc", "sb", 4), ("element", "sb", "sa", 3)]
