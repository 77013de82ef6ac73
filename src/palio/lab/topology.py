"""Networks of sites for the studies: generated at random, always the same from the same seed.

The names of sites are ``s0``, ``s1`` and so on; in a transit-stub network the first ones are those that carry the
traffic of others, as in the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import combinations, pairwise
from math import exp, hypot
from random import Random
from typing import NamedTuple

from palio.errors import CallerError, brief
from palio.sim.engine.sites import SiteLink, Sites

_WIDEST = 1_000_000
_TRIES = 100
"""So often a random graph is drawn until it is connected; then its pieces are joined."""


class Cable(NamedTuple):
    """A link between two sites; its cost is its latency, too."""

    one: str
    other: str
    cost: int


class Topology(NamedTuple):
    """A connected network of sites.

    >>> line = Topology(("s0", "s1", "s2"), (Cable("s0", "s1", 3), Cable("s1", "s2", 4)))
    >>> line.tree()
    {'s1': 's0', 's2': 's1'}
    >>> line.sites().way("s0", "s2").cost
    7
    """

    names: tuple[str, ...]
    cables: tuple[Cable, ...]

    def sites(self) -> Sites:
        """For the simulator."""
        return Sites([SiteLink(one, other, cost, cost) for one, other, cost in self.cables], self.names)

    def neighbours(self) -> dict[str, dict[str, int]]:
        """For each site the sites that it has a link to, with the costs."""
        found: dict[str, dict[str, int]] = {name: {} for name in self.names}
        for one, other, cost in self.cables:
            found[one][other] = found[other][one] = cost
        return found

    def tree(self) -> dict[str, str]:
        """The minimal spanning tree: for each site but the first the one before it on the way from the first."""
        neighbours = self.neighbours()
        root = self.names[0]
        parents: dict[str, str] = {}
        heap = [(cost, root, other) for other, cost in neighbours[root].items()]
        heap.sort()
        while heap:
            _, parent, site = heappop(heap)
            if site in parents or site == root:
                continue
            parents[site] = parent
            for other, cost in neighbours[site].items():
                if other not in parents and other != root:
                    heappush(heap, (cost, site, other))
        return parents


def check(topology: Topology, where: str = "topology") -> Topology:
    """Refuse what is no connected network."""
    if not topology.names:
        raise CallerError(f"{where}: there is no site")
    known = set(topology.names)
    for one, other, cost in topology.cables:
        for name in (one, other):
            if name not in known:
                raise CallerError(f"{where}: there is a link to {brief(name)}, which is no site")
        if one == other or cost < 1:
            raise CallerError(f"{where}: the link {one} - {other} = {cost}; a link has two ends and costs 1 at least")
    missing = known - set(topology.tree()) - {topology.names[0]}
    if missing:
        raise CallerError(f"{where}: {min(missing)} cannot be reached from {topology.names[0]}")
    return topology


# -- transit-stub ------------------------------------------------------------------------------------------------------


class TransitStub(NamedTuple):
    """How a transit-stub network is made; the default has 100 sites: 4 + 4 · 3 · 8."""

    transit_domains: int = 1
    transit_nodes: int = 4
    """In each domain."""
    stubs: int = 3
    """At each transit node."""
    stub_nodes: int = 8
    """In each stub."""
    transit_share: float = 0.6
    """The share of pairs of transit nodes of one domain that have a link."""
    stub_share: float = 0.42
    """The same, of the nodes of a stub."""
    transit_scale: float = 50.0
    """The side of the square in which the nodes of a transit domain are; a link costs its length."""
    stub_distance: float = 16.0
    """How far a stub is from its transit node at most, in either direction."""
    stub_scale: float = 8.0
    """The side of the square in which the nodes of a stub are."""


_USUAL = TransitStub()
_Point = tuple[float, float]


class _Plan:
    """A network that is being drawn."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.points: list[_Point] = []
        self.links: dict[tuple[int, int], None] = {}

    def place(self, corner: _Point, side: float) -> int:
        """A site somewhere in a square."""
        self.points.append((corner[0] + self.random.uniform(0, side), corner[1] + self.random.uniform(0, side)))
        return len(self.points) - 1

    def link(self, one: int, other: int) -> None:
        """A link."""
        self.links[min(one, other), max(one, other)] = None

    def distance(self, one: int, other: int) -> float:
        """How far two sites are from each other."""
        (x, y), (u, v) = self.points[one], self.points[other]
        return hypot(x - u, y - v)

    def connect(self, nodes: list[int], is_linked: Callable[[int, int], bool]) -> None:
        """Draw links at random until all nodes are connected; if that does not happen, join the pieces."""
        for _ in range(_TRIES):
            pairs = [pair for pair in combinations(nodes, 2) if is_linked(*pair)]
            pieces = _pieces(nodes, pairs)
            if len(pieces) == 1:
                break
        while len(pieces) > 1:
            ends = [
                (self.distance(one, other), one, other) for one in pieces[0] for each in pieces[1:] for other in each
            ]
            _, one, other = min(ends)
            pairs.append((one, other))
            pieces = _pieces(nodes, pairs)
        for pair in pairs:
            self.link(*pair)

    def finish(self) -> Topology:
        """The network."""
        names = tuple(f"s{number}" for number in range(len(self.points)))
        cables = [
            Cable(names[one], names[other], max(1, round(self.distance(one, other))))
            for one, other in sorted(self.links)
        ]
        return check(Topology(names, tuple(cables)))


def _pieces(nodes: Iterable[int], pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """What is connected, in the order of the first nodes."""
    piece = {node: node for node in nodes}
    for one, other in pairs:
        low, high = sorted((piece[one], piece[other]))
        piece = {node: low if each == high else each for node, each in piece.items()}
    found: dict[int, list[int]] = {}
    for node, each in piece.items():
        found.setdefault(each, []).append(node)
    return list(found.values())


def transit_stub(seed: int, shape: TransitStub = _USUAL) -> Topology:
    """A network with a core and stubs at its nodes.

    >>> network = transit_stub(1)
    >>> len(network.names), network == transit_stub(1), network == transit_stub(2)
    (100, True, False)
    """
    counts = {name: value for name, value in shape._asdict().items() if isinstance(value, int)}
    for name, value in counts.items():
        if value < (0 if name in ("stubs", "stub_nodes") else 1):
            raise CallerError(f"{name}: {value}; there has to be one at least")
    for name in ("transit_share", "stub_share"):
        if not 0 <= getattr(shape, name) <= 1:
            raise CallerError(f"{name}: {getattr(shape, name)} is no share between 0 and 1")
    for name in ("transit_scale", "stub_distance", "stub_scale"):
        if not 0 <= getattr(shape, name) <= _WIDEST:
            raise CallerError(f"{name}: {getattr(shape, name)} is not between 0 and {_WIDEST:,}")
    plan = _Plan(Random(f"transit-stub {seed}"))
    domains = [_transit_domain(plan, shape, number) for number in range(shape.transit_domains)]
    for one, other in pairwise(domains):
        plan.link(plan.random.choice(one), plan.random.choice(other))
    for node in [node for domain in domains for node in domain]:
        for _ in range(shape.stubs if shape.stub_nodes else 0):
            _stub(plan, shape, node)
    return plan.finish()


def _transit_domain(plan: _Plan, shape: TransitStub, number: int) -> list[int]:
    corner = (2 * number * shape.transit_scale, 0.0)
    nodes = [plan.place(corner, shape.transit_scale) for _ in range(shape.transit_nodes)]
    plan.connect(nodes, lambda _one, _other: plan.random.random() < shape.transit_share)
    return nodes


def _stub(plan: _Plan, shape: TransitStub, at: int) -> None:
    (x, y), far = plan.points[at], shape.stub_distance
    corner = (x + plan.random.uniform(-far, far), y + plan.random.uniform(-far, far))
    nodes = [plan.place(corner, shape.stub_scale) for _ in range(shape.stub_nodes)]
    plan.connect(nodes, lambda _one, _other: plan.random.random() < shape.stub_share)
    plan.link(at, plan.random.choice(nodes))


# -- Waxman ------------------------------------------------------------------------------------------------------------


class Waxman(NamedTuple):
    """How a flat network is made."""

    sites: int = 100
    alpha: float = 0.4
    """How many links there are."""
    beta: float = 0.14
    """How many of them are long."""
    scale: float = 100.0
    """The side of the square in which the sites are."""


_FLAT = Waxman()


def waxman(seed: int, shape: Waxman = _FLAT) -> Topology:
    """A flat network, in which sites that are near each other have a link more often.

    Of two sites at a distance d there is a link with probability alpha · exp(-d / (beta · L)), where L is the diagonal.

    >>> len(waxman(1, Waxman(sites=30)).names)
    30
    """
    sites, alpha, beta, scale = shape
    if sites < 1:
        raise CallerError(f"sites: {sites}; there has to be one at least")
    if not 0 < alpha <= 1 or beta <= 0:
        raise CallerError(f"alpha is above 0 and 1 at most, beta above 0: {alpha}, {beta}")
    plan = _Plan(Random(f"waxman {seed}"))
    nodes = [plan.place((0.0, 0.0), scale) for _ in range(sites)]
    longest = scale * 2**0.5

    def is_linked(one: int, other: int) -> bool:
        return plan.random.random() < alpha * exp(-plan.distance(one, other) / (beta * longest))

    plan.connect(nodes, is_linked)
    return plan.finish()


def edges(topology: Topology) -> Iterator[str]:
    """The links as lines of text, one a link, as in the papers' scenario files.

    >>> list(edges(Topology(("s0", "s1"), (Cable("s0", "s1", 31),))))
    ['s0 - s1 = 31;']
    """
    return (f"{one} - {other} = {cost};" for one, other, cost in topology.cables)
