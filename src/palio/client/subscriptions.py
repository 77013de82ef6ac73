"""What a client wants, and which of its subscriptions gets what comes.

A server sends one copy of a notification to a party, however many of its filters match, and keeps only filters of which
none covers another. So the client says to whom of its own the copy goes, and takes care that the end of one
subscription takes nothing from another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from palio.client.streams import Overflow, Stream
from palio.errors import CallerError, TextSyntaxError, brief
from palio.model import PROTOCOL_LIMITS, Filter, Notification, Pattern

if TYPE_CHECKING:
    from palio.matching.index import FilterIndex

E = TypeVar("E")
Wanted = Filter | Pattern
FromText = Notification | Any
"""The items of a subscription that is given as text: a type checker treats them as notifications, and accepts tuples of
notifications as well, because the text may be a pattern.
"""


class Subscription(Stream[E]):
    """The notifications that match a filter, or the sequences (tuples) of them that match a pattern."""

    def __init__(self, wanted: tuple[Wanted, ...], size: int, overflow: Overflow) -> None:
        super().__init__(size, overflow)
        self.is_sequence = isinstance(wanted[0], Pattern)
        self.wanted = tuple(map(_plain, wanted))
        """One pattern, or filters any of which may match."""

    def __repr__(self) -> str:
        return f"<Subscription {' or '.join(map(str, self.wanted))}>"


def read_wanted(wanted: str | Wanted | Iterable[Filter]) -> tuple[Wanted, ...]:
    """What a subscriber says that it wants, as filters or one pattern.

    >>> read_wanted('event in ("alarm", "fire")')
    (Filter.parse('event = "alarm"'), Filter.parse('event = "fire"'))
    >>> read_wanted("level > 3 then level < 3")
    (Pattern.parse('level > 3 then level < 3'),)
    """
    if isinstance(wanted, Filter | Pattern):
        return (wanted,)
    if isinstance(wanted, str):
        return _read_text(wanted)
    try:
        filters = tuple(wanted)
    except TypeError:
        filters = ()
    if not filters or not all(isinstance(each, Filter) for each in filters):
        raise CallerError(f"{brief(wanted)} is neither a filter nor a pattern, nor text or several filters")
    return filters


def _read_text(text: str) -> tuple[Wanted, ...]:
    try:
        return Filter.parse_union(text)
    except TextSyntaxError as error:
        try:
            return (Pattern.parse(text),)
        except TextSyntaxError as other:
            raise (other if other.offset > error.offset else error) from None


def _plain(wanted: Wanted) -> Wanted:
    """A pattern of one filter is that filter for servers, too."""
    return wanted.filters[0] if isinstance(wanted, Pattern) and len(wanted) == 1 else wanted


class Subscriptions:
    """The live subscriptions of a client."""

    def __init__(self) -> None:
        self._live: dict[Subscription[Any], None] = {}
        self._holders: dict[int, Subscription[Any]] = {}
        self._ids: dict[Subscription[Any], list[int]] = {}
        self._full: set[Subscription[Any]] = set()
        """Those that were full when they last got something."""

    @cached_property
    def _index(self) -> FilterIndex:
        """All filters; who only publishes does not wait for it to be loaded."""
        from palio.matching.index import FilterIndex  # noqa: PLC0415

        return FilterIndex(limits=PROTOCOL_LIMITS)

    def __iter__(self) -> Iterator[Subscription[Any]]:
        return iter(tuple(self._live))

    def wanted(self) -> tuple[Wanted, ...]:
        """All that is wanted."""
        return tuple(dict.fromkeys(each for subscription in self._live for each in subscription.wanted))

    def add(self, subscription: Subscription[Any]) -> None:
        """There is one more."""
        self._live[subscription] = None
        ids = [self._index.add(each) for each in subscription.wanted if isinstance(each, Filter)]
        self._ids[subscription] = ids
        self._holders.update(dict.fromkeys(ids, subscription))

    def remove(self, subscription: Subscription[Any]) -> bool:
        """There is one less; whether there was."""
        if subscription not in self._live:
            return False
        del self._live[subscription]
        self._full.discard(subscription)
        for id in self._ids.pop(subscription):
            self._index.remove(id)
            del self._holders[id]
        return True

    def changes(self, gone: tuple[Wanted, ...]) -> list[tuple[Wanted, list[Wanted]]]:
        """What to cancel at the server when some filters, or a pattern, are wanted no more; and what takes its place.

        Cancelling a filter cancels all that it covers. So what another subscription wants as well is not cancelled, and
        what is still wanted below it is subscribed to in the same step.
        """
        left = self.wanted()
        cancelled = [each for each in gone if not any(covers(other, each) for other in left)]
        return [(each, [other for other in left if covers(each, other)]) for each in cancelled]

    def cancel(self, cancelled: Wanted) -> list[Subscription[Any]]:
        """Take out what is cancelled on purpose, with all that it covers; the subscriptions that are left without
        anything are returned.
        """
        ended = []
        for subscription in self:
            kept = tuple(each for each in subscription.wanted if not covers(cancelled, each))
            if kept == subscription.wanted:
                continue
            self.remove(subscription)
            subscription.wanted = kept
            if kept:
                self.add(subscription)
            else:
                ended.append(subscription)
        return ended

    # -- what comes ----------------------------------------------------------------------------------------------------

    def is_full(self) -> bool:
        """Whether somebody cannot take more, and nothing may be lost."""
        if self._full:
            self._full = {subscription for subscription in self._full if subscription.is_full}
        return bool(self._full)

    def deliver(self, notification: Notification) -> list[Subscription[Any]]:
        """Give a notification to all who want it; those that fail because of it are returned."""
        takers = self.takers(notification)
        return [each for each in takers if not self.put(each, (notification,) if each.is_sequence else notification)]

    def takers(self, notification: Notification) -> list[Subscription[Any]]:
        """Those who want a notification."""
        return list(dict.fromkeys(self._holders[id] for id in self._index.match(notification)))

    def deliver_sequence(self, pattern: Pattern, sequence: tuple[Notification, ...]) -> list[Subscription[Any]]:
        """Give a sequence to all who want it; those that fail because of it are returned."""
        return [each for each in self.takers_of(pattern, sequence) if not self.put(each, sequence)]

    def takers_of(self, pattern: Pattern, sequence: tuple[Notification, ...]) -> list[Subscription[Any]]:
        """Those who want the pattern, or a narrower one that the sequence matches too.

        The server has only the broader one of two patterns, so who wants the narrower gets of its sequences those that
        fit.
        """
        return [each for each in self if _wants(each.wanted[0], pattern, sequence)]

    def put(self, subscription: Subscription[Any], element: object) -> bool:
        """Give something to one of them; whether it goes on."""
        goes_on = subscription.put(element)
        if subscription.is_full:
            self._full.add(subscription)
        return goes_on


def covers(one: Wanted, other: Wanted) -> bool:
    """Whether cancelling the one cancels the other."""
    if isinstance(one, Filter):
        return isinstance(other, Filter) and one.covers(other)
    return isinstance(other, Pattern) and one.covers(other)


def _wants(wanted: Wanted, pattern: Pattern, sequence: tuple[Notification, ...]) -> bool:
    return (
        isinstance(wanted, Pattern)
        and pattern.covers(wanted)
        and all(filter.matches(each) for filter, each in zip(wanted, sequence, strict=False))
    )
