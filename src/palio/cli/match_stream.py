"""The work of ``palio match --stream``: events matched as files with them come in."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from palio.cli.match_events import choose_keys
from palio.cli.match_job import Job
from palio.cli.match_report import Places, StreamSummary
from palio.errors import CallerError
from palio.spark import EventFolder, FilterDirectory, FilterFile, FilterSource, match_stream
from palio.spark.matching import Result
from palio.spark.places import DONE, find
from palio.spark.query import MatchQuery, MatchTotals
from palio.spark.versions import version_folder

_PAUSE = 1
"""Seconds between two looks at the query."""


def run_stream(
    session: SparkSession, job: Job, checkpoint: str, every: str | None, tell: Callable[[str], None]
) -> StreamSummary:
    """Match until all files are done, or until interrupted if it is to go on; ``tell`` hears how far it is."""
    if "://" not in job.events and not Path(job.events).is_dir():
        raise CallerError(f"--events: {job.events!r} is no folder; a stream watches one for new files")
    events = EventFolder(session, job.events, job.format)
    tell("Looking at the events")
    keys = _keys(events, job) if job.result == "narrow" else None
    tell("Reading filters")
    begin = time.monotonic()
    result: Result = job.result  # type: ignore[assignment]
    source = _source(session, job.filters)
    query = match_stream(
        events,
        source,
        job.out,
        checkpoint=checkpoint,
        key=keys,
        result=result,
        bodies=job.bodies,
        every=every,
        round_decimals=job.round_decimals,
        adopt=job.adopt,
    )
    files = _follow(query, events, tell)
    tell("Counting")
    done = _Done(sum(files.values()), events.events, source.newest(), time.monotonic() - begin)
    return _summary(session, job, query.totals, done)


class _Done(NamedTuple):
    """What has been matched."""

    files: int
    events: int
    version: str
    """The newest one, if there was no batch."""
    seconds: float


def _keys(events: EventFolder, job: Job) -> list[str]:
    if job.keys:
        return list(job.keys)
    sample = events.sample()
    if sample is None:
        raise CallerError(f"--key: there is no event yet in {job.events!r}; say which column will tell them apart")
    return list(choose_keys(sample, job.keys))


def _source(session: SparkSession, filters: str) -> FilterSource:
    found = find(session, filters)
    if found is not None and found.is_folder and find(session, f"{filters.rstrip('/')}/{DONE}") is None:
        return FilterDirectory(session, filters)
    return FilterFile(session, filters)


def _follow(query: MatchQuery, events: EventFolder, tell: Callable[[str], None]) -> dict[int, int]:
    """Wait for the end and tell what comes meanwhile; the number of files in each batch."""
    batches: dict[int, int] = {}
    try:
        while not query.awaitTermination(_PAUSE):
            _note(query, batches)
            tell(f"Matching: {sum(batches.values()):,} files, {events.events:,} events")
    except KeyboardInterrupt:
        query.stop()
    _note(query, batches)
    return batches


def _note(query: MatchQuery, batches: dict[int, int]) -> None:
    for progress in query.recentProgress:
        if progress["numInputRows"]:
            batches[progress["batchId"]] = progress["numInputRows"]


def _summary(session: SparkSession, job: Job, totals: MatchTotals, done: _Done) -> StreamSummary:
    version = totals.version or done.version
    rejected = _rows(session, f"{job.out}/rejects/{version_folder(version)}")
    places = Places(
        f"{job.out}/deliveries",
        f"{job.out}/rejects" if rejected else None,
        f"{job.out}/unreadable" if totals.unreadable else None,
        f"{job.out}/skipped" if totals.skipped else None,
    )
    return StreamSummary(
        batches=totals.batches,
        files=done.files,
        skipped=totals.skipped,
        events=done.events,
        deliveries=totals.deliveries,
        unreadable=totals.unreadable,
        version=version,
        rejected_filters=rejected,
        seconds=done.seconds,
        places=places,
    )


def _rows(session: SparkSession, path: str) -> int:
    """Rows of a table that may not be there."""
    with suppress(AnalysisException):  # there is none
        return session.read.options(__globPaths__=False).parquet(path).count()
    return 0
