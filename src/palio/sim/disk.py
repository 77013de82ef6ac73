"""A simulated disk: writes take time, wait for room, fail, and may be lost or torn by a crash."""

from __future__ import annotations

from collections import deque
from collections.abc import ItemsView
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from palio.node.journal import Key, Record
from palio.sim.scheduler import Action, Scheduler

_SLOWEST = 30


class _Write(NamedTuple):
    records: tuple[Record, ...]
    done: Action


class Batch(NamedTuple):
    """Records as they lie on the disk, behind all that is safe."""

    records: tuple[Record, ...]
    mark: int | None
    """The checksum that is written behind them, if it is there."""

    def is_whole(self) -> bool:
        """Whether nothing of it is missing: all or none counts."""
        return self.mark == checksum(self.records)


class Disk:
    """The records of one server. Writes reach the disk in their order, each as a whole or not at all."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self._scheduler = scheduler
        self._random = random
        self._life = 0
        self._under_way: deque[_Write] = deque()
        self._waiting: list[_Write] = []
        """Writes that have not begun, because there is no room."""
        self._last = 0
        self._torn: Batch | None = None
        self._failed: Action | None = None
        """What the next write comes to instead of being done."""
        self.is_full = False
        self.records: dict[Key, Any] = {}

    def write(self, records: tuple[Record, ...], done: Action) -> None:
        """Begin to write; ``done`` is called when the records are safe."""
        write = _Write(records, done)
        if self.is_full:
            self._waiting.append(write)
        else:
            self._begin(write)

    def _begin(self, write: _Write) -> None:
        self._under_way.append(write)
        self._last = max(self._last, self._scheduler.now + self._random.randrange(_SLOWEST))
        life = self._life

        def finish() -> None:
            if life != self._life:
                return
            failed, self._failed = self._failed, None
            if failed is not None:
                failed()
                return
            self._apply(self._under_way.popleft().records)
            write.done()

        self._scheduler.at(self._last, finish)

    def make_room(self) -> None:
        """What has waited is written now."""
        self.is_full = False
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            self._begin(write)

    def fail(self, failed: Action | None) -> None:
        """The next write that is under way or begins will fail, or none any more; the server has to stop then."""
        self._failed = failed

    def crash(self, *, torn: bool = False) -> bool:
        """Of what is under way a random part, from the first on, has reached the disk; the rest never will.

        The first write of that rest may leave a part of itself; whether it did.
        """
        for _ in range(self._random.randrange(len(self._under_way) + 1)):
            self._apply(self._under_way.popleft().records)
        if torn and self._under_way:
            self._torn = self._part(self._under_way[0].records)
        self._under_way.clear()
        self._waiting.clear()
        self._failed = None
        self._life += 1
        return self._torn is not None

    def _part(self, records: tuple[Record, ...]) -> Batch:
        """Blocks reach the disk in any order: the mark may be there where records before it are not."""
        is_there = [self._random.random() < 0.5 for _ in records]
        mark = checksum(records) if self._random.random() < 0.5 else None
        return Batch(tuple(each for each, is_safe in zip(records, is_there, strict=True) if is_safe), mark)

    def read(self) -> ItemsView[Key, Any]:
        """What a server finds that starts: all records that are safe; a batch that is not whole does not count."""
        torn, self._torn = self._torn, None
        if torn is not None and torn.is_whole():
            self._apply(torn.records)
        return self.records.items()

    def _apply(self, records: tuple[Record, ...]) -> None:
        for key, value in records:
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value


def checksum(records: tuple[Record, ...]) -> int:
    """The mark behind a batch of records.

    >>> records = ((("counters",), 1), (("wish", "rome"), None))
    >>> checksum(records) == checksum(records[:1])
    False
    """
    return crc32(repr(records).encode())
