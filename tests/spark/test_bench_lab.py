"""The benchmark of the lab: what it checks, what it reports. Figures of so small runs mean nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from palio.bench import aggregation
from palio.bench import lab as benchmark
from palio.cli.main import palio
from palio.errors import CallerError, InternalError
from palio.lab import metrics, networks, siena
from palio.lab.study import Experiment, Setting
from palio.lab.sweep import expected_seconds, runs_table, traces_table
from palio.lab.topology import TransitStub, transit_stub
from palio.lab.work import TRACE, number_of

NETWORK = transit_stub(1, TransitStub(transit_nodes=2, stubs=1, stub_nodes=3))
SETTINGS = tuple(
    Setting(each, 2, 3, publications=2, notifications=2, object_cycles=1, party_cycles=1)
    for each in ("ce", "hs", "as", "aa")
)
TINY = benchmark.Pace(sweep_seconds=5.0, rows=1_000, rounds=1)
KEYS = {
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
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the grid, and the runs that are aggregated, be small."""
    monkeypatch.setattr(siena, "experiments", lambda *, quick: (Experiment("siena", SETTINGS, 2 if quick else 1),))
    monkeypatch.setattr(networks, "named", lambda name: (name, NETWORK))
    monkeypatch.setattr(aggregation, "_SETTINGS", SETTINGS)
    monkeypatch.setattr(benchmark, "USUAL", TINY)
    monkeypatch.setattr(benchmark, "QUICK", TINY._replace(has_grid=False))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(palio, ["bench", "lab", *arguments])


def test_all_parts_as_json(session: SparkSession) -> None:
    result = invoke("--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["benchmark"] == "lab"
    assert "notes" not in report
    rows = report["results"]
    assert all(row.keys() == KEYS and row["cores"] == 2 for row in rows)
    assert [row["part"] for row in rows] == ["sweep", *["aggregation"] * 6, "grid"]
    sweep, grid, tables = rows[0], rows[-1], {row["subject"]: row for row in rows[1:-1]}
    assert (sweep["runs"], grid["runs"]) == (4, 8)
    for row in (sweep, grid):
        assert row["runs_per_minute"] == pytest.approx(row["runs"] / row["seconds"] * 60)
        assert row["messages_per_second"] > 0
        assert 0 < row["busy_share"] < 1
    assert list(tables) == ["totals", "per_type", "per_site", "per_link", "per_service", "figures"]
    for row in tables.values():
        assert row["times_duckdb"] == pytest.approx(row["spark_seconds"] / row["duckdb_seconds"])
        assert row["rows"] >= 1_000
    runs = tables["totals"]["runs"]
    assert tables["totals"]["groups"] == tables["figures"]["groups"] == runs
    assert tables["per_service"]["groups"] > tables["per_site"]["groups"] > runs
    assert "sweep: 4 of 4 runs, 100% of the work" in result.stderr
    assert "aggregation: per_link" in result.stderr
    assert session.range(3).count() == 3  # it was used, and not stopped


def test_quick_leaves_the_grid_out(session: SparkSession) -> None:
    result = invoke("--quick", "--part", "sweep", "--part", "grid")
    assert result.exit_code == 0, result.output
    assert "The quick grid was not run: it takes minutes." in result.stdout
    assert "runs of all sizes" in result.stdout
    assert "duckdb" not in result.stdout
    refused = invoke("--quick", "--part", "grid")
    assert refused.exit_code == 2
    assert "nothing to measure" in refused.output


def test_parts_that_are_none() -> None:
    refused = invoke("--part", "everything")
    assert refused.exit_code == 2
    assert "'everything' is none of sweep, aggregation, grid" in refused.output


def test_runs_that_fail_are_no_figures(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siena, "experiments", lambda *, quick: (Experiment("siena", (Setting("as", -1, 1),), 1),))
    failed = invoke("--part", "grid")
    assert failed.exit_code == 1
    assert "grid: siena architecture=as objects=-1" in failed.output
    assert "-1 is below 0" in failed.output


def test_a_sample_has_runs_of_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for pace in (benchmark.QUICK, benchmark.USUAL):
        sample = benchmark.sample(pace.sweep_seconds)
        assert sample == benchmark.sample(pace.sweep_seconds)
        needed = [expected_seconds(run.setting) for each in sample for run in each.runs()]
        assert pace.sweep_seconds <= sum(needed) <= 1.1 * pace.sweep_seconds
        assert max(needed) <= pace.sweep_seconds / 10
        assert min(needed) < 0.5
        assert {run.setting.architecture for each in sample for run in each.runs()} == {"ce", "hs", "as", "aa"}


# -- aggregation -------------------------------------------------------------------------------------------------------


def test_traces_are_like_those_of_sweeps(session: SparkSession, tmp_path: Path) -> None:
    traces = aggregation.write_traces(session, str(tmp_path), 1_000)
    files = list((tmp_path / "traces" / "experiment=siena").iterdir())
    assert len(files) == traces.runs
    assert all(pq.read_schema(file).equals(TRACE) for file in files)
    table = traces_table(session, tmp_path)
    assert table.count() == traces.rows >= 1_000
    assert table.select("run").distinct().count() == traces.runs
    assert set(traces.some_runs) == {row["run"] for row in runs_table(session, tmp_path).collect()}
    assert table.groupBy("run", "message_id").count().where("count > 1").count() == 0


def other_costs(traces: DataFrame) -> DataFrame:
    return metrics.totals(traces.withColumn("cost", f.col("cost") + 1))


def fewer(traces: DataFrame) -> DataFrame:
    kept = [number_of(run.name) for run in Experiment("siena", SETTINGS, 1).runs()]
    return metrics.totals(traces).where(f.col("run").isin(*kept))


def other_columns(traces: DataFrame) -> DataFrame:
    return metrics.totals(traces).drop("cost")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (other_costs, "totals: Spark and duckdb do not agree"),
        (fewer, "totals: the rows are"),
        (other_columns, "totals: Spark has .*, duckdb"),
    ],
)
def test_tables_that_differ_are_not_measured(
    session: SparkSession, tmp_path: Path, table: object, problem: str
) -> None:
    traces = aggregation.write_traces(session, str(tmp_path), 1_000)
    totals = aggregation.tables(traces.sites)[0]._replace(spark=table)  # type: ignore[arg-type]
    with aggregation.open_duckdb(2) as database, pytest.raises(InternalError, match=problem):
        aggregation.compare(session, database, traces, totals, 1)


def test_duckdb_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, session: SparkSession) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(CallerError, match="pip install duckdb"):
        aggregation.open_duckdb(2)
    missing = invoke("--part", "aggregation")
    assert missing.exit_code == 1
    assert "duckdb, which is not installed" in missing.stderr
