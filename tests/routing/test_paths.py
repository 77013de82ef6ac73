"""Shortest paths against all paths there are, and what servers learn of a network that changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import combinations, pairwise
from random import Random

import pytest

from palio.routing.messages import Account
from palio.routing.paths import Graph
from palio.routing.topology import BadAccountError, Topology

Links = dict[tuple[str, str], int]
STAMP = (1, "rome", 0)


def links_of(random: Random, servers: list[str]) -> Links:
    """A random graph with many equally long ways."""
    pairs = list(combinations(servers, 2))
    return {pair: random.choice([1, 1, 2, 3]) for pair in random.sample(pairs, random.randrange(len(pairs) + 1))}


def ways(links: Links, here: str, target: str, passed: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All simple ways from one server to another."""
    passed = (*passed, here)
    if here == target:
        yield passed
        return
    for one, other in links:
        for near, far in ((one, other), (other, one)):
            if near == here and far not in passed:
                yield from ways(links, far, target, passed)


def path(graph: Graph, root: str, target: str) -> tuple[str, ...]:
    found = [target]
    while found[0] != root:
        found.insert(0, graph.tree(root).parents[found[0]])
    return tuple(found)


def length(links: Links, way: tuple[str, ...]) -> int:
    return sum(links.get((one, other)) or links[other, one] for one, other in pairwise(way))


@pytest.mark.parametrize("seed", range(60))
def test_one_shortest_path_the_same_in_both_directions(seed: int) -> None:
    random = Random(seed)
    servers = [f"s{number}" for number in range(random.randrange(2, 7))]
    links = links_of(random, servers)
    given = [(*pair, latency) for pair, latency in links.items()]
    random.shuffle(given)
    graph = Graph(given)
    for root in servers:
        for target in servers:
            all_ways = list(ways(links, root, target))
            assert (target in graph.tree(root).distances) == bool(all_ways)
            if not all_ways:
                assert not graph.is_between(root, root, target)
                continue
            found = path(graph, root, target)
            assert length(links, found) == min(length(links, way) for way in all_ways) == graph.latency(root, target)
            assert found == tuple(reversed(path(graph, target, root)))
            assert {each for each in servers if graph.is_between(root, each, target)} == set(found)
            if root != target:
                assert graph.tree(root).first[target] == found[1]
            for place, server in enumerate(found):
                assert path(graph, server, target) == found[place:]


def test_the_cycle_where_the_lowest_name_is_no_way_to_choose() -> None:
    graph = Graph([("1", "2", 1), ("2", "5", 1), ("5", "6", 1), ("6", "4", 1), ("4", "3", 1), ("3", "1", 1)])
    assert path(graph, "1", "6") == tuple(reversed(path(graph, "6", "1")))


def test_names_whose_ends_run_together_are_kept_apart() -> None:
    graph = Graph([("a", "b c", 1), ("b c", "d", 1), ("a", "a b", 1), ("a b", "d", 1)])
    assert path(graph, "a", "d") == tuple(reversed(path(graph, "d", "a")))


class Flood:
    """Servers that tell each other of their links, over ways that keep the order and nothing else."""

    def __init__(self, random: Random, servers: list[str]) -> None:
        self.random = random
        self.lives = dict.fromkeys(servers, 0)
        self.servers = {name: Topology(name) for name in servers}
        self.links: Links = {}
        self.queues: dict[tuple[str, str], deque[Account]] = {}
        self.messages = 0
        self.stamps = 0

    def connect(self, one: str, other: str, latency: int) -> None:
        self.links[one, other] = latency
        self.stamps += 1
        for here, there in ((one, other), (other, one)):
            self.queues[here, there] = deque()
            self.servers[here].connect(there, latency, (self.stamps, one, 0))
        self.tell(one, other)

    def disconnect(self, one: str, other: str) -> None:
        del self.links[one, other]
        for here, there in ((one, other), (other, one)):
            del self.queues[here, there]
            self.servers[here].disconnect(there)
        self.tell(one, other)

    def restart(self, name: str) -> None:
        """A server that has forgotten everything."""
        for one, other in [link for link in self.links if name in link]:
            self.disconnect(one, other)
        self.lives[name] += 1
        self.servers[name] = Topology(name, self.lives[name])

    def tell(self, *names: str) -> None:
        for name in names:
            for peer, accounts in self.servers[name].updates(0, pressing=True):
                self.queues[name, peer].extend(accounts)

    def step(self) -> bool:
        waiting = [way for way, queue in self.queues.items() if queue]
        if not waiting:
            return False
        source, target = self.random.choice(waiting)
        for _ in range(self.random.randrange(1, len(self.queues[source, target]) + 1)):
            self.servers[target].receive(source, self.queues[source, target].popleft())
            self.messages += 1
        self.tell(target)
        return True

    def settle(self) -> None:
        while self.step():
            assert self.messages < 100_000

    def check(self) -> None:
        truth = Graph([(*pair, latency) for pair, latency in self.links.items()])
        for name, topology in self.servers.items():
            assert list(topology.servers) == list(truth.tree(name).distances)
            for other in topology.servers:
                assert topology.graph.tree(other) == truth.tree(other)


@pytest.mark.parametrize("seed", range(40))
def test_all_servers_know_the_network_at_rest(seed: int) -> None:
    random = Random(seed)
    servers = [f"s{number}" for number in range(random.randrange(2, 9))]
    flood = Flood(random, servers)
    for _ in range(40):
        draw = random.random()
        free = [pair for pair in combinations(servers, 2) if pair not in flood.links]
        if draw < 0.5 and free:
            flood.connect(*random.choice(free), random.randrange(1, 4))
        elif draw < 0.65 and flood.links:
            flood.disconnect(*random.choice(list(flood.links)))
        elif draw < 0.7:
            flood.restart(random.choice(servers))
        else:
            for _ in range(random.randrange(8)):
                flood.step()
        if random.random() < 0.15:
            flood.settle()
            flood.check()
    flood.settle()
    flood.check()


def test_an_account_goes_over_every_link_at_most_once_in_each_direction() -> None:
    flood = Flood(Random(1), ["a", "b", "c", "d"])
    for pair in combinations("abcd", 2):
        flood.connect(*pair, 1)
    flood.settle()
    flood.messages = 0
    flood.disconnect("a", "b")
    flood.settle()
    assert flood.messages <= 2 * 5 * 2  # two accounts, five links, two directions


def test_accounts_that_no_server_can_give() -> None:
    topology = Topology("milan", 3)
    topology.connect("rome", 1, STAMP)
    with pytest.raises(BadAccountError, match="below 1"):
        topology.receive("rome", Account("bari", 0, 1, (("rome", 0, STAMP),)))
    with pytest.raises(BadAccountError, match="later life"):
        topology.receive("rome", Account("milan", 4, 1, ()))
    topology.receive("rome", Account("milan", 2, 9, ()))
    assert topology.accounts()["milan"].incarnation == 3
