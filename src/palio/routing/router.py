"""What all architectures share: tables, delivery, parties and neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import ClassVar, NamedTuple

import msgspec

from palio.errors import CallerError, PeerError, brief
from palio.matching import FilterIndex
from palio.matching.candidates import Index
from palio.matching.preparation import Preparation, Preparations, Steps
from palio.matching.views import Entry
from palio.model import PROTOCOL_LIMITS, Advertisement, Filter, Notification
from palio.routing import ahead
from palio.routing.antichain import Antichain
from palio.routing.board import Board
from palio.routing.holdings import Holdings
from palio.routing.membership import Membership
from palio.routing.messages import Advertise, Control, Message, Publish, Standing, Subscribe, Unadvertise, Unsubscribe
from palio.routing.saying import messages_for
from palio.routing.table import DEPARTED, Holders, Table
from palio.routing.topology import Topology

MONITORS = ""
"""The holder of the filters of which patterns consist; no party has this name."""
LOCAL = ""
"""Stands for the server itself among neighbours; none has this name."""


class Role(Enum):
    """What a neighbour is to this server."""

    PEER = "peer"
    MASTER = "master"
    CLIENT = "client"
    GATEWAY = "gateway"
    """A server of another network, over which everything passes that the two networks have for each other."""

    @property
    def opposite(self) -> Role:
        """What this server is to the neighbour."""
        return {Role.MASTER: Role.CLIENT, Role.CLIENT: Role.MASTER}.get(self, self)


class UnexpectedMessageError(PeerError):
    """A neighbour said what it could not say: took back what it never said, or said a thing twice."""


class Profile(NamedTuple):
    """What a party has asked for and announced, to be put in elsewhere."""

    filters: tuple[Filter, ...]
    advertisements: tuple[Advertisement, ...]


class Route(msgspec.Struct, frozen=True, gc=False):
    """Where a notification goes from here."""

    parties: tuple[str, ...]
    peers: tuple[str, ...]
    met: tuple[Filter, ...] = ()
    """The filters of patterns that it matches."""


class _Party(NamedTuple):
    filters: Antichain[Filter]
    advertisements: Antichain[Advertisement]


class Router(ABC):
    """Decides what is told to whom; an architecture says which neighbours hear of what.

    Operations change tables; :meth:`control` then says what neighbours have to be told about it. Between two calls any
    number of operations may lie: what they undo is not told. A notification must not be routed before the
    neighbours were told what came before it.
    """

    name: ClassVar[str]
    subscriptions_spread: ClassVar[bool] = True
    """Whether every server gets to know what somebody wants of that which its parties offer."""
    advertisements_spread: ClassVar[bool] = False
    """Whether every server gets to know what is offered."""

    def __init__(self, server: str = "", incarnation: int = 0) -> None:
        self.server = server
        self.membership = Membership(server, incarnation)
        self.topology: Topology | None = None
        """What is known of the network, where it may have any shape."""
        self.preparations = Preparations()
        self.subscriptions: Table[Filter] = Table(Filter, preparations=self.preparations)
        self.advertisements: Table[Advertisement] = Table(Advertisement, preparations=self.preparations)
        self.peers: dict[str, Role] = {}
        self._parties: dict[str, _Party] = {}
        self.holdings = Holdings()
        self._held_filters: Index[Entry[Filter]] = Index(Filter)
        self._held_advertisements: Index[Entry[Advertisement]] = Index(Advertisement)
        self._index = FilterIndex(limits=PROTOCOL_LIMITS)
        self.board = Board(self._index)
        self._slots: dict[Filter, int] = {}
        self._targets: dict[int, str | Holders] = {}
        """Who gets what a filter matches, by the filter's number: its only party, or all of its holders."""
        self._watched: dict[Filter, int] = {}
        """The filters of patterns, and how often each is needed."""
        self._watched_slots: dict[int, Filter] = {}

    # -- what an architecture says -------------------------------------------------------------------------------------

    @abstractmethod
    def check_neighbour(self, role: Role) -> None:
        """Refuse a neighbour that the architecture has no place for."""

    def check_name(self, peer: str, role: Role) -> None:  # noqa: B027 (most architectures keep names apart)
        """Refuse a neighbour whose name already stands for something else in the tables."""

    @abstractmethod
    def hears_subscriptions(self, role: Role) -> bool:
        """Whether subscriptions are passed on to such a neighbour."""

    def hears_advertisements(self, role: Role) -> bool:  # noqa: ARG002 (most do not)
        """Whether advertisements are passed on to such a neighbour."""
        return False

    def onward(self, wanting: dict[str, object], source: str | None, message: Publish) -> tuple[str, ...]:  # noqa: ARG002
        """The neighbours that get a notification: those that want it, but for the one that has sent it.

        Those that want it are noted in a dictionary that an architecture may change.
        """
        if source is not None:
            wanting.pop(source, None)
        return tuple(wanting)

    @property
    def passes_everything_on(self) -> bool:
        """Whether some neighbour gets all that is published here, wanted or not."""
        return False

    def names_sources(self, peer: str) -> bool:  # noqa: ARG002 (trees do not)
        """Whether a neighbour says with filters and advertisements at which server they begin."""
        return False

    def admit(self, message: Publish, source: str | None) -> Publish | None:  # noqa: ARG002 (most take it as it is)
        """A notification as it goes on from here, if it does."""
        return message

    # -- parties -------------------------------------------------------------------------------------------------------

    def subscribe(self, party: str, filter: Filter) -> None:
        """A party wants what the filter matches; the filters that it covers are no longer needed."""
        replaced = self._party(party).filters.add(filter)
        if replaced is None:
            return
        self._begin(filter.canonical(), party)
        self.holdings.note(party, filter, is_held=True)
        for each in replaced:
            self._end(each.canonical(), party)
            self.holdings.note(party, each, is_held=False)

    def unsubscribe(self, party: str, filter: Filter) -> tuple[Filter, ...]:
        """Cancel all subscriptions of a party that the filter covers; they are returned."""
        removed = self._party(party).filters.remove(filter)
        for each in removed:
            self._end(each.canonical(), party)
            self.holdings.note(party, each, is_held=False)
        self._forget_if_empty(party)
        return removed

    def advertise(self, party: str, advertisement: Advertisement) -> None:
        """A party may publish what the advertisement announces."""
        replaced = self._party(party).advertisements.add(advertisement)
        if replaced is None:
            return
        self._offer(advertisement.canonical(), party)
        self.holdings.note(party, advertisement, is_held=True)
        for each in replaced:
            self._withdraw(each.canonical(), party)
            self.holdings.note(party, each, is_held=False)

    def unadvertise(self, party: str, advertisement: Advertisement) -> tuple[Advertisement, ...]:
        """Cancel all advertisements of a party that this one covers; they are returned."""
        removed = self._party(party).advertisements.remove(advertisement)
        for each in removed:
            self._withdraw(each.canonical(), party)
            self.holdings.note(party, each, is_held=False)
        self._forget_if_empty(party)
        return removed

    # -- ahead of what parties ask for ---------------------------------------------------------------------------------

    def prepare_filters(
        self, preparation: Preparation, party: str, begins: Sequence[Filter], ends: Sequence[Filter] = ()
    ) -> Steps:
        """Make the comparisons ahead that are needed when a party unsubscribes from some filters, and subscribes then.

        Each step says what it has cost. Nothing else changes.
        """
        held = self._known_party(party).filters
        yield from ahead.for_party(preparation, held, self._filter_tables(), (party, begins, ends))

    def prepare_watched(self, preparation: Preparation, filters: Sequence[Filter]) -> Steps:
        """The same for filters of patterns."""
        begins = [each for each in filters if each not in self._watched]
        for table in self._filter_tables():
            yield from table.prepare_parties(preparation, MONITORS, begins, ())

    def prepare_advertisements(
        self,
        preparation: Preparation,
        party: str,
        begins: Sequence[Advertisement],
        ends: Sequence[Advertisement] = (),
    ) -> Steps:
        """The same for advertisements."""
        held = self._known_party(party).advertisements
        yield from ahead.for_party(preparation, held, self._offer_tables(), (party, begins, ends))

    def prepare_hearing(self, preparation: Preparation, peer: str, message: Control) -> Steps:
        """The same for something that a neighbour says, and that :meth:`receive` will get."""
        return ahead.for_message(preparation, self._places(peer, message), message)

    def _places(self, peer: str, message: Control) -> list[ahead.Place]:
        """The tables that a message of a neighbour changes, and the holders there."""
        return [(self.subscriptions if isinstance(message, Subscribe | Unsubscribe) else self.advertisements, peer)]

    def _filter_tables(self) -> list[Table[Filter]]:
        """The tables in which what a party wants is noted."""
        return [self.subscriptions]

    def _offer_tables(self) -> list[Table[Advertisement]]:
        """The tables in which what a party offers is noted."""
        return [self.advertisements]

    @contextmanager
    def prepared(self, preparation: Preparation) -> Iterator[None]:
        """Do an operation with the comparisons that were made ahead of it."""
        self.preparations.use(preparation)
        try:
            yield
        finally:
            self.preparations.close(preparation)

    # -- what they have ------------------------------------------------------------------------------------------------

    def count_filters(self, party: str) -> int:
        """How many subscriptions a party has."""
        known = self._parties.get(party)
        return 0 if known is None else len(known.filters)

    def count_covered(self, party: str, filter: Filter) -> int:
        """How many subscriptions of a party a filter covers."""
        known = self._parties.get(party)
        return 0 if known is None else len(known.filters.covered_by(filter))

    def announces(self, party: str, notification: Notification) -> bool:
        """Whether a party has advertised what it is about to publish."""
        known = self._parties.get(party)
        return known is not None and any(each.announces(notification) for each in known.advertisements)

    def growth(self, party: str, element: Filter | Advertisement) -> int:
        """How many more filters, or advertisements, a party would hold with one that it asks for."""
        known = self._parties.get(party)
        if known is None:
            return 1
        if isinstance(element, Filter):
            return known.filters.growth(element)
        return known.advertisements.growth(element)

    def profile(self, party: str) -> Profile:
        """What a party holds here, in the words that it has used; the monitors hold filters that may cover each other.

        Tables, messages and records have the canonical form of them.
        """
        if party == MONITORS:
            return Profile(tuple(self._watched), ())
        known = self._parties.get(party)
        return Profile((), ()) if known is None else Profile(tuple(known.filters), tuple(known.advertisements))

    def take_out(self, party: str) -> Profile:
        """Remove a party with all that it holds."""
        profile = self.profile(party)
        for filter in profile.filters:
            self._end(filter.canonical(), party)
            self.holdings.note(party, filter, is_held=False)
        for advertisement in profile.advertisements:
            self._withdraw(advertisement.canonical(), party)
            self.holdings.note(party, advertisement, is_held=False)
        known = self._parties.pop(party, None)
        if known is not None:
            known.filters.clear()
            known.advertisements.clear()
        return profile

    def put_in(self, party: str, profile: Profile) -> None:
        """Add to what a party holds."""
        for filter in profile.filters:
            self.subscribe(party, filter)
        for advertisement in profile.advertisements:
            self.advertise(party, advertisement)

    def is_sound(self, party: str) -> bool:
        """Whether all tables agree about what a party holds; asked after a fault, so it looks at everything."""
        filters, advertisements = self.profile(party)
        return (
            self.subscriptions.is_held_by_party(party, filters)
            and self.advertisements.is_held_by_party(party, advertisements)
            and len(self._index) == len(self._slots) == len(self._targets) == len(self.subscriptions)
            and all(filter in self._slots for filter in self.subscriptions)
            and all(self._is_aimed_at(filter, party) for filter in filters)
            and self.board.held_by(party) == (len(filters) if party != MONITORS else 0)
        )

    def _is_aimed_at(self, filter: Filter, party: str) -> bool:
        target = self._targets.get(self._slots[filter])
        return target == party or (isinstance(target, Holders) and party in target.parties)

    def _begin(self, filter: Filter, party: str) -> None:
        """A party holds a filter."""
        self._enter(filter, self.subscriptions.add_party(filter, party))
        if party != MONITORS:
            self.board.add(self._slots[filter], party)

    def _end(self, filter: Filter, party: str) -> None:
        """A party holds a filter no longer."""
        if party != MONITORS:
            self.board.remove(self._slots[filter], party)
        self._leave(filter, self.subscriptions.remove_party(filter, party))

    def _offer(self, advertisement: Advertisement, party: str) -> None:
        """A party holds an advertisement."""
        self.advertisements.add_party(advertisement, party)

    def _withdraw(self, advertisement: Advertisement, party: str) -> None:
        """A party holds an advertisement no longer."""
        self.advertisements.remove_party(advertisement, party)

    def watch(self, filter: Filter) -> None:
        """A pattern needs what a filter matches."""
        count = self._watched.get(filter, 0)
        self._watched[filter] = count + 1
        if not count:
            self._begin(filter, MONITORS)
            self._watched_slots[self._slots[filter]] = filter

    def unwatch(self, filter: Filter) -> None:
        """A pattern that needed a filter is gone."""
        self._watched[filter] -= 1
        if not self._watched[filter]:
            del self._watched[filter], self._watched_slots[self._slots[filter]]
            self._end(filter, MONITORS)

    def met(self, notification: Notification) -> tuple[Filter, ...]:
        """The filters of patterns that a notification matches."""
        return self._met(self._index.match(notification))

    def _met(self, slots: Iterable[int]) -> tuple[Filter, ...]:
        watched = self._watched_slots
        return tuple([watched[slot] for slot in slots if slot in watched])

    def _party(self, name: str) -> _Party:
        """What a party holds, to be changed."""
        found = self._parties.get(name)
        if found is None:
            found = self._parties[name] = self._known_party(name)
        return found

    def _known_party(self, name: str) -> _Party:
        """What a party holds, to be looked at."""
        return self._parties.get(name) or _Party(
            Antichain(name, self._held_filters, self.preparations),
            Antichain(name, self._held_advertisements, self.preparations),
        )

    def _forget_if_empty(self, name: str) -> None:
        party = self._parties[name]
        if not party.filters and not party.advertisements:
            del self._parties[name]

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def expect_neighbours(self, roles: Collection[Role]) -> None:
        """Neighbours of these roles will come: order the tables now, and not all at once when the first one comes."""
        if any(map(self.hears_subscriptions, roles)):
            self.subscriptions.order()
        if any(map(self.hears_advertisements, roles)):
            self.advertisements.order()

    def connect(self, peer: str, role: Role) -> None:
        """There is a new neighbour; it has to be told all that concerns it."""
        self._add_peer(peer, role)
        if self.hears_subscriptions(role):
            self.subscriptions.open(peer)
        if self.hears_advertisements(role):
            self.advertisements.open(peer)

    def disconnect(self, peer: str) -> None:
        """A neighbour is gone, and with it all that it held.

        What it takes comparisons to remove is left for :meth:`forget`: ``standing(DEPARTED)``.
        """
        self._remove_peer(peer)
        self.subscriptions.close(peer)
        self.advertisements.close(peer)
        for advertisement in tuple(self.advertisements.held_by(peer)):
            self._part([(self.advertisements, peer)], Advertise(advertisement))
        for filter in tuple(self.subscriptions.held_by(peer)):
            self._part([(self.subscriptions, peer)], Subscribe(filter))

    def _part(self, places: list[ahead.Place], standing: Standing) -> None:
        """Remove what a neighbour held, or leave it for :meth:`forget` if that takes comparisons."""
        element, (table, peer) = ahead.element_of(standing), places[0]
        if any(each.is_costly(element, holder) for each, holder in places):
            table.hand_over(element, peer)
        else:
            self.forget(standing, peer)

    def forget(self, standing: Standing, peer: str = DEPARTED) -> None:
        """Remove what a neighbour held that is gone."""
        if isinstance(standing, Subscribe):
            self._leave(standing.filter, self.subscriptions.remove_peer(standing.filter, peer))
        else:
            self.advertisements.remove_peer(standing.advertisement, peer)

    def recall(self, standing: Standing) -> None:
        """Something was still to be forgotten in an earlier life of this server."""
        if isinstance(standing, Subscribe):
            self._enter(standing.filter, self.subscriptions.add_peer(standing.filter, DEPARTED))
        else:
            self.advertisements.add_peer(standing.advertisement, DEPARTED)

    def _add_peer(self, peer: str, role: Role) -> None:
        if peer in self.peers:
            raise CallerError(f"{brief(peer)} is a neighbour already")
        self.check_neighbour(role)
        self.peers[peer] = role

    def _remove_peer(self, peer: str) -> None:
        if peer not in self.peers:
            raise CallerError(f"{brief(peer)} is no neighbour")
        del self.peers[peer]

    def receive(self, peer: str, message: Control) -> None:
        """A neighbour says what it wants, or what may be published on its side."""
        if peer not in self.peers:
            raise UnexpectedMessageError(f"{brief(peer)} is no neighbour")
        match message:
            case Subscribe(filter):
                self._expect(filter not in self.subscriptions.held_by(peer), peer, message)
                self._enter(filter, self.subscriptions.add_peer(filter, peer))
            case Unsubscribe(filter):
                self._expect(filter in self.subscriptions.held_by(peer), peer, message)
                self._leave(filter, self.subscriptions.remove_peer(filter, peer))
            case Advertise(advertisement):
                self._expect(advertisement not in self.advertisements.held_by(peer), peer, message)
                self.advertisements.add_peer(advertisement, peer)
            case Unadvertise(advertisement):
                self._expect(advertisement in self.advertisements.held_by(peer), peer, message)
                self.advertisements.remove_peer(advertisement, peer)

    def standing(self, peer: str) -> list[Subscribe | Advertise]:
        """What a neighbour has said and not taken back; saying it again would make the tables what they are."""
        return [*map(Advertise, self.advertisements.held_by(peer)), *map(Subscribe, self.subscriptions.held_by(peer))]

    def told_to(self, peer: str) -> list[Subscribe | Advertise]:
        """What a neighbour was to be told and not to forget, as far as the tables say."""
        return [*map(Advertise, self.advertisements.told_to(peer)), *map(Subscribe, self.subscriptions.told_to(peer))]

    @staticmethod
    def _expect(is_possible: bool, peer: str, message: Message) -> None:
        if not is_possible:
            raise UnexpectedMessageError(f"{brief(peer)} cannot say {brief(message)} now")

    def control(self) -> list[tuple[str, list[Control]]]:
        """What the neighbours have to be told, in the order in which it has to be said: make before break."""
        offered = [("", update) for update in self.advertisements.updates()]
        return messages_for(offered, [("", update) for update in self.subscriptions.updates()])

    def hearing(self, origin: str) -> list[str]:  # noqa: ARG002 (most pass on everything)
        """The neighbours to which subscriptions or advertisements that begin at a server are passed on."""
        return [
            peer
            for peer, role in self.peers.items()
            if self.hears_subscriptions(role) or self.hears_advertisements(role)
        ]

    @property
    def offers_version(self) -> object:
        """Changes when :meth:`offers` may have."""
        return self.advertisements.version

    def offers(self) -> dict[str, list[Advertisement]]:
        """What is advertised, by the neighbour on whose side it is; what this server's parties advertise is local."""
        here = [each for each in self.advertisements if self.advertisements.holders(each).parties]
        return {LOCAL: here, **{peer: list(self.advertisements.held_by(peer)) for peer in self.peers}}

    # -- notifications -------------------------------------------------------------------------------------------------

    def route(self, message: Publish, source: str | None = None) -> Route:
        """Who gets a notification that a party has published here, or a neighbour has sent."""
        parties: dict[str, None] = {}
        wanting: dict[str, object] = {}
        targets = self._targets
        slots = self._index.match(message.notification)
        for slot in slots:
            target = targets[slot]
            if isinstance(target, str):
                parties[target] = None
            else:
                wanting.update(target.peers)
                if target.parties:
                    parties.update(target.parties)
        wanting.pop(DEPARTED, None)
        onward = self.onward(wanting, source, message)
        if MONITORS not in parties:
            return Route(tuple(parties), onward)
        del parties[MONITORS]
        return Route(tuple(parties), onward, self._met(slots))

    def _enter(self, filter: Filter, is_new: bool) -> None:
        if is_new:
            self._slots[filter] = self._index.add(filter)
        self._aim(filter)

    def _leave(self, filter: Filter, is_gone: bool) -> None:
        if is_gone:
            slot = self._slots.pop(filter)
            self._index.remove(slot)
            self.board.forget(slot)
            del self._targets[slot]
        else:
            self._aim(filter)

    def _aim(self, filter: Filter) -> None:
        """Most filters have one holder, a party: it is found at once, without a look into dictionaries of its own."""
        holders, slot = self.subscriptions.holders(filter), self._slots[filter]
        is_single = len(holders.parties) == 1 and not holders.peers
        self._targets[slot] = next(iter(holders.parties)) if is_single else holders
        self.board.set_others(slot, bool(holders.peers) or MONITORS in holders.parties)
