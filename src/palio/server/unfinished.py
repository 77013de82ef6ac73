"""The bytes of frames that are not whole yet, of all connections together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palio.server.errors import Code

if TYPE_CHECKING:
    from palio.server.connection import Connection


class Unfinished:
    """Counts these bytes, and ends the connections that hold most of them when there are too many.

    Parties go before neighbours. Among neighbours, the one goes that has held most bytes for the longest time: a
    neighbour at work ends a long frame soon, and if its connection is ended, it connects and sends the frame again. The
    last neighbour stays, so that there may be one frame more than the bound.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        self._holders: dict[Connection, int] = {}
        """The connections with a frame that is not whole, and its bytes."""

    def note(self, connection: Connection, size: int, now: float) -> None:
        """The frame of a connection that is not whole has so many bytes; zero if there is none."""
        self.bytes += size - self._holders.get(connection, 0)
        if size:
            self._holders[connection] = size
        else:
            self._holders.pop(connection, None)
        while size and self.bytes > self.most:
            holder = max(self._holders, key=lambda each: self._rank(each, now))
            if len(self._holders) == 1 and holder.role == "server":
                return  # else a frame that is longer than the bound would never come
            # closing it notes that it holds nothing any more
            holder.close(Code.FULL, f"frames that are not whole have {self.bytes:,} bytes in all")

    def _rank(self, connection: Connection, now: float) -> tuple[bool, float, int]:
        size = self._holders[connection]
        if connection.role != "server":
            return True, size, 0
        return False, size * max(0.0, now - connection.began), size
