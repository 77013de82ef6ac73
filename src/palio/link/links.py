"""All links of a server: their ends, the time of their next frames, and the limits of waiting messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from palio.errors import CallerError, LimitError, brief
from palio.link.end import End
from palio.link.frames import Data, Frame, Open, Refuse
from palio.link.ports import Down, Host, Keeper, LinkEvent, Nothing, Up, Wish
from palio.link.session import Backlog, LinkSettings, Session
from palio.link.states import Event, State
from palio.routing.messages import Message

_NOTHING_WAITS = Backlog(0, 0, None)
_MOST_DECLINED = 1_000
"""The number of neighbours of which it is known why they were refused."""


class LinkStatus(NamedTuple):
    """The status of the link to one neighbour."""

    state: State
    reason: str
    """Why there is no link, if that is known."""
    is_wanted: bool
    backlog: Backlog


class Links:
    """The links of one server, by neighbour."""

    def __init__(self, server: str, host: Host, settings: LinkSettings, keeper: Keeper | None = None) -> None:
        self._server = server
        self._host = host
        self._settings = settings
        self._keeper: Keeper = keeper or Nothing()
        self._ends: dict[str, End] = {}
        self._sessions: dict[str, Session] = {}
        """The sessions of established links."""
        self._refused: dict[str, None] = {}
        """The neighbours whose wanted links were refused."""
        self.declined: dict[str, str] = {}
        """Why the last question of a neighbour for a link was refused here; the oldest first."""
        self._waiting: dict[str, int] = {}
        """The times at which lost links are opened again."""
        self._replies: list[tuple[str, Frame]] = []
        self._stirred: dict[str, None] = {}
        """The neighbours for which a frame may be due now."""
        self._planned: dict[str, int] = {}
        """The time of the next look at a neighbour."""
        self._plans: list[tuple[int, str]] = []
        """The same as a heap; it contains outdated entries."""
        self._full: dict[str, None] = {}
        """The neighbours with so many waiting messages that others are held back."""
        self._has_room = True
        """Whether the driver has room for more messages."""

    # -- operator and driver -------------------------------------------------------------------------------------------

    def connect(self, peer: str, wish: Wish, now: int) -> list[LinkEvent]:
        """Open a link, and open it again after each loss. Ask again for a refused link.

        If the link is established, another latency takes effect with the next session; :meth:`renew` ends the session.
        """
        if peer == self._server:
            raise CallerError(f"{brief(peer)} cannot be linked with itself")
        end = self._end(peer)
        if end.role not in (None, wish.role):
            raise CallerError(
                f"there is a link to {brief(peer)} already, which is the {end.role} of this server and not its "
                f"{wish.role}; correct the role in one of the two configurations"
            )
        if end.link is not None and end.wish == wish:
            raise CallerError(f"there is a link to {brief(peer)} already")
        return self._happened(end, end.want(wish, now), now)

    def renew(self, peer: str, wish: Wish, now: int, *, latency_counts: bool) -> list[LinkEvent]:
        """End the session of a wanted link if its role or its latency changes; :meth:`connect` opens a new one.

        The neighbour receives the reason. If routing does not use the latency, a new one does not end the session.
        """
        end = self._ends.get(peer)
        if end is None or end.wish is None or end.session is None:
            return []
        changes = _changes(end.wish, wish, latency_counts=latency_counts)
        if not changes:
            return []
        reason = f"{self._server} renews the link, because its configuration has changed: {', '.join(changes)}"
        return self._happened(end, end.happen(Event.DISCONNECT, now, reason=reason), now)

    def disconnect(self, peer: str, now: int, *, bars: bool = True, reason: str = "") -> list[LinkEvent]:
        """End a link, and do not open it again. The neighbour receives the reason.

        If ``bars`` is set, refuse the neighbour from now on, even if there was no link.
        """
        end = self._end(peer)
        if not bars and end.wish is None and end.state is State.IDLE:
            self._happened(end, (), now)
            raise CallerError(f"there is no link to {brief(peer)}")
        end.want_no_longer()
        end.is_barred = bars
        reason = reason or f"the operator of {self._server} has removed the link"
        return self._happened(end, end.happen(Event.DISCONNECT, now, reason=reason), now)

    def allow(self, peer: str) -> None:
        """Accept links from a neighbour again after :meth:`disconnect` has barred it."""
        self.declined.pop(peer, None)
        if peer in self._ends:
            self._ends[peer].allow()

    @property
    def barred(self) -> list[str]:
        """The neighbours that are refused because the operator has removed their links."""
        return [peer for peer, end in self._ends.items() if end.is_barred]

    def break_off(self, peer: str, reason: str, now: int) -> list[LinkEvent]:
        """End a link because the neighbour violates the protocol or the link closes a cycle. It stays wanted."""
        end = self._ends.get(peer)
        return [] if end is None else self._happened(end, end.happen(Event.BREAK, now, reason=reason), now)

    def doubt(self, peer: str, now: int) -> list[LinkEvent]:
        """After a reconnection, ask whether the neighbour still knows the link, and repeat questions now."""
        end = self._ends.get(peer)
        return [] if end is None else self._happened(end, end.try_again(Event.DOUBT, now), now)

    def lose(self, peer: str, now: int, reason: str = "") -> list[LinkEvent]:
        """Drop the link to a neighbour that is unreachable. A wanted link is opened again."""
        end = self._ends.get(peer)
        if end is None:
            return []
        reason = reason or f"{peer} could not be reached for too long"
        return self._happened(end, end.happen(Event.LOSE, now, reason=reason if end.link is not None else ""), now)

    def reconsider(self, now: int) -> list[LinkEvent]:
        """After a change of the network, ask again for links that this server itself had blocked."""
        found: list[LinkEvent] = []
        for peer in list(self._refused):
            end = self._ends[peer]
            found += self._happened(end, end.reconsider(now), now)
        return found

    def wake(self, now: int) -> list[LinkEvent]:
        """Open lost links again whose pause is over."""
        found: list[LinkEvent] = []
        for peer in [peer for peer, time in self._waiting.items() if time <= now]:
            end = self._ends[peer]
            found += self._happened(end, end.try_again(Event.DUE, now), now)
        return found

    # -- frames from neighbours ----------------------------------------------------------------------------------------

    def receive(self, peer: str, frame: Frame, now: int) -> Sequence[LinkEvent]:
        """Handle a frame."""
        end = self._ends.get(peer)
        if isinstance(frame, Data) and end is not None and end.link is not None:
            return self._data(end, frame, now)
        if end is None and isinstance(frame, Open) and not self.make_room(1):
            self._reply(peer, Refuse(frame.session, self._crowded()))
            self._stirred[peer] = None
            return ()
        end = end or self._end(peer)
        events = end.receive_data(frame, now) if isinstance(frame, Data) else end.receive(frame, now)
        if end.declined:
            self._note_declined(end)
        return self._happened(end, events, now)

    def _note_declined(self, end: End) -> None:
        self.declined.pop(end.peer, None)
        self.declined[end.peer], end.declined = end.declined, ""
        if len(self.declined) > _MOST_DECLINED:
            del self.declined[next(iter(self.declined))]

    def _data(self, end: End, frame: Data, now: int) -> Sequence[LinkEvent]:
        events = end.receive_data(frame, now)
        link, peer = end.link, end.peer
        if link is None:
            return self._happened(end, events, now)
        session = link.session
        if peer in self._full and not session.is_full(2):
            self._relieve(peer, now)
        if session.is_due(now) or self._replies:
            self._stirred[peer] = None
        else:
            self._plan(peer, session.deadline)
        return events

    def _end(self, peer: str) -> End:
        end = self._ends.get(peer)
        if end is None:
            end = End((self._server, peer), self._host, self._settings, self._keeper, self._reply)
            self._ends[peer] = end
        return end

    def make_room(self, more: int = 0) -> bool:
        """Whether the server may have an end for so many more neighbours that it did not ask for.

        If there are too many, ends without a link are forgotten: at first those that have nothing but ``Close`` frames
        to repeat, then those whose neighbours have not confirmed a session; of each kind the oldest ones.
        """
        most = self._settings.neighbours - more
        if len(self._ends) <= most:
            return True
        strange = [end for end in self._ends.values() if not end.is_own]
        for state in (State.IDLE, State.ANSWERING):
            for end in [end for end in strange if end.state is state][: max(0, len(strange) - most)]:
                end.abandon()
                del self._ends[end.peer]
                self._refused.pop(end.peer, None)
                self._waiting.pop(end.peer, None)
            strange = [end for end in strange if end.peer in self._ends]
        return len(strange) <= most

    def _crowded(self) -> str:
        return (
            f"{self._server} has links to {self._settings.neighbours:,} neighbours that it did not ask for; "
            "raise links.neighbours there, or let it ask for this link"
        )

    def _reply(self, peer: str, frame: Frame) -> None:
        self._replies.append((peer, frame))

    def _happened(self, end: End, events: Sequence[LinkEvent], now: int) -> list[LinkEvent]:
        """Update the indexes after an event at an end."""
        peer = end.peer
        self._stirred[peer] = None
        for event in events:
            if isinstance(event, Up):
                assert end.link is not None
                self.declined.pop(peer, None)
                session = self._sessions[peer] = end.link.session
                session.has_room = self._has_room and not self._full
            elif isinstance(event, Down):
                del self._sessions[peer]
                if peer in self._full:
                    self._relieve(peer, now)
        self._classify(end)
        if end.is_forgettable:
            del self._ends[peer]
        return list(events)

    def _classify(self, end: End) -> None:
        """Update the indexes of refused and lost links."""
        peer = end.peer
        if end.state is State.REFUSED:
            self._refused[peer] = None
        else:
            self._refused.pop(peer, None)
        if end.reopen_at is not None:
            self._waiting[peer] = end.reopen_at
        else:
            self._waiting.pop(peer, None)

    # -- storage -------------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Record the progress of all sessions since the last call."""
        for peer in self._sessions:
            link = self._ends[peer].link
            assert link is not None
            link.keep(peer, self._keeper)

    def restore(self, records: Mapping[tuple[Any, ...], Any], now: int) -> list[Up]:
        """Restore the ends from the store. Returns the established links; wanted links are opened again."""
        ups = []
        kinds = ("wish", "link", "closing", "answer")
        for peer in dict.fromkeys(key[1] for key in records if key[0] in kinds):
            end = self._end(peer)
            up = end.restore(records, now)
            self._classify(end)
            self._stirred[peer] = None
            if up is not None:
                assert end.link is not None
                ups.append(up)
                session = self._sessions[peer] = end.link.session
                if session.is_full():
                    self._full[peer] = None
        self._say_room(now)
        for up in ups:
            self.doubt(up.peer, now)
        return ups

    # -- messages for neighbours ---------------------------------------------------------------------------------------

    def send(self, peer: str, messages: Sequence[Message], now: int) -> list[LinkEvent]:
        """Send messages over a link. If too many wait, drop the link and begin a new session."""
        self._stirred[peer] = None
        session = self._sessions[peer]
        try:
            session.send(messages, now)
        except LimitError as error:
            return self.lose(peer, now, str(error))
        if peer not in self._full and session.is_full():
            self._full[peer] = None
            self._say_room(now)
        return []

    def session(self, peer: str) -> Session | None:
        """The session of an established link."""
        return self._sessions.get(peer)

    def acknowledge(self, peer: str, now: int) -> None:
        """Acknowledge now what was taken from a neighbour."""
        self._sessions[peer].acknowledge_soon(now)
        self._stirred[peer] = None

    def replace(self, peer: str, fit: Callable[[Message], Message]) -> None:
        """Replace the unacknowledged messages of a link, because the neighbour cannot take them."""
        link = self._ends[peer].link
        assert link is not None
        link.replace(peer, fit, self._keeper)

    # -- flow control --------------------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether publishers should wait, because too many messages wait for a neighbour."""
        return bool(self._full)

    def room(self, now: int, *, is_there: bool) -> None:
        """Set whether the driver has room for more messages of neighbours."""
        self._has_room = is_there
        self._say_room(now)

    def _relieve(self, peer: str, now: int) -> None:
        """The backlog of a neighbour is short again."""
        del self._full[peer]
        self._say_room(now)

    def _say_room(self, now: int) -> None:
        """Inform the neighbours for which it has changed whether they may send messages.

        A backlog for a neighbour does not hold back that neighbour itself: otherwise two servers could wait for each
        other for ever.
        """
        for peer, session in self._sessions.items():
            has_room = self._has_room and not self._full.keys() - {peer}
            if session.has_room != has_room:
                session.has_room = has_room
                session.acknowledge_soon(now)
                self._stirred[peer] = None

    # -- frames to neighbours ------------------------------------------------------------------------------------------

    def frames(self, now: int) -> list[tuple[str, Frame]]:
        """Return all frames that are due."""
        stirred, self._stirred = self._stirred, {}
        plans = self._plans
        while plans and plans[0][0] <= now:
            time, peer = heappop(plans)
            if self._planned.get(peer) == time:
                del self._planned[peer]
                stirred[peer] = None
        due, self._replies = self._replies, []
        for peer in stirred:
            end = self._ends.get(peer)
            if end is None:
                continue
            for each in end.repeated():
                if each.is_due(now):
                    due.append((peer, each.frame))
                self._plan(peer, each.at)
            self._plan(peer, end.reopen_at)
            session = self._sessions.get(peer)
            if session is not None:
                for frame in session.frames(now):
                    due.append((peer, frame))
                self._plan(peer, session.deadline)
        return due

    def _plan(self, peer: str, time: int | None) -> None:
        """Plan the next look at a neighbour. A look that is too early does no harm."""
        if time is not None:
            planned = self._planned.get(peer)
            if planned is None or time < planned:
                self._planned[peer] = time
                heappush(self._plans, (time, peer))

    @property
    def deadline(self) -> int | None:
        """The latest time for the next call of :meth:`frames`."""
        plans, planned = self._plans, self._planned
        while plans:
            time, peer = plans[0]
            if planned.get(peer) == time:
                return time
            heappop(plans)  # outdated: there was an earlier look
        return None

    # -- status --------------------------------------------------------------------------------------------------------

    @property
    def wishes(self) -> dict[str, Wish]:
        """The links that this server opens, by neighbour."""
        return {peer: end.wish for peer, end in self._ends.items() if end.wish is not None}

    def status(self, peer: str) -> LinkStatus:
        """The status of the link to a neighbour, whether there is one or not."""
        end = self._ends.get(peer)
        if end is None:
            return LinkStatus(State.IDLE, "", False, _NOTHING_WAITS)
        session = self._sessions.get(peer)
        backlog = _NOTHING_WAITS if session is None else session.backlog
        return LinkStatus(end.state, end.reason, end.wish is not None, backlog)

    def latency(self, peer: str) -> int:
        """The latency of an established link."""
        link = self._ends[peer].link
        assert link is not None
        return link.latency

    @property
    def peers(self) -> Iterable[str]:
        """The neighbours with established links."""
        return self._sessions.keys()


def _changes(before: Wish, after: Wish, *, latency_counts: bool) -> list[str]:
    """Describe the changes of a wanted link that need a new session.

    >>> _changes(Wish("peer", 1), Wish("peer", 5), latency_counts=True)
    ['the latency from 1 to 5']
    """
    changes = []
    if after.role != before.role:
        changes.append(f"the role from {before.role} to {after.role}")
    if after.latency != before.latency and latency_counts:
        changes.append(f"the latency from {before.latency} to {after.latency}")
    return changes
