"""The node: links, routing and parties, composed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from palio.codec import frames, msgpack
from palio.errors import CallerError, PalioError, PeerError, brief
from palio.link.ports import Down, Event, Received, Refused, Up
from palio.model import Notification, Trace
from palio.node import ports
from palio.node.admission import NotAdvertisedError, NotAllowedError
from palio.node.delegation import Delegating
from palio.node.journal import Record
from palio.node.keeping import Keeping
from palio.node.mail import Mail
from palio.node.monitors import Monitors
from palio.node.neighbours import Neighbours
from palio.node.ports import (
    AcceptedUpTo,
    Deliver,
    DeliverSequence,
    FromPeer,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Outlook,
    Output,
    Persist,
    PublishBlock,
    Reply,
    Request,
    Send,
)
from palio.node.publishing import Publishing
from palio.node.requests import Requests
from palio.node.seen import Seen
from palio.node.settings import NodeSettings, check_settings
from palio.node.watches import Found
from palio.node.waves import Waves
from palio.routing import messages
from palio.routing.architectures import ARCHITECTURES
from palio.routing.messages import Message, WaveName
from palio.routing.outlooks import Outlooks
from palio.routing.router import Router
from palio.routing.telling import Telling

__all__ = ["Node", "NodeSettings"]


class _Asked(NamedTuple):
    """A request that waits until it has spread."""

    party: str
    number: int


class _Passed(NamedTuple):
    """A neighbour's wave that was passed on."""

    peer: str
    token: int
    wave: WaveName


class Node:
    """A server as a pure machine: :meth:`handle` takes what has come in and says what goes out.

    All that a call is given is handled in order; what neighbours have to be told goes out at the end, or before the
    first notification that comes after it, so that nothing overtakes anything. ``now`` is in microseconds.
    """

    def __init__(self, settings: NodeSettings, records: Iterable[Record] = (), now: int = 0) -> None:
        check_settings(settings)
        self.settings = settings
        self.router: Router = ARCHITECTURES[settings.architecture](settings.server, settings.incarnation)
        self._keeping = Keeping() if settings.durable else None
        journal = self._keeping.journal if self._keeping else None
        self.telling = Telling(settings.telling, is_kept=settings.durable)
        self.outlooks = Outlooks(self.router)
        self.neighbours = Neighbours(settings, self.router, journal)
        self.links = self.neighbours.links
        self.mail = Mail(journal) if journal is not None else None
        self.monitors = Monitors(self.router, settings.window, settings.held_back, journal)
        self.delegating = Delegating(self.router, self.monitors, settings.delegation, journal)
        self.publishing = Publishing(settings, self.router)
        self.requests = Requests(self, self._keeping)
        self.seen = Seen(settings.server, settings.incarnation)
        self.waves: Waves[_Asked | _Passed] = Waves()
        self._outputs: list[Output] = []
        self._held: deque[tuple[int, list[Output]]] = deque()
        """What waits until records are on disk, by their tokens."""
        self._released: list[Output] = []
        self._token = 0
        self._has_news = False
        """Whether the neighbours may have to be told something."""
        self._now = now
        if self._keeping:
            self._keeping.restore(self, records, now)
            self._has_news = bool(self.monitors.moved)  # with other settings than before they may belong elsewhere
        self.deadline = self._earliest(self.monitors.deadline)
        """When :meth:`handle` must be called again at the latest, with or without input."""

    def handle(self, inputs: Iterable[Input], now: int) -> list[Output]:
        """Take what has come in, and say what goes out.

        ``now`` never goes back from call to call: whoever drives a node adds what a monotonic clock counts to the time
        at which the node was made. A node that is made from records may begin earlier than they were written.
        """
        self._now = now
        for each in inputs:
            self._take(each)
        due = self.monitors.deadline
        if due is not None and due <= now:
            self._deliver_sequences(self.monitors.release(now))
            self._talk_of_patterns()
            due = self.monitors.deadline
        if self._has_news or self.telling.deadline is not None or self.neighbours.deadline is not None:
            self._has_news |= self.telling.is_due(now) or self.neighbours.is_due(now)
            while self._has_news:
                self._tell()
            due = self.monitors.deadline
        outputs, self._outputs = self._outputs, []
        for prospect in self.outlooks.news():
            outputs.append(Outlook(*prospect))
        for peer, frame in self.links.frames(now):
            outputs.append(Send(peer, frame))
        self.deadline = self._earliest(due)
        return outputs if self._keeping is None else self._hold(self._keeping, outputs)

    def _earliest(self, due: int | None) -> int | None:
        """The first of what the parts of a node have to do at a time; of monitors it is known."""
        deadline = self.links.deadline
        for other in (due, self.telling.deadline, self.neighbours.deadline):
            if other is not None and (deadline is None or other < deadline):
                deadline = other
        return deadline

    def _hold(self, keeping: Keeping, outputs: list[Output]) -> list[Output]:
        """Write first what the outputs depend on; what depends on nothing new still waits for what is before it."""
        released, self._released = self._released, []
        records = keeping.finish(self)
        if records:
            self._token += 1
            self._held.append((self._token, outputs))
            return [*released, Persist(self._token, records)]
        if self._held:
            self._held[-1][1].extend(outputs)
            return released
        return released + outputs

    def _persisted(self, token: int) -> None:
        while self._held and self._held[0][0] <= token:
            self._released += self._held.popleft()[1]

    def _take(self, given: Input) -> None:
        if isinstance(given, FromPeer):
            try:
                events = self.links.receive(given.peer, given.frame, self._now)
            except PeerError as error:
                events = self._give_up(given.peer, error)
            if events:
                self._happened(events)
        elif isinstance(given, Request):
            self._request(given)
        elif isinstance(given, PublishBlock):
            self._publish_block(given)
        else:
            self._take_other(given)

    def _take_other(self, given: Input) -> None:
        match given:
            case ports.PublishWith():
                self._publish_with(given)
            case ports.Persisted(token):
                self._persisted(token)
            case ports.Attach() | ports.Acknowledge():
                self._fetch(given)
            case ports.Room(is_there):
                self.links.room(self._now, is_there=is_there)
            case ports.Connect() | ports.Disconnect() | ports.Doubt() | ports.Lost():
                self._link(given)

    # -- parties -------------------------------------------------------------------------------------------------------

    def _request(self, request: Request) -> None:
        asker = request.party if request.by is None else request.by
        try:
            waits = self._perform(request)
        except PalioError as error:
            self._outputs.append(Reply(asker, request.number, error.with_traceback(None)))
            return
        if waits:
            self._spread(_Asked(asker, request.number), None, self.settings.server)
        else:
            self._outputs.append(Reply(asker, request.number))

    def _perform(self, request: Request) -> bool:
        """Do what a party asks for; whether it wants to wait until that has spread."""
        party, operation = request.party, request.operation
        if request.by is not None and request.by != party:
            self._check_right(request.by, party)
        if isinstance(operation, ports.Publish):
            self._publish(party, operation.notification, operation.trace)
            return False
        self._has_news = True
        return self.requests.perform(party, operation)

    def _check_right(self, actor: str, party: str) -> None:
        if party not in self.settings.may_act_for.get(actor, ()):
            raise NotAllowedError(f"{brief(actor)} may not act for {brief(party)}")

    def _publish(self, party: str, notification: Notification, trace: Trace | None = None) -> None:
        if self.settings.guard and not self.router.announces(party, notification):
            raise NotAdvertisedError(f"{brief(party)} has advertised nothing that announces {brief(str(notification))}")
        self._forward(self.publishing.accept(party, notification, self._now, trace), None)

    def _publish_with(self, given: ports.PublishWith) -> None:
        """The same as a block of one."""
        number, packed, document = frames.published_with(given.content)
        try:
            options = frames.options_of(packed)
            trace = None if options.trace is None else frames.trace_of(options.trace)
            notification = msgpack.decode(Notification, document, self.settings.limits)
            self._publish(given.party, notification, trace)
        except PalioError as error:
            self._outputs.append(Reply(given.party, number, error))
        if number:
            self._outputs.append(AcceptedUpTo(given.party, number))

    def _publish_block(self, block: PublishBlock) -> None:
        """The same as publishing one after the other."""
        if self.settings.guard or self._keeping:
            self._publish_one_by_one(block)
            return
        if self._has_news:
            self._tell()
        published = self.publishing.accept_block(block, self._now)
        self._outputs += published.deliveries
        for message in published.elsewhere:
            self._forward(message, None, to_parties=False)
        self._outputs += published.answers

    def _publish_one_by_one(self, block: PublishBlock) -> None:
        last = 0
        for number, body in frames.publications_of(block.frames):
            last = max(last, number)
            try:
                self._publish(block.party, msgpack.decode(Notification, body, self.settings.limits))
            except PalioError as error:
                self._outputs.append(Reply(block.party, number, error.with_traceback(None)))
        if last:
            self._outputs.append(AcceptedUpTo(block.party, last))

    def _fetch(self, given: ports.Attach | ports.Acknowledge) -> None:
        if isinstance(given, ports.Attach):
            self.outlooks.repeat(given.party)
        if self.mail is None:
            return
        if isinstance(given, ports.Acknowledge):
            self.mail.acknowledge(given.party, given.number)
            return
        party = given.party
        for number, each in self.mail.kept(party):
            if isinstance(each, Found):
                self._outputs.append(DeliverSequence(*each, number))
            else:
                self._outputs.append(Deliver((party,), each, (number,)))

    # -- links ---------------------------------------------------------------------------------------------------------

    def _link(self, given: ports.Connect | ports.Disconnect | ports.Doubt | ports.Lost) -> None:
        peer = given.peer
        try:
            match given:
                case ports.Connect(_, role, latency):
                    self.neighbours.connect(peer, role, latency, self._now)
                case ports.Disconnect():
                    self._happened(self.links.disconnect(peer, self._now))
                case ports.Doubt():
                    self.links.doubt(peer, self._now)
                case ports.Lost():
                    self._happened(self.links.lose(peer, self._now))
        except CallerError as error:
            self._outputs.append(LinkRefused(peer, str(error)))

    def _give_up(self, peer: str, error: PeerError) -> list[Event]:
        """A neighbour that breaks the rules is told so by ending the link; others are not concerned."""
        self._outputs.append(LinkRefused(peer, str(error)))
        return self.links.disconnect(peer, self._now) if peer in self.links.peers else []

    def _happened(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Received):
                self._received(event.peer, event.messages)
                continue
            self._has_news = True
            match event:
                case Up(peer):
                    self.neighbours.add(event)
                    if self._keeping:
                        self._keeping.members(peer)
                    self._outputs.append(LinkUp(peer))
                case Down(peer):
                    if self._keeping:
                        self._keeping.gone(self, peer)
                    self.neighbours.remove(peer)
                    self.telling.forget(peer)
                    self.delegating.lost(peer, self._now)
                    self._deliver_sequences(self.monitors.found())
                    self._come_back(self.waves.lost(peer, lambda each: isinstance(each, _Passed) and each.peer == peer))
                    self._outputs.append(LinkDown(peer))
                case Refused(peer, reason):
                    self._outputs.append(LinkRefused(peer, reason))

    def _received(self, peer: str, received: Iterable[Message]) -> None:
        for message in received:
            if peer not in self.router.peers:
                return  # the link was given up because of a message before this one
            try:
                if isinstance(message, messages.Publish):
                    self._pass_on(peer, message)
                else:
                    self._receive(peer, message)
            except PeerError as error:
                self._happened(self._give_up(peer, error))

    def _receive(self, peer: str, message: Message) -> None:
        if isinstance(message, messages.Element):
            self._take_over(peer, message, (message.notification,))
            self._talk_of_patterns()
            return
        self._has_news = True
        match message:
            case messages.Continue() | messages.Returned():
                self._take_over(peer, message, message.held)
            case messages.Delegate(_, _, _, state):
                self._take_over(peer, message, () if state is None else state.held)
            case messages.Accepted() | messages.Recall() | messages.Release():
                self._take_over(peer, message)
            case messages.Spread():
                self._pass_wave_on(peer, message)
            case messages.Spreaded(token):
                self._come_back(self.waves.answered(peer, token))
            case _:
                self.neighbours.hear(peer, message)
                if self._keeping:
                    self._keeping.heard(peer, message)

    def _take_over(
        self, peer: str, message: messages.MonitorMessage, notifications: Sequence[Notification] = ()
    ) -> None:
        """A neighbour says something about patterns that one watches for the other."""
        for each in notifications:
            if each.envelope is None:
                raise PeerError(f"{brief(peer)} sends a notification without an envelope")
            self.publishing.clock.saw(each.envelope.published)
        self.delegating.receive(peer, message, self._now)
        self._deliver_sequences(self.monitors.found())

    def _pass_on(self, peer: str, message: messages.Publish) -> None:
        """A neighbour sends a notification; while there is a cycle it may have been here before."""
        envelope = message.notification.envelope
        if envelope is None:
            raise PeerError(f"{brief(peer)} sends a notification without an envelope")
        border, id = self.neighbours.borders.get(peer), envelope.id
        if border is not None and not border.lets_in(message):
            return
        if message.tags:
            self._take_over(peer, messages.Element(message.notification, message.tags), (message.notification,))
            message = msgspec.structs.replace(message, tags=())
        if self.seen.is_new(id.origin, id.incarnation, id.sequence):
            if self._keeping:
                self._keeping.journal.put(("seen", id.origin, id.incarnation), id.sequence)
            self.publishing.clock.saw(envelope.published)
            self._forward(message, peer)
        elif self.monitors.has_elements:
            self._talk_of_patterns()

    # -- what goes out -------------------------------------------------------------------------------------------------

    def _tell(self, *, pressing: bool = False) -> None:
        """Tell the neighbours what has changed; and cut links that close a cycle, until there is none.

        What may wait for more to tell does, unless it is pressing.
        """
        self._has_news = False
        self.neighbours.survey()
        while cut := self.neighbours.membership.to_cut():
            for peer in cut:
                self._outputs.append(LinkRefused(peer, f"the link to {peer} closes a cycle"))
                self._happened(self.links.disconnect(peer, self._now))
        for peer, said in self.neighbours.updates(self._now, pressing=pressing):
            self._send(peer, said)
        pressing |= self.delegating.reconsider()
        for peer, control in self.telling.take(self.router.control(), self._now, pressing=pressing):
            self._send(peer, control)
        self._talk_of_patterns()

    def _talk_of_patterns(self) -> None:
        """Tell the neighbours about patterns that one watches for the other: behind what they are told of filters."""
        if not self._has_news:
            for peer, message in self.delegating.outgoing():
                self._send(peer, [message])

    def tell_nobody(self, known: Mapping[tuple[Any, ...], Any]) -> None:
        """What the neighbours would have to be told now they were told in an earlier life, or it waited there."""
        for peer, control in self.telling.restore(self.router.control(), known, self._now):
            if peer in self.neighbours.borders:
                self.neighbours.borders[peer].let_out(control)

    def _send(self, peer: str, said: Sequence[Message]) -> None:
        if peer in self.router.peers:
            border = self.neighbours.borders.get(peer)
            events = self.links.send(peer, said if border is None else border.let_out(said), self._now)
            if events:
                self._happened(events)

    def _forward(self, message: messages.Publish, source: str | None, *, to_parties: bool = True) -> None:
        """Send a notification to all who get it; to parties only if they have not got it in another way."""
        if self._has_news:
            self._tell()
        passed = self.router.admit(message, source)
        if passed is None:
            return
        notification = passed.notification
        route = self.router.route(passed, source)
        if route.parties and to_parties:
            numbers = self.mail.add(route.parties, notification) if self.mail is not None else ()
            self._outputs.append(Deliver(route.parties, notification, numbers))
        if route.met:
            self._deliver_sequences(self.monitors.arrive(notification, route.met, self._now))
        if self.monitors.has_elements:
            self._send_taken(passed, route.peers)
            return
        for peer in route.peers:
            self._send(peer, (passed,))

    def _send_taken(self, message: messages.Publish, peers: Sequence[str]) -> None:
        """Send a notification that was taken for neighbours; to those that get it anyway, it is said with it."""
        taken = self.monitors.taken_of(message.notification, peers)
        for peer in peers:
            self._send(peer, (msgspec.structs.replace(message, tags=taken.get(peer, ())),))
        self._talk_of_patterns()

    def _deliver_sequences(self, found: Iterable[Found]) -> None:
        for each in found:
            number = self.mail.add((each.party,), each)[0] if self.mail is not None else None
            self._outputs.append(DeliverSequence(*each, number))

    def _spread(self, waiting: _Asked | _Passed, source: str | None, origin: str) -> None:
        """Send a wave behind all that was said; if there is nowhere to go, it has come back already."""
        self._tell(pressing=True)
        peers = [peer for peer in self.router.hearing(origin) if peer != source]
        if not peers:
            self._come_back([waiting])
            return
        token = self.waves.begin(waiting, peers)
        begun = self.settings.server, self.settings.incarnation, token
        wave = waiting.wave if isinstance(waiting, _Passed) else begun
        for peer in peers:
            self._send(peer, [messages.Spread(token, origin, wave)])

    def _pass_wave_on(self, peer: str, message: messages.Spread) -> None:
        passed, is_border = _Passed(peer, message.token, message.wave), peer in self.neighbours.borders
        if is_border and self._is_out(message.wave):
            self._come_back([passed])  # there is a loop between networks, which is not cut yet
        else:
            self._spread(passed, peer, self.settings.server if is_border else message.origin)

    def _is_out(self, wave: WaveName) -> bool:
        """Whether a wave has begun here, or was passed on and has not come back."""
        is_own = wave[:2] == (self.settings.server, self.settings.incarnation)
        return is_own or any(isinstance(each, _Passed) and each.wave == wave for each in self.waves.waiting())

    def _come_back(self, waiting: Iterable[_Asked | _Passed]) -> None:
        for each in waiting:
            match each:
                case _Asked(party, number):
                    self._outputs.append(Reply(party, number))
                case _Passed(peer, token):
                    self._tell(pressing=True)  # the answer comes behind all that was said
                    self._send(peer, [messages.Spreaded(token)])
