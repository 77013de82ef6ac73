"""Filters and events as Parquet files, where Spark reads them and a process without Spark can do so too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from palio.bench.spark.joins import JOINS
from palio.bench.workloads import Workload, record_batch
from palio.model import Filter

LEAST_DRAWN = 1000
"""Among so many events, every attribute of a workload occurs."""
_ROW_GROUP = 1 << 20


class Events(NamedTuple):
    """Some events, in a folder of Parquet files."""

    folder: Path
    rows: int

    def read(self, session: SparkSession) -> DataFrame:
        """As Spark reads them."""
        return session.read.parquet(self.folder.as_uri())

    def batches(self, columns: list[str], rows_per_batch: int) -> Iterator[pa.RecordBatch]:
        """As a process without Spark reads them."""
        for file in sorted(self.folder.iterdir()):
            with pq.ParquetFile(file) as opened:
                yield from opened.iter_batches(rows_per_batch, columns=columns, use_threads=False)


class EventFiles:
    """As many events of a workload as are asked for, one file for each core so that none has more to do than others.

    Some are drawn, and repeated as often as necessary: drawing takes longer than matching.
    """

    def __init__(self, folder: Path, workload: Workload, drawn: int, cores: int) -> None:
        self.folder, self.workload, self._cores = folder, workload, cores
        self._drawn = record_batch(workload.events(max(LEAST_DRAWN, drawn)))
        self._schema = self._drawn.schema

    def events(self, count: int) -> Events:
        """So many, or a few more if cores would have different numbers of them."""
        share = -(-count // self._cores)
        folder = self.folder / f"{share * self._cores}-events"
        if not folder.exists():
            folder.mkdir()
            for core in range(self._cores):
                self._write(folder / f"{core}.parquet", core * share, share)
        return Events(folder, share * self._cores)

    def _write(self, path: Path, begin: int, count: int) -> None:
        with pq.ParquetWriter(path, self._schema) as writer:
            for first in range(begin, begin + count, _ROW_GROUP):
                rows = min(_ROW_GROUP, begin + count - first)
                writer.write_table(pa.Table.from_batches(self._repeated(first, rows)), row_group_size=_ROW_GROUP)

    def _repeated(self, begin: int, count: int) -> Iterator[pa.RecordBatch]:
        """Rows of an endless repetition of those that were drawn."""
        end = begin + count
        while begin < end:
            place = begin % len(self._drawn)
            size = min(end - begin, len(self._drawn) - place)
            yield self._drawn.slice(place, size)
            begin += size


def write_filters(filters: list[Filter], workload: str, folder: Path, files: int) -> None:
    """A table of id (the position), text, and the columns that the join needs; in files, so that tasks share it."""
    folder.mkdir()
    join = JOINS[workload]
    schema = pa.schema({"id": pa.int64(), "text": pa.string(), **join.columns})
    share = max(1, -(-len(filters) // files))
    for begin in range(0, len(filters), share):
        some = filters[begin : begin + share]
        rows = [(id, str(each), *join.row(each)) for id, each in enumerate(some, begin)]
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), folder / f"{begin}.parquet")
