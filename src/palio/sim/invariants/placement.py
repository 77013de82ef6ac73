"""At which servers the monitors of patterns should be at rest, worked out from scratch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from palio.model import Filter, Pattern
from palio.node.settings import Delegation
from palio.routing.router import Role
from palio.sim.invariants.world import World


def placed(world: World, patterns: Mapping[str, list[Pattern]], delegation: Delegation) -> dict[str, set[Filter]]:
    """The filters that monitors hold, by server, of patterns by the server of their party."""
    found: dict[str, set[Filter]] = {server: set() for server in world.links}
    for server, wanted in patterns.items():
        for pattern in wanted:
            for place, filter in _spots(world, server, pattern.filters, (), delegation):
                found[place].add(filter)
    return found


def _spots(
    world: World, server: str, filters: tuple[Filter, ...], path: tuple[str, ...], delegation: Delegation
) -> Iterator[tuple[str, Filter]]:
    """Where the filters of a pattern, or of a part of one, are held, if a monitor is wanted at a server."""
    if not world.is_advertising(server) or delegation is Delegation.NONE:
        yield from ((server, filter) for filter in filters)
        return
    peer = _only_provider(world, server, filters, path)
    if peer is not None:
        yield from _spots(world, peer, filters, (*path, server), delegation)
        return
    parts = (
        _groups(world, server, filters, path)
        if delegation is Delegation.GROUPS and not path
        else [(each,) for each in filters]
    )
    for part in parts:
        if len(part) == 1:
            yield server, part[0]
        else:
            yield from _spots(world, server, part, path, delegation)


def _only_provider(world: World, server: str, filters: tuple[Filter, ...], path: tuple[str, ...]) -> str | None:
    every = [world.providers(server, filter) for filter in filters]
    if any(len(each) != 1 or each != every[0] for each in every):
        return None
    (peer,) = every[0]
    return peer if world.links[server].get(peer) is Role.PEER and peer not in path else None


def _groups(world: World, server: str, filters: tuple[Filter, ...], path: tuple[str, ...]) -> list[tuple[Filter, ...]]:
    """The longest groups that a neighbour can watch, from left to right; a filter that is in none is alone."""
    found: list[tuple[Filter, ...]] = []
    begin = 0
    while begin < len(filters):
        ends = [
            end
            for end in range(begin + 2, len(filters) + 1)
            if (begin, end) != (0, len(filters))
            and _only_provider(world, server, filters[begin:end], path) is not None
            and _is_of_no_other_use(world, server, filters[begin:end], filters)
        ]
        end = max([begin + 1, *ends])
        found.append(filters[begin:end])
        begin = end
    return found


def _is_of_no_other_use(world: World, server: str, group: tuple[Filter, ...], filters: tuple[Filter, ...]) -> bool:
    text: list[Filter | None] = list(filters)
    while (place := _find(text, group)) is not None:
        text[place : place + len(group)] = [None] * len(group)
    offers = {each for filter in group for each in world.relevant_offers(server, filter)}
    return not any(offers & world.relevant_offers(server, filter) for filter in text if filter is not None)


def _find(text: list[Filter | None], group: tuple[Filter, ...]) -> int | None:
    return next((i for i in range(len(text) - len(group) + 1) if tuple(text[i : i + len(group)]) == group), None)
