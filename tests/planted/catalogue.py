"""All planted bugs by name, the histories that catch them, and the search for new ones.

A checker that finds nothing may be blind. So each bug has a stored history in which its effect violates an invariant,
and which violates nothing without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from palio.sim.check import OPERATIONS, Case, Progress, workers
from palio.sim.histories.history import History
from palio.sim.histories.stored import read, write
from palio.sim.planted import Catch
from palio.sim.run import run
from palio.sim.shrink import Shrinker
from tests.planted import (
    block,
    delegation,
    disk,
    durability,
    fault,
    gateway,
    graph,
    limits,
    link,
    merging,
    pacing,
    pattern,
    routing,
    trouble,
)
from tests.planted.bugs import Bug

_MODULES = (
    routing,
    link,
    disk,
    trouble,
    block,
    graph,
    gateway,
    pattern,
    delegation,
    merging,
    pacing,
    durability,
    fault,
    limits,
)
PLANTED: dict[str, Bug] = {bug.name: bug for module in _MODULES for bug in module.BUGS.all}
"""By name."""

MOST_SEEDS = 200
"""Within so many seeds each bug has to be found."""
HISTORIES = Path(__file__).parent / "histories"
_SLIPS = ("TypeError", "AttributeError", "KeyError", "NameError")
"""Violations that show that a patch does not fit the code any more."""
_SHRINK_RUNS, _SHRINK_SECONDS = 400, 20.0


def is_caught_by(bug: Bug, history: History) -> tuple[str, ...]:
    """The violations of a history with a bug, if there are none without it and the patch fits the code."""
    with bug.planted():
        violations = run(history).violations
    if not violations or any(each.startswith(_SLIPS) for each in violations) or run(history).violations:
        return ()
    return violations


def catch(name: str, seeds: int = MOST_SEEDS, operations: int = OPERATIONS) -> Catch:
    """Look for a planted bug; architectures and faults where it shows take turns.

    >>> str(catch("copy-for-each-filter").case)
    'ce-none-0'
    """
    bug = PLANTED[name]
    kinds = [(architecture, faults) for faults in bug.faults for architecture in bug.architectures]
    for seed in range(seeds):
        case = Case(*kinds[seed % len(kinds)], seed, operations, bug.suite)
        violations = is_caught_by(bug, case.history())
        if violations:
            return Catch(name, case, violations)
    return Catch(name, None)


def catch_all(
    seeds: int = MOST_SEEDS,
    operations: int = OPERATIONS,
    progress: Progress | None = None,
    processes: int | None = None,
    names: Sequence[str] | None = None,
) -> list[Catch]:
    """Look for planted bugs, all of them if none are named, spread over all cores."""
    return _each(partial(catch, seeds=seeds, operations=operations), names, progress, processes)


def stored(name: str) -> History:
    """The history that catches a bug."""
    return read(HISTORIES / f"{name}.json")


def store(name: str) -> Catch:
    """Search for a history that catches a bug, make it small, and store it in place of the present one."""
    caught = catch(name)
    if caught.case is None:
        return caught
    bug = PLANTED[name]
    shrinker = Shrinker(lambda history: bool(is_caught_by(bug, history)), _SHRINK_RUNS, _SHRINK_SECONDS)
    write(shrinker.shrink(caught.case.history()), HISTORIES, name)
    return caught


def store_all(
    progress: Progress | None = None, processes: int | None = None, names: Sequence[str] | None = None
) -> list[Catch]:
    """Search for new histories for bugs, all of them if none are named, spread over all cores."""
    return _each(store, names, progress, processes)


def _each(
    do: Callable[[str], Catch], names: Sequence[str] | None, progress: Progress | None, processes: int | None
) -> list[Catch]:
    names = list(PLANTED) if names is None else names
    found = []
    with workers(processes, len(names)) as each_of:
        for each in each_of(do, names):
            found.append(each)
            if progress is not None:
                progress(len(found), len(names))
    return found
