"""The neighbours of a server: who may be one, what is between them and it, and what of each other's words counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from palio.errors import CallerError, PeerError, brief
from palio.link.links import Links
from palio.link.ports import Keeper, LinkEvent, Members, Up, Wish
from palio.link.states import State
from palio.matching.preparation import ENTERING, Preparation, Steps, cost_of
from palio.model.limits import to_wire
from palio.node.settings import NodeSettings
from palio.routing import messages
from palio.routing.ahead import element_of
from palio.routing.border import Border, Gateway
from palio.routing.compression import Compression
from palio.routing.membership import MOST_SERVERS
from palio.routing.messages import Message, Stamp
from palio.routing.router import Role, Router, UnexpectedMessageError
from palio.routing.topology import MOST_LATENCY


class Neighbours:
    """The links of one server, the network that they make, and the gateways to other networks.

    Networks are trees, or know their own shape; what networks and gateways make together is a tree always. Over a
    gateway only what may pass counts.
    """

    def __init__(self, settings: NodeSettings, router: Router, keeper: Keeper | None = None) -> None:
        self._settings = settings
        self._router = router
        self.borders: dict[str, Border] = {}
        """The neighbours that belong to other networks, and what passes between; to be changed only here."""
        self.compression = Compression(settings.compression, is_kept=settings.durable)
        """What counts of what they say."""
        self.unconfirmed: dict[tuple[str, messages.Standing], None] = {}
        """What neighbours may have taken back, though a record says that they hold it: they may say it once more."""
        self._expected: dict[str, Role] = dict.fromkeys(settings.gateways, Role.GATEWAY)
        """The configured roles of neighbours that open the link themselves."""
        self.membership = router.membership
        self.links = Links(settings.server, self, settings.link, keeper)

    # -- who may be one ------------------------------------------------------------------------------------------------

    def next_stamp(self) -> Stamp:
        """For links: the stamp of a new one."""
        return self.membership.next_stamp()

    def introduction(self) -> tuple[str, Members, tuple[int, ...]]:
        """For links: what a neighbour is told of this server."""
        return self._router.name, tuple(self.membership.known().items()), to_wire(self._settings.accepted)

    def refusal(self, peer: str, role: str, architecture: str | None, members: Members) -> str | None:
        """For links: why there cannot be one to such a neighbour, if so.

        A cycle is refused by the one that is asked. If it has come about meanwhile, it is cut like any other, so that
        it is not cut twice.
        """
        if len(members) > MOST_SERVERS:
            return f"{peer} brings {len(members):,} servers; there may be {MOST_SERVERS:,}"
        if role == Role.GATEWAY.value and peer not in self._settings.gateways:
            return f"{peer} is no gateway of {self._settings.server}; it has to be in the configuration of both"
        if role != Role.GATEWAY.value and architecture is not None and architecture != self._router.name:
            return f"{self._settings.server} is {self._router.name}, and {peer} is {architecture}"
        if architecture is not None and (configured := self._configured(peer)) not in (None, role):
            return (
                f"in the configuration of {self._settings.server} {peer} is its {configured}, and {peer} asks to be "
                f"its {role}; correct the role in one of the two configurations"
            )
        try:
            self._router.check_neighbour(Role(role))
            self._router.check_name(peer, Role(role))
            if architecture is not None and self._is_in_tree(Role(role)):
                self._check_above(Role(role), peer)
                self.membership.check(peer, (member for member, _ in members))
        except CallerError as error:
            return str(error)
        return None

    def _configured(self, peer: str) -> str | None:
        """The role that a neighbour has to have, whoever opens the link; ``None`` if any will do."""
        wish, expected = self.links.wishes.get(peer), self._expected.get(peer)
        if wish is not None:
            return wish.role
        return None if expected is None else expected.value

    def expect(self, peer: str, role: Role | None) -> None:
        """Accept links from a neighbour only if they give it this role. A link that is up stays as it is."""
        if role is not None:
            self._expected[peer] = role
        elif peer not in self._settings.gateways:
            self._expected.pop(peer, None)

    def obstacle(self, peer: str, wish: Wish, *, only_cycles: bool = False) -> str | None:
        """For links: why it makes no sense to ask for a wanted one now, if so."""
        role = Role(wish.role)
        try:
            if not only_cycles:
                self._router.check_neighbour(role)
                self._router.check_name(peer, role)
                self._check_above(role, peer)
            if self._is_in_tree(role):
                self.membership.check(peer, [peer])
        except CallerError as error:
            return str(error)
        return None

    def connect(self, peer: str, role: Role, latency: int, now: int) -> list[LinkEvent]:
        """Ask for a link, and keep it; a link that cannot be yet stays wanted."""
        return self.links.connect(peer, self._wish(peer, role, latency), now)

    def renew(self, peer: str, role: Role, latency: int, now: int) -> list[LinkEvent]:
        """End the session of a wanted link if :meth:`connect` is about to change its role or latency.

        Routing uses the latency only where there may be several paths to a server.
        """
        wish = self._wish(peer, role, latency)
        return self.links.renew(peer, wish, now, latency_counts=not self._is_in_tree(role))

    def _wish(self, peer: str, role: Role, latency: int) -> Wish:
        if latency < 1:
            raise CallerError(f"the latency is {latency}; the least is 1")
        if latency > MOST_LATENCY:
            raise CallerError(f"the latency is {latency}; the highest is {MOST_LATENCY:,}")
        if role is Role.GATEWAY and peer not in self._settings.gateways:
            raise CallerError(f"{peer} is no gateway of this server; it has to be in the configuration of both")
        return Wish(role.value, latency)

    def _check_above(self, role: Role, peer: str) -> None:
        """Of two masters, or a master and a gateway, that come at the same time both could be lost, as in a cycle."""
        above = [
            other
            for other, wish in self.links.wishes.items()
            if other != peer
            and self.links.status(other).state is not State.REFUSED
            and _are_rivals(role.value, wish.role)
        ]
        if above:
            raise CallerError(f"this server has a master already, or asks for one: {above[0]}; disconnect it first")

    def _is_in_tree(self, role: Role) -> bool:
        """Whether links to such a neighbour must not close cycles: all do not, where networks are trees."""
        return self._router.topology is None or role is Role.GATEWAY

    # -- how they come and go ------------------------------------------------------------------------------------------

    def add(self, up: Up) -> None:
        """There is a new link."""
        self.restore(up)
        if up.peer in self.borders:
            for offer in self.borders[up.peer].offers():
                self._count(up.peer, offer)
        if self._is_in_tree(Role(up.role)):
            self.membership.connect(up.peer, up.stamp, dict(up.members), dict(up.told))

    def restore(self, up: Up, gateway: Gateway | None = None) -> None:
        """There is a link again; which servers lie behind it is known already, and what its gateway was then."""
        peer, role = up.peer, Role(up.role)
        self._router.connect(peer, role)
        if role is Role.GATEWAY:
            self.borders[peer] = Border(gateway or self._settings.gateways[peer])
        elif self._router.topology is not None:
            self._router.topology.connect(peer, up.latency, up.stamp)

    def reconfigure(self, peer: str, told: Iterable[messages.Standing]) -> list[messages.Control]:
        """A gateway has other filters than before, or offers something else: what the neighbour has to be told.

        ``told`` is what it would have been told over a link without filters.
        """
        before = self.borders[peer]
        border = self.borders[peer] = Border(self._settings.gateways[peer])
        border.offers()
        for each in before.heard:
            border.take_in(each)
        border.let_out(told)
        for change in _changes(before.counting, border.counting):
            self._count(peer, change)
        return _changes(before.told, border.told)

    def remove(self, peer: str) -> None:
        """A link is gone; a fault may have kept the neighbour from being added."""
        if peer not in self._router.peers:
            return
        if self._is_in_tree(self._router.peers[peer]):
            self.membership.disconnect(peer)
        elif self._router.topology is not None:
            self._router.topology.disconnect(peer)
        self._router.disconnect(peer)
        self.compression.forget(peer)
        self.borders.pop(peer, None)
        for known in [known for known in self.unconfirmed if known[0] == peer]:
            del self.unconfirmed[known]

    # -- what they say -------------------------------------------------------------------------------------------------

    def hear(self, peer: str, message: Message) -> None:
        """A neighbour says what it wants or offers, or what it knows of the network."""
        border, topology = self.borders.get(peer), self._router.topology
        match message:
            case messages.Members() if topology is None or border is not None:
                self.membership.receive(peer, message)
            case messages.Account() if topology is not None and border is None:
                topology.receive(peer, message)
            case messages.Subscribe() | messages.Unsubscribe() | messages.Advertise() | messages.Unadvertise():
                if bool(message.source) is not self._router.names_sources(peer):
                    raise UnexpectedMessageError(
                        f"{brief(peer)} says {brief(message)}; in the architecture {self._router.name} a filter or an "
                        f"advertisement of this neighbour has {'no' if message.source else 'a'} source"
                    )
                if self._is_confirmed(peer, message):
                    return
                for each in (message,) if border is None else border.take_in(message):
                    self._count(peer, each)
            case _:
                raise PeerError(f"{brief(peer)} says what is no message here: {type(message).__name__}")

    def prepare(self, preparation: Preparation, peer: str, message: messages.Control) -> Steps:
        """Make the comparisons ahead that :meth:`hear` will need; each step says what it has cost.

        With compression a union may count instead of the message. Its comparisons are not made ahead.
        """
        yield ENTERING * cost_of(element_of(message))
        border = self.borders.get(peer)
        for each in (message,) if border is None else border.foresee(message):
            yield from self._router.prepare_hearing(preparation, peer, each)

    def _count(self, peer: str, message: messages.Control) -> None:
        """Put into the tables what a neighbour says, or what counts instead of it."""
        for counting in self.compression.take(peer, message):
            self._router.receive(peer, counting)

    def _is_confirmed(self, peer: str, message: messages.Control) -> bool:
        """Whether a neighbour says once more what it was not certain to hold; from now on it is."""
        known = peer, messages.begun(message)
        if known not in self.unconfirmed:
            return False
        del self.unconfirmed[known]
        return isinstance(message, messages.Subscribe | messages.Advertise)

    def recall_offers(self) -> None:
        """Other networks were configured to offer something in an earlier life of this server."""
        for peer, border in self.borders.items():
            self._recall(peer, border.offers())

    def recall(self, peer: str, message: messages.Standing) -> None:
        """A neighbour said what it wants or offers in an earlier life of this server."""
        border = self.borders.get(peer)
        self._recall(peer, (message,) if border is None else border.take_in(message))

    def _recall(self, peer: str, said: Iterable[messages.Control]) -> None:
        for each in said:
            for counting in self.compression.recall(peer, messages.begun(each)):
                self._router.receive(peer, counting)

    # -- what they are told --------------------------------------------------------------------------------------------

    def survey(self) -> None:
        """Tell the network what lies beyond this server's gateways, and the gateways what lies in the network."""
        topology = self._router.topology
        if topology is not None and self._settings.gateways:
            topology.reach(self.membership.reached())
            self.membership.surround(topology.members())

    @property
    def deadline(self) -> int | None:
        """When :meth:`updates` has something to say that waits now."""
        return None if self._router.topology is None else self._router.topology.deadline

    def is_due(self, now: int) -> bool:
        """Whether that time has come."""
        return self._router.topology is not None and self._router.topology.is_due(now)

    def updates(self, now: int, *, pressing: bool) -> list[tuple[str, Sequence[Message]]]:
        """What the neighbours have to be told of the network; it counts as told. What is not pressing may wait."""
        found: list[tuple[str, Sequence[Message]]] = [(peer, [members]) for peer, members in self.membership.updates()]
        topology = self._router.topology
        return found if topology is None else [*found, *topology.updates(now, pressing=pressing)]


def _changes(before: Iterable[messages.Standing], after: Iterable[messages.Standing]) -> list[messages.Control]:
    """What has to be said so that something else stands than before, make before break."""
    old, new = dict.fromkeys(before), dict.fromkeys(after)
    begins, ends = [each for each in new if each not in old], [each for each in old if each not in new]
    return [
        *(each for each in begins if isinstance(each, messages.Advertise)),
        *(each for each in begins if isinstance(each, messages.Subscribe)),
        *(messages.ended(each) for each in ends if isinstance(each, messages.Subscribe)),
        *(messages.ended(each) for each in ends if isinstance(each, messages.Advertise)),
    ]


def _are_rivals(role: str, other: str) -> bool:
    """Whether a server cannot have neighbours of both roles: a master and another master, or a gateway."""
    above = (Role.MASTER.value, Role.GATEWAY.value)
    return Role.MASTER.value in (role, other) and role in above and other in above
