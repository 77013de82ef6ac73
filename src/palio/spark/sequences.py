"""What runs in the worker processes for patterns: taking them apart into filters, and following their sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState

from palio import codec
from palio.errors import PalioError
from palio.matching.monitor import Sequence
from palio.model.pattern import Pattern
from palio.spark.parsing import Reading, check_row, reject, values

Row = tuple[Any, ...]
"""Of what a pattern's filters have found: position, length, then what tells events apart, in their order."""
_LENGTH, _EVENT = 1, 2
"""Where the length and the event begin in such a row."""


def split_schema(id_type: pa.DataType) -> pa.Schema:
    """The filters of patterns, one a row; and patterns that cannot be read."""
    return pa.schema(
        {
            "id": id_type,
            "position": pa.int32(),
            "length": pa.int32(),
            "text": pa.string(),
            "reason": pa.string(),
            "line": pa.int32(),
            "column": pa.int32(),
        }
    )


def split_patterns(reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn rows of id and text into rows of id, position and the text of one filter."""
    for batch in batches:
        rows: list[dict[str, object]] = []
        for id, text in zip(values(batch["id"]), values(batch["text"]), strict=True):
            try:
                pattern = _read_pattern(id, text, reading)
            except PalioError as error:
                rows.append(reject(id, text, error))
                continue
            rows += [
                {"id": id, "position": position, "length": len(pattern), "text": str(filter)}
                for position, filter in enumerate(pattern)
            ]
        yield pa.RecordBatch.from_pylist(rows, split_schema(reading.id_type))


def _read_pattern(id: object, text: str | bytes | None, reading: Reading) -> Pattern:
    text = check_row(id, text)
    if text.lstrip().startswith("{"):
        return codec.json.decode(Pattern, text, reading.limits)
    return Pattern.parse(text, reading.limits)


class Followed(NamedTuple):
    """The sequences that were completed, and where a pattern stands now."""

    complete: list[tuple[Row, ...]]
    taken: list[Row]


def follow(rows: Iterable[Row], taken: Iterable[Row] = ()) -> Followed:
    """Go through what the filters of one pattern have found, in order; rows of one event lie together."""
    complete: list[tuple[Row, ...]] = []
    sequence: Sequence[Row] | None = None
    begun = list(taken)
    for event, found in groupby(rows, key=lambda row: row[_EVENT:]):
        positions = {row[0]: row[_LENGTH] for row in found}
        if sequence is None:
            sequence = Sequence(next(iter(positions.values())), begun)
        done = sequence.offer(positions, event)
        if done is not None:
            complete.append(done)
    return Followed(complete, begun if sequence is None else sequence.taken)


def follow_sorted(result: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Follow the patterns of a partition that is sorted by pattern, then by the order of events."""
    names = [field.name for field in result.field("elements").type.value_type]
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    for pattern, found in groupby(rows, key=lambda row: row[0]):
        complete = follow(row[1:] for row in found).complete
        if complete:
            told = [{"pattern": pattern, "elements": _elements(sequence, names)} for sequence in complete]
            yield pa.RecordBatch.from_pylist(told, result)


def _elements(sequence: Iterable[Row], names: Iterable[str]) -> list[dict[str, Any]]:
    return [dict(zip(names, event, strict=True)) for event in sequence]


def follow_stream(
    names: tuple[str, ...], key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Follow one pattern from batch to batch: what the watermark has not passed waits, because earlier events may come.

    The state holds rows as they came, those of the sequence that has begun first.
    """
    taken, waiting = _load(state)
    for frame in frames:
        columns = [frame[name].tolist() for name in ("position", "length", *names)]
        waiting += zip(*columns, strict=True)
    passed = state.getCurrentWatermarkMs() * 1000
    waiting.sort(key=lambda row: row[_EVENT:])
    ready = [row for row in waiting if row[_EVENT] <= passed]
    followed = follow(ready, taken)
    _store(state, followed.taken, waiting[len(ready) :])
    if followed.complete:
        elements = [_elements(sequence, names) for sequence in followed.complete]
        yield pd.DataFrame({"pattern": [key[0]] * len(elements), "elements": elements})


def _load(state: GroupState) -> tuple[list[Row], list[Row]]:
    if not state.exists:
        return [], []
    count, data = state.get
    rows = pa.ipc.open_stream(data).read_all().to_pylist()
    stored = [tuple(row.values()) for row in rows]
    return [row[_EVENT:] for row in stored[:count]], stored[count:]


def _store(state: GroupState, taken: list[Row], waiting: list[Row]) -> None:
    if not taken and not waiting:
        if state.exists:
            state.remove()
        return
    rows = [(-1, -1, *event) for event in taken] + waiting
    batch = pa.RecordBatch.from_pylist([{f"c{i}": value for i, value in enumerate(row)} for row in rows])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    state.update((len(taken), sink.getvalue().to_pybytes()))
    if waiting:
        state.setTimeoutTimestamp(waiting[0][_EVENT] // 1000 + 1)
