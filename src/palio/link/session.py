"""A numbered sequence of messages in each direction, with acknowledgement, retransmission and deduplication."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from palio.errors import LimitError, PeerError
from palio.link.frames import Data, Known
from palio.routing.messages import Message, Publish, Stamp

PEER_FRAME_BYTES = 64 << 20
"""The longest frame that a server may send: a message of a link may hold many notifications."""
_CONTROL_BYTES = 256
"""The assumed size of a message without a notification. The limits of filters bound the real size."""


class LinkSettings(msgspec.Struct, frozen=True):
    """Time-outs and limits of links. Times are in microseconds."""

    retransmit: int = 200_000
    """The time-out of the first retransmission; it doubles with each further one."""
    most_patience: int = 6_400_000
    """The longest time-out of a retransmission."""
    acknowledge: int = 20_000
    """The longest delay of an acknowledgement, which waits for messages that can carry it or for half a window."""
    window: int = 1_024
    """The number of messages that may be in flight."""
    frame: int = 128
    """The number of messages in one frame."""
    full: int = 4_096
    """With so many waiting messages, clients and other neighbours that publish are held back."""
    full_bytes: int = 16 << 20
    """The same, in bytes."""
    outbox: int = 100_000
    """With more waiting messages the link is dropped, and a new session begins."""
    outbox_bytes: int = 256 << 20
    """The same, in bytes."""
    letters: int = 1_000
    """The number of undeliverable publications that are kept for each link; with more the oldest are dropped."""
    letters_bytes: int = 16 << 20
    """The same, in bytes; the last one is always kept."""
    neighbours: int = 1_000
    """The number of neighbours with a link, a question or an answer that this server did not ask for."""


def size_of(message: Message) -> int:
    """The approximate size of a waiting message in bytes."""
    return message.notification.size if message.__class__ is Publish else _CONTROL_BYTES


class BrokenSequenceError(PeerError):
    """The other server acknowledges messages that were never sent."""


class Contradiction(NamedTuple):
    """The sequence numbers of the two ends contradict each other: one end was restored from an older state."""

    is_here: bool
    """Whether this end was restored."""
    text: str


class Backlog(NamedTuple):
    """The messages that wait for a neighbour."""

    messages: int
    bytes: int
    since: int | None
    """The time at which the oldest one was sent to the link."""


_MOMENT = 100_000
"""Microseconds. Messages that are sent within this time share one time stamp."""


def _allowed(most: int, waiting: int, more: int) -> int:
    """What may wait, if so much waited when the server started, perhaps with a higher bound: that stays.

    >>> _allowed(100, 90, 75), _allowed(100, 400, 75)
    (100, 475)
    """
    return most if waiting <= most else waiting + more


class Session:
    """The sequences of one session at one end.

    The other end's :meth:`receive` returns each message of :meth:`send` once and in order, as long as some frames get
    through. :meth:`frames` returns the frames to send now; :attr:`deadline` is the latest time for the next call.
    """

    __slots__ = (
        "_acknowledge_at",
        "_asked",
        "_bytes",
        "_end",
        "_given",
        "_most",
        "_most_bytes",
        "_outbox",
        "_patience",
        "_resend_at",
        "_sent",
        "_settings",
        "_told",
        "base",
        "expected",
        "has_room",
        "is_held",
        "stamp",
    )

    def __init__(
        self, stamp: Stamp, settings: LinkSettings, *, expected: int = 0, base: int = 0, outbox: Iterable[Message] = ()
    ) -> None:
        self.stamp = stamp
        self.expected = expected
        """The number of the next message from the other end."""
        self.base = base
        """The number of the first message that is not acknowledged."""
        self._settings = settings
        self._outbox: deque[Message] = deque(outbox)
        self._bytes = sum(map(size_of, self._outbox))
        self._most = _allowed(settings.outbox, len(self._outbox), settings.full)
        self._most_bytes = _allowed(settings.outbox_bytes, self._bytes, settings.full_bytes)
        """What may wait."""
        self._end = base + len(self._outbox)
        """The number after the last message that this end may have sent."""
        self.has_room = True
        """Whether this end can take more messages; sent with all data. Messages that arrive anyway are accepted."""
        self.is_held = False
        """Whether the other end has no room for more messages."""
        self._sent = 0
        """How many messages of the outbox are in flight."""
        self._told = expected
        """The expected number in the last frame to the other end."""
        self._patience = settings.retransmit
        self._resend_at: int | None = None
        self._acknowledge_at: int | None = None
        self._asked: tuple[int, int] | None = None
        """While a ``Probe`` is unanswered: base and expected at the time of the ``Probe``."""
        self._given: deque[tuple[int, int]] = deque()
        """When messages were sent: the number after them, and the time. Unknown for messages of an earlier start."""

    @property
    def is_fresh(self) -> bool:
        """Whether no message was acknowledged in either direction, as far as this end knows."""
        return self.base == self.expected == 0

    @property
    def positions(self) -> tuple[int, int, int]:
        """The numbers of the first unacknowledged message, after the last sent one, and of the next expected one."""
        return self.base, self._end, self.expected

    @property
    def backlog(self) -> Backlog:
        """The messages that the other end has not acknowledged."""
        return Backlog(len(self._outbox), self._bytes, self._given[0][1] if self._given else None)

    # -- doubt ---------------------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """Send no messages until the other end has confirmed the session."""
        self._asked = self.base, self.expected
        self._sent = 0

    def resume(self, now: int) -> None:
        """The other end has confirmed the session: send the unacknowledged messages."""
        self._asked = None
        self._patience = self._settings.retransmit
        self._resend_at = now if self._outbox else None

    def contradiction(self, known: Known) -> Contradiction | None:
        """Return how the numbers of the other end contradict those of this end, or ``None``.

        The answer is younger than the question. So the numbers of the other end include everything that it had
        acknowledged and sent when this end asked, and nothing that this end has not sent and acknowledged by now.
        """
        if known.base < 0 or self._asked is None:
            return None  # a server of version 1 does not send its numbers
        base, expected = self._asked
        if known.expected < base:
            return Contradiction(False, f"it expects message {known.expected}, and has acknowledged {base}")
        if known.end < expected:
            return Contradiction(False, f"it has sent {known.end} messages, and {expected} have come")
        if known.expected > self._end:
            return Contradiction(True, f"message {known.expected} is expected, and only {self._end} were sent")
        if known.base > self.expected:
            return Contradiction(True, f"{known.base} messages were acknowledged, and {self.expected} have come")
        return None

    @property
    def deadline(self) -> int | None:
        """The time at which :meth:`frames` must be called, if nothing happens before."""
        resend, acknowledge = self._resend_at, self._acknowledge_at
        if self._asked is not None:
            return acknowledge
        if resend is None or (acknowledge is not None and acknowledge < resend):
            return acknowledge
        return resend

    def is_due(self, now: int) -> bool:
        """Whether :meth:`frames` may return frames."""
        if self._asked is not None:
            return self._acknowledge_at is not None and self._acknowledge_at <= now
        if self._sent < len(self._outbox) and self._sent < self._settings.window and not self.is_held:
            return True
        resend, acknowledge = self._resend_at, self._acknowledge_at
        return (resend is not None and resend <= now) or (acknowledge is not None and acknowledge <= now)

    def is_full(self, share: int = 1) -> bool:
        """Whether the outbox has reached its limit, or a part of the limit (a half, a third)."""
        settings = self._settings
        return len(self._outbox) * share >= settings.full or self._bytes * share >= settings.full_bytes

    @property
    def next(self) -> int:
        """The number of the next message of :meth:`send`."""
        return self.base + len(self._outbox)

    @property
    def publications(self) -> int:
        """How many of the messages that are not acknowledged are publications."""
        return sum(message.__class__ is Publish for message in self._outbox)

    def unacknowledged(self) -> tuple[Message, ...]:
        """The messages from :attr:`base` on."""
        return tuple(self._outbox)

    def messages_from(self, number: int) -> tuple[Message, ...]:
        """The unacknowledged messages from a number on."""
        return tuple(islice(self._outbox, number - self.base, None))

    def acknowledge_soon(self, now: int) -> None:
        """Send data now, even if it only acknowledges."""
        self._acknowledge_at = now

    def hasten(self, now: int) -> None:
        """Retransmit at once: the other end can be reached again."""
        self._patience = self._settings.retransmit
        if self._resend_at is not None:
            self._resend_at = now

    def replace(self, fit: Callable[[Message], Message]) -> None:
        """Replace the unacknowledged messages; the numbers stay the same."""
        self._outbox = deque(map(fit, self._outbox))
        self._bytes = sum(map(size_of, self._outbox))

    def send(self, messages: Sequence[Message], now: int) -> None:
        """Append messages to the sequence."""
        total = len(self._outbox) + len(messages)
        if total > self._most:
            raise LimitError("outbox", self._most, total, "messages waiting for a neighbour")
        size = self._bytes + sum(map(size_of, messages))
        if size > self._most_bytes:
            raise LimitError("outbox_bytes", self._most_bytes, size, "bytes waiting for a neighbour")
        self._bytes = size
        self._outbox.extend(messages)
        if self._given and now < self._given[-1][1] + _MOMENT:
            now = self._given.pop()[1]
        self._given.append((self.next, now))

    def receive(self, frame: Data, now: int) -> Sequence[Message]:
        """Return the messages of a frame that are next in the sequence, without duplicates and without gaps."""
        if frame.expected > self.base:
            self._acknowledged(frame.expected, now)
        self.is_held = not frame.has_room
        messages = frame.messages
        if not messages:
            return ()
        known = self.expected - frame.first
        if self._acknowledge_at is None:
            self._acknowledge_at = now + self._settings.acknowledge
        if known < 0 or known >= len(messages):
            self._acknowledge_at = now  # a frame or an acknowledgement was lost: answer at once
            return ()
        fresh = messages[known:] if known else messages
        self.expected += len(fresh)
        if 2 * (self.expected - self._told) >= self._settings.window:
            self._acknowledge_at = now  # otherwise the other end would run out of its window
        return fresh

    def _acknowledged(self, expected: int, now: int) -> None:
        if expected > self._end:
            raise BrokenSequenceError(f"number {expected} is expected where only {self._end} were sent")
        done = expected - self.base
        for _ in range(done):
            self._bytes -= size_of(self._outbox.popleft())
        self.base = expected
        while self._given and self._given[0][0] <= expected:
            self._given.popleft()
        self._sent = max(0, self._sent - done)
        self._patience = self._settings.retransmit
        self._resend_at = now + self._patience if self._outbox else None

    def frames(self, now: int) -> list[Data]:
        """Return the frames that are due: new messages, retransmissions, or an acknowledgement.

        While the other end has no room, one frame is sent now and then, in case a later permission was lost.
        """
        settings = self._settings
        if self._asked is not None:
            return self._acknowledgement(now)
        most = 0 if self.is_held else settings.window
        if self._resend_at is not None and now >= self._resend_at:
            self._sent = 0
            self._patience = min(2 * self._patience, settings.most_patience)
            self._resend_at = None
            most = max(most, settings.frame)
        if self._outbox and self._resend_at is None:
            self._resend_at = now + self._patience
        most = min(most, len(self._outbox))
        if self._sent < most:
            self._acknowledge_at, self._told = None, self.expected
            return self._fresh(most)
        return self._acknowledgement(now)

    def _acknowledgement(self, now: int) -> list[Data]:
        """Return a frame without messages, if one is due."""
        if self._acknowledge_at is None or now < self._acknowledge_at:
            return []
        self._acknowledge_at, self._told = None, self.expected
        return [Data(self.stamp, self.base, (), self.expected, self.has_room)]

    def _fresh(self, most: int) -> list[Data]:
        """Return frames with all messages that the window permits."""
        found = []
        sent, step = self._sent, self._settings.frame
        while sent < most:
            messages = tuple(islice(self._outbox, sent, min(sent + step, most)))
            found.append(Data(self.stamp, self.base + sent, messages, self.expected, self.has_room))
            sent += len(messages)
        self._sent = sent
        self._end = max(self._end, self.base + sent)
        return found
