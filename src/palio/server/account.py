"""What one server knows of a notification: whence it came, where it went, and what a party would have got of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from struct import Struct
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from palio.codec import frames, msgpack
from palio.errors import CallerError, DecodeError, brief
from palio.link.frames import Data
from palio.model import PROTOCOL_LIMITS, Filter, Notification, NotificationId, Pattern
from palio.node import ports
from palio.node.ports import Deliver, DeliverBlock, DeliverSequence, FromPeer, LinkDown, LinkUp, Output, Request, Send
from palio.routing import messages
from palio.server.forms import AccountDocument, Came, Change, Delivery, LinkChange, Miss, Neighbour, PartyAccount, Reach
from palio.server.history import History, Turn, publications

if TYPE_CHECKING:
    from palio.server.server import Server

MOST_NAMED = 200
"""Parties that are named as having got a notification, or not; the others are counted."""
MOST_FILTERS = 10
"""Filters of a party that are gone through, those first that miss by least."""
MOST_CHANGES = 20
MOST_DOCUMENT = 1 << 16
_FRAME = Struct(">IBH")


class Asked(NamedTuple):
    """A question about a notification."""

    id: NotificationId
    party: str | None
    notification: Notification | None
    """Its content, for servers that have not seen it."""


def read_id(text: object) -> NotificationId:
    """The id of a notification from its text.

    >>> print(read_id("milan/3/41"))
    milan/3/41
    """
    if isinstance(text, str):
        origin, *numbers = text.rsplit("/", 2)
        if len(numbers) == 2 and all(each.isascii() and each.isdigit() and len(each) < 20 for each in numbers):
            return NotificationId(origin, int(numbers[0]), int(numbers[1]))
    raise CallerError(f"{brief(text)} is no id of a notification; one looks like milan/1751500000000000/41")


def read_question(arguments: dict[str, Any]) -> Asked:
    """What is asked, from the arguments of a query."""
    party, document = arguments.get("party"), arguments.get("notification")
    if party is not None and (not isinstance(party, str) or not party):
        raise CallerError(f"party: {brief(party)} is no name")
    try:
        content = None if document is None else msgpack.decode(Notification, document, PROTOCOL_LIMITS)
    except DecodeError as error:
        raise CallerError(f"notification: {error}") from error
    return Asked(read_id(arguments.get("id")), party, content)


def when(time: int) -> str:
    """A time in microseconds, for people and programs.

    >>> when(1_751_500_000_000_000)
    '2025-07-02T23:46:40.000000Z'
    """
    seconds, micros = divmod(time, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Account:
    """Goes once through the history of a server for one notification.

    What it is must be known before it can be said what anybody would have wanted of it.
    """

    def __init__(self, server: Server, asked: Asked) -> None:
        self._server = server
        self._node = server.driver.node
        self._asked = asked
        self._id = asked.id
        self._history = server.driver.history or History(0)
        self._came: list[Came] = []
        self._sent: dict[str, int] = {}
        self._delivered: dict[str, Delivery] = {}
        self._lost: dict[str, Delivery] = {}
        self._message: messages.Publish | None = None
        """As it came in, or as it was made here."""
        self._source: str | None = None
        self._at: int | None = None
        self._wishes: dict[str, list[Change]] = {}
        """What neighbours have asked for, that matches it."""
        self._link_changes: dict[str, list[LinkChange]] = {}
        self._changes: list[Change] = []
        """What the party has asked for, that matches it."""

    def tell(self) -> AccountDocument:
        """All that there is to tell."""
        for turn in self._history.turns:
            self._look_at(turn)
        node, content = self._node, self._asked.notification
        return {
            "server": node.settings.server,
            "architecture": node.settings.architecture,
            "history": self._reach(),
            "id_problem": self._id_problem(),
            "came": self._came,
            "sent": [{"to": peer, "at": when(time)} for peer, time in self._sent.items()],
            "delivered": _first(self._delivered, self._asked.party),
            "delivered_left_out": max(0, len(self._delivered) - MOST_NAMED),
            "lost": _first(self._lost, self._asked.party),
            "lost_left_out": max(0, len(self._lost) - MOST_NAMED),
            "document": self._document() if content is None else None,
            "links": [{"to": peer, "latency": node.links.latency(peer)} for peer in node.links.peers],
            "would_go_to": [] if content is None else self._would_go_to(),
            "neighbours": [] if content is None else [*self._neighbours(content)],
            "advertised": None if content is None else self._is_advertised(content),
            "party": None if content is None else self._party(self._asked.party or "", content),
        }

    def _document(self) -> bytes | None:
        """Its attributes; if they are long, only where it was published, so that not all send the same."""
        if self._message is None:
            return None
        document = msgpack.encode(Notification(self._message.notification))
        return document if self._source is None or len(document) <= MOST_DOCUMENT else None

    def _reach(self) -> Reach:
        since = self._history.since
        is_on = self._server.driver.history is not None
        return {
            "is_on": is_on,
            "is_whole": self._history.is_whole and is_on,
            "since": None if since is None else when(since),
        }

    def _id_problem(self) -> str:
        """Why this server, if the notification is said to have begun here, cannot know it."""
        settings, count = self._node.settings, self._node.publishing.count
        if self._id.origin != settings.server:
            return ""
        if self._id.incarnation != settings.start:
            return f"{settings.server} was started again since: its notifications begin with {self._own(0)}"
        if self._id.sequence >= count:
            last = f"the last one is {self._own(count - 1)}" if count else "nothing was published there yet"
            return f"it was never published: {last}"
        return ""

    def _own(self, sequence: int) -> str:
        return str(NotificationId(self._node.settings.server, self._node.settings.start, sequence))

    # -- the way of the notification -----------------------------------------------------------------------------------

    def _look_at(self, turn: Turn) -> None:
        settings = self._node.settings
        if (
            self._id.origin == settings.server
            and self._id.incarnation == settings.start
            and turn.first <= self._id.sequence < turn.end
        ):
            self._began(turn)
        for given in turn.inputs:
            if isinstance(given, FromPeer) and isinstance(given.frame, Data):
                for message in given.frame.messages:
                    self._heard(turn, given.peer, message)
            elif isinstance(given, Request) and given.party == self._asked.party:
                self._requested(turn.time, given)
        for output in turn.outputs:
            if isinstance(output, LinkUp | LinkDown):
                change: LinkChange = {"at": when(turn.time), "is_up": isinstance(output, LinkUp)}
                self._link_changes.setdefault(output.peer, []).append(change)
            elif self._at is not None:
                self._went_out(turn, output)

    def _went_out(self, turn: Turn, output: Output) -> None:
        """Something that may have it within."""
        if not isinstance(output, Send):
            self._note_deliveries(turn, output)
        elif isinstance(output.frame, Data) and any(_is_about(each, self._id) for each in output.frame.messages):
            self._sent.setdefault(output.peer, turn.time)

    def _heard(self, turn: Turn, peer: str, message: messages.Message) -> None:
        """A neighbour said something; what it says again, because it was not sure, counts once."""
        content = self._asked.notification
        if isinstance(message, messages.Publish | messages.Element):
            if self._at is None and _id_of(message.notification) == self._id:
                self._arrived(turn, peer, message)
        elif (
            content is not None
            and isinstance(message, messages.Subscribe | messages.Unsubscribe)
            and message.filter.matches(content)
        ):
            told = _change(turn.time, isinstance(message, messages.Subscribe), str(message.filter))
            wishes = self._wishes.setdefault(peer, [])
            before = next((each["did"] for each in reversed(wishes) if each["filter"] == told["filter"]), None)
            if told["did"] != before:
                wishes.append(told)

    def _requested(self, time: int, request: Request) -> None:
        """The party has begun or ceased to want something, or something else instead."""
        operation = request.operation
        if isinstance(operation, ports.Subscribe):
            self._note_wish(time, operation.filter, is_wish=True)
        elif isinstance(operation, ports.Unsubscribe):
            self._note_wish(time, operation.filter, is_wish=False)
            for wanted in operation.instead:
                self._note_wish(time, wanted, is_wish=True)

    def _note_wish(self, time: int, wanted: Filter | Pattern, *, is_wish: bool) -> None:
        content = self._asked.notification
        parts = wanted.filters if isinstance(wanted, Pattern) else (wanted,)
        if content is not None and any(each.matches(content) for each in parts):
            self._changes.append(_change(time, is_wish, str(wanted)))

    def _note_deliveries(self, turn: Turn, output: Output) -> None:
        for party, form in self._deliveries(output):
            lost = [each.reason for each in turn.losses if each.output is output and each.party == party]
            reason = lost[0] if lost else ""
            told: Delivery = {"party": party, "at": when(turn.time), "form": form, "reason": reason}
            (self._lost if lost else self._delivered).setdefault(party, told)

    def _began(self, turn: Turn) -> None:
        """It was published here: what it is, is known from what came in, or else from what went out of it."""
        self._at = turn.time
        party, notification = None, self._seen_in(turn)
        for each in publications(turn, self._node.settings.limits):
            if each.sequence == self._id.sequence:
                party = each.party
                notification = msgpack.decode(Notification, each.document, self._node.settings.limits)
        if party is None and notification is not None and notification.envelope is not None:
            party = notification.envelope.publisher
        self._came.append({"origin": "party", "name": party, "at": when(turn.time), "let_in": True})
        if notification is not None:
            self._message = messages.Publish(notification)

    def _seen_in(self, turn: Turn) -> Notification | None:
        for output in turn.outputs:
            if isinstance(output, Deliver) and _id_of(output.notification) == self._id:
                return output.notification
            if isinstance(output, Send) and isinstance(output.frame, Data):
                for message in output.frame.messages:
                    if isinstance(message, messages.Publish) and _id_of(message.notification) == self._id:
                        return message.notification
        return None

    def _arrived(self, turn: Turn, peer: str, message: messages.Publish | messages.Element) -> None:
        border = self._node.neighbours.borders.get(peer)
        self._at, self._source = turn.time, peer
        self._message = message if isinstance(message, messages.Publish) else messages.Publish(message.notification)
        let_in = border is None or border.lets_in(self._message)
        self._came.append({"origin": "server", "name": peer, "at": when(turn.time), "let_in": let_in})

    def _deliveries(self, output: Output) -> Iterator[tuple[str, Literal["notification", "sequence"]]]:
        """The parties to which an output brings it, and as what."""
        if isinstance(output, DeliverBlock):
            if _holds(output.frames, self._id):
                yield output.party, "notification"
        elif isinstance(output, Deliver):
            if _id_of(output.notification) == self._id:
                for party in output.parties:
                    yield party, "notification"
        elif isinstance(output, DeliverSequence) and any(_id_of(each) == self._id for each in output.notifications):
            yield output.party, "sequence"

    # -- why it does not go further ------------------------------------------------------------------------------------

    def _would_go_to(self) -> list[str]:
        """The neighbours that would get it if it came now, as it came then."""
        router = self._node.router
        if self._message is None or (self._source is not None and self._source not in router.peers):
            return []
        passed = router.admit(self._message, self._source)
        return [] if passed is None else list(router.route(passed, self._source).peers)

    def _neighbours(self, content: Notification) -> Iterator[Neighbour]:
        """What there is between this server and its neighbours, for such a notification."""
        node = self._node
        gateways = node.settings.gateways
        for name in sorted({*node.links.peers, *self._server.peers.known}):
            exports = gateways[name].exports if name in gateways else None
            imports = gateways[name].imports if name in gateways else None
            yield {
                "name": name,
                "is_up": name in node.links.peers,
                "asked": self._wishes.get(name, [])[-MOST_CHANGES:],
                "link": self._link_changes.get(name, [])[-MOST_CHANGES:],
                "exports": "" if exports is None or exports.matches(content) else str(exports),
                "imports": "" if imports is None or imports.matches(content) else str(imports),
                "letter": node.peer_limits.letters.reason(name, self._id),
            }

    def _is_advertised(self, content: Notification) -> bool | None:
        """Whether its publisher has advertised it, where that matters; None if it does not, or is not known here."""
        router = self._node.router
        publisher = next((each["name"] for each in self._came if each["origin"] == "party"), None)
        if publisher is None or not router.advertisements_spread:
            return None
        return router.announces(publisher, content)

    # -- what a party would have got -----------------------------------------------------------------------------------

    def _party(self, name: str, content: Notification) -> PartyAccount | None:
        """What a party holds here, as far as it concerns the notification; None if nobody knows it here."""
        server, router = self._server, self._node.router
        filters, patterns = router.profile(name).filters, self._node.monitors.patterns(name)
        is_here, gone = name in server.driver.parties, server.absences.since(name)
        if not name or not (is_here or filters or patterns or self._changes or gone is not None):
            return None
        matching = [each for each in filters if each.matches(content)]
        met = [each for each in patterns if any(part.matches(content) for part in each)]
        return {
            "is_connected": is_here,
            "gone_seconds": None if gone is None else round(server.loop.time() - gone, 3),
            "filters": len(filters),
            "patterns": len(patterns),
            "changes": self._changes[-MOST_CHANGES:],
            "matching": [str(each) for each in matching[:MOST_FILTERS]],
            "matching_patterns": [str(each) for each in met[:MOST_FILTERS]],
            "missing": _nearest(filters, content),
        }


def _change(time: int, is_wish: bool, filter: str) -> Change:
    return {"at": when(time), "did": "subscribe" if is_wish else "unsubscribe", "filter": filter}


def _first(found: dict[str, Delivery], party: str | None) -> list[Delivery]:
    """Not too many of them; who is asked for comes first."""
    return sorted(found.values(), key=lambda each: each["party"] != party)[:MOST_NAMED]


def _nearest(filters: tuple[Filter, ...], content: Notification) -> list[Miss]:
    """Filters that do not match, those first of which least fails, with what fails and why."""
    judged = [(each, each.explain(content)) for each in filters]
    missing = [(len(why.failures), str(each), why) for each, why in judged if not why.matches]
    missing.sort(key=lambda each: each[:2])
    return [
        {
            "filter": text,
            "failures": [{"constraint": str(each.constraint), "remark": each.remark} for each in why.failures],
        }
        for _, text, why in missing[:MOST_FILTERS]
    ]


def _id_of(notification: Notification) -> NotificationId | None:
    return None if notification.envelope is None else notification.envelope.id


def _is_about(message: messages.Message, id: NotificationId) -> bool:
    return isinstance(message, messages.Publish | messages.Element) and _id_of(message.notification) == id


def _holds(block: bytes, id: NotificationId) -> bool:
    """Whether one of the deliveries of a block is this notification; their envelopes begin with the id."""
    id_bytes = msgspec.msgpack.encode([1, id.origin, id.incarnation, id.sequence])[1:]
    if id_bytes not in block:
        return False
    place = 0
    while place + _FRAME.size <= len(block):
        length, kind, _ = _FRAME.unpack_from(block, place)
        begin = place + _FRAME.size + 1  # behind the head of the array
        if kind == frames.DELIVER and block.startswith(id_bytes, begin):
            return True
        place += length + 4
    return False
