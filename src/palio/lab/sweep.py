"""Sweeps: all runs of experiments as a Spark job, each on some executor, none twice."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import NamedTuple

from pyspark import RDD
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession

from palio.lab.study import Experiment, Measured, Results, Run, Setting
from palio.lab.tally import METRICS
from palio.lab.topology import Topology
from palio.lab.work import Order, Outcome, play_all, results_file
from palio.spark.interrupts import plain_interrupts

_RATE = 80_000.0
"""Messages that a core plays in a second, about: only for how runs are put together."""
_TASK = 2.0
"""Seconds that a task should take at least: Spark needs a tenth of one for itself."""
_PAUSE = 0.5
"""Seconds between two looks at how far a sweep is."""


class Swept(NamedTuple):
    """What a sweep has done."""

    done: int
    skipped: int
    """Runs that had been done before."""
    failed: tuple[Outcome, ...]
    seconds: float
    """That all runs took together."""
    cpu_seconds: float
    """Of the processors, that playing them took."""


class Standing(NamedTuple):
    """How far a sweep is."""

    done: int
    """Runs, those included that had been done before."""
    runs: int
    share: float
    """Of the work that there was to do at the beginning: runs differ much in length."""


class Sweep(NamedTuple):
    """Runs on a network, and the folder in which they leave their files; all executors have to share it."""

    experiments: tuple[Experiment, ...]
    network: Topology
    out: str
    longest_trace: int = 0
    """Messages of a trace that is kept, too; zero keeps none."""

    def run(self, spark: SparkSession, progress: Callable[[Standing], None] = lambda _standing: None) -> Swept:
        """Play all runs whose files are not there yet; those that go wrong are told, and can be tried again.

        The same runs give the same results, however they are spread. ``progress`` is told how far it is from time to
        time.
        """
        runs = [run for experiment in self.experiments for run in experiment.runs()]
        order = Order(self.network, self.out, self.longest_trace)
        missing = [run for run in runs if not order.is_done(run)]
        skipped = len(runs) - len(missing)
        progress(Standing(skipped, len(runs), 0.0 if missing else 1.0))
        outcomes: list[Outcome] = []
        if missing:
            outcomes = _play(
                spark, order, missing, lambda count, share: progress(Standing(skipped + count, len(runs), share))
            )
        failed = tuple(outcome for outcome in outcomes if outcome.problem is not None)
        seconds, cpu_seconds = (sum(getattr(each, key) for each in outcomes) for key in ("seconds", "cpu_seconds"))
        return Swept(len(outcomes) - len(failed), skipped, failed, seconds, cpu_seconds)


def _play(
    spark: SparkSession, order: Order, runs: Sequence[Run], progress: Callable[[int, float], None]
) -> list[Outcome]:
    context, tasks = spark.sparkContext, pack(runs)
    played, work = context.accumulator(0), context.accumulator(0.0)
    whole = sum(expected_seconds(run.setting) for run in runs)
    rows = context.parallelize(tasks, len(tasks)).flatMap(partial(_play_task, order, played, work))
    tag = f"palio-sweep-{uuid.uuid4().hex}"
    with plain_interrupts(), ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(_collect, rows, tag)
        try:
            while not wait([waiting], timeout=_PAUSE).done:
                progress(min(played.value, len(runs)), min(work.value / whole, 1.0))  # some may be counted twice
        except BaseException:  # the caller does not want to wait: what is done stays done
            while not waiting.done():  # a job that has not begun yet cannot be cancelled
                context.cancelJobsWithTag(tag)
                wait([waiting], timeout=_PAUSE)
            raise
        outcomes = waiting.result()
    progress(len(outcomes), 1.0)
    return outcomes


def _collect(rows: RDD[Outcome], tag: str) -> list[Outcome]:
    """Do the job under a tag, so that it can be cancelled and others in the session go on."""
    context = rows.context
    context.addJobTag(tag)
    try:
        return rows.collect()
    finally:
        context.removeJobTag(tag)


def _play_task(
    order: Order, played: Accumulator[int], work: Accumulator[float], runs: Sequence[Run]
) -> Iterator[Outcome]:
    for run, outcome in zip(runs, play_all(order, runs), strict=True):
        played.add(1)
        work.add(expected_seconds(run.setting))
        yield outcome


def pack(runs: Sequence[Run]) -> list[list[Run]]:
    """Put runs together to tasks: the long ones first and alone, so that no core is left with one at the end."""
    tasks: list[list[Run]] = []
    size = _TASK
    for run in sorted(runs, key=lambda run: (-expected_seconds(run.setting), run.name)):
        if size >= _TASK:
            tasks.append([])
            size = 0.0
        tasks[-1].append(run)
        size += expected_seconds(run.setting)
    return tasks


def expected_seconds(setting: Setting) -> float:
    """About how long a run takes."""
    publications = setting.objects * setting.publications * setting.object_cycles
    deliveries = setting.parties * min(setting.party_cycles * setting.notifications, publications)
    requests = 2 * setting.parties * setting.party_cycles
    hops = {"ce": 1, "hs": 6}.get(setting.architecture, 2)
    return 0.2 + (publications * hops + deliveries + requests) / _RATE


def runs_table(spark: SparkSession, out: str | os.PathLike[str]) -> DataFrame:
    """A row a run that was done: experiment, setting, repetition, all metrics, the cost of each site, seconds."""
    return spark.read.parquet(os.path.join(out, "runs"))  # noqa: PTH118 (it may be no local path)


def traces_table(spark: SparkSession, out: str | os.PathLike[str]) -> DataFrame:
    """A row a message of all runs whose traces were kept."""
    return spark.read.parquet(os.path.join(out, "traces"))  # noqa: PTH118


def measured(spark: SparkSession, sweep: Sweep) -> Results:
    """What claims are judged by: the runs of a sweep that were done, and no others that may be in the folder."""
    wanted = {run for experiment in sweep.experiments for run in experiment.runs()}
    if not any(results_file(sweep.out, run).exists() for run in wanted):
        return Results(())
    return Results(each for each in _measured(runs_table(spark, sweep.out)) if each.run in wanted)


def _measured(table: DataFrame) -> Iterator[Measured]:
    for row in table.collect():
        setting = Setting(*(row[name] for name in Setting._fields))
        run = Run(row["experiment"], setting, row["repetition"])
        yield Measured(run, {name: row[name] for name in METRICS}, dict(row["sites"]))
