"""The network below the servers: sites, links between them, and what it costs to cross it."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from palio.errors import CallerError, brief


class SiteLink(NamedTuple):
    """A connection of two sites, the same in both directions."""

    one: str
    other: str
    latency: int
    cost: int
    inverse_bandwidth: int = 0
    """Time for each unit of a message's length."""


class Way(NamedTuple):
    """What it takes to get from one site to another."""

    latency: int
    cost: int
    inverse_bandwidth: int
    """Of the slowest link on the way."""


class Sites:
    """A connected graph of sites; those that are not adjacent are joined by the way of least cost.

    >>> sites = Sites([SiteLink("milan", "rome", 5, 7), SiteLink("rome", "bari", 4, 3)])
    >>> sites.way("milan", "bari")
    Way(latency=9, cost=10, inverse_bandwidth=0)
    >>> sites.way("milan", "milan").cost
    0
    """

    def __init__(self, links: Iterable[SiteLink], sites: Iterable[str] = ()) -> None:
        self._links: dict[str, dict[str, SiteLink]] = {site: {} for site in sites}
        self._ways: dict[str, dict[str, Way]] = {}
        for link in links:
            if min(link.latency, link.cost, link.inverse_bandwidth) < 0:
                raise CallerError(f"link between {link.one} and {link.other}: latency and cost cannot be negative")
            self._links.setdefault(link.one, {})[link.other] = link
            self._links.setdefault(link.other, {})[link.one] = link

    def __iter__(self) -> Iterable[str]:
        return iter(self._links)

    def way(self, source: str, target: str) -> Way:
        """What it takes to get from one site to another; nothing within a site."""
        if source not in self._ways:
            self._ways[source] = self._all_ways(source)
        try:
            return self._ways[source][target]
        except KeyError:
            raise CallerError(f"there is no way from site {brief(source)} to site {brief(target)}") from None

    def _all_ways(self, source: str) -> dict[str, Way]:
        """By least cost, then least latency, then the names of the sites, so that the answer is always the same."""
        if source not in self._links:
            raise CallerError(f"there is no site {brief(source)}")
        found: dict[str, Way] = {}
        heap = [(0, 0, source, 0)]
        while heap:
            cost, latency, here, slowest = heappop(heap)
            if here in found:
                continue
            found[here] = Way(latency, cost, slowest)
            for there, link in self._links[here].items():
                if there not in found:
                    bandwidth = max(slowest, link.inverse_bandwidth)
                    heappush(heap, (cost + link.cost, latency + link.latency, there, bandwidth))
        return found
