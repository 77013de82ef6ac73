"""Shortest paths against all paths there are, and what servers learn of a network that changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import combinations, pairwise
from random import Random

import pytest

from palio.routing.messages import Account
from palio.routing.paths import Graph
from palio.routing.topology import PACE, BadAccountError, Topology

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


@pytest.mark.parametrize("seed", range(40))
def test_a_graph_that_changes_has_the_paths_of_one_that_is_new(seed: int) -> None:
    random = Random(seed)
    servers = [f"s{number}" for number in range(random.randrange(2, 9))]
    pairs = list(combinations(servers, 2))
    links: Links = {}
    graph = Graph()
    trees = {server: graph.tree(server) for server in servers}
    for changes in range(1, 40):
        pair = random.choice(pairs)
        if pair in links:
            del links[pair]
            graph.remove(*random.sample(pair, 2))
        else:
            links[pair] = random.choice([1, 1, 2, 3])
            graph.add(*random.sample(pair, 2), links[pair])
        assert graph.version == changes
        assert sorted(graph.links()) == sorted((*pair, latency) for pair, latency in links.items())
        fresh = Graph((*pair, latency) for pair, latency in links.items())
        for server, before in trees.items():
            right = fresh.tree(server)
            assert graph.tree(server) == right
            assert list(graph.tree(server).distances) == list(right.distances)
            assert (graph.tree(server) is before) is (right == before)
            trees[server] = graph.tree(server)


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
        self.now = 0

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
            for peer, accounts in self.servers[name].updates(self.now):
                self.queues[name, peer].extend(accounts)

    def wait(self) -> bool:
        """Let time pass until somebody has waited long enough."""
        deadlines = [each.deadline for each in self.servers.values() if each.deadline is not None]
        if not deadlines:
            return False
        assert min(deadlines) > self.now
        self.now = min(deadlines)
        self.tell(*(name for name, topology in self.servers.items() if topology.is_due(self.now)))
        return True

    def step(self) -> bool:
        waiting = [way for way, queue in self.queues.items() if queue]
        if not waiting or self.random.random() < 0.1:
            return self.wait() or bool(waiting)
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


def accounts_of(said: list[tuple[str, list[Account]]]) -> dict[str, list[tuple[str, int]]]:
    return {peer: [(account.server, account.number) for account in accounts] for peer, accounts in said}


def test_accounts_wait_for_each_other() -> None:
    topology = Topology("milan")
    topology.connect("rome", 1, STAMP)
    assert accounts_of(topology.updates(100)) == {"rome": [("milan", 1)]}
    assert topology.deadline is None
    topology.connect("bari", 1, (2, "milan", 0))
    topology.receive("bari", Account("bari", 0, 1, ()))
    topology.receive("bari", Account("bari", 0, 2, ()))
    assert topology.updates(100 + PACE - 1) == []
    assert topology.waiting() == ("milan", "bari")
    assert topology.deadline == 100 + PACE
    assert not topology.is_due(100 + PACE - 1)
    assert topology.is_due(100 + PACE)
    assert accounts_of(topology.updates(100 + PACE)) == {
        "rome": [("milan", 2), ("bari", 2)],
        "bari": [("milan", 2)],
    }
    assert topology.deadline is None
    assert topology.waiting() == ()
    assert not topology.is_due(10**9)


def test_accounts_do_not_wait_if_nobody_had_to_be_told_before_or_it_is_pressing() -> None:
    topology = Topology("milan")
    topology.connect("rome", 1, STAMP)
    topology.updates(0)
    topology.receive("rome", Account("bari", 0, 1, ()))
    assert topology.updates(PACE) == []  # the only neighbour has told it
    topology.disconnect("rome")
    assert topology.updates(PACE) == []
    topology.connect("rome", 1, (2, "milan", 0))
    assert accounts_of(topology.updates(PACE)) == {"rome": [("bari", 1), ("milan", 3)]}
    topology.receive("rome", Account("bari", 0, 2, ()))
    topology.connect("pisa", 1, (3, "milan", 0))
    assert accounts_of(topology.updates(PACE, pressing=True)) == {
        "rome": [("milan", 4)],
        "pisa": [("bari", 2), ("milan", 4)],
    }


def test_a_neighbour_is_not_told_again_what_has_met_an_older_account_on_the_way() -> None:
    topology = Topology("milan")
    topology.connect("rome", 1, STAMP)
    topology.connect("bari", 1, (2, "milan", 0))
    topology.receive("bari", Account("pisa", 0, 2, ()))
    assert ("pisa", 2) in accounts_of(topology.updates(0))["rome"]
    topology.receive("rome", Account("pisa", 0, 1, ()))
    assert topology.updates(PACE) == []


def test_what_waited_is_told_after_a_restart() -> None:
    topology = Topology("milan")
    topology.connect("rome", 1, STAMP)
    topology.updates(0)
    topology.receive("rome", Account("rome", 0, 1, (("milan", 1, STAMP),)))
    topology.receive("rome", Account("bari", 0, 1, ()))
    topology.receive("rome", Account("pisa", 0, 1, ()))
    after = Topology("milan")
    after.connect("rome", 1, STAMP)
    after.restore(topology.accounts().values(), ["bari"])
    assert after.learned() == []
    assert after.waiting() == ("bari",)
    assert after.is_due(0)
    assert after.graph.latency("milan", "rome") == 1
    assert accounts_of(after.updates(0)) == {"rome": [("bari", 1)]}
    again = Topology("milan")
    again.connect("rome", 1, STAMP)
    again.restore(topology.accounts().values(), [])
    assert again.deadline is None
    assert again.updates(0) == []
    again.connect("lucca", 1, (2, "milan", 0))
    assert accounts_of(again.updates(0))["rome"] == [("milan", 2)]


def test_a_link_of_which_one_end_alone_gives_account_does_not_count_after_a_restart_either() -> None:
    seen, unseen = ("milan", 1, STAMP), ("bari", 1, (5, "bari", 0))
    topology = Topology("milan")
    topology.connect("rome", 1, STAMP)
    topology.restore(
        [*topology.accounts().values(), Account("rome", 0, 1, (seen, unseen)), Account("bari", 0, 3, ())], ()
    )
    assert list(topology.graph.links()) == [("milan", "rome", 1)]


def test_what_is_known_already_is_not_learned_again() -> None:
    topology = Topology("milan")
    topology.connect("rome", 1, STAMP)
    topology.receive("rome", Account("bari", 0, 1, ()))
    assert [account.server for account in topology.learned()] == ["milan", "bari"]
    topology.receive("rome", Account("bari", 0, 1, ()))
    assert topology.learned() == []


def test_servers_beyond_gateways() -> None:
    here = (0, "", 0)
    topology = Topology("milan")
    topology.reach({})
    assert topology.accounts()["milan"].number == 0
    topology.connect("rome", 1, STAMP)
    topology.reach({"paris": (4, "milan", 0)})
    assert topology.accounts()["milan"].beyond == (("paris", (4, "milan", 0)),)
    topology.reach({"paris": (4, "milan", 0)})
    topology.receive(
        "rome",
        Account("rome", 0, 1, (("milan", 1, STAMP), ("bari", 1, (2, "bari", 0))), (("lyon", (7, "rome", 0)),)),
    )
    far = (("lyon", (3, "bari", 0)), ("nice", (8, "bari", 0)))
    topology.receive("rome", Account("bari", 0, 1, (("rome", 1, (2, "bari", 0)),), far))
    topology.receive("rome", Account("pisa", 0, 1, (), (("lille", (1, "pisa", 0)),)))  # nobody can reach it
    servers = {"milan": here, "rome": here, "bari": here}
    assert topology.members() == {**servers, "lyon": (3, "bari", 0), "nice": (8, "bari", 0)}
    assert topology.accounts()["milan"].number == 2
    after = Topology("milan")
    after.connect("rome", 1, STAMP)
    after.restore(topology.accounts().values(), ())
    after.connect("bari", 1, (9, "milan", 0))
    assert after.accounts()["milan"].beyond == (("paris", (4, "milan", 0)),)


def test_accounts_that_no_server_can_give() -> None:
    topology = Topology("milan", 3)
    topology.connect("rome", 1, STAMP)
    with pytest.raises(BadAccountError, match="below 1"):
        topology.receive("rome", Account("bari", 0, 1, (("rome", 0, STAMP),)))
    with pytest.raises(BadAccountError, match="or one to itself"):
        topology.receive("rome", Account("bari", 0, 1, (("bari", 1, STAMP),)))
    with pytest.raises(BadAccountError, match="two links to the same"):
        topology.receive("rome", Account("bari", 0, 1, (("rome", 1, STAMP), ("rome", 2, STAMP))))
    topology.receive("rome", Account("milan", 2, 9, ()))
    assert topology.accounts()["milan"].incarnation == 3


def test_a_server_whose_clock_was_put_back_outdoes_what_the_network_knows_of_it() -> None:
    topology = Topology("milan", 3)
    topology.connect("rome", 1, STAMP)
    topology.receive("rome", Account("milan", 4, 7, ()))
    [(peer, [account])] = topology.updates(0)
    assert (peer, account) == ("rome", Account("milan", 4, 8, (("rome", 1, STAMP),)))
    topology.connect("bari", 1, STAMP)
    assert topology.accounts()["milan"].number == 9


def test_another_server_of_the_same_name_is_noticed() -> None:
    topology = Topology("milan", 3)
    topology.connect("rome", 1, STAMP)
    with pytest.raises(BadAccountError, match="another server with the name 'milan'"):
        topology.receive("rome", Account("milan", 1 << 63, 1, ()))
    for number in range(15):
        topology.receive("rome", Account("milan", 4, 2 * number + 1, ()))
    with pytest.raises(BadAccountError, match="another server with the name 'milan'"):
        topology.receive("rome", Account("milan", 4, 100, ()))
