"""The client: one party at one server, over connections that may break."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from os import strerror
from ssl import SSLError
from types import TracebackType
from typing import Any
from uuid import uuid4

from palio.client.address import read_address
from palio.client.connection import Connection, Publication, Settings, UnsentError
from palio.client.errors import FINAL_CODES, CannotConnectError, ClosedError, ConnectionLostError, ServiceError
from palio.client.inbox import Inbox
from palio.client.options import Options
from palio.client.streams import Overflow, Stream
from palio.client.subscriptions import Subscription, read_wanted
from palio.client.tracing import current_trace
from palio.codec import control
from palio.errors import CallerError, brief
from palio.model import Advertisement, Filter, Notification, Pattern, Trace, Value

_log = logging.getLogger("palio.client")


class Client:
    """A party that publishes and subscribes; :func:`palio.connect` makes one.

    When the connection breaks, the client connects again and says anew what it wants and offers. Meanwhile all its
    functions wait. Subscriptions go on; what was published elsewhere in between does not come to them.
    """

    def __init__(self, url: str, options: Options) -> None:
        options.check()
        self.address = read_address(url)
        self.name = options.name or uuid4().urn
        """Of the party."""
        self._options = options
        self._context = self.address.context(options.ssl)
        self._inbox = Inbox(lambda failed: self._run(self._withdraw(failed)))
        self._advertisements: dict[Advertisement, None] = {}
        self._connection: Connection | None = None
        self._is_connected = asyncio.Event()
        """Also set when there will be no connection any more."""
        self._keeper: asyncio.Task[None] | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._is_draining = False
        self._end: Exception | None = None
        """Why nothing can be done any more."""

    # -- beginning and end ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Client:
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
        self._connection = await self._dial()
        self._is_connected.set()
        self._keeper = asyncio.create_task(self._keep())

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection just now."""
        return self._connection is not None

    async def close(self) -> None:
        """End at once: nothing that is under way is waited for.

        A party with a name keeps its subscriptions and advertisements at the server; one without a name will never come
        back, and so takes them along.
        """
        self._give_up(ClosedError("the client is closed"))
        for task in [*self._errands, self._keeper]:
            if task is not None:
                task.cancel()
        await asyncio.gather(*self._errands, *[self._keeper] if self._keeper else [], return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._part(connection)

    async def _part(self, connection: Connection) -> None:
        connection.close(for_good=self._options.name is None)
        try:
            await asyncio.wait_for(asyncio.shield(connection.lost), self._options.connect_timeout)
        except TimeoutError:  # it does not take our last words
            connection.abort(ConnectionLostError("the client was closed", "closed"))
            await connection.lost

    async def drain(self, timeout: float | None = 30.0) -> None:
        """End in good order: nothing new is begun, what was published is accepted, what has come is consumed.

        Subscriptions are cancelled, and end when their queues are empty; so do not call this from the task that empties
        them. If that takes longer than ``timeout`` seconds, the client is closed all the same, and ``TimeoutError`` is
        raised.
        """
        self._is_draining = True
        try:
            async with asyncio.timeout(timeout):
                if self._connection is not None:
                    await self._connection.settled()
                # What is on its way comes before the answers, and is still taken.
                await asyncio.gather(*(self._ask("unsubscribe", each) for each in self._inbox.subscriptions.wanted()))
                streams = list(self._inbox.subscriptions)
                for stream in streams:
                    self._inbox.subscriptions.remove(stream)
                    stream.finish()
                await asyncio.gather(*(stream.consumed() for stream in streams))
        finally:
            await self.close()

    # -- connections ---------------------------------------------------------------------------------------------------

    async def _dial(self) -> Connection:
        """One attempt; the server has welcomed us when this returns."""
        options = self._options
        hello = control.Hello((control.VERSION,), "party", self.name, options.token, "palio-python")
        settings = Settings(options.max_outstanding, options.ping_interval)
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        try:
            async with asyncio.timeout(options.connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._inbox, hello, settings),
                    self.address.host,
                    self.address.port,
                    ssl=self._context,
                )
                await connection.welcomed
        except ConnectionLostError as error:
            raise CannotConnectError(f"{self.address} does not let us in: {error}", error.code) from error
        except TimeoutError as error:
            raise CannotConnectError(f"{self.address} does not answer within {options.connect_timeout:g} s") from error
        except SSLError as error:
            raise CannotConnectError(f"{self.address} cannot be trusted: {error}") from error
        except OSError as error:
            reason = strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise CannotConnectError(f"there is no server at {self.address}: {reason}") from error
        finally:
            if connection is not None and (not connection.welcomed.done() or connection.welcomed.cancelled()):
                connection.abort(ConnectionLostError("no welcome came"))
        return connection

    async def _keep(self) -> None:
        """See to it that there is a connection, as long as the client lives."""
        while self._connection is not None:
            reason = await asyncio.shield(self._connection.lost)
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
        """Say anew what is offered, wanted and watched. What is refused now was accepted before: say so, and go on."""
        asked = [connection.ask("advertise", each) for each in self._advertisements]
        asked += [connection.ask("subscribe", each) for each in self._inbox.subscriptions.wanted()]
        asked += [connection.ask("watch", each) for each in self._inbox.watches]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, ConnectionLostError):
                raise outcome
            if isinstance(outcome, ServiceError):
                _log.error("%s: refused after connecting again: %s", self.address, outcome)

    def _give_up(self, reason: Exception) -> None:
        """Nothing can be done any more."""
        if self._end is not None:
            return
        self._end = reason
        self._is_connected.set()
        error = reason if isinstance(reason, ServiceError) else None
        for stream in self._inbox.streams():
            stream.finish(error)

    async def _open(self) -> Connection:
        """The connection, as soon as there is one."""
        while True:
            if self._end is not None:
                if isinstance(self._end, ServiceError):
                    raise ConnectionLostError(str(self._end), self._end.code) from self._end
                raise ClosedError(str(self._end))
            connection = self._connection
            if connection is not None and connection.is_open:
                return connection
            if self._keeper is None:
                raise ClosedError("the client is not connected; use it with 'async with', or call connect first")
            if connection is not None:
                await asyncio.wait([connection.lost])
                await asyncio.sleep(0)  # who keeps it has not noticed yet
            else:
                await self._is_connected.wait()

    async def _ask(
        self, operation: str, subject: control.Subject, *, wait: bool = False, instead: Iterable[control.Subject] = ()
    ) -> None:
        """Ask until there is an answer: all that can be asked may be asked twice."""
        while True:
            connection = await self._open()
            try:
                await connection.ask(operation, subject, wait=wait, instead=instead)
            except ConnectionLostError:
                continue
            return

    async def query(self, subject: str, **arguments: Any) -> dict[str, Any]:
        """Ask the server about itself or the network: ``status``, ``network``, ``explain``, ``link``.

        ``docs/server.md`` says what it answers. What makes no sense raises :class:`RefusedError`.
        """
        while True:
            connection = await self._open()
            try:
                return await connection.query(subject, arguments)
            except ConnectionLostError:
                continue

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
        if self._is_draining:
            raise ClosedError("the client drains, and begins nothing new")

    # -- publishing ----------------------------------------------------------------------------------------------------

    async def publish(
        self, notification: Mapping[str, Value] | None = None, trace: Trace | None = None, /, **attributes: Value
    ) -> None:
        """Publish a notification, and wait until the server has accepted it.

        Give the notification, or its attributes as keywords. Subscribers find ``trace`` in the envelope; without one it
        is the current span, if there is one and opentelemetry-api is installed. If the connection breaks meanwhile,
        :class:`ConnectionLostError` is raised, and nobody knows whether it was accepted: to publish it again means that
        it may be delivered twice. Many tasks may publish at the same time; their publications go in the order of the
        calls.
        """
        await (await self.send(notification, trace, **attributes))

    async def send(
        self, notification: Mapping[str, Value] | None = None, trace: Trace | None = None, /, **attributes: Value
    ) -> asyncio.Future[None]:
        """Publish without waiting for acceptance: the future that is returned is done when it comes.

        This itself waits while ``max_outstanding`` publications are under way, or the server does not take more.
        """
        return await self._send(_publication(notification, trace, attributes), is_confirmed=True)

    async def publish_unconfirmed(
        self, notification: Mapping[str, Value] | None = None, trace: Trace | None = None, /, **attributes: Value
    ) -> None:
        """Publish, and never hear whether it was accepted: if the connection breaks or it is refused, it is lost."""
        await self._send(_publication(notification, trace, attributes), is_confirmed=False)

    async def _send(self, publication: Publication, *, is_confirmed: bool) -> asyncio.Future[None]:
        self._check_going()
        while True:
            connection = await self._open()
            try:
                return await connection.send(publication, is_confirmed=is_confirmed)
            except UnsentError:
                continue

    # -- subscribing ---------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        wanted: str | Filter | Pattern | Iterable[Filter],
        *,
        wait: bool = False,
        queue: int = 1024,
        overflow: Overflow = "block",
    ) -> Subscription:
        """Subscribe to what a filter matches, or several, or to the sequences that match a pattern.

        ``async with`` it, or await it; then iterate over it: it gives notifications, and for a pattern tuples of them.
        ``wait`` waits until the subscription has spread through the network. :class:`Stream` says what ``queue`` and
        ``overflow`` mean.
        """
        subscription = Subscription(read_wanted(wanted), queue, overflow)
        subscription.attach(
            lambda: self._begin(subscription, wait), lambda: self._withdraw(subscription), self._has_room
        )
        return subscription

    async def _begin(self, subscription: Subscription, wait: bool) -> None:
        self._check_going()
        self._inbox.subscriptions.add(subscription)  # before the answer, because deliveries may follow it at once
        try:
            await asyncio.gather(*(self._ask("subscribe", each, wait=wait) for each in subscription.wanted))
        except BaseException:
            subscription.finish()
            self._run(self._withdraw(subscription))
            raise

    async def _withdraw(self, subscription: Subscription) -> None:
        """Take a subscription back; others miss nothing."""
        if not self._inbox.subscriptions.remove(subscription) or self._end is not None:
            return
        changes = self._inbox.subscriptions.changes(subscription.wanted)
        await self._take_back("unsubscribe", changes)

    async def unsubscribe(self, wanted: str | Filter | Pattern) -> None:
        """Cancel all subscriptions of this party that a filter covers, or, position by position, a pattern.

        Subscriptions of this client that have nothing left to wait for end.
        """
        self._check_going()
        for each in read_wanted(wanted):
            for subscription in self._inbox.subscriptions.cancel(each):
                subscription.finish()
            await self._ask("unsubscribe", each)

    # -- advertising ---------------------------------------------------------------------------------------------------

    async def advertise(self, advertisement: str | Advertisement, *, wait: bool = False) -> None:
        """Say what this party may publish; ``wait`` waits until that has spread through the network."""
        self._check_going()
        offered = _advertisement(advertisement)
        await self._ask("advertise", offered, wait=wait)
        self._advertisements[offered] = None

    async def unadvertise(self, advertisement: str | Advertisement) -> None:
        """Cancel all advertisements of this party that this one covers."""
        self._check_going()
        cancelled = _advertisement(advertisement)
        for each in [each for each in self._advertisements if cancelled.covers(each)]:
            del self._advertisements[each]
        await self._ask("unadvertise", cancelled)

    def watch(self, subject: Filter | Advertisement) -> Stream[bool]:
        """Whether anybody offers what a filter matches, or wants what an advertisement announces: now, and each change.

        ``async with`` it, or await it; then iterate over it. Of several changes at once only the last is told.
        """
        if not isinstance(subject, Filter | Advertisement):
            raise CallerError(f"{brief(subject)} is neither a filter nor an advertisement")
        stream: Stream[bool] = Stream(1, "drop_oldest")
        stream.attach(
            lambda: self._begin_watch(subject, stream), lambda: self._end_watch(subject, stream), self._has_room
        )
        return stream

    async def _begin_watch(self, subject: Filter | Advertisement, stream: Stream[bool]) -> None:
        self._check_going()
        self._inbox.watches.setdefault(subject, []).append(stream)
        try:
            await self._ask("watch", subject)
        except BaseException:
            stream.finish()
            self._run(self._end_watch(subject, stream))
            raise

    async def _end_watch(self, subject: Filter | Advertisement, stream: Stream[bool]) -> None:
        streams = self._inbox.watches.get(subject, [])
        if stream in streams:
            streams.remove(stream)
            if not streams:
                del self._inbox.watches[subject]
                if self._end is None:
                    await self._take_back("unwatch", [(subject, ())])

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


def _publication(given: Mapping[str, Value] | None, trace: Trace | None, attributes: dict[str, Value]) -> Publication:
    if trace is not None and not isinstance(trace, Trace):
        raise CallerError(f"{brief(trace)} is no Trace; Trace.parse makes one of text")
    return Publication(_notification(given, attributes), trace or current_trace())


def _notification(given: Mapping[str, Value] | None, attributes: dict[str, Value]) -> Notification:
    if isinstance(given, Notification):
        if attributes:
            raise CallerError("give a notification or attributes, not both")
        return given
    return Notification(given or {}, **attributes)


def _advertisement(given: str | Advertisement) -> Advertisement:
    if isinstance(given, Advertisement):
        return given
    if not isinstance(given, str):
        raise CallerError(f"{brief(given)} is no advertisement, nor text")
    return Advertisement.parse(given)
