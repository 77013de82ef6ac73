"""What the entries of the message log say of the logs of parties, when a server starts.

Records say how long each log was at the last sweep, and where some of its deliveries lie. The entries since then say
the rest. If records were damaged, all entries are read, and marks that are lost are made anew: without them a party's
deliveries could not be found, or would be trimmed while somebody waits for them.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from palio.node.entries import Head, Share
from palio.node.party_log import Mark, PartyLog


class _Lost(NamedTuple):
    """A mark that was not there: of the first delivery that there is, or of the first one behind a sweep."""

    number: int
    position: int
    before: int
    """Bytes of the party's deliveries since the first entry that was read."""
    time: int


class Recovery:
    """Takes the entries in their order, and completes what is known of the logs."""

    def __init__(self, logs: Mapping[int, PartyLog], sweeps: Sequence[int]) -> None:
        """Begin with logs by their numbers, as records know them, and the positions of sweeps in rising order."""
        self._logs = logs
        self._sweeps = sweeps
        self.highest = max(logs, default=0)
        """The highest number of a log that any entry knows, though the log may have ended."""
        self.doubtful: dict[PartyLog, None] = {}
        """Logs in which numbers may have been given that nobody knows."""
        self.grown: dict[PartyLog, None] = {}
        """Logs with deliveries that records did not know of."""
        self._bytes: dict[PartyLog, int] = {}
        """Of all deliveries in the entries so far."""
        self._bases: dict[PartyLog, int] = {}
        """Bytes of the deliveries before the first entry, where a mark tells."""
        self._lost: dict[PartyLog, list[_Lost]] = {}

    def damaged(self) -> None:
        """An entry cannot be read: which numbers were given in it is not known."""
        self.doubtful |= dict.fromkeys(self._logs.values())

    def take(self, position: int, head: Head) -> None:
        """An entry has been read."""
        for share in head.shares:
            self.highest = max(self.highest, share.reader)
            log = self._logs.get(share.reader)
            if log is not None:
                self._look_for_mark(log, share, position, head.time)
                self._lengthen(log, share, head.time)
                self.doubtful.pop(log, None)

    def _lengthen(self, log: PartyLog, share: Share, time: int) -> None:
        self._bytes[log] = self._bytes.get(log, 0) + share.size
        if share.first >= log.next:
            mark = log.mark_of(share.first)  # what was before may not be known any more
            log.size = share.size + max(log.size, 0 if mark is None else mark.size)
            log.next = share.first + share.count
            log.times.note(share.first, time)
            self.grown[log] = None

    def _look_for_mark(self, log: PartyLog, share: Share, position: int, time: int) -> None:
        mark, lost, before = log.mark_of(share.first), self._lost.get(log), self._bytes.get(log, 0)
        if mark is not None and mark.number == share.first:
            self._bases.setdefault(log, mark.size - before)
        last = max(-1 if mark is None else mark.position, lost[-1].position if lost else -1)
        place = bisect_right(self._sweeps, position)
        if last < 0 or (place and last < self._sweeps[place - 1]):
            self._lost.setdefault(log, []).append(_Lost(share.first, position, before, time))

    def marks(self) -> list[tuple[PartyLog, Mark]]:
        """The marks that were made anew; the logs have them."""
        found: list[tuple[PartyLog, Mark]] = []
        for log, lost in self._lost.items():
            base = max(0, self._bases.get(log, log.size - self._bytes[log]))
            for each in lost:
                mark = Mark(each.number, each.position, base + each.before, each.time)
                insort(log.marks, mark)
                found.append((log, mark))
        return found
