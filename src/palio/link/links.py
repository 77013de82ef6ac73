"""All links of a server: how they come about, and what becomes of them when frames are lost or servers forget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from palio.errors import CallerError, LimitError, PeerError, brief
from palio.link.frames import Accept, Close, Closed, Data, Frame, Known, Open, Probe, Refuse, Why
from palio.link.link import Link, Opening, Repeated
from palio.link.ports import Down, Event, Host, Keeper, Nothing, Received, Refused, Up, Wish
from palio.link.session import LinkSettings, Session
from palio.routing.messages import Message, Stamp


class Links:
    """The links of one server, by neighbour."""

    def __init__(
        self,
        server: str,
        host: Host,
        settings: LinkSettings,
        keeper: Keeper | None = None,
        limits: tuple[int, ...] = (),
    ) -> None:
        self._server = server
        self._host = host
        self._settings = settings
        self._keeper: Keeper = keeper or Nothing()
        self._is_keeping = keeper is not None
        self._limits = limits
        """What this server takes, as neighbours are told."""
        self._wishes: dict[str, Wish] = {}
        self._reopen: dict[str, int] = {}
        self._opening: dict[str, Opening] = {}
        self._closing: dict[str, dict[Stamp, Repeated]] = {}
        """Ends of links that a neighbour has not heard of; while it cannot be reached there may be several."""
        self._links: dict[str, Link] = {}
        self._last: dict[str, Stamp] = {}
        """The youngest link that each neighbour has opened: older requests are echoes."""
        self._ended: dict[str, Stamp] = {}
        """The last link to each neighbour that was ended on purpose."""
        self._replies: list[tuple[str, Frame]] = []
        self._stirred: dict[str, None] = {}
        """Neighbours for which something may be due now."""
        self._planned: dict[str, int] = {}
        """When to look at a neighbour again."""
        self._plans: list[tuple[int, str]] = []
        """The same as a heap, with plans that do not count any more."""
        self._full: dict[str, None] = {}
        """Neighbours for which so much waits that others are held back."""
        self._has_room = True
        """Whether there is room beside that."""

    # -- wishes --------------------------------------------------------------------------------------------------------

    def connect(self, peer: str, wish: Wish, now: int) -> None:
        """Open a link, and keep it."""
        if peer == self._server:
            raise CallerError(f"{brief(peer)} cannot be linked with itself")
        if peer in self._links or peer in self._opening:
            raise CallerError(f"there is a link to {brief(peer)} already")
        self._wishes[peer] = wish
        self._stirred[peer] = None
        self._keeper.put(("wish", peer), wish)
        self._open(peer, now)

    def disconnect(self, peer: str, now: int) -> list[Event]:
        """End a link on purpose, or give up the wish for one."""
        if peer not in self._links and peer not in self._wishes:
            raise CallerError(f"there is no link to {brief(peer)}")
        self._give_up(peer)
        self._stirred[peer] = None
        self._reopen.pop(peer, None)
        return self._end(peer, Why.ENDED, now)

    def _give_up(self, peer: str) -> None:
        """Wish for a link no longer."""
        if self._wishes.pop(peer, None) is not None:
            self._keeper.delete(("wish", peer))

    def doubt(self, peer: str, now: int) -> None:
        """Find out whether a neighbour still knows the link, if there is one; and say at once what waits for it."""
        link = self._links.get(peer)
        self._stirred[peer] = None
        if link is not None:
            if link.doubt is None:
                link.doubt = Repeated(Probe(link.session.stamp, now), now, self._settings)
            link.session.hasten(now)
        for each in self._repeated(peer, link):
            each.hasten(now)

    def lose(self, peer: str, now: int) -> list[Event]:
        """Give up a link to a neighbour that cannot be reached; one that is wished for begins anew when it can be."""
        self._stirred[peer] = None
        return [*self._end(peer, Why.UNKNOWN, now), *self._drop(peer, now)] if peer in self._links else []

    def _open(self, peer: str, now: int) -> None:
        self._reopen.pop(peer, None)
        architecture, members = self._host.introduction()
        wish = self._wishes[peer]
        frame = Open(self._host.next_stamp(), wish.role, architecture, members, wish.latency, self._limits)
        self._opening[peer] = Opening(frame, Repeated(frame, now, self._settings))

    def _end(self, peer: str, why: Why, now: int) -> list[Event]:
        """Forget a link, or a question for one, and tell the other end until it knows."""
        opening, link = self._opening.pop(peer, None), self._remove(peer, now)
        stamp = opening.frame.session if opening else link.session.stamp if link else None
        if stamp is not None:
            if why is Why.ENDED:
                self._note_end(peer, stamp)
            close = Close(stamp, why)
            self._closing.setdefault(peer, {})[stamp] = Repeated(close, now, self._settings)
            self._keeper.put(("closing", peer, stamp), close)
        return [Down(peer)] if link else []

    def _note_end(self, peer: str, stamp: Stamp) -> None:
        self._ended[peer] = stamp
        self._keeper.put(("ended", peer), stamp)

    # -- what neighbours say -------------------------------------------------------------------------------------------

    def receive(self, peer: str, frame: Frame, now: int) -> list[Event]:
        """A frame has come in."""
        if isinstance(frame, Data):
            return self._data(peer, frame, now)
        self._stirred[peer] = None
        match frame:
            case Probe():
                return self._probed(peer, frame)
            case Open():
                return self._asked(peer, frame, now)
            case Accept():
                return self._accepted(peer, frame, now)
            case Refuse():
                return self._refused(peer, frame)
            case Close():
                self._replies.append((peer, Closed(frame.session)))
                return self._closed(peer, frame, now)
            case Closed():
                self._end_is_known(peer, frame.session)
                return []
            case Known():
                self._settle_doubt(peer, frame)
                return []
        raise PeerError(f"{brief(peer)} sends a frame that is none: {brief(frame)}")

    def _end_is_known(self, peer: str, session: Stamp) -> None:
        closing = self._closing.get(peer, {})
        if closing.pop(session, None) is not None:
            self._keeper.delete(("closing", peer, session))
            if not closing:
                del self._closing[peer]

    def _settle_doubt(self, peer: str, frame: Known) -> None:
        """Only the answer settles a doubt: other frames may be older than the question."""
        link = self._links.get(peer)
        if link is not None and link.doubt is not None and link.doubt.frame == Probe(frame.session, frame.number):
            link.doubt = None

    def _probed(self, peer: str, frame: Probe) -> list[Event]:
        link = self._links.get(peer)
        if link is not None and link.session.stamp == frame.session:
            self._replies.append((peer, Known(frame.session, frame.number)))
        else:
            self._reply_unknown(peer, frame.session)
        return []

    def _data(self, peer: str, frame: Data, now: int) -> list[Event]:
        link = self._links.get(peer)
        if link is None or link.session.stamp != frame.session:
            self._stirred[peer] = None
            opening = self._opening.get(peer)
            if opening is None or opening.frame.session != frame.session:  # otherwise it has overtaken the answer
                self._reply_unknown(peer, frame.session)
            return []
        link.answer = None
        session = link.session
        messages = session.receive(frame, now)
        if peer in self._full and not session.is_full(2):
            self._relieve(peer, now)
        if session.is_due(now):
            self._stirred[peer] = None
        else:
            self._plan(peer, session.deadline)
        return [Received(peer, messages)] if messages else []

    def _reply_unknown(self, peer: str, session: Stamp) -> None:
        closing = self._closing.get(peer, {}).get(session)
        why = Why.ENDED if self._ended.get(peer) == session else Why.UNKNOWN
        self._replies.append((peer, Close(session, why) if closing is None else closing.frame))

    def _asked(self, peer: str, frame: Open, now: int) -> list[Event]:
        stamp, link, opening = frame.session, self._links.get(peer), self._opening.get(peer)
        if link is not None and link.session.stamp == stamp:
            if link.answer is not None:
                self._replies.append((peer, link.answer.frame))
            return []
        last = self._last.get(peer)
        if last is not None and _age(stamp) <= _age(last):
            self._reply_unknown(peer, stamp)
            return []
        if link is not None:
            if link.session.stamp[1] == self._server:
                self.doubt(peer, now)  # if the neighbour has forgotten this link it will say so
                return []
            return self._drop(peer, now)  # it has opened the old one, too, and lost it; it will ask again
        if opening is not None:
            if opening.frame.session < stamp:
                return []  # both have asked; the older request counts
            del self._opening[peer]
        self._last[peer] = stamp
        self._keeper.put(("last", peer), stamp)
        role = _OPPOSITE.get(frame.role)
        if frame.latency < 1:
            self._replies.append((peer, Refuse(stamp, f"a latency of {frame.latency}; it is 1 at least")))
            return []
        if role is None:
            self._replies.append((peer, Refuse(stamp, f"{brief(frame.role)} is none of {', '.join(_OPPOSITE)}")))
            return []
        reason = self._host.refusal(peer, role, frame.architecture, frame.members)
        if reason is not None:
            self._replies.append((peer, Refuse(stamp, reason)))
            return []
        _, members = self._host.introduction()
        answer = Accept(stamp, members, self._limits)
        session = Session(stamp, self._settings)
        self._add(peer, Link(session, role, frame.latency, Repeated(answer, now, self._settings)))
        return [Up(peer, role, stamp, frame.members, members, frame.latency, frame.limits)]

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
            self._end(peer, Why.ENDED, now)
            return [Refused(peer, reason)]
        del self._opening[peer]
        session = Session(asked.session, self._settings)
        session.acknowledge_soon(now)
        self._add(peer, Link(session, asked.role, asked.latency, None))
        return [Up(peer, asked.role, asked.session, frame.members, asked.members, asked.latency, frame.limits)]

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
        link = self._remove(peer, now)
        if peer in self._wishes:
            self._reopen[peer] = now + self._settings.retransmit
        return [Down(peer)] if link else []

    # -- what is kept --------------------------------------------------------------------------------------------------

    def _add(self, peer: str, link: Link) -> None:
        self._reopen.pop(peer, None)
        self._links[peer] = link
        link.session.has_room = self._has_room and not self._full
        link.begin(peer, self._keeper)

    def _remove(self, peer: str, now: int) -> Link | None:
        link = self._links.pop(peer, None)
        if peer in self._full:
            self._relieve(peer, now)
        if link is not None and self._is_keeping:
            for key in link.keys(peer):
                self._keeper.delete(key)
        return link

    def keep(self) -> None:
        """Note how far the sessions have come since the last call."""
        for peer, link in self._links.items():
            link.keep(peer, self._keeper)

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
                case ("closing", peer, stamp):
                    self._closing.setdefault(peer, {})[stamp] = Repeated(value, now, self._settings)
                case ("link", peer):
                    link = self._links[peer] = Link.restored(records, peer, value, now, self._settings)
                    if link.session.is_full():
                        self._full[peer] = None
                    ups.append(Up(peer, link.role, link.session.stamp, (), (), link.latency))
        for peer in self._wishes:
            if peer not in self._links:
                self._reopen[peer] = now
        self._say_room(now)
        for peer in self._links:
            self.doubt(peer, now)
        self._stirred.update(dict.fromkeys([*self._wishes, *self._closing]))
        return ups

    # -- what neighbours are told --------------------------------------------------------------------------------------

    def send(self, peer: str, messages: Sequence[Message], now: int) -> list[Event]:
        """Put messages into the sequence of a link. If too many wait, the link is given up and begins anew."""
        self._stirred[peer] = None
        session = self._links[peer].session
        try:
            session.send(messages)
        except LimitError:
            return self.lose(peer, now)
        if peer not in self._full and session.is_full():
            self._full[peer] = None
            self._say_room(now)
        return []

    def replace(self, peer: str, fit: Callable[[Message], Message]) -> None:
        """Put other messages in the place of those that a neighbour has not acknowledged: it cannot take them."""
        self._links[peer].replace(peer, fit, self._keeper)

    # -- how much there may be -----------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether whoever brings more for neighbours should wait."""
        return bool(self._full)

    def room(self, now: int, *, is_there: bool) -> None:
        """Whether this server can take more from its neighbours, as far as its driver knows."""
        self._has_room = is_there
        self._say_room(now)

    def _relieve(self, peer: str, now: int) -> None:
        """Enough is gone of what waited for a neighbour."""
        del self._full[peer]
        self._say_room(now)

    def _say_room(self, now: int) -> None:
        """Tell those neighbours for whom it has changed whether there is room for what they bring.

        What waits for a neighbour is no reason not to take what that very one brings: else two could wait for each
        other for ever.
        """
        for peer, link in self._links.items():
            has_room = self._has_room and not self._full.keys() - {peer}
            if link.session.has_room != has_room:
                link.session.has_room = has_room
                link.session.acknowledge_soon(now)
                self._stirred[peer] = None

    def frames(self, now: int) -> list[tuple[str, Frame]]:
        """All frames that are due."""
        stirred, self._stirred = self._stirred, {}
        plans = self._plans
        while plans and plans[0][0] <= now:
            time, peer = heappop(plans)
            if self._planned.get(peer) == time:
                del self._planned[peer]
                stirred[peer] = None
        if self._reopen:
            for peer in [peer for peer, time in self._reopen.items() if time <= now]:
                stirred[peer] = None
                self._open(peer, now)
        due, self._replies = self._replies, []
        is_calm = not (self._opening or self._closing or self._reopen)
        for peer in stirred:
            link = self._links.get(peer)
            if not is_calm or (link is not None and (link.answer is not None or link.doubt is not None)):
                for each in self._repeated(peer, link):
                    if each.is_due(now):
                        due.append((peer, each.frame))
                    self._plan(peer, each.at)
                self._plan(peer, self._reopen.get(peer))
            if link is not None:
                session = link.session
                for frame in session.frames(now):
                    due.append((peer, frame))
                self._plan(peer, session.deadline)
        return due

    def _repeated(self, peer: str, link: Link | None) -> Sequence[Repeated]:
        """What is said again and again to a neighbour."""
        found = [*self._closing[peer].values()] if peer in self._closing else []
        if peer in self._opening:
            found.append(self._opening[peer].question)
        if link is not None:
            if link.answer is not None:
                found.append(link.answer)
            if link.doubt is not None:
                found.append(link.doubt)
        return found

    def _plan(self, peer: str, time: int | None) -> None:
        """Note when to look at a neighbour again. A look that turns out to be too early does no harm."""
        if time is not None:
            planned = self._planned.get(peer)
            if planned is None or time < planned:
                self._planned[peer] = time
                heappush(self._plans, (time, peer))

    @property
    def deadline(self) -> int | None:
        """When :meth:`frames` must be asked again at the latest."""
        plans, planned = self._plans, self._planned
        while plans:
            time, peer = plans[0]
            if planned.get(peer) == time:
                return time
            heappop(plans)  # an earlier look has been planned, and taken, since
        return None

    @property
    def wishes(self) -> Mapping[str, Wish]:
        """The neighbours to which this server opens links."""
        return self._wishes

    def unacknowledged(self, peer: str) -> int:
        """Messages of which a neighbour has not said that it has got them."""
        session = self._links[peer].session
        return session.next - session.base

    def latency(self, peer: str) -> int:
        """What the link to a neighbour counts for."""
        return self._links[peer].latency

    @property
    def peers(self) -> Iterable[str]:
        """The neighbours to which there are links."""
        return self._links.keys()


_OPPOSITE = {"peer": "peer", "master": "client", "client": "master", "gateway": "gateway"}


def _age(stamp: Stamp) -> tuple[int, int]:
    """Orders the links that one server has opened."""
    return stamp[2], stamp[0]
