"""Nodes with faults of their own: they fail at inputs that are marked, each at a chosen place.

A publication is marked by an attribute, a subscription by a constraint, of the name ``poison``; its value is the place.
All that a marked input does to numbers of publications it does before it fails, so that a player knows them.
"""

from __future__ import annotations

from typing import Any

from palio.codec import frames, msgpack
from palio.codec.frames import Options
from palio.model import Filter, Notification
from palio.node.ports import Output, PublishBlock, Request, Subscribe
from palio.node.publishing import Published, Publishing
from palio.routing.messages import Publish
from palio.sim.engine.recording import InjectedError, RecordingNode

_NO_OPTIONS = Options()
POISON = "poison"
PLACES = ("accept", "forward", "arrive", "end")
"""Where a node fails: when it has numbered a publication; when it is about to send it on its way; when a neighbour has
brought it; at the end of the turn, where no input is to blame."""
REQUEST = "request"
"""Where it fails with a marked subscription: before that has any effect."""


def place_of(notification: Notification) -> str:
    """Where a publication makes nodes fail, if it does.

    >>> place_of(Notification.parse('x = 1; poison = "accept"')), place_of(Notification(x=1))
    ('accept', '')
    """
    return str(notification.get(POISON, ""))


def is_poisoned(text: str) -> bool:
    """Whether a history has something marked.

    >>> is_poisoned('poison = "request" and x = 1')
    True
    """
    return POISON in text


def fail_at(place: str, notification: Notification) -> None:
    """Fail if a notification is marked for a place."""
    if place_of(notification) == place:
        raise InjectedError(place)


class FaultyPublishing(Publishing):
    """Numbers publications, and then fails at those that are marked."""

    __slots__ = ()

    def accept(self, party: str, notification: Notification, now: int, options: Options = _NO_OPTIONS) -> Publish:
        """As always; and perhaps fail."""
        made = super().accept(party, notification, now, options)
        fail_at("accept", notification)
        return made

    def accept_block(self, block: PublishBlock, now: int, *, is_logged: bool) -> Published:
        """As always; and fail if one of them is marked."""
        published = super().accept_block(block, now, is_logged=is_logged)
        for _, document in frames.publications_of(block.frames):
            fail_at("accept", msgpack.decode(Notification, document))
        return published


class FaultyNode(RecordingNode):
    """A node that fails at what is marked."""

    def __init__(self, *given: Any) -> None:
        self._fails_at_end = False
        super().__init__(*given)
        known = self.publishing
        self.publishing = FaultyPublishing(self.settings, self.router)
        self.publishing.count, self.publishing.clock = known.count, known.clock

    def _forward(self, message: Publish, source: str | None, *, to_parties: bool = True) -> None:
        fail_at("forward" if source is None else "arrive", message.notification)
        self._fails_at_end |= place_of(message.notification) == "end"
        super()._forward(message, source, to_parties=to_parties)

    def _perform(self, request: Request) -> bool:
        operation = request.operation
        wanted = operation.filter if isinstance(operation, Subscribe) else None
        if isinstance(wanted, Filter) and any(each.name == POISON for each in wanted.constraints):
            raise InjectedError(REQUEST)
        return super()._perform(request)

    def _finish(self, now: int) -> list[Output]:
        if self._fails_at_end:
            raise InjectedError("end")
        return super()._finish(now)


def hostile(server: str) -> str:
    """The party at a server that makes it fail."""
    return f"{server}/hostile"
