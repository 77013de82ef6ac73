"""Which deliveries of a durable party have come, and which of them are done. Pure: it is told, and asked."""

from __future__ import annotations

from heapq import heappop, heappush

from palio.client.durable import Cursor, Gap, GapReason
from palio.codec.control import Position


class Ledger:
    """The deliveries of one log at a time, by number.

    Acknowledgement says that *all* deliveries up to a number are done, while consumers may be done with them in any
    order. So each number has as many holders as there are subscriptions that got the delivery; when nobody holds it, it
    is done, and so is what nobody got at all. All are done below the lowest number that is held.

    >>> ledger = Ledger()
    >>> ledger.position(Position(log=3, first=40, repeated=0, dropped=0, expired=0))
    >>> [ledger.receive(holders) for holders in (1, 2, 0, 1)]
    [40, 41, 42, 43]
    >>> ledger.release(41); ledger.done
    39
    >>> ledger.release(40); ledger.release(41); ledger.done
    42
    """

    def __init__(self) -> None:
        self.log: int | None = None
        self.next = 0
        """The number of the delivery that comes next."""
        self._high = 0
        """All numbers below this one have come or are gone."""
        self._repeated = 0
        self._dropped = 0
        self._expired = 0
        self._held: dict[int, int] = {}
        """How many hold each delivery that is not done; none, if it waits to be rejected."""
        self._lowest: list[int] = []
        """A heap of those numbers; some are done already."""
        self._reasons: dict[int, str] = {}
        """Why deliveries are to be rejected."""
        self.wanted: int | None = None
        """The server should go back to this number: the application begins there, or a replay was broken off."""

    @property
    def cursor(self) -> Cursor | None:
        """The delivery before the next one: up to it everything has come."""
        return None if self.log is None else Cursor(self.log, self.next - 1)

    def resume(self) -> None:
        """There will be another connection. If the last one was asked to go back and has not, it begins there."""
        if self.wanted is not None:
            self.next, self.wanted = self.wanted, None

    def position(self, position: Position, after: Cursor | None = None, *, is_first: bool = True) -> Gap | None:
        """The server says which delivery comes next: what is gone, if something is.

        ``after`` is where an application wants to begin, which counts if no log is known yet. A server that begins
        later, as the first that it says over a connection, may be asked to go back: what the application wants, and
        what is left of a replay, may still be there though it counts as acknowledged.
        """
        expected = self.cursor or after
        gap = self._gap(position, expected) if expected is not None else None
        is_behind = is_first and (self.log is None or self.next < self._high)
        self.wanted = gap.after.number + 1 if gap is not None and gap.count is not None and is_behind else None
        if position.log != self.log:
            self.log, self._high = position.log, position.first
            self._held, self._lowest, self._reasons = {}, [], {}
        self.next, self._high = position.first, max(self._high, position.first)
        self._repeated, self._dropped, self._expired = position.repeated, position.dropped, position.expired
        return gap

    def _gap(self, position: Position, expected: Cursor) -> Gap | None:
        before = Cursor(position.log, position.first)
        if position.log != expected.log:
            return Gap(expected, before, "other-log")
        if position.first <= expected.number + 1:
            return None
        dropped, expired = position.dropped - self._dropped, position.expired - self._expired
        reason: GapReason = "skipped" if max(dropped, expired) <= 0 else "dropped" if dropped >= expired else "expired"
        return Gap(expected, before, reason)

    def receive(self, holders: int) -> int:
        """A delivery has come, and so many have got it; its number."""
        number = self.next
        if holders:
            self.hold(number, holders)
        self.next += 1
        self._high = max(self._high, self.next)
        return number

    def is_repeated(self, number: int) -> bool:
        """Whether a delivery that comes now may have come before."""
        return number < max(self._repeated, self._high)

    # -- who is done with what -----------------------------------------------------------------------------------------

    def hold(self, number: int, holders: int = 1) -> None:
        """So many more have got a delivery."""
        if number not in self._held:
            self._held[number] = 0
            heappush(self._lowest, number)
        self._held[number] += holders

    def release(self, number: int) -> None:
        """One of those who got a delivery is done with it."""
        self._held[number] -= 1
        if not self._held[number] and number not in self._reasons:
            del self._held[number]

    def reject(self, number: int, reason: str) -> None:
        """One of those who got a delivery cannot do anything with it: it will be rejected when the others are done."""
        self._reasons.setdefault(number, reason)
        self.release(number)

    def rejected(self, number: int) -> None:
        """The server has noted that: the delivery is done, unless it has come again meanwhile."""
        self._reasons.pop(number, None)
        if not self._held.get(number, 1):
            del self._held[number]

    def keep(self, number: int, holders: int) -> None:
        """The server refuses that: so many hold the delivery again."""
        self._reasons.pop(number, None)
        self.hold(number, holders)

    @property
    def done(self) -> int:
        """The number up to which all deliveries are done."""
        while self._lowest and self._lowest[0] not in self._held:
            heappop(self._lowest)
        return min(self._lowest[0], self.next) - 1 if self._lowest else self.next - 1

    @property
    def rejection(self) -> tuple[int, str] | None:
        """The delivery that is to be rejected now, and why: all before it are done, and nobody holds it."""
        number = self.done + 1
        if number < self.next and not self._held.get(number, 1):
            return number, self._reasons[number]
        return None

    @property
    def is_settled(self) -> bool:
        """Whether all that came is done."""
        return not self._held
