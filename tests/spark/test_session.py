"""Starting Spark, also in separate processes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from palio import spark
from palio.errors import CallerError

CLUSTER = """
import os
from palio import spark
java = os.environ.get("SPARK_SUBMIT_OPTS", "")  # which executors do not inherit
settings = {"spark.ui.enabled": "false", "spark.executor.defaultJavaOptions": java}
session = spark.session("local-cluster[2,1,1024]", settings=settings)
filters = session.createDataFrame([(i, f"x = {i % 50}") for i in range(500)], "id long, text string").repartition(4)
events = session.range(2000).selectExpr("id as k", "id % 100 as x").repartition(4)
with spark.prepare(filters) as made:
    found = spark.match(events, made, key="k")
    print(found.count(), found.where("filter % 50 != k % 100").count())
    print(spark.match(events, made, result="counts").agg({"count": "sum"}).collect()[0][0])
later = spark.prepare(filters)  # what was closed must not be in the way
print(spark.match(events, later, result="wide").where("size(filters) = 10").count())
session.stop()
later.close()  # Spark has forgotten it already
"""


def test_executors_of_their_own() -> None:
    """Two executors in processes of their own, to which the index has to be brought."""
    done = subprocess.run([sys.executable, "-c", CLUSTER], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["10000", "0", "10000", "1000"]


def test_a_session_is_started_once(session: SparkSession) -> None:
    assert spark.session("local[2]") is session
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"
    assert session.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_session_that_exists_stays_as_it_is(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    session.conf.set("spark.sql.session.timeZone", "Europe/Rome")
    try:
        before = session.conf.getAll
        other = spark.session("local[7]", settings={"spark.sql.shuffle.partitions": "9"}, packed=__file__)
        assert other is session
        assert session.conf.getAll == before
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")
    (told,) = (record.getMessage() for record in caplog.records)
    for difference in (
        "spark.sql.session.timeZone is Europe/Rome, not UTC",
        "spark.sql.shuffle.partitions is 2, not 9",
        "its master is local[2], not local[7]",
        "it does not use ",
    ):
        assert difference in told
    assert "worker.reuse" not in told
    caplog.clear()
    assert spark.session() is session
    assert not caplog.records


@pytest.mark.parametrize("master", ["", None, 5])
def test_masters_that_are_none(master: object) -> None:
    with pytest.raises(CallerError, match="master"):
        spark.session(master)  # type: ignore[arg-type]


def test_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(sys.modules["palio.spark.session"], "_existing", lambda: None)  # the one of these tests
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(CallerError, match="no Java runtime on the PATH"):
        spark.session()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CallerError, match="no Java runtime in JAVA_HOME"):
        spark.session()


def test_an_archive_that_is_not_there() -> None:
    with pytest.raises(CallerError, match="there is no file 'missing'"):
        spark.session("spark://127.0.0.1:1", packed="missing")
