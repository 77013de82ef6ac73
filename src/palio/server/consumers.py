"""Slow consumers: what happens to connections that do not take what there is for them, by ``slow.policy``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from palio.errors import brief
from palio.server.errors import Code
from palio.server.metrics import Counts
from palio.server.outgoing import CHUNK

if TYPE_CHECKING:
    from palio.server.config_tables import Slow
    from palio.server.connection import Connection
    from palio.server.reports import Reports


class Consumers:
    """Drops deliveries for slow consumers, or disconnects them, and counts both by name."""

    def __init__(self, settings: Callable[[], Slow], counts: Counts, reports: Reports) -> None:
        self._settings = settings
        """They may change while the server runs."""
        self._counts = counts
        self._reports = reports

    def _may_drop(self, connection: Connection) -> bool:
        """Whether deliveries may be dropped: not those of a durable party, whose numbers have no gaps."""
        return self._settings().policy == "drop" and connection.role == "party" and connection.durable is None

    def too_slow(self, connection: Connection, waiting: int) -> None:
        """More than ``slow.bytes`` wait for a connection. Frames for a neighbour are dropped: links re-send them."""
        may_drop = connection.role == "server" or self._may_drop(connection)
        if not may_drop or (connection.is_slow and waiting > 2 * connection.slow_at):  # answers that it does not take
            self.disconnect(connection, waiting)
        elif not connection.is_slow:
            self._begin_to_drop(connection, waiting, self._settings().bytes // 2)

    def relieve(self, connection: Connection, *, is_stuck: bool = False) -> None:
        """Too much waits for all connections together, and this one is slow, or has taken nothing for a long time."""
        waiting = connection.waiting
        if connection.is_closing:
            connection.abort()
        elif is_stuck or not self._may_drop(connection):
            self.disconnect(connection, waiting)
        else:
            dropped = connection.drop_deliveries()
            if dropped:
                self.dropped(connection, dropped)
            if connection.outgoing.queued > CHUNK:  # answers that it does not take
                self.disconnect(connection, waiting)
            else:
                self._begin_to_drop(connection, waiting, 0)

    def _begin_to_drop(self, connection: Connection, waiting: int, room: int) -> None:
        if not connection.is_slow:
            self._say(connection, waiting, "drop")
        connection.is_slow, connection.slow_at, connection.room = True, waiting, room

    def disconnect(self, connection: Connection, waiting: int) -> None:
        """End a connection that does not take what there is for it; what waits for it is discarded."""
        if not connection.is_closing:
            self._say(connection, waiting, "disconnect")
            self._counts.name(self._counts.disconnected, connection.name, 1)
            connection.close(Code.SLOW, f"{waiting:,} bytes wait for {connection.name:.80}")

    def dropped(self, connection: Connection, count: int) -> None:
        """Deliveries were dropped because their party is slow."""
        self._counts.name(self._counts.dropped, connection.name, count)

    def _say(self, connection: Connection, waiting: int, policy: str) -> None:
        self._reports.warn("slow-consumer", name=brief(connection.name), waiting_bytes=waiting, policy=policy)
