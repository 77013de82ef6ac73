"""Sets of filters for Spark: read and pre-built by the executors, joined by the driver, shipped as files."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import StringIO
from pathlib import Path
from time import perf_counter
from types import TracebackType

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, IntegerType, IntegralType, LongType, ShortType, StringType

from palio.errors import CallerError, PalioError, brief
from palio.model.filter import Filter
from palio.model.limits import READING_LIMITS, Limits
from palio.spark.parsing import Reading, read_filter, read_parts
from palio.spark.places import find, read
from palio.spark.shipping import Assembly, Shipment
from palio.spark.unreadable import UnreadableCounts

_LOG = logging.getLogger("palio.spark")
FILTERS_PER_INDEX = 8_000_000
"""How many filters one index holds before another one is begun: about 1.5 GB."""
SMALL_SET = 32
"""Filters of so small a set are kept as they are, for a condition that Spark can test by itself."""

_ARROW_IDS: dict[type[DataType], pa.DataType] = {
    LongType: pa.int64(),
    IntegerType: pa.int32(),
    ShortType: pa.int16(),
    StringType: pa.string(),
}


class FilterRejectedError(PalioError):
    """A filter of the set cannot be read, and the caller wanted none to be left out."""


class FilterSet:
    """Filters ready for matching on the executors, made by :func:`prepare`.

    It lives until :meth:`close`, the end of a ``with`` block, or the end of the process; results that were not computed
    by then cannot be.
    """

    def __init__(self, parsed: DataFrame, id_type: DataType, limits: Limits) -> None:
        self._parsed = parsed
        self._folder = Path(tempfile.mkdtemp(prefix="palio-"))
        self._remove_folder = partial(shutil.rmtree, self._folder, ignore_errors=True)
        atexit.register(self._remove_folder)
        self._is_given_to_cluster = False
        self._is_closed = False
        self.id_type = id_type
        """The type of the ids, as Spark has it."""
        self.limits = limits
        self.rejected = 0
        """How many rows could not be read."""
        self.filters = 0
        """Filters in the indexes; a union has several."""
        self.attributes: frozenset[str] = frozenset()
        """The names of all attributes that some filter mentions."""
        self.known_missing: set[str] = set()
        """Attributes about which the caller was warned that no column has them, or need not be."""
        self.small: tuple[Filter, ...] | None = None
        """The filters themselves, if they are few."""
        self.seconds: dict[str, float] = {}
        """How long it took: *parse* to read the texts and build parts, *join* to put them together, *ship* to Spark."""
        self.unreadable_counts = UnreadableCounts(parsed.sparkSession.sparkContext)
        """What the tasks that match against the set add to."""
        self.shipment: Shipment
        """Where the executors find the set."""

    @property
    def session(self) -> SparkSession:
        """The session that made it."""
        return self._parsed.sparkSession

    @property
    def rejects(self) -> DataFrame:
        """The filters that could not be read: id, text, reason, and line and column where the text is at fault."""
        self.check_open()
        return self._parsed.where("reason is not null").select("id", "text", "reason", "line", "column")

    @property
    def unreadable(self) -> Counter[str]:
        """How many values of each column could not be read, by all jobs so far that matched against the set.

        Spark may leave out events that no filter of a small set matches before they are read; and tasks that are tried
        again count again.
        """
        return self.unreadable_counts.total()

    def close(self) -> None:
        """Delete the files, if that can be, and let Spark forget what was rejected.

        What was given to a cluster stays until the process ends: every executor, also one that joins later, insists on
        all files that were ever given to it.
        """
        self._is_closed = True
        self.forget_rejects()
        if not self._is_given_to_cluster:
            self._remove_folder()
            atexit.unregister(self._remove_folder)

    def forget_rejects(self) -> None:
        """Let Spark forget what was rejected; if it is asked for again, it is computed again."""
        if not self._parsed.sparkSession._jsparkSession.sparkContext().isStopped():  # then it has forgotten all
            self._parsed.unpersist()

    def check_open(self) -> None:
        """Refuse a set that was closed."""
        if self._is_closed:
            raise CallerError("filters: this set was closed; prepare it again, or close it later")

    def __enter__(self) -> FilterSet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<FilterSet of {self.filters:,} filters>"


def read_filters(session: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """The filters of a file as a table of ``id`` and ``text``.

    A text file has one filter a line, and its id is the number of the line; empty lines and lines that begin with ``#``
    are passed over. Parquet, JSON and CSV must have the two columns; in CSV, a quote within a value is doubled (RFC
    4180), or has a backslash before it, as Spark writes it. The path is one that Spark can read, on any file system.
    """
    name = os.fspath(path)
    ending = Path(name.rstrip("/")).suffix.lower()
    found = find(session, name)
    if ending in {".parquet", ".json", ".csv"} or (found is not None and found.is_folder):
        reader = session.read.options(header=True, __globPaths__=found is None)  # a name that is there is no pattern
        if ending == ".csv":
            reader = reader.option("escape", _escape_of_quotes(reader.text(name)))
        return reader.format(ending.removeprefix(".") or "parquet").load(name)
    if found is None:
        raise CallerError(f"filters: there is no file or folder {brief(name)}")
    try:
        text = read(session, name).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise CallerError(f"filters: {brief(name)} is no UTF-8 text, at byte {error.start}") from error
    lines = enumerate(StringIO(text, newline=None), 1)
    kept = [(i, line.removesuffix("\n")) for i, line in lines if line.strip() and not line.lstrip().startswith("#")]
    ids, texts = pa.array([i for i, _ in kept], pa.int64()), pa.array([line for _, line in kept], pa.string())
    return table_of(session, pa.table({"id": ids, "text": texts}))


_DOUBLED_QUOTE = r'[^\\,"]""'
"""Occurs where quotes are doubled. Where they are escaped, two in a row are an empty value or the end of one."""


def _escape_of_quotes(lines: DataFrame) -> str:
    """The escape character before a quote in a value of CSV: a quote (RFC 4180), or a backslash, as Spark writes it."""
    return "\\" if lines.where(sql.col("value").rlike(_DOUBLED_QUOTE)).isEmpty() else '"'


def table_of(session: SparkSession, rows: pa.Table) -> DataFrame:
    """A table of rows that this process has."""
    if int(session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0) > 0:
        return session.createDataFrame(rows)
    # that batches have no bound is a setting of which PySpark makes an error when it is given a table of Arrow
    return session.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], from_arrow_schema(rows.schema))


def prepare(
    filters: DataFrame,
    *,
    limits: Limits = READING_LIMITS,
    fail_fast: bool = False,
    filters_per_index: int = FILTERS_PER_INDEX,
) -> FilterSet:
    """Read a table of ``id`` and ``text`` and make it ready for matching.

    A text is a filter, a union of filters (``or``, ``in``, ``not``), or a filter in the JSON form; rows of one id
    together are one union. The executors parse and build parts of the index; the driver joins them. What cannot be
    read is left out and listed in :attr:`FilterSet.rejects`, or with ``fail_fast`` is an error. A set of more than
    ``filters_per_index`` filters is divided among several indexes.
    """
    id_type = check_table(filters)
    rows = filters.select("id", "text")
    schema = (
        f"index binary, ids binary, attributes array<string>, id {id_type.simpleString()}, text string, reason string, "
        "line int, column int"
    )
    reading = Reading(limits, arrow_type_of(id_type))
    parsed = rows.mapInArrow(partial(read_parts, reading), schema).persist(StorageLevel.DISK_ONLY)
    made = FilterSet(parsed, id_type, limits)
    try:
        with _timed(made, "parse"):
            made.rejected = made.rejects.count()
        if made.rejected:
            _tell_rejects(made, fail_fast)
        with _timed(made, "join"):
            _join(made, filters_per_index)
        with _timed(made, "ship"):
            _ship(made)
        if made.filters <= SMALL_SET:
            made.small = _read_again(rows, limits)
    except BaseException:
        made.close()
        raise
    return made


@contextmanager
def _timed(made: FilterSet, step: str) -> Iterator[None]:
    start = perf_counter()
    yield
    made.seconds[step] = perf_counter() - start


def check_table(filters: DataFrame) -> DataType:
    """The type of the ids of a table of filters or patterns."""
    if not isinstance(filters, DataFrame):
        raise CallerError(f"filters: {brief(filters)} is no DataFrame; read_filters makes one of a file")
    types = {field.name: field.dataType for field in filters.schema.fields}
    if "id" not in types or "text" not in types:
        raise CallerError(f"filters: columns 'id' and 'text' are needed; there are {', '.join(filters.columns)}")
    if type(types["text"]) is not StringType:
        raise CallerError(f"filters: column 'text' must be string, not {types['text'].simpleString()}")
    if type(types["id"]) not in _ARROW_IDS:
        raise CallerError(f"filters: column 'id' must be string or an integer, not {types['id'].simpleString()}")
    return types["id"] if isinstance(types["id"], IntegralType) else StringType()  # whatever its collation


def arrow_type_of(id_type: DataType) -> pa.DataType:
    """What Arrow calls the type of the ids."""
    return _ARROW_IDS[type(id_type)]


def _tell_rejects(made: FilterSet, fail_fast: bool) -> None:
    (first,) = made.rejects.limit(1).collect()
    others = f"; {made.rejected - 1:,} more cannot be read" if made.rejected > 1 else ""
    told = f"filter {brief(first['id'])}: {first['reason']}{others}"
    if fail_fast:
        raise FilterRejectedError(told)
    _LOG.warning("filters are left out: %s", told)


def _join(made: FilterSet, filters_per_index: int) -> None:
    """Bring the parts together into as few indexes as there may be."""
    assembly = Assembly(made._folder, arrow_type_of(made.id_type), made.limits, filters_per_index)
    attributes: set[str] = set()
    parts = made._parsed.where("index is not null").select("index", "ids", "attributes")
    for part in parts.toLocalIterator(prefetchPartitions=True):
        assembly.add(bytes(part["index"]), bytes(part["ids"]))
        attributes.update(part["attributes"])
    made.shipment = assembly.finish()
    made.filters = assembly.filters
    made.attributes = frozenset(attributes)


def _ship(made: FilterSet) -> None:
    """Hand the files to Spark."""
    context = made._parsed.sparkSession.sparkContext
    master = str(context.master)
    if master.startswith("local") and not master.startswith("local-cluster"):
        made.shipment = made.shipment._replace(folder=str(made._folder))
        return
    made._is_given_to_cluster = True
    for file in sorted(made._folder.iterdir()):
        context.addFile(str(file))


def _read_again(rows: DataFrame, limits: Limits) -> tuple[Filter, ...]:
    found: list[Filter] = []
    for row in rows.collect():
        try:
            found += read_filter(row["id"], row["text"], limits)
        except PalioError:  # it is among the rejects
            continue
    return tuple(found)
