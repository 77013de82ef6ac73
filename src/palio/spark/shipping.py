"""Files that travel to the executors: indexes, and the ids that their filters have for the user."""

from __future__ import annotations

import uuid
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles

from palio.errors import CallerError
from palio.matching import FilterIndex, Unions
from palio.model.limits import Limits

Codes = npt.NDArray[np.int64]


class Shipment(NamedTuple):
    """What a task must know to find a set of filters."""

    version: str
    indexes: tuple[str, ...]
    """The names of the files."""
    unions: tuple[bool, ...]
    """For each index whether some id belongs to several of its filters."""
    is_divided: bool
    """Whether some id belongs to filters of several indexes."""
    limits: Limits
    folder: str | None = None
    """Where the files are, if executors see the same files as the driver; if not, Spark has brought them."""

    def path(self, name: str) -> str:
        """Where a file of the shipment is, in this process."""
        return SparkFiles.get(name) if self.folder is None else f"{self.folder}/{name}"


class OpenSet(NamedTuple):
    """A set of filters in a worker process. Filters are numbered through all indexes."""

    indexes: tuple[FilterIndex, ...]
    unions: tuple[Unions | None, ...]
    """Which filters of an index have one id; ``None`` where each has its own."""
    bases: tuple[int, ...]
    """The number of the first filter of each index."""
    ids: pa.Array
    """For each filter its id."""
    owners: Codes | None
    """For each filter the first one that has its id; ``None`` if no index, or only one, has unions."""
    is_divided: npt.NDArray[np.bool_] | None
    """For each filter whether its union has filters in several indexes; ``None`` if there is no such union."""


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
        self._sizes: list[int] = []
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
        self._write_ids(ids)
        encoded = ids.dictionary_encode()
        unions, is_divided = (False,) * len(self._indexes), False
        if len(encoded.dictionary) < len(ids):
            codes = pc.cast(encoded.indices, pa.int64()).to_numpy()
            unions, is_divided = self._write_unions(codes, len(encoded.dictionary))
        return Shipment(self._version, tuple(self._indexes), unions, is_divided, self._limits)

    def _write_index(self) -> None:
        path = self._path(f"{len(self._indexes)}.index")
        self._index.dump(path)
        self._indexes.append(path.name)
        self._sizes.append(len(self._index))

    def _write_ids(self, ids: pa.Array) -> None:
        table = pa.table({"id": ids})
        with pa.OSFile(str(self._path("ids")), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    def _write_unions(self, codes: Codes, different: int) -> tuple[tuple[bool, ...], bool]:
        """Which filters have one id: for each index with such, and for those that are in several indexes."""
        owners = _first_of(codes, different)
        has_unions = []
        is_first = np.zeros(len(codes), np.bool_)  # of those of its index that have its id
        begin = 0
        for place, size in enumerate(self._sizes):
            local = _first_of(codes[begin : begin + size], different)
            is_first[begin : begin + size] = is_own = local == np.arange(size)
            has_unions.append(not is_own.all())
            if has_unions[-1]:
                np.save(self._path(f"{place}.owners.npy"), local.astype(np.uint32))
            begin += size
        if len(self._sizes) > 1:
            np.save(self._path("owners.npy"), owners)
        elsewhere = np.flatnonzero(is_first & (owners != np.arange(len(codes))))
        if len(elsewhere):
            is_divided = np.zeros(different, np.bool_)
            is_divided[codes[elsewhere]] = True
            np.save(self._path("divided.npy"), is_divided[codes])
        return tuple(has_unions), len(elsewhere) > 0

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
    unions = tuple(
        Unions(_mapped(shipment, f"{name}.{place}.owners.npy")) if has_unions else None
        for place, has_unions in enumerate(shipment.unions)
    )
    bases = (0, *accumulate(map(len, indexes[:-1])))
    ids = pa.ipc.open_file(pa.memory_map(shipment.path(f"{name}.ids"))).read_all()["id"].combine_chunks()
    has_owners = len(indexes) > 1 and (shipment.is_divided or any(shipment.unions))
    owners = _mapped(shipment, f"{name}.owners.npy") if has_owners else None
    is_divided = _mapped(shipment, f"{name}.divided.npy") if shipment.is_divided else None
    return OpenSet(indexes, unions, bases, ids, owners, is_divided)


def _mapped(shipment: Shipment, name: str) -> npt.NDArray[Any]:
    return np.asarray(np.load(shipment.path(name), mmap_mode="r"))


def _first_of(codes: Codes, different: int) -> Codes:
    """For each place the first place that has the same code.

    >>> _first_of(np.array([3, 1, 3, 1, 0]), 4).tolist()
    [0, 1, 0, 1, 4]
    """
    firsts = np.zeros(different, np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]  # of several numbers for one place, the last stays
    return firsts[codes]
