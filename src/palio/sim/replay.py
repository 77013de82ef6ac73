"""A history told step by step: what was done, and what followed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from palio.node.ports import LinkDown, LinkRefused, LinkUp
from palio.sim.engine.cluster import Answer, Delivery, SequenceDelivery
from palio.sim.histories.history import History, Step
from palio.sim.histories.player import Player
from palio.sim.run import Outcome, run

_Tables = dict[tuple[str, str], dict[str, None]]
"""For each server and neighbour the texts of what the server holds from the neighbour."""


class Scene(NamedTuple):
    """One step."""

    number: int
    time: int
    """Virtual time, after the step."""
    step: str
    followed: tuple[str, ...]
    """Since the step before: deliveries, answers, changes of links, and of tables of neighbours; deaths."""


class Story(NamedTuple):
    """A whole run."""

    history: History
    scenes: tuple[Scene, ...]
    outcome: Outcome


def replay(history: History) -> Story:
    """Play a history and tell it.

    >>> from palio.sim.histories.history import Step
    >>> steps = Step(0, "subscribe", "rome", "me", "x > 3"), Step(5, "publish", "rome", "you", "x = 4")
    >>> for scene in replay(History("ce", 0, ("rome",), steps)).scenes:
    ...     print(scene.time, scene.step, *scene.followed, sep=" | ")
    0 | subscribe rome me x > 3 | answer to me: done
    5 | publish rome you x = 4 | me gets rome/0/0: x = 4 | answer to you: done
    """
    narrator = _Narrator()
    outcome = run(history, narrator)
    return Story(history, tuple(narrator.scenes), outcome)


class _Narrator:
    def __init__(self) -> None:
        self.scenes: list[Scene] = []
        self._deliveries = self._sequences = self._answers = self._links = self._deaths = 0
        self._tables: _Tables = {}

    def __call__(self, player: Player, step: Step) -> None:
        cluster = player.cluster
        followed = [
            *map(_link, cluster.links[self._links :]),
            *self._table_changes(player),
            *map(_delivery, cluster.deliveries[self._deliveries :]),
            *map(_sequence, cluster.sequences[self._sequences :]),
            *map(_answer, cluster.answers[self._answers :]),
            *(f"{server} dies" for server in cluster.deaths[self._deaths :]),
        ]
        self._deliveries, self._answers = len(cluster.deliveries), len(cluster.answers)
        self._sequences = len(cluster.sequences)
        self._links, self._deaths = len(cluster.links), len(cluster.deaths)
        self.scenes.append(Scene(len(self.scenes), cluster.scheduler.now, _words(step), tuple(followed)))

    def _table_changes(self, player: Player) -> Iterator[str]:
        before, self._tables = self._tables, _tables(player)
        for server, peer in dict.fromkeys([*before, *self._tables]):
            old, new = before.get((server, peer), {}), self._tables.get((server, peer), {})
            yield from (f"{server} learns from {peer}: {each}" for each in new if each not in old)
            yield from (f"{server} forgets of {peer}: {each}" for each in old if each not in new)


def _tables(player: Player) -> _Tables:
    found: _Tables = {}
    for server, node in player.cluster.nodes.items():
        for peer in node.router.peers:
            held = [f"filter {each}" for each in node.router.subscriptions.held_by(peer)]
            held += [f"advertisement {each}" for each in node.router.advertisements.held_by(peer)]
            found[server, peer] = dict.fromkeys(held)
    return found


def _words(step: Step) -> str:
    more = ["and wait until it has spread"] if step.spread else []
    match step.do:
        case "weather":
            weather = step.weather
            shares = {} if weather is None else {name: getattr(weather, name) for name in weather.__struct_fields__}
            more = [f"{name} {share:.0%}" for name, share in shares.items() if share] or ["fair"]
        case "part":
            more = ["from the others"]
        case "slow":
            more = [f"by {step.time} for all that it handles"]
        case "clock":
            more = [f"is off by {step.time:+} and runs at {step.rate}%"]
        case "attach":
            more = ["and remembers what it has got"] if step.remembers else []
        case "crash-at":
            more = ["at", *([f"number {step.nth} of"] if step.nth > 1 else []), str(step.effect)]
    return " ".join([str(step), *more])


def _delivery(each: Delivery) -> str:
    envelope = each.notification.envelope
    return f"{each.party} gets {envelope and envelope.id}: {each.notification}"


def _sequence(each: SequenceDelivery) -> str:
    ids = " then ".join(str(one.envelope and one.envelope.id) for one in each.notifications)
    return f"{each.party} gets for {each.pattern}: {ids}"


def _answer(each: Answer) -> str:
    problem = each.reply.problem
    return f"answer to {each.reply.party}: {'done' if problem is None else problem}"


def _link(each: tuple[int, str, LinkUp | LinkDown | LinkRefused]) -> str:
    _, server, change = each
    match change:
        case LinkUp(peer):
            return f"{server} has a link to {peer}"
        case LinkDown(peer):
            return f"{server} has no link to {peer} any more"
        case LinkRefused(peer, reason):
            return f"{server} gives up the link to {peer}: {reason}"
