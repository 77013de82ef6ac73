"""What ``palio sim`` tells, for people and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from palio.cli.output import json_text
from palio.errors import printable
from palio.sim.check import Progress as Tell
from palio.sim.check import Report, Sums
from palio.sim.planted import Catch
from palio.sim.replay import Scene, Story

_MOST_FAILURES = 20
_MOST_COLUMNS = 6
"""Histories that violate something and are shown; often they have one cause."""
_MOST_TOLD = 5
"""Violations of one history that are shown."""


@contextmanager
def progress(description: str) -> Iterator[Tell]:
    """A line on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as line:
        task = line.add_task(description, total=None)
        yield lambda done, total: line.update(task, completed=done, total=total)


# -- check -------------------------------------------------------------------------------------------------------------


def show(report: Report, caught: Sequence[Catch] | None, stored: Sequence[Path]) -> None:
    """Print what a check found, for people."""
    console = Console(highlight=False)
    for table in _tables(report):
        console.print(table)
    if caught is not None:
        _show_planted(console, caught)
    for failure in report.failures[:_MOST_FAILURES]:
        more = len(failure.outcome.violations) - 1
        text = f"{failure.case}: {failure.outcome.violations[0]}" + (f" (and {more} more)" if more else "")
        console.print(Text(text, style="red"), soft_wrap=True)
    if len(report.failures) > _MOST_FAILURES:
        console.print(f"and {len(report.failures) - _MOST_FAILURES:,} more histories; --json has all")
    if stored:
        console.print("\nThe smallest histories that were found; each is told step by step by:")
    for path in stored:
        console.print(Text(f"  palio sim replay {shlex.quote(str(path))}"), soft_wrap=True)


def _tables(report: Report) -> Iterator[Table]:
    """A column for each architecture, so that the kinds of faults have room below each other; a few in each table."""
    columns = [*report.by_architecture]
    if len(columns) > 1:
        columns.append(report.total())
    for begin in range(0, len(columns), _MOST_COLUMNS):
        yield _table(columns[begin : begin + _MOST_COLUMNS])


def _table(columns: Sequence[Sums]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for sums in columns:
        table.add_column(sums.architecture, justify="right", no_wrap=True)
    for name in ("runs", "operations", "messages", "deliveries"):
        table.add_row(name, *(f"{getattr(sums, name):,}" for sums in columns))
    for kind in sorted({kind for sums in columns for kind in sums.faults}):
        table.add_row(f"faults: {kind}", *(f"{sums.faults.get(kind, 0):,}" for sums in columns), style="dim")
    counts = [Text(f"{sums.violations:,}", style="red" if sums.violations else "green") for sums in columns]
    table.add_row("violations", *counts)
    return table


def _show_planted(console: Console, caught: Sequence[Catch]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("planted bug", "found by", "what was violated"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for each in caught:
        found = Text("not found", style="red") if each.case is None else Text(str(each.case))
        table.add_row(each.name, found, Text(each.violations[0] if each.violations else ""))
    console.print(table)
    console.print(f"{sum(each.case is not None for each in caught)} of {len(caught)} planted bugs were found.\n")


def show_json(report: Report, caught: Sequence[Catch] | None, stored: Sequence[Path]) -> None:
    """Print what a check found, as one object."""
    document = {
        **_figures(report.total()),
        "by_architecture": [{"architecture": each.architecture, **_figures(each)} for each in report.by_architecture],
        "planted": None if caught is None else _planted(caught),
        "violating": [
            {"case": str(each.case), "step": each.outcome.step, "violations": each.outcome.violations}
            for each in report.failures
        ],
        "stored": [str(path) for path in stored],
    }
    _print_json(document)


def _figures(sums: Sums) -> dict[str, object]:
    return {
        "runs": sums.runs,
        "operations": sums.operations,
        "messages": sums.messages,
        "faults": sums.faults,
        "deliveries": sums.deliveries,
        "violations": sums.violations,
    }


def _planted(caught: Sequence[Catch]) -> dict[str, object]:
    bugs = [
        {"name": each.name, "seed": each.case and each.case.seed, "case": each.case and str(each.case)}
        for each in caught
    ]
    return {"total": len(caught), "caught": sum(each.case is not None for each in caught), "bugs": bugs}


# -- replay ------------------------------------------------------------------------------------------------------------


def tell(story: Story) -> None:
    """Print a run step by step, for people."""
    console = Console(highlight=False)
    history, outcome = story.history, story.outcome
    about = f"{history.architecture}, servers {', '.join(history.servers)}, seed {history.seed}"
    console.print(Text(printable(about)))
    for scene in story.scenes:
        _tell_scene(console, scene)
    if not outcome.violations:
        console.print(Text("\nNothing is violated.", style="green"))
        return
    console.print(Text(f"\nViolated, as found at step {outcome.step}:", style="bold red"))
    for each in outcome.violations[:_MOST_TOLD]:
        console.print(Text(f"  {printable(each)}", style="red"), soft_wrap=True)
    if len(outcome.violations) > _MOST_TOLD:
        console.print(f"  and {len(outcome.violations) - _MOST_TOLD} more; --json has all")


def _tell_scene(console: Console, scene: Scene) -> None:
    line = Text.assemble((f"{scene.number:>4} ", "bold"), (f"at {scene.time}  ", "dim"), printable(scene.step))
    console.print(line, soft_wrap=True)
    for each in scene.followed:
        console.print(Text(f"        {printable(each)}", style="cyan"), soft_wrap=True)


def tell_json(story: Story) -> None:
    """Print a run as one object."""
    history, outcome = story.history, story.outcome
    document = {
        "architecture": history.architecture,
        "seed": history.seed,
        "servers": history.servers,
        "steps": [scene._asdict() for scene in story.scenes],
        "violations": outcome.violations,
        "found_at": outcome.step,
        "digest": outcome.digest,
    }
    _print_json(document)


def _print_json(document: object) -> None:
    click.echo(json_text(document, indent=2))
