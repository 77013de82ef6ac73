"""The cost of unions: the same filters with and without them, in turn, so that other work slows all of them alike.

All filters are of the kind ``x >= n``, and an event matches about one in a hundred: handing out pairs, and not finding
them, is most of the work, and leaving out what a union has twice would show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from palio import spark
from palio.bench.report import Figure
from palio.errors import InternalError

FILTERS = 75_000
ROUNDS = 10
_LIMITS = 1000
"""Filters ask for so many different values."""
_RESULTS: tuple[spark.Result, ...] = ("counts", "narrow")
_PLAIN = "no union"


class _Set(NamedTuple):
    """Filters by the values from which on they match; several for a union."""

    name: str
    unions: list[list[int]]

    def expected(self, values: list[int]) -> list[int]:
        """How many events each matches: those from the least of its values on."""
        ordered = np.sort(values)
        return [len(values) - int(np.searchsorted(ordered, min(union))) for union in self.unions]


def run(
    session: SparkSession, folder: Path, events: int, progress: Callable[[str], None]
) -> Iterator[dict[str, Figure]]:
    """A row for each kind of set and result: the median of ten rounds, and how many times that without unions it is."""
    random = Random(24)  # noqa: S311 - the same events and filters for every run
    values = [random.randrange(_LIMITS // 50) for _ in range(events)]
    _write(values, folder / "events", session.sparkContext.defaultParallelism)
    table = session.read.parquet((folder / "events").as_uri())
    with ExitStack() as stack:
        runs: dict[tuple[str, spark.Result], Callable[[], None]] = {}
        for each in _sets(random):
            progress(f"unions, {FILTERS:,} filters: preparing {each.name}")
            made = stack.enter_context(spark.prepare(_table(session, each, folder)))
            _check(each, values, spark.match(table, made, result="counts"))
            for result in _RESULTS:
                runs[each.name, result] = partial(_match, table, made, result)
        progress(f"unions, {FILTERS:,} filters: measuring")
        seconds = _in_turn(runs)
    for (name, result), taken in seconds.items():
        yield {
            "workload": "unions",
            "filters": FILTERS,
            "engine": "palio-spark",
            "set": name,
            "result": result,
            "events": events,
            "seconds": taken,
            "times_plain": taken / seconds[_PLAIN, result],
        }


def _sets(random: Random) -> Iterator[_Set]:
    plain = [[random.randrange(_LIMITS)] for _ in range(FILTERS)]
    middle = FILTERS // 2
    yield _Set(_PLAIN, plain)
    one = plain[middle] + plain[middle + 1]
    yield _Set("one union", [*plain[:middle], one, *plain[middle + 2 :]])
    yield _Set("one, far apart", [plain[0] + plain[-1], *plain[1:-1]])
    yield _Set("one, matches all", [*plain[:middle], [*plain[middle], 0], *plain[middle + 1 :]])
    yield _Set("all in pairs", [first + second for first, second in zip(plain[::2], plain[1::2], strict=True)])


def _table(session: SparkSession, filters: _Set, folder: Path) -> DataFrame:
    """Unions as one text, except that a union of the first and the last filter is two rows."""
    rows = [(id, " or ".join(f"x >= {limit}" for limit in union)) for id, union in enumerate(filters.unions)]
    if filters.name == "one, far apart":
        first, last = filters.unions[0]
        rows = [(0, f"x >= {first}"), *rows[1:], (0, f"x >= {last}")]
    path = folder / f"{filters.name}.parquet"
    ids, texts = zip(*rows, strict=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "text": pa.array(texts)}), path)
    return session.read.parquet(str(path))


def _write(values: list[int], folder: Path, files: int) -> None:
    folder.mkdir()
    share = -(-len(values) // files)
    for begin in range(0, len(values), share):
        some = values[begin : begin + share]
        table = pa.table({"k": range(begin, begin + len(some)), "x": pa.array(some, pa.int64())})
        pq.write_table(table, folder / f"{begin}.parquet")


def _match(events: DataFrame, made: spark.FilterSet, result: spark.Result) -> None:
    found = spark.match(events, made, key="k" if result == "narrow" else None, result=result)
    found.write.format("noop").mode("overwrite").save()


def _check(filters: _Set, values: list[int], counted: DataFrame) -> None:
    expected = {id: count for id, count in enumerate(filters.expected(values)) if count}
    found = {row["filter"]: row["count"] for row in counted.collect()}
    if found != expected:
        wrong = sum(found.get(id) != expected.get(id) for id in found.keys() | expected.keys())
        raise InternalError(f"unions, {filters.name}: {wrong:,} filters are counted wrongly")


def _in_turn(runs: dict[tuple[str, spark.Result], Callable[[], None]]) -> dict[tuple[str, spark.Result], float]:
    """The median of ten rounds in which each has its turn, now forwards, now backwards; the first does not count."""
    taken: dict[tuple[str, spark.Result], list[float]] = {key: [] for key in runs}
    for round in range(ROUNDS + 1):
        for key, operation in list(runs.items())[:: 1 if round % 2 else -1]:
            start = perf_counter()
            operation()
            if round > 0:
                taken[key].append(perf_counter() - start)
    return {key: median(seconds) for key, seconds in taken.items()}
