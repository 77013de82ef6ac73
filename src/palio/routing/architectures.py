"""The architectures: which neighbours hear of what, and where notifications go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from palio.errors import CallerError
from palio.matching.preparation import Preparation, Steps, cost_of
from palio.model import Advertisement, Filter
from palio.routing.general import AdvertisingGeneral, General
from palio.routing.messages import Advertise, Control, Publish, Unadvertise
from palio.routing.router import Role, Router
from palio.routing.table import Table


class Centralized(Router):
    """One server, and no other of this network."""

    name = "ce"

    def check_neighbour(self, role: Role) -> None:
        """There is no place for any but those of other networks."""
        if role is not Role.GATEWAY:
            raise CallerError(
                f"a centralized service has no {role.value}s; choose another architecture to connect servers"
            )

    def hears_subscriptions(self, role: Role) -> bool:
        """Other networks do."""
        return role is Role.GATEWAY


class Hierarchical(Router):
    """A tree with masters: subscriptions go up; notifications always go up, and down where they are wanted.

    Other networks are above the root.
    """

    name = "hs"
    subscriptions_spread = False

    def __init__(self, server: str = "", incarnation: int = 0) -> None:
        super().__init__(server, incarnation)
        self._above: dict[str, Role] = {}
        """The master; or, for a root, servers of other networks."""

    def check_neighbour(self, role: Role) -> None:
        """A server has one master at most, and only a root has other networks above it."""
        if role is Role.PEER:
            raise CallerError("in a hierarchy a neighbour is the master or a client, not a peer")
        above = next(iter(self._above), None)
        if role is Role.MASTER and above is not None:
            raise CallerError(f"this server has a master already: {above}; disconnect it first")
        if role is Role.GATEWAY and Role.MASTER in self._above.values():
            raise CallerError(f"only the root of a hierarchy can be a gateway, and this server has a master: {above}")

    def connect(self, peer: str, role: Role) -> None:
        """The new neighbour may be above."""
        super().connect(peer, role)
        if role is not Role.CLIENT:
            self._above[peer] = role

    def disconnect(self, peer: str) -> None:
        """The master may be gone."""
        super().disconnect(peer)
        self._above.pop(peer, None)

    def hears_subscriptions(self, role: Role) -> bool:
        """Subscriptions go up."""
        return role is not Role.CLIENT

    @property
    def passes_everything_on(self) -> bool:
        """To what is above."""
        return bool(self._above)

    def onward(self, wanting: dict[str, object], source: str | None, message: Publish) -> tuple[str, ...]:
        """Down where it is wanted, and up unless it comes from there."""
        wanting.update(self._above)
        return super().onward(wanting, source, message)


class _Acyclic(Router):
    """A tree of peers."""

    def check_neighbour(self, role: Role) -> None:
        """All are peers, but for those of other networks."""
        if role not in (Role.PEER, Role.GATEWAY):
            raise CallerError(f"in an acyclic network of peers there is no {role.value}")

    def hears_subscriptions(self, role: Role) -> bool:  # noqa: ARG002
        """All do."""
        return True


class SubscriptionForwarding(_Acyclic):
    """A tree of peers in which subscriptions spread everywhere, pruned by covering."""

    name = "as"


class AdvertisementForwarding(_Acyclic):
    """A tree of peers in which advertisements spread everywhere, and subscriptions towards relevant ones."""

    name = "aa"
    advertisements_spread = True

    def __init__(self, server: str = "", incarnation: int = 0) -> None:
        super().__init__(server, incarnation)
        self.subscriptions = Table(Filter, self.is_wanted_beyond, self.preparations, self._foresee)
        self._versions: dict[str, int] = {}
        """How often each neighbour has changed what it advertises; part of the questions that are answered ahead."""

    def hears_advertisements(self, role: Role) -> bool:  # noqa: ARG002
        """All do."""
        return True

    def is_wanted_beyond(self, peer: str, filter: Filter) -> bool:
        """A neighbour needs only what something advertised on its side is relevant to."""
        answer = self.preparations.answer((peer, self._versions.get(peer, 0), filter))
        if answer is not None:
            return answer
        return any(each.relevant_to(filter) for each in reversed(self.advertisements.held_by(peer)))

    def reconsider(self, peer: str, advertisement: Advertisement) -> None:
        """An advertisement has come from a neighbour, or is gone; it matters to the filters that it is relevant to."""
        self.subscriptions.reconsider(peer, partial(self._is_relevant, advertisement))

    def _is_relevant(self, advertisement: Advertisement, filter: Filter) -> bool:
        answer = self.preparations.answer((advertisement, filter))
        return advertisement.relevant_to(filter) if answer is None else answer

    def receive(self, peer: str, message: Control) -> None:
        """What a neighbour advertises changes what it needs to know."""
        super().receive(peer, message)
        if isinstance(message, Advertise | Unadvertise):
            self._note_change(peer)
            self.reconsider(peer, message.advertisement)

    def disconnect(self, peer: str) -> None:
        """A neighbour that is gone advertises nothing."""
        super().disconnect(peer)
        self._note_change(peer)

    def _note_change(self, peer: str) -> None:
        self._versions[peer] = self._versions.get(peer, 0) + 1

    # -- ahead of changes ----------------------------------------------------------------------------------------------

    def prepare_hearing(self, preparation: Preparation, peer: str, message: Control) -> Steps:
        """Find out ahead, too, for which filters an advertisement matters."""
        yield from super().prepare_hearing(preparation, peer, message)
        if isinstance(message, Advertise | Unadvertise) and peer in self.peers:
            yield from self._prepare_reconsidering(preparation, peer, message)

    def _prepare_reconsidering(self, preparation: Preparation, peer: str, message: Advertise | Unadvertise) -> Steps:
        offer, table, version = message.advertisement, self.subscriptions, self._versions.get(peer, 0) + 1
        others = [each for each in self.advertisements.held_by(peer) if each != offer]
        changed: list[Filter] = []
        for filter in tuple(table):
            is_relevant = preparation.answers[offer, filter] = offer.relevant_to(filter)
            yield cost_of(filter)
            if not is_relevant:
                continue
            if isinstance(message, Advertise):
                preparation.answers[peer, version, filter] = True
            else:
                yield from _search(preparation, (peer, version, filter), others)
            if filter in table and table.is_meant(peer, filter) is not preparation.answers[peer, version, filter]:
                changed.append(filter)
        yield from table.prepare_reconsidering(preparation, peer, changed)

    def _foresee(self, preparation: Preparation, peer: str, filter: Filter) -> Steps:
        question = peer, self._versions.get(peer, 0), filter
        return _search(preparation, question, list(self.advertisements.held_by(peer)))


def _search(preparation: Preparation, question: tuple[str, int, Filter], offers: Sequence[Advertisement]) -> Steps:
    """Find out step by step whether any of a neighbour's advertisements is relevant to a filter."""
    filter = question[2]
    is_wanted = False
    for offer in reversed(offers):
        is_wanted = offer.relevant_to(filter)
        yield cost_of(filter)
        if is_wanted:
            break
    preparation.answers[question] = is_wanted


class Flooding(_Acyclic):
    """A tree of peers in which notifications go everywhere and nothing else does."""

    name = "nf"
    subscriptions_spread = False

    def check_neighbour(self, role: Role) -> None:
        """Where nobody says what is wanted, other networks cannot be asked for it."""
        if role is not Role.PEER:
            raise CallerError(f"in a network that floods there is no {role.value}")

    def hears_subscriptions(self, role: Role) -> bool:  # noqa: ARG002
        """None does."""
        return False

    @property
    def passes_everything_on(self) -> bool:
        """To all."""
        return bool(self.peers)

    def onward(self, wanting: dict[str, object], source: str | None, message: Publish) -> tuple[str, ...]:  # noqa: ARG002
        """Everywhere."""
        return tuple([peer for peer in self.peers if peer != source])


ARCHITECTURES: dict[str, type[Router]] = {
    each.name: each
    for each in (
        Centralized,
        Hierarchical,
        SubscriptionForwarding,
        AdvertisementForwarding,
        Flooding,
        General,
        AdvertisingGeneral,
    )
}
"""By the short names that the papers' figures have."""
