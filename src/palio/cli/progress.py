"""A bar on the terminal for what Spark is doing."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:  # Spark is slow to import, and this module is not
    from pyspark import SparkContext, StatusTracker

WATCHER = "palio-progress"
"""The name of the thread that asks Spark."""
_PAUSE = 0.2
"""Seconds between two looks at Spark's state."""


class JobProgress:
    """Shows on standard error what is being done and how far Spark is with it; shows nothing if that is no terminal.

    >>> with JobProgress("Starting Spark") as progress:
    ...     progress.step("Matching")
    """

    def __init__(self, description: str, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[tasks]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            expand=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(description, total=None, tasks="")
        self._is_over = threading.Event()
        self._watcher: threading.Thread | None = None

    def step(self, description: str) -> None:
        """Say what is being done from now on."""
        self._bar.reset(self._task, total=None, description=description, tasks="")

    def watch(self, context: SparkContext) -> None:
        """Follow the jobs of this context until the end of the ``with`` block."""
        if self._bar.disable:
            return
        self._watcher = threading.Thread(target=self._follow, args=[context.statusTracker()], name=WATCHER, daemon=True)
        self._watcher.start()

    def _follow(self, tracker: StatusTracker) -> None:
        from py4j.protocol import Py4JError

        while not self._is_over.wait(_PAUSE):
            try:
                done, total = tasks_of(tracker)
            except (Py4JError, OSError):  # Spark has gone; whoever waits for its answer will tell
                return
            if done < total:  # a bar that was full once would stand still, and the next stage comes in a moment
                self._bar.update(self._task, completed=done, total=total, tasks=f"{done:,} of {total:,} tasks")

    def __enter__(self) -> JobProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        try:
            if self._watcher is not None:
                self._watcher.join()
        finally:
            self._bar.stop()  # it gives the cursor back


def tasks_of(tracker: StatusTracker) -> tuple[int, int]:
    """How many tasks of the running stages are done, and how many there are."""
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]  # one may have ended since it was listed
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
