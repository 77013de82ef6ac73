"""The work of ``palio match`` on a table: read, match, write, and gather what the summary tells."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from palio.cli.match_events import Choice, Events, open_events
from palio.cli.match_report import (
    EventFigures,
    FilterCount,
    FilterFigures,
    Places,
    ReasonCount,
    Reject,
    Seconds,
    SkippedRecord,
    Summary,
    UnknownAttribute,
)
from palio.spark import FilterSet, prepare, read_filters
from palio.spark.advice import missing_attributes
from palio.spark.matching import Result, delivered
from palio.spark.places import delete
from palio.spark.types import quoted, without_collations

_SHOWN_REJECTS = 3
_SHOWN_FILTERS = 5
_SHOWN_REASONS = 5
_SHOWN_SKIPPED = 5


@dataclass(frozen=True)
class Job:
    """What is to be done; the fields are the options of the command."""

    events: str
    format: str
    filters: str
    out: str
    may_replace: bool
    """Whether what is at ``out`` may be replaced."""
    result: str
    keys: Sequence[str]
    bodies: str | None
    round_decimals: bool
    fail_fast: bool
    adopt: bool = False
    """Whether a stream may take over results of another checkpoint."""

    @property
    def rejects(self) -> str:
        """The folder beside ``out``; one inside it would be read as a part of the results."""
        return f"{self.out.rstrip('/')}.rejects"


def run(session: SparkSession, job: Job, tell: Callable[[str], None]) -> Summary:
    """Do the job; ``tell`` hears what is being done."""
    with _told_in_summary():
        tell("Looking at the events")
        choice = Choice(job.result, job.keys, job.bodies, job.round_decimals)
        events = open_events(session, job.events, job.format, choice)
        tell("Reading filters")
        return _match(session, job, events, tell)


def _match(session: SparkSession, job: Job, events: Events, tell: Callable[[str], None]) -> Summary:
    clock = _Clock()
    table = without_collations(read_filters(session, job.filters))
    with ExitStack() as stack:
        filters = stack.enter_context(prepare(table, fail_fast=job.fail_fast))
        stack.callback(events.release)
        seconds_filters = clock.lap()
        tell("Matching")
        matched = _matched(events, filters, job)
        stack.callback(matched.unpersist)
        _write(delivered(matched, cast("Result", job.result)), job.out, job)
        seconds_match = clock.lap()
        tell("Counting")
        found = _count(events, matched, job)
        places = _write_rejects(session, filters, matched, found.events, job)
        places = _write_skipped(events.skipped, found.events, places, job)
        about_filters = _about_filters(table, filters, found)
        unknown = [] if job.bodies else unknown_attributes(filters.attributes, events.names)
        seconds = Seconds(seconds_filters, seconds_match, clock.lap())
        return Summary(found.events, about_filters, found.deliveries, unknown, seconds, places)


def _matched(events: Events, filters: FilterSet, job: Job) -> DataFrame:
    """Match, compute and keep the result. Files that turn out to be damaged are left out, and the match is repeated."""
    while True:
        found = events.match(filters, cast("Result", job.result)).persist(StorageLevel.DISK_ONLY)
        try:
            found.count()
        except BaseException as error:
            found.unpersist()
            if isinstance(error, Py4JJavaError | PySparkException) and events.leave_out(error, filters):
                continue
            raise
        return found


class _Clock:
    def __init__(self) -> None:
        self._before = time.monotonic()

    def lap(self) -> float:
        """Seconds since the last call."""
        now = time.monotonic()
        passed, self._before = now - self._before, now
        return passed


# -- output ------------------------------------------------------------------------------------------------------------


def _write(frame: DataFrame, path: str, job: Job) -> None:
    frame.write.mode("overwrite" if job.may_replace else "error").parquet(path)


def _write_rejects(
    session: SparkSession, filters: FilterSet, matched: DataFrame, found: EventFigures, job: Job
) -> Places:
    """Write what was rejected, if anything was; rejects of an earlier run must not stay beside these results."""
    if job.may_replace:
        delete(session, job.rejects)
    rejected_filters = unreadable_events = None
    if filters.rejected:
        rejected_filters = f"{job.rejects}/filters"
        _write(filters.rejects, rejected_filters, job)
    if found.unreadable:
        unreadable_events = f"{job.rejects}/events"
        added = {"narrow": "filter", "wide": "filters", "counts": "filter"}[job.result]
        _write(matched.where("problem is not null").drop(added), unreadable_events, job)
    return Places(job.out, rejected_filters, unreadable_events)


def _write_skipped(skipped: DataFrame | None, found: EventFigures, places: Places, job: Job) -> Places:
    """Write what was left out, if anything was."""
    if skipped is None or not found.skipped:
        return places
    path = f"{job.rejects}/skipped"
    _write(skipped, path, job)
    return replace(places, skipped=path)


# -- figures -----------------------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    events: EventFigures
    deliveries: int
    filters: int
    """How many filters match something."""
    top: list[tuple[int | str, int]]


def _count(events: Events, matched: DataFrame, job: Job) -> _Found:
    result = cast("Result", job.result)
    tally = _tally(matched, result).persist(StorageLevel.DISK_ONLY)
    try:
        good, bad = tally.where("problem is null"), tally.where("problem is not null")
        sums = tally.groupBy(sql.isnull("problem").alias("is_good"))
        sizes = {row["is_good"]: row for row in sums.agg(sql.sum("count").alias("events"), sql.count("*")).collect()}
        deliveries, filters = sizes[True][1:] if True in sizes else (0, 0)
        unreadable = sizes[False]["events"] if False in sizes else 0
        top = good.orderBy(sql.desc("count"), "filter").limit(_SHOWN_FILTERS).collect()
        reasons = bad.orderBy(sql.desc("count"), "problem").limit(_SHOWN_REASONS).collect() if unreadable else []
    finally:
        tally.unpersist()
    read = matched.count() if result == "wide" else events.count()
    silent = _silent(read - (unreadable if job.bodies else 0), delivered(matched, result), events.keys, result)
    told = [ReasonCount(row["problem"], row["count"]) for row in reasons]
    skipped = events.skipped
    first = [] if skipped is None else skipped.orderBy("file", "record").limit(_SHOWN_SKIPPED).collect()
    about_events = EventFigures(
        read,
        silent,
        unreadable,
        told,
        0 if skipped is None else skipped.count(),
        [SkippedRecord(**row.asDict()) for row in first],
    )
    return _Found(about_events, deliveries, filters, [(row["filter"], row["count"]) for row in top])


def _tally(matched: DataFrame, result: Result) -> DataFrame:
    """How many events each filter matches, and how many have each problem: ``filter``, ``problem``, ``count``."""
    if result == "counts":
        return matched
    if result == "wide":
        pairs = matched.select(sql.explode("filters").alias("filter"), sql.lit(None).cast("string").alias("problem"))
        matched = pairs.unionByName(matched.where("problem is not null").select("problem"), allowMissingColumns=True)
    return matched.groupBy("filter", "problem").count()


def _silent(readable: int, matched: DataFrame, keys: Sequence[str], result: Result) -> int | None:
    """How many events match nothing. Counts do not tell; in narrow results the keys tell events apart."""
    if result == "counts":
        return None
    if result == "wide":
        return matched.where("size(filters) = 0").count()
    return readable - without_collations(matched.select(*map(quoted, keys))).distinct().count()


def _about_filters(table: DataFrame, filters: FilterSet, found: _Found) -> FilterFigures:
    read = _ids_read(table, filters)
    rejects = filters.rejects.orderBy("id").limit(_SHOWN_REJECTS).collect() if filters.rejected else []
    return FilterFigures(
        read=read,
        matching_nothing=read - found.filters,
        matching_most=_with_texts(table, found.top),
        rejected=filters.rejected,
        first_rejected=[Reject(**row.asDict()) for row in rejects],
    )


def _ids_read(table: DataFrame, filters: FilterSet) -> int:
    """How many ids have a filter: rows of one id are one union, and it counts unless all of them were rejected."""
    rows = table.groupBy("id").count()
    return (rows.exceptAll(filters.rejects.groupBy("id").count()) if filters.rejected else rows).count()


def _with_texts(table: DataFrame, top: list[tuple[int | str, int]]) -> list[FilterCount]:
    texts: dict[int | str, list[str]] = {id: [] for id, _ in top}
    for row in table.where(sql.col("id").isin(list(texts))).collect():
        texts[row["id"]].append(" ".join((row["text"] or "").split()))
    return [FilterCount(id, " or ".join(texts[id]), count) for id, count in top]


def unknown_attributes(mentioned: frozenset[str], columns: Sequence[str]) -> list[UnknownAttribute]:
    """Names in filters that no column has, each with the column that was perhaps meant."""
    return [UnknownAttribute(name, perhaps) for name, perhaps in missing_attributes(mentioned, columns).items()]


@contextmanager
def _told_in_summary() -> Iterator[None]:
    """Keep warnings back which the summary repeats."""
    log = logging.getLogger("palio.spark")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
