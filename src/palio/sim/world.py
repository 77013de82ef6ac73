"""What is true at rest, computed from scratch: who can reach whom, and what tables should hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from palio.model import Advertisement, Filter, Notification
from palio.routing.router import Role

E = TypeVar("E", Filter, Advertisement)


class World(NamedTuple):
    """A forest of servers, and what their parties hold."""

    architecture: str
    links: Mapping[str, Mapping[str, Role]]
    """For each server its neighbours, and what they are to it."""
    filters: Mapping[str, Mapping[str, tuple[Filter, ...]]]
    """By server and party."""
    advertisements: Mapping[str, Mapping[str, tuple[Advertisement, ...]]]

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

    def told_filters(self, server: str, peer: str) -> set[Filter]:
        """What the server has to tell the neighbour: the law of the architecture, by recursion over the tree."""
        if self.architecture == "nf" or (self.architecture == "hs" and self.links[server][peer] is not Role.MASTER):
            return set()
        wanted = {each for held in self.filters[server].values() for each in held}
        for other in self.links[server]:
            if other != peer:
                wanted |= self.told_filters(other, server)
        if self.architecture == "aa":
            offers = self.told_advertisements(peer, server)
            wanted = {each for each in wanted if any(offer.relevant_to(each) for offer in offers)}
        return maximal(wanted)

    def told_advertisements(self, server: str, peer: str) -> set[Advertisement]:
        """The same for advertisements."""
        if self.architecture != "aa":
            return set()
        offers = {each for held in self.advertisements[server].values() for each in held}
        for other in self.links[server]:
            if other != peer:
                offers |= self.told_advertisements(other, server)
        return maximal(offers)

    def wanting(self, notification: Notification) -> dict[str, set[str]]:
        """The parties that want a notification, by server; servers without such parties are left out."""
        found = {
            server: {party for party, held in parties.items() if any(each.matches(notification) for each in held)}
            for server, parties in self.filters.items()
        }
        return {server: parties for server, parties in found.items() if parties}

    def may_carry(self, source: str, target: str, notification: Notification) -> bool:
        """Whether a notification may go over a link: somebody behind it wants it, or the architecture says always."""
        if self.architecture == "nf" or self.links[source].get(target) is Role.MASTER:
            return True
        return not self.wanting(notification).keys().isdisjoint(self.behind(source, target))


def maximal(elements: set[E]) -> set[E]:
    """Those that no other one covers."""
    return {each for each in elements if not any(other != each and other.covers(each) for other in elements)}
