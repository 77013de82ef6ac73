"""Scenarios: a network of sites, servers on it, and the objects and parties that use them.

A *specification* says how many objects and parties there are and what they do; it is *expanded* on a topology into a
*scenario*, which says where each of them is. Both have a text form (:mod:`palio.lab.scenario_text`).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from palio.errors import CallerError, brief
from palio.lab.topology import Topology

NAMES = {
    "ce": "centralized",
    "hs": "hierarchical",
    "as": "acyclic sub_fwd",
    "aa": "acyclic adv_fwd",
    "gs": "generic sub_fwd",
    "ga": "generic adv_fwd",
}
"""How scenario files call the architectures."""


class Delay(NamedTuple):
    """A time that is always the same, or drawn between two, or (as between events of a Poisson process) around a mean.

    >>> Delay(5), Delay(2000, 2500), Delay(2250, is_poisson=True)
    (5, 2000~2500, 2250P)
    """

    low: int
    high: int | None = None
    is_poisson: bool = False

    def draw(self, random: Random) -> int:
        """One such time."""
        if self.is_poisson:
            return round(random.expovariate(1 / self.low)) if self.low else 0
        return self.low if self.high is None else random.randint(self.low, self.high)

    def settle(self, random: Random) -> Delay:
        """What is drawn once and stays: of two bounds a time between them."""
        return self if self.high is None else Delay(self.draw(random))

    def __repr__(self) -> str:
        text = str(self.low) if self.high is None else f"{self.low}~{self.high}"
        return f"{text}P" if self.is_poisson else text


class Objects(NamedTuple):
    """Objects of interest: each advertises, publishes so many times, and unadvertises, in cycles."""

    event: str
    number: int
    publications: int
    """In each cycle."""
    delay: Delay
    """Between two publications."""
    cycles: int


class Parties(NamedTuple):
    """Interested parties: each subscribes, stays for so many notifications or so long, and unsubscribes, in cycles."""

    pattern: str
    number: int
    cycles: int
    initial: Delay
    """Before the first subscription."""
    notifications: int | None = None
    time: Delay | None = None


class Specification(NamedTuple):
    """Who does what, but not where."""

    architecture: str
    objects: tuple[Objects, ...] = ()
    parties: tuple[Parties, ...] = ()


class ObjectGroup(NamedTuple):
    """Objects at one site that do the same."""

    number: int
    site: str
    server: str
    """The site of their server."""
    event: str
    cycles: int
    publications: int
    delay: Delay


class PartyGroup(NamedTuple):
    """Parties at one site that do the same."""

    number: int
    site: str
    server: str
    pattern: str
    cycles: int
    initial: int
    notifications: int | None = None
    time: Delay | None = None


class Scenario(NamedTuple):
    """Everything that a simulation needs but a seed."""

    topology: Topology
    architecture: str
    servers: tuple[str, ...]
    """Their sites."""
    links: tuple[tuple[str, str], ...]
    """Between servers: in a tree each one and the one above it."""
    objects: tuple[ObjectGroup, ...] = ()
    parties: tuple[PartyGroup, ...] = ()


def expand(specification: Specification, topology: Topology, random: Random) -> Scenario:
    """Place servers by the architecture, objects and parties at random.

    A centralized server is at a random site; else there is one at each, connected along the minimal spanning tree from
    the first site, or, in a generic network, wherever there is a link. With the same ``random`` the first objects, and
    the first parties, are at the same sites, whatever the architecture and however many more there are.
    """
    check_specification(specification)
    for_server, for_objects, for_parties = (Random(random.getrandbits(64)) for _ in range(3))
    architecture = specification.architecture
    if architecture == "ce":
        server = for_server.choice(topology.names)
        servers: tuple[str, ...] = (server,)
        links: tuple[tuple[str, str], ...] = ()
        at = dict.fromkeys(topology.names, server)
    else:
        servers, at = topology.names, {site: site for site in topology.names}
        if architecture in ("gs", "ga"):
            links = tuple((cable.one, cable.other) for cable in topology.cables)
        else:
            links = tuple(topology.tree().items())
    objects = [
        ObjectGroup(count, site, at[site], each.event, each.cycles, each.publications, each.delay.settle(for_objects))
        for each in specification.objects
        for site, count in _scatter(each.number, topology, for_objects).items()
    ]
    parties = [
        PartyGroup(
            count,
            site,
            at[site],
            each.pattern,
            each.cycles,
            each.initial.draw(for_parties),
            each.notifications,
            None if each.time is None else each.time.settle(for_parties),
        )
        for each in specification.parties
        for site, count in _scatter(each.number, topology, for_parties).items()
    ]
    return Scenario(topology, architecture, servers, links, tuple(objects), tuple(parties))


def _scatter(number: int, topology: Topology, random: Random) -> Mapping[str, int]:
    """How many of a number are at each site; sites without any are left out."""
    counts = dict.fromkeys(topology.names, 0)
    for site in random.choices(topology.names, k=number):
        counts[site] += 1
    return {site: count for site, count in counts.items() if count}


def check_specification(specification: Specification) -> None:
    """Refuse what cannot be played."""
    if specification.architecture not in NAMES:
        raise CallerError(f"architecture: {brief(specification.architecture)} is none of {', '.join(NAMES)}")
    for objects in specification.objects:
        _at_least("objects, number", objects.number, 0)
        _at_least("objects, cycles", objects.cycles, 0)
        _at_least("objects, pub/adv", objects.publications, 0)
        _check_delay("objects, time/pub", objects.delay, 1)
    for parties in specification.parties:
        _at_least("parties, number", parties.number, 0)
        _at_least("parties, cycles", parties.cycles, 0)
        _check_delay("parties, init_delay", parties.initial, 0)
        if (parties.notifications is None) is (parties.time is None):
            raise CallerError("parties: there is to be one of notif/sub and time/sub")
        if parties.notifications is not None:
            _at_least("parties, notif/sub", parties.notifications, 1)
        if parties.time is not None:
            _check_delay("parties, time/sub", parties.time, 0)


def check_scenario(scenario: Scenario) -> None:
    """Refuse servers, objects or parties at sites that are none, and servers that are not connected."""
    sites, servers = set(scenario.topology.names), set(scenario.servers)
    if not servers:
        raise CallerError("servers: there is none")
    if len(servers) < len(scenario.servers):
        raise CallerError("servers: there are two at one site")
    for server in scenario.servers:
        if server not in sites:
            raise CallerError(f"servers: {brief(server)} is no site")
    for one, other in scenario.links:
        for server in (one, other):
            if server not in servers:
                raise CallerError(f"servers: there is a link to {brief(server)}, where there is no server")
    used = [(each.site, each.server) for each in scenario.objects] + [
        (each.site, each.server) for each in scenario.parties
    ]
    for site, server in used:
        if site not in sites:
            raise CallerError(f"{brief(site)} is no site")
        if server not in servers:
            raise CallerError(f"there is no server at {brief(server)}")


def _at_least(what: str, number: int, least: int) -> None:
    if number < least:
        raise CallerError(f"{what}: {number} is below {least}")


def _check_delay(what: str, delay: Delay, least: int) -> None:
    _at_least(what, delay.low, least)
    if delay.high is not None and delay.high < delay.low:
        raise CallerError(f"{what}: {delay} ends before it begins")
