"""Judges what parties were told about the outlook of their offers and wishes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from palio.model import Advertisement, Filter
from palio.sim.histories.facts import PartyRecord
from palio.sim.invariants.world import World, held_at

if TYPE_CHECKING:
    from palio.sim.histories.player import Player


def judge_outlooks(player: Player, world: World) -> Iterator[str]:
    """At rest the last word that a party was told is the truth, as far as its server can know it."""
    is_exact = not player.history.slack
    for name, party in player.parties.items():
        for subject in party.watched:
            told = player.cluster.outlooks.get((name, subject))
            truth = _is_met(subject, party, world)
            is_right = told is not None and (told or not (truth and _is_known(subject, party, world)))
            if not is_right or (is_exact and told and not truth):
                yield f"{name} was told {told} of {subject}, and the truth is {truth}"


def _is_met(subject: Filter | Advertisement, party: PartyRecord, world: World) -> bool:
    """Whether anybody in the network wants, or offers, what is asked about."""
    servers = world.reachable(party.server)
    if isinstance(subject, Advertisement):
        return any(subject.relevant_to(each) for server in servers for each in held_at(world.filters, server))
    return any(each.relevant_to(subject) for server in servers for each in held_at(world.advertisements, server))


def _is_known(subject: Filter | Advertisement, party: PartyRecord, world: World) -> bool:
    """Whether the answer has to come to the server: where advertisements count, only to where it is advertised."""
    if isinstance(subject, Filter) or not world.is_advertising(party.server):
        return True
    return any(each.covers(subject) for each in held_at(world.advertisements, party.server))
