"""What comes for a durable client: numbered, and given to its subscriptions."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from palio.client.deliveries import Arrival, Delivery, DurableSubscription, Element
from palio.client.desk import Desk
from palio.client.durable import Cursor, Durable, Gap, GapReason
from palio.client.inbox import Inbox, read_sequence
from palio.client.subscriptions import Subscription
from palio.codec import control
from palio.codec.control import Position
from palio.model import Notification, Pattern

if TYPE_CHECKING:
    from palio.client.connection import Connection

_log = logging.getLogger("palio.client")
_MOST_UNCLAIMED = 1024
"""So many deliveries that no subscription wants yet may wait here; then nothing more is read."""


class DurableInbox(Inbox):
    """The deliveries of a durable party, over all its connections.

    It lives as long as the client, and knows what has come. So the client says to a new connection what it has got, and
    gets nothing twice; what its consumers hold stays theirs, and is acknowledged over the new connection.
    """

    is_durable = True

    def __init__(self, durable: Durable) -> None:
        super().__init__(lambda _: None)  # queues of durable subscriptions are never too full
        self._durable = durable
        self.desk = Desk(durable.window)
        self._lost: control.LeaseEnded | control.Missed | None = None
        """The server's report of what was lost while the party was away; the position follows."""
        self._gap: Gap | None = None
        """What is gone unless the server goes back."""
        self._unclaimed: deque[Arrival] = deque()
        """What no subscription wants yet."""
        self._is_settled = False
        """Whether nobody will come for that any more."""
        self._settling: asyncio.TimerHandle | None = None
        self._is_stopped = False

    # -- what comes ----------------------------------------------------------------------------------------------------

    def durable(self) -> control.Durable:
        """What is said to a server, with the delivery that has come last."""
        self._resume()
        return self._durable.wire(self.desk.ledger.cursor or self._durable.cursor)

    def _resume(self) -> None:
        """Nobody will go back over this connection: what has come too early counts as if it had not come."""
        ledger = self.desk.ledger
        if ledger.log is not None and ledger.wanted is not None:
            first = Cursor(ledger.log, ledger.wanted)
            ledger.resume()
            self._retract(first)

    @property
    def wanted(self) -> int | None:
        """The number to which the server should go back, if it should."""
        return self.desk.ledger.wanted

    def cannot_go_back(self) -> None:
        """The server does not have that any more."""
        self.desk.ledger.wanted, gap = None, self._gap
        if gap is not None:
            self._tell(gap)
        self._hand_out(self.subscriptions)

    def positioned(self, position: Position, connection: Connection) -> None:
        """Which delivery comes next."""
        ledger, first = self.desk.ledger, Cursor(position.log, position.first)
        comes_again = position.log == ledger.log and position.first < ledger.next
        wanted, pending, self.position = self.wanted, self._gap, position
        gap = self.desk.position(position, connection, self._durable.cursor)
        lost, self._lost = self._lost, None
        if isinstance(lost, control.LeaseEnded):
            gap = Gap(Cursor(lost.log, lost.done - 1), first, "lease-ended", lost.lost)
        elif lost is not None and gap is None:
            reason: GapReason = "expired" if position.expired > position.dropped else "dropped"
            gap = Gap(Cursor(position.log, lost.first - 1), first, reason)
        if comes_again:  # after the ledger has heard of it: else it would take what is retracted for done
            self._retract(first)
        if wanted is not None and self.wanted is None:
            if pending is not None and position.first > wanted:  # it would have gone back, and cannot any more
                self._tell(pending)
            self._hand_out(self.subscriptions)
        self._gap = None if self.wanted is None else gap
        if gap is not None and self._gap is None:
            self._tell(gap)

    def lost(self, what: control.LeaseEnded | control.Missed) -> None:
        """Keep the server's report until the position comes, which completes the gap."""
        self._lost = what

    def _retract(self, first: Cursor) -> None:
        """What nobody has taken yet, and comes again, need not come twice."""
        for subscription in self.subscriptions:
            assert isinstance(subscription, DurableSubscription)
            subscription.retract(first)
        while self._unclaimed and self._unclaimed[-1].cursor >= first:
            self.desk.release(self._unclaimed.pop().cursor)

    def _tell(self, gap: Gap) -> None:
        self.missed += gap.count or 0
        _log.warning("%s", gap)
        if self._durable.on_gap is not None:
            try:
                self._durable.on_gap(gap)
            except Exception:  # noqa: BLE001 (a fault of the application, which must not end the connection)
                _log.exception("on_gap failed")

    def acknowledged(self, number: int) -> None:
        """The server has noted what is done."""
        self.desk.acknowledged(number)

    def is_full(self) -> bool:
        """Whether nothing more should be read: not while somebody waits for what comes behind the deliveries."""
        if self.desk.has_waiters:
            return False
        return super().is_full() or len(self._unclaimed) >= _MOST_UNCLAIMED

    def delivered(self, notification: Notification) -> None:
        """The next delivery has come: a notification."""
        self._arrived(notification, None)

    def found(self, sequence: control.Sequence) -> None:
        """The next delivery has come: a sequence."""
        pattern, elements = read_sequence(sequence)
        self._arrived(elements, pattern)

    def _arrived(self, element: Element, pattern: Pattern | None) -> None:
        if self._is_stopped:
            return  # as if it had not come: it will come again
        ledger = self.desk.ledger
        assert ledger.log is not None
        arrival = Arrival(Cursor(ledger.log, ledger.next), ledger.is_repeated(ledger.next), element, pattern)
        is_early = self.wanted is not None  # what is before it may still come
        takers = [] if is_early else self._takers(arrival)
        is_unclaimed = is_early or (not takers and not self._is_settled)
        ledger.receive(len(takers) + is_unclaimed)
        for taker in takers:
            self._give(taker, arrival)
        if is_unclaimed:
            self._unclaimed.append(arrival)
        elif not takers:
            self._pass_over(1)

    def _takers(self, arrival: Arrival) -> list[Subscription[Any]]:
        if isinstance(arrival.element, Notification):
            return self.subscriptions.takers(arrival.element)
        assert arrival.pattern is not None
        return self.subscriptions.takers_of(arrival.pattern, arrival.element)

    def _give(self, taker: Subscription[Any], arrival: Arrival) -> None:
        assert isinstance(taker, DurableSubscription)
        if not self.subscriptions.put(taker, Delivery(arrival, taker)):  # it has ended meanwhile
            self.desk.release(arrival.cursor)

    # -- who wants it --------------------------------------------------------------------------------------------------

    def began(self, subscription: Subscription[Any]) -> None:
        """There is one more: what waited for it is its own, and what was left by one that wanted the same."""
        assert isinstance(subscription, DurableSubscription)
        for other in self.subscriptions:
            assert isinstance(other, DurableSubscription)
            if other.is_left and set(other.wanted) == set(subscription.wanted):
                self.subscriptions.remove(other)
                subscription.take_over(other)
        self.subscriptions.add(subscription)
        if self.wanted is None:
            self._hand_out([subscription])
        if self._settling is None:
            self._settling = asyncio.get_running_loop().call_later(self._durable.settle, self._settle)

    def _hand_out(self, subscriptions: Iterable[Subscription[Any]]) -> None:
        """Give what waits to those of some subscriptions that want it."""
        offered, unclaimed, self._unclaimed = set(subscriptions), self._unclaimed, deque()
        for arrival in unclaimed:
            takers = [each for each in self._takers(arrival) if each in offered]
            if takers:
                self.desk.hold(arrival.cursor, len(takers) - 1)
            for taker in takers:
                self._give(taker, arrival)
            if not takers:
                self._unclaimed.append(arrival)
        if self._is_settled:
            self._settle()

    def failed(self, subscription: Subscription[Any]) -> None:
        """It did not come about: what it has got waits for another one."""
        assert isinstance(subscription, DurableSubscription)
        waiting = {arrival.cursor: arrival for arrival in self._unclaimed}
        for delivery in subscription.give_up():
            if delivery.cursor in waiting:  # another one that did not come about has got it, too
                self.desk.release(delivery.cursor)
            waiting[delivery.cursor] = delivery.arrival
        self._unclaimed = deque(waiting[cursor] for cursor in sorted(waiting))
        if self._is_settled:
            self._settle()

    def _settle(self) -> None:
        """Nobody will come any more for what nobody wants."""
        self._is_settled = True
        if self.wanted is not None:
            return  # it was not offered to anybody yet
        unclaimed, self._unclaimed = self._unclaimed, deque()
        for arrival in unclaimed:
            self.desk.release(arrival.cursor)
        self._pass_over(len(unclaimed))
        self.desk.go_on()

    def _pass_over(self, count: int) -> None:
        if count and not self.unwanted:
            _log.warning(
                "deliveries come that match no subscription of this client, %s for example, and count as acknowledged; "
                "unsubscribe from what an earlier program has subscribed to, if it is not wanted any more",
                self.desk.ledger.cursor,
            )
        self.unwanted += count
        self.desk.advance()

    # -- the end -------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take nothing more. What waits for a subscription that might still have come is not acknowledged."""
        self._is_stopped = True
        self._resume()
        if self._is_settled:
            self._settle()
        elif self._settling is not None:
            self._settling.cancel()

    async def settled(self) -> None:
        """Wait until all that has come is acknowledged, and the server has noted that; as far as it can be."""
        cursor = self.desk.ledger.cursor
        if self._unclaimed:
            first = self._unclaimed[0].cursor
            cursor = first._replace(number=first.number - 1)
        if cursor is not None:
            await self.desk.noted(cursor)

    async def rejections_noted(self) -> None:
        """Wait until the server has noted what was rejected, and tell it what is done behind that."""
        await self.desk.rejections_noted()

    def finish(self, reason: Exception) -> None:
        """Nothing can be said any more."""
        self.desk.finish(reason)
        if self._settling is not None:
            self._settling.cancel()
