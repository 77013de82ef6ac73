"""One numbered sequence in each direction: acknowledged, sent again, and without doubles."""

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
"""What a server may send at once: a message of a link may hold many notifications."""
_CONTROL_BYTES = 256
"""What a message without a notification counts for: it is bounded by the limits of filters."""


class LinkSettings(msgspec.Struct, frozen=True):
    """How patient a link is; times are in microseconds."""

    retransmit: int = 200_000
    """What was not acknowledged for so long is sent again; then it waits twice as long, and so on."""
    most_patience: int = 6_400_000
    """So long at most."""
    acknowledge: int = 20_000
    """An acknowledgement waits so long for messages that could carry it, or until half a window has come."""
    window: int = 1_024
    """Messages that are on their way at the same time; others wait."""
    frame: int = 128
    """Messages in one frame."""
    full: int = 4_096
    """With so many messages waiting, whoever brings more is held back."""
    full_bytes: int = 16 << 20
    """The same, by their size."""
    outbox: int = 100_000
    """Messages that may wait; with more the link is given up, and begins anew."""
    outbox_bytes: int = 256 << 20
    """The same, by their size."""
    letters: int = 1_000
    """Publications of each link that the peer cannot take and that are kept; with more the oldest are dropped."""
    letters_bytes: int = 16 << 20
    """The same, by their size; the last one is kept in any case."""


def size_of(message: Message) -> int:
    """About how many bytes a message takes while it waits."""
    return message.notification.size if message.__class__ is Publish else _CONTROL_BYTES


class BrokenSequenceError(PeerError):
    """The other server acknowledges what was never sent."""


class Contradiction(NamedTuple):
    """Two ends of a session do not agree about how far it is: one of them came back with an older state."""

    is_here: bool
    """Whether that is this end."""
    text: str


class Backlog(NamedTuple):
    """What waits for a neighbour."""

    messages: int
    bytes: int
    since: int | None
    """When the oldest of it was given to the link."""


_MOMENT = 100_000
"""Microseconds: messages that are given to a session within this time count as given at the same time."""


class Session:
    """The state of one link at one of its ends.

    What is given to :meth:`send` comes out of the other end's :meth:`receive` once and in order, as long as frames get
    through now and then; :meth:`frames` says what to send now, :attr:`deadline` when to ask again at the latest.
    """

    __slots__ = (
        "_acknowledge_at",
        "_asked",
        "_bytes",
        "_end",
        "_given",
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
        self._end = base + len(self._outbox)
        """The number after the last message that may have been sent."""
        self.has_room = True
        """Whether this end can take more; said with all frames. What comes nevertheless is taken."""
        self.is_held = False
        """Whether the other end has said that it has no room."""
        self._sent = 0
        """So many of the outbox are on their way."""
        self._told = expected
        """The number that the other end was last told to be expected."""
        self._patience = settings.retransmit
        self._resend_at: int | None = None
        self._acknowledge_at: int | None = None
        self._asked: tuple[int, int] | None = None
        """While it is in doubt whether the other end knows the session: base and expected when that was asked."""
        self._given: deque[tuple[int, int]] = deque()
        """When messages were given: the number behind them, and the time. Of those of an earlier life it is not known.
        """

    @property
    def is_fresh(self) -> bool:
        """Whether nothing has gone over the session yet, as far as this end knows."""
        return self.base == self.expected == 0

    @property
    def positions(self) -> tuple[int, int, int]:
        """How far this end is: the first message not acknowledged, the one behind the last sent, the next expected."""
        return self.base, self._end, self.expected

    @property
    def backlog(self) -> Backlog:
        """What the other end has not acknowledged."""
        return Backlog(len(self._outbox), self._bytes, self._given[0][1] if self._given else None)

    # -- doubt ---------------------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """Send no messages until it is known that the other end agrees about the session."""
        self._asked = self.base, self.expected
        self._sent = 0

    def resume(self, now: int) -> None:
        """The other end agrees: send what was not acknowledged."""
        self._asked = None
        self._patience = self._settings.retransmit
        self._resend_at = now if self._outbox else None

    def contradiction(self, known: Known) -> Contradiction | None:
        """Whether the other end's answer shows that one of the two has an older state of the session.

        The answer is younger than the question. So the other end must know what it had acknowledged and sent when this
        end asked; and it cannot know more than this end has sent and acknowledged until now.
        """
        if known.base < 0 or self._asked is None:
            return None  # an older server does not say how far it is
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
        """When :meth:`frames` must be asked again, if nothing happens before."""
        resend, acknowledge = self._resend_at, self._acknowledge_at
        if self._asked is not None:
            return acknowledge
        if resend is None or (acknowledge is not None and acknowledge < resend):
            return acknowledge
        return resend

    def is_due(self, now: int) -> bool:
        """Whether :meth:`frames` may have something to say."""
        if self._asked is not None:
            return self._acknowledge_at is not None and self._acknowledge_at <= now
        if self._sent < len(self._outbox) and self._sent < self._settings.window and not self.is_held:
            return True
        resend, acknowledge = self._resend_at, self._acknowledge_at
        return (resend is not None and resend <= now) or (acknowledge is not None and acknowledge <= now)

    def is_full(self, share: int = 1) -> bool:
        """Whether as much waits, or a part of that (a half, a third), that nothing should be added."""
        settings = self._settings
        return len(self._outbox) * share >= settings.full or self._bytes * share >= settings.full_bytes

    @property
    def next(self) -> int:
        """The number that the next message given to :meth:`send` will have."""
        return self.base + len(self._outbox)

    def unacknowledged(self) -> tuple[Message, ...]:
        """The messages from :attr:`base` on."""
        return tuple(self._outbox)

    def messages_from(self, number: int) -> tuple[Message, ...]:
        """The messages that are not acknowledged from a number on."""
        return tuple(islice(self._outbox, number - self.base, None))

    def acknowledge_soon(self, now: int) -> None:
        """Let the other end hear something, also if there is nothing to say."""
        self._acknowledge_at = now

    def hasten(self, now: int) -> None:
        """Send at once what was not acknowledged: the other end can be reached again."""
        self._patience = self._settings.retransmit
        if self._resend_at is not None:
            self._resend_at = now

    def replace(self, fit: Callable[[Message], Message]) -> None:
        """Put other messages in the place of those that are not acknowledged, under the same numbers."""
        self._outbox = deque(map(fit, self._outbox))
        self._bytes = sum(map(size_of, self._outbox))

    def send(self, messages: Sequence[Message], now: int) -> None:
        """Put messages into the sequence."""
        settings, total = self._settings, len(self._outbox) + len(messages)
        if total > settings.outbox:
            raise LimitError("outbox", settings.outbox, total, "messages waiting for a neighbour")
        size = self._bytes + sum(map(size_of, messages))
        if size > settings.outbox_bytes:
            raise LimitError("outbox_bytes", settings.outbox_bytes, size, "bytes waiting for a neighbour")
        self._bytes = size
        self._outbox.extend(messages)
        if self._given and now < self._given[-1][1] + _MOMENT:
            now = self._given.pop()[1]
        self._given.append((self.next, now))

    def receive(self, frame: Data, now: int) -> Sequence[Message]:
        """The messages of a frame that are next in the sequence; none if they came before or are not due yet."""
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
            self._acknowledge_at = now  # something is missing, or an acknowledgement was lost: say so at once
            return ()
        fresh = messages[known:] if known else messages
        self.expected += len(fresh)
        if 2 * (self.expected - self._told) >= self._settings.window:
            self._acknowledge_at = now  # else who sends much would have to wait
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
        """The frames that are due: new messages, old ones once more, or an acknowledgement.

        If the other end has no room, one frame is sent now and then, in case what it said later was lost.
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
        """A frame without messages, if it is due."""
        if self._acknowledge_at is None or now < self._acknowledge_at:
            return []
        self._acknowledge_at, self._told = None, self.expected
        return [Data(self.stamp, self.base, (), self.expected, self.has_room)]

    def _fresh(self, most: int) -> list[Data]:
        """Frames with all messages that may set out."""
        found = []
        sent, step = self._sent, self._settings.frame
        while sent < most:
            messages = tuple(islice(self._outbox, sent, min(sent + step, most)))
            found.append(Data(self.stamp, self.base + sent, messages, self.expected, self.has_room))
            sent += len(messages)
        self._sent = sent
        self._end = max(self._end, self.base + sent)
        return found
