"""Planted bugs of networks of any shape."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from palio.routing.general import AdvertisingGeneral, General
from palio.routing.messages import Account, Publish
from palio.routing.paths import Graph
from palio.routing.topology import Topology
from tests.planted.bugs import Bugs

BUGS = Bugs("graphs")
_Right = Callable[..., Any]
_GRAPHS = ("gs", "ga")


@BUGS.plant(Graph, "add", _GRAPHS)
def _ties_broken_by_name(right: _Right) -> _Right:
    """Of two ways that are equally short the one over lower names is taken, which depends on where one looks from."""

    def add(graph: Graph, one: str, other: str, latency: int) -> None:
        right(graph, one, other, latency)
        graph._neighbours[one][other] = graph._neighbours[other][one] = latency
        graph._trees.clear()

    return add


@BUGS.plant(General, "onward", ("gs",))
def _union_of_trees(_right: _Right) -> _Right:
    """A notification goes towards all that want it, wherever it has entered the network."""

    def onward(router: General, wanting: Collection[str], source: str | None, _message: Publish) -> tuple[str, ...]:
        first = router.topology.graph.tree(router.server).first
        found = {first[each]: None for each in wanting if each in first}
        return tuple(peer for peer in found if peer != source)

    return onward


@BUGS.plant(Topology, "receive", _GRAPHS, ("crashes", "all"))
def _account_of_an_earlier_life_counts(_right: _Right) -> _Right:
    """The account with the highest number counts, also if it is of an earlier life of its server."""

    def receive(topology: Topology, peer: str, account: Account) -> None:
        known = topology.accounts().get(account.server)
        topology._told[peer][account.server] = account
        if known is None or account.number > known.number:
            topology._learn(account)

    return receive


@BUGS.plant(Topology, "updates", _GRAPHS)
def _accounts_not_passed_on(right: _Right) -> _Right:
    """A server tells of its own links only, and not what it has heard of others."""

    def updates(topology: Topology, now: int, *, pressing: bool = False) -> list[tuple[str, list[Account]]]:
        found = right(topology, now, pressing=pressing)
        return [(peer, [each for each in said if each.server == topology._server]) for peer, said in found]

    return updates


@BUGS.plant(Topology, "disconnect", _GRAPHS, ("links", "crashes"))
def _lost_link_not_told(_right: _Right) -> _Right:
    """A server does not tell that a link of it is gone."""

    def disconnect(topology: Topology, peer: str) -> None:
        del topology._links[peer], topology._told[peer]

    return disconnect


@BUGS.plant(General, "_follow_trees", ("gs",), ("links",))
def _trees_not_reshaped(right: _Right) -> _Right:
    """When the network changes elsewhere, neighbours are told of the same sources as before."""

    def follow(router: General, sources: Any) -> None:
        if any(peer not in router._trees for peer in router.peers):
            right(router, sources)

    return follow


@BUGS.plant(General, "disconnect", _GRAPHS, ("links", "crashes"))
def _sources_outlive_the_link(_right: _Right) -> _Right:
    """What a neighbour has told of sources stays when the link to it is gone."""

    def disconnect(router: General, peer: str) -> None:
        router._remove_peer(peer)
        router._trees.pop(peer, None)
        router._wanted.close(peer)
        router._offered.close(peer)

    return disconnect


@BUGS.plant(General, "_is_behind", _GRAPHS)
def _told_to_everybody(_right: _Right) -> _Right:
    """All neighbours are told of a source, and not those alone that hear of it from here."""
    return lambda _router, source, peer, _element=None: source != peer


@BUGS.plant(AdvertisingGeneral, "_is_wanted_behind", ("ga",))
def _advertised_anywhere(_right: _Right) -> _Right:
    """Subscriptions spread everywhere if something relevant is advertised anywhere."""

    def is_wanted(router: AdvertisingGeneral, source: str, peer: str, filter: Any) -> bool:
        return router._is_behind(source, peer) and any(each.relevant_to(filter) for each in router.advertisements)

    return is_wanted


@BUGS.plant(AdvertisingGeneral, "_is_wanted_behind", ("ga",))
def _advertised_next_door(_right: _Right) -> _Right:
    """Subscriptions go to a neighbour only if it is the advertiser itself, and not if it leads there."""

    def is_wanted(router: AdvertisingGeneral, source: str, peer: str, filter: Any) -> bool:
        return router._is_behind(source, peer) and any(
            peer in router.advertisements.holders(each).peers
            for each in router.advertisements
            if each.relevant_to(filter)
        )

    return is_wanted


@BUGS.plant(General, "hearing", ("gs",), ("races",))
def _wave_stays_at_home(right: _Right) -> _Right:
    """A wave goes no further than to the neighbours of the server from which it has gone out."""

    def hearing(router: General, origin: str) -> list[str]:
        return [*right(router, origin)] if origin == router.server else []

    return hearing


@BUGS.plant(Topology, "restore", _GRAPHS, ("crashes", "all"))
def _network_not_restored(_right: _Right) -> _Right:
    """A server that comes back knows nothing of the network but its own links."""
    return lambda _topology, _accounts, _waiting: None


@BUGS.plant(Topology, "learned", _GRAPHS, ("crashes", "all"))
def _network_not_kept(_right: _Right) -> _Right:
    """What a server knows of the network is not written."""
    return lambda _topology: []


@BUGS.plant(Topology, "_outdo", ("gs", "ga"), ("crashes", "all"))
def _older_clock_not_outdone(_right: _Right) -> _Right:
    """A server whose clock was put back gives accounts that count as older than those of its former life."""
    return lambda _topology, _peer, _account: None
