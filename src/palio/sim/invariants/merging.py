"""Judges tables where servers merge: what is told covers what has to be known, and is no more than the budget allows.

Nothing here asks filters how they relate: they are compared by what they match, on a grid of notifications that is as
fine as the generated filters are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import msgspec

from palio.model import Advertisement, Filter, Notification
from palio.model.value import Value
from palio.routing.messages import Advertise, Standing, Subscribe
from palio.routing.router import Role
from palio.routing.unions import Merging
from palio.sim.generators.networks import GRAPHS
from palio.sim.invariants.federated_world import FederatedWorld
from palio.sim.invariants.world import World, held_at, maximal

if TYPE_CHECKING:
    from palio.sim.histories.player import Player

_APART = Merging(parts=1)
_AXES: Mapping[str, tuple[Value | None, ...]] = {
    "x": (None, "A", *(number + 0.5 for number in range(-2, 12)), *range(-1, 12)),
    "symbol": (None, "A", "B", "C", "D", 1),
    "y": (None, -1, 0, 0.5, 1, 1.5, 2, 2.5, 3, 4),
}
"""Generated filters have integers as limits: numbers between them, and on both sides, tell all of them apart."""
GRID: tuple[Notification, ...] = tuple(
    Notification({name: value for name, value in zip(_AXES, values, strict=True) if value is not None})
    for values in product(*_AXES.values())
)


@lru_cache(maxsize=4096)
def selected(element: Filter | Advertisement) -> int:
    """The notifications of the grid that a filter matches, or an advertisement announces, as bits."""
    holds = element.matches if isinstance(element, Filter) else element.announces
    return sum(1 << number for number, notification in enumerate(GRID) if holds(notification))


def union(messages: Iterable[Standing], kind: type[Standing], source: str) -> int:
    """What the messages of one kind and one source select together."""
    found = 0
    for each in messages:
        if isinstance(each, kind) and each.source == source:
            found |= selected(each.filter if isinstance(each, Subscribe) else each.advertisement)
    return found


class MergingInvariants:
    """Asked at every rest for one direction of one link."""

    def __init__(self, player: Player, world: World) -> None:
        self._player, self._world = player, world
        history = player.history
        self._telling, self._compression = history.telling.merging or _APART, history.compression or _APART
        self._slack = history.slack

    def judge(self, server: str, peer: str) -> Iterator[str]:
        """What is wrong with what a server holds from a neighbour."""
        nodes, world = self._player.cluster.nodes, self._world
        held = nodes[server].router.standing(peer)
        heard = nodes[server].neighbours.compression.said(peer, held)
        told = dict(nodes[peer].telling.groups(server))
        yield from self._judge_groups(f"{peer} told {server}", told, self._telling)
        for merged in told:
            if not world.counting(peer, server, {merged}) <= {*heard}:
                yield f"{peer} believes that it told {server} {merged}"
        compressed = dict(nodes[server].neighbours.compression.groups(peer))
        yield from self._judge_groups(f"{server} holds from {peer}", compressed, self._compression)
        law = world.told(peer, server)
        for kind, source in dict.fromkeys((type(each), each.source) for each in (*held, *law)):
            counts, required = union(held, kind, source), union(law, kind, source)
            if required & ~counts:
                yield f"{server} holds too little from {peer}: {_texts(held)} for {_texts(law)}"
            if self._is_exact(kind, peer) and counts != required:
                yield f"{server} holds too much from {peer}: {_texts(held)} for {_texts(law)}"
        yield from self._judge_locally(peer, server, told, heard)

    def _is_exact(self, kind: type[Standing], teller: str) -> bool:
        """Whether the law of the architecture says exactly what counts, however it is merged.

        What is merged goes as far as one of its parts would: towards advertisers, or over gateways.
        """
        world = self._world
        if isinstance(world, FederatedWorld):
            return not self._slack and not any(map(world.is_advertising, world.reachable(teller)))
        return not self._slack and not (kind is Subscribe and world.is_advertising(teller))

    @staticmethod
    def _judge_groups(who: str, groups: Mapping[Standing, Collection[Standing]], limits: Merging) -> Iterator[str]:
        """Each merged element keeps within its bounds."""
        for merged, parts in groups.items():
            kind, source = type(merged), merged.source
            whole, needed = union([merged], kind, source), union(parts, kind, source)
            if needed & ~whole:
                yield f"{who} {merged}, which is too narrow for {_texts(parts)}"
            if (whole & ~needed).bit_count() * 100 > limits.slack * whole.bit_count():
                yield f"{who} {merged}, which is beyond the budget for {_texts(parts)}"
            if not parts or sum(part != merged for part in parts) > limits.parts:
                yield f"{who} {merged} for too many or no others: {_texts(parts)}"

    def _judge_locally(
        self, teller: str, hearer: str, groups: Mapping[Standing, Collection[Standing]], heard: Collection[Standing]
    ) -> Iterator[str]:
        """What is heard is exactly what the teller's tables require, some of it merged; nothing is left behind."""
        world, parts = self._world, {part for group in groups.values() for part in group}
        if world.kind(teller) not in GRAPHS:
            required = self._required(teller, hearer)
            left = (parts - required) | (world.counting(teller, hearer, (required - parts) | {*groups}) ^ {*heard})
        elif world.links[teller][hearer] is Role.PEER:
            router = self._player.cluster.nodes[teller].router
            known = {Subscribe(each) for each in router.subscriptions} | set(map(Advertise, router.advertisements))
            told = parts | {each for each in heard if each not in groups}
            left = {each for each in told if msgspec.structs.replace(each, source="") not in known}
        else:
            left = set()
        if left:
            yield f"{hearer} was told by {teller} {_texts(heard)}, which is not right for {_texts(left)}"

    def _required(self, teller: str, hearer: str) -> set[Standing]:
        """What a server of a tree has to tell a neighbour, by what it holds, merged or not, from others."""
        world, standing = self._world, self._player.cluster.nodes[teller].router.standing
        heard = {each for other in world.links[teller] if other != hearer for each in standing(other)}
        wanted = held_at(world.filters, teller) | {each.filter for each in heard if isinstance(each, Subscribe)}
        offers = held_at(world.advertisements, teller)
        offers |= {each.advertisement for each in heard if isinstance(each, Advertise)}
        if world.links[teller][hearer] is Role.CLIENT:
            wanted = set()
        if not world.is_advertising(teller):
            return set(map(Subscribe, maximal(wanted)))
        relevant = [each.advertisement for each in standing(hearer) if isinstance(each, Advertise)]
        wanted = {each for each in wanted if any(offer.relevant_to(each) for offer in relevant)}
        return {*map(Subscribe, maximal(wanted)), *map(Advertise, maximal(offers))}


def _texts(messages: Iterable[Standing]) -> str:
    texts = (str(each.filter if isinstance(each, Subscribe) else each.advertisement) for each in messages)
    return "[" + " | ".join(sorted(texts)) + "]"
