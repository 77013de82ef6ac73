"""Planted bugs of patterns that neighbours watch: where monitors belong, and how they move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from palio.model import Filter, Notification
from palio.node.delegation import Delegating
from palio.node.holdback import order_of
from palio.node.monitors import Monitors
from palio.node.watches import Commission, Place, Watch
from palio.routing import messages
from palio.routing.available import Available
from tests.planted.bugs import Bugs

BUGS = Bugs("patterns")
_Right = Callable[..., Any]
_BOTH = ("aa", "ga")

# -- where monitors belong ---------------------------------------------------------------------------------------------


@BUGS.plant(Available, "providers", _BOTH)
def _one_provider_asked(right: _Right) -> _Right:
    """Of several neighbours from which a filter of a pattern is available one is forgotten."""
    return lambda available, filter: right(available, filter)[-1:]


@BUGS.plant(Available, "providers", _BOTH)
def _own_parties_forgotten(right: _Right) -> _Right:
    """A pattern is left to a neighbour though parties of this server publish something of it."""

    def providers(available: Available, filter: Filter) -> tuple[str, ...]:
        found: tuple[str, ...] = right(available, filter)
        return tuple(peer for peer in found if peer) or found

    return providers


@BUGS.plant(Available, "refresh", _BOTH)
def _new_provider_not_noticed(right: _Right) -> _Right:
    """A monitor stays where it is when what it waits for is advertised elsewhere too."""

    def refresh(available: Available) -> list[Filter]:
        right(available)
        return []

    return refresh


@BUGS.plant(Available, "_stands_alone", _BOTH)
def _group_of_what_is_needed_alone(_right: _Right) -> _Right:
    """A group is left to a neighbour though a filter of it is needed elsewhere in the pattern."""
    return lambda _available, _filters, _group: True


@BUGS.plant(Watch, "accepts_part", _BOTH)
def _part_before_the_previous_element(_right: _Right) -> _Right:
    """A part is taken that began before the element that was taken last, because it ends after it."""
    return lambda watch, part, begun: begun >= watch.since and (watch.after is None or order_of(part[-1]) > watch.after)


# -- how they move -----------------------------------------------------------------------------------------------------


@BUGS.plant(Delegating, "_lend", _BOTH)
def _handed_over_at_once(right: _Right) -> _Right:
    """A monitor is handed over though notifications for it are on the way."""

    def lend(delegating: Delegating, watch: Watch, peer: str) -> None:
        watch.is_silent = True
        right(delegating, watch, peer)

    return lend


@BUGS.plant(Delegating, "reconsider", _BOTH)
def _recall_overtakes_subscriptions(right: _Right) -> _Right:
    """Neighbours are told to stop watching before they are told of the filters."""

    def reconsider(delegating: Delegating, room: Callable[[str], int] | None) -> bool:
        right(delegating, room)
        return False

    return reconsider


@BUGS.plant(Monitors, "catch_up", _BOTH)
def _collected_in_vain(right: _Right) -> _Right:
    """What has come while a monitor was on the way is not looked at."""

    def catch_up(monitors: Monitors, watch: Watch, held: Sequence[Notification], now: int) -> None:
        monitors.take_pending(watch)
        right(monitors, watch, held, now)

    return catch_up


@BUGS.plant(Monitors, "held_for", _BOTH)
def _held_back_stays_behind(_right: _Right) -> _Right:
    """What a server holds back does not go with the monitor."""
    return lambda _monitors, _watch: ()


@BUGS.plant(Delegating, "_command", _BOTH)
def _begun_anew_elsewhere(right: _Right) -> _Right:
    """A monitor that is handed over begins anew."""

    def command(delegating: Delegating, owner: Commission, message: messages.Message, now: int) -> None:
        if isinstance(message, messages.Continue):
            message = messages.Continue(message.tag, 0, message.after, message.held)
        right(delegating, owner, message, now)

    return command


@BUGS.plant(Delegating, "_command", _BOTH)
def _given_back_while_it_is_elsewhere(right: _Right) -> _Right:
    """A server says that it watches no longer, while another one still does for it."""

    def command(delegating: Delegating, owner: Commission, message: messages.Message, now: int) -> None:
        watch = delegating._taken_in[owner]
        if isinstance(message, messages.Recall) and watch.place is Place.AWAY:
            delegating._give_back(watch)
        else:
            right(delegating, owner, message, now)

    return command


@BUGS.plant(Delegating, "_forget", _BOTH)
def _cancelled_pattern_stays_upstream(right: _Right) -> _Right:
    """A neighbour goes on watching a pattern that was cancelled."""

    def forget(delegating: Delegating, watch: Watch) -> None:
        sent = len(delegating._outgoing)
        right(delegating, watch)
        del delegating._outgoing[sent:]

    return forget


@BUGS.plant(Delegating, "lost", _BOTH, ("links", "crashes"))
def _gone_with_its_neighbour(_right: _Right) -> _Right:
    """A monitor that a neighbour ran is gone with that neighbour."""
    return lambda _delegating, _peer, _now: None


@BUGS.plant(Monitors, "elements", _BOTH)
def _told_only_the_first_task(right: _Right) -> _Right:
    """Of several monitors for a neighbour that take the same notification only one tells."""

    def elements(monitors: Monitors) -> list[tuple[str, messages.Element]]:
        return [(peer, messages.Element(each.notification, each.tags[:1])) for peer, each in right(monitors)]

    return elements


@BUGS.plant(Delegating, "restore", _BOTH, ("crashes", "disks"))
def _tasks_forgotten_in_a_crash(_right: _Right) -> _Right:
    """A server that comes back does not know any more what it watches for its neighbours."""
    return lambda _delegating, _known, _watches: None


@BUGS.plant(Delegating, "restore", _BOTH, ("crashes", "disks"))
def _numbers_used_again(right: _Right) -> _Right:
    """A server that comes back gives numbers to tasks that it has given before."""

    def restore(delegating: Delegating, known: Any, watches: Any) -> None:
        right(delegating, known, watches)
        delegating._tag = 0

    return restore


@BUGS.plant(Delegating, "is_due", _BOTH, ("none", "links", "crashes"))
def _room_for_monitors_is_not_noticed(_right: _Right) -> _Right:
    """When a neighbour has room for more monitors, those that wait go on waiting until there is something else."""
    return lambda _delegating, _room: False
