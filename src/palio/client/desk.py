"""Where consumers say what they are done with, and from where the server is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from palio.client.durable import Cursor, Gap
from palio.client.errors import ConnectionLostError, GoneError, ServiceError
from palio.client.ledger import Ledger
from palio.codec.control import Position

if TYPE_CHECKING:
    from palio.client.connection import Connection

_log = logging.getLogger("palio.client")
_ACKNOWLEDGE_SECONDS = 0.005
"""For so long an acknowledgement waits for others."""
_ACKNOWLEDGE_AT_ONCE = 64
"""So many deliveries do not wait for more; fewer where the window is small."""


class _Rejection(NamedTuple):
    """What is to be rejected."""

    refused: list[Callable[[], None]]
    """Who hears that it was refused, and holds the delivery again."""
    waiters: list[asyncio.Future[None]]
    connections: set[Connection]
    """Which have been told."""


class Desk:
    """The acknowledgements and rejections of a durable client, over all its connections."""

    def __init__(self, window: int) -> None:
        self.ledger = Ledger()
        self._at_once = min(_ACKNOWLEDGE_AT_ONCE, max(1, window // 2)) if window else _ACKNOWLEDGE_AT_ONCE
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        """The last one that has said where it begins."""
        self._sent = -1
        """Up to where all is done, as the connection was told."""
        self._noted = -1
        """The same, as the server has noted for good."""
        self._sending: asyncio.TimerHandle | None = None
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        """Who waits until the server has noted a number."""
        self._rejections: dict[int, _Rejection] = {}
        self._rejecting: asyncio.Future[None] | None = None
        """The answer to the one that is under way."""
        self._end: Exception | None = None

    @property
    def has_waiters(self) -> bool:
        """Whether somebody waits for what comes behind deliveries."""
        return bool(self._waiters)

    # -- for connections -----------------------------------------------------------------------------------------------

    def position(self, position: Position, connection: Connection, after: Cursor | None) -> Gap | None:
        """Deliveries go on with this one, over this connection; what is gone, if something is."""
        before = self.ledger.log
        gap = self.ledger.position(position, after, is_first=connection is not self._connection)
        if before != position.log:
            self._noted = position.first - 1
            self._rejecting = None
            self._fail(GoneError(f"the log {before} has ended, and the server has begun another one", "gone"))
        if connection is not self._connection:
            self._connection, self._rejecting = connection, None
        self._sent = min(self._noted, position.first - 1)
        self.advance()
        return gap

    def acknowledged(self, number: int) -> None:
        """The server has noted what is done."""
        self._noted = max(self._noted, number)
        waiters, self._waiters = self._waiters, []
        for awaited, future in waiters:
            if awaited > number:
                self._waiters.append((awaited, future))
            elif not future.done():
                future.set_result(None)

    def go_on(self) -> None:
        """There may be a reason to read again."""
        if self._connection is not None:
            self._connection.go_on()

    # -- for consumers -------------------------------------------------------------------------------------------------

    def hold(self, cursor: Cursor, holders: int) -> None:
        """So many more have got a delivery. Of another log it makes no difference any more."""
        if cursor.log == self.ledger.log:
            self.ledger.hold(cursor.number, holders)

    def release(self, cursor: Cursor) -> None:
        """One of its holders is done with a delivery. Of another log it makes no difference any more."""
        if cursor.log == self.ledger.log:
            self.ledger.release(cursor.number)
            self.advance()

    def reject(self, cursor: Cursor, reason: str, refused: Callable[[], None]) -> None:
        """One of its holders cannot do anything with a delivery; who that is hears if the server does not take it."""
        if cursor.log == self.ledger.log:
            self._rejections.setdefault(cursor.number, _Rejection([], [], set())).refused.append(refused)
            self.ledger.reject(cursor.number, reason)
            self.advance()

    async def noted(self, cursor: Cursor) -> None:
        """Wait until the server has noted that a delivery, and all before it, are done."""
        self._check(cursor)
        if cursor.number <= self._noted:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append((cursor.number, future))
        self.flush()
        self.go_on()
        try:
            await future
        finally:
            self._waiters = [each for each in self._waiters if each[1] is not future]

    async def rejected(self, cursor: Cursor) -> None:
        """Wait until the server has made a delivery a dead letter, if it was rejected."""
        self._check(cursor)
        rejection = self._rejections.get(cursor.number)
        if rejection is not None:
            future: asyncio.Future[None] = self._loop.create_future()
            rejection.waiters.append(future)
            await future

    async def rejections_noted(self) -> None:
        """Wait until the server has noted all rejections that can be sent now.

        Until then it cannot be told of what was acknowledged behind them: acknowledgements say *all up to a number*.
        """
        while self._rejecting is not None and not self._rejecting.done():
            await asyncio.wait([self._rejecting])
            await asyncio.sleep(0)  # the answer may let the next one go
        self.flush()

    def _check(self, cursor: Cursor) -> None:
        if self._end is not None:
            raise self._end
        if cursor.log != self.ledger.log:
            raise GoneError(f"{cursor} is of a log that is gone; there is the log {self.ledger.log}", "gone")

    # -- telling the server --------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Tell the server soon what is done, and reject what can be rejected."""
        unsaid = self.ledger.done - self._sent
        if unsaid >= self._at_once or (unsaid > 0 and self._waiters):
            self.flush()
        elif unsaid > 0 and self._sending is None:
            self._sending = self._loop.call_later(_ACKNOWLEDGE_SECONDS, self.flush)
        if self._rejecting is None and self.ledger.rejection is not None:
            self._reject(*self.ledger.rejection)

    def flush(self) -> None:
        """Tell the server now what is done."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        done = self.ledger.done
        if done > self._sent and self._connection is not None and self._connection.is_open:
            self._sent = done
            self._connection.acknowledge(done)

    def _reject(self, number: int, reason: str) -> None:
        """All before it are done; without a connection, the next one will hear of it."""
        self.flush()
        if self._connection is not None and self._connection.is_open:
            self._rejections[number].connections.add(self._connection)
            self._rejecting = self._connection.reject(number, reason)
            self._rejecting.add_done_callback(lambda answer: self._answered(number, answer))

    def _answered(self, number: int, answer: asyncio.Future[None]) -> None:
        error = answer.exception()
        if answer is not self._rejecting:
            return  # another connection has taken its place, or the log has ended
        self._rejecting = None
        if isinstance(error, ConnectionLostError):
            return
        rejection = self._rejections.pop(number)
        if isinstance(error, ServiceError) and error.code == "invalid":
            # All before it are acknowledged, so it is, too: before a replay, or because an earlier connection was told.
            _log.warning("delivery %d is acknowledged already: %s", number, error)
            error = error if len(rejection.connections) == 1 else None
            self.ledger.rejected(number)
        elif error is None:
            self.ledger.rejected(number)
        else:
            _log.error("delivery %d could not be rejected, and is still held: %s", number, error)
            self.ledger.keep(number, len(rejection.refused))
            for refused in rejection.refused:
                refused()
        for waiter in rejection.waiters:
            _settle(waiter, error)
        self.advance()

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self, reason: Exception) -> None:
        """Nothing can be said any more."""
        self.flush()
        self._end = reason
        self._fail(reason)

    def _fail(self, error: Exception) -> None:
        waiters, self._waiters = self._waiters, []
        rejections, self._rejections = self._rejections, {}
        for future in [each for _, each in waiters] + [each for one in rejections.values() for each in one.waiters]:
            _settle(future, error)


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if not future.done():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # who waits no longer need not hear of it
