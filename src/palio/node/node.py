"""The node: links, routing and parties, composed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from palio.codec.frames import Options
from palio.errors import CallerError, InternalError, PalioError, PeerError, brief
from palio.link.ports import Down, LinkEvent, Received, Refused, Up
from palio.matching.preparation import Preparation
from palio.model import Notification, NotificationId
from palio.node import ports
from palio.node.admission import NotAllowedError
from palio.node.answering import Answering
from palio.node.arrivals import Arrivals
from palio.node.containment import Containment, critical
from palio.node.delegation import Delegating
from palio.node.departures import Departures
from palio.node.hearing import Hearing
from palio.node.holding import Holding, Unwritten
from palio.node.hybrid import date_of
from palio.node.journal import Journal, Record
from palio.node.keeping import Keeping, Kept
from palio.node.keys import Keys
from palio.node.lease_endings import LeaseEndings
from palio.node.logs import Logs
from palio.node.monitors import Monitors
from palio.node.neighbours import Neighbours
from palio.node.peer_limits import PeerLimits
from palio.node.ports import (
    AcceptedUpTo,
    Deliver,
    DeliverSequence,
    Duplicate,
    Fault,
    Fetch,
    FromPeer,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Output,
    PublishBlock,
    Reply,
    Request,
    Rest,
    Send,
    Unsendable,
)
from palio.node.preparing import Allowance, Preparing
from palio.node.publications import Publications
from palio.node.publishing import Publishing
from palio.node.quarantine import Quarantine, Quarantined
from palio.node.reading import Reading
from palio.node.requests import Requests
from palio.node.seen import Seen
from palio.node.settings import NodeSettings, check_settings
from palio.node.spreading import Spreading
from palio.node.watches import Found
from palio.node.waves import Asked
from palio.routing import messages
from palio.routing.architectures import ARCHITECTURES
from palio.routing.messages import Message
from palio.routing.outlooks import Outlooks
from palio.routing.router import Router
from palio.routing.telling import Telling

__all__ = ["Node", "NodeSettings"]


class Node:
    """A server as a pure machine: :meth:`handle` takes what has come in and says what goes out.

    All that a call is given is handled in order; what neighbours have to be told goes out at the end, or before the
    first notification that comes after it, so that nothing overtakes anything. ``now`` is in microseconds.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (what a store has kept)
        self,
        settings: NodeSettings,
        records: Iterable[Record] = (),
        now: int = 0,
        tail: Iterable[tuple[int, bytes]] = (),
        first: int = 0,
        end: int | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        """Make a node, with what was kept of an earlier life: records, and the end of the message log.

        ``tail`` are the entries from :func:`~palio.node.keeping.tail_from` on, ``first`` is the position of the first
        entry that there is, ``end`` the one behind the last. Any records will do: those that do not fit are put aside,
        in ``quarantine``, and are in :attr:`quarantined`.
        """
        check_settings(settings)
        self.settings = settings
        self.router: Router = ARCHITECTURES[settings.architecture](settings.server, settings.start)
        self.router.expect_neighbours(settings.neighbours)
        self._keeping = Keeping() if settings.durable else None
        journal = self._keeping.journal if self._keeping else None
        self.router.holdings.are_noted = settings.durable
        self.telling = Telling(settings.telling, is_kept=settings.durable)
        self.outlooks = Outlooks(self.router)
        self.neighbours = Neighbours(settings, self.router, journal)
        self.links = self.neighbours.links
        self.peer_limits = PeerLimits(settings.link, self._cannot_send, journal)
        self.logs = Logs(settings.log, settings.incarnation, journal or Journal(), self.emit)
        self.reading = Reading(self.logs, journal or Journal(), self.emit)
        self.keys = Keys(settings.log.keys)
        self.monitors = Monitors(
            self.router, settings.window, settings.held_back, journal, may_take=self.peer_limits.takes
        )
        self.delegating = Delegating(self.router, self.monitors, settings.delegation, self.peer_limits, journal)
        self.publishing = Publishing(settings, self.router)
        self.publications = Publications(self, is_durable=settings.durable)
        self.requests = Requests(self, self._keeping)
        self.allowance = Allowance(settings.comparisons)
        self.preparing = Preparing(self.router, self.requests, self.allowance)
        self.hearing = Hearing(self, self._keeping)
        self.arrivals = Arrivals(self, self.allowance)
        self.departures = Departures(self, self.allowance, journal)
        self.lease_endings = LeaseEndings(self, self.allowance)
        self.answering = Answering(self, self.allowance)
        self.seen = Seen(settings.server)
        self.spreading = Spreading(self)
        self.holding = Holding()
        self.containment = Containment(self)
        self._outputs: list[Output] = []
        self._at_once: list[Output] = []
        """What does not wait: it is for the driver alone."""
        self._is_pressing = False
        """Whether somebody waits until what has changed is on disk."""
        self._has_room = True
        self.expired = 0
        """Notifications that were worth nothing any more when they came."""
        self._has_news = False
        """Whether the neighbours may have to be told something."""
        self._now = now
        self.quarantined: list[Quarantined] = []
        """The records that were put aside when the node was made."""
        if self._keeping:
            self._keeping.restore(self, Kept(records, tail, first, end, quarantine or Quarantine()), now)
            self._has_news |= bool(self.monitors.moved)  # with other settings than before they may belong elsewhere
        self.deadline = self._earliest(self.monitors.deadline)
        """When :meth:`handle` must be called again at the latest, with or without input."""

    def handle(self, inputs: Iterable[Input], now: int) -> list[Output]:
        """Take what has come in, and say what goes out.

        ``now`` never goes back from call to call: whoever drives a node adds what a monotonic clock counts to the time
        at which the node was made. A node that is made from records may begin earlier than they were written.
        """
        self._now = now
        self.allowance.begin_turn()
        if self.arrivals:
            self._is_pressing = True
            self.arrivals.resume()
        self._take_all(inputs)
        with critical("the end of a turn"):
            return self._finish(now)

    def _take_all(self, inputs: Iterable[Input]) -> None:
        """Take the inputs in their order; a fault concerns the one in which it happens."""
        for each in inputs:
            try:
                self._take(each)
            except Exception as error:  # noqa: BLE001 (whatever it is, it must not reach the other inputs)
                self.containment.contain(each, error)

    def _finish(self, now: int) -> list[Output]:
        """Do what is due, and say what goes out because of all inputs of a turn."""
        self.happened(self.links.wake(now))
        for party in self.reading.leases.overdue(now):
            self.lease_endings.begin(party)
        self.lease_endings.work(now)
        self.departures.work()
        due = self.monitors.deadline
        if due is not None and due <= now:
            self.deliver_sequences(self.monitors.release(now))
            self.talk_of_patterns()
            due = self.monitors.deadline
        self.telling.acknowledge(self._base_of, now)
        self._has_news |= self._is_due(now)
        if self._has_news:
            while self._has_news:
                self.tell()
            due = self.monitors.deadline
        entries = self.logs.finish(now)
        self.reading.send(now)
        outputs, self._outputs = self._outputs, []
        outputs += self.answering.work()
        for peer, frame in self.links.frames(now):
            outputs.append(Send(peer, frame))
        self.deadline = self._earliest(due)
        if self._keeping is not None:
            outputs = self._hold(self._keeping, outputs, entries)
        at_once, self._at_once = self._at_once, []
        return at_once + outputs

    def _is_due(self, now: int) -> bool:
        """Whether neighbours have to be told what has waited: for its time, or until they have room for it."""
        is_due = (self.telling.is_waiting and self.telling.is_due(now)) or self.neighbours.is_due(now)
        return is_due or self.delegating.is_due(self._room_for_monitors)

    def _earliest(self, due: int | None) -> int | None:
        """The first of what the parts of a node have to do at a time; of monitors it is known."""
        if self.arrivals or self.departures or self.lease_endings or self.answering:
            return self._now  # there is more to do than one turn permits
        deadline = self.links.deadline
        for other in (due, self.telling.deadline, self.neighbours.deadline, self.reading.leases.deadline):
            if other is not None and (deadline is None or other < deadline):
                deadline = other
        return deadline

    def _hold(self, keeping: Keeping, outputs: list[Output], entries: tuple[tuple[int, bytes], ...]) -> list[Output]:
        """Write first what the outputs depend on."""
        trim = self.logs.trim(self._now)
        records = keeping.finish(self)
        is_pressing, self._is_pressing = self._is_pressing, False
        is_needed = bool(records or entries) or trim is not None
        unwritten = Unwritten(records, entries, trim, is_pressing) if is_needed else None
        return self.holding.hold(outputs, unwritten, self.logs.position)

    def _persisted(self, token: int, *, is_synced: bool) -> None:
        if not is_synced:
            self.holding.written(token)
            return
        position = self.holding.synced(token)
        if position is not None:
            self.logs.recent.persisted(position)

    # -- for the parts of a node ---------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The time, in microseconds."""
        return self._now

    def emit(self, output: Output) -> None:
        """Say something, when all that it may depend on is on disk; the driver's own business goes on at once."""
        (self._at_once if isinstance(output, Fetch | Rest | Fault) else self._outputs).append(output)

    def press(self) -> None:
        """Somebody waits until what has changed is on disk."""
        self._is_pressing = True

    def tell_first(self) -> None:
        """Tell neighbours what they have to know before the next notification comes."""
        if self._has_news:
            self.tell()

    def note_news(self) -> None:
        """Neighbours may have to be told something."""
        self._has_news = True

    def forward(self, message: messages.Publish, source: str | None = None, *, to_parties: bool = True) -> None:
        """Send a publication on its way, of a party or from a neighbour (``source``); to parties only if they have not
        got it in another way.
        """
        self._forward(message, source, to_parties=to_parties)

    def give_back(self, block: PublishBlock) -> None:
        """There was too much in a block: give this again."""
        self.emit(Rest(block))

    def answer(self, answer: AcceptedUpTo | Duplicate | Reply) -> None:
        """Tell a publisher something, as soon as it holds."""
        if self._keeping is None:
            self._outputs.append(answer)
        else:
            self.holding.acceptances.add(answer)

    # -- what comes in -------------------------------------------------------------------------------------------------

    def _take(self, given: Input) -> None:
        if isinstance(given, FromPeer):
            self._is_pressing = True
            self.arrivals.take(given.peer, given.frame)
        elif (
            self.preparing
            and isinstance(given, PublishBlock | ports.PublishWith | Request)
            and (self.preparing.holds_up(given))
        ):
            self.emit(Rest(given))
        elif isinstance(given, PublishBlock):
            self.publications.take_block(given)
        elif isinstance(given, Request):
            self._is_pressing = True
            self._request(given)
        else:
            self._take_other(given)

    def _take_other(self, given: Input) -> None:
        match given:
            case ports.PublishWith():
                self.publications.take_with(given)
            case ports.Persisted(token, is_synced):
                self._persisted(token, is_synced=is_synced)
            case ports.Fetched(token, entries):
                self.reading.fetched(token, entries, self._now)
            case ports.Room(is_there):
                self._has_room = is_there
                self.links.room(self._now, is_there=is_there and self.publications.has_space)
            case ports.Space(is_there):
                self.publications.has_space = is_there
                self.logs.press(is_pressed=not is_there)
                self.links.room(self._now, is_there=is_there and self._has_room)
            case ports.Archived(position):
                self.logs.note_archived(position)
            case ports.DiscardLinkLetters(peer, letters):
                self.peer_limits.letters.discard(peer, letters)
            case _:
                self._is_pressing = True
                self._take_party_or_link(given)

    def _take_party_or_link(self, given: Input) -> None:
        match given:
            case ports.Attach(party, keep):
                self.lease_endings.finish(party, self._now)
                self.outlooks.repeat(party)
                if keep is not None and self._keeping is not None:
                    self.reading.attach(given, keep, self._now)
                    self.router.board.log(party)
            case ports.Detach(party, reading):
                self.reading.detach(party, reading, self._now)
            case ports.Acknowledge(party, number, reading):
                self.reading.acknowledge(party, number, reading)
            case ports.Expect(peer, role):
                self.neighbours.expect(peer, role)
            case ports.Connect() | ports.Disconnect() | ports.Allow() | ports.Doubt() | ports.Lost():
                self._link(given)

    # -- parties -------------------------------------------------------------------------------------------------------

    def _request(self, request: Request) -> None:
        asker = request.party if request.by is None else request.by
        try:
            if isinstance(request.operation, ports.Reject):
                delivery, reason = request.operation.delivery, request.operation.reason
                answer = Reply(asker, request.number)
                self.reading.reject(request.party, delivery, reason, self._now, lambda: self._outputs.append(answer))
                return
            preparation = self._prepare(request)
            if preparation is None:
                self.emit(Rest(request))
                return
            with self.router.prepared(preparation):
                waits = self._perform(request)
        except InternalError:
            raise
        except PalioError as error:
            self._outputs.append(Reply(asker, request.number, error.with_traceback(None)))
            return
        if waits:
            self.spreading.spread(Asked(asker, request.number), None, self.settings.server)
        else:
            self._outputs.append(Reply(asker, request.number))

    def _prepare(self, request: Request) -> Preparation | None:
        """Make the comparisons that a request needs; if they are too many for this turn, it has to be given again."""
        if request.by is not None and request.by != request.party:
            self._check_right(request.by, request.party)
        self._has_news |= isinstance(request.operation, ports.Leave)  # it is done on the way
        return self.preparing.advance(request, len(self.arrivals))

    def _perform(self, request: Request) -> bool:
        """Do what a party asks for; whether it wants to wait until that has spread."""
        party, operation = request.party, request.operation
        match operation:
            case ports.Publish(notification, trace):
                self.publications.publish(party, notification, Options(trace=None if trace is None else str(trace)))
                return False
            case ports.Replay():
                self.reading.replay(party, operation)
                return False
            case ports.Letters():
                self.reading.letters(party, operation, self._now)
                return False
        self._has_news = True
        return self.requests.perform(party, operation)

    def _check_right(self, actor: str, party: str) -> None:
        if party not in self.settings.may_act_for.get(actor, ()):
            raise NotAllowedError(f"{brief(actor)} may not act for {brief(party)}")

    # -- links ---------------------------------------------------------------------------------------------------------

    def _link(self, given: ports.Connect | ports.Disconnect | ports.Allow | ports.Doubt | ports.Lost) -> None:
        peer, now = given.peer, self._now
        events: Iterable[LinkEvent] = ()
        try:
            match given:
                case ports.Connect(_, role, latency):
                    self.happened(self.neighbours.renew(peer, role, latency, now))
                    events = self.neighbours.connect(peer, role, latency, now)
                case ports.Disconnect(_, bars, reason):
                    events = self.links.disconnect(peer, now, bars=bars, reason=reason)
                case ports.Allow():
                    self.links.allow(peer)
                case ports.Doubt(_, limits):
                    if limits is not None:
                        self._limit(peer, limits)
                    events = self.links.doubt(peer, now)
                case ports.Lost():
                    events = self.links.lose(peer, now)
        except CallerError as error:
            self._outputs.append(LinkRefused(peer, str(error)))
        self.happened(events)

    def _limit(self, peer: str, limits: tuple[int, ...]) -> None:
        """A neighbour is there, perhaps as another release than before, which takes more or less."""
        if self.peer_limits.connected(peer, limits, lambda: self._told(peer)):
            again = self.peer_limits.refit(peer, partial(self.links.replace, peer), self._now)
            if again:
                self.happened(self.links.send(peer, again, self._now))
        self.delegating.reconsider_peer(peer)
        self._has_news = True

    def _told(self, peer: str) -> Iterable[messages.Standing]:
        """What a neighbour was told, and not told to forget."""
        border = self.neighbours.borders.get(peer)
        return self.telling.told(peer, self.router.told_to(peer)) if border is None else border.told

    def _cannot_send(self, peer: str, id: NotificationId, reason: str) -> None:
        self._outputs.append(Unsendable(peer, id, reason))

    def lose(self, peer: str, reason: str) -> None:
        """Give up a link because of a fault; one that is wanted begins anew."""
        self.happened(self.links.lose(peer, self._now, reason))

    def happened(self, events: Iterable[LinkEvent]) -> None:
        """Something has happened to links."""
        for event in events:
            if isinstance(event, Received):
                self._received(event.peer, event.messages)
                continue
            self._has_news = True
            match event:
                case Up(peer):
                    self.peer_limits.opened(peer, event.limits)
                    self.neighbours.add(event)
                    if self._keeping:
                        self._keeping.members(peer)
                        if peer in self.neighbours.borders:
                            self._keeping.gateway(peer, self.neighbours.borders[peer].gateway)
                    self._outputs.append(LinkUp(peer))
                case Down(peer, reason, discarded):
                    if self._keeping:
                        self._keeping.gone(peer)
                    self.arrivals.forget(peer)
                    self.neighbours.remove(peer)
                    self.departures.note()
                    self.peer_limits.gone(peer)
                    self.telling.forget(peer)
                    self.delegating.lost(peer, self._now)
                    self.deliver_sequences(self.monitors.found())
                    self.spreading.lost(peer)
                    self._outputs.append(LinkDown(peer, reason, discarded))
                case Refused(peer, reason):
                    self._outputs.append(LinkRefused(peer, reason))

    def _received(self, peer: str, received: Iterable[Message]) -> None:
        for message in received:
            if peer not in self.router.peers:
                return  # the link was given up because of a message before this one
            try:
                self.hearing.take(peer, message)
            except PeerError as error:  # the link ends, and others are not concerned
                self.happened(self.links.break_off(peer, str(error), self._now))

    # -- what goes out -------------------------------------------------------------------------------------------------

    def tell(self, *, pressing: bool = False) -> None:
        """Tell the neighbours what has changed; and cut links that close a cycle, until there is none.

        Changes may wait for others, unless they are pressing.
        """
        with critical("telling the neighbours"):
            self._tell(pressing=pressing)

    def _tell(self, *, pressing: bool) -> None:
        self._has_news = False
        self.neighbours.survey()
        while cut := self.neighbours.membership.to_cut():
            for peer in cut:
                reason = f"the link between {self.settings.server} and {peer} closes a cycle"
                self.happened(self.links.break_off(peer, reason, self._now))
        events: list[LinkEvent] = []
        for peer, said in self.neighbours.updates(self._now, pressing=pressing):
            events += self._say(peer, said)
        events += self.links.reconsider(self._now)
        # messages about patterns come behind all changes of filters
        whole = self.delegating.reconsider(None if pressing else self._room_for_monitors)
        events += self._tell_changes(pressing=pressing, whole=whole)
        self.happened(events)  # not before: whoever is told of them may tell what is newer than the rest of this
        self.talk_of_patterns()

    def _tell_changes(self, *, pressing: bool, whole: bool) -> list[LinkEvent]:
        """Tell the neighbours which filters have changed, as many as they can take.

        A gateway lets out less, and a peer with other limits may have all of it already. Nothing is acknowledged then,
        so what waits behind it is told at once.
        """
        events: list[LinkEvent] = []
        changes = self.router.control()
        while True:
            for peer, control in self.telling.take(changes, self._now, pressing=pressing, whole=whole):
                before = self._next_of(peer)
                events += self._say(peer, control)
                end = self._next_of(peer)
                if end > before:
                    self.telling.sent(peer, end, end - before, self._now)
            if not self.telling.is_due(self._now):
                return events
            changes = []

    def _next_of(self, peer: str) -> int:
        """The number of the next message to a neighbour."""
        session = self.links.session(peer)
        return 0 if session is None else session.next

    def _base_of(self, peer: str) -> int:
        """The number of the first message to a neighbour that is not acknowledged."""
        session = self.links.session(peer)
        return 0 if session is None else session.base

    def talk_of_patterns(self) -> None:
        """Tell the neighbours about patterns that one watches for the other: behind what they are told of filters."""
        if not self._has_news:
            events: list[LinkEvent] = []
            for peer, message in self.delegating.outgoing():
                before = self._next_of(peer)
                events += self._say(peer, [message])
                if isinstance(message, messages.Delegate | messages.Recall) and self._next_of(peer) > before:
                    self.telling.sent(peer, self._next_of(peer), 1, self._now)
            self.happened(events)

    def _room_for_monitors(self, peer: str) -> int:
        """How many monitors may be moved to or from a neighbour now; other changes have as much room."""
        return (self.telling.room(peer) + 1) // 2

    def tell_nobody(self, known: Mapping[tuple[Any, ...], Any]) -> list[tuple[Any, ...]]:
        """Take it that neighbours know what they would have to be told now: they were told in an earlier life, or it
        waited there. The keys of records that do not fit are returned.
        """
        said, misfits = self.telling.restore(self.router.control(), known, self._now)
        told: dict[tuple[str, Message], None] = {}
        for peer, control in said:
            border = self.neighbours.borders.get(peer)
            heard = control if border is None else border.let_out(control)
            self.peer_limits.recall(peer, heard, known)
            told.update(dict.fromkeys((peer, message) for message in heard))
        return misfits + [key for key in known if key[0] == "widened" and key[1:] not in told]

    def begin_links_anew(self) -> None:
        """Give up all links: what neighbours were told is not known. Those that are wanted are opened again."""
        for peer in tuple(self.links.peers):
            self.lose(peer, "records of the link had to be quarantined")

    def take_over_gateways(self) -> None:
        """Gateways are what the configuration says, which may have changed. One that is not there ends, alone."""
        for peer, border in tuple(self.neighbours.borders.items()):
            gateway = self.settings.gateways.get(peer)
            if gateway is None:
                reason = f"{peer} is no gateway in the configuration of {self.settings.server} any more"
                self.happened(self.links.disconnect(peer, self._now, bars=False, reason=reason))
            elif gateway != border.gateway:
                told = self.neighbours.reconfigure(peer, self.telling.told(peer, self.router.told_to(peer)))
                self._has_news = True
                self.happened(self.links.send(peer, self.peer_limits.fit(peer, told, self._now), self._now))
            if self._keeping and peer in self.neighbours.borders and gateway is not None:
                self._keeping.gateway(peer, gateway)

    def send(self, peer: str, said: Sequence[Message]) -> None:
        """Say something to a neighbour, if there is a link."""
        events = self._say(peer, said)
        if events:
            self.happened(events)

    def _say(self, peer: str, said: Sequence[Message]) -> Sequence[LinkEvent]:
        """The same; what happens to the link because of it is left to the caller."""
        if peer not in self.router.peers or self.links.session(peer) is None:
            return ()
        border = self.neighbours.borders.get(peer)
        fitting = self.peer_limits.fit(peer, said if border is None else border.let_out(said), self._now)
        return self.links.send(peer, fitting, self._now)

    def send_behind(self, peer: str, message: messages.Spread | messages.Spreaded) -> None:
        """Send a message to a neighbour as soon as all changes of filters before it have been sent."""
        if not self.telling.hold(peer, message):
            self.send(peer, [message])

    def _forward(self, message: messages.Publish, source: str | None, *, to_parties: bool = True) -> None:
        """Send a notification to all who get it; to parties only if they have not got it in another way.

        What neighbours have to be told first may cut the link over which it has come, which closes a cycle.
        """
        passed = self.router.admit(message, source)
        if passed is None:
            return
        self.tell_first()
        notification = passed.notification
        expires = notification.envelope.expires if notification.envelope is not None else None
        if expires is not None and expires <= date_of(self._now):
            self.expired += 1
            return
        route = self.router.route(passed, source)
        if to_parties:
            self._deliver(route.parties, notification, is_own=source is None)
        if route.met:
            with critical("the monitors of patterns"):
                self.deliver_sequences(self.monitors.arrive(notification, route.met, self._now))
        if self.monitors.has_elements:
            self._send_taken(passed, route.peers)
            return
        for peer in route.peers:
            self.send(peer, (passed,))

    def _send_taken(self, message: messages.Publish, peers: Sequence[str]) -> None:
        """Send a notification that was taken for neighbours; to those that get it anyway, it is said with it."""
        taken = self.monitors.taken_of(message.notification, peers)
        for peer in peers:
            self.send(peer, (msgspec.structs.replace(message, tags=taken.get(peer, ())),))
        self.talk_of_patterns()

    def _deliver(self, parties: tuple[str, ...], notification: Notification, *, is_own: bool) -> None:
        """A notification is for parties of this server; those that are durable get it through their logs."""
        durable = [party for party in parties if party in self.logs] if self.logs else []
        if durable or (is_own and self.settings.log.everything):
            self.logs.deliver(durable, notification, self._now)
            parties = tuple(party for party in parties if party not in self.logs)
        if parties:
            self._outputs.append(Deliver(parties, notification))

    def deliver_sequences(self, found: Iterable[Found]) -> None:
        """Deliver sequences that patterns have found."""
        for each in found:
            if each.party in self.logs:
                self.logs.deliver_sequence(each, self._now)
            else:
                self._outputs.append(DeliverSequence(*each))
