"""``palio sim``: random histories of simulated networks, judged by the law, and stored ones told again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from palio.errors import PalioError

if TYPE_CHECKING:  # the help must not wait for the simulator
    from palio.sim.check import Case, Report

_VIOLATED = 1
_MOST_SHRUNK = 3
"""Of each architecture so many violating histories are made small and stored; more of them rarely tell more."""


class _UnusableError(click.ClickException):
    """What was given cannot be used; the code tells that apart from a violation."""

    exit_code = 2


@click.group()
def sim() -> None:
    """Simulate networks of servers, and see whether they keep what is promised."""


@contextmanager
def _errors_in_a_line() -> Iterator[None]:
    try:
        yield
    except PalioError as error:
        raise _UnusableError(str(error).partition("\n")[0]) from error


@sim.command(epilog="Example:  palio sim check --seeds 500 --arch hs,as")
@click.option("--seeds", type=click.IntRange(1), default=100, show_default=True, help="How many, beginning with 0.")
@click.option(
    "--suite",
    metavar="NAME",
    default="trees",
    show_default=True,
    help="What happens: trees, graphs, gateways, patterns, merging, pacing, limits, durability or faults.",
)
@click.option("--arch", metavar="NAMES", help="Architectures, with commas; default: all of the suite.")
@click.option(
    "--faults",
    metavar="NAMES",
    help="none, weather, partitions, slow, links, races, crashes, disks, all; default: each of them.",
)
@click.option("--ops", type=click.IntRange(1), default=60, show_default=True, help="Operations of a history.")
@click.option(
    "--planted", is_flag=True, help="Also search for the bugs that the tests of a checkout plant, within 200 seeds."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/sim"),
    show_default=True,
    help="Where histories that violate something go.",
)
@click.option("--processes", type=click.IntRange(1), help="How many work at a time.  [default: one for each core]")
def check(  # noqa: PLR0913 (one for each option)
    *,
    seeds: int,
    suite: str,
    arch: str | None,
    faults: str | None,
    ops: int,
    planted: bool,
    as_json: bool,
    out: Path,
    processes: int | None,
) -> None:
    """Play random histories and judge them: deliveries, their order, tables, links, answers.

    Each seed gives one history for each architecture; the kinds of faults take turns with the seeds, so that 500 seeds
    are 500 histories of each architecture, with every kind of faults in its turn. The same seed gives the same history
    on every machine and for any number of processes.

    Histories that violate something are made small and stored, three of each architecture at most. Then, or if a
    planted bug is not found, the command ends with code 1.
    """
    with _errors_in_a_line():
        from palio.cli import sim_report
        from palio.sim import check as checker
        from palio.sim.planted import catalogue
        from palio.sim.suites import suite_of

        bugs_of = catalogue() if planted else None
        chosen = suite_of(suite)
        names, kinds = _names(arch, chosen.architectures), _names(faults, chosen.faults)
        with sim_report.progress("Histories") as tell:
            report = checker.check(
                range(seeds), names, kinds, operations=ops, suite=suite, progress=tell, processes=processes
            )
        caught = None
        if bugs_of is not None:
            with sim_report.progress("Planted bugs") as tell:
                bugs = [name for name, bug in bugs_of.PLANTED.items() if bug.suite == suite]
                caught = bugs_of.catch_all(operations=ops, progress=tell, processes=processes, names=bugs)
        stored = _stored(report, out, processes)
    show = sim_report.show_json if as_json else sim_report.show
    show(report, caught, stored)
    if report.failures or (caught is not None and any(each.case is None for each in caught)):
        raise click.exceptions.Exit(_VIOLATED)


def _names(given: str | None, usual: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return usual
    return tuple(dict.fromkeys(part.strip() for part in given.split(",") if part.strip()))


def _stored(report: Report, out: Path, processes: int | None) -> list[Path]:
    """Make some of the violating histories small, and write them to files."""
    from palio.cli.sim_report import progress
    from palio.sim.histories.stored import write
    from palio.sim.shrink import shrink_all

    by_architecture: dict[str, list[Case]] = {}
    for failure in report.failures:
        by_architecture.setdefault(failure.case.architecture, []).append(failure.case)
    cases = [case for found in by_architecture.values() for case in found[:_MOST_SHRUNK]]
    if not cases:
        return []
    with progress("Making histories small") as tell:
        small = shrink_all(cases, tell, processes)
    return [write(history, out, str(case)) for case, history in zip(cases, small, strict=True)]


@sim.command(epilog="Example:  palio sim replay build/sim/as-links-17.json --json")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the story as JSON.")
def replay(file: Path, as_json: bool) -> None:
    """Tell a stored history step by step: what was done, what followed, and what was violated.

    Ends with code 1 if something was violated, and with 2 if FILE holds no history.
    """
    with _errors_in_a_line():
        from palio.cli import sim_report
        from palio.sim.histories.stored import read
        from palio.sim.replay import replay as play

        story = play(read(file))
    (sim_report.tell_json if as_json else sim_report.tell)(story)
    if story.outcome.violations:
        raise click.exceptions.Exit(_VIOLATED)
