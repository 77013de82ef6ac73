"""A simulated disk: writes take time, wait for room, fail, and may be lost or torn by a crash.

Some tell what is *written* (it survives the death of a process) from what is *synced* (it survives all but damage).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, MutableMapping
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from palio.node.journal import Key, Record
from palio.node.records import decode, encode_key
from palio.sim.engine.scheduler import Action, Scheduler

_SLOWEST = 30
_SYNCED_SOON, _SYNCED_LATER = 40, 400
"""How long it takes at most until what is written is synced, if somebody waits for that, or if nobody does."""
_LIFE: Key = ("life",)
FIRST: Key = ("first",)
"""The record that says which entries of the log are not needed any more: those before this position."""


class Rows(MutableMapping[Key, Any]):
    """Records by the bytes of their keys, as in a store: equal filters in other words are other rows there.

    >>> rows = Rows()
    >>> rows["turn",] = 3
    >>> rows.get(("turn",)), len(rows)
    (3, 1)
    """

    def __init__(self, rows: dict[bytes, Record] | None = None) -> None:
        self._rows: dict[bytes, Record] = rows or {}

    def __getitem__(self, key: Key) -> Any:
        return self._rows[encode_key(key)][1]

    def __setitem__(self, key: Key, value: Any) -> None:
        self._rows[encode_key(key)] = key, value

    def __delitem__(self, key: Key) -> None:
        del self._rows[encode_key(key)]

    def __iter__(self) -> Iterator[Key]:
        return (self._rows[each][0] for each in sorted(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def copy(self) -> Rows:
        """The same rows, to be changed on their own."""
        return Rows(dict(self._rows))

    def change(self, key: bytes, value: bytes | None) -> None:
        """Write a row, or delete it."""
        self._rows.pop(key, None)
        if value is not None:
            self._rows[key] = decode(key, value)


class _Write(NamedTuple):
    records: tuple[Record, ...]
    done: Action
    written: Action | None
    is_pressing: bool


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

    def __init__(self, scheduler: Scheduler, random: Random, pace: Random | None = None) -> None:
        """Make an empty disk; if it is to tell what is written from what is synced, with the luck for that."""
        self._scheduler = scheduler
        self._random = random
        self._pace = pace
        self._life = 0
        self._under_way: deque[_Write] = deque()
        self._waiting: list[_Write] = []
        """Writes that have not begun, because there is no room."""
        self._unsynced: deque[_Write] = deque()
        self._last = 0
        self._torn: Batch | None = None
        self._failed: Action | None = None
        """What the next write comes to instead of being done."""
        self._copy: Rows | None = None
        self.is_full = False
        self._other: tuple[Any] | None = None
        """The incarnation that the records were of when something was lost, or they became old ones."""
        self.records = Rows()
        """As a process sees them: all that is written."""
        self._synced = Rows()

    def write(
        self, records: tuple[Record, ...], done: Action, *, written: Action | None = None, is_pressing: bool = True
    ) -> None:
        """Begin to write; ``done`` is called when the records are safe, before that perhaps ``written``."""
        write = _Write(records, done, written, is_pressing)
        if self.is_full:
            self._waiting.append(write)
        else:
            self._begin(write)

    def _begin(self, write: _Write) -> None:
        self._under_way.append(write)
        self._last = max(self._last, self._scheduler.now + self._random.randrange(_SLOWEST))
        self._scheduler.at(self._last, self._finish, self._life)

    def _finish(self, life: int) -> None:
        """The first write that is under way is done."""
        if life != self._life or self._fails():
            return
        write = self._under_way.popleft()
        _apply(self.records, write.records)
        self._unsynced.append(write)
        pace = self._pace
        if pace is None or (write.is_pressing and pace.random() < 0.5):
            self._sync(life)
            return
        later = pace.randrange(_SYNCED_SOON if write.is_pressing else _SYNCED_LATER)
        self._scheduler.at(self._scheduler.now + later, self._sync, life)
        if write.written is not None:
            write.written()

    def _sync(self, life: int) -> None:
        """All that is written is safe from now on."""
        if life != self._life or (self._pace is not None and self._fails()):
            return
        for write in list(self._unsynced):
            if life != self._life:
                return  # the server has died when it heard of the one before
            self._unsynced.popleft()
            _apply(self._synced, write.records)
            write.done()

    def _fails(self) -> bool:
        failed, self._failed = self._failed, None
        if failed is not None:
            failed()
        return failed is not None

    def make_room(self) -> None:
        """What has waited is written now."""
        self.is_full = False
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            self._begin(write)

    def fail(self, failed: Action | None) -> None:
        """The next write that is under way or begins will fail, or none any more; the server has to stop then."""
        self._failed = failed

    def crash(self, *, torn: bool = False, is_power: bool = True) -> bool:
        """The process dies, or the whole machine does.

        Of what is under way a random part, from the first on, has reached the disk; the rest never will. If the power
        is lost, that goes for what was not synced, too, and the first write of the rest may leave a part of itself;
        whether it did.
        """
        doubtful = deque(self._under_way)
        if is_power:
            doubtful.extendleft(reversed(self._unsynced))
            self.records = self._synced.copy()
        for _ in range(self._random.randrange(len(doubtful) + 1)):
            _apply(self.records, doubtful.popleft().records)
        if torn and is_power and doubtful:
            self._torn = self._part(doubtful[0].records)
        self._synced = self.records.copy()  # whoever starts syncs all that it finds
        for waiting in (self._under_way, self._unsynced, self._waiting):
            waiting.clear()
        self._failed = None
        self._life += 1
        return self._torn is not None

    def _part(self, records: tuple[Record, ...]) -> Batch:
        """Blocks reach the disk in any order: the mark may be there where records before it are not."""
        is_there = [self._random.random() < 0.5 for _ in records]
        mark = checksum(records) if self._random.random() < 0.5 else None
        return Batch(tuple(each for each, is_safe in zip(records, is_there, strict=True) if is_safe), mark)

    def read(self) -> list[Record]:
        """What a server finds that starts: all records that are safe, in the order of their keys' bytes; a batch that
        is not whole does not count.
        """
        torn, self._torn = self._torn, None
        if torn is not None and torn.is_whole():
            for known in (self.records, self._synced):
                _apply(known, torn.records)
        return list(self.records.items())

    def rewrite(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write rows at once, as a server does that has found others when it started."""
        for known in (self.records, self._synced):
            for key, value in changes:
                known.change(key, value)

    @property
    def is_other(self) -> bool:
        """Whether whoever starts has to be another incarnation, until one has written that it is."""
        return self._other == (self.records.get(_LIFE),)

    # -- damage, and copies --------------------------------------------------------------------------------------------

    def damage(self, key: Key) -> None:
        """A record cannot be read any more. Of the log that is found when it is read; else when a server starts."""
        for known in (self.records, self._synced):
            if key[0] == "entry" and key in known:
                known[key] = b""
            else:
                known.pop(key, None)
        if key[0] != "entry":
            self._other = (self.records.get(_LIFE),)

    def copy(self) -> None:
        """Remember all that is written; what is damaged cannot be copied."""
        if not self.is_other:
            self._copy = self.records.copy()

    def put_back(self) -> bool:
        """A disk that nobody uses gets the last copy; false if there is none."""
        if self._copy is None:
            return False
        self.records, self._synced, self._torn = self._copy.copy(), self._copy.copy(), None
        self._other = (self.records.get(_LIFE),)
        return True


def _apply(known: Rows, records: tuple[Record, ...]) -> None:
    for key, value in records:
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value
        if key == FIRST:
            for gone in [each for each in known if each[0] == "entry" and each[1] < value]:
                del known[gone]


def checksum(records: tuple[Record, ...]) -> int:
    """The mark behind a batch of records.

    >>> records = ((("counters",), 1), (("wish", "rome"), None))
    >>> checksum(records) == checksum(records[:1])
    False
    """
    return crc32(repr(records).encode())
