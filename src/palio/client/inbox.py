"""What comes for a client unasked, and to which of its streams it goes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from palio.client.streams import Stream
from palio.client.subscriptions import Subscription, Subscriptions
from palio.codec import control, msgpack
from palio.errors import DecodeError, printable
from palio.model import PROTOCOL_LIMITS, Advertisement, Filter, Notification, Pattern

if TYPE_CHECKING:
    from palio.client.connection import Connection

_log = logging.getLogger("palio.client")


class Inbox:
    """All streams of a client; its connections give to them."""

    is_durable = False
    position: control.Position | None = None
    """What the server has said of the log of a durable party last."""
    missed = 0
    """How many deliveries are known to be gone before they could come."""
    unwanted = 0
    """How many deliveries nobody wanted."""

    def __init__(self, overflowed: Callable[[Subscription[Any]], object]) -> None:
        self._overflowed = overflowed
        """Whom to tell of a subscription that could not take what came."""
        self.subscriptions = Subscriptions()
        self.watches: dict[Filter | Advertisement, list[Stream[bool]]] = {}

    def streams(self) -> Iterator[Stream[Any]]:
        """All of them."""
        yield from self.subscriptions
        for several in self.watches.values():
            yield from several

    def is_full(self) -> bool:
        """Whether nothing more should be read."""
        return self.subscriptions.is_full()

    def delivered(self, notification: Notification) -> None:
        """A notification has come."""
        for subscription in self.subscriptions.deliver(notification):
            self._overflowed(subscription)

    def found(self, sequence: control.Sequence) -> None:
        """A sequence of notifications has come."""
        for subscription in self.subscriptions.deliver_sequence(*read_sequence(sequence)):
            self._overflowed(subscription)

    def looked(self, outlook: control.Outlook) -> None:
        """There is, or is not, somebody for what is watched."""
        subject = control.subject(outlook.kind, outlook.document)
        for stream in () if isinstance(subject, Pattern) else self.watches.get(subject, ()):
            stream.put(outlook.is_good)

    def refused(self, text: str) -> None:
        """A publication was refused whose publisher did not want to know."""
        _log.warning("an unconfirmed publication was refused: %s", printable(text))

    # -- of durable parties --------------------------------------------------------------------------------------------

    def durable(self) -> control.Durable | None:
        """What a durable party says to a server."""
        return None

    def positioned(self, position: control.Position, connection: Connection) -> None:  # noqa: ARG002
        """Which delivery comes next; only durable parties are told."""
        raise DecodeError("a Position does not belong here")

    def lost(self, what: control.LeaseEnded | control.Missed) -> None:
        """A party that is not durable has no log that could lose deliveries."""
        raise DecodeError(f"a {type(what).__name__} does not belong here")

    def acknowledged(self, number: int) -> None:  # noqa: ARG002
        """The server has noted what is done; only durable parties are told."""
        raise DecodeError("an acknowledgement of deliveries does not belong here")

    def began(self, subscription: Subscription[Any]) -> None:
        """There is one more subscription."""
        self.subscriptions.add(subscription)

    def failed(self, subscription: Subscription[Any]) -> None:
        """It did not come about."""

    async def settled(self) -> None:
        """Wait until all that has come is acknowledged, and the server has noted that."""

    @property
    def wanted(self) -> int | None:
        """The number to which the server should go back, if it should."""
        return None

    def cannot_go_back(self) -> None:
        """The server does not have any more what is wanted."""

    def stop(self) -> None:
        """Take nothing more."""

    async def rejections_noted(self) -> None:
        """Wait until the server has noted what was rejected; only durable parties reject."""

    def finish(self, reason: Exception) -> None:
        """Nothing can be said any more."""


def read_sequence(sequence: control.Sequence) -> tuple[Pattern, tuple[Notification, ...]]:
    """A sequence of notifications, and the pattern that it matches."""
    pattern = msgpack.decode(Pattern, bytes(sequence.pattern), PROTOCOL_LIMITS)
    return pattern, tuple(control.notification(*each) for each in sequence.notifications)
