"""Archives read without Spark: which files count, and the notifications in them."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from palio.archive.disk import Disk
from palio.archive.errors import ArchiveError, DamagedArchiveError
from palio.archive.rolls import current, sort_out
from palio.model import Envelope, Notification, NotificationId, Payload, Trace

_ROWS = 1_024
"""That are Python objects at the same time, for each file of a roll."""


def files(folder: str | os.PathLike[str]) -> list[Path]:
    """The files of an archive that count now, in the order of the log: what to give to another library."""
    path = Path(folder)
    if not path.is_dir():
        raise ArchiveError(f"{path}: there is no such folder")
    return [path / name for name in current(Disk(path).files())]


def notifications(folder: str | os.PathLike[str]) -> Iterator[Notification]:
    """All notifications of an archive with their envelopes, in the order in which the server took them."""
    path = Path(folder)
    for names in sort_out(Disk(path).files()).current.values():
        rows = [_rows_of(path / name) for name in names]
        for _, _, notification in heapq.merge(*rows, key=lambda row: row[:2]):
            yield notification


Row = tuple[int, NotificationId, Notification]


def _rows_of(path: Path) -> Iterator[Row]:
    try:
        with pq.ParquetFile(path) as file:
            envelope, payload = beside(file.schema_arrow, path)
            for batch in file.iter_batches(_ROWS):
                yield from _rows_of_batch(batch, envelope, payload)
    except (OSError, pa.ArrowException) as error:
        raise DamagedArchiveError(f"{path}: {error}; move it elsewhere to go on without it") from error


def beside(schema: pa.Schema, path: Path) -> tuple[str, str]:
    """The columns of envelope and payload: attributes are no structs."""
    structs = [field for field in schema if pa.types.is_struct(field.type)]
    envelopes = [field.name for field in structs if field.type.get_field_index("origin") >= 0]
    payloads = [field.name for field in structs if field.type.get_field_index("origin") < 0]
    if len(envelopes) != 1 or len(payloads) != 1:
        raise DamagedArchiveError(f"{path}: no file of an archive: it has no columns of envelope and payload")
    return envelopes[0], payloads[0]


def _rows_of_batch(batch: pa.RecordBatch, envelope: str, payload: str) -> Iterator[Row]:
    names = [name for name in batch.schema.names if name not in {envelope, payload}]
    columns = [_values(batch.column(name)) for name in names]
    envelopes = batch.column(envelope)
    fields = {field.name: _values(envelopes.field(field.name)) for field in envelopes.type}
    payloads = batch.column(payload).to_pylist()
    for row in range(batch.num_rows):
        values = ((name, column[row]) for name, column in zip(names, columns, strict=True))
        attributes = {name: value for name, value in values if value is not None}
        made = _envelope({name: column[row] for name, column in fields.items()})
        data = payloads[row]
        beside = None if data is None else Payload(data["data"], data["content_type"])
        yield fields["position"][row], made.id, Notification.of_checked(attributes, beside, made)


def _values(column: pa.Array) -> list[Any]:
    """As Python values; times in the one zone that the model knows."""
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    return [None if each is None else _instant(each) for each in column.cast(pa.int64()).to_pylist()]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _instant(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _envelope(fields: dict[str, Any]) -> Envelope:
    return Envelope(
        NotificationId(fields["origin"], fields["incarnation"], fields["sequence"]),
        fields["published"],
        fields["publisher"],
        fields["expires"],
        fields["key"],
        None if fields["trace"] is None else Trace.parse(fields["trace"]),
    )
