"""The client: what a party can do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import Any, overload
from uuid import uuid4

from palio.client.deliveries import Ack, DurableSubscription
from palio.client.desk import Desk
from palio.client.durable import Cursor, read_durable
from palio.client.durable_inbox import DurableInbox
from palio.client.inbox import Inbox
from palio.client.letters import DeadLetters, read_letters, read_numbers, read_replay
from palio.client.options import Options
from palio.client.publications import Acceptance, Publication, PublishOptions, Waiting, read_publication
from palio.client.session import Session
from palio.client.streams import Overflow, Stream
from palio.client.subscriptions import FromText, Subscription, read_wanted
from palio.codec.control import Position
from palio.errors import CallerError, brief
from palio.model import Advertisement, Filter, Notification, Pattern, Trace, Value


class BaseClient(Session):
    """A party that publishes and subscribes: what durable parties and others share.

    When the connection breaks, the client connects again and says anew what it wants and offers. Meanwhile all its
    functions wait. Subscriptions go on; what was published elsewhere in between does not come to them.
    """

    def __init__(self, url: str, options: Options) -> None:
        options.check()
        durable = read_durable(options.durable)
        self._desk: Desk | None = None
        if durable is None:
            inbox = Inbox(lambda failed: self._run(self._withdraw(failed)))
        else:
            inbox = DurableInbox(durable)
            self._desk = inbox.desk
        super().__init__(url, options, inbox)
        self._keys = (f"{prefix}/{number}" for prefix in [uuid4().hex] for number in count())
        """For publications that are to be repeated."""

    # -- publishing ----------------------------------------------------------------------------------------------------

    async def publish(
        self,
        notification: Mapping[str, Value] | None = None,
        options: PublishOptions | Trace | None = None,
        /,
        **attributes: Value,
    ) -> Acceptance:
        """Publish a notification, and wait until the server has accepted it; the result says what that promises.

        Give the notification, or its attributes as keywords. A trace alone may stand for ``options``; without one it is
        the current span, if there is one and opentelemetry-api is installed. If the connection breaks meanwhile, a
        publication with a key is published again. Otherwise :class:`ConnectionLostError` is raised, and nobody knows
        whether it was accepted: to publish it again means that it may be delivered twice. Many tasks may publish at the
        same time; their publications go in the order of the calls.
        """
        return await (await self.send(notification, options, **attributes))

    async def send(
        self,
        notification: Mapping[str, Value] | None = None,
        options: PublishOptions | Trace | None = None,
        /,
        **attributes: Value,
    ) -> asyncio.Future[Acceptance]:
        """Publish without waiting for acceptance: the future that is returned is done when it comes.

        This itself waits while ``max_outstanding`` publications are under way, or the server does not take more.
        """
        make_key = self._keys.__next__ if self._options.retry else None
        publication = read_publication(notification, options, attributes, make_key)
        return await self._send(publication, is_confirmed=True)

    async def publish_unconfirmed(
        self,
        notification: Mapping[str, Value] | None = None,
        options: PublishOptions | Trace | None = None,
        /,
        **attributes: Value,
    ) -> None:
        """Publish, and never hear whether it was accepted: if the connection breaks or it is refused, it is lost."""
        await self._send(read_publication(notification, options, attributes), is_confirmed=False)

    async def _send(self, publication: Publication, *, is_confirmed: bool) -> asyncio.Future[Acceptance]:
        self._check_going()
        self._check_end()
        connection = self._connection
        if connection is not None and connection.is_open and not self._line:
            return await connection.send(publication, is_confirmed=is_confirmed)
        turn: asyncio.Future[asyncio.Future[Acceptance]] = asyncio.get_running_loop().create_future()
        self._line.append(Waiting(publication, is_confirmed, turn))
        return await turn

    # -- subscribing ---------------------------------------------------------------------------------------------------

    def _attach(self, subscription: Subscription[Any], wait: bool) -> None:
        subscription.attach(
            lambda: self._begin(subscription, wait), lambda: self._withdraw(subscription), self._has_room
        )

    async def _begin(self, subscription: Subscription[Any], wait: bool) -> None:
        self._check_going()
        self._inbox.began(subscription)  # before the answer, because deliveries may follow it at once
        try:
            await asyncio.gather(*(self._ask("subscribe", each, wait=wait) for each in subscription.wanted))
        except BaseException:
            self._inbox.failed(subscription)
            subscription.finish()
            self._run(self._withdraw(subscription))
            raise

    async def _withdraw(self, subscription: Subscription[Any]) -> None:
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

    # -- durable parties -----------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """Of a durable party: what the server has said of its log last; how many have fallen out of it, too."""
        return self._inbox.position

    @property
    def missed(self) -> int:
        """How many deliveries were gone before they could come; :class:`Gap` says more, and so does the log."""
        return self._inbox.missed

    @property
    def unwanted(self) -> int:
        """How many deliveries matched no subscription of this client, and counted as acknowledged."""
        return self._inbox.unwanted

    async def acknowledged(self, cursor: Cursor | str) -> None:
        """Wait until the server has noted for good that a delivery, and all before it, are done."""
        await self._durable().noted(Cursor.parse(cursor) if isinstance(cursor, str) else cursor)

    async def replay(
        self, *, first: int | None = None, since: datetime | timedelta | None = None, last: int | None = None
    ) -> None:
        """Get deliveries once more: from a number on, or from a time (or so long ago), or the last so many.

        They come to the subscriptions that match, marked as repeated. If they are not kept any more, :class:`GoneError`
        is raised.
        """
        self._durable()
        wanted = read_replay(first, since, last)
        await self._request(lambda connection: connection.replay(*wanted))

    async def letters(self, party: str | None = None) -> DeadLetters:
        """The party's dead letters: what it has rejected, and what was sent too often in vain.

        Admins of the server may look at those of another party.
        """
        return read_letters(await self.query("letters", **({} if party is None else {"party": party})))

    async def requeue(self, letters: Iterable[int]) -> None:
        """Deliver dead letters again, by their numbers; all of them, or none if one is not known.

        If the connection breaks meanwhile, :class:`ConnectionLostError` is raised: look whether they are still there.
        """
        await self._do_with("requeue", letters)

    async def discard(self, letters: Iterable[int]) -> None:
        """Forget dead letters, by their numbers; as :meth:`requeue` in all else."""
        await self._do_with("discard", letters)

    async def _do_with(self, action: str, letters: Iterable[int]) -> None:
        numbers = read_numbers(letters)
        await (await self._open()).letters(action, numbers)

    def _durable(self) -> Desk:
        if self._desk is None:
            raise CallerError("only durable parties can do this; connect with a name and durable=True")
        return self._desk


class Client(BaseClient):
    """A party that publishes and subscribes; :func:`palio.connect` makes one."""

    @overload
    def subscribe(  # type: ignore[overload-overlap]  # a pattern can be iterated over, too; the first one counts
        self, wanted: Pattern, *, wait: bool = ..., queue: int = ..., overflow: Overflow = ..., ack: Ack = ...
    ) -> Subscription[tuple[Notification, ...]]: ...
    @overload
    def subscribe(
        self,
        wanted: Filter | Iterable[Filter],
        *,
        wait: bool = ...,
        queue: int = ...,
        overflow: Overflow = ...,
        ack: Ack = ...,
    ) -> Subscription[Notification]: ...
    @overload
    def subscribe(
        self, wanted: str, *, wait: bool = ..., queue: int = ..., overflow: Overflow = ..., ack: Ack = ...
    ) -> Subscription[FromText]: ...
    def subscribe(
        self,
        wanted: str | Filter | Pattern | Iterable[Filter],
        *,
        wait: bool = False,
        queue: int = 1024,
        overflow: Overflow = "block",
        ack: Ack = "manual",
    ) -> Subscription[Any]:
        """Subscribe to what a filter matches, or several, or to the sequences that match a pattern.

        ``async with`` it, or await it; then iterate over it: it gives notifications, and for a pattern tuples of them.
        ``wait`` waits until the subscription has spread through the network. :class:`Stream` says what ``queue`` and
        ``overflow`` mean.
        """
        if ack != "manual":
            raise CallerError("ack: only durable parties acknowledge; connect with a name and durable=True")
        subscription: Subscription[Any] = Subscription(read_wanted(wanted), queue, overflow)
        self._attach(subscription, wait)
        return subscription


class DurableClient(BaseClient):
    """A durable party, whose subscriptions give deliveries; :func:`palio.connect` with ``durable`` makes one."""

    def subscribe(
        self,
        wanted: str | Filter | Pattern | Iterable[Filter],
        *,
        wait: bool = False,
        queue: int = 1024,
        overflow: Overflow = "block",
        ack: Ack = "manual",
    ) -> DurableSubscription:
        """Subscribe as :meth:`Client.subscribe` does; it gives each :class:`Delivery`, which is to be acknowledged.

        With ``ack="auto"`` a delivery is acknowledged when the next one is taken, or when ``async with`` is left
        without an error. ``overflow`` is always ``block``.
        """
        if overflow != "block":
            raise CallerError(f"overflow: {brief(overflow)}: a durable party loses nothing, so it is block")
        subscription = DurableSubscription(read_wanted(wanted), queue, self._durable(), ack)
        self._attach(subscription, wait)
        return subscription


def make_client(url: str, options: Options) -> Client | DurableClient:
    """A client of the kind that the options ask for."""
    options.check()
    return Client(url, options) if read_durable(options.durable) is None else DurableClient(url, options)


def _advertisement(given: str | Advertisement) -> Advertisement:
    if isinstance(given, Advertisement):
        return given
    if not isinstance(given, str):
        raise CallerError(f"{brief(given)} is no advertisement, nor text")
    return Advertisement.parse(given)
