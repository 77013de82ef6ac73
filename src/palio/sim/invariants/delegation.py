"""Judges at rest whether servers agree on the patterns that one watches for the other."""

from __future__ import annotations

from collections.abc import Iterator

from palio.node.watches import Commission, Place, Watch
from palio.sim.histories.player import Player


def judge_delegation(player: Player) -> Iterator[str]:
    """What is wrong now: a watch that is on the way, without its twin, or not as far as its twin."""
    nodes = player.cluster.nodes
    for server in player.history.servers:
        for (peer, tag), watch in nodes[server].delegating.lent.items():
            twin = nodes[peer].delegating.taken_in.get(Commission(server, tag)) if peer in nodes else None
            if watch.place is not Place.AWAY:
                yield f"{server} is still {watch.place.value} with {peer} about {watch.pattern}"
            elif twin is None:
                yield f"{server} believes that {peer} watches {watch.pattern}, as number {tag}"
            elif _state(twin) != _state(watch):
                yield f"{server} and {peer} do not agree how far {watch.pattern} was met"
        for (peer, tag), watch in nodes[server].delegating.taken_in.items():
            if peer not in nodes or Commission(server, tag) not in nodes[peer].delegating.lent:
                yield f"{server} watches {watch.pattern} for {peer}, as number {tag}, which knows nothing of it"


def _state(watch: Watch) -> object:
    return watch.pattern, watch.position, watch.after
