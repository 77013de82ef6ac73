"""What is true at rest where servers of an earlier release do not take everything."""

from __future__ import annotations

from collections.abc import Mapping

from palio.model import Advertisement, Filter, Limits, Notification
from palio.node.widening import problem, widened_advertisement, widened_filter
from palio.sim.invariants.world import World


class LimitedWorld(World, frozen=True):
    """A forest of servers, each of which takes what its limits allow.

    A filter or an advertisement reaches a server in the form that it takes, and goes on from there in this form. A
    notification reaches the servers to which it can get over servers that take it.
    """

    accepted: Mapping[str, Limits]

    def _told_filters(self, server: str, peer: str) -> set[Filter]:
        told = World._told_filters(self, server, peer)
        return {widened_filter(each.canonical(), self.accepted[peer]) for each in told}

    def _told_advertisements(self, server: str, peer: str) -> set[Advertisement]:
        told = World._told_advertisements(self, server, peer)
        fitting = [widened_advertisement(each.canonical(), self.accepted[peer]) for each in told]
        return {each for each in fitting if each is not None}

    def lets_pass(self, one: str, other: str, notification: Notification) -> bool:
        """Whether all servers behind the first one on the way take it."""
        way = self._way(one, other)
        return all(self._takes(server, notification) for server in way[1:])

    def _takes(self, server: str, notification: Notification) -> bool:
        return not problem(notification, self.accepted[server])

    def _way(self, one: str, other: str, source: str = "") -> list[str]:
        """The servers from one to another; only the first if there is no way."""
        if one == other:
            return [one]
        for peer in self.links[one]:
            if peer != source and other in self.behind(one, peer):
                return [one, *self._way(peer, other, one)]
        return [one]
