"""Routers joined by queues, delivered in any order, and what their tables should hold, computed from scratch."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from random import Random
from typing import TypeVar

from palio import Advertisement, Filter, Notification
from palio.routing.architectures import ARCHITECTURES
from palio.routing.messages import Control
from palio.routing.router import Role, Router
from tests.routing.populations import some_advertisement, some_filter, some_notification

E = TypeVar("E", Filter, Advertisement)
Link = tuple[str, str]


class Network:
    """Servers of one architecture, links without loss, and parties with what they hold."""

    def __init__(self, architecture: str, servers: Iterable[str], random: Random) -> None:
        self.architecture, self.random = architecture, random
        self.routers: dict[str, Router] = {name: ARCHITECTURES[architecture]() for name in servers}
        self.queues: dict[Link, deque[Control]] = {}
        self.filters: dict[str, dict[str, list[Filter]]] = {name: {} for name in self.routers}
        self.advertisements: dict[str, dict[str, list[Advertisement]]] = {name: {} for name in self.routers}
        self.messages = 0

    # -- what happens --------------------------------------------------------------------------------------------------

    def connect(self, master: str, client: str) -> None:
        is_tree = self.architecture == "hs"
        self.routers[client].connect(master, Role.MASTER if is_tree else Role.PEER)
        self.routers[master].connect(client, Role.CLIENT if is_tree else Role.PEER)
        self.queues[master, client] = deque()
        self.queues[client, master] = deque()
        self.tell(master, client)

    def disconnect(self, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            del self.queues[here, there]
            self.routers[here].disconnect(there)
        self.tell(one, other)

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
            self.routers[target].receive(source, queue.popleft())
        self.tell(target)
        return True

    def settle(self) -> None:
        while self.step():
            pass

    # -- what should be ------------------------------------------------------------------------------------------------

    def neighbours(self, server: str) -> list[str]:
        return [there for here, there in self.queues if here == server]

    def behind(self, server: str, peer: str) -> Iterator[str]:
        """The servers that a neighbour leads to."""
        stack = [(server, peer)]
        while stack:
            source, here = stack.pop()
            yield here
            stack += [(here, there) for there in self.neighbours(here) if there != source]

    def check_tables(self) -> None:
        """At rest, what each neighbour was told is what the invariants demand."""
        for server, router in self.routers.items():
            for peer in self.neighbours(server):
                expected = self.expected_filters(server, peer)
                assert set(self.routers[peer].subscriptions.held_by(server)) == expected, (server, peer)
                assert set(self.routers[peer].advertisements.held_by(server)) == self.expected_offers(server, peer)
            held = {f for party in self.filters[server].values() for f in party}
            assert {f for f in router.subscriptions if router.subscriptions.holders(f).parties} == held

    def expected_filters(self, server: str, peer: str) -> set[Filter]:
        """By recursion over the tree: what the server has to tell the neighbour."""
        router = self.routers[server]
        if self.architecture == "nf" or (self.architecture == "hs" and router.peers[peer] is not Role.MASTER):
            return set()
        wanted = {f for party in self.filters[server].values() for f in party}
        for other in self.neighbours(server):
            if other != peer:
                wanted |= self.expected_filters(other, server)
        if self.architecture == "aa":
            offers = self.expected_offers(peer, server)
            wanted = {f for f in wanted if any(a.relevant_to(f) for a in offers)}
        return maximal(wanted)

    def expected_offers(self, server: str, peer: str) -> set[Advertisement]:
        if self.architecture != "aa":
            return set()
        offers = {a for party in self.advertisements[server].values() for a in party}
        for other in self.neighbours(server):
            if other != peer:
                offers |= self.expected_offers(other, server)
        return maximal(offers)

    def check_publication(self, server: str, notification: Notification) -> None:
        """At rest, each party that wants a notification gets it once, and no link carries it in vain or twice."""
        got: dict[str, int] = defaultdict(int)
        used: dict[Link, int] = defaultdict(int)
        stack: list[tuple[str | None, str]] = [(None, server)]
        while stack:
            source, here = stack.pop()
            route = self.routers[here].route(notification, source)
            for party in route.parties:
                got[party] += 1
            for peer in route.peers:
                used[here, peer] += 1
                assert sum(used.values()) < 100, "it goes round in circles"
                stack.append((here, peer))
        wanting = {name for name in self.routers if self.wants(name, notification)}
        reachable = {server}.union(*(self.behind(server, peer) for peer in self.neighbours(server)))
        expected = {
            party
            for name in wanting & reachable
            for party, filters in self.filters[name].items()
            if any(f.matches(notification) for f in filters)
        }
        if self.architecture != "aa" or self.is_announced(server, notification):
            assert got == dict.fromkeys(expected, 1)
        else:
            assert set(got) <= expected
            assert set(got.values()) <= {1}
        for (here, peer), count in used.items():
            assert count == 1
            is_up = self.architecture == "hs" and self.routers[here].peers[peer] is Role.MASTER
            assert self.architecture == "nf" or is_up or wanting & set(self.behind(here, peer)), "in vain"

    def wants(self, server: str, notification: Notification) -> bool:
        return any(f.matches(notification) for party in self.filters[server].values() for f in party)

    def is_announced(self, server: str, notification: Notification) -> bool:
        return any(a.announces(notification) for party in self.advertisements[server].values() for a in party)


def maximal(elements: set[E]) -> set[E]:
    return {e for e in elements if not any(other != e and other.covers(e) for other in elements)}


class History:
    """Random operations on a network, some of them while messages are still on their way."""

    def __init__(self, architecture: str, seed: int) -> None:
        self.random = random = Random(f"{architecture} {seed}")
        count = 1 if architecture == "ce" else random.randrange(2, 8)
        self.servers = [f"s{number}" for number in range(count)]
        self.network = Network(architecture, self.servers, random)
        self.parents = {name: self.servers[random.randrange(i)] for i, name in enumerate(self.servers) if i}
        self.open: list[Link] = []
        for child, parent in self.parents.items():
            self.network.connect(parent, child)
            self.open.append((parent, child))

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
            network.subscribe(server, party, some_filter(random))
        elif draw < 0.65:
            network.unsubscribe(server, party, some_filter(random))
        elif draw < 0.8:
            network.advertise(server, party, some_advertisement(random))
        elif draw < 0.9:
            network.unadvertise(server, party, some_advertisement(random))
        elif draw < 0.95 and self.open:
            link = self.open.pop(random.randrange(len(self.open)))
            network.disconnect(*link)
        else:
            for child, parent in self.parents.items():
                if (parent, child) not in self.open:
                    network.connect(parent, child)
                    self.open.append((parent, child))
                    break

    def check(self) -> None:
        self.network.check_tables()
        for _ in range(5):
            self.network.check_publication(self.random.choice(self.servers), some_notification(self.random))
