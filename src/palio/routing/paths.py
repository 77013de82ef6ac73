"""Shortest paths in a network of servers: one between any two, and the same in both directions.

Where several ways are equally short, all servers must choose the same one, whichever end they look from. Every link
has, besides its latency, a small weight made from the names of its ends, without a direction; ways are compared by the
sums of both. So a part of a shortest path is a shortest path, and the paths from one server form a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from heapq import heappop, heappush
from typing import NamedTuple

_SHIFT = 128
"""Latencies count above the sums of the small weights, which have 96 bits each."""


def _small_weight(low: str, high: str) -> int:
    digest = blake2b(f"{len(low)} {low} {high}".encode("utf-8", "surrogatepass"), digest_size=12).digest()
    return int.from_bytes(digest, "big")


@lru_cache(maxsize=1 << 16)
def weight(one: str, other: str, latency: int) -> int:
    """What a link counts for, whichever end is named first."""
    return (latency << _SHIFT) + (_small_weight(one, other) if one < other else _small_weight(other, one))


class Tree(NamedTuple):
    """The shortest paths from one server."""

    distances: Mapping[str, int]
    """By server that can be reached, in order of distance."""
    parents: Mapping[str, str]
    """The server before each one, on its path from the root."""
    first: Mapping[str, str]
    """The neighbour of the root over which each server is reached."""


class Graph:
    """Servers and links, which come and go; only paths that they change are worked out anew.

    >>> graph = Graph([("1", "2", 10), ("2", "3", 10), ("1", "3", 50)])
    >>> graph.latency("1", "3"), graph.tree("1").first["3"]
    (20, '2')
    >>> graph.remove("2", "3")
    >>> graph.latency("1", "3"), graph.tree("1").first["3"]
    (50, '3')
    """

    __slots__ = ("_neighbours", "_trees", "version")

    def __init__(self, links: Iterable[tuple[str, str, int]] = ()) -> None:
        self._neighbours: dict[str, dict[str, int]] = {}
        self._trees: dict[str, Tree] = {}
        self.version = 0
        """How often the graph has changed."""
        for link in links:
            self.add(*link)

    def add(self, one: str, other: str, latency: int) -> None:
        """There is a new link."""
        length = weight(one, other, latency)
        self._neighbours.setdefault(one, {})[other] = length
        self._neighbours.setdefault(other, {})[one] = length
        self.version += 1
        self._forget(lambda tree: _is_way(tree.distances, one, other, length))

    def remove(self, one: str, other: str) -> None:
        """A link is gone."""
        for near, far in ((one, other), (other, one)):
            del self._neighbours[near][far]
            if not self._neighbours[near]:
                del self._neighbours[near]
        self.version += 1
        self._forget(lambda tree: tree.parents.get(one) == other or tree.parents.get(other) == one)

    def _forget(self, is_changed: Callable[[Tree], bool]) -> None:
        for root in [root for root, tree in self._trees.items() if is_changed(tree)]:
            del self._trees[root]

    def links(self) -> Iterator[tuple[str, str, int]]:
        """All links, each once, with the lower name first."""
        for one, neighbours in self._neighbours.items():
            for other, length in neighbours.items():
                if one < other:
                    yield one, other, length >> _SHIFT

    def tree(self, root: str) -> Tree:
        """The shortest paths from a server; the same object as before if they are the same."""
        found = self._trees.get(root)
        if found is None:
            found = self._trees[root] = self._grow(root)
        return found

    def _grow(self, root: str) -> Tree:
        distances: dict[str, int] = {}
        parents: dict[str, str] = {}
        first: dict[str, str] = {}
        heap = [(0, root, root)]
        while heap:
            distance, server, parent = heappop(heap)
            if server in distances:
                continue
            distances[server] = distance
            if server != root:
                parents[server] = parent
                first[server] = server if parent == root else first[parent]
            for neighbour, each in self._neighbours.get(server, {}).items():
                if neighbour not in distances:
                    heappush(heap, (distance + each, neighbour, server))
        return Tree(distances, parents, first)

    def latency(self, one: str, other: str) -> int:
        """How long the way between two connected servers takes."""
        return self.tree(one).distances[other] >> _SHIFT

    def is_between(self, root: str, server: str, target: str) -> bool:
        """Whether the path from a root to a target leads through a server, or ends there."""
        from_root = self.tree(root).distances
        if server not in from_root or target not in from_root:
            return False
        return from_root[server] + self.tree(server).distances[target] == from_root[target]


def _is_way(distances: Mapping[str, int], one: str, other: str, length: int) -> bool:
    """Whether a new link makes something nearer to the root, or brings it within reach."""
    near, far = distances.get(one), distances.get(other)
    if near is None or far is None:
        return near is not far
    return near + length < far or far + length < near
