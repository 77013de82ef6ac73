"""Judges a run by the law alone: what had to be delivered, what must not be, in which order, and what tables hold."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from palio.model import Pattern
from palio.routing.messages import Subscribe
from palio.routing.router import MONITORS, Role
from palio.sim.engine.cluster import Hop
from palio.sim.generators.networks import GRAPHS
from palio.sim.histories.facts import Epoch
from palio.sim.histories.player import Player
from palio.sim.invariants.delegation import judge_delegation
from palio.sim.invariants.deliveries import DeliveryInvariants
from palio.sim.invariants.durability import DurabilityInvariants
from palio.sim.invariants.federated_world import FederatedWorld
from palio.sim.invariants.limits import LimitedWorld
from palio.sim.invariants.merging import MergingInvariants
from palio.sim.invariants.outlooks import judge_outlooks
from palio.sim.invariants.placement import placed
from palio.sim.invariants.world import GraphWorld, World


class Oracle:
    """Asked after every rest of a player."""

    def __init__(self, player: Player) -> None:
        self._player = player
        is_graph = any(each in GRAPHS for each in player.history.architecture.split("+"))
        self.durability = None if player.durable is None else DurabilityInvariants(player, player.durable)
        excused = None if self.durability is None else self.durability.is_excused
        self.deliveries = DeliveryInvariants(player.parties, player.uncertain, is_causal=not is_graph, excused=excused)

    def judge(self) -> list[str]:
        """What was wrong in the epoch that has just ended, and what is wrong now."""
        epoch = self._player.epochs[-2]
        deliveries = self._player.cluster.deliveries[epoch.first_delivery :]
        world = self.world()
        problems = [*self._judge_links(world)]
        if not problems:
            problems += self._judge_tables(world)
        problems += judge_delegation(self._player)
        problems += judge_outlooks(self._player, world)
        problems += self.deliveries.judge(epoch, deliveries, world)
        problems += [] if self.durability is None else self.durability.judge()
        problems += self._judge_hops(epoch, world)
        problems += [f"no answer to: {asked.step}" for asked in self._player.unanswered.values()]
        problems += [f"never taken: {step}" for step in self._player.waiting.values()]
        problems += self._player.cluster.refusals
        return self._player.problems + problems

    def world(self) -> World:
        """What is true now: links as the servers have them, and what parties have asked for, monitors in its place."""
        world, patterns = self._without_patterns()
        monitors = placed(world, patterns, self._player.history.delegation)
        filters = {name: {**held, MONITORS: tuple(monitors[name])} for name, held in world.filters.items()}
        return msgspec.structs.replace(world, filters=filters)

    def _without_patterns(self) -> tuple[World, dict[str, list[Pattern]]]:
        player = self._player
        servers = player.history.servers
        links = {name: dict(player.cluster.nodes[name].router.peers) for name in servers}
        of = {name: {p: r for p, r in player.parties.items() if r.server == name} for name in servers}
        filters = {
            name: {MONITORS: (), **{party: record.filters for party, record in of[name].items()}} for name in servers
        }
        patterns = {name: [each for record in of[name].values() for each in record.patterns] for name in servers}
        offers = {name: {party: record.advertisements for party, record in of[name].items()} for name in servers}
        mixed = player.history.architecture
        if player.history.limits:
            accepted = {name: player.cluster.nodes[name].settings.accepted for name in servers}
            return LimitedWorld(mixed, links, filters, offers, accepted), patterns
        if mixed not in GRAPHS and "+" not in mixed:
            return World(mixed, links, filters, offers), patterns
        latencies = {
            (name, peer): player.cluster.nodes[name].links.latency(peer)
            for name, peers in links.items()
            for peer in peers
            if name < peer
        }
        if mixed in GRAPHS:
            return GraphWorld(mixed, links, filters, offers, latencies), patterns
        gateways = {
            (name, peer): gateway
            for name in servers
            for peer, gateway in player.cluster.nodes[name].settings.gateways.items()
        }
        return FederatedWorld(mixed, links, filters, offers, latencies, gateways), patterns

    # -- links and tables ----------------------------------------------------------------------------------------------

    def _judge_links(self, world: World) -> Iterator[str]:
        for server, peers in world.links.items():
            for peer in peers:
                if server not in world.links[peer]:
                    yield f"{server} has a link to {peer}, which knows nothing of it"
        pieces = {server: server for server in world.links}
        for server, peers in world.links.items():
            for peer in [peer for peer in peers if world.may_be_in_cycle(server, peer)]:
                pieces = _joined(pieces, server, peer)
        for server, peers in world.links.items():
            for peer in [peer for peer in peers if server < peer and not world.may_be_in_cycle(server, peer)]:
                if pieces[server] == pieces[peer]:
                    yield f"there is a cycle over the link between {server} and {peer}"
                    return
                pieces = _joined(pieces, server, peer)

    def _judge_tables(self, world: World) -> Iterator[str]:
        for server, peers in world.links.items():
            router = self._player.cluster.nodes[server].router
            for peer in peers:
                if self._player.history.merges:
                    yield from MergingInvariants(self._player, world).judge(server, peer)
                    continue
                held, law = router.standing(peer), world.told(peer, server)
                if set(held) != law:
                    yield f"{server} holds from {peer} {_list(held)}, and should {_list(law)}"
            for party, filters in world.filters[server].items():
                if set(router.profile(party).filters) != set(filters):
                    who = party or f"{server}, for patterns,"
                    yield f"{who} holds {_list(router.profile(party).filters)}, and should {_list(filters)}"

    # -- links ---------------------------------------------------------------------------------------------------------

    def _judge_hops(self, epoch: Epoch, world: World) -> Iterator[str]:
        """Where nothing changed, no link carries a notification twice, or back, or one that nobody behind it wants."""
        if epoch.is_disturbed:
            return
        seen = set()
        for hop in self._player.cluster.hops[epoch.first_hop :]:
            assert hop.notification.envelope is not None
            id = hop.notification.envelope.id
            if (hop.source, hop.target, id) in seen:
                yield f"{id} went twice from {hop.source} to {hop.target}"
            if (hop.target, hop.source, id) in seen:
                yield f"{id} went back from {hop.source} to {hop.target}"
            seen.add((hop.source, hop.target, id))
            if not epoch.is_busy and not self._may_carry(hop, world, id.origin):
                yield f"{id} went from {hop.source} to {hop.target}, where nobody wants it"

    def _may_carry(self, hop: Hop, world: World, entry: str) -> bool:
        """Whether somebody wants it; where filters are widened or merged imperfectly, whether it was told so."""
        history = self._player.history
        if not history.slack and not history.limits:
            return world.may_carry(hop.source, hop.target, hop.notification, entry)
        told = self._player.cluster.nodes[hop.source].router.standing(hop.target)
        role = world.links[hop.source].get(hop.target)
        is_up = (
            world.kind(hop.source) == "nf"
            or role is Role.MASTER
            or (role is Role.GATEWAY and world.kind(hop.source) == "hs")
        )
        return is_up or any(isinstance(each, Subscribe) and each.filter.matches(hop.notification) for each in told)


def _joined(pieces: dict[str, str], one: str, other: str) -> dict[str, str]:
    """The pieces of a network when two servers are joined."""
    return {name: pieces[other] if piece == pieces[one] else piece for name, piece in pieces.items()}


def _list(elements: object) -> str:
    texts = sorted(str(each) for each in elements)  # type: ignore[attr-defined]
    return "[" + " | ".join(texts) + "]"
