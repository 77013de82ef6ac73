"""Sets of filters that were made for one call: closed when they cannot be needed, and not before."""

from __future__ import annotations

import gc
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from palio import spark
from palio.errors import CallerError
from palio.spark import temporary

FILTERS = [(1, "x > 1"), (2, "x < 3")]


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], int]:
    """How many folders of sets there are."""
    place = tmp_path / "sets"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return lambda: len(list(place.glob("palio-*")))


def table(session: SparkSession) -> DataFrame:
    return session.createDataFrame(FILTERS, "id long, text string")


def events(session: SparkSession) -> DataFrame:
    return session.range(5).selectExpr("id as k", "id as x")


def collect_garbage(session: SparkSession) -> None:
    gc.collect()
    session.range(1).collect()  # Spark remembers the last job for a while
    session.sparkContext._jvm.java.lang.System.gc()  # type: ignore[union-attr]


def wait_until_closed(session: SparkSession, folders: Callable[[], int]) -> None:
    deadline = time.monotonic() + 60
    while folders():
        assert time.monotonic() < deadline, "a set was not closed"
        collect_garbage(session)
        temporary.close_unused()
        time.sleep(0.1)


def cached(session: SparkSession) -> int:
    return int(session.sparkContext._jsc.getPersistentRDDs().size())


def test_many_matches_leave_nothing(session: SparkSession, folders: Callable[[], int]) -> None:
    before = cached(session)
    for _ in range(12):
        assert spark.match(events(session), table(session), key="k").count() == 6
        assert cached(session) == before
        gc.collect()
    assert folders() < 10  # Java was asked to collect garbage now and then
    assert spark.match(events(session), table(session), result="counts").count() == 2
    wait_until_closed(session, folders)


def test_what_is_derived_from_a_result_can_still_be_computed(session: SparkSession, folders: Callable[[], int]) -> None:
    found = spark.match(events(session), table(session), key="k")
    counts = spark.match(events(session), table(session), result="counts").where("count > 0")
    derived = found.where("filter = 1").groupBy("filter").count()
    found.createOrReplaceTempView("found")
    del found
    for _ in range(5):
        collect_garbage(session)
        temporary.close_unused()
    assert folders() == 2
    assert [tuple(row) for row in derived.collect()] == [(1, 3)]
    assert session.table("found").count() == 6
    assert sorted(tuple(row) for row in counts.collect()) == [(1, 3), (2, 3)]
    del derived, counts
    session.catalog.dropTempView("found")
    wait_until_closed(session, folders)


def test_an_iterator_keeps_its_set(session: SparkSession, folders: Callable[[], int]) -> None:
    """For longer than it needs it: Spark never forgets the jobs of an iterator, see ``palio.spark.temporary``."""
    rows = spark.match(events(session), table(session), key="k").orderBy("k", "filter").toLocalIterator()
    first = next(rows)
    for _ in range(5):
        collect_garbage(session)
        temporary.close_unused()
    assert [tuple(row) for row in [first, *rows]] == [(0, 2), (1, 2), (2, 1), (2, 2), (3, 1), (4, 1)]
    assert folders() == 1


def test_a_query_keeps_its_set(session: SparkSession, folders: Callable[[], int], tmp_path: Path) -> None:
    source = tmp_path / "events"
    events(session).write.parquet(str(source))
    stream = session.readStream.schema("k long, x long").parquet(str(source))
    query = spark.match(stream, table(session), key="k").writeStream.format("memory").queryName("kept").start()
    try:
        for more in range(3):
            query.processAllAvailable()
            collect_garbage(session)
            temporary.close_unused()
            assert session.table("kept").count() == 6 * (more + 1)
            events(session).write.mode("append").parquet(str(source))
        query.processAllAvailable()
    finally:
        query.stop()
    session.catalog.dropTempView("kept")
    del query, stream
    assert folders() == 1


def test_a_call_that_fails_leaves_nothing(session: SparkSession, folders: Callable[[], int]) -> None:
    with pytest.raises(CallerError, match="would be in the result twice"):
        spark.match(events(session).withColumnRenamed("k", "filters"), table(session), result="wide")
    assert folders() == 0


def test_patterns_are_closed_too(session: SparkSession, folders: Callable[[], int]) -> None:
    ticks = session.sql("select timestamp_micros(id) as t, id as k, id as x from range(4)")
    patterns = session.createDataFrame([(1, "x = 1 then x = 2"), (2, "x >")], "id long, text string")
    found = spark.match_patterns(ticks, patterns, order=["t", "k"])
    collect_garbage(session)
    temporary.close_unused()
    assert found.count() == 1
    del found
    wait_until_closed(session, folders)


def test_warnings(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    rows = [(1, "x > 1"), (2, "x >"), (3, "y ="), (4, "X any or colour = 1 or level absent")]
    filters = session.createDataFrame(rows, "id long, text string")
    with caplog.at_level(logging.WARNING, "palio.spark"):
        assert spark.match(events(session).withColumnRenamed("k", "levle"), filters, key="levle").count() == 8
    rejects, missing = (record.getMessage() for record in caplog.records)
    assert rejects.startswith("filters are left out: filter 2: ")
    assert rejects.endswith("; 1 more cannot be read")
    assert missing == (
        "attributes that filters mention and no column has: 'X' (perhaps 'x'?), 'colour', 'level' (perhaps 'levle'?)"
    )
    caplog.clear()
    with spark.prepare(session.createDataFrame([(1, "y any")], "id long, text string")) as made:
        for _ in range(2):
            spark.match(events(session), made, key="k")
    assert len(caplog.records) == 1
