"""Virtual time: what happens next."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any

Action = Callable[..., None]


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
        self._heap: list[tuple[int, int, int, Action, tuple[Any, ...]]] = []
        self._planned = 0

    def at(self, time: int, action: Action, *given: Any, priority: int = 0) -> None:
        """Plan an action, with what it will be given; what is planned for the past happens now."""
        self._planned += 1
        heappush(self._heap, (max(self.now, time), priority, self._planned, action, given))

    def run(
        self, until: int | None = None, most: int | None = None, is_void: Callable[[Action, Any], bool] | None = None
    ) -> int:
        """Let time pass until a moment, or until nothing is planned, or so many actions have happened; how many did.

        No time passes for plans that are void by now.
        """
        heap, done = self._heap, 0
        last, limit = inf if until is None else until, inf if most is None else most
        while heap and heap[0][0] <= last and done < limit:
            time, _, _, action, given = heappop(heap)
            if is_void is not None and is_void(action, given):
                continue
            self.now = time
            action(*given)
            done += 1
        if until is not None and self.now < until:
            self.now = until
        return done

    def __len__(self) -> int:
        return len(self._heap)
