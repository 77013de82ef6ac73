"""Planted bugs of changes of filters that wait for a neighbour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palio.link.ports import LinkEvent
from palio.node.node import Node
from palio.routing.messages import Standing
from palio.routing.pacing import Pacing
from palio.routing.telling import Telling, _Changes
from tests.planted.bugs import TREES, Bugs

BUGS = Bugs("pacing")
_Right = Callable[..., Any]
_JOINED = ("gs+hs", "gs+as", "as+hs+gs")


@BUGS.plant(Node, "_tell_changes", _JOINED)
def _not_let_out_and_in_flight(_right: _Right) -> _Right:
    """Changes that a gateway does not let out count as in flight, though nobody can acknowledge them."""

    def tell_changes(node: Node, **urgency: bool) -> list[LinkEvent]:
        events: list[LinkEvent] = []
        for peer, control in node.telling.take(node.router.control(), node.now, **urgency):
            events += node._say(peer, control)
            node.telling.sent(peer, node._next_of(peer), len(control), node.now)
        return events

    return tell_changes


@BUGS.plant(Telling, "is_due", TREES)
def _room_is_not_noticed(_right: _Right) -> _Right:
    """When a neighbour has acknowledged changes, what waits for it goes on waiting until there is something else."""
    return lambda telling, now: telling.deadline is not None and telling.deadline <= now


@BUGS.plant(Pacing, "forget", (*TREES, "gs"), ("links", "races"))
def _in_flight_after_the_link(_right: _Right) -> _Right:
    """Changes that were in flight when a link ended count as in flight on the next one."""
    return lambda _pacing, _peer: None


@BUGS.plant(_Changes, "note", TREES, ("none", "links", "races"))
def _waiting_end_stays(right: _Right) -> _Right:
    """What is wanted again before its end was told ends nevertheless."""

    def note(changes: _Changes, standing: Standing, *, is_begun: bool) -> None:
        if not (is_begun and standing in changes._ends):
            right(changes, standing, is_begun=is_begun)

    return note


@BUGS.plant(_Changes, "get", TREES, ("crashes", "disks"))
def _round_not_kept(_right: _Right) -> _Right:
    """What waits in a round that has begun is not written."""
    return lambda changes, standing: changes._next.get(standing)


@BUGS.plant(Telling, "hold", TREES, ("none", "links", "races"))
def _waves_overtake_changes_that_wait(_right: _Right) -> _Right:
    """A wave is sent before changes that wait for a neighbour, so that it comes back too early."""
    return lambda _telling, _peer, _message: False


@BUGS.plant(Telling, "records", TREES, ("crashes", "disks"))
def _held_waves_not_kept(right: _Right) -> _Right:
    """Waves that wait behind changes are not written, so that they never come back after a crash."""
    return lambda telling: {key: value for key, value in right(telling).items() if key[0] != "behind"}
