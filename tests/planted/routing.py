"""Planted bugs of routing: what neighbours are told, and where notifications go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from palio.matching.sharing import Node, SharedOrder
from palio.model import Filter
from palio.routing.antichain import Antichain
from palio.routing.architectures import AdvertisementForwarding, Flooding, Hierarchical, SubscriptionForwarding
from palio.routing.messages import Advertise, Control, Publish, Subscribe, Unadvertise, Unsubscribe
from palio.routing.router import Role, Route, Router
from palio.routing.table import Holders, Table, Update
from palio.routing.telling import _Changes
from tests.planted.bugs import TREES, Bugs

BUGS = Bugs()
_Right = Callable[..., Any]
_Told = list[tuple[str, list[Control]]]

# -- what neighbours are told ------------------------------------------------------------------------------------------


@BUGS.plant(_Changes, "take", TREES)
def _rounds_end_before_they_begin(right: _Right) -> _Right:
    """Of changes that a neighbour cannot take together, those that are over go first."""

    def take(changes: _Changes, room: int | None) -> dict[Any, bool]:
        if room is None or not room:
            return right(changes, room)  # type: ignore[no-any-return]
        if not changes._begins and not changes._ends:
            changes._begins = {each: None for each, is_begun in reversed(changes._next.items()) if is_begun}
            changes._ends = {each: None for each, is_begun in reversed(changes._next.items()) if not is_begun}
            changes._next = {}
        over: dict[Any, bool] = {}
        while changes._ends and len(over) < room:
            over[changes._ends.popitem()[0]] = False
        return over or right(changes, room)

    return take


@BUGS.plant(SharedOrder, "remove", TREES)
def _not_restored(right: _Right) -> _Right:
    """What a cancelled filter had covered is not told again."""

    def remove(order: SharedOrder[Any], node: Node[Any]) -> None:
        touched = dict(order.touched)
        right(order, node)
        order.touched = {**touched, node: None}

    return remove


@BUGS.plant(Hierarchical, "control", ("hs",))
def _lost_resurfacing(right: _Right) -> _Right:
    """In a hierarchy the master is not told what resurfaces below a cancelled filter, as the thesis has it."""
    return _without_resurfacing(right, Subscribe, Unsubscribe, "filter")


@BUGS.plant(AdvertisementForwarding, "control", ("aa",))
def _advertisement_not_resurfaced(right: _Right) -> _Right:
    """Neighbours are not told what resurfaces below a cancelled advertisement."""
    return _without_resurfacing(right, Advertise, Unadvertise, "advertisement")


def _without_resurfacing(right: _Right, begins: type, ends: type, field: str) -> _Right:
    def control(router: Router) -> _Told:
        told: _Told = right(router)
        for _, said in told:
            ended = [getattr(each, field) for each in said if isinstance(each, ends)]
            said[:] = [
                each
                for each in said
                if not isinstance(each, begins) or not any(old.covers(getattr(each, field)) for old in ended)
            ]
        return told

    return control


@BUGS.plant(Table, "updates", TREES)
def _covering_reversed(_right: _Right) -> _Right:
    """The narrowest filters are told instead of the broadest."""

    def updates(table: Table[Any]) -> list[Update[Any]]:
        found = []
        for peer, bit in table._bits.items():
            seen = [node for node in table._nodes.values() if not node.barred & bit]
            narrow = [node for node in seen if sum(node.element.covers(each.element) for each in seen) == 1]
            begun = tuple(node.element for node in narrow if not node.known & bit)
            ended = tuple(node.element for node in table._nodes.values() if node.known & bit and node not in narrow)
            for node in table._nodes.values():
                node.known = node.known | bit if node in narrow else node.known & ~bit
            if begun or ended:
                found.append(Update(peer, begun, ended))
        return found

    return updates


@BUGS.plant(Holders, "only_peer", ("as", "aa"))
def _no_split_horizon(_right: _Right) -> _Right:
    """A neighbour is told what only itself holds."""
    return lambda _holders: None


@BUGS.plant(Router, "control", TREES, ("none", "weather"))
def _break_before_make(right: _Right) -> _Right:
    """Cancellations are told at once, and what takes their place only when there is something else to do."""
    late: WeakKeyDictionary[Router, dict[str, list[Control]]] = WeakKeyDictionary()

    def control(router: Router) -> _Told:
        told = late.pop(router, {})
        for peer, said in right(router):
            ended = [each for each in said if isinstance(each, Unsubscribe)]
            begun: list[Control] = [each for each in said if isinstance(each, Subscribe)]
            if ended and begun:
                late.setdefault(router, {})[peer] = begun
                said = [each for each in said if not isinstance(each, Subscribe)]  # noqa: PLW2901
            told.setdefault(peer, []).extend(said)
        return list(told.items())

    return control


@BUGS.plant(Router, "control", TREES)
def _cancellations_not_told(right: _Right) -> _Right:
    """Neighbours go on sending what nobody wants any more."""

    def control(router: Router) -> _Told:
        told = [(peer, [each for each in said if not isinstance(each, Unsubscribe)]) for peer, said in right(router)]
        return [(peer, said) for peer, said in told if said]

    return control


@BUGS.plant(AdvertisementForwarding, "is_wanted_beyond", ("aa",))
def _relevance_ignored(_right: _Right) -> _Right:
    """Subscriptions go where nothing relevant is advertised."""
    return lambda _router, _peer, _filter: True


@BUGS.plant(AdvertisementForwarding, "receive", ("aa",))
def _deaf_to_advertisements(_right: _Right) -> _Right:
    """Subscriptions are not sent when an advertisement comes."""
    return _reconsidering_only(Unadvertise)


@BUGS.plant(AdvertisementForwarding, "receive", ("aa",))
def _advertised_for_ever(_right: _Right) -> _Right:
    """Subscriptions are not withdrawn when an advertisement goes."""
    return _reconsidering_only(Advertise)


def _reconsidering_only(kind: type) -> _Right:
    def receive(router: AdvertisementForwarding, peer: str, message: Control) -> None:
        Router.receive(router, peer, message)
        if isinstance(message, kind):
            router.subscriptions.reconsider(peer)

    return receive


@BUGS.plant(Hierarchical, "hears_subscriptions", ("hs",))
def _told_downwards(_right: _Right) -> _Right:
    """In a hierarchy clients are told of subscriptions, too."""
    return lambda _router, _role: True


# -- what neighbours say -----------------------------------------------------------------------------------------------


@BUGS.plant(Router, "receive", TREES)
def _unsubscription_too_broad(right: _Right) -> _Right:
    """Between servers an unsubscription cancels all that its filter covers, as if a party had said it."""

    def receive(router: Router, peer: str, message: Control) -> None:
        if isinstance(message, Unsubscribe):
            for each in [each for each in router.subscriptions.held_by(peer) if message.filter.covers(each)]:
                right(router, peer, Unsubscribe(each))
        else:
            right(router, peer, message)

    return receive


@BUGS.plant(Router, "receive", TREES)
def _narrower_ignored(right: _Right) -> _Right:
    """A neighbour's filter is not recorded while it holds a broader one."""

    def receive(router: Router, peer: str, message: Control) -> None:
        held = router.subscriptions.held_by(peer)
        if isinstance(message, Subscribe) and any(each.covers(message.filter) for each in held):
            return
        if isinstance(message, Unsubscribe) and message.filter not in held:
            return
        right(router, peer, message)

    return receive


@BUGS.plant(Router, "disconnect", ("as", "aa"), ("links", "crashes"))
def _filters_outlive_the_link(_right: _Right) -> _Right:
    """What a neighbour held stays when the link to it is gone."""

    def disconnect(router: Router, peer: str) -> None:
        del router.peers[peer]
        router.subscriptions.close(peer)
        router.advertisements.close(peer)

    return disconnect


@BUGS.plant(Router, "disconnect", ("aa",), ("links", "crashes"))
def _advertisements_outlive_the_link(right: _Right) -> _Right:
    """What a neighbour advertised still counts for the others when the link to it is gone."""

    def disconnect(router: Router, peer: str) -> None:
        kept = tuple(router.advertisements.held_by(peer))
        right(router, peer)
        for each in kept:
            router.advertisements.add_party(each, peer)

    return disconnect


# -- parties -----------------------------------------------------------------------------------------------------------


@BUGS.plant(Antichain, "add", ("ce", "as"))
def _narrower_not_replaced(_right: _Right) -> _Right:
    """A party keeps its narrower filters beside a broader one."""

    def add(held: Antichain[Any], element: Any) -> tuple[Any, ...] | None:
        asked = held._asked(element)
        if held._is_covered(element, asked):
            return None
        held._put(element, asked)
        return ()

    return add


@BUGS.plant(Antichain, "remove", ("ce", "hs", "as", "aa", "nf"))
def _only_equal_is_cancelled(_right: _Right) -> _Right:
    """A party's unsubscription cancels an equal filter only, and not what it covers."""

    def remove(held: Antichain[Any], element: Any) -> tuple[Any, ...]:
        return held._take((element,) if element in held else ())

    return remove


@BUGS.plant(Router, "unsubscribe", ("ce", "hs", "as"))
def _cancels_what_overlaps(right: _Right) -> _Right:
    """A party's unsubscription cancels broader filters as well."""

    def unsubscribe(router: Router, party: str, filter: Filter) -> tuple[Filter, ...]:
        for each in router.profile(party).filters:
            if each.covers(filter):
                right(router, party, each)
        return tuple(right(router, party, filter))

    return unsubscribe


# -- notifications -----------------------------------------------------------------------------------------------------


@BUGS.plant(Router, "route", ("ce", "hs", "as", "aa", "nf"))
def _copy_for_each_filter(right: _Right) -> _Right:
    """A party gets a copy for each of its filters that matches."""

    def route(router: Router, message: Publish, source: str | None = None) -> Route:
        found: Route = right(router, message, source)
        matches = [filter.matches for party in found.parties for filter in router.profile(party).filters]
        holders = [party for party in found.parties for _ in router.profile(party).filters]
        copies = [party for party, match in zip(holders, matches, strict=True) if match(message.notification)]
        return msgspec.structs.replace(found, parties=tuple(copies))

    return route


@BUGS.plant(SubscriptionForwarding, "onward", ("as",))
def _back_to_its_source(_right: _Right) -> _Right:
    """A notification is sent back to the neighbour that it came from."""
    return lambda _router, wanting, _source, _message: tuple(wanting)


@BUGS.plant(Hierarchical, "onward", ("hs",))
def _not_sent_up(_right: _Right) -> _Right:
    """In a hierarchy notifications do not go up."""
    return lambda _router, wanting, source, _message: tuple(peer for peer in wanting if peer != source)


@BUGS.plant(Hierarchical, "onward", ("hs",))
def _unwanted_sent_down(right: _Right) -> _Right:
    """In a hierarchy notifications go down to clients that do not want them."""

    def onward(router: Hierarchical, _wanting: Iterable[str], source: str | None, message: Publish) -> tuple[str, ...]:
        clients = {peer: role for peer, role in router.peers.items() if role is Role.CLIENT}
        return tuple(right(router, clients, source, message))

    return onward


@BUGS.plant(Flooding, "onward", ("nf",))
def _flood_ends_at_the_neighbour(right: _Right) -> _Right:
    """Flooding stops at the neighbours of the server where a notification was published."""
    return lambda router, wanting, source, message: right(router, wanting, source, message) if source is None else ()
