"""What is true at rest, computed from scratch: who can reach whom, and what tables should hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TypeVar

import msgspec

from palio.model import Advertisement, Filter, Notification
from palio.routing.messages import Advertise, Subscribe
from palio.routing.paths import Graph
from palio.routing.router import Role

E = TypeVar("E", Filter, Advertisement)
Told = set[Subscribe | Advertise]


class World(msgspec.Struct, frozen=True):
    """A forest of servers, and what their parties hold."""

    architecture: str
    links: Mapping[str, Mapping[str, Role]]
    """For each server its neighbours, and what they are to it."""
    filters: Mapping[str, Mapping[str, tuple[Filter, ...]]]
    """By server and party."""
    advertisements: Mapping[str, Mapping[str, tuple[Advertisement, ...]]]

    def kind(self, server: str) -> str:  # noqa: ARG002 (all are the same)
        """The architecture of a server's network."""
        return self.architecture

    def is_advertising(self, server: str) -> bool:
        """Whether subscriptions come to a server only if something relevant is advertised there."""
        return self.kind(server) in ("aa", "ga")

    def may_be_in_cycle(self, server: str, peer: str) -> bool:  # noqa: ARG002
        """Whether a link may be part of a cycle."""
        return False

    def lets_pass(self, one: str, other: str, notification: Notification) -> bool:  # noqa: ARG002
        """Whether a notification may get from one server to another."""
        return True

    def counting(self, server: str, peer: str, said: Told) -> Told:  # noqa: ARG002
        """What counts at a neighbour of what a server says."""
        return said

    def behind(self, server: str, peer: str) -> Iterator[str]:
        """The servers that a neighbour leads to."""
        stack = [(server, peer)]
        while stack:
            source, here = stack.pop()
            yield here
            stack += [(here, there) for there in self.links[here] if there != source]

    def reachable(self, server: str) -> set[str]:
        """The servers of one tree."""
        return {server}.union(*(self.behind(server, peer) for peer in self.links[server]))

    def told(self, server: str, peer: str) -> Told:
        """What the server has to tell the neighbour: the law of the architecture, by recursion over the tree."""
        filters, offers = self._told_filters(server, peer), self._told_advertisements(server, peer)
        return {*map(Subscribe, filters), *map(Advertise, offers)}

    def _told_filters(self, server: str, peer: str) -> set[Filter]:
        if self.architecture == "nf" or (self.architecture == "hs" and self.links[server][peer] is not Role.MASTER):
            return set()
        wanted = held_at(self.filters, server)
        for other in self.links[server]:
            if other != peer:
                wanted |= self._told_filters(other, server)
        if self.architecture == "aa":
            offers = self._told_advertisements(peer, server)
            wanted = {each for each in wanted if any(offer.relevant_to(each) for offer in offers)}
        return maximal(wanted)

    def _told_advertisements(self, server: str, peer: str) -> set[Advertisement]:
        if self.architecture != "aa":
            return set()
        offers = held_at(self.advertisements, server)
        for other in self.links[server]:
            if other != peer:
                offers |= self._told_advertisements(other, server)
        return maximal(offers)

    def relevant_offers(self, server: str, filter: Filter) -> set[tuple[str, Advertisement]]:
        """What a server knows to be advertised and relevant, with the neighbours on whose side it is."""
        near = {("", each) for each in held_at(self.advertisements, server)}
        far = {(peer, each) for peer in self.links[server] for each in self._told_advertisements(peer, server)}
        return {(peer, each) for peer, each in near | far if each.relevant_to(filter)}

    def providers(self, server: str, filter: Filter) -> set[str]:
        """The neighbours from which a server can get what a filter matches; its own parties have no name."""
        return {peer for peer, _ in self.relevant_offers(server, filter)}

    def wanting(self, notification: Notification) -> dict[str, set[str]]:
        """The parties that want a notification, by server; servers without such parties are left out."""
        found = {
            server: {party for party, held in parties.items() if any(each.matches(notification) for each in held)}
            for server, parties in self.filters.items()
        }
        return {server: parties for server, parties in found.items() if parties}

    def may_carry(self, source: str, target: str, notification: Notification, entry: str) -> bool:  # noqa: ARG002
        """Whether a notification may go over a link: somebody behind it wants it, or the architecture says always."""
        if self.architecture == "nf" or self.links[source].get(target) is Role.MASTER:
            return True
        return not self.wanting(notification).keys().isdisjoint(self.behind(source, target))


class GraphWorld(World, frozen=True):
    """The same where the network may have any shape."""

    latencies: Mapping[tuple[str, str], int]
    """By the names of both ends, the lower one first."""

    @property
    def graph(self) -> Graph:
        """All links."""
        return Graph([(*pair, latency) for pair, latency in self.latencies.items()])

    def may_be_in_cycle(self, server: str, peer: str) -> bool:  # noqa: ARG002
        """All may."""
        return True

    def path(self, one: str, other: str) -> list[str]:
        """The servers on the way from one to another, both included; none if there is no way."""
        parents = self.graph.tree(one).parents
        found = [other]
        while found[-1] in parents:
            found.append(parents[found[-1]])
        return found[::-1] if found[-1] == one else []

    def reachable(self, server: str) -> set[str]:
        """The servers of one network."""
        return set(self.graph.tree(server).distances)

    def told(self, server: str, peer: str) -> Told:
        """What the server has to tell the neighbour: of the sources from which the way to the neighbour leads here."""
        found: Told = set()
        for source in self.links:
            if self.path(source, peer)[-2:-1] == [server]:
                wanted, offers = held_at(self.filters, source), held_at(self.advertisements, source)
                if self.is_advertising(server):
                    found |= {Advertise(each, source) for each in maximal(offers)}
                    wanted = {each for each in wanted if self._is_offered(each, source, server, peer)}
                found |= {Subscribe(each, source) for each in maximal(wanted)}
        return found

    def relevant_offers(self, server: str, filter: Filter) -> set[tuple[str, Advertisement]]:
        """What is advertised at servers that can be reached, with the neighbours that are first on the way to them."""
        return {
            ("" if source == server else self.path(server, source)[1], each)
            for source in self.reachable(server)
            for each in maximal(held_at(self.advertisements, source))
            if each.relevant_to(filter)
        }

    def _is_offered(self, filter: Filter, source: str, server: str, peer: str) -> bool:
        """Whether something relevant is advertised at a server to which the way leads over this link."""
        return any(
            (server, peer) in pairwise(self.path(source, advertiser))
            for advertiser in self.links
            if any(offer.relevant_to(filter) for offer in held_at(self.advertisements, advertiser))
        )

    def may_carry(self, source: str, target: str, notification: Notification, entry: str) -> bool:
        """Only on the way from where it entered the network to somebody who wants it."""
        return any((source, target) in pairwise(self.path(entry, each)) for each in self.wanting(notification))


def held_at(holdings: Mapping[str, Mapping[str, tuple[E, ...]]], server: str) -> set[E]:
    """What the parties of a server hold."""
    return {each for held in holdings[server].values() for each in held}


def maximal(elements: set[E]) -> set[E]:
    """Those that no other one covers."""
    return {each for each in elements if not any(other != each and other.covers(each) for other in elements)}
