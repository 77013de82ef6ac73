"""Publications get their envelopes: one by one, or in blocks that find their parties in compiled form."""

from __future__ import annotations

from typing import NamedTuple

from palio.codec import msgpack
from palio.model import Notification, Trace
from palio.model.envelope import Envelope, NotificationId
from palio.node import admission
from palio.node.hybrid import HybridClock, date_of
from palio.node.ports import AcceptedUpTo, DeliverBlock, Output, PublishBlock, Reply, Rest
from palio.node.settings import NodeSettings
from palio.routing.messages import Publish
from palio.routing.router import Router


class Published(NamedTuple):
    """What becomes of a block."""

    deliveries: list[Output]
    elsewhere: list[Publish]
    """What is wanted by others than parties of this server."""
    answers: list[Output]


class Publishing:
    """The counter and the clock of the publications of a server."""

    __slots__ = ("_incarnation", "_limits", "_router", "_server", "clock", "count")

    def __init__(self, settings: NodeSettings, router: Router) -> None:
        self._server, self._incarnation, self._limits = settings.server, settings.incarnation, settings.limits
        self._router = router
        self.clock = HybridClock()
        self.count = 0
        """How many notifications this server has accepted, in this incarnation."""

    def accept(self, party: str, notification: Notification, now: int, trace: Trace | None = None) -> Publish:
        """A notification that a party publishes, as it goes on its way."""
        admission.check_size(notification, self._limits)
        id = NotificationId(self._server, self._incarnation, self.count)
        self.count += 1
        published = self.clock.next(now)
        envelope = Envelope(id, published, party) if trace is None else Envelope(id, published, party, trace=trace)
        return Publish(notification.with_envelope(envelope))

    def accept_block(self, block: PublishBlock, now: int) -> Published:
        """Many of them; what parties want is ready to be delivered."""
        party, frames = block.party, block.frames
        first, published = NotificationId(self._server, self._incarnation, self.count), self.clock.reserve(now)
        done = self._router.board.dispatch(
            frames, first, published, party, goes_on=self._router.passes_everything_on, limits=self._limits
        )
        self.count += done.accepted
        self.clock.use(published, done.accepted)
        elsewhere = []
        for other in done.others:
            notification = msgpack.decode(Notification, frames[other.offset : other.offset + other.size], self._limits)
            id = NotificationId(self._server, self._incarnation, other.sequence)
            elsewhere.append(Publish(notification.with_envelope(Envelope(id, date_of(other.published), party))))
        answers: list[Output] = [Reply(party, number, problem) for number, problem in done.refused]
        if done.last_number:
            answers.append(AcceptedUpTo(party, done.last_number))
        if done.consumed < len(frames):
            answers.append(Rest(PublishBlock(party, frames[done.consumed :])))
        return Published([DeliverBlock(*each) for each in done.deliveries], elsewhere, answers)
