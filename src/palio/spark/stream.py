"""Streams matched against filters that change while they run, with results that are written exactly once."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType

from palio.errors import CallerError, PalioError, brief
from palio.model.limits import READING_LIMITS, Limits
from palio.spark.archive import is_archive
from palio.spark.event_folder import EventFolder, SkippedFile, Table, skipped_table, unreadable_file
from palio.spark.file_schemas import reason
from palio.spark.filters import FilterSet, prepare
from palio.spark.matching import Result, delivered, is_delivery, match
from palio.spark.places import exists
from palio.spark.query import MatchedBatches, MatchQuery
from palio.spark.results import MatchedBatch, ResultFolder
from palio.spark.versions import FilterSource, version_folder

_LOG = logging.getLogger("palio.spark")
_ADDED = ("batch", "version")
"""Columns that results have beside those of ``match``."""
_LISTINGS_PER_CORE = 4
_NO_STREAM = "an archive of a server is no stream: compaction puts what was there into new files; match it as a table"


def match_stream(  # noqa: PLR0913 (each says a thing of its own)
    events: DataFrame | EventFolder,
    filters: FilterSource,
    out: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str],
    key: str | list[str] | None = None,
    result: Result = "narrow",
    bodies: str | None = None,
    every: str | None = None,
    limits: Limits = READING_LIMITS,
    round_decimals: bool = False,
    adopt: bool = False,
) -> MatchQuery:
    """Match a stream against the newest version of the filters, batch by batch, and write Parquet; start the query.

    The stream is one of Spark's, whose columns stay the same, or an :class:`EventFolder`, whose columns may change. The
    folder ``out`` gets tables, each with a folder for each batch (or version): ``deliveries``, what
    :func:`~palio.spark.match` finds, with the version of the filters; ``unreadable``, the events that have values that
    cannot be read, with the reasons; ``skipped``, the files (or lines) that could not; ``rejects``, the filters that
    could not. A batch is matched with one version. It is written once: if the process dies and the batch is done
    again, a batch that was complete stays as it is, and one that was not is written anew. A new version that cannot be
    used is told to the log, and the one before it stays in use.

    ``out`` belongs to the query of the checkpoint. A query with another checkpoint is refused, unless it is to
    ``adopt`` the folder: then its batches get numbers above those that are there, and the query before ends if it still
    runs.
    The query that is returned tells in its progress what was delivered, see :class:`MatchQuery`.

    With ``every``, such as ``"10 seconds"``, the query goes on until it is stopped, and looks for events so often;
    without, it ends when all events that are there now are done.
    """
    how = _How(key, result, bodies, limits, round_decimals)
    for role, place in (("out", os.fspath(out)), ("checkpoint", os.fspath(checkpoint))):
        if not place.strip("/"):
            raise CallerError(f"{role}: {brief(place)} is no folder that a stream can have for itself")
        if isinstance(events, EventFolder):
            events.check_apart(role, place)
    stream = events.stream() if isinstance(events, EventFolder) else events
    if not isinstance(stream, DataFrame) or not stream.isStreaming:
        raise CallerError("events: no stream; match() is for tables")
    session = stream.sparkSession
    results = ResultFolder(session, os.fspath(out), os.fspath(checkpoint), adopt=adopt)
    writer: _BatchWriter
    if isinstance(events, EventFolder):
        writer = _FolderWriter(session, filters, results, how, events)
    else:
        writer = _BatchWriter(session, filters, results, how)
        how.check_names(events)
        writer.refresh(events)  # what is wrong from the beginning is told at once
    query = stream.writeStream.foreachBatch(writer).option("checkpointLocation", os.fspath(checkpoint))
    timed = query.trigger(availableNow=True) if every is None else query.trigger(processingTime=every)
    started = MatchQuery(timed.start(), writer.matched)
    try:
        results.claim()  # also if there is no batch yet
    except BaseException:
        started.stop()
        raise
    return started


class _How(NamedTuple):
    """How events are matched."""

    key: str | Sequence[str] | None
    result: Result
    bodies: str | None
    limits: Limits
    round_decimals: bool

    def match(self, events: DataFrame, filters: FilterSet) -> DataFrame:
        return match(
            events,
            filters,
            key=self.key,
            result=self.result,
            bodies=self.bodies,
            problems=True,
            round_decimals=self.round_decimals,
        )

    def together(self, found: list[DataFrame]) -> DataFrame:
        """The results of several tables as one."""
        union = reduce(_union, found)
        if self.result != "counts" or len(found) == 1:
            return union
        return union.groupBy("filter", "problem").agg(sql.sum("count").alias("count"))

    def figures(self) -> tuple[Column, Column]:
        """The numbers of deliveries and of events with values that cannot be read, as aggregates of results."""
        counts = {"narrow": "1L", "wide": "coalesce(size(filters), 0)", "counts": "count"}
        each, one = sql.expr(counts[self.result]), sql.expr("count" if self.result == "counts" else "1L")
        deliveries = sql.sum(sql.when(is_delivery(self.result), each)).alias("deliveries")
        return deliveries, sql.sum(sql.when(sql.col("problem").isNotNull(), one)).alias("unreadable")

    def kept(self, events: DataFrame) -> list[str]:
        """The columns of the events that are in the result."""
        if self.result == "narrow":
            return [self.key] if isinstance(self.key, str) else list(self.key or ())
        return events.columns if self.result == "wide" else []

    def check_names(self, events: DataFrame) -> None:
        taken = set(_ADDED) & {name.lower() for name in self.kept(events)}
        if taken:
            raise CallerError(f"column {brief(min(taken))} would be in the result twice; rename it")


class _BatchWriter:
    """What is done with each batch, in the driver."""

    def __init__(self, session: SparkSession, filters: FilterSource, results: ResultFolder, how: _How) -> None:
        self._session = session
        self._filters = filters
        self._results = results
        self._how = how
        self._made: FilterSet | None = None
        self._version = ""
        self._kept_because: str | None = None
        self._types = self._types_of_results()
        self._number = 0
        """The batch that is done, as Spark counts."""
        self.matched = MatchedBatches()

    def _types_of_results(self) -> dict[str, DataType]:
        """The types of the columns of earlier deliveries; a column cannot have several."""
        deliveries = f"{self._results.path}/deliveries"
        if not exists(self._session, deliveries):
            return {}
        try:
            reader = self._session.read.options(mergeSchema=self._how.result == "wide", __globPaths__=False)
            rows = reader.parquet(deliveries)
        except AnalysisException:  # a folder without a single batch that is complete
            return {}
        return {field.name: field.dataType for field in rows.schema.fields if field.name not in _ADDED}

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Match the batch, unless that was done and only Spark did not come to note it."""
        place = self._results.begin(number)
        if isinstance(place, MatchedBatch):
            if self._results.has_state():  # Spark insists that a batch writes its state, also the second time
                batch.write.format("noop").mode("overwrite").save()
            self.matched.add(number, place)
            return
        self._number = number
        self.matched.add(number, self._do(batch, place))

    def _do(self, batch: DataFrame, place: int) -> MatchedBatch:
        made = self.refresh(batch)
        return self._write_found(self._how.match(batch, made), self._matched(place))

    def _matched(self, place: int) -> MatchedBatch:
        """What is known of a batch before it is matched."""
        return MatchedBatch(place, self._version, 0, 0, kept_because=self._kept_because)

    def _write_found(self, found: DataFrame, matched: MatchedBatch) -> MatchedBatch:
        found, seen = found.persist(StorageLevel.DISK_ONLY), Observation()
        try:
            good = delivered(found.observe(seen, *self._how.figures()), self._how.result)
            _write(
                good.withColumn("version", sql.lit(self._version)), self._results.folder("deliveries", matched.batch)
            )
            deliveries, unreadable = (int(seen.get[name] or 0) for name in ("deliveries", "unreadable"))
            matched = matched._replace(deliveries=deliveries, unreadable=unreadable)
            self._write_some(found.where("problem is not null"), matched.unreadable, "unreadable", matched.batch)
        finally:
            found.unpersist()
        self._results.complete(self._number, matched)  # last: from now on the batch is done
        return matched

    def _write_some(self, rows: DataFrame, count: int, table: str, place: int) -> None:
        """Write rows if there are any; what an earlier try has left must not stay, since its filters may differ."""
        if count:
            _write(rows, self._results.folder(table, place))
        else:
            self._results.clear(table, place)

    def refresh(self, batch: DataFrame) -> FilterSet:
        """The newest version of the filters that can be used on such events."""
        try:
            newest = self._filters.newest()
            if self._made is None or newest != self._version:
                self._use(newest, batch)
            self._kept_because = None
        except (PalioError, PySparkException, Py4JError, OSError) as error:
            if self._made is None:
                raise
            self._kept_because = reason(error)
            _LOG.warning("the filters stay at version %s: %s", self._version, self._kept_because)
        assert self._made is not None
        return self._made

    def _use(self, version: str, batch: DataFrame) -> None:
        made = prepare(self._filters.read(version), limits=self._how.limits)
        try:
            self._check_ids(made)
            self._check(batch, made)
            if made.rejected:
                _write(made.rejects, f"{self._results.path}/rejects/{version_folder(version)}")
        except BaseException:
            made.close()
            raise
        if self._made is not None:
            self._made.close()
        self._made, self._version = made, version
        _LOG.info("filters of version %s: %s, %s rejected", version, made.filters, made.rejected)

    def _check_ids(self, made: FilterSet) -> None:
        name = "filters" if self._how.result == "wide" else "filter"
        type = ArrayType(made.id_type, containsNull=False) if self._how.result == "wide" else made.id_type
        before = self._types.setdefault(name, type)
        if before.simpleString() != type.simpleString():
            raise CallerError(
                f"ids of type {made.id_type.simpleString()}: results have {name} as {before.simpleString()}; "
                "cast them, or begin another folder of results"
            )

    def _check(self, batch: DataFrame, made: FilterSet) -> None:
        """Refuse filters that ask for columns that such events cannot have."""
        self._how.match(batch, made)


class _FolderWriter(_BatchWriter):
    """The same where each file has columns of its own; one that does not fit is skipped, and the others go on."""

    def __init__(
        self,
        session: SparkSession,
        filters: FilterSource,
        results: ResultFolder,
        how: _How,
        folder: EventFolder,
    ) -> None:
        super().__init__(session, filters, results, how)
        if is_archive(folder.files()):
            raise CallerError(f"events: {_NO_STREAM}")
        self._folder = folder
        self._reader: EventFolder | None = None
        self.refresh(folder.stream())

    def _do(self, batch: DataFrame, place: int) -> MatchedBatch:
        made = self.refresh(batch)
        if self._reader is None:
            self._reader = self._folder.within(_session_for_files(batch.sparkSession, self._session))
        files = {row["path"] for row in batch.collect()}
        skipped = [SkippedFile(file, _NO_STREAM) for file in files if is_archive([file])]
        files -= {each.file for each in skipped}
        while (matched := self._try(made, files, skipped, place)) is None:
            files -= {each.file for each in skipped}
        self._folder.events += matched.events or 0
        return matched

    def _try(self, made: FilterSet, files: set[str], skipped: list[SkippedFile], place: int) -> MatchedBatch | None:
        """Do the batch with these files; if one of them turns out to be unreadable it is added to those skipped."""
        assert self._reader is not None
        tables, unread = self._reader.read(files)
        skipped += unread
        try:
            return self._match(tables, made, skipped, place)
        except Py4JJavaError as error:
            broken = unreadable_file(error, files)
            if broken is None:
                raise
            skipped.append(broken)
            return None
        finally:
            for table in tables:
                table.release()

    def _match(self, tables: list[Table], made: FilterSet, skipped: list[SkippedFile], place: int) -> MatchedBatch:
        fitting = [(table, found) for table in tables if (found := self._fitting(table, made, skipped)) is not None]
        told = skipped_table(self._session, skipped, [table.broken for table in tables if table.broken is not None])
        count = 0 if told is None else told.count()
        if told is not None:
            self._write_some(told, count, "skipped", place)
        else:
            self._results.clear("skipped", place)
        events = sum(table.rows.count() for table, _ in fitting)
        matched = self._matched(place)._replace(skipped=count, events=events)
        if fitting:
            return self._write_found(self._how.together([found for _, found in fitting]), matched)
        for table in ("deliveries", "unreadable"):  # an earlier try may have had filters that fit
            self._results.clear(table, place)
        return matched

    def _fitting(self, table: Table, made: FilterSet, skipped: list[SkippedFile]) -> DataFrame | None:
        """What is found in a table, unless its columns do not fit to the filters or to the results so far."""
        try:
            self._how.check_names(table.rows)
            found = self._how.match(table.rows, made)
            types = {name: found.schema[name].dataType for name in self._how.kept(table.rows)}
            for name, type in types.items():
                before = self._types.get(name, type)
                if before.simpleString() != type.simpleString():
                    raise CallerError(
                        f"column {brief(name)} of type {type.simpleString()}: results have it as "
                        f"{before.simpleString()}; cast it, or begin another folder of results"
                    )
        except PalioError as error:
            skipped += [SkippedFile(file, str(error)) for file in table.files]
            return None
        self._types |= types
        return found

    def _check(self, batch: DataFrame, made: FilterSet) -> None:  # noqa: ARG002 (it has the names of files)
        """Whether filters fit is seen file by file, and attributes may come with later ones."""
        made.known_missing |= made.attributes


def _session_for_files(session: SparkSession, users: SparkSession) -> SparkSession:
    """The session that Spark has made for the query, with the settings of the user's but for how files are listed.

    Spark lists many files in a job with a task for each of them, which takes longer than to read small ones.
    """
    for name in ("spark.sql.adaptive.enabled", "spark.sql.cbo.enabled"):  # which Spark has switched off for the stream
        session.conf.set(name, users.conf.get(name) or "")
    parallelism = min(10_000, _LISTINGS_PER_CORE * session.sparkContext.defaultParallelism)
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", str(parallelism))
    return session


def _union(first: DataFrame, second: DataFrame) -> DataFrame:
    return first.unionByName(second, allowMissingColumns=True)


def _write(rows: DataFrame, folder: str) -> None:
    rows.write.mode("overwrite").parquet(folder)
