"""How fast publications become Parquet files: from the log of a store to files that are complete and synced."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from palio.archive.archiver import Archiver
from palio.archive.compaction import compact
from palio.archive.disk import Disk
from palio.archive.settings import ArchiveSettings
from palio.bench.report import Figure, Report
from palio.bench.timing import without_gc
from palio.codec import frames
from palio.model import Envelope, Notification, NotificationId
from palio.node import entries
from palio.store import Batch, Reader, Store

BATCHES = (1, 10, 100)
"""Notifications in an entry: what a server takes in one turn, from idle to busy."""
_BEGIN = datetime(2026, 11, 16, tzinfo=UTC)
_SERVER = "milan"


def run(tell: Callable[[str], None], count: int = 200_000) -> Report:
    """Archive so many notifications of ten attributes, for each number of them in an entry; then compact."""
    results: list[dict[str, Figure]] = []
    for batch in BATCHES:
        tell(f"{count:,} notifications, {batch} in an entry")
        with TemporaryDirectory() as name:
            folder = Path(name)
            fill_log(folder / "log.db", _notifications(count), batch)
            results.append(_measure("archive", count, batch, lambda folder=folder: _archive(folder, count)))  # type: ignore[misc]
            if batch == BATCHES[-1]:
                tell("compacting them")
                disk = Disk(folder / "archive")
                results.append(_measure("compact", count, batch, lambda disk=disk: compact(disk, ArchiveSettings())))  # type: ignore[misc]
    tell("decoding them in Python, to compare")
    content = [frames.deliver(each)[frames.HEADER :] for each in _notifications(min(count, 20_000))]
    decoding = _measure("decode in Python", len(content), 1, lambda: [frames.delivered(each) for each in content])
    results.append(decoding)
    for row in results:
        baseline, own = decoding["processor_us"], row["processor_us"]
        assert isinstance(baseline, float)
        assert isinstance(own, float)
        row["times_decoding"] = own / baseline
    return Report("archive", results)


def _measure(operation: str, count: int, batch: int, work: Callable[[], object]) -> dict[str, Figure]:
    with without_gc():
        begin, processor = time.perf_counter(), time.process_time()
        work()
        seconds, used = time.perf_counter() - begin, time.process_time() - processor
    return {
        "operation": operation,
        "notifications": count,
        "in_an_entry": batch,
        "per_second": count / seconds,
        "processor_us": 1e6 * used / count,
    }


def _notifications(count: int) -> Iterator[Notification]:
    for n in range(count):
        published = _BEGIN + timedelta(microseconds=50 * n)
        yield Notification(
            symbol=f"S{n % 500}",
            exchange=("NYSE", "LSE", "MIL")[n % 3],
            price=100 + n % 977 / 8,
            change=(n % 41 - 20) / 16,
            volume=n * 7 % 10_007,
            bid=100 + n % 971 / 8,
            ask=100 + n % 983 / 8,
            open=n % 2 == 0,
            traded=published,
            note=f"order {n}",
        ).with_envelope(Envelope(NotificationId(_SERVER, 1, n), published, f"palio:party-{n % 20}"))


def fill_log(path: Path, notifications: Iterable[Notification], batch: int) -> None:
    """A log as a server writes it, with so many notifications in an entry."""
    made = [frames.deliver(each) for each in notifications]
    microseconds = int(_BEGIN.timestamp() * 1e6)
    log = [
        entries.encode(entries.Head(entries.VERSION, microseconds, batch, 0, ()), b"".join(made[first : first + batch]))
        for first in range(0, len(made), batch)
    ]
    with Store.open(path, name=_SERVER, incarnation=1) as store:
        for first in range(0, len(log), 10_000):
            store.commit([Batch(entries=list(enumerate(log[first : first + 10_000], first)))])


def _archive(folder: Path, count: int) -> None:
    settings = ArchiveSettings(rows=max(1, count // 10))
    with Reader.open(folder / "log.db") as source, Archiver(source, Disk(folder / "archive"), settings) as archiver:
        while archiver.step():
            pass
        archiver.write()
        assert archiver.progress.figures.rows == count
