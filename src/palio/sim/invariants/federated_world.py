"""Several networks joined by gateways: what is true at rest, computed from scratch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from palio.model import Advertisement, Filter, Notification
from palio.routing.border import Gateway
from palio.routing.messages import Advertise, Subscribe
from palio.routing.router import Role
from palio.sim.histories.federation import architecture_of
from palio.sim.invariants.world import GraphWorld, Told, World, held_at, maximal


class FederatedWorld(World, frozen=True):
    """Networks, and the gateways between them: a forest, if each network is taken for one."""

    latencies: Mapping[tuple[str, str], int]
    """Of all links, by the names of both ends, the lower one first."""
    gateways: Mapping[tuple[str, str], Gateway]
    """By the server at whose end it is, and the other."""

    def kind(self, server: str) -> str:
        """The architecture of a server's network."""
        return architecture_of(self.architecture, server)

    def _is_general(self, server: str) -> bool:
        return self.kind(server) in ("gs", "ga")

    def may_be_in_cycle(self, server: str, peer: str) -> bool:
        """Those within a general network may."""
        return self._is_general(server) and server[0] == peer[0]

    def _inside(self, server: str) -> GraphWorld:
        """A server's network alone."""
        latencies = {
            (one, other): latency for (one, other), latency in self.latencies.items() if one[0] == other[0] == server[0]
        }
        return GraphWorld(self.kind(server), self.links, self.filters, self.advertisements, latencies)

    def _joined(self, server: str, but: str = "") -> Iterator[str]:
        """The servers of other networks with which a server is joined."""
        return (peer for peer, role in self.links[server].items() if role is Role.GATEWAY and peer != but)

    def reachable(self, server: str) -> set[str]:
        """The servers of all networks that are joined."""
        found, stack = {server}, [server]
        while stack:
            for peer in self.links[stack.pop()]:
                if peer not in found:
                    found.add(peer)
                    stack.append(peer)
        return found

    # -- what is told --------------------------------------------------------------------------------------------------

    def told(self, server: str, peer: str) -> Told:
        """What a neighbour has to know of what the server says; over a gateway, what passes both ends."""
        if self._is_general(server) and server[0] == peer[0]:
            return {*self._told_of_sources(server, peer)}
        filters, offers = self._filters(server, peer), self._offers(server, peer)
        return {*map(Subscribe, filters), *map(Advertise, offers)}

    def counting(self, server: str, peer: str, said: Told) -> Told:
        """What counts at a neighbour of what a server says; over a gateway, what passes both ends."""
        if server[0] == peer[0]:
            return said
        filters = {each.filter for each in said if isinstance(each, Subscribe)}
        offers = {each.advertisement for each in said if isinstance(each, Advertise)}
        return {
            *map(Subscribe, self._passing_filters(server, peer, filters)),
            *map(Advertise, self._passing_offers(server, peer, offers)),
        }

    def _filters(self, server: str, peer: str) -> set[Filter]:
        """What counts at a neighbour of the filters that a server tells."""
        if self.kind(server) == "hs" and self.links[server][peer] is Role.CLIENT:
            return set()
        wanted = self._wanted(server, peer)
        if self.is_advertising(server):
            offers = self._offers(peer, server)
            wanted = {each for each in wanted if any(offer.relevant_to(each) for offer in offers)}
        return self._passing_filters(server, peer, maximal(wanted))

    def _passing_filters(self, server: str, peer: str, wanted: set[Filter]) -> set[Filter]:
        """What is left of filters at a neighbour."""
        if server[0] != peer[0]:
            borders = self.gateways[server, peer].imports, self.gateways[peer, server].exports
            for border in borders:
                if border is not None:
                    wanted = {Filter([*each.constraints, *border.constraints]) for each in wanted}
                    wanted = {each for each in wanted if each.is_satisfiable()}
        return wanted

    def _wanted(self, server: str, but: str) -> set[Filter]:
        """What is wanted at a server, by all but a neighbour."""
        if not self._is_general(server):
            return held_at(self.filters, server).union(
                *(self._filters(other, server) for other in self.links[server] if other != but)
            )
        sources = self._inside(server).reachable(server)
        return set[Filter]().union(*(self._wanted_at(source, but) for source in sources))

    def _wanted_at(self, source: str, but: str = "") -> set[Filter]:
        """What a source wants: its parties, and the networks that are joined there."""
        return held_at(self.filters, source).union(*(self._filters(peer, source) for peer in self._joined(source, but)))

    def _offers(self, server: str, peer: str) -> set[Advertisement]:
        """What counts at a neighbour of the advertisements that a server tells."""
        offers: set[Advertisement] = set()
        if self.is_advertising(server):
            offers = maximal(self._offered(server, peer))
        return self._passing_offers(server, peer, offers)

    def _passing_offers(self, server: str, peer: str, offers: set[Advertisement]) -> set[Advertisement]:
        """What is left of advertisements at a neighbour, which may know of others by itself."""
        if server[0] != peer[0]:
            for border in (self.gateways[server, peer].exports, self.gateways[peer, server].imports):
                offers = {each for each in offers if border is None or each.relevant_to(border)}
            offers |= set(self.gateways[peer, server].offers)
        return offers

    def _offered(self, server: str, but: str) -> set[Advertisement]:
        if not self._is_general(server):
            return held_at(self.advertisements, server).union(
                *(self._offers(other, server) for other in self.links[server] if other != but)
            )
        sources = self._inside(server).reachable(server)
        return set[Advertisement]().union(*(self._offered_at(source, but) for source in sources))

    def _offered_at(self, source: str, but: str = "") -> set[Advertisement]:
        offers = [self._offers(peer, source) for peer in self._joined(source, but)]
        return held_at(self.advertisements, source).union(*offers)

    def relevant_offers(self, server: str, filter: Filter) -> set[tuple[str, Advertisement]]:
        """What a server knows to be advertised, in its own network and in others, and over which neighbour."""
        found = {("", each) for each in held_at(self.advertisements, server)}
        if not self._is_general(server):
            found |= {(peer, each) for peer in self.links[server] for each in self._offers(peer, server)}
        else:
            inside = self._inside(server)
            found |= {(peer, each) for peer in self._joined(server) for each in self._offers(peer, server)}
            for source in inside.reachable(server) - {server}:
                found |= {(inside.path(server, source)[1], each) for each in maximal(self._offered_at(source))}
        return {(peer, each) for peer, each in found if each.relevant_to(filter)}

    def _told_of_sources(self, server: str, peer: str) -> Iterator[Subscribe | Advertise]:
        inside = self._inside(server)
        sources = inside.reachable(server)
        for source in sources:
            if inside.path(source, peer)[-2:-1] != [server]:
                continue
            wanted = self._wanted_at(source)
            if self.is_advertising(server):
                yield from (Advertise(each, source) for each in maximal(self._offered_at(source)))
                behind = [one for one in sources if (server, peer) in pairwise(inside.path(source, one))]
                offers = set[Advertisement]().union(*(self._offered_at(each) for each in behind))
                wanted = {each for each in wanted if any(offer.relevant_to(each) for offer in offers)}
            yield from (Subscribe(each, source) for each in maximal(wanted))

    # -- where notifications go ----------------------------------------------------------------------------------------

    def path(self, one: str, other: str) -> list[str]:
        """The servers on the way from one to another, both included; none if there is no way."""
        stack = [[one]]
        while stack:
            found = stack.pop()
            here = found[-1]
            if here[0] == other[0]:
                inside = self._inside(here).path(here, other)
                if inside:
                    return [*found, *inside[1:]]
            for near in self._inside(here).reachable(here):
                way = self._inside(here).path(here, near)
                stack += [[*found, *way[1:], far] for far in self._joined(near) if far not in found]
        return []

    def lets_pass(self, one: str, other: str, notification: Notification) -> bool:
        """Whether a notification may pass all gateways on the way from one server to another."""
        for near, far in pairwise(self.path(one, other)):
            if near[0] != far[0]:
                borders = self.gateways[near, far].exports, self.gateways[far, near].imports
                if not all(border is None or border.matches(notification) for border in borders):
                    return False
        return True

    def may_carry(self, source: str, target: str, notification: Notification, entry: str) -> bool:
        """Up in a hierarchy always; else only on the way to somebody who wants it."""
        if self.kind(source) == "hs" and self.links[source].get(target) in (Role.MASTER, Role.GATEWAY):
            return True
        return any((source, target) in pairwise(self.path(entry, each)) for each in self.wanting(notification))
