"""Leases of durable parties: how long each may stay away before its log ends.

A lease counts only the time during which the server runs. :class:`RunningTime` is the clock for that: it stands still
while the server is down and does not follow changes of the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any

import msgspec

from palio.node.journal import Journal
from palio.node.logs import Logs
from palio.node.party_log import PartyLog
from palio.node.ports import LeaseEnded, Output, TellLeaseEnded

_PARTS = 16
"""An idle server writes its running time after this part of the time until the next lease ends."""


class EndedLease(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of a log whose lease has ended, until its party knows."""

    log: int
    """The identity of the log."""
    done: int
    """Deliveries with lower numbers were acknowledged."""
    lost: int
    """Deliveries that were not."""
    time: int


class RunningTime:
    """The time during which a server has run, over all its starts, in microseconds.

    It begins with the time of the first start, and then counts only while the server runs.

    >>> running = RunningTime()
    >>> running.resume(None, now=1_000)
    >>> running.at(1_500)
    1500
    >>> running.resume(1_500, now=9_000)  # the server was down, or its clock was wrong
    >>> running.at(9_100), running.when(1_700)
    (1600, 9200)
    """

    __slots__ = ("_offset", "written")

    def __init__(self) -> None:
        self._offset = 0
        self.written = 0
        """As it was last written."""

    def resume(self, written: int | None, now: int) -> None:
        """The server starts: continue from what an earlier start has written, if there was one."""
        self._offset = 0 if written is None else written - now
        self.written = self.at(now)

    def at(self, now: int) -> int:
        """The running time when the node's clock shows ``now``."""
        return now + self._offset

    def when(self, running: int) -> int:
        """What the node's clock shows at a running time of this start."""
        return running - self._offset


class Leases:
    """When the logs of absent parties end; and what is remembered of those that have ended."""

    def __init__(self, logs: Logs, journal: Journal, emit: Callable[[Output], object]) -> None:
        self._logs = logs
        self._journal = journal
        self._emit = emit
        self._running = RunningTime()
        self._planned: list[tuple[int, str]] = []
        """When leases end, in running time, as a heap; an entry is stale if its party came back since."""
        self._ended: dict[str, EndedLease] = {}
        """By party, the oldest first."""
        self.count = self.lost = 0
        """Leases that have ended since the server started, and deliveries that were dropped with their logs."""

    def begin(self, known: Mapping[tuple[Any, ...], Any], now: int) -> None:
        """The server has started: all parties are absent, and their leases go on."""
        written: int | None = known.get(("running",))
        self._running.resume(written, now)
        ended = [(key[1], value) for key, value in known.items() if key[0] == "ended lease"]
        self._ended = dict(sorted(ended, key=lambda each: each[1].time))
        if written is None:
            self._write(now)
        for log in self._logs:
            # Without a written running time, times of absence are those of an earlier release: by the wall clock.
            if written is None or log.away is None or log.away > self._running.written:
                log.away = self._running.written
                self._logs.keep_cursor(log)
            self._plan(log, log.away)

    def away(self, log: PartyLog, now: int) -> None:
        """A party has gone: its lease begins."""
        log.away = self._running.at(now)
        self._logs.keep_cursor(log)
        self._write(now)
        self._plan(log, log.away)

    def _plan(self, log: PartyLog, away: int) -> None:
        heappush(self._planned, (_lease_end(log, away), log.name))

    def _write(self, now: int) -> None:
        self._running.written = self._running.at(now)
        self._journal.put(("running",), self._running.written)

    def _first(self) -> int | None:
        """The running time at which the first lease ends."""
        planned = self._planned
        while planned:
            end, party = planned[0]
            log = self._logs.of(party) if party in self._logs else None
            if log is not None and log.away is not None and _lease_end(log, log.away) == end:
                return end
            heappop(planned)  # the party has come back since, or is gone
        return None

    @property
    def deadline(self) -> int | None:
        """When the first lease ends, or the running time has to be written because one will."""
        end = self._first()
        if end is None:
            return None
        written = self._running.written
        pause = max(self._logs.settings.running_step, (end - written) // _PARTS)
        return self._running.when(min(end, written + pause))

    def overdue(self, now: int) -> list[str]:
        """The parties whose leases are over."""
        found, running = [], self._running.at(now)
        while (end := self._first()) is not None and end <= running:
            found.append(heappop(self._planned)[1])
        if found or (end is not None and running >= self._running.written + self._logs.settings.running_step):
            self._write(now)
        return found

    # -- what has ended ------------------------------------------------------------------------------------------------

    def end(self, log: PartyLog, filters: int, now: int) -> None:
        """A lease is over, and so its log has ended: remember that until the party knows."""
        self.count += 1
        self.lost += log.waiting
        dropped = log.waiting, log.waiting_bytes, len(log.letters)
        self._emit(LeaseEnded(log.name, log.identity, log.keep.lease, *dropped, filters))
        self._ended[log.name] = EndedLease(log.identity, log.done, log.waiting, now)
        self._journal.put(("ended lease", log.name), self._ended[log.name])
        while len(self._ended) > self._logs.settings.ended_leases:
            self.forget(next(iter(self._ended)))

    def tell(self, party: str, reading: int, log: int) -> None:
        """A party is here: tell it of the log that has ended, unless it shows that it knows another one."""
        ended = self._ended.get(party)
        if ended is None:
            return
        if log == self._logs.of(party).identity:
            self.forget(party)
        else:
            self._emit(TellLeaseEnded(party, reading, ended.log, ended.done, ended.lost, ended.time))

    def forget(self, party: str) -> None:
        """A party knows, or has left."""
        if self._ended.pop(party, None) is not None:
            self._journal.delete(("ended lease", party))


def _lease_end(log: PartyLog, away: int) -> int:
    return away + log.keep.lease
