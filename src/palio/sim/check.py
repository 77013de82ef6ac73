"""Many seeds, spread over all cores; sums by architecture, and the runs that violated something."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from palio.errors import CallerError, brief
from palio.routing.architectures import ARCHITECTURES
from palio.sim.generators.networks import FAULTS
from palio.sim.histories.history import History
from palio.sim.run import Outcome, run
from palio.sim.suites import USUAL, suite_of

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Called with how many runs are done, and how many there are."""

OPERATIONS = 60
"""How long a history is if nothing else is said."""


class Case(NamedTuple):
    """What a history is generated from."""

    architecture: str
    faults: str
    seed: int
    operations: int
    suite: str = USUAL

    def history(self) -> History:
        """The history itself."""
        return suite_of(self.suite).generate(self.seed, self.architecture, self.faults, self.operations)

    def __str__(self) -> str:
        name = f"{self.architecture}-{self.faults}-{self.seed}"
        return name if self.suite == USUAL else f"{self.suite}-{name}"


class Checked(NamedTuple):
    """A case and what became of it."""

    case: Case
    outcome: Outcome


class Sums(NamedTuple):
    """The runs of one architecture, taken together."""

    architecture: str
    runs: int
    operations: int
    messages: int
    deliveries: int
    faults: dict[str, int]
    violations: int
    """How many runs violated something."""


class Report(NamedTuple):
    """What many runs came to."""

    by_architecture: tuple[Sums, ...]
    failures: tuple[Checked, ...]
    """The runs that violated something, by architecture and seed."""

    def total(self) -> Sums:
        """All architectures taken together."""
        return Sums(
            "all",
            sum(each.runs for each in self.by_architecture),
            sum(each.operations for each in self.by_architecture),
            sum(each.messages for each in self.by_architecture),
            sum(each.deliveries for each in self.by_architecture),
            _added(each.faults for each in self.by_architecture),
            sum(each.violations for each in self.by_architecture),
        )


def cases(
    seeds: Iterable[int],
    architectures: Sequence[str],
    faults: Sequence[str],
    operations: int = OPERATIONS,
    suite: str = USUAL,
) -> list[Case]:
    """One history for each architecture and seed; the kinds of faults take turns with the seeds.

    >>> [str(case) for case in cases(range(3), ["as"], ["none", "links"])]
    ['as-none-0', 'as-links-1', 'as-none-2']
    """
    chosen = suite_of(suite)
    _require(architectures, chosen.architectures, "architecture")
    _require(faults, chosen.faults, "faults")
    numbers = list(seeds)
    return [
        Case(architecture, faults[seed % len(faults)], seed, operations, suite)
        for architecture in architectures
        for seed in numbers
    ]


def _require(given: Sequence[str], allowed: Iterable[str], what: str) -> None:
    if not given:
        raise CallerError(f"{what}: name at least one of {', '.join(allowed)}")
    for name in given:
        if name not in allowed:
            raise CallerError(f"{what}: {brief(name)} is none of {', '.join(allowed)}")


def check(  # noqa: PLR0913 (what to check, and how)
    seeds: Iterable[int],
    architectures: Sequence[str] = tuple(ARCHITECTURES),
    faults: Sequence[str] = FAULTS,
    *,
    operations: int = OPERATIONS,
    suite: str = USUAL,
    progress: Progress | None = None,
    processes: int | None = None,
) -> Report:
    """Run the histories of all seeds; the result is the same for any number of processes."""
    todo = cases(seeds, architectures, faults, operations, suite)
    results: dict[str, list[Checked]] = {name: [] for name in architectures}
    with workers(processes, len(todo)) as each_of:
        for done, result in enumerate(each_of(_run_case, todo), 1):
            results[result.case.architecture].append(result)
            if progress is not None:
                progress(done, len(todo))
    sums = tuple(_sum(name, [each.outcome for each in found]) for name, found in results.items())
    failures = tuple(each for found in results.values() for each in found if each.outcome.violations)
    return Report(sums, failures)


def _run_case(case: Case) -> Checked:
    return Checked(case, run(case.history()))


def _sum(architecture: str, outcomes: Sequence[Outcome]) -> Sums:
    return Sums(
        architecture,
        len(outcomes),
        sum(each.operations for each in outcomes),
        sum(each.messages for each in outcomes),
        sum(each.deliveries for each in outcomes),
        _added(each.faults for each in outcomes),
        sum(bool(each.violations) for each in outcomes),
    )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))


# -- processes ---------------------------------------------------------------------------------------------------------


@contextmanager
def workers(processes: int | None, tasks: int) -> Iterator[Callable[[Callable[[T], R], Sequence[T]], Iterator[R]]]:
    """A ``map`` over processes, all cores by default, with results in order; without processes if one is enough."""
    count = min(processes or os.cpu_count() or 1, tasks)
    if count <= 1:
        yield map
        return
    # Fresh interpreters: a fork would take over whatever threads and locks this process has.
    with multiprocessing.get_context("spawn").Pool(count, _leave_interrupts_to_the_parent) as pool:
        yield lambda function, given: pool.imap(function, given, chunksize=1)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
