"""Filters read from files: what ends a line, and which names and settings are in the way."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from palio import spark
from palio.errors import CallerError


def test_filters_from_files(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "filters.txt").write_text('# alarms\nlevel > 3\n\n  event = "fire"\n', encoding="utf-8")
    table = spark.read_filters(session, tmp_path / "filters.txt")
    assert [(row["id"], row["text"]) for row in table.collect()] == [(2, "level > 3"), (4, '  event = "fire"')]
    for ending in ("parquet", "json", "csv"):
        path = str(tmp_path / f"filters.{ending}")
        table.write.option("header", "true").format(ending).save(path)
        assert sorted(row["id"] for row in spark.read_filters(session, path).select("id").collect()) in (
            [2, 4],
            ["2", "4"],
        )
    with pytest.raises(CallerError, match="there is no file or folder"):
        spark.read_filters(session, tmp_path / "missing.txt")
    (tmp_path / "binary.txt").write_bytes(b"x = \xff")
    with pytest.raises(CallerError, match="no UTF-8 text, at byte 4"):
        spark.read_filters(session, tmp_path / "binary.txt")


@pytest.mark.parametrize("bound", ["0", "20000"])
def test_what_ends_a_line_of_a_file_of_filters(session: SparkSession, tmp_path: Path, bound: str) -> None:
    breaks = 'x = "\u2028\u2029\x0b\x0c\x1c\x85"'
    text = f"\ufeffx > 1\r\n{breaks}\n\r# none\rx > 2"
    (tmp_path / "filters.txt").write_bytes(text.encode())
    before = session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", bound)
    try:
        table = spark.read_filters(session, tmp_path / "filters.txt")
        assert table.schema.simpleString() == "struct<id:bigint,text:string>"
        assert sorted(map(tuple, table.collect())) == [(1, "x > 1"), (2, breaks), (5, "x > 2")]
    finally:
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)


TEXTS = [
    "x > 1",
    's = "a"',
    's = ""',
    '"a b" = "a,b"',
    r's = "say \"a\" and \\"',
    's in ("a", "b,") or t = "\'"',
    '"a" = ""',
]


@pytest.mark.parametrize("texts", [TEXTS, *([text] for text in TEXTS)])
def test_quotes_in_csv(session: SparkSession, tmp_path: Path, texts: list[str]) -> None:
    rows = [(str(i), text) for i, text in enumerate(texts)]
    with (tmp_path / "doubled.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "text"), *rows])
    escaped = session.createDataFrame(rows, "id string, text string").write.option("header", "true")
    escaped.csv(str(tmp_path / "escaped.csv"))
    for name in ("doubled.csv", "escaped.csv"):
        assert sorted(map(tuple, spark.read_filters(session, tmp_path / name).collect())) == rows


def test_names_of_files_of_filters_that_look_like_patterns(session: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a[1]{b}*"
    folder.mkdir()
    (folder / "filters.txt").write_text("x > 1\n", encoding="utf-8")
    table = spark.FilterDirectory(session, folder).read("filters.txt")
    for ending in ("parquet", "json", "csv"):
        table.write.option("header", "true").format(ending).save(str(folder / f"some.{ending}"))
        assert [row["text"] for row in spark.read_filters(session, folder / f"some.{ending}").collect()] == ["x > 1"]
    table.write.parquet(str(tmp_path / "b.parquet"))
    table.write.parquet(str(tmp_path / "c.parquet"))
    assert spark.read_filters(session, tmp_path / "[bc].parquet").count() == 2
