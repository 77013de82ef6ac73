"""The benchmark on Spark: what it refuses, what it reports. Figures of so small runs mean nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from palio import spark
from palio.bench import spark as benchmark
from palio.bench.report import Report
from palio.bench.spark import archives, engines, folders, runs, unions, workers
from palio.bench.spark.joins import JOINS
from palio.bench.spark.tables import EventFiles
from palio.bench.workloads import WORKLOADS, record_batch
from palio.cli.main import palio
from palio.errors import CallerError, InternalError

TINY = benchmark.Pace(events=2000, drawn=1000, round_seconds=0.0, rounds=1, join_seconds=60.0)
KEYS = {
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
}
PREPARATION = {"prepare_seconds", "parse_seconds", "build_seconds", "ship_seconds", "open_milliseconds", "index_bytes"}


# -- the engines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(JOINS))
def test_engines_count_what_the_model_counts(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case = runs._draw(session, EventFiles(tmp_path, WORKLOADS[name], 1000, 2), 400, TINY)
    events = WORKLOADS[name].events(1000)
    expected = [sum(map(each.matches, events)) for each in case.filters]
    assert sum(expected) > 5
    for engine in (engines.PalioSpark, engines.PalioProcess, engines.SqlJoin):
        with closing(engine(case)) as built:
            assert built.counts(1000).tolist() == expected, engine
            if name == "W3" and isinstance(built, engines.SqlJoin):  # and once more as if there were many filters
                monkeypatch.setattr("palio.bench.spark.joins._BROADCAST_ROWS", 0)
                assert "ShuffledHashJoin" in built._prepared.counts(case.events(1000))._jdf.queryExecution().toString()
                assert built.counts(1000).tolist() == expected


def test_a_join_that_counts_otherwise_is_refused(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(JOINS, "W1", JOINS["W1"]._replace(rest="f_lo > 100"))
    with pytest.raises(InternalError, match=r"W1, 400 filters: palio-process counts .* sql-join .* disagree about"):
        benchmark.run(["W1"], [400], engines=["palio-process", "sql-join"], pace=TINY)


def test_rows_that_get_lost_are_noticed(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "count_rows", lambda events: 5)
    with pytest.raises(InternalError, match="of 1,024 events 5 came through"):
        benchmark.run(["W1"], [40], engines=["pass-through"], pace=TINY)


def test_a_join_without_time_is_given_up(session: SparkSession) -> None:
    report = benchmark.run(["W1"], [40], engines=["palio-process", "sql-join"], pace=TINY._replace(join_seconds=0.0))
    join = report.results[1]
    assert join.keys() == KEYS
    assert join["events_per_second"] is None
    assert join["reason"] == "it takes more than 0 seconds"
    assert report.notes == ["W1, 40 filters: sql-join was given up: it takes more than 0 seconds"]


def test_limits_of_time(session: SparkSession) -> None:
    endless = session.range(10**15).selectExpr("sum(id % 7) s")
    with pytest.raises(engines.OutOfReachError, match=r"more than 0\.5 seconds"), engines.time_limit(session, 0.5):
        endless.collect()
    with engines.time_limit(session, 60):
        assert session.range(3).count() == 3
    with pytest.raises(AnalysisException), engines.time_limit(session, 60):
        session.range(3).selectExpr("missing")
    with pytest.raises(engines.OutOfReachError, match="too much"), engines.time_limit(session, 60):
        session.range(3).selectExpr("raise_error('too much')").collect()
    assert session.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_what_ends_too_late_does_not_count(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Event()
    monkeypatch.setattr(session.sparkContext, "cancelJobGroup", lambda _group: told.set())
    with pytest.raises(engines.OutOfReachError, match="more than 0 seconds"), engines.time_limit(session, 0):
        assert told.wait(10)  # it is told to stop, and comes to its end all the same


# -- events and timing -------------------------------------------------------------------------------------------------


def test_events_are_repeated_and_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.bench.spark.tables._ROW_GROUP", 700)
    files = EventFiles(tmp_path, WORKLOADS["W2"], 10, 3)
    drawn = record_batch(WORKLOADS["W2"].events(1000))
    events = files.events(2998)
    assert events.rows == 3000
    assert sorted(path.name for path in events.folder.iterdir()) == ["0.parquet", "1.parquet", "2.parquet"]
    read = pa.Table.from_batches(events.batches(drawn.schema.names, 128))
    assert read.equals(pa.Table.from_batches([drawn] * 3))
    assert files.events(2999).folder == events.folder


class Clock:
    """A case, and operations of it that take as long as they say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pace: benchmark.Pace, seconds: Callable[[int], float]) -> None:
        self.pace, self.files, self.rows, self.timed = pace, self, 0, list[int]()
        self._seconds = seconds
        monkeypatch.setattr(engines, "_timed", self._time)

    def events(self, count: int) -> Clock:
        self.rows = count
        return self

    def prepare(self, count: int) -> Callable[[], int]:
        return lambda: count

    def _time(self, operation: Callable[[], int]) -> float:
        self.timed.append(operation())
        return self._seconds(self.timed[-1])


PACE = benchmark.Pace(events=1_000_000, drawn=1000, round_seconds=4.0, rounds=2, join_seconds=60.0)


def rate(clock: Any, **options: int) -> engines.Rate:
    return engines._rate(clock, clock.prepare, **options)


def test_events_are_added_until_they_fill_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, PACE, lambda count: 3.0 + count / 10_000)
    found = rate(clock, first=4096)
    assert found == (32768, pytest.approx(6.2768), pytest.approx(3.0001))
    assert clock.timed == [1, 1, 4096, 32768, 32768]
    assert found.figures(2) == {
        "events_per_second": pytest.approx(32768 / 6.2768),
        "events": 32768,
        "cores": 2,
        "empty_seconds": found.beside,
    }
    assert found.figures(2, all_seconds=False)["events_per_second"] == pytest.approx(10_000, rel=0.01)


def test_one_slow_round_does_not_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, PACE, lambda count: 9.0 if clock.timed == [1, 1, 4096] else count / 10_000)
    assert rate(clock, first=4096).events == 32768


def test_there_may_be_fewer_events(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rate(Clock(monkeypatch, PACE, lambda count: count / 1e9)).events == 1_000_000
    assert rate(Clock(monkeypatch, PACE, lambda count: count / 1e9), most=10_000).events == 10_000
    clock = Clock(monkeypatch, benchmark.LARGE, lambda count: count / 1e6)
    assert rate(clock) == (100_000_000, 100.0, pytest.approx(1e-6))
    assert clock.timed == [1, 100_000_000]


def test_ratios() -> None:
    def row(engine: str, rate: float | None, cores: int) -> dict[str, Any]:
        return dict.fromkeys(KEYS) | {"engine": engine, "events_per_second": rate, "cores": cores}

    rows = [
        row("palio-spark", 120.0, 4),
        row("palio-process", 40.0, 1),
        row("pass-through", 400.0, 4),
        row("sql-join", None, 4),
    ]
    runs._add_ratios(rows)
    assert [rows[0][key] for key in ("of_process", "of_pass_through", "of_join")] == [0.75, 0.3, None]
    assert all(row[key] is None for row in rows[1:] for key in ("of_process", "of_pass_through", "of_join"))


# -- unions ------------------------------------------------------------------------------------------------------------


def test_unions_are_compared_with_the_same_filters_without(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unions, "FILTERS", 60)
    monkeypatch.setattr(unions, "ROUNDS", 1)
    report = benchmark.run(["unions"], [], pace=TINY._replace(union_events=500))
    assert all(row.keys() == KEYS for row in report.results)
    kinds = ["no union", "one union", "one, far apart", "one, matches all", "all in pairs"]
    assert [(row["set"], row["result"]) for row in report.results] == [
        (kind, result) for kind in kinds for result in ("counts", "narrow")
    ]
    assert [row["times_plain"] for row in report.results[:2]] == [1.0, 1.0]
    assert all(row["seconds"] > 0 for row in report.results)


def test_an_archive_of_many_column_sets_is_opened(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert session is not None  # the benchmark uses it
    monkeypatch.setattr(archives, "COLUMN_SETS", 3)
    (row,) = benchmark.run(["archives"], [], pace=TINY).results
    assert set(row) == KEYS
    assert (row["workload"], row["set"], row["result"], row["events"]) == ("archives", "3 column sets", "open", 60)
    assert isinstance(seconds := row["seconds"], float)
    assert 0 < seconds < 60


def test_unions_that_are_counted_wrongly_are_refused(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unions, "FILTERS", 60)
    monkeypatch.setattr(unions._Set, "expected", lambda self, _values: [1] * len(self.unions))
    with pytest.raises(InternalError, match=r"unions, no union: .* filters are counted wrongly"):
        benchmark.run(["unions"], [], pace=TINY._replace(union_events=500))


# -- the session -------------------------------------------------------------------------------------------------------


def test_a_session_of_its_own_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Started:
        is_stopped = False

        def stop(self) -> None:
            self.is_stopped = True

    def fail(session: object) -> None:
        assert session is started
        raise ZeroDivisionError

    started, asked = Started(), list[str]()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(spark, "session", lambda master, **_: asked.append(master) or started)
    with pytest.raises(ZeroDivisionError), runs._session("local[7]") as session:
        fail(session)
    assert started.is_stopped
    assert asked == ["local[7]"]


# -- the command -------------------------------------------------------------------------------------------------------


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(palio, ["bench", "spark", *arguments])


def test_the_command_prints_json(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "QUICK", TINY)
    monkeypatch.setattr(folders, "FILES", 6)
    monkeypatch.setattr(folders, "_ROUNDS", 1)
    result = invoke("--quick", "--workload", "W1", "--filters", "400", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["benchmark"] == "spark"
    assert all(row.keys() == KEYS for row in report["results"])
    rows = {row["engine"]: row for row in report["results"]}
    assert tuple(rows) == benchmark.ENGINES
    assert all(row["events_per_second"] > 0 and row["reason"] is None for row in rows.values())
    assert [row["workload"] for row in report["results"] if row["engine"] == "folder-stream"] == [
        "6 parquet files",
        "6 json files",
        "6 csv files",
    ]
    assert all(row["of_file_stream"] > 0 for row in report["results"] if row["engine"] == "folder-stream")
    del rows["folder-stream"]
    assert {row["filters"] for row in rows.values()} == {400}
    assert {name: row["cores"] for name, row in rows.items()} == dict.fromkeys(rows, 2) | {"palio-process": 1}
    mine = rows["palio-spark"]
    assert all(mine[key] > 0 for key in PREPARATION | {"of_process", "of_pass_through", "of_join"})
    assert mine["prepare_seconds"] >= mine["parse_seconds"] + mine["build_seconds"] + mine["ship_seconds"]
    assert mine["worker_peak_bytes"] >= mine["worker_anonymous_bytes"] > 10_000_000
    assert mine["matches_per_event"] == rows["sql-join"]["matches_per_event"] > 0
    assert "W1, 400 filters: measuring sql-join" in result.stderr
    assert session.range(3).count() == 3  # it was used, and not stopped


def test_large_runs_match_all_events(session: SparkSession) -> None:
    result = invoke(
        "--large", "--filters", "40", "--events", "3000", "--engine", "palio-process,pass-through", "--json"
    )
    assert result.exit_code == 0, result.output
    assert [row["events"] for row in json.loads(result.stdout)["results"]] == [3000, 3000]


def test_the_command_prints_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = {"workload": "W1", "filters": 1_000_000, "engine": "palio-process", "events": 100_000_000, "cores": 64}
    figures = dict.fromkeys(KEYS, 0.0123) | {"events_per_second": 12_345_678.9, "reason": None} | subject
    figures |= {key: 1_234_567_890 for key in KEYS if key.endswith("_bytes")}
    monkeypatch.setattr(benchmark, "run", lambda *_, **__: Report("spark", [figures], ["sql-join was given up"]))
    result = invoke()
    assert result.exit_code == 0, result.output
    for shown in ("12,345,679", "100,000,000", "1,234,567,890", "peak bytes", "prepare", "sql-join was given up"):
        assert shown in result.stdout
    assert "…" not in result.stdout


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the command asks for; nothing is measured."""
    calls: list[tuple[Any, ...]] = []

    def record(workloads: Any, sizes: Any, *, engines: Any, pace: Any, master: str, progress: Any) -> Report:
        calls.append((list(workloads), list(sizes), list(engines), pace, master))
        return Report("spark", [dict.fromkeys(KEYS)])

    monkeypatch.setattr(benchmark, "run", record)
    return calls


def test_options_are_passed_on(asked: list[tuple[Any, ...]]) -> None:
    assert invoke("--json").exit_code == 0
    all_engines, three = list(benchmark.ENGINES), list(benchmark.ENGINES[:3])
    assert asked.pop() == (
        ["W1", "W2", "W3", "W4", "unions", "archives"],
        list(benchmark.SIZES),
        all_engines,
        benchmark.USUAL,
        "local[*]",
    )
    assert invoke("--quick", "--master", "local[3]").exit_code == 0
    assert asked.pop() == (["W1", "W3", "unions", "archives"], [1000, 10_000], all_engines, benchmark.QUICK, "local[3]")
    assert invoke("--large").exit_code == 0
    assert asked.pop() == (["W1"], [1_000_000], three, benchmark.LARGE, "local[*]")
    assert benchmark.LARGE.events == 100_000_000
    assert invoke("--workload", "W2,W4", "--engine", "sql-join", "--filters", "50", "--events", "7000").exit_code == 0
    assert asked.pop() == (["W2", "W4"], [50], ["sql-join"], benchmark.USUAL._replace(events=7000), "local[*]")


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workload", "W5"], "'W5' is none of W1, W2, W3, W4, unions, archives"),
        (["--engine", "magic"], "'magic' is none of palio-spark, palio-process, pass-through, sql-join"),
        (["--filters", "many"], "'many' is no list of numbers from 1 to 10000000"),
        (["--events", "10"], "10 is not in the range 1000<=x<=1000000000"),
        (["--quick", "--large"], "--quick and --large are different things; give one of them"),
    ],
)
def test_bad_options_say_what_is_allowed(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Report:
        raise CallerError("no Java runtime on the PATH")

    monkeypatch.setattr(benchmark, "run", fail)
    result = invoke("--quick")
    assert (result.exit_code, result.output) == (1, "Error: no Java runtime on the PATH\n")
    monkeypatch.delattr("palio.bench.spark")
    monkeypatch.setitem(sys.modules, "palio.bench.spark", None)
    result = invoke("--quick")
    assert result.exit_code == 1
    assert "needs the extra palio[spark]" in result.output
