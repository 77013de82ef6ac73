"""Routers joined by queues, delivered in any order, against what the simulator's world says is true."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import combinations
from random import Random

from palio import Advertisement, Filter, Notification
from palio.routing.architectures import ARCHITECTURES
from palio.routing.messages import Account, Control, Publish
from palio.routing.router import Role, Router
from palio.routing.table import DEPARTED
from palio.routing.topology import Topology
from palio.sim.generators.networks import advertisement_text, filter_text, notification_text
from palio.sim.invariants.world import GraphWorld, World

Link = tuple[str, str]
GENERAL = ("gs", "ga")


def low_first(one: str, other: str) -> Link:
    return (one, other) if one < other else (other, one)


class Network:
    """Servers of one architecture, links without loss, and parties with what they hold."""

    def __init__(self, architecture: str, servers: Iterable[str], random: Random) -> None:
        self.architecture, self.random = architecture, random
        self.routers: dict[str, Router] = {name: ARCHITECTURES[architecture](name) for name in servers}
        self.latencies: dict[Link, int] = {}
        self.queues: dict[Link, deque[Control | Account]] = {}
        self.filters: dict[str, dict[str, list[Filter]]] = {name: {} for name in self.routers}
        self.advertisements: dict[str, dict[str, list[Advertisement]]] = {name: {} for name in self.routers}
        self.messages = 0
        self.stamps = 0

    # -- what happens --------------------------------------------------------------------------------------------------

    def connect(self, master: str, client: str) -> None:
        is_tree = self.architecture == "hs"
        self.routers[client].connect(master, Role.MASTER if is_tree else Role.PEER)
        self.routers[master].connect(client, Role.CLIENT if is_tree else Role.PEER)
        self.queues[master, client] = deque()
        self.queues[client, master] = deque()
        if self.architecture in GENERAL:
            self.stamps += 1
            latency = self.latencies[low_first(master, client)] = self.random.choice([1, 1, 2, 3])
            for here, there in ((master, client), (client, master)):
                self.topology(here).connect(there, latency, (self.stamps, "", 0))
        self.tell(master, client)

    def disconnect(self, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            del self.queues[here, there]
            self.routers[here].disconnect(there)
            for standing in self.routers[here].standing(DEPARTED):
                self.routers[here].forget(standing)
            if self.architecture in GENERAL:
                self.topology(here).disconnect(there)
        self.latencies.pop(low_first(one, other), None)
        self.tell(one, other)

    def topology(self, server: str) -> Topology:
        found = self.routers[server].topology
        assert found is not None
        return found

    def subscribe(self, server: str, party: str, filter: Filter) -> None:
        held = self.filters[server].setdefault(party, [])
        if not any(each.covers(filter) for each in held):
            self.filters[server][party] = [each for each in held if not filter.covers(each)] + [filter]
        self.routers[server].subscribe(party, filter)
        self.tell(server)

    def unsubscribe(self, server: str, party: str, filter: Filter) -> None:
        held = self.filters[server].get(party, [])
        self.filters[server][party] = [each for each in held if not filter.covers(each)]
        self.routers[server].unsubscribe(party, filter)
        self.tell(server)

    def advertise(self, server: str, party: str, advertisement: Advertisement) -> None:
        held = self.advertisements[server].setdefault(party, [])
        if not any(each.covers(advertisement) for each in held):
            left = [each for each in held if not advertisement.covers(each)]
            self.advertisements[server][party] = [*left, advertisement]
        self.routers[server].advertise(party, advertisement)
        self.tell(server)

    def unadvertise(self, server: str, party: str, advertisement: Advertisement) -> None:
        held = self.advertisements[server].get(party, [])
        self.advertisements[server][party] = [each for each in held if not advertisement.covers(each)]
        self.routers[server].unadvertise(party, advertisement)
        self.tell(server)

    def tell(self, *servers: str) -> None:
        for server in servers:
            if self.architecture in GENERAL:
                for peer, accounts in self.topology(server).updates(0, pressing=True):
                    self.queues[server, peer].extend(accounts)
            for peer, control in self.routers[server].control():
                self.queues[server, peer].extend(control)

    def step(self) -> bool:
        """One or more messages of a random link arrive; false if there are none."""
        waiting = [link for link, queue in self.queues.items() if queue]
        if not waiting:
            return False
        source, target = self.random.choice(waiting)
        queue = self.queues[source, target]
        for _ in range(self.random.randrange(1, len(queue) + 1)):
            self.messages += 1
            message = queue.popleft()
            if isinstance(message, Account):
                self.topology(target).receive(source, message)
            else:
                self.routers[target].receive(source, message)
        self.tell(target)
        return True

    def settle(self) -> None:
        while self.step():
            pass

    # -- what should be ------------------------------------------------------------------------------------------------

    def world(self) -> World:
        """What is true, whatever the routers believe."""
        links = {name: dict(router.peers) for name, router in self.routers.items()}
        filters = {name: {p: tuple(held) for p, held in known.items()} for name, known in self.filters.items()}
        offers = {name: {p: tuple(held) for p, held in known.items()} for name, known in self.advertisements.items()}
        if self.architecture in GENERAL:
            return GraphWorld(self.architecture, links, filters, offers, self.latencies)
        return World(self.architecture, links, filters, offers)

    def check_tables(self) -> None:
        """At rest, what each neighbour was told is what the invariants demand."""
        world = self.world()
        for server, router in self.routers.items():
            for peer in router.peers:
                assert set(self.routers[peer].standing(server)) == world.told(server, peer), (server, peer)
            held = {f for party in self.filters[server].values() for f in party}
            assert {f for f in router.subscriptions if router.subscriptions.holders(f).parties} == held

    def check_publication(self, server: str, notification: Notification) -> None:
        """At rest, each party that wants a notification gets it once, and no link carries it in vain or twice."""
        got: Counter[str] = Counter()
        used: Counter[Link] = Counter()
        stack: list[tuple[str | None, str, Publish]] = [(None, server, Publish(notification))]
        while stack:
            source, here, message = stack.pop()
            passed = self.routers[here].admit(message, source)
            assert passed is not None
            route = self.routers[here].route(passed, source)
            got.update(route.parties)
            used.update((here, peer) for peer in route.peers)
            assert used.total() < 100, "it goes round in circles"
            stack += [(here, peer, passed) for peer in route.peers]
        world = self.world()
        reachable = world.reachable(server)
        wanting = {p for name, parties in world.wanting(notification).items() if name in reachable for p in parties}
        if not world.is_advertising(server) or self.is_announced(server, notification):
            assert got == dict.fromkeys(wanting, 1)
        else:
            assert set(got) <= wanting
            assert set(got.values()) <= {1}
        assert set(used.values()) <= {1}
        assert all(world.may_carry(here, peer, notification, server) for here, peer in used), "in vain"

    def is_announced(self, server: str, notification: Notification) -> bool:
        return any(a.announces(notification) for party in self.advertisements[server].values() for a in party)


class History:
    """Random operations on a network, some of them while messages are still on their way."""

    def __init__(self, architecture: str, seed: int) -> None:
        self.random = random = Random(f"{architecture} {seed}")
        count = 1 if architecture == "ce" else random.randrange(2, 8)
        self.servers = [f"s{number}" for number in range(count)]
        self.network = Network(architecture, self.servers, random)
        self.parents = {name: self.servers[random.randrange(i)] for i, name in enumerate(self.servers) if i}
        self.more: list[Link] = []
        """Links that close cycles."""
        if architecture in GENERAL:
            tree = [low_first(*link) for link in self.parents.items()]
            pairs = [pair for pair in combinations(self.servers, 2) if pair not in tree]
            self.more = random.sample(pairs, random.randrange(len(pairs) + 1))
        self.open: list[Link] = []
        for child, parent in self.parents.items():
            self.network.connect(parent, child)
            self.open.append((parent, child))
        for pair in self.more:
            self.network.connect(*pair)
            self.open.append(pair)

    def run(self, operations: int) -> None:
        for _ in range(operations):
            self.operate()
            for _ in range(self.random.choice([0, 0, 1, 5])):
                self.network.step()
            if self.random.random() < 0.1:
                self.network.settle()
                self.check()
        self.network.settle()
        self.check()

    def operate(self) -> None:
        random, network = self.random, self.network
        server = random.choice(self.servers)
        party = f"{server}/p{random.randrange(3)}"
        draw = random.random()
        if draw < 0.45:
            network.subscribe(server, party, Filter.parse(filter_text(random)))
        elif draw < 0.65:
            network.unsubscribe(server, party, Filter.parse(filter_text(random)))
        elif draw < 0.8:
            network.advertise(server, party, Advertisement.parse(advertisement_text(random)))
        elif draw < 0.9:
            network.unadvertise(server, party, Advertisement.parse(advertisement_text(random)))
        elif draw < 0.95 and self.open:
            link = self.open.pop(random.randrange(len(self.open)))
            network.disconnect(*link)
        else:
            links = [*((parent, child) for child, parent in self.parents.items()), *self.more]
            for link in [link for link in links if link not in self.open][:1]:
                network.connect(*link)
                self.open.append(link)

    def check(self) -> None:
        self.network.check_tables()
        for _ in range(5):
            self.network.check_publication(
                self.random.choice(self.servers), Notification.parse(notification_text(self.random))
            )
