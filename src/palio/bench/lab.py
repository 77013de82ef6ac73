"""How fast studies are: runs of a sweep on Spark, aggregation of long traces beside duckdb, the quick grid.

- *sweep*: runs of all sizes, drawn from the full grid of the wide-area event service. "Busy" is the share of the cores
  that played runs: the processor time of playing them and writing their figures, over cores times the time from the
  start of the sweep to its end. Starting the session is not part of that; starting the workers is.
- *aggregation*: see :mod:`palio.bench.aggregation`.
- *grid*: all runs of the quick grid, as ``palio lab run --quick`` plays them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from random import Random
from time import perf_counter
from typing import NamedTuple

from pyspark.sql import SparkSession

from palio.bench import aggregation
from palio.bench.report import Figure, Report
from palio.errors import InternalError
from palio.lab import networks, siena
from palio.lab.study import Experiment
from palio.lab.sweep import Standing, Sweep, expected_seconds, runs_table

PARTS = ("sweep", "aggregation", "grid")
_KEYS = (
    "part",
    "subject",
    "cores",
    "runs",
    "rows",
    "seconds",
    "runs_per_minute",
    "messages_per_second",
    "busy_share",
    "groups",
    "spark_seconds",
    "duckdb_seconds",
    "times_duckdb",
)


class Pace(NamedTuple):
    """How much is measured."""

    sweep_seconds: float
    """Of one core, that the runs of the sweep are expected to take."""
    rows: int
    """Of the trace, about."""
    rounds: int
    """Of each aggregation; the best counts."""
    has_grid: bool = True


USUAL = Pace(sweep_seconds=600.0, rows=20_000_000, rounds=3)
QUICK = Pace(sweep_seconds=100.0, rows=2_000_000, rounds=2, has_grid=False)


def run(
    spark: SparkSession,
    parts: Sequence[str] = PARTS,
    pace: Pace = USUAL,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Measure some parts; ``progress`` is told what comes next, and how far a sweep is."""
    rows: list[dict[str, Figure]] = []
    notes: list[str] = []
    if "sweep" in parts:
        rows.append(_swept(spark, "sweep", sample(pace.sweep_seconds), progress))
    if "aggregation" in parts:
        rows += _aggregated(spark, pace, progress)
    if "grid" in parts and pace.has_grid:
        rows.append(_swept(spark, "grid", siena.experiments(quick=True), progress))
    elif "grid" in parts:
        notes.append("The quick grid was not run: it takes minutes.")
    cores = spark.sparkContext.defaultParallelism
    return Report("lab", [dict.fromkeys(_KEYS) | {"cores": cores} | row for row in rows], notes)


def sample(seconds: float) -> tuple[Experiment, ...]:
    """Settings of the full grid that are expected to take so long together; none takes more than a tenth of it."""
    full = siena.experiments(quick=False)
    settings = [(each.name, setting) for each in full for setting in each.settings]
    Random("sample").shuffle(settings)
    chosen, total = [], 0.0
    for name, setting in settings:
        needed = expected_seconds(setting)
        if total < seconds and needed <= seconds / 10:
            chosen.append((name, setting))
            total += needed
    return tuple(
        Experiment(each.name, tuple(setting for name, setting in chosen if name == each.name), 1) for each in full
    )


def _swept(
    spark: SparkSession, part: str, experiments: tuple[Experiment, ...], progress: Callable[[str], None]
) -> dict[str, Figure]:
    """Play runs, into a folder that is deleted, and see how long it takes."""
    told = -1

    def tell(standing: Standing) -> None:
        nonlocal told
        if int(standing.share * 10) > told:
            told = int(standing.share * 10)
            progress(f"{part}: {standing.done:,} of {standing.runs:,} runs, {standing.share:.0%} of the work")

    _, network = networks.named(networks.USUAL_NETWORK)
    with tempfile.TemporaryDirectory(prefix="palio-bench-") as folder:
        begin = perf_counter()
        swept = Sweep(experiments, network, folder).run(spark, tell)
        seconds = perf_counter() - begin
        if swept.failed:
            raise InternalError(f"{part}: {swept.failed[0].run}: {swept.failed[0].problem}")
        messages = runs_table(spark, folder).groupBy().sum("messages").collect()[0][0]
    return {
        "part": part,
        "subject": "runs of all sizes" if part == "sweep" else "the quick grid",
        "runs": swept.done,
        "seconds": seconds,
        "runs_per_minute": swept.done / seconds * 60,
        "messages_per_second": messages / seconds,
        "busy_share": swept.cpu_seconds / seconds / spark.sparkContext.defaultParallelism,
    }


def _aggregated(spark: SparkSession, pace: Pace, progress: Callable[[str], None]) -> Iterator[dict[str, Figure]]:
    """A row for each table."""
    cores = spark.sparkContext.defaultParallelism
    with aggregation.open_duckdb(cores) as database, tempfile.TemporaryDirectory(prefix="palio-bench-") as folder:
        progress(f"aggregation: writing a trace of {pace.rows:,} messages")
        traces = aggregation.write_traces(spark, folder, pace.rows)
        for table in aggregation.tables(traces.sites):
            progress(f"aggregation: {table.name}")
            timed = aggregation.compare(spark, database, traces, table, pace.rounds)
            yield {
                "part": "aggregation",
                "subject": table.name,
                "runs": traces.runs,
                "rows": traces.rows,
                "groups": timed.groups,
                "spark_seconds": timed.spark_seconds,
                "duckdb_seconds": timed.duckdb_seconds,
                "times_duckdb": timed.spark_seconds / timed.duckdb_seconds,
            }
