"""What a network of any shape costs to learn, and to learn anew when something is gone.

Real nodes on the simulated network; the graphs are random, with four links a server on average, each of 5 to 50
milliseconds. *start*: all servers begin at the same moment, without anything, and open their links. *link fails*: both
ends of a link hear that it is gone. *server dies*: all neighbours of a server do. How that is found out is no part of
this. The network never falls apart.

*accounts* are what servers say of their links, each time that one goes over a link; *frames* is all that links send,
acknowledgements included. *of least* compares with the fewest that could do: every server hears once of what every
other one has to say in the end. *milliseconds* pass, in the simulated time, until no server's idea of the network
changes any more; *processor seconds* are for all servers together, until everything is at rest.

At the end the same in a network of which every server has parties: what they want has to take other ways. *filters
told* are the subscriptions and cancellations that servers send each other for that. Several links fail one after the
other, and figures are means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from time import process_time

from palio.bench.populations import subscriptions
from palio.bench.report import Figure
from palio.errors import InternalError
from palio.model import Advertisement
from palio.node import ports
from palio.node.node import NodeSettings
from palio.routing.messages import Account, Message, Stamp
from palio.routing.paths import Graph
from palio.routing.router import Role
from palio.sim.engine.cluster import Cluster

KEYS = (
    *("servers", "links", "filters", "accounts", "accounts_per_link", "of_least", "filters_told", "frames"),
    *("milliseconds", "processor_seconds"),
)
SERVERS = (10, 30, 100, 300, 1_000)
_DEGREE = 4
_SHORTEST, _LONGEST = 5_000, 50_000
"""Latencies, in microseconds."""
FILTERED = (("gs", 100, 10_000), ("ga", 100, 1_000))
"""Architecture, servers and filters where filters have to take other ways."""
_FAILURES = 5
_ADVERTISERS = 5  # one of so many servers
_OFFER = Advertisement.parse("symbol any; price any")
_QUIET = 1_000_000
"""Microseconds in which something would have happened."""
_Links = dict[tuple[str, str], int]


def rows(servers: Sequence[int], progress: Callable[[str], None]) -> Iterator[dict[str, Figure]]:
    """One row for each thing that happens to a network of each size."""
    for size in servers:
        progress(f"any shape, {size:,} servers")
        yield from _learning(size)
    for architecture, size, filters in FILTERED:
        progress(f"{architecture}, {size:,} servers, {filters:,} filters: links fail")
        yield _rerouting(architecture, size, filters)


class Net(Cluster):
    """Servers in a random graph; counts what they say."""

    def __init__(self, size: int, architecture: str = "gs") -> None:
        random = Random(f"graph {size}")  # noqa: S311 (no secrets)
        self._known = _links(random, [f"s{number}" for number in range(size)])
        self.latencies = self._known
        """Of the links that are there."""
        super().__init__(random, self._latency)
        self.random = random
        self.counts: Counter[str] = Counter()
        self.begun = self.changed = 0
        """The last moment at which a server's idea of the network was another one than before."""
        self._versions: dict[str, int] = {}
        for one, other in self.latencies:
            for server in (one, other):
                if server not in self.nodes:
                    self.start(NodeSettings(server, architecture))
        for (one, other), latency in self.latencies.items():
            self.give(one, [ports.Connect(other, Role.PEER, latency)])

    def _latency(self, source: str, target: str) -> int:
        return self._known[min(source, target), max(source, target)]

    def give(self, server: str, inputs: Sequence[ports.Input]) -> None:  # type: ignore[override]
        """A server takes input now."""
        super().give(server, inputs)
        topology = self.nodes[server].router.topology
        assert topology is not None
        if topology.graph.version != self._versions.get(server):
            self._versions[server] = topology.graph.version
            self.changed = self.scheduler.now

    def _take(self, server: str, output: ports.Output) -> None:
        if isinstance(output, ports.Send):
            self.counts["frames"] += 1
        super()._take(server, output)

    def _sent(self, server: str, peer: str, number: int, stamp: Stamp, message: Message) -> None:
        self.counts["accounts" if isinstance(message, Account) else "told"] += 1
        super()._sent(server, peer, number, stamp, message)

    def fail(self, link: tuple[str, str]) -> None:
        """Both ends of a link hear that it is gone."""
        for server, peer in (link, link[::-1]):
            self.give(server, [ports.Disconnect(peer)])
        self.latencies = _without(self.latencies, link)

    def die(self, server: str) -> int:
        """A server is gone, and its neighbours hear it; how many it had."""
        peers = list(self.nodes[server].router.peers)
        self.crash(server)
        for peer in peers:
            self.give(peer, [ports.Disconnect(server)])
        self.latencies = _without(self.latencies, server)
        return len(peers)

    def forget(self) -> float:
        """Count anew from now on; the time of the processor."""
        self.counts.clear()
        self.begun = self.changed = self.scheduler.now
        return process_time()

    def rest(self) -> None:
        """Let time pass until nothing happens any more but questions to a dead server."""
        while True:
            before = self.counts["accounts"], self.counts["told"], self.changed
            self.scheduler.run(until=self.scheduler.now + _QUIET)
            if before == (self.counts["accounts"], self.counts["told"], self.changed):
                return

    def check(self) -> None:
        """All servers must know the network as it is."""
        truth = {(*pair, latency) for pair, latency in self.latencies.items()}
        for server, node in self.nodes.items():
            assert node.router.topology is not None
            if truth.symmetric_difference(node.router.topology.graph.links()):
                raise InternalError(f"{server} does not know the network")


def _links(random: Random, servers: Sequence[str]) -> _Links:
    """A random tree, and as many other links as it takes."""
    pairs = dict.fromkeys((servers[random.randrange(number)], servers[number]) for number in range(1, len(servers)))
    while len(pairs) < min(len(servers) * _DEGREE // 2, len(servers) * (len(servers) - 1) // 2):
        one, other = random.sample(range(len(servers)), 2)
        pairs[servers[min(one, other)], servers[max(one, other)]] = None
    return {(min(pair), max(pair)): random.randint(_SHORTEST, _LONGEST) for pair in pairs}


def _is_whole(links: _Links, servers: Sequence[str]) -> bool:
    """Whether servers reach each other over links."""
    graph = Graph([(*pair, latency) for pair, latency in links.items()])
    return len(graph.tree(servers[0]).distances) == len(servers)


def _without(links: _Links, gone: str | tuple[str, str]) -> _Links:
    """Links but for one of them, or those of a server."""
    return {pair: latency for pair, latency in links.items() if pair != gone and gone not in pair}


def _spare_links(net: Net, count: int) -> Iterator[tuple[str, str]]:
    """Links without which the network is still whole, even without all of them."""
    left = net.latencies
    for link in net.random.sample(list(left), len(left)):
        if count and _is_whole(_without(left, link), list(net.nodes)):
            left = _without(left, link)
            count -= 1
            yield link


def _spare_server(net: Net) -> str:
    """A server without which the network is still whole, with as many links as most have."""
    degrees = Counter(server for pair in net.latencies for server in pair)
    usual = sorted(net.nodes, key=lambda server: abs(degrees[server] - _DEGREE))
    return next(
        each
        for each in usual
        if _is_whole(_without(net.latencies, each), [other for other in net.nodes if other != each])
    )


def _learning(size: int) -> Iterator[dict[str, Figure]]:
    begin = process_time()
    net = Net(size)
    net.rest()
    yield _row(net, "start", begin, size * (size - 1))
    [link] = _spare_links(net, 1)
    begin = net.forget()
    net.fail(link)
    net.rest()
    yield _row(net, "link fails", begin, 2 * (size - 1))
    server = _spare_server(net)
    begin = net.forget()
    neighbours = net.die(server)
    net.rest()
    yield _row(net, "server dies", begin, neighbours * (size - 2))


def _row(net: Net, operation: str, begin: float, least: int) -> dict[str, Figure]:
    seconds, accounts = process_time() - begin, net.counts["accounts"]
    net.check()
    return {
        "operation": operation,
        "servers": len(net.nodes),
        "links": len(net.latencies),
        "accounts": accounts,
        "accounts_per_link": accounts / len(net.latencies),
        "of_least": accounts / least,
        "frames": net.counts["frames"],
        "milliseconds": (net.changed - net.begun) / 1000,
        "processor_seconds": seconds,
    }


def _rerouting(architecture: str, size: int, filters: int) -> dict[str, Figure]:
    net = Net(size, architecture)
    net.rest()
    servers = list(net.nodes)
    if architecture == "ga":
        for server in servers[::_ADVERTISERS]:
            net.give(server, [ports.Request("object", 0, ports.Advertise(_OFFER))])
        net.rest()
    wanted = list(islice(subscriptions("stock"), filters))
    for number, server in enumerate(servers):
        mine = enumerate(wanted[number::size])
        net.give(server, [ports.Request(f"p{each}", 0, ports.Subscribe(filter)) for each, filter in mine])
    net.rest()
    links = list(_spare_links(net, _FAILURES))
    net.forget()
    seconds = milliseconds = 0.0
    for link in links:
        net.begun, begin = net.scheduler.now, process_time()
        net.fail(link)
        net.rest()
        seconds += process_time() - begin
        milliseconds += (net.changed - net.begun) / 1000
        net.check()
    return {
        "operation": f"link fails, {architecture}",
        "servers": size,
        "links": len(net.latencies),
        "filters": filters,
        "accounts": net.counts["accounts"] / len(links),
        "filters_told": net.counts["told"] / len(links),
        "frames": net.counts["frames"] / len(links),
        "milliseconds": milliseconds / len(links),
        "processor_seconds": seconds / len(links),
    }
