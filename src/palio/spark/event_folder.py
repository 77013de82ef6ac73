"""Folders in which files of events appear, each with columns of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from functools import reduce
from typing import NamedTuple
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from palio.errors import CallerError, brief
from palio.spark.file_schemas import FileSchemas, reason
from palio.spark.places import steps_below
from palio.spark.types import quoted

FORMATS = ("parquet", "json", "csv")
_TIMES = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX"
"""Times as filters write them: never without a zone."""
BROKEN_LINE = "_corrupt_record"
"""The column in which Spark puts a broken line: one of JSON that is no object, or one of CSV with too few values."""
_FILE = "_palio_file"
_WIDER: dict[type[DataType], DataType] = {
    ByteType: LongType(),
    ShortType: LongType(),
    IntegerType: LongType(),
    FloatType: DoubleType(),
}
"""Types that are the same to filters, and so should not differ in results."""


class SkippedFile(NamedTuple):
    """A file, or a line of one, that could not be matched."""

    file: str
    problem: str


class Table(NamedTuple):
    """The events of files that have the same columns."""

    files: tuple[str, ...]
    rows: DataFrame
    broken: DataFrame | None = None
    """Lines that are no events, as ``file``, ``record`` and ``problem``."""
    held: DataFrame | None = None
    """What Spark keeps on disk until it is released."""

    def release(self) -> None:
        """Give back what is held."""
        if self.held is not None:
            self.held.unpersist()


class EventFolder:
    """A folder that grows: a stream whose columns may change from file to file, in number and in type.

    A file is *parquet*, *json* (an object a line) or *csv* (with a header). Folders below are looked into, and
    ``name=value`` in the name of one gives a column. Move files into the folder when they are complete; names that
    begin with a dot or an underscore, and empty files, are passed over. ``files_per_batch`` bounds what is matched at
    once.
    """

    def __init__(
        self,
        session: SparkSession,
        path: str | os.PathLike[str],
        format: str = "parquet",
        *,
        files_per_batch: int | None = None,
    ) -> None:
        if format not in FORMATS:
            raise CallerError(f"format: {brief(format)} is none of {', '.join(FORMATS)}")
        if files_per_batch is not None and files_per_batch < 1:
            raise CallerError(f"files_per_batch: {files_per_batch} is less than 1")
        self._session = session
        self._path = os.fspath(path)
        self._format = format
        self._files_per_batch = files_per_batch
        self._schemas = FileSchemas(session, format, self.reader)
        self.events = 0
        """How many were in the files of the batches that are done, since the query was started."""

    def within(self, session: SparkSession) -> EventFolder:
        """The same folder in another session."""
        return EventFolder(session, self._path, self._format, files_per_batch=self._files_per_batch)

    def stream(self) -> DataFrame:
        """The names of the files as they come; Spark's checkpoint knows which of them were done."""
        reader = self._session.readStream.format("binaryFile").option("recursiveFileLookup", "true")
        if self._files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self._files_per_batch)
        # "timestamp" would mean what the session says
        columns = "path string, modificationTime timestamp_ltz, length long, content binary"
        return reader.schema(columns).load(self._path).select("path")  # so that no content is read

    def files(self) -> list[str]:
        """Those that are there now, sorted; empty ones too."""
        reader = self._session.read.format("binaryFile").option("recursiveFileLookup", "true")
        found = map(unquote, reader.load(self._path).inputFiles())
        return sorted(re.sub(r"^file:/+", "file:/", file) for file in found)

    def empty_files(self) -> list[str]:
        """Those that have no content."""
        reader = self._session.read.format("binaryFile").option("recursiveFileLookup", "true")
        filled = {
            row["path"] for row in reader.load(self._path).select("path").collect()
        }  # Spark passes over empty ones
        return [file for file in self.files() if file not in filled]

    def check_apart(self, role: str, path: str) -> None:
        """Refuse a place in the folder: what is written there would be taken for events."""
        steps = steps_below(self._session, path, self._path)
        if steps is not None and not any(step.startswith((".", "_")) for step in steps):
            raise CallerError(
                f"{role}: {path} lies in the folder of events, {self._path}, where its files would be events; "
                "name a folder beside it"
            )

    def sample(self) -> DataFrame | None:
        """The events of some file that is there now and can be read."""
        for file in self.files():
            tables, _ = self.read([file])
            for table in tables:
                table.release()
                return table.rows
        return None

    def read(self, files: Iterable[str]) -> tuple[list[Table], list[SkippedFile]]:
        """The events in some files, those of the same columns together; and the files that cannot be read."""
        same, skipped = self.schemas(files)
        return [self.table(each, schema) for each, schema in same], skipped

    def schemas(self, files: Iterable[str]) -> tuple[list[tuple[list[str], StructType]], list[SkippedFile]]:
        """Files with the same columns, beside these columns; and the files that cannot be read."""
        by_columns: dict[str, tuple[list[str], StructType]] = {}
        skipped = []
        for file, found in self._schemas.read(files):
            if isinstance(found, str):
                skipped.append(SkippedFile(file, found))
            elif found.names == [BROKEN_LINE]:
                skipped.append(SkippedFile(file, "none of its lines is a JSON object"))
            elif found.fields:  # where there is no column there is no event
                by_columns.setdefault(found.json(), ([], found))[0].append(file)
        return list(by_columns.values()), skipped

    def table(self, files: list[str], schema: StructType) -> Table:
        """The events of files that have these columns."""
        wanted = with_broken_lines(schema, self._format)
        rows, broken, held = whole_lines(self.reader().schema(wanted).load(files), self._format)
        return Table(tuple(files), _widened(rows), broken, held)

    def reader(self) -> DataFrameReader:
        """Reads files of the folder, whose names it takes as they are."""
        reader = event_reader(self._session, self._format)
        return reader.options(basePath=self._path, __globPaths__=False)  # a name of a file is no pattern


def event_reader(session: SparkSession, format: str) -> DataFrameReader:
    """Reads events; the types of JSON and CSV are found out by reading all of it, because filters ask for types."""
    reader = session.read.format(format)
    if format == "json":
        return reader.options(inferTimestamp=True, timestampFormat=_TIMES)
    if format == "csv":  # a day is no instant, so it stays a string, which filters can compare
        typed = reader.options(header=True, inferSchema=True, preferDate=False, timestampFormat=_TIMES)
        return typed.option("columnPruning", False)  # else lines are broken or not by the columns that are asked for
    return reader


class WholeLines(NamedTuple):
    """Rows of files of text."""

    rows: DataFrame
    broken: DataFrame | None = None
    """The other lines, as ``file``, ``record`` and ``problem``."""
    held: DataFrame | None = None
    """What Spark keeps on disk until it is released."""


def with_broken_lines(schema: StructType, format: str) -> StructType:
    """The columns, and for CSV one for lines that have another number of values."""
    is_needed = format == "csv" and schema.names and BROKEN_LINE not in schema.names
    return StructType([*schema.fields, StructField(BROKEN_LINE, StringType())]) if is_needed else schema


def whole_lines(rows: DataFrame, format: str) -> WholeLines:
    """The rows without those that stand for broken lines."""
    if format == "parquet" or BROKEN_LINE not in rows.columns:
        return WholeLines(rows)
    named = rows.withColumn(_FILE, rows.metadataColumn("_metadata")["file_path"])
    is_broken = sql.col(BROKEN_LINE).isNotNull()
    if format == "json":
        # Spark has to keep such rows, because what it finds broken depends on the columns that it is asked for
        named = held = named.persist(StorageLevel.DISK_ONLY)
        problem = "no JSON object"
    else:
        held = None
        problem = f"not a value for each of the {len(rows.columns) - 1:,} columns"
        first = quoted(next(name for name in rows.columns if name != BROKEN_LINE))
        named = named.where(sql.coalesce(sql.length(first.cast("string")), sql.lit(0)) >= 0)  # Spark wants to read one
    broken = named.where(is_broken).select(
        sql.col(_FILE).alias("file"), sql.col(BROKEN_LINE).alias("record"), sql.lit(problem).alias("problem")
    )
    return WholeLines(named.where(~is_broken).drop(BROKEN_LINE, _FILE), broken, held)


def skipped_table(session: SparkSession, files: Iterable[SkippedFile], lines: Iterable[DataFrame]) -> DataFrame | None:
    """Files and lines that were skipped, as ``file``, ``record`` and ``problem``; ``None`` if nothing can have been."""
    rows = [(each.file, None, each.problem) for each in files]
    parts = [session.createDataFrame(rows, "file string, record string, problem string")] if rows else []
    parts += lines
    return reduce(DataFrame.unionByName, parts) if parts else None


def unreadable_file(error: Exception, files: Collection[str]) -> SkippedFile | None:
    """Which of the files made a query fail, if it was one of them."""
    if not isinstance(error, Py4JJavaError):
        return None
    java = error.java_exception
    while java is not None:
        if java.getClass().getName() == "org.apache.spark.SparkException":
            parameters = java.getMessageParameters()
            if str(java.getCondition()).startswith("FAILED_READ_FILE") and parameters.containsKey("path"):
                path = str(parameters.get("path"))  # escaped or not, as it happens
                meant = [file for file in files if plain(file) in {plain(path), plain(unquote(path))}]
                return SkippedFile(meant[0], reason(error)) if len(meant) == 1 else None
        java = java.getCause()
    return None


def plain(path: str) -> str:
    """Spark writes one slash after the scheme, or three."""
    return re.sub(r"^(\w+):/+", r"\1:/", path)


def widened(schema: StructType) -> list[StructField]:
    """The columns as they are in tables: types that are the same to filters are one."""
    return [StructField(field.name, _WIDER.get(type(field.dataType), field.dataType)) for field in schema]


def _widened(rows: DataFrame) -> DataFrame:
    return rows.select(
        *(
            quoted(old.name) if old.dataType == new.dataType else quoted(old.name).cast(new.dataType).alias(old.name)
            for old, new in zip(rows.schema, widened(rows.schema), strict=True)
        )
    )
