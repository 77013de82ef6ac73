"""Archives whose files all have other columns: how long it takes to open one, and to match it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter

from pyspark.sql import SparkSession

from palio import Envelope, Notification, NotificationId, spark
from palio.archive.archiver import Archiver
from palio.archive.disk import Disk
from palio.archive.settings import ArchiveSettings
from palio.bench.archive import fill_log
from palio.bench.report import Figure
from palio.errors import InternalError
from palio.store import Reader

NAME = "archives"
COLUMN_SETS = 500
ROWS = 20
"""In a file."""
_ROUNDS = 5
_BEGIN = datetime(2026, 11, 16, tzinfo=UTC)


def run(session: SparkSession, folder: Path, progress: Callable[[str], None]) -> Iterator[dict[str, Figure]]:
    """The median of opening an archive of so many column sets in a session that has opened it before."""
    progress(f"archives, {COLUMN_SETS} column sets: writing")
    archive = _write(folder)
    progress(f"archives, {COLUMN_SETS} column sets: opening")
    seconds = [_open(session, archive) for _ in range(_ROUNDS + 1)]
    yield {
        "workload": NAME,
        "engine": "palio-spark",
        "set": f"{COLUMN_SETS} column sets",
        "result": "open",
        "events": COLUMN_SETS * ROWS,
        "seconds": median(seconds[1:]),
    }


def _open(session: SparkSession, archive: Path) -> float:
    start = perf_counter()
    opened = spark.Archive(session, archive)
    seconds = perf_counter() - start
    if len(opened.columns) != COLUMN_SETS + 1 or opened.skipped:
        raise InternalError(f"an archive of {COLUMN_SETS} column sets has {len(opened.columns):,} columns")
    return seconds


def _write(folder: Path) -> Path:
    """One file after the other, each with an attribute that no other has."""
    fill_log(folder / "log.db", _notifications(), ROWS)
    settings = ArchiveSettings(rows=ROWS)
    with Reader.open(folder / "log.db") as source, Archiver(source, Disk(folder / "archive"), settings) as archiver:
        while archiver.step():
            archiver.write()
    files = len(list((folder / "archive").glob("*/*.parquet")))
    if files != COLUMN_SETS:
        raise InternalError(f"{files:,} files instead of {COLUMN_SETS}")
    return folder / "archive"


def _notifications() -> Iterator[Notification]:
    for n in range(COLUMN_SETS * ROWS):
        envelope = Envelope(NotificationId("milan", 1, n), _BEGIN, "palio:eva")
        yield Notification([("x", n), (f"attribute {n // ROWS}", "text")]).with_envelope(envelope)
