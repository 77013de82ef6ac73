"""A simulated disk: writes take time, and a crash may or may not lose those under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from palio.node.journal import Key, Record
from palio.sim.scheduler import Scheduler

_SLOWEST = 30


class Disk:
    """The records of one server. Writes reach the disk in their order, each as a whole."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self._scheduler = scheduler
        self._random = random
        self._life = 0
        self._under_way: deque[tuple[Record, ...]] = deque()
        self._last = 0
        self.records: dict[Key, Any] = {}

    def write(self, records: tuple[Record, ...], done: Callable[[], None]) -> None:
        """Begin to write; ``done`` is called when the records are safe."""
        self._under_way.append(records)
        self._last = max(self._last, self._scheduler.now + self._random.randrange(_SLOWEST))
        life = self._life

        def finish() -> None:
            if life == self._life:
                self._apply()
                done()

        self._scheduler.at(self._last, finish)

    def crash(self) -> None:
        """Of what is under way a random part, from the first on, has reached the disk; the rest never will."""
        for _ in range(self._random.randrange(len(self._under_way) + 1)):
            self._apply()
        self._under_way.clear()
        self._life += 1

    def _apply(self) -> None:
        for key, value in self._under_way.popleft():
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value
