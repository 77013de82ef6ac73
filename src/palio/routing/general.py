"""Networks of any shape: what a server's parties want spreads on the tree of the shortest paths from that server.

Every server keeps apart what it knows of each *source*, the server at whose parties a filter or an advertisement
begins. On the tree of a source everybody has one neighbour from which it hears of it, and tells those behind. A
notification travels on the tree of the server where it entered the network, towards the sources that want it. The path
between two servers is the same in both directions, so it meets the filters on its way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from palio.errors import CallerError, brief
from palio.matching.views import E
from palio.model import Advertisement, Filter
from palio.routing.ahead import Place
from palio.routing.messages import Advertise, Control, Publish, Standing, Subscribe, Unadvertise, Unsubscribe, ended
from palio.routing.paths import Tree
from palio.routing.router import LOCAL, Role, Router
from palio.routing.saying import messages_for
from palio.routing.sources import Sources
from palio.routing.table import DEPARTED, Table
from palio.routing.topology import Topology

MOST_HOPS = 255
"""A notification that has gone over so many links goes no further: a guard, should servers not agree on the network."""


class General(Router):
    """A network of any shape in which subscriptions spread everywhere.

    In :attr:`subscriptions` and :attr:`advertisements` the holders are this server's parties, and sources.
    """

    name = "gs"
    topology: Topology

    def __init__(self, server: str, incarnation: int = 0) -> None:
        super().__init__(server, incarnation)
        self.subscriptions = Table(Filter, self.is_wanted_beyond, self.preparations)
        self.topology = Topology(server, incarnation)
        self._wanted: Sources[Filter] = Sources(Filter, self._is_wanted_behind, self.subscriptions, self.preparations)
        self._offered: Sources[Advertisement] = Sources(
            Advertisement, self._is_behind, self.advertisements, self.preparations
        )
        self._trees: dict[str, Tree] = {}
        """The paths from each neighbour for which what it was told is right."""

    def check_neighbour(self, role: Role) -> None:
        """All are peers, but for those of other networks."""
        if role not in (Role.PEER, Role.GATEWAY):
            raise CallerError(f"in a network of peers there is no {role.value}")

    def check_name(self, peer: str, role: Role) -> None:
        """A gateway and a source must not have the same name, because both are holders in the same tables."""
        if role is Role.GATEWAY and any([*self._wanted.known(peer), *self._offered.known(peer)]):
            raise CallerError(
                f"{brief(peer)} cannot be a gateway now: servers of the network of {brief(self.server)} say that it is "
                "one of them, and have sent subscriptions or advertisements of it"
            )

    def hears_subscriptions(self, role: Role) -> bool:  # noqa: ARG002
        """All do, of some sources."""
        return True

    def is_wanted_beyond(self, peer: str, filter: Filter) -> bool:  # noqa: ARG002
        """Whether a filter is of use to another network."""
        return True

    def names_sources(self, peer: str) -> bool:
        """All do within the network; for another network its gateway is the source."""
        return self.peers.get(peer) is not Role.GATEWAY

    # -- what is known of sources --------------------------------------------------------------------------------------

    def is_sound(self, party: str) -> bool:
        """Whether all tables agree about what a party holds."""
        filters, advertisements = self.profile(party)
        return (
            super().is_sound(party)
            and self._wanted[self.server].is_held_by_party(party, filters)
            and self._offered[self.server].is_held_by_party(party, advertisements)
        )

    def _filter_tables(self) -> list[Table[Filter]]:
        return [*super()._filter_tables(), *self._wanted.known(self.server)]

    def _offer_tables(self) -> list[Table[Advertisement]]:
        return [*super()._offer_tables(), *self._offered.known(self.server)]

    def _places(self, peer: str, message: Control) -> list[Place]:
        """What another network says counts as this server's own; all else has a table of its source."""
        sources: Sources[Any] = self._wanted if isinstance(message, Subscribe | Unsubscribe) else self._offered
        if self.peers.get(peer) is Role.GATEWAY:
            return [*super()._places(peer, message), *((table, peer) for table in sources.known(self.server))]
        everywhere = super()._places(message.source, message)
        return [*((table, peer) for table in sources.known(message.source)), *everywhere]

    def _begin(self, filter: Filter, party: str) -> None:
        super()._begin(filter, party)
        self._wanted[self.server].add_party(filter, party)

    def _end(self, filter: Filter, party: str) -> None:
        super()._end(filter, party)
        self._wanted[self.server].remove_party(filter, party)

    def _offer(self, advertisement: Advertisement, party: str) -> None:
        super()._offer(advertisement, party)
        self._offered[self.server].add_party(advertisement, party)

    def _withdraw(self, advertisement: Advertisement, party: str) -> None:
        super()._withdraw(advertisement, party)
        self._offered[self.server].remove_party(advertisement, party)

    def expect_neighbours(self, roles: Collection[Role]) -> None:
        """Neighbours are told of sources; other networks of everything."""
        self._wanted.is_ordered = Role.PEER in roles
        self._offered.is_ordered = self._wanted.is_ordered and self.hears_advertisements(Role.PEER)
        super().expect_neighbours([role for role in roles if role is Role.GATEWAY])

    def connect(self, peer: str, role: Role) -> None:
        """There is a new neighbour; it is told of the sources that it hears of from here.

        To a server of another network this one stands for the whole of its own; to its own, for the other one.
        """
        self.check_name(peer, role)
        if role is Role.GATEWAY:
            super().connect(peer, role)
            return
        self._add_peer(peer, role)
        self._wanted.open(peer)
        if self.hears_advertisements(role):
            self._offered.open(peer)

    def disconnect(self, peer: str) -> None:
        """A neighbour is gone, and with it all that was known from it."""
        if self.peers.get(peer) is Role.GATEWAY:
            for message in super().standing(peer):
                self._note_other_network(peer, ended(message))
            super().disconnect(peer)
            return
        self._remove_peer(peer)
        self._trees.pop(peer, None)
        self._offered.close(peer)
        self._wanted.close(peer)
        for source, advertisement in self._offered.told_by(peer):
            self._part([(self._offered[source], peer)], Advertise(advertisement, source))
        for source, filter in self._wanted.told_by(peer):
            self._part([(self._wanted[source], peer)], Subscribe(filter, source))

    def _part(self, places: list[Place], standing: Standing) -> None:
        """What another network held counts as this server's own, and is removed at once."""
        if not standing.source:
            self.forget(standing, places[0][1])
        else:
            super()._part([*places, *super()._places(standing.source, standing)], standing)

    def forget(self, standing: Standing, peer: str = DEPARTED) -> None:
        """Remove what was known of a source from a neighbour that is gone; other networks have no sources."""
        if not standing.source:
            super().forget(standing, peer)
        elif isinstance(standing, Subscribe):
            self._leave(standing.filter, self._wanted.forget(standing.source, standing.filter, peer))
        else:
            self._offered.forget(standing.source, standing.advertisement, peer)

    def recall(self, standing: Standing) -> None:
        """Something of a source was still to be forgotten."""
        if isinstance(standing, Subscribe):
            self._enter(standing.filter, self._wanted.learn(standing.source, standing.filter, DEPARTED))
        else:
            self._offered.learn(standing.source, standing.advertisement, DEPARTED)

    def standing(self, peer: str) -> list[Subscribe | Advertise]:
        """What a neighbour has said of sources and not taken back."""
        if self.peers.get(peer) is Role.GATEWAY:
            return super().standing(peer)
        return [
            *(Advertise(each, source) for source, each in self._offered.told_by(peer)),
            *(Subscribe(each, source) for source, each in self._wanted.told_by(peer)),
        ]

    def told_to(self, peer: str) -> list[Subscribe | Advertise]:
        """What a neighbour was to be told of sources and not to forget."""
        return [
            *(Advertise(each, source) for source, each in self._offered.told_to(peer)),
            *(Subscribe(each, source) for source, each in self._wanted.told_to(peer)),
            *super().told_to(peer),
        ]

    def receive(self, peer: str, message: Control) -> None:
        """A neighbour says what a source wants, or what may be published there."""
        if self.peers.get(peer) is Role.GATEWAY:
            super().receive(peer, message)
            self._note_other_network(peer, message)
            return
        is_foreign = self.peers.get(message.source) is Role.GATEWAY
        self._expect(peer in self.peers and message.source != self.server and not is_foreign, peer, message)
        match message:
            case Subscribe(filter, source):
                self._expect(not self._wanted.knows(source, filter, peer), peer, message)
                self._enter(filter, self._wanted.learn(source, filter, peer))
            case Unsubscribe(filter, source):
                self._expect(self._wanted.knows(source, filter, peer), peer, message)
                self._leave(filter, self._wanted.forget(source, filter, peer))
            case Advertise(advertisement, source):
                self._expect(not self._offered.knows(source, advertisement, peer), peer, message)
                self._offered.learn(source, advertisement, peer)
            case Unadvertise(advertisement, source):
                self._expect(self._offered.knows(source, advertisement, peer), peer, message)
                self._offered.forget(source, advertisement, peer)

    def _note_other_network(self, gateway: str, message: Control) -> None:
        """What another network wants or offers begins here, as if a party did."""
        match message:
            case Subscribe(filter):
                self._wanted[self.server].add_peer(filter, gateway)
            case Unsubscribe(filter):
                self._wanted[self.server].remove_peer(filter, gateway)
            case Advertise(advertisement):
                self._offered[self.server].add_peer(advertisement, gateway)
            case Unadvertise(advertisement):
                self._offered[self.server].remove_peer(advertisement, gateway)

    # -- what neighbours are told --------------------------------------------------------------------------------------

    def _is_behind(self, source: str, peer: str, _element: object = None) -> bool:
        """Whether a neighbour hears of a source from here."""
        return peer in self._trees and self._trees[peer].first.get(source) == self.server

    def _is_wanted_behind(self, source: str, peer: str, filter: Filter) -> bool:  # noqa: ARG002
        """Whether a neighbour hears of a source's filter from here."""
        return self._is_behind(source, peer)

    def _follow(self) -> None:
        """If the network has changed, neighbours have to be told of other sources than before."""
        self._follow_trees(self._wanted)

    def _follow_trees(self, sources: Sources[E]) -> None:
        """Whoever leads a neighbour to a source tells it of the source.

        The paths from the neighbours say who that is. As long as there are no sources, there is no need for them.
        """
        if not sources:
            return
        for peer, role in self.peers.items():
            if role is Role.GATEWAY or (tree := self.topology.graph.tree(peer)) is self._trees.get(peer):
                continue
            before = {source: self._is_behind(source, peer) for source in sources}
            self._trees[peer] = tree
            for source, was_behind in before.items():
                if self._is_behind(source, peer) is not was_behind:
                    sources.reconsider(source, peer)

    def control(self) -> list[tuple[str, list[Control]]]:
        """What the neighbours have to be told."""
        self._follow()
        return [*messages_for(self._offered.updates(), self._wanted.updates()), *super().control()]

    def hearing(self, origin: str) -> list[str]:
        """The neighbours that hear from here what begins at a server."""
        tree = self.topology.graph.tree
        return [
            peer
            for peer, role in self.peers.items()
            if role is Role.GATEWAY or tree(peer).first.get(origin) == self.server
        ]

    # -- notifications -------------------------------------------------------------------------------------------------

    def admit(self, message: Publish, source: str | None) -> Publish | None:
        """A notification that enters the network here begins its way; one that has gone too far ends it.

        What comes from another network has gone over links there, unless nobody counts them there.
        """
        entry = self.server if source is None or self.peers[source] is Role.GATEWAY else message.entry
        if not message.entry:
            return Publish(message.notification, entry, MOST_HOPS)
        return Publish(message.notification, entry, message.hops - 1) if message.hops > 0 else None

    def onward(self, wanting: Collection[str], source: str | None, message: Publish) -> tuple[str, ...]:
        """Towards the sources that want it and lie behind this server, as seen from where it entered."""
        graph = self.topology.graph
        first = graph.tree(self.server).first
        found: dict[str, None] = {}
        for each in wanting:
            if each in self.peers and self.peers[each] is Role.GATEWAY:
                found[each] = None
            elif graph.is_between(message.entry, self.server, each):
                found[first[each]] = None
        if source is not None:
            found.pop(source, None)
        return tuple(found)


class _Beyond(NamedTuple):
    """Where the tree of a source leads over this server."""

    tree: Tree | None
    advertisers: dict[str, list[str]]
    """By the neighbour that comes next."""


_NOWHERE = _Beyond(None, {})


class AdvertisingGeneral(General):
    """A network of any shape in which advertisements spread everywhere, and subscriptions towards relevant ones."""

    name = "ga"
    advertisements_spread = True

    def __init__(self, server: str, incarnation: int = 0) -> None:
        super().__init__(server, incarnation)
        self._advertisers: dict[str, None] = {}
        """All servers of which an advertisement has come."""
        self._beyond: dict[str, _Beyond] = {}
        """For each source of filters what its tree leads to, for which what the neighbours were told is right."""
        self._version = -1
        """Of the graph from which that was worked out."""
        self._changes: list[tuple[str, Advertisement]] = []
        """Advertisements that have come or gone since neighbours were told, with their sources."""

    def hears_advertisements(self, role: Role) -> bool:  # noqa: ARG002
        """All do, of some sources."""
        return True

    def _is_wanted_behind(self, source: str, peer: str, filter: Filter) -> bool:
        beyond = self._beyond.get(source)
        return beyond is not None and any(
            offer.relevant_to(filter)
            for advertiser in beyond.advertisers.get(peer, ())
            for offer in self.advertisements.held_by(advertiser)
        )

    @property
    def offers_version(self) -> object:
        """The neighbours over which servers are reached may change as well."""
        return self.advertisements.version, self.topology.graph.version

    def offers(self) -> dict[str, list[Advertisement]]:
        """What is advertised, by the neighbour over which it is reached; of those beyond reach nothing is said."""
        first = self.topology.graph.tree(self.server).first
        found: dict[str, list[Advertisement]] = {LOCAL: [], **{peer: [] for peer in self.peers}}
        for each in self.advertisements:
            holders = self.advertisements.holders(each)
            near = [source if self.peers.get(source) is Role.GATEWAY else first.get(source) for source in holders.peers]
            for peer in dict.fromkeys([LOCAL, *near] if holders.parties else near):
                if peer is not None:
                    found[peer].append(each)
        return found

    def _follow(self) -> None:
        self._follow_trees(self._offered)
        changes, self._changes = self._changes, []
        new = dict.fromkeys(advertiser for advertiser, _ in changes if advertiser not in self._advertisers)
        self._advertisers.update(new)
        if not self._advertisers:
            return
        for source in self._may_lead_elsewhere(new):
            tree, beyond = self.topology.graph.tree(source), self._beyond.get(source, _NOWHERE)
            if tree is not beyond.tree:
                self._beyond[source] = _Beyond(tree, self._leading(tree, self._advertisers))
                self._compare(source, beyond.advertisers)
            elif new:
                for peer, advertisers in self._leading(tree, new).items():
                    beyond.advertisers.setdefault(peer, []).extend(advertisers)
        for advertiser, advertisement in changes:
            for source, beyond in self._beyond.items():
                for peer, advertisers in beyond.advertisers.items():
                    if advertiser in advertisers:
                        self._wanted.reconsider(source, peer, advertisement.relevant_to)

    def _may_lead_elsewhere(self, new: Collection[str]) -> list[str]:
        """Sources for which other neighbours may lead to advertisers than before, of which some are new: all of them,
        or, if the network is the same as before, those of which there is news.
        """
        version = self.topology.graph.version
        if version == self._version and not new:
            return self._wanted.touched()
        self._version = version
        self._beyond = {source: beyond for source, beyond in self._beyond.items() if source in self._wanted}
        return list(self._wanted)

    def _leading(self, tree: Tree, advertisers: Iterable[str]) -> dict[str, list[str]]:
        """The neighbours that lead to advertisers on the way from the root of a tree over this server."""
        found: dict[str, list[str]] = {}
        parents, server = tree.parents, self.server
        for advertiser in advertisers:
            here = advertiser
            while (parent := parents.get(here)) is not None and parent != server:
                here = parent
            if parent is not None:
                found.setdefault(here, []).append(advertiser)
        return found

    def _compare(self, source: str, before: Mapping[str, list[str]]) -> None:
        after = self._beyond[source].advertisers
        for peer in {**before, **after}:
            if before.get(peer) != after.get(peer):
                self._wanted.reconsider(source, peer)

    def is_wanted_beyond(self, peer: str, filter: Filter) -> bool:
        """Another network needs only what something advertised there is relevant to."""
        return any(each.relevant_to(filter) for each in self.advertisements.held_by(peer))

    def receive(self, peer: str, message: Control) -> None:
        """What is advertised changes who has to know what."""
        super().receive(peer, message)
        if isinstance(message, Advertise | Unadvertise):
            if self.peers[peer] is Role.GATEWAY:
                self.subscriptions.reconsider(peer)
            else:
                self._changes.append((message.source, message.advertisement))

    def forget(self, standing: Standing, peer: str = DEPARTED) -> None:
        """The same, for what was advertised behind a neighbour that is gone."""
        super().forget(standing, peer)
        if isinstance(standing, Advertise) and standing.source:
            self._changes.append((standing.source, standing.advertisement))
