"""What waits to be written: so much in all, and then publishers have to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palio.server.connection import Connection

_LOOK_SECONDS = 0.02


class Backlog:
    """The bytes that wait for all connections.

    When there are too many, whoever publishes is not read from until half of them are gone; who has not taken a byte
    for too long meanwhile is given up, so that nobody waits for it for ever.
    """

    def __init__(self, most: int, patience: float, hold: Callable[[], None], release: Callable[[], None]) -> None:
        self.most = most
        self.patience = patience
        self._hold = hold
        self._release = release
        self._sizes: dict[Connection, int] = {}
        self.bytes = 0
        """As it was when each connection was last written to: never too few."""
        self.is_full = False
        self.pauses = 0
        self._paused: list[Connection] = []
        self._taken: dict[Connection, tuple[int, float]] = {}
        """While publishers wait: how much each connection had taken, and since when it has taken no more."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def note(self, connection: Connection, waiting: int) -> None:
        """So many bytes wait for a connection."""
        self.bytes += waiting - self._sizes.get(connection, 0)
        if waiting:
            self._sizes[connection] = waiting
        else:
            self._sizes.pop(connection, None)
        if self.bytes > self.most and not self.is_full:
            self._refresh()
            if self.bytes > self.most:
                self.is_full = True
                self.pauses += 1
                self._hold()
                self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        self.bytes -= self._sizes.pop(connection, 0)
        self._taken.pop(connection, None)

    def paused(self, connection: Connection) -> None:
        """Nothing is read from somebody until there is room again."""
        self._paused.append(connection)

    def _refresh(self) -> None:
        self._sizes = {connection: connection.waiting for connection in self._sizes}
        self.bytes = sum(self._sizes.values())

    def _look(self) -> None:
        """See whether enough is gone."""
        self._refresh()
        if self.bytes > self.most // 2:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
            self._give_up()
            return
        self.is_full, self._timer = False, None
        self._taken.clear()
        paused, self._paused = self._paused, []
        for connection in paused:
            connection.resume()
        self._release()

    def _give_up(self) -> None:
        now = self._loop.time()
        for connection, waiting in list(self._sizes.items()):
            taken = connection.written - waiting
            before, since = self._taken.get(connection, (-1, now))
            if taken != before:
                self._taken[connection] = taken, now
            elif now - since > self.patience:
                connection.give_up(waiting)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
