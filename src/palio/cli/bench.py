"""``palio bench``: figures, as tables and as JSON."""

from __future__ import annotations

import click

from palio.bench.report import Report, format_figure, machine


@click.group()
def bench() -> None:
    """Measure how fast Palio is on this machine."""


@bench.command(epilog="Example:  palio bench model --json > model.json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def model(as_json: bool) -> None:
    """Parse, match and covers, in operations per second of one Python thread.

    "ratio" compares with other work done in the same run; lower is better. The baselines: json.loads of the
    filter's JSON form; the same test written by hand in Python; covering constraint by constraint, as in the papers;
    covering of filters whose canonical forms are known; and "64 x 4": as many constraints in 64 pairs of filters, so
    that 1 means that the time grows with the number of constraints, and not faster.
    """
    from palio.bench.model import run

    _print(run(lambda step: click.echo(f"  {step}", err=True)), as_json)


@bench.command(epilog="Example:  palio bench covering --sizes 12500,25000 --json > covering.json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--sizes", default="12500,25000,50000,100000", show_default=True, help="Numbers of elements, separated by commas."
)
@click.option("--population", "populations", multiple=True, help="Measure this population only; may be repeated.")
def covering(as_json: bool, sizes: str, populations: tuple[str, ...]) -> None:
    """The covering order at several sizes: insert, ask for what covers and what is covered, remove.

    "found" is how many elements an answer has on average: for insert how many are maximal in the end, for remove how
    many became so. "of a walk" compares with walking through all elements once. "of half" compares with half as many
    elements: all the insertions, or a quarter of them removed, or the same questions; the goal is at most 2.3.
    Times are the processor's; canonical forms are measured separately. Takes about ten minutes at the usual sizes.
    """
    from palio.bench.covering import POPULATIONS, run

    unknown = [name for name in populations if name not in POPULATIONS]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(POPULATIONS)}", param_hint="--population")
    try:
        numbers = [int(size) for size in sizes.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 100:
        raise click.BadParameter("give integers of at least 100, separated by commas", param_hint="--sizes")
    _print(run(lambda step: click.echo(f"  {step}", err=True), numbers, populations or POPULATIONS), as_json)


_LABELS = {
    "constraints": "n",
    "size": "n",
    "operations_per_second": "a second",
    "microseconds": "µs",
    "times_baseline": "ratio",
    "answers": "found",
    "times_walk": "of a walk",
    "times_half": "of half",
}


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        click.echo(report.to_json())
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    about = machine()
    size = f"{about['cores']} cores, {about['memory_gib']} GiB"
    console.print(f"{about['cpu']}, {size}; Python {about['python']}; {about['date']}", highlight=False)
    table = Table(box=box.SIMPLE_HEAD)
    for key, figure in report.results[0].items():
        table.add_column(_LABELS.get(key, key), justify="left" if isinstance(figure, str) else "right", no_wrap=True)
    for row in report.results:
        table.add_row(*map(format_figure, row.values()))
    console.print(table)
