"""Makes a history that violates something small: what is left is what it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from palio.node.logs import LogSettings
from palio.node.settings import Delegation
from palio.routing.telling import TellingSettings
from palio.sim.check import Case, Progress, workers
from palio.sim.engine.clock import RIGHT
from palio.sim.engine.readers import KEEP
from palio.sim.histories.history import History, Step
from palio.sim.run import run

_MOST_RUNS = 2_000
_MOST_SECONDS = 60.0


_PLAIN: tuple[dict[str, Any], ...] = (
    {"wait": 0},
    {"spread": False},
    {"weather": None},
    {"time": 0},
    {"rate": RIGHT},
    {"nth": 1},
    {"remembers": False},
    {"pace": 1},
    {"mode": None},
    {"expires": 0},
    {"key": ""},
)
"""What makes a step simpler."""


class _TiredError(Exception):
    """Enough was tried."""


class Shrinker:
    """Tries smaller histories as long as they still violate something, within bounds.

    Steps go first, in chunks of halving size; then servers that no step mentions, disks, windows; then waits become 0,
    weather fair, parties impatient, clocks right, and fewer servers are cut from others. That is repeated until nothing
    gets smaller. The last settle stays, for that is where all is judged.
    """

    def __init__(
        self, violates: Callable[[History], bool], most_runs: int = _MOST_RUNS, most_seconds: float = _MOST_SECONDS
    ) -> None:
        self._violates = violates
        self._left = most_runs
        self._deadline = time.monotonic() + most_seconds
        self.runs = 0
        """How many histories were tried."""

    def shrink(self, history: History) -> History:
        """The smallest history that was found; the given one if nothing smaller violates anything."""
        self._best = history
        try:
            while self._pass():
                pass
        except _TiredError:
            pass
        return self._best

    def _pass(self) -> bool:
        before = self._best
        self._drop_steps()
        self._drop_servers()
        self._simplify_steps()
        return self._best != before

    def _is_better(self, candidate: History) -> bool:
        if self.runs >= self._left or time.monotonic() > self._deadline:
            raise _TiredError
        self.runs += 1
        if not self._violates(candidate):
            return False
        self._best = candidate
        return True

    def _drop_steps(self) -> None:
        size = len(self._best.steps) // 2
        while size:
            place = 0
            while place < len(self._best.steps) - 1:
                steps = self._best.steps
                end = min(place + size, len(steps) - 1)
                waited = sum(step.wait for step in steps[place : end + 1])
                later = msgspec.structs.replace(steps[end], wait=waited)  # their time passes all the same
                if not any(
                    self._is_better(_with(self._best, [*steps[:place], first, *steps[end + 1 :]]))
                    for first in dict.fromkeys([steps[end], later])
                ):
                    place += size
            size //= 2

    def _drop_servers(self) -> None:
        mentioned = {name for step in self._best.steps for name in (step.server, step.peer, *step.servers)}
        servers = tuple(server for server in self._best.servers if server in mentioned) or self._best.servers[:1]
        if servers != self._best.servers:
            self._is_better(msgspec.structs.replace(self._best, servers=servers))
        if self._best.logs is not None:
            self._simplify_logs(self._best.logs)
        elif self._best.durable:
            self._is_better(msgspec.structs.replace(self._best, durable=False))
        if self._best.window:
            self._is_better(msgspec.structs.replace(self._best, window=0))
        if self._best.delegation is not Delegation.NONE:
            self._is_better(msgspec.structs.replace(self._best, delegation=Delegation.NONE))
        for simpler in (TellingSettings(), self._best.telling._replace(delay=0)):
            if simpler != self._best.telling:
                self._is_better(msgspec.structs.replace(self._best, telling=simpler))
        if self._best.compression is not None:
            self._is_better(msgspec.structs.replace(self._best, compression=None))

    def _simplify_logs(self, logs: LogSettings) -> None:
        usual = LogSettings(KEEP)
        for name in LogSettings.__struct_fields__:
            logs = msgspec.structs.replace(self._best.logs or logs, **{name: getattr(usual, name)})
            if logs != self._best.logs:
                self._is_better(msgspec.structs.replace(self._best, logs=logs))

    def _simplify_steps(self) -> None:
        for place in range(len(self._best.steps)):
            for plain in (*_PLAIN, *_smaller_groups(self._best.steps[place])):
                steps = list(self._best.steps)
                steps[place] = msgspec.structs.replace(steps[place], **plain)
                if steps[place] != self._best.steps[place]:
                    self._is_better(_with(self._best, steps))


def _smaller_groups(step: Step) -> list[dict[str, Any]]:
    """One of the servers that are cut from others is not."""
    if len(step.servers) < 2:
        return []
    return [{"servers": tuple(name for name in step.servers if name != spared)} for spared in step.servers]


def _with(history: History, steps: Sequence[Step]) -> History:
    return msgspec.structs.replace(history, steps=tuple(steps))


def shrink(history: History, most_runs: int = _MOST_RUNS, most_seconds: float = _MOST_SECONDS) -> History:
    """A small history that violates something, made from one that does; the same one if it does not."""
    outcome = run(history)
    if outcome.step is None:
        return history
    steps = history.steps[: outcome.step + 1]
    if steps[-1].do != "settle":
        steps = (*steps, Step(0, "settle"))
    shrinker = Shrinker(lambda candidate: bool(run(candidate).violations), most_runs, most_seconds)
    return shrinker.shrink(_with(history, steps))


def shrink_all(cases: Sequence[Case], progress: Progress | None = None, processes: int | None = None) -> list[History]:
    """The small histories of several cases, spread over all cores."""
    found = []
    with workers(processes, len(cases)) as each_of:
        for small in each_of(_shrink_case, cases):
            found.append(small)
            if progress is not None:
                progress(len(found), len(cases))
    return found


def _shrink_case(case: Case) -> History:
    return shrink(case.history())
