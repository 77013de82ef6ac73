"""An established link: its session and its records in the store. Also frames that are repeated until answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar

from palio.link.frames import Accept, Frame
from palio.link.ports import Keeper
from palio.link.session import LinkSettings, Session
from palio.routing.messages import Message, Stamp

F_co = TypeVar("F_co", bound=Frame, covariant=True)


class Repeated(Generic[F_co]):
    """A frame that is sent again, with growing pauses, until there is an answer."""

    __slots__ = ("_least", "_most", "at", "frame", "patience")

    def __init__(self, frame: F_co, now: int, settings: LinkSettings) -> None:
        self.frame: F_co = frame
        self.at = now
        self.patience = self._least = settings.retransmit
        self._most = settings.most_patience

    def is_due(self, now: int) -> bool:
        """Whether to send the frame now. If so, the next pause is twice as long."""
        if now < self.at:
            return False
        self.at = now + self.patience
        self.patience = min(2 * self.patience, self._most)
        return True

    def hasten(self, now: int) -> None:
        """Send the frame now, and begin with the shortest pause again."""
        self.at, self.patience = now, self._least


class Link:
    """An established link."""

    __slots__ = ("_kept", "_parcels", "latency", "role", "session")

    def __init__(self, session: Session, role: str, latency: int) -> None:
        self.session, self.role, self.latency = session, role, latency
        self._kept = session.base, session.next, session.expected
        """The sequence numbers that are in the store."""
        self._parcels: deque[tuple[int, int]] = deque()
        """Messages that share one record: the number of the first, and the number after the last."""

    def begin(self, peer: str, keeper: Keeper) -> None:
        """Record that the link is established."""
        keeper.put(("link", peer), (self.session.stamp, self.role, self.latency, None))

    def keep(self, peer: str, keeper: Keeper) -> None:
        """Record the progress of the session since the last call.

        The messages that were sent since then share one record, which is deleted when all are acknowledged.
        """
        session, (base, end, expected) = self.session, self._kept
        if (session.base, session.next, session.expected) == self._kept:
            return
        self._kept = session.base, session.next, session.expected
        if session.base != base:
            keeper.put(("base", peer), session.base)
            while self._parcels and self._parcels[0][1] <= session.base:
                keeper.delete(("out", peer, self._parcels.popleft()[0]))
        if session.expected != expected:
            keeper.put(("in", peer), session.expected)
        first = max(end, session.base)
        if session.next > first:
            self._parcels.append((first, session.next))
            keeper.put(("out", peer, first), session.messages_from(first))

    def replace(self, peer: str, fit: Callable[[Message], Message], keeper: Keeper) -> None:
        """Replace the messages that are not acknowledged, and their records."""
        self.keep(peer, keeper)
        self.session.replace(fit)
        for first, _ in self._parcels:
            keeper.delete(("out", peer, first))
        self._parcels.clear()
        base = self.session.base
        if self.session.next > base:
            self._parcels.append((base, self.session.next))
            keeper.put(("out", peer, base), self.session.messages_from(base))

    def keys(self, peer: str) -> Iterator[tuple[Hashable, ...]]:
        """The keys of all records of the link."""
        yield from (("link", peer), ("base", peer), ("in", peer))
        yield from (("out", peer, first) for first, _ in self._parcels)

    @classmethod
    def restored(
        cls,
        records: Mapping[tuple[Any, ...], Any],
        peer: str,
        begun: tuple[Stamp, str, int, Accept | None],
        settings: LinkSettings,
    ) -> Self:
        """Restore a link from its records. The answer in records of an earlier release is ignored."""
        stamp, role, latency, _ = begun
        parcels = sorted((key[2], each) for key, each in records.items() if key[:2] == ("out", peer))
        base, expected = records.get(("base", peer), 0), records.get(("in", peer), 0)
        outbox = [
            message for first, messages in parcels for number, message in enumerate(messages, first) if number >= base
        ]
        session = Session(stamp, settings, expected=expected, base=base, outbox=outbox)
        link = cls(session, role, latency)
        link._parcels.extend((first, first + len(each)) for first, each in parcels)
        return link
