"""The bytes that wait to be written to one connection, and how fast the other end takes them.

The transport gets one chunk at a time. All other bytes stay in a queue here, so that deliveries can be dropped from it
as long as the transport has not begun to write them.
"""

from __future__ import annotations

import asyncio
from collections import deque

CHUNK = 64 << 10
"""The transport gets so many bytes at a time, or one frame if that is longer."""
_MOST_JOINED = 16 << 10
"""Frames are joined to parts of the queue of about this size."""
SPAN = 1.0
"""Seconds over which the pace of a connection is measured at least."""


class Pace:
    """How fast the other end takes bytes, measured over the last moments.

    >>> pace = Pace()
    >>> pace.begin(0.0, 0)
    >>> pace.seconds(2.0, 500, 1000), pace.seconds(2.0, 0, 1000), pace.seconds(0.1, 0, 1000)
    (4.0, inf, 0.0)
    """

    __slots__ = ("_first", "_last")

    def __init__(self) -> None:
        self._first = self._last = (0.0, 0)
        """Two times, at least ``SPAN`` apart once there was enough time, and the bytes that were taken until then."""

    def begin(self, now: float, taken: int) -> None:
        """Bytes begin to wait."""
        self._first = self._last = (now, taken)

    def note(self, now: float, taken: int) -> None:
        """So many bytes were taken until now."""
        if now - self._last[0] >= SPAN:
            self._first, self._last = self._last, (now, taken)

    def seconds(self, now: float, taken: int, waiting: int) -> float:
        """How long the other end needs at this pace to take what waits; zero if it is too early to tell."""
        time, before = self._first
        if now - time < SPAN:
            return 0.0
        return waiting * (now - time) / (taken - before) if taken > before else float("inf")


class _Part:
    """Adjacent frames of the queue: deliveries alone, or others alone."""

    __slots__ = ("count", "data")

    def __init__(self, data: bytes, count: int) -> None:
        self.data = bytearray(data)
        self.count = count
        """The number of deliveries; zero if the frames are no deliveries."""


class Outgoing:
    """The output of one connection."""

    __slots__ = ("_is_blocked", "_loop", "_pace", "_queue", "_queued", "_transport", "_written")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        transport.set_write_buffer_limits(high=1, low=0)  # it reports when all is written
        self._is_blocked = False
        """Whether the transport has bytes that the other end has not taken."""
        self._queue: deque[_Part] = deque()
        self._queued = self._written = 0
        """Bytes in the queue, and bytes that the transport has got."""
        self._pace = Pace()

    @property
    def waiting(self) -> int:
        """The bytes that wait to be written."""
        return self._queued + self._transport.get_write_buffer_size()

    @property
    def queued(self) -> int:
        """The bytes that the transport has not got. A block of deliveries that it has got is written as a whole."""
        return self._queued

    def write(self, frames: list[bytes], counts: list[int]) -> int:
        """Write frames behind all that waits. ``counts`` has the deliveries in each. Returns the number of bytes."""
        if self._is_blocked:
            size = self._put(frames, counts)
        elif len(frames) == 1:
            size = self._give(frames[0])
        else:
            data = b"".join(frames)
            size = len(data)
            if size <= CHUNK:
                self._give(data)
            else:
                self._put(frames, counts)
                self._pump()
        return size

    def _give(self, data: bytes | bytearray) -> int:
        if not self._transport.is_closing():  # asyncio would log that it throws it away
            self._transport.write(data)
        self._written += len(data)
        return len(data)

    def _put(self, frames: list[bytes], counts: list[int]) -> int:
        size = 0
        for frame, count in zip(frames, counts, strict=True):
            size += len(frame)
            last = self._queue[-1] if self._queue else None
            if last is not None and bool(last.count) is bool(count) and len(last.data) < _MOST_JOINED:
                last.data += frame
                last.count += count
            else:
                self._queue.append(_Part(frame, count))
        self._queued += size
        return size

    def _pump(self) -> None:
        """Give chunks of the queue to the transport until it has bytes that are not taken."""
        while self._queue and not self._is_blocked:
            chunk = self._queue.popleft().data
            while self._queue and len(chunk) + len(self._queue[0].data) <= CHUNK:
                chunk += self._queue.popleft().data
            self._queued -= len(chunk)
            self._give(chunk)

    def blocked(self) -> None:
        """The other end does not take everything at once."""
        if not self._is_blocked:
            self._is_blocked = True
            if not self._queue:
                self._pace.begin(self._loop.time(), self._taken)

    def taken(self) -> bool:
        """The other end has taken all that the transport had. Returns whether nothing waits any more."""
        self._is_blocked = False
        if self._queue:
            self.note_pace()
            self._pump()
        return not self._is_blocked

    # -- how fast ------------------------------------------------------------------------------------------------------

    @property
    def _taken(self) -> int:
        return self._written - self._transport.get_write_buffer_size()

    def note_pace(self) -> None:
        """Note how much was taken until now."""
        self._pace.note(self._loop.time(), self._taken)

    @property
    def seconds(self) -> float:
        """How long the other end needs to take what waits, at its present pace."""
        return self._pace.seconds(self._loop.time(), self._taken, self.waiting)

    # -- what is not written -------------------------------------------------------------------------------------------

    def drop_deliveries(self) -> int:
        """Drop all deliveries in the queue, and return how many there were. Other frames stay."""
        dropped = sum(part.count for part in self._queue)
        self._queue = deque(part for part in self._queue if not part.count)
        self._queued = sum(len(part.data) for part in self._queue)
        return dropped

    def clear(self) -> None:
        """Drop everything in the queue."""
        self._queue.clear()
        self._queued = 0

    def finish(self, last: bytes = b"") -> None:
        """Give everything to the transport, and this behind it; nothing is written after that."""
        rest = b"".join([*(part.data for part in self._queue), last])
        self.clear()
        if rest:
            self._give(rest)
