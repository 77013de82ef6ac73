"""``palio lab``: the papers' studies, run on Spark, and what they say about the papers' claims."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from palio.cli.lab_play import play
from palio.cli.spark_session import check_master, errors_in_a_line, running

if TYPE_CHECKING:  # the help must not wait for Spark
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from rich.console import Console
    from rich.progress import Progress

    from palio.lab.study import Results, Study
    from palio.lab.sweep import Sweep, Swept
    from palio.lab.topology import Topology
    from palio.lab.verify import Judged

_BROKEN = 1
_OUT = "palio-lab"


@click.group()
def lab() -> None:
    """Run the papers' studies again, and judge their claims."""


lab.add_command(play)


_options = [
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
    click.option(
        "--out", default=_OUT, show_default=True, help="A folder for results, which all workers share; goes on there."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table."),
]


class _Asked(NamedTuple):
    """What all commands are told that run something."""

    studies: tuple[str, ...]
    quick: bool
    network: str
    poisson: bool
    master: str
    out: str


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def collecting(**values: Any) -> None:
        asked = _Asked(**{name: values.pop(name) for name in _Asked._fields})
        command(asked, **values)

    for option in reversed(_options):
        collecting = option(collecting)
    return collecting


@lab.command("list", epilog="Example:  palio lab list --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
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
        click.echo(msgspec.json.format(msgspec.json.encode({"studies": studies}), indent=2))
        return
    for study in STUDIES.values():
        click.echo(f"{study.name}: {study.title}")
        for claim in study.claims:
            click.echo(f"  {claim.name}: {claim.words}")


@lab.command(epilog="Example:  palio lab run siena-total-cost --quick --out results")
@_with_options
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
        from palio.lab.networks import named as network_named
        from palio.lab.verify import named

        network = network_named(asked.network)
        with _swept(asked, named(asked.studies), network, longest_trace * traces) as (_spark, _sweep, swept):
            pass
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(swept._asdict()), indent=2))
    else:
        click.echo(f"{swept.done:,} runs done, {swept.skipped:,} were done before, {len(swept.failed):,} failed")
    if swept.failed:
        raise SystemExit(_BROKEN)


@lab.command(epilog="Example:  palio lab verify --quick --json")
@_with_options
def verify(asked: _Asked, as_json: bool) -> None:
    """Run what is missing, and judge every claim: the paper's words, the predicate, our figure, whether it holds."""
    with errors_in_a_line():
        from palio.lab.networks import named as network_named
        from palio.lab.verify import check_network, judge, named

        chosen, network = named(asked.studies), network_named(asked.network)
        check_network(network[1])
        judged = judge(chosen, _results(asked, chosen, network))
    if as_json:
        claims = [
            {
                "study": each.study,
                "claim": each.claim.name,
                "words": each.claim.words,
                "predicate": each.claim.predicate,
                "figure": each.verdict and each.verdict.figure,
                "holds": each.verdict and each.verdict.holds,
            }
            for each in judged
        ]
        click.echo(msgspec.json.format(msgspec.json.encode({"claims": claims}), indent=2))
    else:
        _print(judged)


def _results(asked: _Asked, studies: list[Study], network: tuple[str, Topology]) -> Results:
    """Of all runs; those that are missing are made."""
    from palio.lab.sweep import measured

    with _swept(asked, studies, network) as (spark, sweep, swept):
        if swept.failed:
            raise click.ClickException(f"{len(swept.failed):,} runs failed; claims are judged by all, so run it again")
        return measured(spark, sweep)


@contextmanager
def _swept(
    asked: _Asked, studies: list[Study], network: tuple[str, Topology], longest_trace: int = 0
) -> Iterator[tuple[SparkSession, Sweep, Swept]]:
    """Make runs and show how far it is; the session stays for what is done with them."""
    from rich.console import Console

    from palio.lab.sweep import Standing, Sweep
    from palio.lab.verify import experiments_of

    check_master(asked.master)
    console = Console(stderr=True)
    label, topology = network
    experiments = experiments_of(studies, quick=asked.quick)
    here = tuple(each.under(label, is_poisson=asked.poisson) for each in experiments)
    sweep = Sweep(here, topology, asked.out, longest_trace)
    with running(asked.master) as spark:
        with _bar(console) as bar:
            task = bar.add_task("Runs", total=1.0, runs="", rate="")
            begin, before = monotonic(), None

            def show(standing: Standing) -> None:
                nonlocal before
                before = standing.done if before is None else before
                minutes = (monotonic() - begin) / 60
                rate = f"{(standing.done - before) / minutes:,.0f} a minute" if standing.done > before else ""
                bar.update(task, completed=standing.share, runs=f"{standing.done:,} of {standing.runs:,}", rate=rate)

            swept = sweep.run(spark, show)
        for outcome in swept.failed:
            click.echo(f"failed: {outcome.run}: {outcome.problem}", err=True)
        yield spark, sweep, swept


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
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_lines=True)
    for name in ("study", "claim", "predicate", "figure", "holds"):
        table.add_column(name)
    for each in judged:
        verdict = each.verdict
        answer = "not in this grid" if verdict is None else "yes" if verdict.holds else "no"
        table.add_row(each.study, each.claim.words, each.claim.predicate, verdict.figure if verdict else "", answer)
    Console().print(table)
    holding = sum(each.verdict is not None and each.verdict.holds for each in judged)
    counted = sum(each.verdict is not None for each in judged)
    click.echo(f"{holding} of {counted} claims hold")
