"""What waits to be written: so much in all, and then publishers have to wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from palio.node import ports

if TYPE_CHECKING:
    from palio.server.connection import Connection
    from palio.server.driver import Driver

_LOOK_SECONDS = 0.02


class Backlog:
    """The bytes that wait for all connections, and whether too much waits for a neighbour.

    When there are too many, whoever publishes is not read from until half of them are gone, and neighbours are asked to
    wait; who has not taken a byte for too long meanwhile is given up, so that nobody waits for it for ever.
    """

    def __init__(self, most: int, patience: float, driver: Driver) -> None:
        self.most = most
        self.patience = patience
        self._driver = driver
        self._sizes: dict[Connection, int] = {}
        self.bytes = 0
        """As it was when each connection was last written to: never too few."""
        self._is_crowded = False
        """Whether there are too many."""
        self._are_links_full = False
        self._is_disk_behind = False
        self.pauses = 0
        self._paused: list[Connection] = []
        self._taken: dict[Connection, tuple[int, float]] = {}
        """While publishers wait: how much each connection had taken, and since when it has taken no more."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        """Whether publishers have to wait."""
        return self._is_crowded or self._are_links_full or self._is_disk_behind

    def note(self, connection: Connection, waiting: int) -> None:
        """So many bytes wait for a connection."""
        self.bytes += waiting - self._sizes.get(connection, 0)
        if waiting:
            self._sizes[connection] = waiting
        else:
            self._sizes.pop(connection, None)
        if self.bytes > self.most and not self._is_crowded:
            self._refresh()
            if self.bytes > self.most:
                self._hold()
                self._is_crowded = True
                self._driver.give(ports.Room(is_there=False))
                self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def links(self, is_full: bool) -> None:
        """Whether too much waits for a neighbour, which that one has not acknowledged."""
        if is_full:
            self._hold()
        self._are_links_full = is_full
        self._go_on()

    def disk(self, is_behind: bool) -> None:
        """Whether too much waits for the disk; then neighbours have to wait, too."""
        if is_behind:
            self._hold()
        self._is_disk_behind = is_behind
        self._driver.give(ports.Room(not is_behind and not self._is_crowded))
        self._go_on()

    def _hold(self) -> None:
        if not self.is_full:
            self.pauses += 1
            self._driver.hold()

    def _go_on(self) -> None:
        if not self.is_full:
            paused, self._paused = self._paused, []
            for connection in paused:
                connection.resume()
            self._driver.release()

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
        self._is_crowded, self._timer = False, None
        self._taken.clear()
        self._driver.give(ports.Room(not self._is_disk_behind))
        self._go_on()

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
