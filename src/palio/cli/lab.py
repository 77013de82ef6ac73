"""``palio lab``: the papers' studies, run on Spark, and what they say about the papers' claims."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from palio.cli.lab_play import play
from palio.cli.output import echo, json_text
from palio.cli.spark_session import check_master, errors_in_a_line, running

if TYPE_CHECKING:  # the help must not wait for Spark
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from rich.console import Console
    from rich.progress import Progress

    from palio.lab.study import Results, Study
    from palio.lab.sweep import Sweep, Swept
    from palio.lab.verify import Judged

_BROKEN = 1
_RUNS = "palio-lab"
_TOLD = 0.1
"""Of the work: how often those who see no bar are told how far it is."""


@click.group()
def lab() -> None:
    """Run the papers' studies again, and judge their claims."""


lab.add_command(play)


_common = [
    click.argument("studies", nargs=-1, metavar="[STUDY]..."),
    click.option("--quick", is_flag=True, help="A smaller grid: minutes instead of hours."),
    click.option(
        "--network",
        default="transit-stub:1",
        show_default=True,
        help="Another network of sites: a generator with a seed (waxman:1), or a file, .dot or .gb.",
    ),
    click.option("--poisson", is_flag=True, help="Publications at random times instead of regular ones."),
    click.option("--master", default="local[*]", show_default=True, help="Where Spark runs."),
]
_runs = click.option(
    "--out",
    "runs",
    default=_RUNS,
    show_default=True,
    help="A folder for results, which all workers share; goes on there.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


class _Asked(NamedTuple):
    """What all commands are told that run something."""

    studies: tuple[str, ...]
    quick: bool
    network: str
    poisson: bool
    master: str
    runs: str
    """The folder of results."""


def _with_common(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def collecting(**values: Any) -> None:
        asked = _Asked(**{name: values.pop(name) for name in _Asked._fields})
        command(asked, **values)

    for option in reversed(_common):
        collecting = option(collecting)
    return collecting


@lab.command("list", epilog="Example:  palio lab list --json")
@_json
def list_(as_json: bool) -> None:
    """List the studies, with their experiments and claims."""
    from palio.lab.verify import STUDIES

    if as_json:
        studies = [
            {
                "study": study.name,
                "title": study.title,
                "experiments": study.experiments,
                "claims": [
                    {"claim": claim.name, "words": claim.words, "predicate": claim.predicate} for claim in study.claims
                ],
            }
            for study in STUDIES.values()
        ]
        _print_json({"studies": studies})
        return
    for study in STUDIES.values():
        click.echo(f"{study.name}: {study.title}")
        for claim in study.claims:
            click.echo(f"  {claim.name}: {claim.words}")


@lab.command(epilog="Example:  palio lab run siena-total-cost --quick --out results")
@_with_common
@_runs
@_json
@click.option("--traces", is_flag=True, help="Keep the traces of runs, too, as Parquet.")
@click.option(
    "--longest-trace",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    metavar="MESSAGES",
    help="Of runs with more messages keep the figures only.",
)
def run(asked: _Asked, as_json: bool, traces: bool, longest_trace: int) -> None:
    """Run the experiments of studies, of all if none is named. Runs that were done are not done again."""
    with errors_in_a_line():
        _, sweep = _wanted(asked, longest_trace * traces)
        with _sweeping(asked.master, sweep) as (_spark, swept):
            pass
    if as_json:
        _print_json(swept._asdict())
    else:
        click.echo(f"{swept.done:,} runs done, {swept.skipped:,} were done before, {len(swept.failed):,} failed")
    if swept.failed:
        raise SystemExit(_BROKEN)


@lab.command(epilog="Example:  palio lab verify --quick --json")
@_with_common
@_runs
@_json
def verify(asked: _Asked, as_json: bool) -> None:
    """Run what is missing, and judge every claim: the paper's words, the predicate, our figure, whether it holds."""
    with errors_in_a_line():
        from palio.lab.verify import judge

        studies, sweep = _wanted(asked)
        judged = judge(studies, _results(asked, sweep))
    if as_json:
        _print_json({"claims": [each.document() for each in judged]})
    else:
        _print(judged)


@lab.command(epilog="Example:  palio lab report siena-total-cost --quick --out report")
@_with_common
@click.option("--runs", default=_RUNS, show_default=True, help="The folder of results, which all workers share.")
@click.option("--out", default="palio-report", show_default=True, help="A folder for the report.")
@_json
def report(asked: _Asked, out: str, as_json: bool) -> None:
    """Run what is missing, and write a page about studies: figures, claims, parameters; with the data beside it."""
    with errors_in_a_line():
        from palio.lab.report import Report
        from palio.lab.verify import judge, summary

        studies, sweep = _wanted(asked)
        results = _results(asked, sweep)
        judged = judge(studies, results)
        written = Report(tuple(studies), sweep.experiments, results, tuple(judged), asked.quick).write(out)
    if as_json:
        claims = [each.document() for each in judged]
        _print_json({"report": str(written.page), "figures": [str(path) for path in written.figures], "claims": claims})
    else:
        click.echo(f"{written.page}: {len(written.figures)} figures, {summary(judged)}")


def _print_json(document: object) -> None:
    click.echo(json_text(document, indent=2))


def _wanted(asked: _Asked, longest_trace: int = 0) -> tuple[list[Study], Sweep]:
    """The studies, and what has to be run for them."""
    from palio.lab import networks
    from palio.lab.sweep import Sweep
    from palio.lab.verify import experiments_of, named

    check_master(asked.master)
    studies, (label, network) = named(asked.studies), networks.named(asked.network)
    experiments = experiments_of(studies, quick=asked.quick)
    here = tuple(each.under(label, is_poisson=asked.poisson) for each in experiments)
    return studies, Sweep(here, network, asked.runs, longest_trace)


def _results(asked: _Asked, sweep: Sweep) -> Results:
    """Of all runs; those that are missing are made."""
    from palio.lab.sweep import measured
    from palio.lab.verify import check_network

    check_network(sweep.network)
    with _sweeping(asked.master, sweep) as (spark, swept):
        if swept.failed:
            raise click.ClickException(f"{len(swept.failed):,} runs failed; claims are judged by all, so run it again")
        return measured(spark, sweep)


@contextmanager
def _sweeping(master: str, sweep: Sweep) -> Iterator[tuple[SparkSession, Swept]]:
    """Make runs and show how far it is; the session stays for what is done with them."""
    from rich.console import Console

    from palio.lab.sweep import Standing

    console = Console(stderr=True)
    with running(master) as spark:
        with _bar(console) as bar:
            task = bar.add_task("Runs", total=1.0, runs="", rate="")
            begin, before, told = monotonic(), None, 0.0

            def show(standing: Standing) -> None:
                nonlocal before, told
                if not console.is_terminal and standing.share >= told + _TOLD:
                    told = standing.share
                    click.echo(f"{standing.done:,} of {standing.runs:,} runs, {told:.0%} of the work", err=True)
                before = standing.done if before is None else before
                minutes = (monotonic() - begin) / 60
                rate = f"{(standing.done - before) / minutes:,.0f} a minute" if standing.done > before else ""
                bar.update(task, completed=standing.share, runs=f"{standing.done:,} of {standing.runs:,}", rate=rate)

            swept = sweep.run(spark, show)
        for outcome in swept.failed:
            echo(f"failed: {outcome.run}: {outcome.problem}", err=True)
        yield spark, swept


def _bar(console: Console) -> Progress:
    """Shows how much of the work is done, not of the runs, as the long ones come first."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description} {task.fields[runs]}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} % of the work"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _print(judged: list[Judged]) -> None:
    """One claim below the other: figures are too long for the columns of a table."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from palio.lab.verify import summary

    console, study = Console(highlight=False), ""
    for each in judged:
        if each.study != study:
            study = each.study
            console.print(Text(f"\n{study}", "bold"))
        verdict = each.verdict
        holds = None if verdict is None else verdict.holds
        mark, style = {True: ("holds", "green"), False: ("does not hold", "red"), None: ("not in this grid", "dim")}[
            holds
        ]
        console.print(Padding(Text.assemble((mark, style), ": ", each.claim.words), (0, 0, 0, 2)))
        console.print(Padding(Text(f"predicate: {each.claim.predicate}", "dim"), (0, 0, 0, 6)))
        if verdict is not None:
            console.print(Padding(Text(f"figure: {verdict.figure}"), (0, 0, 0, 6)))
    click.echo(f"\n{summary(judged)}")
