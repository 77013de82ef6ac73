"""Filters read on the executors: text in, parts of an index and rejects out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from palio import codec
from palio.errors import PalioError, TextSyntaxError
from palio.matching import FilterIndex
from palio.model.filter import Filter
from palio.model.limits import Limits

PART_FILTERS = 65_536
"""Filters in one part of an index, as it travels to the driver: some ten megabytes."""


class Reading(NamedTuple):
    """What the executors must know to read filters."""

    limits: Limits
    id_type: pa.DataType


def part_schema(id_type: pa.DataType) -> pa.Schema:
    """Rows of two kinds: rejects, and parts of an index with the ids of their filters and the names they mention."""
    return pa.schema(
        {
            "index": pa.binary(),
            "ids": pa.binary(),
            "attributes": pa.list_(pa.string()),
            "id": id_type,
            "text": pa.string(),
            "reason": pa.string(),
            "line": pa.int32(),
            "column": pa.int32(),
        }
    )


def read_parts(reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn rows of id and text into parts of an index and rejects."""
    part = _Part(reading)
    for batch in batches:
        rejects = []
        for id, text in zip(values(batch["id"]), values(batch["text"]), strict=True):
            try:
                part.add(id, read_filter(id, text, reading.limits))
            except PalioError as error:
                rejects.append(reject(id, text, error))
            if len(part) >= PART_FILTERS:
                yield part.take()
        if rejects:
            yield pa.RecordBatch.from_pylist(rejects, part_schema(reading.id_type))
    if len(part):
        yield part.take()


def values(column: pa.Array) -> list[Any]:
    """The values of a column of ids or texts. Strings that are not UTF-8, which Spark can have, stay bytes."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_decoded(each) for each in column.cast(pa.large_binary()).to_pylist()]


def _decoded(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def read_filter(id: object, text: str | bytes | None, limits: Limits) -> tuple[Filter, ...]:
    """One filter, or several that say one together: as text, or in the JSON form.

    >>> [str(f) for f in read_filter(1, "x in (1, 2)", Limits())]
    ['x = 1', 'x = 2']
    """
    text = check_row(id, text)
    if text.lstrip().startswith("{"):
        return (codec.json.decode(Filter, text, limits),)
    return Filter.parse_union(text, limits)


def check_row(id: object, text: str | bytes | None) -> str:
    """The text of a row that has an id and a text."""
    for name, value in (("id", id), ("text", text)):
        if value is None:
            raise PalioError(f"the {name} is null")
        if isinstance(value, bytes):
            raise PalioError(f"the {name} is not UTF-8")
    assert isinstance(text, str)
    return text


class _Part:
    """Filters on their way into one part."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.begin()

    def begin(self) -> None:
        self.index = FilterIndex(limits=self.reading.limits)
        self.ids: list[object] = []
        self.attributes: set[str] = set()

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, id: object, filters: tuple[Filter, ...]) -> None:
        self.index.add_many(filters)
        self.ids += [id] * len(filters)
        for filter in filters:
            self.attributes.update(constraint.name for constraint in filter)

    def take(self) -> pa.RecordBatch:
        ids = pa.record_batch({"id": pa.array(self.ids, self.reading.id_type)})
        row = {
            "index": self.index.dumps(),
            "ids": ids.serialize().to_pybytes(),
            "attributes": sorted(self.attributes),
        }
        self.begin()
        return pa.RecordBatch.from_pylist([row], part_schema(self.reading.id_type))


def reject(id: object, text: str | bytes | None, error: PalioError) -> dict[str, object]:
    """The row that says why a text could not be read."""
    shown = {"id": id, "text": text}
    shown |= {name: value.decode(errors="replace") for name, value in shown.items() if isinstance(value, bytes)}
    line, column = (error.line, error.column) if isinstance(error, TextSyntaxError) else (None, None)
    reason = str(error).partition("\n")[0]
    return {**shown, "reason": reason, "line": line, "column": column}
