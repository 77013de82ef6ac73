"""Planted bugs of gateways between networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from palio.node.neighbours import Neighbours
from palio.node.node import Node
from palio.routing.architectures import Hierarchical
from palio.routing.border import Border, _Way
from palio.routing.general import General
from palio.routing.membership import Membership
from palio.routing.messages import Control, Publish, Stamp, Subscribe, begun
from palio.routing.router import Role
from palio.routing.topology import Topology
from tests.planted.bugs import Bugs

BUGS = Bugs("gateways")
_Right = Callable[..., Any]
_ALL = ("gs+hs", "gs+as", "as+hs+gs", "as+aa", "ga+aa")


@BUGS.plant(Hierarchical, "hears_subscriptions", ("gs+hs", "as+hs+gs"))
def _client_of_the_hierarchy(_right: _Right) -> _Right:
    """To a hierarchy another network is one more client, and is not told what is wanted above it."""
    return lambda _router, role: role is Role.MASTER


@BUGS.plant(_Way, "_narrowed", _ALL)
def _borders_do_not_narrow(_right: _Right) -> _Right:
    """Filters pass a gateway as they are, whatever may come in or go out."""
    return lambda _way, message: message


@BUGS.plant(Border, "_out_of", ("gs+hs", "as+hs+gs"))
def _all_goes_out(right: _Right) -> _Right:
    """Notifications leave a network whatever may go out."""
    return lambda border, message: (message,) if isinstance(message, Publish) else right(border, message)


@BUGS.plant(_Way, "pass_on", _ALL)
def _taken_back_with_the_first(right: _Right) -> _Right:
    """Of several filters that become one at a gateway, the first that ends takes it back for all."""

    def pass_on(way: _Way, message: Control) -> tuple[Control, ...]:
        narrowed = way._narrowed(begun(message))
        if narrowed is not None:
            way._counts[narrowed] = min(way._counts[narrowed], 1)
        return tuple(right(way, message))

    return pass_on


@BUGS.plant(General, "_note_other_network", ("gs+hs", "gs+as", "as+hs+gs"))
def _wants_stay_at_the_gateway(_right: _Right) -> _Right:
    """What another network wants is not told within a network of any shape."""
    return lambda _router, _gateway, _message: None


@BUGS.plant(General, "admit", ("gs+hs", "gs+as", "as+hs+gs"))
def _enters_where_it_was_published(right: _Right) -> _Right:
    """A notification of another network travels as if it had entered this one where it was published."""

    def admit(router: General, message: Publish, source: str | None) -> Publish | None:
        passed: Publish | None = right(router, message, source)
        if passed is None or source is None or router.peers[source] is not Role.GATEWAY:
            return passed
        assert message.notification.envelope is not None
        return Publish(message.notification, message.notification.envelope.id.origin, passed.hops)

    return admit


@BUGS.plant(Membership, "surround", ("gs+as", "as+hs+gs"), ("links",))
def _loop_between_networks(_right: _Right) -> _Right:
    """A gateway that closes a loop between networks is not noticed, because a server knows itself only."""

    def surround(_membership: Membership, _servers: Mapping[str, Stamp]) -> None:
        return None

    return surround


@BUGS.plant(Topology, "reach", ("gs+gs",), ("links",))
def _other_networks_not_told_of(_right: _Right) -> _Right:
    """A gateway does not tell its own network of the servers beyond it, so that loops between networks stay."""
    return lambda _topology, _beyond: None


@BUGS.plant(General, "hearing", ("gs+as",), ("races",))
def _wave_stops_at_the_border(right: _Right) -> _Right:
    """Whether a subscription has spread is not asked of other networks."""
    return lambda router, origin: [peer for peer in right(router, origin) if router.peers[peer] is not Role.GATEWAY]


@BUGS.plant(Border, "take_in", _ALL)
def _cancellations_stop_at_the_border(right: _Right) -> _Right:
    """What another network does not want any more is still sent to it."""

    def take_in(border: Border, message: Control) -> list[Control]:
        found: list[Control] = right(border, message)
        return [each for each in found if isinstance(each, Subscribe)]

    return take_in


@BUGS.plant(Neighbours, "restore", _ALL, ("crashes",))
def _gateway_always_was_as_it_is(right: _Right) -> _Right:
    """A server that comes back with other filters at a gateway takes it that neighbours were told by these."""
    return lambda neighbours, up, _gateway=None: right(neighbours, up)


@BUGS.plant(Node, "take_over_gateways", _ALL, ("crashes",))
def _gateway_stays_as_it_was(_right: _Right) -> _Right:
    """A server that comes back with other filters at a gateway goes on with those of before."""
    return lambda _node: None
