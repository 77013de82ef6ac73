"""The engines that are measured, each with the filters of one case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from palio import spark
from palio.bench.report import Figure
from palio.bench.spark import workers
from palio.bench.spark.joins import JOINS
from palio.bench.spark.tables import EventFiles
from palio.errors import InternalError, PalioError
from palio.matching import FilterIndex
from palio.model import Filter

Counts = npt.NDArray[np.int64]
Figures = dict[str, Figure]

_FIRST, _FIRST_OF_JOIN = 32_768, 1024
"""So many events are matched to begin with: fewer would drown in what a query takes anyway."""
_MOST_IN_MEMORY = 4_000_000
"""Events that a process without Spark holds; more would not change its rate."""
_LEAST_SECONDS = 0.001
"""What is left of a round may be nothing where there are few events."""
_ROWS_PER_BATCH = 20_000
"""As many as ``palio.spark.session`` lets Spark put into a batch."""
_MOST_GROWTH = 16


class Pace(NamedTuple):
    """How much time a run may take."""

    events: int
    """The most that are matched in a round."""
    drawn: int
    """So many of them are different."""
    round_seconds: float
    """As many events are matched as take about so long."""
    rounds: int
    """The best counts."""
    join_seconds: float
    """What one query of the SQL join may take; it is given up if it takes longer."""
    all_events: bool = False
    """Whether every round is over all events, however long that takes."""
    union_events: int = 20_000
    """Events of a round where sets with and without unions are compared."""


class Case(NamedTuple):
    """A workload at one size."""

    session: SparkSession
    workload: str
    filters: list[Filter]
    table: DataFrame
    """The filters, as Spark reads them."""
    attributes: list[str]
    """Those that some filter mentions: the columns that must be read."""
    files: EventFiles
    pace: Pace

    @property
    def title(self) -> str:
        """For messages."""
        return f"{self.workload}, {len(self.filters):,} filters"

    @property
    def cores(self) -> int:
        """Tasks that Spark runs at once."""
        return self.session.sparkContext.defaultParallelism

    def events(self, count: int) -> DataFrame:
        """Some events, from disk."""
        return self.files.events(count).read(self.session)


class OutOfReachError(PalioError):
    """An engine cannot do this case with the time and memory it has."""


class Engine(Protocol):
    """An engine that holds the filters of a case."""

    def counts(self, events: int) -> Counts | None:
        """For each filter how many of the first events it matches; ``None`` if the engine does not match."""

    def measure(self) -> Figures:
        """Its row of the report."""

    def close(self) -> None:
        """Give back what it holds."""


class PalioSpark:
    """``palio.spark.match``."""

    def __init__(self, case: Case) -> None:
        self._case = case
        start = perf_counter()
        self._filters = spark.prepare(case.table)
        if self._filters.rejected:
            raise InternalError(f"{case.title}: {self._filters.rejected:,} filters cannot be read")
        seconds, shipment = self._filters.seconds, self._filters.shipment
        self._figures: Figures = {
            "prepare_seconds": perf_counter() - start,
            "parse_seconds": seconds["parse"],
            "build_seconds": seconds["join"],
            "ship_seconds": seconds["ship"],
            "index_bytes": sum(Path(shipment.path(name)).stat().st_size for name in shipment.indexes),
        }
        self._figures["open_milliseconds"] = workers.open_milliseconds(case.session, shipment)

    def counts(self, events: int) -> Counts:
        """From the table of counts."""
        return _collected(self._query(events), self._case)

    def measure(self) -> Figures:
        """Rate, and what the filters and the workers need."""
        case = self._case
        workers.forget_peak(case.session)
        rate = _rate(case, lambda count: lambda: _consume(self._query(count)))
        used = workers.memory(case.session)
        return (
            rate.figures(case.cores)
            | self._figures
            | {"worker_peak_bytes": used.peak, "worker_anonymous_bytes": used.anonymous}
        )

    def close(self) -> None:
        """Delete the files."""
        self._filters.close()

    def _query(self, events: int) -> DataFrame:
        return spark.match(self._case.events(events), self._filters, result="counts")


class PalioProcess:
    """The index in this process, without Spark, in one thread."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._index = FilterIndex(case.filters)

    def counts(self, events: int) -> Counts:
        """By position, which is the id."""
        return self._tally(events)()

    def measure(self) -> Figures:
        """Rate of matching alone; reading is timed apart."""
        rate = _rate(self._case, self._tally, most=_MOST_IN_MEMORY)
        return rate.figures(1) | {"read_seconds": _timed(lambda: self._read(rate.events))}

    def close(self) -> None:
        """Nothing to do."""

    def _tally(self, events: int) -> Callable[[], Counts]:
        batches = self._read(events)

        def tally() -> Counts:
            counts = np.zeros(len(self._case.filters), np.int64)
            for batch in batches:
                self._index.tally(batch, counts)
            return counts

        return tally

    def _read(self, events: int) -> list[pa.RecordBatch]:
        return list(self._case.files.events(events).batches(self._case.attributes, _ROWS_PER_BATCH))


class PassThrough:
    """The same columns to Python, and nothing done with them: what is lost on the way."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def counts(self, events: int) -> None:
        """It finds nothing, but must see all rows."""
        self._count(events)

    def measure(self) -> Figures:
        """Rate."""
        return _rate(self._case, lambda count: lambda: self._count(count)).figures(self._case.cores)

    def close(self) -> None:
        """Nothing to do."""

    def _count(self, events: int) -> None:
        rows = workers.count_rows(self._case.events(events).select(self._case.attributes))
        expected = self._case.files.events(events).rows
        if rows != expected:
            raise InternalError(f"{self._case.title}: of {expected:,} events {rows:,} came through")


class SqlJoin:
    """The join of :mod:`palio.bench.spark.joins`, as long as it stays within its time."""

    def __init__(self, case: Case) -> None:
        self._case = case
        start = perf_counter()
        with self._limit():
            self._prepared = JOINS[case.workload].prepare(case.table)
        self._seconds = perf_counter() - start

    def counts(self, events: int) -> Counts:
        """From the table of counts."""
        with self._limit():
            return _collected(self._prepared.counts(self._case.events(events)), self._case)

    def measure(self) -> Figures:
        """Rate, without what a query with next to no events takes."""
        rate = _rate(self._case, lambda count: lambda: self._run(count), first=_FIRST_OF_JOIN)
        figures = rate.figures(self._case.cores, all_seconds=False)
        return figures | {"prepare_seconds": self._seconds + rate.beside}

    def close(self) -> None:
        """Give back the memory."""
        self._prepared.close()

    def _run(self, events: int) -> None:
        with self._limit():
            _consume(self._prepared.counts(self._case.events(events)))

    def _limit(self) -> AbstractContextManager[None]:
        return time_limit(self._case.session, self._case.pace.join_seconds)


@contextmanager
def time_limit(session: SparkSession, seconds: float) -> Iterator[None]:
    """Give up what Spark does in this block if it takes longer, or if Spark cannot do it."""
    context = session.sparkContext
    is_done, is_over = Event(), Event()
    too_long = f"it takes more than {seconds:g} seconds"

    def watch() -> None:
        if is_done.wait(seconds):
            return
        is_over.set()
        while True:  # a query is several jobs, and the next one may begin just now
            context.cancelJobGroup(_GROUP)
            if is_done.wait(0.2):
                return

    watching = Thread(target=watch, daemon=True)
    context.setJobGroup(_GROUP, "a join within a limited time", interruptOnCancel=True)
    watching.start()
    try:
        yield
    except AnalysisException:  # a mistake of ours
        raise
    except (Py4JError, PySparkException) as error:
        failure = str(error).strip().partition("\n")[0]
        raise OutOfReachError(too_long if is_over.is_set() else failure) from error
    else:
        if is_over.is_set():  # it came to its end all the same, before it could be stopped
            raise OutOfReachError(too_long)
    finally:
        is_done.set()
        watching.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


_GROUP = "palio-bench-sql-join"

ENGINES: dict[str, Callable[[Case], Engine]] = {
    "palio-spark": PalioSpark,
    "palio-process": PalioProcess,
    "pass-through": PassThrough,
    "sql-join": SqlJoin,
}
"""By name, in the order of the report."""


# -- timing ------------------------------------------------------------------------------------------------------------


class Rate(NamedTuple):
    """The best round."""

    events: int
    seconds: float
    beside: float
    """Seconds of them that it takes also with next to no events."""

    def figures(self, cores: int, *, all_seconds: bool = True) -> Figures:
        """As they stand in the report."""
        seconds = self.seconds if all_seconds else max(self.seconds - self.beside, _LEAST_SECONDS)
        rate = self.events / seconds
        return {"events_per_second": rate, "events": self.events, "cores": cores, "empty_seconds": self.beside}


def _rate(
    case: Case, prepare: Callable[[int], Callable[[], object]], *, first: int = _FIRST, most: int | None = None
) -> Rate:
    """Match more and more events until they, and not what comes beside, make a round long enough.

    ``prepare`` gives an operation on so many events. One that is not timed comes first: workers open the index, and
    Java compiles the query.
    """
    pace = case.pace
    available = min(most or pace.events, pace.events)
    count = min(first, available)
    prepare(count)()
    beside = min(_timed(prepare(1)) for _ in range(pace.rounds))
    if pace.all_events:
        count = available
    while True:
        operation = prepare(count)
        seconds = _timed(operation)
        if seconds - beside >= pace.round_seconds / 2 or count == available:
            seconds = min([seconds, *(_timed(operation) for _ in range(pace.rounds - 1))])
            if seconds - beside >= pace.round_seconds / 2 or count == available:
                break  # otherwise the machine was only busy with something else
        growth = pace.round_seconds / max(seconds - beside, _LEAST_SECONDS)
        power = int(math.log2(min(_MOST_GROWTH, max(2.0, growth))))
        count = min(available, count * 2**power)  # powers, so that engines share files of events
    return Rate(case.files.events(count).rows, seconds, beside)


def _timed(operation: Callable[[], object]) -> float:
    start = perf_counter()
    operation()
    return perf_counter() - start


def _consume(table: DataFrame) -> None:
    """Compute all of it and keep nothing."""
    table.write.format("noop").mode("overwrite").save()


def _collected(counted: DataFrame, case: Case) -> Counts:
    found = counted.toArrow()
    counts = np.zeros(len(case.filters), np.int64)
    counts[found["filter"].to_numpy()] = found["count"].to_numpy()
    return counts
