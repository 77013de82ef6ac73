"""Notifications as tables: one column an attribute, and beside them the structs of envelope and payload.

The columns of attributes have the names of the attributes. Those of envelope and payload are ``_palio`` and
``_payload``; only in a file that has an attribute of that name they have more underscores before it. No attribute is a
struct, so a reader knows them by that, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from palio._core import EventTable
from palio.archive.errors import DamagedArchiveError
from palio.archive.progress import Span

ENVELOPE = "_palio"
PAYLOAD = "_payload"
_FORM = b"1"
_COMPRESSION = "zstd"
_GROUP_ROWS = 262_144
_GROUP_BYTES = 67_108_864
"""In memory; with as much a group of rows is written."""


def fold(name: str) -> str:
    """Names for which this is the same differ in case at most, by whatever rule: in Java, in Python, in Unicode.

    >>> fold("Level") == fold("LEVEL"), fold("straße") == fold("STRASSE"), fold("İ") == fold("i")
    (True, True, True)
    """
    return name.upper().casefold().replace("\u0307", "")  # what is left of an İ


class About(NamedTuple):
    """What a file says of itself beside its rows, in its metadata."""

    server: str
    mark: tuple[int, int]
    """Incarnation and sequence of the last notification up to the end of the roll."""
    until: int
    """When the last entry of the roll was made, in microseconds since 1970."""
    gaps: tuple[Span, ...] = ()
    """What was missing from the log until then."""
    damaged: tuple[Span, ...] = ()
    """What could not be read until then."""

    def metadata(self) -> dict[bytes, bytes]:
        """As Parquet keeps it."""
        return {
            b"palio.archive": _FORM,
            b"palio.server": self.server.encode(),
            b"palio.mark": json.dumps(self.mark).encode(),
            b"palio.until": str(self.until).encode(),
            b"palio.gaps": json.dumps([(each.incarnation, each.first, each.last) for each in self.gaps]).encode(),
            b"palio.damaged": json.dumps([(each.incarnation, each.first, each.last) for each in self.damaged]).encode(),
        }

    @classmethod
    def read(cls, metadata: dict[bytes, bytes] | None, place: str) -> About:
        """From a file's metadata."""
        found = metadata or {}
        if found.get(b"palio.archive") != _FORM:
            raise DamagedArchiveError(f"{place}: no file of an archive, or of a later version; move it elsewhere")
        try:
            incarnation, sequence = json.loads(found[b"palio.mark"])
            spans = [tuple(Span(*each) for each in json.loads(found[key])) for key in (b"palio.gaps", b"palio.damaged")]
            return cls(found[b"palio.server"].decode(), (incarnation, sequence), int(found[b"palio.until"]), *spans)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedArchiveError(f"{place}: its metadata are damaged ({error}); move it elsewhere") from error


def batch_of(table: EventTable) -> pa.RecordBatch:
    """A table as an Arrow batch with the names that files have."""
    columns = pa.record_batch(table).columns
    names = table.names
    beside = beside_names(names)
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=False)]
    fields.append(pa.field(beside[0], columns[-2].type, nullable=False))
    fields.append(pa.field(beside[1], columns[-1].type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def beside_names(attributes: Sequence[str]) -> tuple[str, str]:
    """The columns of envelope and payload beside some attributes.

    >>> beside_names(["level", "_Palio"])
    ('__palio', '_payload')
    """
    taken = set(map(fold, attributes))

    def free(name: str) -> str:
        while fold(name) in taken:
            name = f"_{name}"
        return name

    return free(ENVELOPE), free(PAYLOAD)


class MergedColumns:
    """The columns of several files together, if they go together: each name with one type, and no two alike."""

    def __init__(self, name: str, schema: pa.Schema, most: int) -> None:
        self.names = [name]
        """Of the files."""
        self._most = max(most, len(schema) - 2)
        self._beside = list(schema)[-2:]
        self._attributes = {field.name: field for field in list(schema)[:-2]}

    def take(self, name: str, schema: pa.Schema) -> bool:
        """Have one more file, if its columns go together with these."""
        *attributes, envelope, payload = schema
        union = self._attributes | {field.name: field for field in attributes}
        is_same = all(self._attributes.get(field.name, field).type == field.type for field in attributes)
        every = [*union, envelope.name, payload.name]
        are_apart = len(set(map(fold, every))) == len(every) or len(union) == len(self._attributes) == len(attributes)
        if not is_same or not are_apart or [envelope, payload] != self._beside or len(union) > self._most:
            return False
        self._attributes = union
        self.names.append(name)
        return True

    @property
    def schema(self) -> pa.Schema:
        """Of all of them."""
        return pa.schema([*(self._attributes[name] for name in sorted(self._attributes)), *self._beside])

    def widened(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of one of the files, in these columns."""
        there = set(batch.schema.names)
        return pa.RecordBatch.from_arrays(
            [
                batch.column(field.name) if field.name in there else pa.nulls(batch.num_rows, field.type)
                for field in self.schema
            ],
            schema=self.schema,
        )


def write_file(file: BinaryIO, schema: pa.Schema, batches: Iterable[pa.RecordBatch], about: About) -> None:
    """A Parquet file of some batches; small ones are put together, for each group of rows costs."""
    with pq.ParquetWriter(file, schema, compression=_COMPRESSION, store_schema=False) as writer:
        writer.add_key_value_metadata(about.metadata())
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if (
                sum(each.num_rows for each in waiting) >= _GROUP_ROWS
                or sum(each.nbytes for each in waiting) >= _GROUP_BYTES
            ):
                writer.write_table(pa.Table.from_batches(waiting, schema))
                waiting = []
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting, schema))
