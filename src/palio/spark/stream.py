"""Streams matched against filters that change while they run, with results that are written exactly once."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from palio.errors import CallerError, PalioError, brief
from palio.model.limits import DEFAULT_LIMITS, Limits
from palio.spark.filters import FilterSet, prepare, read_filters
from palio.spark.matching import Result, match
from palio.spark.places import exists

_LOG = logging.getLogger("palio.spark")
_DONE = "_SUCCESS"
"""Spark writes a file of this name when all others of a folder are there."""


class FilterSource(Protocol):
    """Where filters come from that change now and then."""

    def newest(self) -> str:
        """The version that is to be used now."""

    def read(self, version: str) -> DataFrame:
        """The filters of a version, as a table of ``id`` and ``text``."""


class FilterDirectory:
    """A directory of versions, of which the greatest name counts: numbers by their value, others by their letters.

    A version is a file of filters, which has to be moved into the directory when it is complete, or a folder that Spark
    has written. Names that begin with a dot or an underscore are passed over.
    """

    def __init__(self, session: SparkSession, path: str | os.PathLike[str]) -> None:
        self._session = session
        self._path = Path(path)
        if not self._path.is_dir():
            raise CallerError(f"filters: there is no directory {brief(str(path))}")

    def newest(self) -> str:
        """The name of the newest version that is complete."""
        names = [entry.name for entry in self._path.iterdir() if self._is_complete(entry)]
        if not names:
            raise CallerError(f"filters: no version in {brief(str(self._path))}: no file, and no folder with {_DONE}")
        return max(names, key=_version_order)

    def read(self, version: str) -> DataFrame:
        """The filters of a version."""
        return read_filters(self._session, self._path / version)

    @staticmethod
    def _is_complete(entry: Path) -> bool:
        if entry.name.startswith((".", "_")):
            return False
        return entry.is_file() or (entry / _DONE).exists()


class FilterFile:
    """One file of filters, read again when it was replaced; move the new one into its place when it is complete."""

    def __init__(self, session: SparkSession, path: str | os.PathLike[str]) -> None:
        self._session = session
        self._path = Path(path)
        self.newest()

    def newest(self) -> str:
        """When the file was changed."""
        try:
            changed = self._path.stat().st_mtime
        except OSError as error:
            raise CallerError(f"filters: {brief(str(self._path))} cannot be read: {error.strerror}") from error
        return datetime.fromtimestamp(changed, UTC).strftime("%Y-%m-%dT%H-%M-%S.%fZ")

    def read(self, version: str) -> DataFrame:  # noqa: ARG002 (there is no other)
        """The filters that are there now."""
        return read_filters(self._session, self._path)


class FilterTable:
    """A table with a column of versions, of which the greatest counts; its other columns are ``id`` and ``text``."""

    def __init__(self, session: SparkSession, table: str, version: str = "version") -> None:
        self._session = session
        self._table = table
        self._version = version

    def newest(self) -> str:
        """The greatest version in the table, as text."""
        self._session.catalog.refreshTable(self._table)
        greatest = self._session.table(self._table).agg(sql.max(self._version).cast("string").alias("newest")).collect()
        if greatest[0]["newest"] is None:
            raise CallerError(f"filters: table {brief(self._table)} has no rows with a version")
        return str(greatest[0]["newest"])

    def read(self, version: str) -> DataFrame:
        """The filters of a version."""
        rows = self._session.table(self._table)
        return rows.where(sql.col(self._version).cast("string") == version).select("id", "text")


def match_stream(  # noqa: PLR0913 (each says a thing of its own)
    events: DataFrame,
    filters: FilterSource,
    out: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str],
    key: str | list[str] | None = None,
    result: Result = "narrow",
    bodies: str | None = None,
    every: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> StreamingQuery:
    """Match a stream against the newest version of the filters, batch by batch, and write Parquet; start the query.

    The folder ``out`` gets three tables, each with a folder for each batch (or version): ``deliveries``, what
    :func:`~palio.spark.match` finds, with the version of the filters; ``unreadable``, the events that could not be
    read; ``rejects``, the filters that could not be read. A batch is matched with one version. It is written once: if
    the process dies and the batch is done again, a batch that was complete stays as it is, and one that was not is
    written anew. A new version that cannot be used is told to the log, and the one before it stays in use.

    With ``every``, such as ``"10 seconds"``, the query goes on until it is stopped, and looks for events so often;
    without, it ends when all events that are there now are done.
    """
    if not isinstance(events, DataFrame) or not events.isStreaming:
        raise CallerError("events: no stream; match() is for tables")

    def find(batch: DataFrame, made: FilterSet) -> DataFrame:
        return match(batch, made, key=key, result=result, bodies=bodies, problems=True)

    taken = {"batch", "version"} & {name.lower() for name in _kept(events, key, result)}
    if taken:
        raise CallerError(f"column {brief(min(taken))} would be in the result twice; rename it")
    writer = _BatchWriter(filters, os.fspath(out), find, limits)
    writer.refresh(events)  # what is wrong from the beginning is told at once
    query = events.writeStream.foreachBatch(writer).option("checkpointLocation", os.fspath(checkpoint))
    timed = query.trigger(availableNow=True) if every is None else query.trigger(processingTime=every)
    return timed.start()


def _kept(events: DataFrame, key: str | list[str] | None, result: Result) -> list[str]:
    if result == "narrow":
        return [key] if isinstance(key, str) else list(key or ())
    return events.columns if result == "wide" else []


class _BatchWriter:
    """What is done with each batch, in the driver."""

    def __init__(
        self, filters: FilterSource, out: str, find: Callable[[DataFrame, FilterSet], DataFrame], limits: Limits
    ) -> None:
        self._filters = filters
        self._out = out
        self._find = find
        self._limits = limits
        self._made: FilterSet | None = None
        self._version = ""

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Match the batch, unless that was done and only Spark did not come to note it."""
        deliveries = f"{self._out}/deliveries/batch={number}"
        if exists(batch.sparkSession, f"{deliveries}/{_DONE}"):
            return
        made = self.refresh(batch)
        found = self._find(batch, made).persist(StorageLevel.DISK_ONLY)
        try:
            unreadable = found.where("problem is not null")
            if not unreadable.isEmpty():
                _write(unreadable, f"{self._out}/unreadable/batch={number}")
            good = found.where("problem is null").drop("problem").withColumn("version", sql.lit(self._version))
            _write(good, deliveries)  # last: from now on the batch is done
        finally:
            found.unpersist()

    def refresh(self, batch: DataFrame) -> FilterSet:
        """The newest version of the filters that can be used on such events."""
        try:
            newest = self._filters.newest()
            if self._made is None or newest != self._version:
                self._use(newest, batch)
        except (PalioError, PySparkException, OSError) as error:
            if self._made is None:
                raise
            _LOG.warning("the filters stay at version %s: %s", self._version, error)
        assert self._made is not None
        return self._made

    def _use(self, version: str, batch: DataFrame) -> None:
        made = prepare(self._filters.read(version), limits=self._limits)
        try:
            self._find(batch, made)  # whether such events have columns that filters cannot use
            if made.rejected:
                _write(made.rejects, f"{self._out}/rejects/{version_folder(version)}")
        except BaseException:
            made.close()
            raise
        if self._made is not None:
            self._made.close()
        self._made, self._version = made, version
        _LOG.info("filters of version %s: %s, %s rejected", version, made.filters, made.rejected)


def version_folder(version: str) -> str:
    """The folder for what belongs to a version, escaped as Spark escapes the values of partitions."""
    return "version=" + re.sub(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^]", lambda found: f"%{ord(found[0]):02X}", version)


def _write(rows: DataFrame, folder: str) -> None:
    rows.write.mode("overwrite").parquet(folder)


def _version_order(name: str) -> tuple[bool, int, str]:
    digits = name.partition(".")[0].lstrip("v")
    return (False, int(digits), name) if digits.isdecimal() else (True, 0, name)
