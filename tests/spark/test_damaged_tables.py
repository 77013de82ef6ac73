"""``palio match`` on folders of which some files are damaged, and streams of such: named, counted, the rest goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from palio import spark
from palio.cli.main import palio
from tests.spark import damage


@pytest.fixture
def events(session: SparkSession, tmp_path: Path) -> Path:
    """Four Parquet files with one event each; the session is there for the command to use."""
    assert session is not None
    folder = tmp_path / "events 100%"
    for number in range(4):
        place = folder / f"place={number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"k": [number], "x": [number]}), place / f"{number}.parquet")
    (tmp_path / "filters.txt").write_text("x >= 0\nplace = 1\n", encoding="utf-8")
    return folder


def run(events: Path, *options: str) -> Any:
    place = next(folder for folder in events.parents if (folder / "filters.txt").exists())
    given = {"--events": events, "--filters": place / "filters.txt", "--out": place / "out", "--key": "k"}
    command = ["match", "--json", *(str(each) for option in given.items() for each in option), *options]
    return CliRunner().invoke(palio, command)


def summary(events: Path, *options: str) -> dict[str, Any]:
    result = run(events, *options)
    assert result.exit_code == 0, result.output
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def pairs(events: Path) -> list[tuple[int, int]]:
    return sorted((row["k"], row["filter"]) for row in pq.read_table(events.parent / "out").to_pylist())


def skipped(told: dict[str, Any]) -> list[str]:
    assert told["events"]["skipped"] == len(told["events"]["first_skipped"])
    return sorted(Path(each["file"]).name for each in told["events"]["first_skipped"])


@pytest.mark.parametrize("harm", [damage.cut, damage.empty, damage.replace, damage.spoil])
def test_damaged_parquet_files_are_left_out(events: Path, harm: Callable[[Path], None]) -> None:
    for number in (0, 3):
        harm(events / f"place={number % 2}" / f"{number}.parquet")
    told = summary(events)
    assert skipped(told) == ["0.parquet", "3.parquet"]
    assert (told["events"]["read"], told["deliveries"]) == (2, 3)
    assert pairs(events) == [(1, 1), (1, 2), (2, 1)]
    rows = pq.read_table(told["places"]["skipped"]).to_pylist()
    assert [sorted(row) for row in rows] == [["file", "problem", "record"]] * 2


def test_a_foreign_file_is_left_out(events: Path) -> None:
    (events / "notes.txt").write_text("no Parquet", encoding="utf-8")
    assert skipped(summary(events)) == ["notes.txt"]
    assert len(pairs(events)) == 6


def test_sound_files_have_nothing_skipped(events: Path) -> None:
    told = summary(events)
    assert skipped(told) == []
    assert told["places"]["skipped"] is None
    assert not (events.parent / "out.rejects").exists()


def test_no_sound_file_is_an_error(events: Path) -> None:
    for number in range(4):
        damage.replace(events / f"place={number % 2}" / f"{number}.parquet")
    result = run(events)
    assert result.exit_code == 1
    assert "no file can be read; 4 files are skipped" in result.output


def test_a_single_damaged_file_is_named(events: Path) -> None:
    damage.spoil(events / "place=0" / "0.parquet")
    result = run(events / "place=0" / "0.parquet")
    assert result.exit_code == 1
    assert "0.parquet" in result.output


def test_a_json_file_that_was_cut_off(events: Path) -> None:
    folder = events.parent / "json"
    folder.mkdir()
    (folder / "1.json").write_text('{"k": 1, "x": 1}\n{"k": 2, "x": 2}\n', encoding="utf-8")
    (folder / "2.json").write_text('{"k": 3, "x": 3}\n{"k": 4, "x', encoding="utf-8")
    (folder / "3.json").write_text("", encoding="utf-8")
    told = summary(folder, "--format", "json")
    assert [(Path(each["file"]).name, each["record"]) for each in told["events"]["first_skipped"]] == [
        ("2.json", '{"k": 4, "x')
    ]
    assert (told["events"]["read"], told["events"]["skipped"]) == (3, 1)
    assert pairs(folder) == [(1, 1), (2, 1), (3, 1)]


def test_a_csv_file_that_was_cut_off(events: Path) -> None:
    folder = events.parent / "csv"
    folder.mkdir()
    (folder / "1.csv").write_text("k,x,s\n1,1,a\n2,2,b\n", encoding="utf-8")
    (folder / "2.csv").write_text("k,x,s\n3,3,c\n4,4", encoding="utf-8")
    (folder / "3.csv").write_text("", encoding="utf-8")
    told = summary(folder, "--format", "csv")
    assert [(Path(each["file"]).name, each["record"]) for each in told["events"]["first_skipped"]] == [("2.csv", "4,4")]
    assert (told["events"]["read"], told["events"]["skipped"]) == (3, 1)
    assert pairs(folder) == [(1, 1), (2, 1), (3, 1)]


def filters(session: SparkSession) -> DataFrame:
    return session.createDataFrame([(1, "x >= 0")], "id long, text string")


def test_errors_of_spark_name_a_damaged_file(session: SparkSession, events: Path, tmp_path: Path) -> None:
    """Tables and streams of Spark's own are read by Spark, which ends the job or the query."""
    damage.spoil(events / "place=1" / "3.parquet")
    with pytest.raises(Py4JJavaError, match=r"FAILED_READ_FILE(.|\n)*3\.parquet"):
        spark.match(session.read.parquet(str(events)), filters(session), key="k").collect()
    stream = session.readStream.schema("k long, x long").parquet(str(events))
    source = spark.FilterFile(session, tmp_path / "filters.txt")
    query = spark.match_stream(stream, source, tmp_path / "out", checkpoint=tmp_path / "state", key="k")
    with pytest.raises(StreamingQueryException, match=r"FAILED_READ_FILE(.|\n)*3\.parquet"):
        query.awaitTermination(60)


def test_errors_of_spark_name_a_table_that_was_dropped(session: SparkSession, events: Path) -> None:
    session.read.parquet(str(events)).write.saveAsTable("palio_dropped")
    found = spark.match(session.table("palio_dropped"), filters(session), key="k")
    assert found.count() == 4
    session.sql("drop table palio_dropped")
    with pytest.raises(Exception, match="palio_dropped"):
        found.collect()
