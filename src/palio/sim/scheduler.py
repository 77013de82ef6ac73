"""Virtual time: what happens next."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

Action = Callable[[], None]


class Scheduler:
    """Events in the order of time, then of priority, then as they were planned.

    >>> scheduler, said = Scheduler(), []
    >>> scheduler.at(20, lambda: said.append("later"))
    >>> scheduler.at(10, lambda: said.append("soon"))
    >>> scheduler.run()
    2
    >>> said, scheduler.now
    (['soon', 'later'], 20)
    """

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, int, Action]] = []
        self._planned = 0

    def at(self, time: int, action: Action, priority: int = 0) -> None:
        """Plan an action; what is planned for the past happens now."""
        self._planned += 1
        heappush(self._heap, (max(time, self.now), priority, self._planned, action))

    def run(self, until: int | None = None, most: int | None = None) -> int:
        """Let time pass until a moment, or until nothing is planned, or so many actions have happened; how many did."""
        heap, done = self._heap, 0
        while heap and (until is None or heap[0][0] <= until) and (most is None or done < most):
            self.now, _, _, action = heappop(heap)
            action()
            done += 1
        if until is not None and self.now < until:
            self.now = until
        return done

    def __len__(self) -> int:
        return len(self._heap)
