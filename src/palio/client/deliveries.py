"""What subscriptions of a durable party give: deliveries, which are acknowledged or rejected."""

from __future__ import annotations

from types import TracebackType
from typing import Literal, NamedTuple

from palio.client.desk import Desk
from palio.client.durable import Cursor
from palio.client.subscriptions import Subscription, Wanted
from palio.errors import CallerError, brief
from palio.model import Notification, Pattern

Ack = Literal["manual", "auto"]
ACKS: tuple[Ack, ...] = ("manual", "auto")
_MOST_REASON = 1024
Element = Notification | tuple[Notification, ...]


class Arrival(NamedTuple):
    """What has come, whoever wants it."""

    cursor: Cursor
    is_repeated: bool
    element: Element
    pattern: Pattern | None
    """Which pattern a sequence matches."""


class Delivery:
    """A notification, or a sequence of them, that waits at the server until it is acknowledged."""

    __slots__ = ("_subscription", "arrival", "element")

    def __init__(self, arrival: Arrival, subscription: DurableSubscription) -> None:
        element = arrival.element
        self.element: Element = (
            (element,) if isinstance(element, Notification) and subscription.is_sequence else element
        )
        """What a party that is not durable would get: a notification, and for a pattern a tuple of them."""
        self.arrival = arrival
        self._subscription = subscription

    def __repr__(self) -> str:
        return f"<Delivery {self.cursor}{' (repeated)' if self.is_repeated else ''}: {self.element!r}>"

    @property
    def cursor(self) -> Cursor:
        """Which delivery it is: its log and its number. Kept with one's own results, it says where to go on."""
        return self.arrival.cursor

    @property
    def number(self) -> int:
        """In the party's log."""
        return self.arrival.cursor.number

    @property
    def is_repeated(self) -> bool:
        """Whether it may have come before: to a program that died before it acknowledged it, or because of a replay."""
        return self.arrival.is_repeated

    @property
    def notifications(self) -> tuple[Notification, ...]:
        """Those of a sequence, or the only one."""
        return self.element if isinstance(self.element, tuple) else (self.element,)

    @property
    def notification(self) -> Notification:
        """The only one, or the last of a sequence, which has completed it."""
        return self.notifications[-1]

    async def ack(self, *, wait: bool = False) -> None:
        """Say that it is done. That is noted at once, and told to the server a moment later, together with others.

        The server is told that *all* deliveries up to a number are done, so those before it must be acknowledged, too.
        ``wait`` waits until the server has noted that for good; who has not acknowledged all before it, waits for ever.
        """
        self._subscription.settle(self)
        if wait:
            await self._subscription.desk.noted(self.cursor)

    async def reject(self, reason: str, *, wait: bool = False) -> None:
        """Say that nothing can be done with it: it becomes a dead letter, and counts as acknowledged.

        The server is told when all deliveries before it are done; ``wait`` waits for that.
        """
        if not isinstance(reason, str) or not 1 <= len(reason.encode("utf-8", "replace")) <= _MOST_REASON:
            raise CallerError(f"reason: {brief(reason)} is none; it is text of 1 to {_MOST_REASON:,} bytes")
        self._subscription.settle(self, reason)
        if wait:
            await self._subscription.desk.rejected(self.cursor)


class DurableSubscription(Subscription["Delivery"]):
    """The deliveries of a durable party that match.

    To leave ``async with`` does not cancel it at the server, because what comes meanwhile should wait: subscribe to the
    same again, in this client or after the next start. :meth:`close` and :meth:`Client.unsubscribe` cancel it.
    """

    def __init__(self, wanted: tuple[Wanted, ...], size: int, desk: Desk, ack: Ack) -> None:
        super().__init__(wanted, size, "block")
        if ack not in ACKS:
            raise CallerError(f"ack: {brief(ack)} is none of {', '.join(ACKS)}")
        self.desk = desk
        self.is_automatic = ack == "auto"
        self._given: dict[Delivery, None] = {}
        """What was taken and not acknowledged, in order."""
        self.is_left = False
        """Whether nobody iterates over it any more."""

    async def __anext__(self) -> Delivery:
        self._settle_given()
        delivery = await super().__anext__()
        self._given[delivery] = None
        return delivery

    async def take(self) -> list[Delivery]:
        """All that waits, as soon as something does; nothing when nothing more will come."""
        self._settle_given()
        deliveries = await super().take()
        self._given.update(dict.fromkeys(deliveries))
        return deliveries

    def _settle_given(self) -> None:
        """Who takes more is done with what it has taken, if that is how it wants it."""
        if self.is_automatic:
            for delivery in list(self._given):
                self.settle(delivery)

    def settle(self, delivery: Delivery, reason: str | None = None) -> None:
        """A delivery is done, or rejected; only what is said first counts."""
        if delivery not in self._given:
            return
        del self._given[delivery]
        if reason is None:
            self.desk.release(delivery.cursor)
        else:
            self.desk.reject(delivery.cursor, reason, lambda: self._given.update({delivery: None}))

    # -- its end -------------------------------------------------------------------------------------------------------

    def give_up(self) -> list[Delivery]:
        """All that is not acknowledged; this subscription does not have it any more."""
        deliveries = [*self._given, *self._waiting]
        self._given.clear()
        self._clear()
        return deliveries

    def retract(self, first: Cursor) -> None:
        """The server begins once more with a delivery: what waits from there on comes again."""
        while self._waiting and self._waiting[-1].cursor >= first:
            self.desk.release(self._waiting.pop().cursor)
        self._taken()

    def take_over(self, other: DurableSubscription) -> None:
        """Go on where another one was left: what it has taken and not acknowledged comes again."""
        given = set(other._given)
        for delivery in other.give_up():
            arrival = delivery.arrival
            self.put(Delivery(arrival._replace(is_repeated=arrival.is_repeated or delivery in given), self))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:  # in good order
            self._settle_given()
        self.is_left = True

    async def close(self) -> None:
        """End it, at the server too. What was not taken is given up, and counts as acknowledged."""
        for delivery in self._waiting:
            self.desk.release(delivery.cursor)
        self._clear()
        await super().close()

    def _clear(self) -> None:
        self._waiting.clear()
        self._taken()
