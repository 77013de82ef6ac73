"""One end of a link: the state that one server keeps for its link to one neighbour.

:mod:`palio.link.states` has the table of states, events and actions. This module classifies frames as events and
performs the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from palio.errors import brief
from palio.link.frames import Accept, Close, Closed, Data, Frame, Known, Open, Probe, Refuse, Why
from palio.link.link import Link, Repeated
from palio.link.ports import Down, Host, Keeper, LinkEvent, Received, Refused, Up, Wish
from palio.link.session import BrokenSequenceError, LinkSettings, Session
from palio.link.states import TRANSITIONS, Action, Event, State
from palio.routing.messages import Stamp, has_bad_stamp

OPPOSITE = {"peer": "peer", "master": "client", "client": "master", "gateway": "gateway"}
"""The role of a server for its neighbour, by the role of the neighbour for the server."""
MOST_CLOSING = 16
"""The number of ``Close`` frames that an end repeats to one neighbour. For older sessions it answers questions only."""

Reply = Callable[[str, Frame], None]
"""Sends a frame to a neighbour."""


class End:
    """The end at one server of the link to one neighbour."""

    __slots__ = (
        "_answer",
        "_host",
        "_keeper",
        "_pause",
        "_question",
        "_received",
        "_reply",
        "_settings",
        "_told",
        "_up_at",
        "closing",
        "declined",
        "is_barred",
        "is_blocked",
        "link",
        "peer",
        "reason",
        "reopen_at",
        "server",
        "state",
        "wish",
    )

    def __init__(self, ends: tuple[str, str], host: Host, settings: LinkSettings, keeper: Keeper, reply: Reply) -> None:
        """Create the end of a link. ``ends`` has this server and the neighbour; ``reply`` sends answers to frames."""
        self.server, self.peer = ends
        self._host, self._settings, self._keeper, self._reply = host, settings, keeper, reply
        self.state = State.IDLE
        self.wish: Wish | None = None
        """The link that this end opens, and opens again after a loss; ``None`` if it only accepts."""
        self.reason = ""
        """Why there is no link, if this end knows."""
        self.declined = ""
        """Why this end has refused the last ``Open`` of the neighbour; empty if it has not."""
        self.is_barred = False
        """Whether the operator has removed the link here, so that this end refuses the neighbour."""
        self.is_blocked = False
        """For a refused link: whether this server itself knew a reason against it at the last attempt."""
        self.link: Link | None = None
        self.reopen_at: int | None = None
        self._pause = settings.retransmit
        """The pause after the next loss. It doubles with each loss, until a link has lasted for a while."""
        self._up_at = 0
        self.closing: dict[Stamp, Repeated[Close]] = {}
        """The ``Close`` frames that the neighbour has not answered, by session."""
        self._question: Repeated[Open] | Repeated[Probe] | None = None
        """The ``Open`` or the ``Probe`` that the neighbour has not answered."""
        self._answer: tuple[Open, Repeated[Accept]] | None = None
        """The ``Open`` that this end has accepted, and its ``Accept``, which the neighbour has not confirmed."""
        self._told: list[LinkEvent] = []
        self._received: Frame | None = None

    # -- events --------------------------------------------------------------------------------------------------------

    def happen(self, event: Event, now: int, frame: Frame | None = None, reason: str = "") -> list[LinkEvent]:
        """Perform a transition of the table. Returns the events for the server."""
        state, actions = TRANSITIONS[self.state, event]
        if reason:
            self.reason = reason
        self._received = frame
        for action in actions:
            _DO[action](self, now)
        if self.wish is None and state in (State.WAITING, State.REFUSED):
            state = State.IDLE
        if state is State.WAITING and self.state is not State.WAITING:
            self.reopen_at = now + self._pause
            self._pause = min(2 * self._pause, self._settings.most_patience)
        elif state is not State.WAITING:
            self.reopen_at = None
        if state is State.REFUSED and self.state is not State.REFUSED:
            self.is_blocked = event is Event.BLOCKED
        self.state = state
        told, self._told = self._told, []
        return told

    def want(self, wish: Wish, now: int) -> list[LinkEvent]:
        """Open the link, and open it again after each loss."""
        self._set_wish(wish)
        self.allow()
        return self.try_again(Event.CONNECT, now)

    def allow(self) -> None:
        """Accept the neighbour's questions again; why an earlier link has ended does not matter any more."""
        self.is_barred = False
        if self.state is State.IDLE:
            self.reason = ""

    def try_again(self, event: Event, now: int) -> list[LinkEvent]:
        """Handle an event that makes this end ask for a wanted link. If the host has an obstacle, do not ask."""
        reason = None if self.wish is None else self._host.obstacle(self.peer, self.wish)
        if reason is None or TRANSITIONS[self.state, event].state is not State.ASKING:
            return self.happen(event, now)
        self._hasten(now)
        is_known = self.state is State.REFUSED and self.reason == reason and event is not Event.CONNECT
        self.is_blocked = True
        return [] if is_known else self.happen(Event.BLOCKED, now, reason=reason)

    def want_no_longer(self) -> None:
        """Do not open the link again. An established link stays."""
        self._set_wish(None)

    def _set_wish(self, wish: Wish | None) -> None:
        if wish != self.wish:
            self.wish = wish
            if wish is None:
                self._keeper.delete(("wish", self.peer))
            else:
                self._keeper.put(("wish", self.peer), wish)

    def reconsider(self, now: int) -> list[LinkEvent]:
        """After a change of the network, ask again for a link that this server itself had blocked.

        The neighbour may have refused it because of a cycle of which this server gets to know later. Other obstacles
        say nothing about its reason: two links that exclude each other would be asked for in turn for ever.
        """
        assert self.wish is not None
        was_blocked = self.is_blocked
        self.is_blocked = self._host.obstacle(self.peer, self.wish, only_cycles=not was_blocked) is not None
        return self.happen(Event.RETRY, now) if was_blocked and not self.is_blocked else []

    # -- frames --------------------------------------------------------------------------------------------------------

    def receive(self, frame: Frame, now: int) -> list[LinkEvent]:
        """Handle a frame of the neighbour other than data."""
        event, reason = _CLASSIFY[type(frame)](self, frame)
        return self.happen(event, now, frame, reason)

    def receive_data(self, frame: Data, now: int) -> Sequence[LinkEvent]:
        """Handle data. This is the hot path: the row of the table for data of the session is inlined here."""
        link = self.link
        if link is not None and link.session.stamp == frame.session:
            try:
                messages = link.session.receive(frame, now)
            except BrokenSequenceError as error:
                reason = f"{self.server} came back with an older state of the link: {error}"
                return self.happen(Event.DATA_BROKEN, now, frame, reason)
            return (Received(self.peer, messages),) if messages else ()
        if self.session != frame.session:
            return self.happen(Event.DATA_OTHER, now, frame)
        if self._answer is None or frame.first or frame.expected:
            return self.happen(Event.DATA_EARLY, now, frame)
        asked = self._answer[0]
        refusal = self._host.refusal(self.peer, OPPOSITE[asked.role], None, asked.members)
        if refusal is None:
            return self.happen(Event.CONFIRM, now, frame)
        return self.happen(Event.CONFIRM_REFUSED, now, frame, refusal)

    @property
    def session(self) -> Stamp | None:
        """The stamp of the session that this end has, has accepted, or has asked for."""
        if self.link is not None:
            return self.link.session.stamp
        if self._answer is not None:
            return self._answer[0].session
        return self._question.frame.session if self._question is not None else None

    @property
    def role(self) -> str | None:
        """The role of the neighbour in the link that this end has, or has accepted."""
        if self.link is not None:
            return self.link.role
        return None if self._answer is None else OPPOSITE[self._answer[0].role]

    def _classify_open(self, frame: Open) -> tuple[Event, str]:
        if frame.session in self.closing:
            return Event.OPEN_ENDED, ""
        if frame.session == self.session:
            return Event.OPEN_AGAIN, ""
        if self.state in (State.ANSWERING, State.UP, State.DOUBTED):
            return Event.OPEN_OTHER, ""
        if self.state is State.ASKING and self.session is not None and self.session < frame.session:
            return Event.OPEN_YOUNGER, ""
        return (Event.OPEN, "") if self._refusal(frame) is None else (Event.OPEN_REFUSED, "")

    def _refusal(self, frame: Open) -> str | None:
        if frame.latency < 1:
            return f"the latency is {frame.latency}; the least is 1"
        if has_bad_stamp(frame.session, frame.members):
            return "the number of a stamp is too high"
        role = OPPOSITE.get(frame.role)
        if role is None:
            return f"the role is {brief(frame.role)}; it must be one of {', '.join(OPPOSITE)}"
        if self.is_barred:
            return (
                f"the operator of {self.server} has removed the link to {self.peer}; "
                f"`palio net link add {self.peer}` at {self.server} allows it again"
            )
        return self._host.refusal(self.peer, role, frame.architecture, frame.members)

    def _classify_accept(self, frame: Accept) -> tuple[Event, str]:
        if self.state is State.ASKING and frame.session == self.session:
            assert self.wish is not None
            reason = self._host.refusal(self.peer, self.wish.role, None, frame.members)
            if has_bad_stamp(frame.session, frame.members):
                reason = "the number of a stamp is too high"
            return (Event.ACCEPT, "") if reason is None else (Event.ACCEPT_REFUSED, reason)
        if self.link is None or self.link.session.stamp != frame.session:
            return Event.ACCEPT_OTHER, ""
        return (Event.ACCEPT_AGAIN if self.link.session.is_fresh else Event.ACCEPT_LATE), ""

    def _classify_refuse(self, frame: Refuse) -> tuple[Event, str]:
        if self.state is State.ASKING and frame.session == self.session:
            return Event.REFUSE, frame.reason
        return Event.REFUSE_OTHER, ""

    def _classify_close(self, frame: Close) -> tuple[Event, str]:
        if self.session is None or frame.session != self.session:
            return Event.CLOSE_OTHER, ""
        if frame.why is Why.ENDED:
            return Event.CLOSE_ENDED, frame.reason or f"{self.peer} has ended the link"
        return Event.CLOSE, frame.reason or f"{self.peer} does not know the link any more"

    def _classify_closed(self, _frame: Closed) -> tuple[Event, str]:
        return Event.CLOSED, ""

    def _classify_probe(self, frame: Probe) -> tuple[Event, str]:
        has_session = self.state in (State.ANSWERING, State.UP, State.DOUBTED)
        return (Event.PROBE if has_session and frame.session == self.session else Event.PROBE_OTHER), ""

    def _classify_known(self, frame: Known) -> tuple[Event, str]:
        """Accept only the answer to the current ``Probe``: other frames may be older than the question."""
        asked = self._question.frame if self._question is not None else None
        if self.state is not State.DOUBTED or asked != Probe(frame.session, frame.number):
            return Event.KNOWN_OTHER, ""
        assert self.link is not None
        contradiction = self.link.session.contradiction(frame)
        if contradiction is None:
            return Event.KNOWN, ""
        older = self.server if contradiction.is_here else self.peer
        return Event.KNOWN_ELSE, f"{older} came back with an older state of the link: {contradiction.text}"

    # -- actions -------------------------------------------------------------------------------------------------------

    def _ask(self, now: int) -> None:
        assert self.wish is not None
        architecture, members, limits = self._host.introduction()
        frame = Open(self._host.next_stamp(), self.wish.role, architecture, members, self.wish.latency, limits)
        self._question = Repeated(frame, now, self._settings)

    def _answer_open(self, now: int) -> None:
        frame = self._received
        assert isinstance(frame, Open)
        self._question = None
        _, members, limits = self._host.introduction()
        answer = Accept(frame.session, members, limits)
        self._answer = frame, Repeated(answer, now, self._settings)
        self._keeper.put(("answer", self.peer), (frame, answer))  # the neighbour may send messages as soon as it has it

    def _forget_answer(self) -> None:
        if self._answer is not None:
            self._answer = None
            self._keeper.delete(("answer", self.peer))

    def _answer_again(self, _now: int) -> None:
        assert self._answer is not None
        self._reply(self.peer, self._answer[1].frame)

    def _refuse(self, _now: int) -> None:
        frame = self._received
        assert isinstance(frame, Open)
        reason = self._refusal(frame)
        assert reason is not None
        self.declined = reason
        self._reply(self.peer, Refuse(frame.session, reason))

    def _establish(self, now: int) -> None:
        """Establish the link: with the ``Accept`` at the end that asked, with the confirmation at the other end."""
        other: Open | Accept
        if self._answer is not None:
            asked, answer = self._answer
            role, other, told = OPPOSITE[asked.role], asked, answer.frame.members
        else:
            assert self._question is not None
            assert isinstance(self._question.frame, Open)
            assert isinstance(self._received, Accept)
            asked = self._question.frame
            role, other, told = asked.role, self._received, asked.members
        self._question = None
        self._forget_answer()
        self.reason, self._up_at = "", now
        self.link = Link(Session(asked.session, self._settings), role, asked.latency)
        self.link.begin(self.peer, self._keeper)
        self._told.append(Up(self.peer, role, asked.session, other.members, told, asked.latency, other.limits))

    def _acknowledge(self, now: int) -> None:
        assert self.link is not None
        self.link.session.acknowledge_soon(now)

    def _probe(self, now: int) -> None:
        assert self.link is not None
        if self._question is None:
            self._question = Repeated(Probe(self.link.session.stamp, now), now, self._settings)
            self.link.session.suspend()

    def _trust(self, now: int) -> None:
        assert self.link is not None
        self._question = None
        self.link.session.resume(now)

    def _reply_known(self, _now: int) -> None:
        frame = self._received
        assert isinstance(frame, Probe)
        session = self.link.session if self.link is not None else Session(frame.session, self._settings)
        self._reply(self.peer, Known(frame.session, frame.number, *session.positions))

    def _reply_unknown(self, _now: int) -> None:
        assert self._received is not None
        session = self._received.session
        closing = self.closing.get(session)
        self._reply(self.peer, Close(session, Why.UNKNOWN) if closing is None else closing.frame)

    def _reply_closed(self, _now: int) -> None:
        assert self._received is not None
        self._reply(self.peer, Closed(self._received.session))

    def _hasten(self, now: int) -> None:
        if self.link is not None:
            self.link.session.hasten(now)
        for each in self.repeated():
            each.hasten(now)

    def _take(self, now: int) -> None:
        assert self.link is not None
        assert isinstance(self._received, Data)
        messages = self.link.session.receive(self._received, now)
        if messages:
            self._told.append(Received(self.peer, messages))

    def _forget_closed(self, _now: int) -> None:
        assert self._received is not None
        if self.closing.pop(self._received.session, None) is not None:
            self._keeper.delete(("closing", self.peer, self._received.session))

    def _end(self, now: int) -> None:
        self._close(Why.ENDED, now)

    def _drop(self, now: int) -> None:
        self._close(Why.UNKNOWN, now)

    def _close(self, why: Why, now: int) -> None:
        session = self.session
        if session is not None:
            while len(self.closing) >= MOST_CLOSING:
                self._keeper.delete(("closing", self.peer, oldest := next(iter(self.closing))))
                del self.closing[oldest]
            close = Close(session, why, self.reason)
            self.closing[session] = Repeated(close, now, self._settings)
            self._keeper.put(("closing", self.peer, session), close)
        self._forget(now)

    def _forget(self, now: int) -> None:
        self._question = None
        self._forget_answer()
        link, self.link = self.link, None
        if link is not None:
            if now - self._up_at >= self._settings.most_patience:
                self._pause = self._settings.retransmit
            for key in link.keys(self.peer):
                self._keeper.delete(key)
            self._told.append(Down(self.peer, self.reason, link.session.publications))

    def _report(self, _now: int) -> None:
        if self.wish is not None:
            self._told.append(Refused(self.peer, self.reason))

    # -- storage and repetition ----------------------------------------------------------------------------------------

    def restore(self, records: Mapping[tuple[Any, ...], Any], now: int) -> Up | None:
        """Restore this end from the records of the store. Returns the link, if there is one."""
        self.wish = records.get(("wish", self.peer))
        for key, close in records.items():
            if key[:2] == ("closing", self.peer):
                self.closing[key[2]] = Repeated(close, now, self._settings)
        begun = records.get(("link", self.peer))
        answered = records.get(("answer", self.peer))
        if begun is None and answered is not None:
            asked, answer = answered
            self._answer = asked, Repeated(answer, now, self._settings)
            self.state = State.ANSWERING
            return None
        if begun is None:
            if self.wish is not None:
                self.state, self.reopen_at = State.WAITING, now
            return None
        self.link = Link.restored(records, self.peer, begun, self._settings)
        self.state = State.UP
        link = self.link
        return Up(self.peer, link.role, link.session.stamp, (), (), link.latency)

    def repeated(self) -> list[Repeated[Any]]:
        """The frames that this end repeats until the neighbour answers them."""
        found: list[Repeated[Any]] = [*self.closing.values()] if self.closing else []
        if self._question is not None:
            found.append(self._question)
        if self._answer is not None:
            found.append(self._answer[1])
        return found

    def abandon(self) -> None:
        """Forget everything without telling the neighbour. It receives ``Close`` if it asks about a session."""
        for session in self.closing:
            self._keeper.delete(("closing", self.peer, session))
        self.closing.clear()
        self._forget_answer()
        if self.state is State.ANSWERING:
            self.state = State.IDLE

    @property
    def is_own(self) -> bool:
        """Whether this server wants the link, or its operator has removed it: neighbours cannot add to these."""
        return self.wish is not None or self.is_barred

    @property
    def is_forgettable(self) -> bool:
        """Whether this end has no state worth keeping."""
        return self.state is State.IDLE and self.wish is None and not self.closing and not self.is_barred


_CLASSIFY: dict[type[Frame], Callable[[End, Any], tuple[Event, str]]] = {
    Open: End._classify_open,
    Accept: End._classify_accept,
    Refuse: End._classify_refuse,
    Close: End._classify_close,
    Closed: End._classify_closed,
    Probe: End._classify_probe,
    Known: End._classify_known,
}

_DO: dict[Action, Callable[[End, int], None]] = {
    Action.ASK: End._ask,
    Action.ANSWER: End._answer_open,
    Action.ANSWER_AGAIN: End._answer_again,
    Action.REFUSE: End._refuse,
    Action.ESTABLISH: End._establish,
    Action.ACKNOWLEDGE: End._acknowledge,
    Action.PROBE: End._probe,
    Action.TRUST: End._trust,
    Action.REPLY_KNOWN: End._reply_known,
    Action.REPLY_UNKNOWN: End._reply_unknown,
    Action.REPLY_CLOSED: End._reply_closed,
    Action.HASTEN: End._hasten,
    Action.TAKE: End._take,
    Action.FORGET_CLOSED: End._forget_closed,
    Action.END: End._end,
    Action.DROP: End._drop,
    Action.FORGET: End._forget,
    Action.REPORT: End._report,
}
