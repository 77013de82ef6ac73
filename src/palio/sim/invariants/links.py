"""Judges the links themselves: those that were asked for are there at rest, and nothing but a wish ends them.

The oracle takes the links as the servers have them and judges what goes over them; a link that is missing would be a
smaller world to it, and no fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from palio.link.states import State
from palio.node.ports import LinkDown, LinkRefused, LinkUp
from palio.sim.generators.networks import GRAPHS
from palio.sim.histories.history import Step
from palio.sim.histories.player import Player

_Pair = tuple[str, str]
_CYCLE = "a cycle"
_REMOVED = "has removed the link"
_CONTRADICTION = "came back with an older state"
"""No simulated server does so: one whose disk is an old one is another server, and says so."""
_GOOD_REASONS = (
    _CYCLE,
    _REMOVED,
    "in a hierarchy a neighbour is",
    "has a master already",
    "a centralized service has no",
    "there is a link to",
    "there is no link to",
    "cannot be linked with itself",
    "only the root of a hierarchy",
    "correct the role",
)
"""Why links may be refused. All other reasons say that a neighbour has broken the rules, and none of ours does."""
_NEVER = ("there is a link to", "cannot be linked with itself")
"""Why servers do not even take a wish."""


class LinkInvariants:
    """Asked after every rest of a player."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._wishes: dict[_Pair, None] = {}
        """Links that servers were asked to open and not to end; the server that opens comes first."""
        self._steps: list[Step] = []
        """What was asked of the links since the last rest."""
        self._noted = self._noted_steps = 0
        self._links: set[_Pair] = set()
        """Those that were there at the last rest."""

    def _note_wishes(self) -> None:
        self._steps = self._player.relinked[self._noted_steps :]
        self._noted_steps += len(self._steps)
        crashed = self._player.epochs[-2].crashed
        for step in self._steps:
            if step.do == "connect":
                self._wishes[step.server, step.peer] = None
            elif step.do == "disconnect":
                self._wishes.pop((step.server, step.peer), None)
        for step in self._steps:
            if step.server in crashed:
                self._wishes.pop((step.server, step.peer), None)  # it may have forgotten what it was asked last

    def judge(self) -> list[str]:
        """What is wrong with the links now."""
        self._note_wishes()
        fresh = [(server, change) for _, server, change in self._player.cluster.links[self._noted :]]
        self._noted += len(fresh)
        for server, change in fresh:
            if isinstance(change, LinkRefused) and any(never in change.reason for never in _NEVER):
                self._wishes.pop((server, change.peer), None)
        ups = [(server, change.peer) for server, change in fresh if isinstance(change, LinkUp)]
        nodes = self._player.cluster.nodes
        links = {(server, peer) for server, node in nodes.items() for peer in node.router.peers}
        problems = [
            f"{server} gave up the link to {change.peer}: {change.reason}"
            for server, change in fresh
            if isinstance(change, LinkRefused) and not any(good in change.reason for good in _GOOD_REASONS)
        ]
        problems += [
            f"{server} lost the link to {change.peer}: {change.reason}"
            for server, change in fresh
            if isinstance(change, LinkDown) and _CONTRADICTION in change.reason
        ]
        problems += [*self._missing(links), *self._unwanted(links)]
        epoch = self._player.epochs[-2]
        # A server that has forgotten everything, or what was being opened, is a reason for much.
        if not epoch.died and not (epoch.crashed and self._steps):
            problems += [*self._changed(links), *self._parted(links), *self._closing(ups)]
        self._links = links
        return problems

    def _missing(self, links: set[_Pair]) -> Iterator[str]:
        """A wanted link is there, or the server that wants it knows a good reason that holds now."""
        trees = _trees(self._player.history.servers, links)
        nodes = self._player.cluster.nodes
        wanted = {(server, peer): None for server, node in nodes.items() for peer in node.links.wishes}
        for server, peer in {**self._wishes, **wanted}:
            status = nodes[server].links.status(peer)
            if (server, peer) in links:
                continue
            if status.state is not State.REFUSED:
                yield f"there is no link from {server} to {peer}, though it was asked for and not refused"
            elif _REMOVED in status.reason:
                if server not in nodes[peer].links.barred:
                    yield f"{peer} is said to refuse the link from {server}, and does not: {status.reason}"
            elif _CYCLE in status.reason and trees[server] != trees[peer]:
                yield f"{server} has no link to {peer} because of a cycle, and there is none"
            elif not any(good in status.reason for good in _GOOD_REASONS):
                yield f"there is no link from {server} to {peer}, for no good reason: {status.reason}"

    def _unwanted(self, links: set[_Pair]) -> Iterator[str]:
        nodes = self._player.cluster.nodes
        for server, peer in sorted(links):
            if peer not in nodes[server].links.wishes and server not in nodes[peer].links.wishes:
                yield f"there is a link from {server} to {peer}, and neither of them wants it"

    def _changed(self, links: set[_Pair]) -> Iterator[str]:
        """Without a reason no link goes, whatever the weather is; one that was given up comes back."""
        if any(step.do != "give-up" for step in self._steps):
            return
        for server, peer in sorted(self._links - links):
            yield f"the link from {server} to {peer} is gone, and nobody wanted that"

    def _parted(self, links: set[_Pair]) -> Iterator[str]:
        """When servers were only connected, what was in one tree still is; a cycle is cut where it harms nobody."""
        if not self._steps or any(step.do != "connect" for step in self._steps):
            return
        trees = _trees(self._player.history.servers, links)
        for server, peer in sorted(self._links):
            if server < peer and trees[server] != trees[peer]:
                yield f"{server} and {peer} were in one tree, and are no longer"
        if any(each in ("ce", "hs") for each in self._player.history.architecture.split("+")):
            return  # a server that has a master refuses another one
        for step in self._steps:
            if trees[step.server] != trees[step.peer]:
                yield f"{step.server} and {step.peer} were to be in one tree, and are not"

    def _closing(self, ups: list[_Pair]) -> Iterator[str]:
        """Where every server knows the tree, a link that would close a cycle is refused and never comes up."""
        trees = _trees(self._player.history.servers, self._links)
        is_tree = self._player.history.architecture not in GRAPHS and "+" not in self._player.history.architecture
        if is_tree and all(step.do == "connect" and trees[step.server] == trees[step.peer] for step in self._steps):
            for server, peer in ups:
                if trees[server] == trees[peer]:
                    yield f"the link from {server} to {peer} came up, though it closes a cycle"


def _trees(servers: tuple[str, ...], links: set[_Pair]) -> dict[str, str]:
    """For each server the name of its tree."""
    trees = {server: server for server in servers}
    for server, peer in links:
        gone, kept = trees[server], trees[peer]
        trees = {name: kept if tree == gone else tree for name, tree in trees.items()}
    return trees
