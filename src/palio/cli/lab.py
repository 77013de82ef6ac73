"""``palio lab``: the papers' studies, run on Spark, and what they say about the papers' claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from palio.cli.spark_session import check_master, errors_in_a_line, running

if TYPE_CHECKING:  # the help must not wait for Spark
    from palio.lab.study import Results, Study
    from palio.lab.sweep import Swept
    from palio.lab.verify import Judged

_BROKEN = 1
_RUNS = "palio-lab"


@click.group()
def lab() -> None:
    """Run the papers' studies again, and judge their claims."""


_common = [
    click.argument("studies", nargs=-1, metavar="[STUDY]..."),
    click.option("--quick", is_flag=True, help="A smaller grid: minutes instead of hours."),
    click.option("--master", default="local[*]", show_default=True, help="Where Spark runs."),
]
_results = click.option(
    "--out", default=_RUNS, show_default=True, help="A folder for results, which all workers share; goes on there."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def _with_common(command: click.decorators.FC) -> click.decorators.FC:
    for option in reversed(_common):
        command = option(command)
    return command


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
@_results
@_json
@click.option("--traces", is_flag=True, help="Keep the trace of every run, too, as Parquet.")
def run(  # noqa: PLR0913, PLR0917 (as many as options)
    studies: tuple[str, ...], quick: bool, master: str, out: str, as_json: bool, traces: bool
) -> None:
    """Run the experiments of studies, of all if none is named. Runs that were done are not done again."""
    with errors_in_a_line():
        from palio.lab.verify import named

        swept, _ = _sweep(named(studies), quick, master, out, traces=traces)
    if as_json:
        _print_json(swept._asdict())
    else:
        click.echo(f"{swept.done:,} runs done, {swept.skipped:,} were done before, {len(swept.failed):,} failed")
    if swept.failed:
        raise SystemExit(_BROKEN)


@lab.command(epilog="Example:  palio lab verify --quick --json")
@_with_common
@_results
@_json
def verify(studies: tuple[str, ...], quick: bool, master: str, out: str, as_json: bool) -> None:
    """Run what is missing, and judge every claim: the paper's words, the predicate, our figure, whether it holds."""
    with errors_in_a_line():
        from palio.lab.verify import judge, named

        chosen = named(studies)
        _, results = _sweep(chosen, quick, master, out)
        judged = judge(chosen, results)
    if as_json:
        _print_json({"claims": [each.document() for each in judged]})
    else:
        _print(judged)


@lab.command(epilog="Example:  palio lab report siena-total-cost --quick --out report")
@_with_common
@click.option("--runs", default=_RUNS, show_default=True, help="The folder of results, which all workers share.")
@click.option("--out", default="palio-report", show_default=True, help="A folder for the report.")
@_json
def report(  # noqa: PLR0913, PLR0917 (as many as options)
    studies: tuple[str, ...], quick: bool, master: str, runs: str, out: str, as_json: bool
) -> None:
    """Run what is missing, and write a page about studies: figures, claims, parameters; with the data beside it."""
    with errors_in_a_line():
        from palio.lab.report import Report
        from palio.lab.verify import experiments_of, judge, named, summary

        chosen = named(studies)
        _, results = _sweep(chosen, quick, master, runs)
        judged = judge(chosen, results)
        written = Report(tuple(chosen), experiments_of(chosen, quick=quick), results, tuple(judged), quick).write(out)
    if as_json:
        claims = [each.document() for each in judged]
        _print_json({"report": str(written.page), "figures": [str(path) for path in written.figures], "claims": claims})
    else:
        click.echo(f"{written.page}: {len(written.figures)} figures, {summary(judged)}")


def _print_json(document: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def _sweep(studies: list[Study], quick: bool, master: str, out: str, *, traces: bool = False) -> tuple[Swept, Results]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from palio.lab.siena import network
    from palio.lab.sweep import Sweep, measured
    from palio.lab.verify import experiments_of

    check_master(master)
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    sweep = Sweep(experiments_of(studies, quick=quick), network(), out, traces)
    with running(master) as spark, Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("Runs", total=None)
        swept = sweep.run(spark, lambda done, count: bar.update(task, completed=done, total=count))
        for outcome in swept.failed:
            console.print(f"failed: {outcome.run}: {outcome.problem}", highlight=False)
        return swept, measured(spark, sweep)


def _print(judged: list[Judged]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from palio.lab.verify import summary

    table = Table(box=box.SIMPLE_HEAD, show_lines=True)
    for name in ("study", "claim", "predicate", "figure", "holds"):
        table.add_column(name)
    for each in judged:
        verdict = each.verdict
        answer = "not in this grid" if verdict is None else "yes" if verdict.holds else "no"
        table.add_row(each.study, each.claim.words, each.claim.predicate, verdict.figure if verdict else "", answer)
    Console().print(table)
    click.echo(summary(judged))
