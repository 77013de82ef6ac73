"""Input of a connection that waits until the event loop comes round again, so that others have their turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from palio.codec.control import Ask
from palio.node.ports import Operation
from palio.server.operations import Decoding

if TYPE_CHECKING:
    from palio.server.server import Server

_BYTES = 8_192
"""Bytes of requests that are taken in one turn of the loop; the request that exceeds this is the last one."""
_CONSTRAINTS = 256
"""Constraints that are decoded in one turn of the loop; the filter that exceeds this is decoded to its end."""


class Postponed:
    """The share of one connection, the request that it decodes, and the frames that have come behind that."""

    def __init__(self, server: Server, go_on: Callable[[], None]) -> None:
        """Make it for a connection; ``go_on`` is called when the loop comes round again."""
        self._server = server
        self._go_on = go_on
        self._is_planned = False
        self._bytes = self._constraints = 0
        """The rest of this turn's share."""
        self.frames = bytearray()
        """Frames that are taken later."""
        self.request: tuple[Ask, Decoding] | None = None
        """A request that is not decoded to its end."""

    def __bool__(self) -> bool:
        return bool(self.frames) or self.request is not None

    @property
    def is_used_up(self) -> bool:
        """Whether the connection has had its share of this turn."""
        return self._bytes < 0 or self._constraints <= 0

    def begin_turn(self) -> None:
        """Permit as much as in every turn."""
        self._bytes, self._constraints = _BYTES, _CONSTRAINTS

    def count(self, size: int) -> None:
        """A request of this size is taken."""
        self._bytes -= size

    def decode(self, asked: Ask, decoding: Decoding) -> Operation | None:
        """Decode a request as far as this turn permits; ``None`` if it has to go on in the next one."""
        self.request = None
        try:
            while self._constraints > 0:
                self._constraints -= next(decoding)
        except StopIteration as done:
            operation: Operation = done.value
            return operation
        self.request = asked, decoding
        return None

    def plan(self) -> None:
        """Go on when the loop comes round again."""
        if not self._is_planned:
            self._is_planned = True
            self._server.loop.call_soon(self._called)

    def _called(self) -> None:
        self._is_planned = False
        self._go_on()

    def clear(self) -> None:
        """The connection ends."""
        self.frames.clear()
        self.request = None
