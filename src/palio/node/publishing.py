"""Publications get their envelopes: one by one, or in blocks that find their parties in compiled form."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from palio.codec import msgpack
from palio.codec.frames import Options, number_before, trace_of
from palio.model import Notification
from palio.model.envelope import Envelope, NotificationId
from palio.node import admission
from palio.node.hybrid import HybridClock, date_of
from palio.node.ports import PublishBlock
from palio.node.settings import NodeSettings
from palio.routing.board import Dispatched
from palio.routing.messages import Publish
from palio.routing.router import Router

_NO_OPTIONS = Options()


class Published(NamedTuple):
    """What becomes of a block."""

    done: Dispatched
    elsewhere: list[tuple[int, Publish]]
    """What is wanted by others than parties of this server, with the numbers that the publisher knows."""
    rest: PublishBlock | None
    """What was not handled."""


class Publishing:
    """The counter and the clock of the publications of a server."""

    __slots__ = ("_limits", "_router", "_server", "_start", "clock", "count")

    def __init__(self, settings: NodeSettings, router: Router) -> None:
        self._server, self._start, self._limits = settings.server, settings.start, settings.limits
        self._router = router
        self.clock = HybridClock()
        self.count = 0
        """How many notifications this server has accepted, in this incarnation."""

    def accept(self, party: str, notification: Notification, now: int, options: Options = _NO_OPTIONS) -> Publish:
        """A notification that a party publishes, as it goes on its way."""
        admission.check_size(notification, self._limits)
        trace = None if options.trace is None else trace_of(options.trace)
        id = NotificationId(self._server, self._start, self.count)
        self.count += 1
        published = self.clock.next(now)
        if options is _NO_OPTIONS:
            return Publish(notification.with_envelope(Envelope(id, published, party)))
        envelope = Envelope(id, published, party, options.expires, options.key, trace)
        return Publish(notification.with_envelope(envelope))

    def accept_block(self, block: PublishBlock, now: int, *, is_logged: bool) -> Published:
        """Many of them; what parties want is ready to be delivered. All are logged, or what is for some parties."""
        party, frames = block.party, block.frames
        first, published = NotificationId(self._server, self._start, self.count), self.clock.reserve(now)
        goes_on = self._router.passes_everything_on
        done = self._router.board.dispatch(
            frames, first, published, party, goes_on=goes_on, is_logged=is_logged, limits=self._limits
        )
        self.count += done.accepted
        self.clock.use(published, done.accepted)
        elsewhere = []
        for other in done.others:
            notification = msgpack.decode(Notification, frames[other.offset : other.offset + other.size], self._limits)
            id = NotificationId(self._server, self._start, other.sequence)
            made = Publish(notification.with_envelope(Envelope(id, date_of(other.published), party)))
            elsewhere.append((number_before(frames, other.offset), made))
        left = frames[done.consumed :]
        return Published(done, elsewhere, msgspec.structs.replace(block, frames=left) if left else None)
