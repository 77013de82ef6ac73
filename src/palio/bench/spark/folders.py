"""Folders of many small files as streams: an ``EventFolder`` beside Spark's own stream of the same files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from palio import spark
from palio.bench.report import Figure
from palio.errors import InternalError

ENGINE = "folder-stream"
FILES = 300
ROWS = 50
"""In a file."""
_FORMATS = ("parquet", "json", "csv")
_SCHEMA = "k long, x double, name string"
_FILTERS = 'x > 25\nname = "n3"\n'
_ROUNDS = 3


def measure(session: SparkSession, folder: Path) -> Iterator[dict[str, Figure]]:
    """For each format the rate of the folder, and its ratio to that of the plain stream; the best of a few rounds."""
    filters = folder / "filters.txt"
    filters.write_text(_FILTERS, encoding="utf-8")
    for format in _FORMATS:
        files = folder / format
        _write(files, format)
        best: dict[str, float] = {}
        for number in range(_ROUNDS):
            reader = session.readStream.schema(_SCHEMA).option("header", "true")
            streams: dict[str, DataFrame | spark.EventFolder] = {
                "plain": reader.format(format).load(str(files)),
                ENGINE: spark.EventFolder(session, files, format),
            }
            for name, stream in streams.items():
                seconds = _seconds(session, stream, filters, folder / f"{format}-{name}-{number}")
                best[name] = min(seconds, best.get(name, seconds))
        yield {
            "workload": f"{FILES} {format} files",
            "filters": 2,
            "engine": ENGINE,
            "events": FILES * ROWS,
            "events_per_second": FILES * ROWS / best[ENGINE],
            "of_file_stream": best["plain"] / best[ENGINE],
            "cores": session.sparkContext.defaultParallelism,
        }


def _seconds(session: SparkSession, stream: DataFrame | spark.EventFolder, filters: Path, place: Path) -> float:
    """From the start of the query to its end, with preparing the filters."""
    start = perf_counter()
    source = spark.FilterFile(session, filters)
    query = spark.match_stream(stream, source, place / "out", checkpoint=place / "checkpoint", key="k")
    query.awaitTermination()
    seconds = perf_counter() - start
    expected = FILES * (ROWS - 26 + 1)
    if query.totals.deliveries != expected:
        raise InternalError(f"{place.name}: {query.totals.deliveries:,} deliveries instead of {expected:,}")
    return seconds


def _write(folder: Path, format: str) -> None:
    folder.mkdir()
    for number in range(FILES):
        rows = range(ROWS)
        keys = [number * ROWS + row for row in rows]
        table = pa.table({"k": keys, "x": [float(row) for row in rows], "name": [f"n{row}" for row in rows]})
        path = folder / f"{number:04}.{format}"
        if format == "parquet":
            pq.write_table(table, path)
        elif format == "json":
            path.write_text("\n".join(map(json.dumps, table.to_pylist())), encoding="utf-8")
        else:
            pc.write_csv(table, path, pc.WriteOptions(quoting_style="none"))
