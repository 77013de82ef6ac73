"""Sets of filters shipped to this process, so that what runs in workers can be tried without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkFiles

from palio import Notification
from palio.matching import LinearScan
from palio.model.filter import Filter
from palio.model.limits import DEFAULT_LIMITS, Limits
from palio.spark.parsing import Reading, read_parts
from palio.spark.shipping import Assembly, Shipment

Id = int | str


def ship(
    filters: Iterable[tuple[Id, str]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    limits: Limits = DEFAULT_LIMITS,
    filters_per_index: int = 10**9,
    rows_per_batch: int = 7,
) -> Shipment:
    """Read and put together filters as executors and driver do; later calls of ``open_shipment`` find them."""
    rows = list(filters)
    id_type = pa.string() if rows and isinstance(rows[0][0], str) else pa.int64()
    assembly = Assembly(folder, id_type, limits, filters_per_index)
    for begin in range(0, len(rows), rows_per_batch):
        some = rows[begin : begin + rows_per_batch]
        batch = pa.record_batch(
            {"id": pa.array([id for id, _ in some], id_type), "text": pa.array([text for _, text in some], pa.string())}
        )
        for part in read_parts(Reading(limits, id_type), [batch]):
            for row in part.to_pylist():
                assert row["reason"] is None, row
                assembly.add(row["index"], row["ids"])
    monkeypatch.setattr(SparkFiles, "get", lambda name: str(folder / name))
    return assembly.finish()


def expected_ids(filters: Sequence[tuple[Id, str]], events: Iterable[Notification]) -> list[list[Id]]:
    """For each event the ids of the filters, or unions, that match: what the model says."""
    scan = LinearScan()
    owners: dict[int, Id] = {}
    for id, text in filters:
        for filter in Filter.parse_union(text):
            owners[scan.add(filter)] = id
    return [sorted({owners[found] for found in scan.match(event)}) for event in events]
