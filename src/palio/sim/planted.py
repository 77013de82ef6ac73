"""The planted bugs, and whether the checker finds them: a checker that finds nothing may be blind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from palio.sim import (
    block_bugs,
    delegation_bugs,
    disk_bugs,
    durability_bugs,
    fault_bugs,
    gateway_bugs,
    graph_bugs,
    limits_bugs,
    link_bugs,
    merging_bugs,
    pattern_bugs,
    routing_bugs,
    trouble_bugs,
)
from palio.sim.bugs import Bug
from palio.sim.check import OPERATIONS, Case, Progress, workers
from palio.sim.run import run

_MODULES = (
    routing_bugs,
    link_bugs,
    disk_bugs,
    trouble_bugs,
    block_bugs,
    graph_bugs,
    gateway_bugs,
    pattern_bugs,
    delegation_bugs,
    merging_bugs,
    durability_bugs,
    fault_bugs,
    limits_bugs,
)
PLANTED: dict[str, Bug] = {bug.name: bug for module in _MODULES for bug in module.BUGS.all}
"""By name."""

MOST_SEEDS = 200
"""Within so many seeds each bug has to be found."""


class Catch(NamedTuple):
    """How a planted bug was found."""

    name: str
    case: Case | None
    """The first case that found it; ``None`` if none did."""
    violations: tuple[str, ...] = ()


def catch(name: str, seeds: int = MOST_SEEDS, operations: int = OPERATIONS) -> Catch:
    """Look for a planted bug; architectures and faults where it shows take turns.

    What is violated without the bug, too, does not count.

    >>> str(catch("copy-for-each-filter").case)
    'ce-none-0'
    """
    bug = PLANTED[name]
    kinds = [(architecture, faults) for faults in bug.faults for architecture in bug.architectures]
    for seed in range(seeds):
        case = Case(*kinds[seed % len(kinds)], seed, operations, bug.suite)
        with bug.planted():
            violations = run(case.history()).violations
        if violations and not run(case.history()).violations:
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
    names = list(PLANTED) if names is None else names
    found = []
    with workers(processes, len(names)) as each_of:
        for each in each_of(partial(catch, seeds=seeds, operations=operations), names):
            found.append(each)
            if progress is not None:
                progress(len(found), len(names))
    return found
