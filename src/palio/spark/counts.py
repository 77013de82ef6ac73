"""Counts by filter, on their way from the tasks that match to those that add up.

A million filters that each match something make a million counts in every task. As rows they would cost Spark more than
many an event costs the index; so they travel in blocks, as arrays, and become rows when they have been added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from palio.spark.shipping import Codes, OpenSet, Shipment, open_shipment

BLOCK = 1 << 16
"""Ids in a block, so that places in it have 16 bits."""
PARTIAL = pa.schema({"block": pa.int32(), "problem": pa.string(), "places": pa.binary(), "counts": pa.binary()})
"""Either the counts of a block, or how many events have a problem."""


def pack(counts: Codes, problems: Counter[str]) -> pa.RecordBatch:
    """What a task has counted: for each id, and for each problem that events had.

    >>> pack(np.array([0, 7, 0, 2]), Counter()).num_rows
    1
    """
    met = np.flatnonzero(counts)
    blocks, begins = np.unique(met // BLOCK, return_index=True)
    parts = np.split(met, begins[1:]) if len(blocks) else []
    columns: dict[str, list[object]] = {
        "block": [*blocks.tolist(), *(None for _ in problems)],
        "problem": [*(None for _ in parts), *problems],
        "places": [*((part % BLOCK).astype(np.uint16).tobytes() for part in parts), *(bytes(2) for _ in problems)],
        "counts": [
            *(counts[part].tobytes() for part in parts),
            *(np.int64(count).tobytes() for count in problems.values()),
        ],
    }
    return pa.RecordBatch.from_pydict(columns, PARTIAL)


def add_up(shipment: Shipment, tells_problems: bool, partial: pa.Table) -> pa.Table:
    """Rows of filter and count from what was counted for one block, or of one problem."""
    opened = open_shipment(shipment)
    sums = np.zeros(BLOCK, np.int64)
    for places, counts in zip(partial["places"], partial["counts"], strict=True):
        sums[np.frombuffer(places.as_buffer(), np.uint16)] += np.frombuffer(counts.as_buffer(), np.int64)
    met = np.flatnonzero(sums)
    block, problem = partial["block"][0].as_py(), partial["problem"][0].as_py()
    text = partial["problem"].type  # sessions have texts in one type of Arrow or the other
    ids = _ids(opened, block, met)
    columns = {"filter": ids.cast(text) if pa.types.is_string(ids.type) else ids, "count": pa.array(sums[met])}
    if tells_problems:
        columns["problem"] = pa.array([problem] * len(met), text)
    return pa.table(columns)


def spread(shipment: Shipment, tells_problems: bool, partials: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of filter and count for each row of what was counted, which still have to be added up."""
    for partial in partials:
        for row in range(len(partial)):
            table = pa.Table.from_batches([partial.slice(row, 1)])
            yield from add_up(shipment, tells_problems, table).to_batches()


def _ids(opened: OpenSet, block: int | None, places: Codes) -> pa.Array:
    if block is None:
        return pa.nulls(len(places), opened.ids.type)
    return opened.ids.take(pa.array(places + block * BLOCK))
