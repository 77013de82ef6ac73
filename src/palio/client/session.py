"""A client's session: one party at one server, over connections that may break."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from os import strerror
from ssl import SSLError
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from palio.client.address import read_address
from palio.client.connection import Connection, Settings
from palio.client.durable import Cursor, read_durable
from palio.client.errors import (
    FINAL_CODES,
    CannotConnectError,
    ClosedError,
    ConnectionLostError,
    RefusedError,
    ServiceError,
    UnknownCursorError,
    cannot_connect,
)
from palio.client.inbox import Inbox
from palio.client.options import Options
from palio.client.publications import Unaccepted, Waiting, read_mode
from palio.codec import control
from palio.errors import CallerError, no_tls
from palio.model import Advertisement

_log = logging.getLogger("palio.client")
T = TypeVar("T")


class Session:
    """What the client does about its connections; :class:`~palio.client.Client` has what they are for."""

    def __init__(self, url: str, options: Options, inbox: Inbox) -> None:
        self.address = read_address(url)
        self.name = options.name or uuid4().urn
        """Of the party."""
        self._options = options
        self._context = self.address.context(options.ssl)
        self._inbox = inbox
        self._advertisements: dict[Advertisement, None] = {}
        self._unaccepted = Unaccepted()
        self._line: deque[Waiting] = deque()
        """Publications that wait for a connection; those that come after them wait behind them."""
        self._connection: Connection | None = None
        self._is_connected = asyncio.Event()
        """Also set when there will be no connection any more."""
        self._keeper: asyncio.Task[None] | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._is_draining = False
        self._end: ServiceError | CallerError | None = None
        """Why nothing can be done any more."""

    # -- beginning and end ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connect for the first time. If that fails it is not tried again, because the address may be wrong."""
        if self._keeper is not None or self._end is not None:
            raise ClosedError("the client was connected already; make another one")
        connection = await self._dial()
        self._check_cursor(connection)
        try:
            await self._go_back(connection)
        except BaseException as error:
            connection.abort(ConnectionLostError("the client was closed", "closed"))
            if isinstance(error, ConnectionLostError):
                raise cannot_connect(str(error), error.code) from error
            raise
        self._connection = connection
        self._is_connected.set()
        self._keeper = asyncio.create_task(self._keep())

    def _check_cursor(self, connection: Connection) -> None:
        """Whether the server knows where the application wants to go on."""
        durable = read_durable(self._options.durable)
        if durable is None or durable.cursor is None:
            return
        after, there = durable.cursor, connection.positioned.result()
        if there.log != after.log or there.first <= after.number:
            text = (
                f"{self.address} does not know the delivery {after}: there is the log {there.log}, whose next delivery "
                f"is {Cursor(there.log, there.first)}; connect without a cursor to go on after what was acknowledged"
            )
            connection.abort(ConnectionLostError("the cursor is not known", "cursor"))
            raise UnknownCursorError(text, there.log, there.first)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection just now."""
        return self._connection is not None

    async def close(self) -> None:
        """End at once: nothing that is under way is waited for, but for rejections of a durable party.

        Those are waited for, no longer than ``connect_timeout``: the server hears of acknowledgements only behind them.
        A party with a name keeps its subscriptions and advertisements at the server; one without a name will never come
        back, and so takes them along. A durable party keeps all that it has not acknowledged.
        """
        await self._close(for_good=self._options.name is None)

    async def leave(self) -> None:
        """End for good: the server forgets the party, with its subscriptions and all that waits for it."""
        await self._open()
        await self._close(for_good=True)

    async def _close(self, *, for_good: bool) -> None:
        try:
            if self._end is None and not for_good:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._options.connect_timeout):
                        await self._inbox.rejections_noted()
        finally:
            await self._end_now(for_good=for_good)

    async def _end_now(self, *, for_good: bool) -> None:
        self._give_up(ClosedError("the client is closed"))
        for task in [*self._errands, self._keeper]:
            if task is not None:
                task.cancel()
        await asyncio.gather(*self._errands, *[self._keeper] if self._keeper else [], return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._part(connection, for_good=for_good)

    async def _part(self, connection: Connection, *, for_good: bool) -> None:
        connection.close(for_good=for_good)
        try:
            async with asyncio.timeout(self._options.connect_timeout):  # wait_for may swallow a cancellation
                await asyncio.shield(connection.lost)
        except TimeoutError:  # it does not take our last words
            connection.abort(ConnectionLostError("the client was closed", "closed"))
            await connection.lost

    async def drain(self, timeout: float | None = 30.0) -> None:
        """End in good order: nothing new is begun, what was published is accepted, what has come is consumed.

        Subscriptions are cancelled, and end when their queues are empty; so do not call this from the task that empties
        them. Those of a durable party are not cancelled; its consumers acknowledge what has come, and the server notes
        that. If it takes longer than ``timeout`` seconds, the client is closed all the same, and ``TimeoutError`` is
        raised.
        """
        self._is_draining = True
        try:
            async with asyncio.timeout(timeout):
                while self._line:
                    await asyncio.wait([waiting.turn for waiting in self._line])
                await self._unaccepted.settled()
                if self._connection is not None:
                    await self._connection.settled()
                await self._stop_taking()
                streams = list(self._inbox.subscriptions)
                for stream in streams:
                    self._inbox.subscriptions.remove(stream)
                    stream.finish()
                await asyncio.gather(*(stream.consumed() for stream in streams))
                await self._inbox.settled()
        finally:
            await self.close()

    async def _stop_taking(self) -> None:
        if self._inbox.is_durable:
            self._inbox.stop()
        else:  # what is on its way comes before the answers, and is still taken
            await asyncio.gather(*(self._ask("unsubscribe", each) for each in self._inbox.subscriptions.wanted()))

    # -- connections ---------------------------------------------------------------------------------------------------

    async def _dial(self) -> Connection:
        """One attempt; the server has welcomed us when this returns."""
        options = self._options
        durable, role = self._inbox.durable(), "observer" if options.observe else "party"
        hello = control.Hello(
            control.VERSIONS, role, self.name, options.token, "palio-python", durable, read_mode(options.mode)
        )
        settings = Settings(options.max_outstanding, options.ping_interval)
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        try:
            async with asyncio.timeout(options.connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._inbox, hello, settings, self._unaccepted.follow),
                    self.address.host,
                    self.address.port,
                    ssl=self._context,
                )
                await connection.welcomed
                if durable is not None:
                    await connection.positioned
        except ConnectionLostError as error:
            raise cannot_connect(f"{self.address} does not let us in: {error}", error.code) from error
        except TimeoutError as error:
            raise CannotConnectError(f"{self.address} does not answer within {options.connect_timeout:g} s") from error
        except SSLError as error:
            if no_tls(error):
                plain = self.address._replace(is_encrypted=False)
                raise CannotConnectError(f"{self.address} does not speak TLS; try {plain}", "tls") from error
            raise CannotConnectError(f"{self.address} cannot be trusted: {error}") from error
        except OSError as error:
            reason = strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise CannotConnectError(f"there is no server at {self.address}: {reason}") from error
        finally:
            if connection is not None:
                last = connection.welcomed if durable is None else connection.positioned
                if not last.done() or last.cancelled():
                    connection.abort(ConnectionLostError("no welcome came"))
        return connection

    async def _keep(self) -> None:
        """See to it that there is a connection, as long as the client lives."""
        while self._connection is not None:
            reason = await asyncio.shield(self._connection.lost)
            self._line.extendleft(reversed(self._connection.unsent()))
            self._connection = None
            self._is_connected.clear()
            if reason.code in FINAL_CODES or not self._options.max_attempts:
                self._give_up(reason)
                return
            _log.warning("%s: %s; connecting again", self.address, reason)
            try:
                self._connection = await self._dial_again()
            except CannotConnectError as error:
                self._give_up(error)
                return
            while self._line:
                self._connection.put_in_line(self._line.popleft())
            self._connection.go_on()  # there may be room since, of which it could not be told
            self._is_connected.set()
            _log.warning("%s: connected again", self.address)

    async def _dial_again(self) -> Connection:
        for attempt in range(self._options.max_attempts):
            await asyncio.sleep(self._options.pause(attempt))
            try:
                connection = await self._dial()
            except CannotConnectError as error:
                if error.code in FINAL_CODES or attempt == self._options.max_attempts - 1:
                    raise
                continue
            try:
                await self._restore(connection)
            except ConnectionLostError as error:
                if error.code in FINAL_CODES:
                    raise CannotConnectError(str(error), error.code) from error
                continue
            except BaseException:
                connection.abort(ConnectionLostError("the client was closed", "closed"))
                raise
            return connection
        raise CannotConnectError(f"{self.address} cannot be reached, after {self._options.max_attempts} attempts")

    async def _restore(self, connection: Connection) -> None:
        """Say anew what is offered, wanted and watched. What is refused now was accepted before: say so, and go on.

        Then publish again what has a key and was perhaps not accepted, before anything else is published.
        """
        asked = [connection.ask("advertise", each) for each in self._advertisements]
        asked += [connection.ask("subscribe", each) for each in self._inbox.subscriptions.wanted()]
        asked += [connection.ask("watch", each) for each in self._inbox.watches]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, ConnectionLostError):
                raise outcome
            if isinstance(outcome, ServiceError):
                _log.error("%s: refused after connecting again: %s", self.address, outcome)
        await self._go_back(connection)
        self._unaccepted.repeat(connection.publish)

    async def _go_back(self, connection: Connection) -> None:
        """Ask a server that begins too late for what is before that."""
        if self._inbox.wanted is not None:
            try:
                await connection.replay(self._inbox.wanted, None, -1)
            except RefusedError as error:
                _log.warning("%s: %s", self.address, error)
                self._inbox.cannot_go_back()

    def _give_up(self, reason: ServiceError | CallerError) -> None:
        """Nothing can be done any more."""
        if self._end is not None:
            return
        self._end = reason
        self._is_connected.set()
        self._unaccepted.give_up(reason)
        unsent = [] if self._connection is None else self._connection.unsent()
        for waiting in [*unsent, *self._line]:
            if not waiting.turn.done():
                waiting.turn.set_exception(self._ended())
        self._line.clear()
        self._inbox.finish(reason)
        error = reason if isinstance(reason, ServiceError) else None
        for stream in self._inbox.streams():
            stream.finish(error)

    async def _open(self) -> Connection:
        """The connection, as soon as there is one."""
        while True:
            connection = self._connection
            self._check_end()
            if connection is not None and connection.is_open:
                return connection
            if connection is not None:
                await asyncio.wait([connection.lost])
                await asyncio.sleep(0)  # who keeps it has not noticed yet
            else:
                await self._is_connected.wait()

    def _check_end(self) -> None:
        if self._end is not None:
            raise self._ended() from self._end
        if self._keeper is None:
            raise ClosedError("the client is not connected; use it with 'async with', or call connect first")

    def _ended(self) -> ServiceError | CallerError:
        """Why nothing can be done any more, for one of those who want to do something."""
        if isinstance(self._end, ServiceError):
            return ConnectionLostError(str(self._end), self._end.code)
        return ClosedError(str(self._end))

    async def _request(self, ask: Callable[[Connection], asyncio.Future[T]]) -> T:
        """Ask until there is an answer: all that can be asked may be asked twice."""
        while True:
            connection = await self._open()
            try:
                return await ask(connection)
            except ConnectionLostError:
                continue

    async def _ask(
        self, operation: str, subject: control.Subject, *, wait: bool = False, instead: Iterable[control.Subject] = ()
    ) -> None:
        others = tuple(instead)
        await self._request(lambda connection: connection.ask(operation, subject, wait=wait, instead=others))

    async def query(self, subject: str, **arguments: Any) -> dict[str, Any]:
        """Ask the server about itself or the network: ``status``, ``network``, ``explain``, ``link``, ``letters``.

        ``docs/server.md`` says what it answers. What makes no sense raises :class:`RefusedError`.
        """
        return await self._request(lambda connection: connection.query(subject, arguments))

    async def _take_back(
        self, operation: str, changes: Iterable[tuple[control.Subject, Iterable[control.Subject]]]
    ) -> None:
        """Do what ends something. Who ends it does not wait for a connection: the server is told when there is one."""

        async def ask() -> None:
            await asyncio.gather(*(self._ask(operation, each, instead=instead) for each, instead in changes))

        connection, errand = self._connection, self._run(ask())
        if connection is not None:
            either: list[asyncio.Future[Any]] = [errand, connection.lost]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if errand.done() and not errand.cancelled():
                errand.result()

    def _check_going(self) -> None:
        if self._options.observe:
            raise CallerError("an observer looks at its party and does nothing in its place; connect without observe")
        if self._is_draining:
            raise ClosedError("the client drains, and begins nothing new")

    # -- what is done meanwhile ----------------------------------------------------------------------------------------

    def _has_room(self) -> None:
        if self._connection is not None:
            self._connection.go_on()

    def _run(self, errand: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something that nobody need wait for."""
        task = asyncio.get_running_loop().create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._errands.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("%s: %s", self.address, task.exception())
