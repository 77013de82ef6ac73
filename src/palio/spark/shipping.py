"""Files that travel to the executors: indexes, and the ids that their filters have for the user."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles

from palio.errors import CallerError
from palio.matching import FilterIndex
from palio.model.limits import Limits

Codes = npt.NDArray[np.int64]


class Shipment(NamedTuple):
    """What a task must know to find a set of filters."""

    version: str
    indexes: tuple[str, ...]
    """The names of the files."""
    has_unions: bool
    """Whether some id belongs to several filters."""
    limits: Limits
    folder: str | None = None
    """Where the files are, if executors see the same files as the driver; if not, Spark has brought them."""

    def path(self, name: str) -> str:
        """Where a file of the shipment is, in this process."""
        return SparkFiles.get(name) if self.folder is None else f"{self.folder}/{name}"


class OpenSet(NamedTuple):
    """A set of filters in a worker process. Filters are numbered through all indexes, ids by their order in ``ids``."""

    indexes: tuple[FilterIndex, ...]
    ids: pa.Array
    codes: Codes | None
    """For each filter the number of its id; ``None`` if they are the same."""


class Assembly:
    """Puts parts of an index together, and writes the files of a shipment into a folder."""

    def __init__(self, folder: Path, id_type: pa.DataType, limits: Limits, filters_per_index: int) -> None:
        self._folder = folder
        self._schema = pa.schema({"id": id_type})
        self._limits = limits
        self._most = filters_per_index
        self._version = uuid.uuid4().hex
        self._index = FilterIndex(limits=limits)
        self._indexes: list[str] = []
        self._ids: list[pa.Array] = []
        self.filters = 0

    def add(self, part: bytes, ids: bytes) -> None:
        """A part, and the ids of its filters as a record batch."""
        given = pa.ipc.read_record_batch(ids, self._schema)["id"]
        if len(self._index) and len(self._index) + len(given) > self._most:
            self._write_index()
            self._index = FilterIndex(limits=self._limits)
        self._index.add_dumped(part)
        self._ids.append(given)
        self.filters += len(given)

    def finish(self) -> Shipment:
        """Write what is left."""
        self._write_index()
        ids = pa.concat_arrays(self._ids) if self._ids else pa.array([], self._schema.field("id").type)
        encoded = ids.dictionary_encode()
        has_unions = len(encoded.dictionary) < len(ids)
        self._write_ids(encoded.dictionary)
        if has_unions:
            np.save(self._path("codes.npy"), pc.cast(encoded.indices, pa.int64()).to_numpy())
        return Shipment(self._version, tuple(self._indexes), has_unions, self._limits)

    def _write_index(self) -> None:
        path = self._path(f"{len(self._indexes)}.index")
        self._index.dump(path)
        self._indexes.append(path.name)

    def _write_ids(self, unique: pa.Array) -> None:
        table = pa.table({"id": unique})
        with pa.OSFile(str(self._path("ids")), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    def _path(self, ending: str) -> Path:
        return self._folder / f"palio-{self._version}.{ending}"


_opened: dict[str, OpenSet] = {}
"""What this process has opened; workers are used again, so an index is opened once and not once a task."""
_MOST_OPEN = 2


def open_shipment(shipment: Shipment) -> OpenSet:
    """The set of filters, mapped into memory; pages are shared by all workers of a machine."""
    known = _opened.get(shipment.version)
    if known is not None:
        return known
    try:
        opened = _open(shipment)
    except FileNotFoundError:
        raise CallerError(
            "filters: this set was closed before the result was computed; compute it first, or close the set later"
        ) from None
    while len(_opened) >= _MOST_OPEN:
        del _opened[next(iter(_opened))]
    return _opened.setdefault(shipment.version, opened)


def _open(shipment: Shipment) -> OpenSet:
    indexes = tuple(FilterIndex.open(shipment.path(name), limits=shipment.limits) for name in shipment.indexes)
    name = f"palio-{shipment.version}"
    ids = pa.ipc.open_file(pa.memory_map(shipment.path(f"{name}.ids"))).read_all()["id"].combine_chunks()
    codes = np.load(shipment.path(f"{name}.codes.npy"), mmap_mode="r") if shipment.has_unions else None
    return OpenSet(indexes, ids, codes)
