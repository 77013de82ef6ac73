"""One run of a history: what was violated, what it came to, and a digest that tells runs apart."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from palio.model import Notification
from palio.node.ports import LinkUp
from palio.sim.histories.history import History, Step
from palio.sim.histories.player import Player
from palio.sim.invariants.links import LinkInvariants
from palio.sim.invariants.oracle import Oracle
from palio.sim.invariants.patterns import PatternInvariants

Watch = Callable[[Player, Step], None]
"""Called after every step."""


class Outcome(NamedTuple):
    """What became of a history."""

    violations: tuple[str, ...]
    """Those of the first rest at which there were any; then the run ends."""
    step: int | None
    """The place in the history at which they were found."""
    operations: int
    messages: int
    deliveries: int
    faults: Mapping[str, int]
    """By kind; frames for what befell frames."""
    digest: str
    """Of all that servers said to parties and of all notifications between them, with times."""


def run(history: History, watch: Watch | None = None) -> Outcome:
    """Play a history and judge it. What a node raises is a violation like any other.

    >>> from palio.sim.generators.networks import generate
    >>> run(generate(1, "as", "none")).violations
    ()
    """
    player = Player(history)
    oracle, law = Oracle(player), LinkInvariants(player)
    patterns = PatternInvariants(player, oracle)
    violations: list[str] = []
    place = -1
    for place, step in enumerate(history.steps):  # noqa: B007 (it tells where the run has ended)
        try:
            player.do(step)
            if step.do == "settle":
                violations = [*oracle.judge(), *law.judge(), *patterns.judge(), *player.cluster.quarantined]
        except Exception as error:  # noqa: BLE001 (whatever it is, it is what the run was to find)
            violations = [f"{type(error).__name__}: {error}"]
        if watch is not None:
            watch(player, step)
        if violations:
            break
    faults = player.cluster.network.faults + player.cluster.faults
    return Outcome(
        tuple(violations),
        place if violations else None,
        player.operations,
        player.cluster.messages,
        len(player.cluster.deliveries) + len(player.cluster.sequences),
        dict(sorted(faults.items())),
        _digest(player),
    )


def _digest(player: Player) -> str:
    cluster = player.cluster
    record = [
        [[each.time, each.server, each.party, *_named(each.notification)] for each in cluster.deliveries],
        [
            [each.time, each.server, each.reply.party, each.reply.number, _problem(each.reply.problem)]
            for each in cluster.answers
        ],
        [
            [time, server, type(change).__name__, change.peer, "" if isinstance(change, LinkUp) else change.reason]
            for time, server, change in cluster.links
        ],
        [[each.time, each.source, each.target, *_named(each.notification)] for each in cluster.hops],
        [
            [each.time, each.server, each.party, str(each.pattern), [_named(one) for one in each.notifications]]
            for each in cluster.sequences
        ],
    ]
    return hashlib.sha256(msgspec.json.encode(record)).hexdigest()


def _named(notification: Notification) -> tuple[str, str]:
    """Which publication it is, and what it says."""
    envelope = notification.envelope
    return str(envelope and envelope.id), str(notification)


def _problem(error: Exception | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"
