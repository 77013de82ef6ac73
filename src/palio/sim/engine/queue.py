"""What waits for a server that is paused or busy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from palio.node.ports import Input
from palio.sim.engine.scheduler import Scheduler

Taken = Callable[[], None]
"""Called when the server takes what was waiting, just before it handles it."""


class _Waiting(NamedTuple):
    inputs: tuple[Input, ...]
    taken: Taken | None


class Queue:
    """Everything that comes in for one server, in its order. What has waited is handled together, in one batch.

    >>> scheduler, handled = Scheduler(), []
    >>> queue = Queue(scheduler, handled.append)
    >>> queue.service = 10
    >>> for number in range(3):
    ...     queue.put([number])
    >>> handled
    [(0,)]
    >>> _ = scheduler.run()
    >>> handled, scheduler.now
    ([(0,), (1, 2)], 10)
    """

    def __init__(self, scheduler: Scheduler, handle: Callable[[tuple[Input, ...]], None], service: int = 0) -> None:
        self._scheduler = scheduler
        self._handle = handle
        self._waiting: list[_Waiting] = []
        self._idle_at = 0
        self._look_at: int | None = None
        """When the server will look whether something waits."""
        self.service = service
        """How long a batch keeps the server busy."""
        self.is_paused = False

    def put(self, inputs: Iterable[Input], taken: Taken | None = None) -> None:
        """Something comes in; it is handled at once if the server is idle."""
        self._waiting.append(_Waiting(tuple(inputs), taken))
        self.serve()

    def take(self) -> list[_Waiting]:
        """All that waits, and nothing waits any more."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def serve(self) -> None:
        """Handle what waits, or plan to as soon as the server is idle; a paused one does nothing."""
        if self.is_paused or not self._waiting:
            return
        now = self._scheduler.now
        if now < self._idle_at:
            if self._look_at != self._idle_at:
                self._look_at = self._idle_at
                self._scheduler.at(self._idle_at, self.serve)
            return
        self._idle_at = now + self.service
        batch = self.take()
        for each in batch:
            if each.taken is not None:
                each.taken()
        self._handle(tuple(given for each in batch for given in each.inputs))
