"""All links of a server: how they come about, and what becomes of them when frames are lost or servers forget."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from palio.errors import CallerError, LimitError, PeerError, brief
from palio.link.frames import Accept, Close, Data, Frame, Open, Refuse, Why
from palio.link.session import LinkSettings, Session
from palio.routing.messages import Message, Stamp

Members = tuple[tuple[str, Stamp], ...]


class Up(NamedTuple):
    """A link is there; messages may be sent."""

    peer: str
    role: str
    stamp: Stamp
    members: Members
    """What the neighbour brings."""
    told: Members
    """What it was told."""


class Down(NamedTuple):
    """A link is gone, and what was on its way may be lost."""

    peer: str


class Refused(NamedTuple):
    """A link that was wanted will not be."""

    peer: str
    reason: str


class Received(NamedTuple):
    """Messages have arrived, in their order."""

    peer: str
    messages: Sequence[Message]


Event = Up | Down | Refused | Received


class Host(Protocol):
    """What links ask the server."""

    def next_stamp(self) -> Stamp:
        """For a new link."""

    def introduction(self) -> tuple[str, Members]:
        """The architecture, and the servers of the tree."""

    def refusal(self, peer: str, role: str, architecture: str | None, members: Members) -> str | None:
        """Why there cannot be a link to such a neighbour, if so."""


class _Opening:
    """A link that was asked for and not answered yet."""

    __slots__ = ("at", "frame", "patience")

    def __init__(self, frame: Open, at: int, patience: int) -> None:
        self.frame, self.at, self.patience = frame, at, patience


class _Link:
    """A link that is there."""

    __slots__ = ("answer", "at", "kept", "patience", "role", "session")

    def __init__(self, session: Session, role: str, answer: Accept | None, now: int, patience: int) -> None:
        self.session, self.role, self.patience = session, role, patience
        self.answer = answer
        """Repeated until the other end shows that it has got it."""
        self.at = now if answer is not None else None
        """When to repeat it."""
        self.kept = session.base, session.next, session.expected
        """What the journal knows of the session."""


class Keeper(Protocol):
    """Where links note what must survive, if anything must."""

    def put(self, key: tuple[Hashable, ...], value: object) -> None:
        """The record of a key is this from now on."""

    def delete(self, key: tuple[Hashable, ...]) -> None:
        """There is no record of a key any more."""


class Nothing:
    """Keeps nothing."""

    def put(self, key: tuple[Hashable, ...], value: object) -> None:
        """Do nothing."""

    def delete(self, key: tuple[Hashable, ...]) -> None:
        """Do nothing."""


class Links:
    """The links of one server, by neighbour."""

    def __init__(self, server: str, host: Host, settings: LinkSettings, keeper: Keeper | None = None) -> None:
        self._server = server
        self._host = host
        self._settings = settings
        self._keeper: Keeper = keeper or Nothing()
        self._is_keeping = keeper is not None
        self._wishes: dict[str, str] = {}
        """Neighbours to which this server opens links, and opens them again when they are lost; with their roles."""
        self._reopen: dict[str, int] = {}
        self._opening: dict[str, _Opening] = {}
        self._links: dict[str, _Link] = {}
        self._last: dict[str, Stamp] = {}
        """The youngest link that each neighbour has opened: older requests are echoes."""
        self._ended: dict[str, Stamp] = {}
        """The last link to each neighbour that was ended on purpose."""
        self._replies: list[tuple[str, Frame]] = []

    # -- wishes --------------------------------------------------------------------------------------------------------

    def connect(self, peer: str, role: str, now: int) -> None:
        """Open a link, and keep it; ``role`` is what the neighbour will be."""
        if peer == self._server:
            raise CallerError(f"{brief(peer)} cannot be linked with itself")
        if peer in self._links or peer in self._opening:
            raise CallerError(f"there is a link to {brief(peer)} already")
        self._wishes[peer] = role
        self._keeper.put(("wish", peer), role)
        self._open(peer, now)

    def disconnect(self, peer: str) -> list[Event]:
        """End a link on purpose, or give up the wish for one."""
        if peer not in self._links and peer not in self._wishes:
            raise CallerError(f"there is no link to {brief(peer)}")
        self._give_up(peer)
        self._reopen.pop(peer, None)
        return self._end(peer, Why.ENDED)

    def _give_up(self, peer: str) -> None:
        """Wish for a link no longer."""
        if self._wishes.pop(peer, None) is not None:
            self._keeper.delete(("wish", peer))

    def doubt(self, peer: str, now: int) -> None:
        """Find out whether a neighbour still knows the link, if there is one."""
        if peer in self._links:
            self._links[peer].session.acknowledge_soon(now)

    def _open(self, peer: str, now: int) -> None:
        self._reopen.pop(peer, None)
        architecture, members = self._host.introduction()
        frame = Open(self._host.next_stamp(), self._wishes[peer], architecture, members)
        self._opening[peer] = _Opening(frame, now, self._settings.retransmit)

    def _end(self, peer: str, why: Why) -> list[Event]:
        opening, link = self._opening.pop(peer, None), self._remove(peer)
        stamp = opening.frame.session if opening else link.session.stamp if link else None
        if stamp is not None:
            if why is Why.ENDED:
                self._note_end(peer, stamp)
            self._replies.append((peer, Close(stamp, why)))
        return [Down(peer)] if link else []

    def _note_end(self, peer: str, stamp: Stamp) -> None:
        self._ended[peer] = stamp
        self._keeper.put(("ended", peer), stamp)

    # -- what neighbours say -------------------------------------------------------------------------------------------

    def receive(self, peer: str, frame: Frame, now: int) -> list[Event]:
        """A frame has come in."""
        match frame:
            case Data():
                return self._data(peer, frame, now)
            case Open():
                return self._asked(peer, frame, now)
            case Accept():
                return self._accepted(peer, frame, now)
            case Refuse():
                return self._refused(peer, frame)
            case Close():
                return self._closed(peer, frame, now)
        raise PeerError(f"{brief(peer)} sends a frame that is none: {brief(frame)}")

    def _data(self, peer: str, frame: Data, now: int) -> list[Event]:
        link = self._links.get(peer)
        if link is None or link.session.stamp != frame.session:
            opening = self._opening.get(peer)
            if opening is None or opening.frame.session != frame.session:  # otherwise it has overtaken the answer
                self._reply_unknown(peer, frame.session)
            return []
        if link.answer is not None:
            link.answer = link.at = None
            self._keeper.put(("link", peer), (frame.session, link.role, None))
        messages = link.session.receive(frame, now)
        return [Received(peer, messages)] if messages else []

    def _reply_unknown(self, peer: str, session: Stamp) -> None:
        why = Why.ENDED if self._ended.get(peer) == session else Why.UNKNOWN
        self._replies.append((peer, Close(session, why)))

    def _asked(self, peer: str, frame: Open, now: int) -> list[Event]:
        stamp, link, opening = frame.session, self._links.get(peer), self._opening.get(peer)
        if link is not None and link.session.stamp == stamp:
            if link.answer is not None:
                self._replies.append((peer, link.answer))
            return []
        last = self._last.get(peer)
        if last is not None and _age(stamp) <= _age(last):
            self._reply_unknown(peer, stamp)
            return []
        events: list[Event] = []
        if link is not None:
            if link.session.stamp[1] == self._server:
                link.session.acknowledge_soon(now)  # if the neighbour has forgotten this link it will say so
                return []
            events += self._drop(peer, now)  # it has opened the old one, too, and so knows that it is no more
        if opening is not None:
            if opening.frame.session < stamp:
                return events  # both have asked; the older request counts
            del self._opening[peer]
        self._last[peer] = stamp
        self._keeper.put(("last", peer), stamp)
        role = _OPPOSITE[frame.role]
        reason = self._host.refusal(peer, role, frame.architecture, frame.members)
        if reason is not None:
            self._replies.append((peer, Refuse(stamp, reason)))
            return events
        _, members = self._host.introduction()
        answer = Accept(stamp, members)
        session = Session(stamp, self._settings)
        self._add(peer, _Link(session, role, answer, now, self._settings.retransmit))
        return [*events, Up(peer, role, stamp, frame.members, members)]

    def _accepted(self, peer: str, frame: Accept, now: int) -> list[Event]:
        opening = self._opening.get(peer)
        if opening is None or opening.frame.session != frame.session:
            link = self._links.get(peer)
            if link is None or link.session.stamp != frame.session:
                self._reply_unknown(peer, frame.session)
            else:
                link.session.acknowledge_soon(now)
            return []
        asked = opening.frame
        reason = self._host.refusal(peer, asked.role, None, frame.members)
        if reason is not None:
            self._give_up(peer)
            self._end(peer, Why.ENDED)
            return [Refused(peer, reason)]
        del self._opening[peer]
        session = Session(asked.session, self._settings)
        session.acknowledge_soon(now)
        self._add(peer, _Link(session, asked.role, None, now, 0))
        return [Up(peer, asked.role, asked.session, frame.members, asked.members)]

    def _refused(self, peer: str, frame: Refuse) -> list[Event]:
        opening = self._opening.get(peer)
        if opening is None or opening.frame.session != frame.session:
            return []
        del self._opening[peer]
        self._give_up(peer)
        return [Refused(peer, frame.reason)]

    def _closed(self, peer: str, frame: Close, now: int) -> list[Event]:
        opening, link = self._opening.get(peer), self._links.get(peer)
        if opening is not None and opening.frame.session == frame.session:
            del self._opening[peer]
        elif link is None or link.session.stamp != frame.session:
            return []
        if frame.why is Why.ENDED:
            self._give_up(peer)
            self._note_end(peer, frame.session)
        return self._drop(peer, now)

    def _drop(self, peer: str, now: int) -> list[Event]:
        """Forget a link; one that is wished for is opened again."""
        link = self._remove(peer)
        if peer in self._wishes:
            self._reopen[peer] = now + self._settings.retransmit
        return [Down(peer)] if link else []

    # -- what is kept --------------------------------------------------------------------------------------------------

    def _add(self, peer: str, link: _Link) -> None:
        self._links[peer] = link
        self._keeper.put(("link", peer), (link.session.stamp, link.role, link.answer))

    def _remove(self, peer: str) -> _Link | None:
        link = self._links.pop(peer, None)
        if link is not None and self._is_keeping:
            base, end, _ = link.kept
            for key in (("link", peer), ("base", peer), ("in", peer), *(("out", peer, n) for n in range(base, end))):
                self._keeper.delete(key)
        return link

    def keep(self) -> None:
        """Note how far the sessions have come since the last call."""
        for peer, link in self._links.items():
            session, (base, end, expected) = link.session, link.kept
            link.kept = session.base, session.next, session.expected
            if session.base != base:
                self._keeper.put(("base", peer), session.base)
                for number in range(base, min(session.base, end)):
                    self._keeper.delete(("out", peer, number))
            if session.expected != expected:
                self._keeper.put(("in", peer), session.expected)
            if session.next != end:
                for number, message in session.messages_from(max(end, session.base)):
                    self._keeper.put(("out", peer, number), message)

    def restore(self, records: Mapping[tuple[Any, ...], Any], now: int) -> list[Up]:
        """Take back what was kept; the links that are there. Links that were wished for are opened again."""
        ups = []
        for key, value in records.items():
            match key:
                case ("wish", peer):
                    self._wishes[peer] = value
                case ("last", peer):
                    self._last[peer] = value
                case ("ended", peer):
                    self._ended[peer] = value
                case ("link", peer):
                    stamp, role, answer = value
                    self._links[peer] = _Link(self._session(records, peer, stamp), role, answer, now, 0)
                    self._links[peer].patience = self._settings.retransmit
                    ups.append(Up(peer, role, stamp, (), ()))
        for peer in self._wishes:
            if peer not in self._links:
                self._reopen[peer] = now
        for link in self._links.values():
            link.session.acknowledge_soon(now)
        return ups

    def _session(self, records: Mapping[tuple[Any, ...], Any], peer: str, stamp: Stamp) -> Session:
        base = records.get(("base", peer), 0)
        outbox: list[Message] = []
        while ("out", peer, base + len(outbox)) in records:
            outbox.append(records["out", peer, base + len(outbox)])
        expected = records.get(("in", peer), 0)
        return Session(stamp, self._settings, expected=expected, base=base, outbox=outbox)

    # -- what neighbours are told --------------------------------------------------------------------------------------

    def send(self, peer: str, messages: Sequence[Message], now: int) -> list[Event]:
        """Put messages into the sequence of a link. If too many wait, the link is given up and begins anew."""
        try:
            self._links[peer].session.send(messages)
        except LimitError:
            self._replies.append((peer, Close(self._links[peer].session.stamp, Why.UNKNOWN)))
            return self._drop(peer, now)
        return []

    def frames(self, now: int) -> list[tuple[str, Frame]]:
        """All frames that are due."""
        for peer in [peer for peer, time in self._reopen.items() if now >= time]:
            self._open(peer, now)
        due, self._replies = self._replies, []
        for peer, opening in self._opening.items():
            if now >= opening.at:
                opening.at, opening.patience = self._later(now, opening.patience)
                due.append((peer, opening.frame))
        for peer, link in self._links.items():
            if link.answer is not None and link.at is not None and now >= link.at:
                link.at, link.patience = self._later(now, link.patience)
                due.append((peer, link.answer))
            due.extend((peer, frame) for frame in link.session.frames(now))
        return due

    def _later(self, now: int, patience: int) -> tuple[int, int]:
        return now + patience, min(2 * patience, self._settings.most_patience)

    @property
    def deadline(self) -> int | None:
        """When :meth:`frames` must be asked again at the latest."""
        times: list[int | None] = [*self._reopen.values(), *(opening.at for opening in self._opening.values())]
        for link in self._links.values():
            times += [link.at, link.session.deadline]
        return min((time for time in times if time is not None), default=None)

    @property
    def wishes(self) -> Mapping[str, str]:
        """The neighbours to which this server opens links, with their roles."""
        return self._wishes

    @property
    def peers(self) -> Iterable[str]:
        """The neighbours to which there are links."""
        return self._links.keys()


_OPPOSITE = {"peer": "peer", "master": "client", "client": "master"}


def _age(stamp: Stamp) -> tuple[int, int]:
    """Orders the links that one server has opened."""
    return stamp[2], stamp[0]
