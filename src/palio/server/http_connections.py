"""The connections to the HTTP port: how many there may be, and how long each may take."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 64
"""With more, the one that has been idle for the longest time is closed."""
REQUEST_SECONDS = 5.0
"""A connection is closed if it has not sent a whole request, or not taken the answer, after so many seconds."""
MOST_HEADER_BYTES = 16 << 10
"""The headers of a request that is not whole; with more it is refused with status 400."""


class HttpConnection(H11Protocol):
    """A connection with a place in the list of all of them, and a time limit for each request."""

    _open: ClassVar[dict[HttpConnection, None]]
    """The connections of one port, those first that are idle for the longest time."""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it, if there are too many."""
        super().connection_made(transport)
        self._open[self] = None
        if len(self._open) > MOST_CONNECTIONS:
            next(iter(self._open)).end()
        self._limit()

    def _limit(self) -> None:
        """The time for the next request begins."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self.end)

    def on_response_complete(self) -> None:
        """The answer is written, though perhaps not taken."""
        if self in self._open:
            del self._open[self]
            self._open[self] = None
            self._limit()
        super().on_response_complete()

    def end(self) -> None:
        """Close it at once, whatever is under way."""
        self._open.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._open.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)


def connection_class() -> type[HttpConnection]:
    """The class of the connections to one port."""

    class Connection(HttpConnection):
        _open: ClassVar[dict[HttpConnection, None]] = {}

    return Connection
