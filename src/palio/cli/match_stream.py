"""The work of ``palio match --stream``: events matched as files with them come in."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from palio.cli.match_events import choose_keys
from palio.cli.match_job import Job
from palio.cli.match_report import Places, StreamSummary
from palio.errors import CallerError
from palio.spark import EventFolder, FilterDirectory, FilterFile, FilterSource, match_stream
from palio.spark.matching import Result
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
    )
    batches = _follow(query, events, tell)
    tell("Counting")
    done = _Done(batches, events.events, source.newest(), time.monotonic() - begin)
    return _summary(session, job, done)


class _Done(NamedTuple):
    """What has been matched."""

    batches: dict[int, int]
    """How many files each had."""
    events: int
    version: str
    seconds: float


def _keys(events: EventFolder, job: Job) -> list[str]:
    if job.keys:
        return list(job.keys)
    sample = events.sample()
    if sample is None:
        raise CallerError(f"--key: there is no event yet in {job.events!r}; say which column will tell them apart")
    return list(choose_keys(sample, job.keys))


def _source(session: SparkSession, filters: str) -> FilterSource:
    path = Path(filters)
    if path.is_dir() and not (path / "_SUCCESS").exists():
        return FilterDirectory(session, path)
    return FilterFile(session, path)


def _follow(query: StreamingQuery, events: EventFolder, tell: Callable[[str], None]) -> dict[int, int]:
    """Wait for the end and tell what comes meanwhile; the batches that were done, with the files in each."""
    batches: dict[int, int] = {}
    try:
        while not query.awaitTermination(_PAUSE):
            _note(query, batches)
            tell(f"Matching: {sum(batches.values()):,} files, {events.events:,} events")
    except KeyboardInterrupt:
        query.stop()
    _note(query, batches)
    return batches


def _note(query: StreamingQuery, batches: dict[int, int]) -> None:
    for progress in query.recentProgress:
        if progress["numInputRows"]:
            batches[progress["batchId"]] = progress["numInputRows"]


def _summary(session: SparkSession, job: Job, done: _Done) -> StreamSummary:
    unreadable = _rows(session, f"{job.out}/unreadable", done.batches)
    skipped = _rows(session, f"{job.out}/skipped", done.batches)
    rejected = _rows(session, f"{job.out}/rejects/{version_folder(done.version)}", None)
    deliveries = f"{job.out}/deliveries"
    places = Places(
        deliveries,
        f"{job.out}/rejects" if rejected else None,
        f"{job.out}/unreadable" if unreadable else None,
        f"{job.out}/skipped" if skipped else None,
    )
    return StreamSummary(
        batches=len(done.batches),
        files=sum(done.batches.values()),
        skipped=skipped,
        events=done.events,
        deliveries=_rows(session, deliveries, done.batches),
        unreadable=unreadable,
        version=done.version,
        rejected_filters=rejected,
        seconds=done.seconds,
        places=places,
    )


def _rows(session: SparkSession, path: str, batches: dict[int, int] | None) -> int:
    """Rows of a table that may not be there, of these batches if it has any."""
    with suppress(AnalysisException):  # there is none
        table: DataFrame = session.read.parquet(path)
        return table.count() if batches is None else table.where(table["batch"].isin(list(batches))).count()
    return 0
