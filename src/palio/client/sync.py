"""The client for programs without a loop: the same functions, which block.

::

    with palio.connect_sync("palio://127.0.0.1:7400") as client:
        client.publish(symbol="DIS", change=1.5)
        for notification in client.subscribe('symbol = "DIS"'):
            ...

A loop runs in a thread of its own. All functions may be called from any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, overload

from palio.client import DEFAULT_URL, Client, ClosedError, DurableClient, Subscription, read_options
from palio.client.address import Address
from palio.client.client import make_client
from palio.client.deliveries import Ack, Delivery, DurableSubscription
from palio.client.durable import Cursor, Durable, read_durable
from palio.client.letters import DeadLetters
from palio.client.options import ConnectOptions
from palio.client.publications import Acceptance, PublishOptions, traced
from palio.client.streams import Overflow, Stream
from palio.client.subscriptions import FromText
from palio.codec.control import Position
from palio.model import Advertisement, Filter, Notification, Pattern, Trace, Value

C = TypeVar("C", Client, DurableClient)
E = TypeVar("E")
T = TypeVar("T")
Call = Callable[[Coroutine[Any, Any, Any]], Any]
_MOST_SENT = 1024
"""Publications that are under way at the same time."""


class SyncDelivery:
    """A :class:`~palio.client.Delivery` whose functions block."""

    def __init__(self, call: Call, delivery: Delivery) -> None:
        self._call = call
        self._delivery = delivery
        self.element = delivery.element
        self.cursor = delivery.cursor
        self.number = delivery.number
        self.is_repeated = delivery.is_repeated
        self.notification = delivery.notification
        self.notifications = delivery.notifications

    def __repr__(self) -> str:
        return repr(self._delivery)

    def ack(self, *, wait: bool = False) -> None:
        """See :meth:`Delivery.ack`."""
        self._call(self._delivery.ack(wait=wait))

    def reject(self, reason: str, *, wait: bool = False) -> None:
        """See :meth:`Delivery.reject`."""
        self._call(self._delivery.reject(reason, wait=wait))


class SyncStream(Iterator[E]):
    """A :class:`~palio.client.Stream` whose functions block; it has begun, and ends when it is closed."""

    def __init__(self, call: Call, stream: Stream[Any]) -> None:
        self._call = call
        self._stream = stream
        self._taken: deque[E] = deque()
        """What was taken together, and not given out yet."""

    @property
    def dropped(self) -> int:
        """How many elements were lost because the queue was full."""
        return self._stream.dropped

    def next(self, timeout: float | None = None) -> E:
        """The next element; ``TimeoutError`` if none comes in so many seconds."""
        if not self._taken:
            with suppress(ClosedError):
                self._taken.extend(self._call(self._take(timeout)))
        if not self._taken:
            raise StopIteration
        return self._taken.popleft()

    async def _take(self, timeout: float | None) -> list[E]:
        async with asyncio.timeout(timeout):
            return await self._stream.take()

    def __next__(self) -> E:
        return self.next()

    def close(self) -> None:
        """End it."""
        self._call(self._stream.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._stream.__aexit__(kind, error, trace))


class SyncSubscription(SyncStream[E]):
    """What comes for a subscription: notifications, and for a pattern tuples of them."""


class SyncDurableSubscription(SyncSubscription[SyncDelivery]):
    """What comes for a subscription of a durable party: deliveries, which are to be acknowledged."""

    def __init__(self, call: Call, subscription: DurableSubscription, ack: Ack) -> None:
        super().__init__(call, subscription)
        self._is_automatic = ack == "auto"
        self._given: SyncDelivery | None = None
        """What was given out last, and is done when more is wanted."""

    def next(self, timeout: float | None = None) -> SyncDelivery:
        """The next delivery; ``TimeoutError`` if none comes in so many seconds."""
        self._settle()
        delivery = super().next(timeout)
        self._given = delivery if self._is_automatic else None
        return delivery

    async def _take(self, timeout: float | None) -> list[SyncDelivery]:
        async with asyncio.timeout(timeout):
            taken: list[Delivery] = await self._stream.take()
        return [SyncDelivery(self._call, each) for each in taken]

    def _settle(self) -> None:
        given, self._given = self._given, None
        if given is not None:
            given.ack()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._settle()
        super().__exit__(kind, error, trace)


class SyncBaseClient(Generic[C]):
    """A client that blocks: what durable parties and others share."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(_go_on(started)), name="palio client", daemon=True)
        self._thread.start()
        self._loop, self._end = started.result()
        self._room = threading.Semaphore(_MOST_SENT)
        self._lock = threading.Lock()
        self._is_over = False
        try:
            connected: Any = self._call(_connected(url, options))
        except BaseException:
            self._stop()
            raise
        self._client: C = connected  # ``connect_sync`` has chosen this class by the same options

    @property
    def name(self) -> str:
        """Of the party."""
        return self._client.name

    @property
    def address(self) -> Address:
        """Of the server."""
        return self._client.address

    @property
    def is_connected(self) -> bool:
        """See :attr:`Client.is_connected`."""
        return self._client.is_connected

    def publish(
        self,
        notification: Mapping[str, Value] | None = None,
        options: PublishOptions | Trace | None = None,
        /,
        **attributes: Value,
    ) -> Acceptance:
        """See :meth:`Client.publish`."""
        return self._call(self._client.publish(notification, traced(options), **attributes))

    def send(
        self,
        notification: Mapping[str, Value] | None = None,
        options: PublishOptions | Trace | None = None,
        /,
        **attributes: Value,
    ) -> Future[Acceptance]:
        """Publish without waiting for acceptance: the future that is returned is done when it comes.

        This itself waits while too many are under way; they go in the order of the calls.
        """
        self._room.acquire()
        try:
            future = self._submit(self._client.publish(notification, traced(options), **attributes))
        except ClosedError:
            self._room.release()
            raise
        future.add_done_callback(lambda _: self._room.release())
        return future

    def publish_unconfirmed(
        self,
        notification: Mapping[str, Value] | None = None,
        options: PublishOptions | Trace | None = None,
        /,
        **attributes: Value,
    ) -> None:
        """See :meth:`Client.publish_unconfirmed`."""
        self._call(self._client.publish_unconfirmed(notification, traced(options), **attributes))

    def unsubscribe(self, wanted: str | Filter | Pattern) -> None:
        """See :meth:`Client.unsubscribe`."""
        self._call(self._client.unsubscribe(wanted))

    def advertise(self, advertisement: str | Advertisement, *, wait: bool = False) -> None:
        """See :meth:`Client.advertise`."""
        self._call(self._client.advertise(advertisement, wait=wait))

    def unadvertise(self, advertisement: str | Advertisement) -> None:
        """See :meth:`Client.unadvertise`."""
        self._call(self._client.unadvertise(advertisement))

    def watch(self, subject: Filter | Advertisement) -> SyncStream[bool]:
        """See :meth:`Client.watch`; it has begun when this returns."""
        return SyncStream(self._call, self._call(self._watch(subject)))

    async def _watch(self, subject: Filter | Advertisement) -> Stream[bool]:
        return await self._client.watch(subject)

    def query(self, subject: str, **arguments: Any) -> dict[str, Any]:
        """See :meth:`Client.query`."""
        return self._call(self._client.query(subject, **arguments))

    @property
    def position(self) -> Position | None:
        """See :attr:`Client.position`."""
        return self._client.position

    @property
    def missed(self) -> int:
        """See :attr:`Client.missed`."""
        return self._client.missed

    @property
    def unwanted(self) -> int:
        """See :attr:`Client.unwanted`."""
        return self._client.unwanted

    def acknowledged(self, cursor: Cursor | str) -> None:
        """See :meth:`Client.acknowledged`."""
        self._call(self._client.acknowledged(cursor))

    def replay(
        self, *, first: int | None = None, since: datetime | timedelta | None = None, last: int | None = None
    ) -> None:
        """See :meth:`Client.replay`."""
        self._call(self._client.replay(first=first, since=since, last=last))

    def letters(self, party: str | None = None) -> DeadLetters:
        """See :meth:`Client.letters`."""
        return self._call(self._client.letters(party))

    def requeue(self, letters: Iterable[int]) -> None:
        """See :meth:`Client.requeue`."""
        self._call(self._client.requeue(letters))

    def discard(self, letters: Iterable[int]) -> None:
        """See :meth:`Client.discard`."""
        self._call(self._client.discard(letters))

    def leave(self) -> None:
        """See :meth:`Client.leave`."""
        self._finish(self._client.leave())

    def drain(self, timeout: float | None = 30.0) -> None:
        """See :meth:`Client.drain`."""
        self._finish(self._client.drain(timeout))

    def close(self) -> None:
        """See :meth:`Client.close`."""
        if not self._is_over:
            self._finish(self._client.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run something in the loop and wait for it; who is interrupted meanwhile takes it back."""
        future = self._submit(coroutine)
        try:
            return future.result()
        except CancelledError:
            raise ClosedError("the client was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:  # a loop that ends would forget it
            if self._is_over:
                coroutine.close()
                raise ClosedError("the client is closed")
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _finish(self, last: Coroutine[Any, Any, None]) -> None:
        try:
            self._call(last)
        finally:
            self._stop()

    def _stop(self) -> None:
        with self._lock:
            if not self._is_over:
                self._is_over = True
                self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


async def _go_on(started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    """Let the loop run until it is to end."""
    end = asyncio.Event()
    started.set_result((asyncio.get_running_loop(), end))
    await end.wait()


async def _connected(url: str, options: dict[str, Any]) -> Client | DurableClient:
    client = make_client(url, read_options(options))
    await client.connect()
    return client


class SyncClient(SyncBaseClient[Client]):
    """A client that blocks; :func:`connect_sync` makes one."""

    @overload
    def subscribe(  # type: ignore[overload-overlap]  # a pattern can be iterated over, too; the first one counts
        self, wanted: Pattern, *, wait: bool = ..., queue: int = ..., overflow: Overflow = ..., ack: Ack = ...
    ) -> SyncSubscription[tuple[Notification, ...]]: ...
    @overload
    def subscribe(
        self,
        wanted: Filter | Iterable[Filter],
        *,
        wait: bool = ...,
        queue: int = ...,
        overflow: Overflow = ...,
        ack: Ack = ...,
    ) -> SyncSubscription[Notification]: ...
    @overload
    def subscribe(
        self, wanted: str, *, wait: bool = ..., queue: int = ..., overflow: Overflow = ..., ack: Ack = ...
    ) -> SyncSubscription[FromText]: ...
    def subscribe(self, wanted: Any, **options: Any) -> SyncSubscription[Any]:
        """See :meth:`Client.subscribe`; the subscription has begun when this returns."""
        return SyncSubscription(self._call, self._call(self._subscribe(wanted, options)))

    async def _subscribe(self, wanted: Any, options: dict[str, Any]) -> Subscription[Any]:
        subscription: Subscription[Any] = self._client.subscribe(wanted, **options)
        return await subscription


class SyncDurableClient(SyncBaseClient[DurableClient]):
    """A durable party that blocks; :func:`connect_sync` with ``durable`` makes one."""

    def subscribe(
        self,
        wanted: str | Filter | Pattern | Iterable[Filter],
        *,
        wait: bool = False,
        queue: int = 1024,
        overflow: Overflow = "block",
        ack: Ack = "manual",
    ) -> SyncDurableSubscription:
        """See :meth:`DurableClient.subscribe`; the subscription has begun when this returns."""
        options = {"wait": wait, "queue": queue, "overflow": overflow, "ack": ack}
        return SyncDurableSubscription(self._call, self._call(self._subscribe(wanted, options)), ack)

    async def _subscribe(self, wanted: Any, options: dict[str, Any]) -> DurableSubscription:
        subscription = self._client.subscribe(wanted, **options)
        subscription.is_automatic = False  # what is taken here is given out one by one
        return await subscription


@overload
def connect_sync(
    url: str = ..., *, durable: Literal[False] | None = ..., **options: Unpack[ConnectOptions]
) -> SyncClient: ...
@overload
def connect_sync(
    url: str = ..., *, durable: Durable | Literal[True], **options: Unpack[ConnectOptions]
) -> SyncDurableClient: ...
@overload
def connect_sync(
    url: str = ..., *, durable: Durable | bool | None, **options: Unpack[ConnectOptions]
) -> SyncClient | SyncDurableClient: ...
def connect_sync(url: str = DEFAULT_URL, **options: Any) -> SyncClient | SyncDurableClient:
    """A client of the server at an address, connected; ``with`` it. :class:`~palio.client.Options` has the keywords."""
    is_durable = read_durable(options.get("durable")) is not None
    return SyncDurableClient(url, options) if is_durable else SyncClient(url, options)
