"""The figures of a run, added up while it is played: for runs whose traces are too long to keep."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, pstdev

from palio.sim.engine.trace import TraceEntry

METRICS = (
    "messages",
    "cost",
    "services",
    "service_cost",
    "site_variation",
    "subscription_cost",
    "notification_cost",
    "subscription_delay",
    "publication_delay",
    "mean_delay",
    "longest_delay",
)
"""What is known of a run; costs and times are in the units of its scenario."""


class _Service:
    """The messages that follow from one request."""

    __slots__ = ("begin", "cost", "end", "kind")

    def __init__(self, kind: str, begin: int) -> None:
        self.kind = kind
        self.begin = self.end = begin
        self.cost = 0


class Tally:
    """Adds up messages as they come.

    >>> tally = Tally(["a", "b"])
    >>> tally.add(TraceEntry("subscribe", 0, 0, "party", "a", "server", "b", 5, 8, 3))
    >>> tally.figures()["service_cost"], tally.sites()
    (3.0, {'a': 3, 'b': 3})
    """

    def __init__(self, sites: Iterable[str]) -> None:
        self._sites = dict.fromkeys(sites, 0)
        self._services: dict[int, _Service] = {}
        self._messages = 0
        self._cost = 0

    def add(self, entry: TraceEntry) -> None:
        """One more message."""
        if entry.service_id not in self._services:
            self.begin(entry.service_id, entry.type, entry.departure)
        self.follow(entry.service_id, entry.source_site, entry.destination_site, entry.arrival, entry.cost)

    def begin(self, id: int, kind: str, departure: int) -> None:
        """A service begins: a request sets out."""
        self._services[id] = _Service(kind, departure)

    def follow(  # noqa: PLR0913, PLR0917 (what is known of a message)
        self, id: int, here: str, there: str, arrival: int, cost: int, count: int = 1
    ) -> None:
        """So many messages of a service go from one site to another; the request itself is the first."""
        service = self._services[id]
        self._messages += count
        service.end = max(service.end, arrival)
        if cost:
            cost *= count
            self._cost += cost
            service.cost += cost
            self._sites[here] += cost
            if there != here:
                self._sites[there] += cost

    def sites(self) -> dict[str, int]:
        """What the messages cost that each site sent or got."""
        return dict(self._sites)

    def figures(self) -> dict[str, float]:
        """All metrics; of what there is none, the mean is zero."""
        services = self._services.values()
        delays = [service.end - service.begin for service in services]
        loads = list(self._sites.values())
        return {
            "messages": float(self._messages),
            "cost": float(self._cost),
            "services": float(len(services)),
            "service_cost": self._cost / len(services) if services else 0.0,
            "site_variation": pstdev(loads) / fmean(loads) if any(loads) else 0.0,
            "subscription_cost": _mean([each.cost for each in services if each.kind == "subscribe"]),
            "notification_cost": _mean([each.cost for each in services if each.kind == "publish"]),
            "subscription_delay": _mean([each.end - each.begin for each in services if each.kind == "subscribe"]),
            "publication_delay": _mean([each.end - each.begin for each in services if each.kind == "publish"]),
            "mean_delay": _mean(delays),
            "longest_delay": float(max(delays, default=0)),
        }


def _mean(values: list[int]) -> float:
    return fmean(values) if values else 0.0
