"""Files that travel to the executors: indexes, and the ids that their filters have for the user."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles

from palio.matching import FilterIndex
from palio.model.limits import Limits

Codes = npt.NDArray[np.int64]


class Shipment(NamedTuple):
    """What a task must know to find a set of filters among the files that Spark has brought."""

    version: str
    indexes: tuple[str, ...]
    """The names of the files."""
    has_unions: bool
    """Whether some id belongs to several filters."""
    limits: Limits


class OpenSet(NamedTuple):
    """A set of filters in a worker process. Filters are numbered through all indexes, ids by their order in ``ids``."""

    indexes: tuple[FilterIndex, ...]
    ids: pa.Array
    codes: Codes | None
    """For each filter the number of its id; ``None`` if they are the same."""


def write_ids(ids: pa.Array, folder: Path, name: str) -> bool:
    """Write the ids of all filters, each once, and say whether some belong to several filters."""
    encoded = ids.dictionary_encode()
    unique, codes = encoded.dictionary, encoded.indices
    has_unions = len(unique) < len(ids)
    table = pa.table({"id": unique})
    with pa.OSFile(str(folder / f"{name}.ids"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    if has_unions:
        np.save(folder / f"{name}.codes.npy", pc.cast(codes, pa.int64()).to_numpy())
    return has_unions


_opened: dict[str, OpenSet] = {}
"""What this process has opened; workers are used again, so an index is opened once and not once a task."""
_MOST_OPEN = 2


def open_shipment(shipment: Shipment) -> OpenSet:
    """The set of filters, mapped into memory; pages are shared by all workers of a machine."""
    known = _opened.get(shipment.version)
    if known is not None:
        return known
    indexes = tuple(FilterIndex.open(SparkFiles.get(name), limits=shipment.limits) for name in shipment.indexes)
    name = f"palio-{shipment.version}"
    ids = pa.ipc.open_file(pa.memory_map(SparkFiles.get(f"{name}.ids"))).read_all()["id"].combine_chunks()
    codes = np.load(SparkFiles.get(f"{name}.codes.npy"), mmap_mode="r") if shipment.has_unions else None
    while len(_opened) >= _MOST_OPEN:
        del _opened[next(iter(_opened))]
    return _opened.setdefault(shipment.version, OpenSet(indexes, ids, codes))
