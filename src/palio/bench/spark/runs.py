"""The run of the benchmark: cases one after the other, checked and then measured."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from palio import spark
from palio.bench.report import Figure, Report, machine
from palio.bench.spark import archives, folders, unions
from palio.bench.spark.engines import ENGINES as _ENGINES
from palio.bench.spark.engines import Case, Counts, Engine, Figures, OutOfReachError, Pace
from palio.bench.spark.joins import JOINS
from palio.bench.spark.tables import EventFiles, write_filters
from palio.bench.workloads import WORKLOADS
from palio.errors import InternalError

ENGINES = (*_ENGINES, folders.ENGINE)
WORKLOAD_NAMES = (*JOINS, "unions", archives.NAME)
SIZES = (10_000, 100_000, 1_000_000)
"""Numbers of filters that are measured unless others are asked for."""
USUAL = Pace(events=4_000_000, drawn=100_000, round_seconds=4.0, rounds=3, join_seconds=90.0)
QUICK = Pace(events=250_000, drawn=10_000, round_seconds=0.5, rounds=2, join_seconds=20.0, union_events=2000)
LARGE = Pace(events=100_000_000, drawn=200_000, round_seconds=0.0, rounds=1, join_seconds=90.0, all_events=True)

_CHECKED_EVENTS = 1024
_KEYS = (
    "workload",
    "filters",
    "engine",
    "events_per_second",
    "matches_per_event",
    "events",
    "cores",
    "empty_seconds",
    "of_process",
    "of_pass_through",
    "of_join",
    "of_file_stream",
    "prepare_seconds",
    "parse_seconds",
    "build_seconds",
    "ship_seconds",
    "open_milliseconds",
    "index_bytes",
    "worker_peak_bytes",
    "worker_anonymous_bytes",
    "read_seconds",
    "set",
    "result",
    "seconds",
    "times_plain",
    "reason",
)


def run(  # noqa: PLR0913 - each is an option of the command line
    workloads: Sequence[str] = WORKLOAD_NAMES,
    sizes: Sequence[int] = SIZES,
    *,
    engines: Sequence[str] = ENGINES,
    pace: Pace = USUAL,
    master: str = "local[*]",
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Measure the engines; ``progress`` is told of it. A session of Spark that is there already is used as it is."""
    rows: list[Figures] = []
    notes: list[str] = []
    with _session(master) as session, tempfile.TemporaryDirectory(prefix="palio-bench-") as folder:
        for name in workloads:
            with tempfile.TemporaryDirectory(dir=folder) as place:
                if name == "unions":
                    found = unions.run(session, Path(place), pace.union_events, progress)
                    rows += [dict.fromkeys(_KEYS) | row for row in found]
                    continue
                if name == archives.NAME:
                    rows += [dict.fromkeys(_KEYS) | row for row in archives.run(session, Path(place), progress)]
                    continue
                progress(f"{name}: drawing events")
                cores = session.sparkContext.defaultParallelism
                files = EventFiles(Path(place), WORKLOADS[name], min(pace.drawn, pace.events), cores)
                for size in sizes:
                    progress(f"{name}, {size:,} filters: drawing")
                    case = _draw(session, files, size, pace)
                    rows += _measure(case, [each for each in engines if each in _ENGINES], progress, notes)
        if folders.ENGINE in engines and any(name in JOINS for name in workloads):
            progress("folders of small files")
            rows += [dict.fromkeys(_KEYS) | row for row in folders.measure(session, Path(folder))]
    return Report("spark", rows, notes)


@contextmanager
def _session(master: str) -> Iterator[SparkSession]:
    """The session that is there, or one of our own with enough memory for the join's hash tables."""
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    memory = max(3, int(machine()["memory_gib"] or 0) // 3)
    started = spark.session(master, app="palio bench spark", settings={"spark.driver.memory": f"{memory}g"})
    try:
        yield started
    finally:
        started.stop()


def _draw(session: SparkSession, files: EventFiles, size: int, pace: Pace) -> Case:
    name = files.workload.name
    filters = files.workload.filters(size)
    folder = files.folder / f"{size}-filters"
    write_filters(filters, name, folder, session.sparkContext.defaultParallelism)
    attributes = sorted({constraint.name for filter in filters for constraint in filter})
    return Case(session, name, filters, session.read.parquet(folder.as_uri()), attributes, files, pace)


def _measure(
    case: Case, engines: Sequence[str], progress: Callable[[str], None], notes: list[str]
) -> list[dict[str, Figure]]:
    """A row for each engine; an engine that is out of its depth says why."""
    found: dict[str, Figures] = {}
    checked: dict[str, Counts] = {}
    for name in engines:
        progress(f"{case.title}: preparing {name}")
        try:
            with closing(_ENGINES[name](case)) as engine:
                progress(f"{case.title}: checking {name}")
                _check(case, name, engine, checked)
                progress(f"{case.title}: measuring {name}")
                found[name] = engine.measure()
        except OutOfReachError as error:
            found[name] = {"reason": str(error)}
            notes.append(f"{case.title}: {name} was given up: {error}")
    rows = [_row(case, name, figures, checked.get(name)) for name, figures in found.items()]
    _add_ratios(rows)
    return rows


def _row(case: Case, engine: str, figures: Figures, counts: Counts | None) -> Figures:
    """A row with every key; what is not said, or does not apply to the engine, stays empty."""
    row: Figures = dict.fromkeys(_KEYS)
    row |= {"workload": case.workload, "filters": len(case.filters), "engine": engine, "cores": case.cores}
    if counts is not None:
        row["matches_per_event"] = int(counts.sum()) / case.files.events(_CHECKED_EVENTS).rows
    return row | figures


def _check(case: Case, name: str, engine: Engine, checked: dict[str, Counts]) -> None:
    """Refuse to measure engines that count differently."""
    counts = engine.counts(_CHECKED_EVENTS)
    if counts is None:
        return
    for other, expected in checked.items():
        differing = np.flatnonzero(counts != expected)
        if len(differing):
            id = int(differing[0])
            raise InternalError(
                f"{case.title}: {other} counts {expected[id]} events for {case.filters[id]}, {name} {counts[id]}; "
                f"they disagree about {len(differing):,} filters"
            )
    checked[name] = counts


def _add_ratios(rows: list[Figures]) -> None:
    """Of Palio on Spark to the others, as far as these were measured: to one process on as many cores."""
    rates = {row["engine"]: row["events_per_second"] for row in rows}
    for row in rows:
        rate = row["events_per_second"]
        if row["engine"] != "palio-spark" or not isinstance(rate, float):
            continue
        cores = row["cores"]
        assert isinstance(cores, int)
        for key, engine, times in (
            ("of_process", "palio-process", cores),
            ("of_pass_through", "pass-through", 1),
            ("of_join", "sql-join", 1),
        ):
            other = rates.get(engine)
            row[key] = rate / (other * times) if isinstance(other, float) else None
