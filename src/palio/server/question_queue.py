"""Questions take turns, and all of them together have a bounded share of the event loop's time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

SHARE = 0.2
"""The share of the event loop's time that questions may have while others wait to be answered."""


class Asker(Protocol):
    """The connection that has asked a question."""

    is_closing: bool
    """Whether it needs no answer any more."""


class QuestionQueue:
    """Runs the work for questions: at once if it can, otherwise one question at a time, with pauses between them.

    Connections take turns. So a client that asks in a loop delays other questions little, and publications hardly.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, dropped: Callable[[Asker], object]) -> None:
        """``dropped`` is called with a connection that was closed while questions of it were waiting."""
        self._loop = loop
        self._dropped = dropped
        self._waiting: OrderedDict[Asker, deque[Callable[[], object]]] = OrderedDict()
        self._free_at = 0.0
        """When the pause after the last question ends."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, asker: Asker, work: Callable[[], object]) -> None:
        """Run the work for a question now or later. It must not raise an exception."""
        if not self._waiting and self._loop.time() >= self._free_at:
            self._run(work)
            return
        self._waiting.setdefault(asker, deque()).append(work)
        self._plan()

    def stop(self) -> None:
        """Drop all questions that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()

    def _plan(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = self._loop.call_at(self._free_at, self._next)

    def _next(self) -> None:
        self._timer = None
        while self._waiting:
            asker, questions = self._waiting.popitem(last=False)
            if asker.is_closing:
                self._dropped(asker)
                continue
            work = questions.popleft()
            if questions:
                self._waiting[asker] = questions
            self._run(work)
            break
        self._plan()

    def _run(self, work: Callable[[], object]) -> None:
        began = self._loop.time()
        work()
        ended = self._loop.time()
        self._free_at = ended + (ended - began) * (1 / SHARE - 1)
