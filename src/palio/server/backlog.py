"""The bytes that wait to be written to all connections together: how many there may be, and who pays for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from palio.node import ports

if TYPE_CHECKING:
    from palio.server.connection import Connection
    from palio.server.driver import Driver

_LOOK_SECONDS = 0.02
_LOOK_SHARE = 10
"""Between two looks at all connections there is at least so many times the time that a look takes."""


class Relieve(Protocol):
    """Drops what waits for a connection, or disconnects it."""

    def __call__(self, connection: Connection, *, is_stuck: bool = False) -> None:
        """It is slow, or has taken nothing for a long time."""


class Backlog:
    """The bytes that wait for all connections, and whether publishers have to wait.

    When there are too many, consumers that hold the most and do not take them within ``patience`` seconds at their
    present pace are relieved of what waits for them, until half of the bytes are gone. If that is not enough, because
    the other consumers do take what is sent to them, publishers are not read from until half of the bytes are gone, and
    neighbours are asked to wait. A connection that takes nothing for ``patience`` seconds meanwhile is closed.
    """

    def __init__(self, most: int, patience: float, driver: Driver, relieve: Relieve) -> None:
        self.most = most
        self.patience = patience
        self._driver = driver
        self._relieve = relieve
        self._sizes: dict[Connection, int] = {}
        self.bytes = 0
        """As it was when each connection was last written to: never too few."""
        self._is_crowded = False
        """Whether publishers wait because there are too many bytes."""
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
        self._set(connection, waiting)
        if self.bytes > self.most and not self._is_crowded:
            self._refresh()
            if self.bytes > self.most:
                self._relieve_slow()
            if self.bytes > self.most:
                self._hold()
                self._is_crowded = True
                self._driver.give(ports.Room(is_there=False))
                self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _set(self, connection: Connection, waiting: int) -> None:
        self.bytes += waiting - self._sizes.get(connection, 0)
        if waiting:
            self._sizes[connection] = waiting
        else:
            self._sizes.pop(connection, None)

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
        """A connection is closed."""
        self.bytes -= self._sizes.pop(connection, 0)
        self._taken.pop(connection, None)

    def paused(self, connection: Connection) -> None:
        """Nothing is read from a publisher until there is room again."""
        self._paused.append(connection)

    def _refresh(self) -> None:
        self._sizes = {connection: connection.waiting for connection in self._sizes}
        self.bytes = sum(self._sizes.values())

    def _look(self) -> None:
        """Check whether enough is gone."""
        began = self._loop.time()
        self._refresh()
        if self.bytes > self.most // 2:
            for connection in self._sizes:
                connection.outgoing.note_pace()
            self._relieve_slow()
            self._close_stuck()
        if self.bytes > self.most // 2:
            pause = max(_LOOK_SECONDS, _LOOK_SHARE * (self._loop.time() - began))
            self._timer = self._loop.call_later(pause, self._look)
            return
        self._is_crowded, self._timer = False, None
        self._taken.clear()
        self._driver.give(ports.Room(not self._is_disk_behind))
        self._go_on()

    def _relieve_slow(self) -> None:
        """Relieve slow consumers, those for which most waits first, until half of all bytes are gone."""
        for connection in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
            if self.bytes <= self.most // 2:
                return
            if connection.role == "server" and not connection.is_closing:
                continue
            if connection.is_closing or connection.outgoing.seconds > self.patience:
                self._relieve(connection)
                self._set(connection, connection.waiting)

    def _close_stuck(self) -> None:
        now = self._loop.time()
        for connection, waiting in list(self._sizes.items()):
            taken = connection.written - waiting
            before, since = self._taken.get(connection, (-1, now))
            if taken != before:
                self._taken[connection] = taken, now
            elif now - since > self.patience:
                self._relieve(connection, is_stuck=True)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
