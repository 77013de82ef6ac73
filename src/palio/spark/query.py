"""A query that matches a stream, with what it tells of its batches."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from palio.spark.results import MatchedBatch

METRICS = "palio"
"""The name of our figures among the observed metrics."""
_KEPT = 1000
"""So many batches are kept in mind; Spark keeps the progress of 100 unless told otherwise."""


class MatchTotals(NamedTuple):
    """What a query has done since it was started; batches that were complete before are included."""

    batches: int = 0
    deliveries: int = 0
    unreadable: int = 0
    skipped: int = 0
    version: str = ""
    """Of the filters of the last batch."""


class MatchedBatches:
    """The batches of a query, as they are done; may be asked from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._recent: dict[int, MatchedBatch] = {}
        self._totals = MatchTotals()

    def add(self, number: int, matched: MatchedBatch) -> None:
        """Note a batch, by the number that Spark gives it."""
        with self._lock:
            before = self._totals
            self._totals = MatchTotals(
                before.batches + 1,
                before.deliveries + matched.deliveries,
                before.unreadable + matched.unreadable,
                before.skipped + matched.skipped,
                matched.version or before.version,
            )
            self._recent[number] = matched
            while len(self._recent) > _KEPT:
                del self._recent[next(iter(self._recent))]

    def totals(self) -> MatchTotals:
        """All of them."""
        with self._lock:
            return self._totals

    def find(self, number: int) -> MatchedBatch | None:
        """One of the last."""
        with self._lock:
            return self._recent.get(number)


class MatchQuery(StreamingQuery):
    """A query of Spark's that :func:`~palio.spark.match_stream` has started.

    Its progress has the fields of :class:`MatchedBatch` under ``observedMetrics`` and ``palio``, for every batch that
    this query has done: ``query.lastProgress.observedMetrics["palio"].deliveries``.
    """

    def __init__(self, query: StreamingQuery, batches: MatchedBatches) -> None:
        super().__init__(query._jsq)
        self._batches = batches

    @property
    def totals(self) -> MatchTotals:
        """What was done since the query was started."""
        return self._batches.totals()

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802 (Spark's name)
        """The progress of the last batches."""
        return [self._with_metrics(progress) for progress in super().recentProgress]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802
        """The progress of the last batch."""
        progress = super().lastProgress
        return None if progress is None else self._with_metrics(progress)

    def _with_metrics(self, progress: StreamingQueryProgress) -> StreamingQueryProgress:
        matched = self._batches.find(progress.batchId)
        if matched is not None:
            progress["observedMetrics"] = {**progress.observedMetrics, METRICS: Row(**matched._asdict())}
        return progress
