"""Streams: what comes for a subscription, in a queue of bounded size, until somebody takes it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar

from palio.client.errors import ClosedError, SlowConsumerError
from palio.errors import CallerError, PalioError, brief

E = TypeVar("E")
Overflow = Literal["block", "drop_oldest", "drop_newest", "error"]
OVERFLOWS: tuple[Overflow, ...] = ("block", "drop_oldest", "drop_newest", "error")


class Stream(AsyncIterator[E], Generic[E]):
    """Something that goes on until it is closed: ``async with`` it, or await it and close it in the end.

    ``overflow`` says what happens when ``size`` elements wait and another one comes:

    * ``block`` -- nothing more is read from the connection until there is room, and so the server is held up. While an
      answer of the server is awaited, reading goes on, because answers come on the same way; then more may wait.
    * ``drop_oldest``, ``drop_newest`` -- one of them is lost, and ``dropped`` counts it.
    * ``error`` -- the stream ends with a :class:`SlowConsumerError` after what waits.
    """

    def __init__(self, size: int, overflow: Overflow) -> None:
        if not isinstance(size, int) or size < 1:
            raise CallerError(f"queue: {brief(size)} is no size; it is a positive integer")
        if overflow not in OVERFLOWS:
            raise CallerError(f"overflow: {brief(overflow)} is none of {', '.join(OVERFLOWS)}")
        self._size = size
        self._overflow = overflow
        self._waiting: deque[E] = deque()
        self._news = asyncio.Event()
        """Set when something waits, or nothing more will come."""
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._has_ended = False
        self._error: PalioError | None = None
        self._begin: Callable[[], Awaitable[None]] | None = None
        self._end: Callable[[], Awaitable[None]] | None = None
        self._has_room: Callable[[], None] = _nothing
        self.dropped = 0
        """How many elements were lost because the queue was full."""

    # -- for the client ------------------------------------------------------------------------------------------------

    def attach(
        self, begin: Callable[[], Awaitable[None]], end: Callable[[], Awaitable[None]], has_room: Callable[[], None]
    ) -> None:
        """Say how it is begun and ended, and who wants to know that there is room again."""
        self._begin, self._end, self._has_room = begin, end, has_room

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read."""
        return self._overflow == "block" and len(self._waiting) >= self._size

    def put(self, element: E) -> bool:
        """Something has come; whether the stream goes on."""
        if self._has_ended:
            return False
        if len(self._waiting) >= self._size and self._overflow != "block":
            if self._overflow == "error":
                text = f"{self._size:,} elements wait, and more came; take them faster, or choose another overflow"
                self.finish(SlowConsumerError(text, "slow"))
                return False
            self.dropped += 1
            if self._overflow == "drop_newest":
                return True
            self._waiting.popleft()
        self._waiting.append(element)
        self._is_empty.clear()
        self._news.set()
        return True

    def finish(self, error: PalioError | None = None) -> None:
        """Nothing more will come, and perhaps why; what waits can still be taken."""
        if not self._has_ended:
            self._has_ended, self._error = True, error
            self._news.set()

    async def consumed(self) -> None:
        """Wait until nothing waits any more."""
        await self._is_empty.wait()

    # -- for its user --------------------------------------------------------------------------------------------------

    async def __anext__(self) -> E:
        if not await self._something():
            raise StopAsyncIteration
        element = self._waiting.popleft()
        self._taken()
        return element

    async def take(self) -> list[E]:
        """All that waits, as soon as something does; nothing when nothing more will come."""
        await self._something()
        elements = list(self._waiting)
        self._waiting.clear()
        self._taken()
        return elements

    async def _something(self) -> bool:
        """Wait until something waits; whether it does, because the stream may end."""
        while not self._waiting:
            if self._has_ended:
                if self._error is not None:
                    raise self._error
                return False
            self._news.clear()
            await self._news.wait()
        return True

    def _taken(self) -> None:
        if not self._waiting:
            self._is_empty.set()
        if len(self._waiting) <= self._size // 2:
            self._has_room()

    def __await__(self) -> Generator[object, None, Self]:
        return self._started().__await__()

    async def _started(self) -> Self:
        begin, self._begin = self._begin, None
        if begin is None:
            raise ClosedError("it was begun already; ask the client for another one")
        await begin()
        return self

    async def __aenter__(self) -> Self:
        return await self._started()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End it, at the server too; what waits can still be taken."""
        end, self._end = self._end, None
        self.finish()
        self._has_room()
        if end is not None and self._begin is None:
            await end()


def _nothing() -> None:
    """Nobody wants to know."""
