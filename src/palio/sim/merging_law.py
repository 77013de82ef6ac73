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
from palio.sim.world import GraphWorld, World, held_at, maximal

if TYPE_CHECKING:
    from palio.sim.player import Player

_AXES: Mapping[str, tuple[Value | None, ...]] = {
    "x": (None, "A", *(number / 2 for number in range(-2, 24)), *range(-1, 12)),
    "symbol": (None, "A", "B", "C", "D", 1),
    "y": (None, 1),
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


class MergingLaw:
    """Asked at every rest for one direction of one link."""

    def __init__(self, player: Player, world: World) -> None:
        self._player, self._world = player, world
        merging = player.history.telling.merging
        self._slack = merging.slack if merging is not None else 0
        self._most = merging.parts if merging is not None else 1

    def judge(self, server: str, peer: str) -> Iterator[str]:
        """What is wrong with what a server holds from a neighbour."""
        nodes = self._player.cluster.nodes
        held = nodes[server].router.standing(peer)
        groups = dict(nodes[peer].telling.groups(server))
        yield from self._judge_groups(peer, server, groups, held)
        law = self._world.told(peer, server)
        for kind, source in dict.fromkeys((type(each), each.source) for each in (*held, *law)):
            told, required = union(held, kind, source), union(law, kind, source)
            if required & ~told:
                yield f"{server} holds too little from {peer}: {_texts(held)} for {_texts(law)}"
            is_exact = not self._slack and not (kind is Subscribe and self._world.is_advertising(peer))
            if is_exact and told != required:
                yield f"{server} holds too much from {peer}: {_texts(held)} for {_texts(law)}"
        yield from self._judge_locally(peer, server, groups, held)

    def _judge_groups(
        self, teller: str, hearer: str, groups: Mapping[Standing, Collection[Standing]], held: Collection[Standing]
    ) -> Iterator[str]:
        """Each merged element is there, and keeps within its bounds."""
        for merged, parts in groups.items():
            kind, source = type(merged), merged.source
            if merged not in held:
                yield f"{teller} believes that it told {hearer} {merged}"
            whole, needed = union([merged], kind, source), union(parts, kind, source)
            if needed & ~whole:
                yield f"{teller} told {hearer} {merged}, which is too narrow for {_texts(parts)}"
            if (whole & ~needed).bit_count() * 100 > self._slack * whole.bit_count():
                yield f"{teller} told {hearer} {merged}, which is beyond the budget for {_texts(parts)}"
            if not 1 <= len(parts) <= self._most:
                yield f"{teller} told {hearer} {merged} for too many or no others: {_texts(parts)}"

    def _judge_locally(
        self, teller: str, hearer: str, groups: Mapping[Standing, Collection[Standing]], held: Collection[Standing]
    ) -> Iterator[str]:
        """What is held is exactly what the teller's tables require, some of it merged; nothing is left behind."""
        told = {each for each in held if each not in groups}.union(*groups.values())
        if isinstance(self._world, GraphWorld):
            router = self._player.cluster.nodes[teller].router
            required = {Subscribe(each) for each in router.subscriptions} | set(map(Advertise, router.advertisements))
            left = {each for each in told if msgspec.structs.replace(each, source="") not in required}
        else:
            left = told ^ self._required(teller, hearer)
        if left:
            yield f"{hearer} was told by {teller} {_texts(told)}, which is not right for {_texts(left)}"

    def _required(self, teller: str, hearer: str) -> set[Standing]:
        """What a server of a tree has to tell a neighbour, by what it holds, merged or not, from others."""
        world, standing = self._world, self._player.cluster.nodes[teller].router.standing
        heard = {each for other in world.links[teller] if other != hearer for each in standing(other)}
        wanted = held_at(world.filters, teller) | {each.filter for each in heard if isinstance(each, Subscribe)}
        offers = held_at(world.advertisements, teller)
        offers |= {each.advertisement for each in heard if isinstance(each, Advertise)}
        if world.architecture == "hs" and world.links[teller][hearer] is not Role.MASTER:
            wanted = set()
        if not world.is_advertising(teller):
            return set(map(Subscribe, maximal(wanted)))
        relevant = [each.advertisement for each in standing(hearer) if isinstance(each, Advertise)]
        wanted = {each for each in wanted if any(offer.relevant_to(each) for offer in relevant)}
        return {*map(Subscribe, maximal(wanted)), *map(Advertise, maximal(offers))}


def _texts(messages: Iterable[Standing]) -> str:
    texts = (str(each.filter if isinstance(each, Subscribe) else each.advertisement) for each in messages)
    return "[" + " | ".join(sorted(texts)) + "]"
