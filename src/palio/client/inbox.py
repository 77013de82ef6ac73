"""What comes for a client unasked, and to which of its streams it goes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from palio.client.streams import Stream
from palio.client.subscriptions import Subscription, Subscriptions
from palio.codec import control, msgpack
from palio.model import Advertisement, Filter, Limits, Notification, Pattern

_log = logging.getLogger("palio.client")


class Inbox:
    """All streams of a client; its connections give to them."""

    def __init__(self, failed: Callable[[Subscription], object]) -> None:
        self._failed = failed
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
            self._failed(subscription)

    def found(self, sequence: control.Sequence, limits: Limits) -> None:
        """A sequence of notifications has come."""
        pattern = msgpack.decode(Pattern, bytes(sequence.pattern), limits)
        elements = tuple(control.notification(*each, limits) for each in sequence.notifications)
        for subscription in self.subscriptions.deliver_sequence(pattern, elements):
            self._failed(subscription)

    def looked(self, outlook: control.Outlook, limits: Limits) -> None:
        """There is, or is not, somebody for what is watched."""
        subject = control.subject(outlook.kind, outlook.document, limits)
        for stream in () if isinstance(subject, Pattern) else self.watches.get(subject, ()):
            stream.put(outlook.is_good)

    def refused(self, text: str) -> None:
        """A publication was refused whose publisher did not want to know."""
        _log.warning("an unconfirmed publication was refused: %s", text)
