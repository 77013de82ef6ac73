"""What the benchmark runs in Spark's worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from palio.spark.shipping import Shipment, open_shipment

_TOGETHER = 0.3
"""Seconds that a task waits, so that tasks run side by side and every worker gets one."""

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Memory(NamedTuple):
    """The most that any worker uses, in bytes."""

    peak: int
    """Resident at one time; pages of mapped files count, and are shared by the workers of a machine."""
    anonymous: int
    """Not of files, now."""


def count_rows(events: DataFrame) -> int:
    """Hand all columns to Python and do nothing with them but count the rows."""
    counted = events.mapInArrow(_count, "rows long").groupBy().sum("rows").collect()
    return int(counted[0][0] or 0)


def open_milliseconds(session: SparkSession, shipment: Shipment) -> float:
    """How long a worker takes to open a set of filters that it does not have open."""
    found = _in_all(session, partial(_open, shipment), "milliseconds double")
    return float(max(row["milliseconds"] for row in found))


def forget_peak(session: SparkSession) -> None:
    """From now on the peak is that of what comes, where the system can do that."""
    _in_all(session, _forget_peak, "done boolean")


def memory(session: SparkSession) -> Memory:
    """What the workers need."""
    found = _in_all(session, _memory, "peak long, anonymous long")
    return Memory(max(row["peak"] for row in found), max(row["anonymous"] for row in found))


def _in_all(session: SparkSession, task: Task, schema: str) -> list[Row]:
    cores = session.sparkContext.defaultParallelism
    return session.range(0, cores, numPartitions=cores).mapInArrow(task, schema).collect()


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"rows": pa.array([sum(len(batch) for batch in batches)], pa.int64())})


def _open(shipment: Shipment, _batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    start = perf_counter()
    open_shipment(shipment)
    taken = perf_counter() - start
    sleep(_TOGETHER)
    yield pa.record_batch({"milliseconds": [taken * 1000]})


def _forget_peak(_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    sleep(_TOGETHER)
    yield pa.record_batch({"done": [True]})


def _memory(_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    sleep(_TOGETHER)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    row = {"peak": _bytes(status["VmHWM"]), "anonymous": _bytes(status["RssAnon"])}
    yield pa.RecordBatch.from_pylist([row], pa.schema(dict.fromkeys(row, pa.int64())))


def _bytes(kilobytes: str) -> int:
    return int(kilobytes.split(maxsplit=1)[0]) * 1024
