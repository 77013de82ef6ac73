"""A server with the log of one durable party, which does as the protocol says; and what a test tells it to do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from palio.codec import control, frames
from palio.codec.control import Answer, Ask, Control, Hello, Letters, Position, Query, Reject, Replay, Result, Sequence
from palio.model import Envelope, Notification, NotificationId, Pattern
from tests.client.puppet import Puppet

DECODED = {control.KINDS[cls] for cls in (Ask, Replay, Reject, Letters, Query)}


def enveloped(notification: Notification, number: int) -> Notification:
    return notification.with_envelope(
        Envelope(NotificationId("puppet", 1, number), datetime(2026, 11, 16, tzinfo=UTC), "adam")
    )


class LogPuppet(Puppet):
    """It remembers what was delivered and acknowledged; the window is endless."""

    def __init__(self, log: int = 3) -> None:
        super().__init__()
        self.log = log
        self.deliveries: list[bytes] = []
        self.acknowledged = -1
        self.acknowledgements: list[int] = []
        """All that came, in order."""
        self.notes = True
        """Whether it says that it has noted what is acknowledged."""
        self.dropped = 0
        self.requests: list[Control] = []
        """All that it was asked for."""
        self.refusals: dict[type[Control], tuple[str, str]] = {}
        """What it refuses, with code and text."""
        self.is_silent = False
        """Whether it answers nothing."""
        self._greeted_one: asyncio.StreamWriter | None = None
        """To whom deliveries are sent as they come."""
        self.letters: dict[str, Any] = {"letters": [], "forgotten": 0}

    # -- what a test does ----------------------------------------------------------------------------------------------

    def deliver(self, notification: Notification | None = None, /, **attributes: Any) -> int:
        """There is a delivery; its number."""
        number = len(self.deliveries)
        self._log(frames.deliver(enveloped(notification or Notification(attributes), number)))
        return number

    def deliver_sequence(self, pattern: Pattern, *notifications: Notification) -> None:
        several = tuple(control.enveloped(enveloped(each, index)) for index, each in enumerate(notifications))
        self._log(control.encode(Sequence(control.document(pattern)[1], several)))

    def _log(self, frame: bytes) -> None:
        self.deliveries.append(frame)
        if self._writers and self._writers[-1] is self._greeted_one:
            self.say(frame)

    def begin_at(self, first: int, repeated: int = 0) -> None:
        """Go on with a delivery."""
        self.say(control.encode(Position(self.log, first, repeated, self.dropped, 0)))
        self.say(b"".join(self.deliveries[first:]))

    def asked(self, cls: type[Control]) -> list[Any]:
        return [each for each in self.requests if isinstance(each, cls)]

    # -- what it does by itself ----------------------------------------------------------------------------------------

    def _took(self, kind: int, content: bytes) -> None:
        if self.speaker not in self._writers:
            return  # somebody speaks to a server that is not there any more
        super()._took(kind, content)
        if kind == control.KINDS[Hello]:
            self._greeted(self.hellos[-1])
        elif kind == frames.ACKNOWLEDGE:
            self._noted(frames.acknowledged(content))
        elif kind in DECODED:
            self._asked(control.decode(kind, content))

    def _greeted(self, hello: Hello) -> None:
        durable = hello.durable
        self._greeted_one = self.speaker
        if durable is not None:
            knows = durable.log == self.log and self.acknowledged <= durable.after < len(self.deliveries)
            self.begin_at(max(self.dropped, durable.after + 1 if knows else self.acknowledged + 1))

    def _noted(self, number: int) -> None:
        self.acknowledgements.append(number)
        self.acknowledged = max(self.acknowledged, number)
        if self.notes:
            self.say(frames.acknowledge(number, frames.ACKNOWLEDGED))

    def _asked(self, request: Any) -> None:
        self.requests.append(request)
        if self.is_silent:
            return
        code, text = self.refusals.get(type(request), ("", ""))
        if isinstance(request, Query) and not code:
            self.say(control.encode(Result(request.number, self.letters)))
            return
        self.say(control.encode(Answer(request.number, code, text)))
        if isinstance(request, Replay) and not code:
            first = request.first if request.first >= 0 else max(0, len(self.deliveries) - request.last)
            self.begin_at(first, len(self.deliveries))
