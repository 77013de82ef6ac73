"""How fast the simulator is: messages a second through the real nodes, and how that and its memory grow.

Servers stand on a random tree, one at each site. Parties subscribe, objects publish, and all messages are counted that
the papers count: requests, messages between servers, and deliveries. What links say to keep themselves is not.
"""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from time import process_time
from typing import NamedTuple

from palio.bench.report import Figure, Report
from palio.model import Advertisement, Filter, Notification
from palio.node import ports
from palio.node.node import NodeSettings
from palio.routing.router import Role
from palio.sim.engine.cluster import Cluster

ARCHITECTURES = ("ce", "hs", "as", "aa", "nf")
_FILTERS = 2_000
_LATENCY = 10_000
_PACE = 2_000
"""Microseconds between two publications."""
_OFFER = Advertisement.parse("symbol any; price any")


class Scenario(NamedTuple):
    """How large."""

    servers: int
    parties: int
    publications: int


SCENARIOS = (Scenario(10, 100, 2_000), Scenario(100, 1_000, 2_000), Scenario(100, 10_000, 300))
LARGE = (Scenario(1_000, 100_000, 100),)


def run(
    progress: Callable[[str], None] = lambda _: None,
    scenarios: Sequence[Scenario] = SCENARIOS,
    architectures: Sequence[str] = ARCHITECTURES,
) -> Report:
    """Measure everything; ``progress`` is told what comes next."""
    rows: list[dict[str, Figure]] = []
    for scenario in scenarios:
        for architecture in architectures:
            progress(f"{architecture}: {scenario.servers:,} servers, {scenario.parties:,} parties")
            rows += _measure(architecture, scenario)
            gc.collect()
    return Report("sim", rows)


def _measure(architecture: str, scenario: Scenario) -> Iterator[dict[str, Figure]]:
    random = Random(f"{architecture} {scenario}")
    cluster = Cluster(random, lambda _source, _target: _LATENCY)
    servers = [f"s{number}" for number in range(1 if architecture == "ce" else scenario.servers)]
    filters = [Filter.parse(f'symbol = "{i % 40}" and price > {i // 40}') for i in range(_FILTERS)]
    phases: list[tuple[str, Callable[[], None], int]] = [
        ("connect", partial(_connect, cluster, architecture, servers, random), 0),
        ("subscribe", partial(_subscribe, cluster, servers, filters, scenario.parties, random), scenario.parties),
        ("publish", partial(_publish, cluster, servers, scenario.publications, random), scenario.publications),
    ]
    for phase, work, requests in phases:
        before, delivered = cluster.messages, len(cluster.deliveries)
        begin = process_time()
        work()
        seconds = process_time() - begin
        between = cluster.messages - before
        deliveries = len(cluster.deliveries) - delivered
        messages = requests + between + deliveries
        yield {
            "architecture": architecture,
            "servers": len(servers),
            "parties": scenario.parties,
            "phase": phase,
            "requests": requests,
            "server_messages": between,
            "deliveries": deliveries,
            "seconds": seconds,
            "messages_per_second": messages / seconds if messages else 0.0,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def _connect(cluster: Cluster, architecture: str, servers: list[str], random: Random) -> None:
    role = Role.MASTER if architecture == "hs" else Role.PEER
    for number, server in enumerate(servers):
        cluster.start(NodeSettings(server, architecture))
        if number:
            cluster.give(server, [ports.Connect(servers[random.randrange(number)], role)])
            cluster.settle()


def _subscribe(cluster: Cluster, servers: list[str], filters: list[Filter], parties: int, random: Random) -> None:
    if cluster.nodes[servers[0]].router.name == "aa":
        offer = [ports.Request("object", 0, ports.Advertise(_OFFER))]
        for server in servers:
            cluster.give(server, offer)
        cluster.settle()
    for number in range(parties):
        subscribe = ports.Subscribe(filters[random.randrange(len(filters))])
        cluster.give(servers[random.randrange(len(servers))], [ports.Request(f"p{number}", number, subscribe)])
    cluster.settle()


def _publish(cluster: Cluster, servers: list[str], publications: int, random: Random) -> None:
    for number in range(publications):
        notification = Notification(symbol=str(random.randrange(40)), price=random.randrange(60))
        request = ports.Request("object", number, ports.Publish(notification))
        give = partial(cluster.give, servers[random.randrange(len(servers))], [request])
        cluster.scheduler.at(cluster.scheduler.now + number * _PACE, give)
    cluster.settle()
