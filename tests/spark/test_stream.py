"""Streams against filters that change, killed and started again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import DataFrame, SparkSession

from palio import spark
from palio.errors import CallerError, UnsupportedColumnError

SCHEMA = "k long, x double"


def put(session: SparkSession, folder: Path, rows: Iterable[tuple[int, float | None]]) -> None:
    session.createDataFrame(list(rows), SCHEMA).coalesce(1).write.mode("append").parquet(str(folder / "events"))


def filters(folder: Path, version: str, *texts: str) -> None:
    (folder / "filters").mkdir(exist_ok=True)
    beside = folder / f"new-{version}"
    beside.write_text("\n".join(texts), encoding="utf-8")
    beside.rename(folder / "filters" / version)


def stream(session: SparkSession, folder: Path) -> DataFrame:
    return session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "events"))


def run(session: SparkSession, folder: Path, source: spark.FilterSource | None = None, **options: object) -> None:
    source = source or spark.FilterDirectory(session, folder / "filters")
    given = {"key": "k"} | options
    query = spark.match_stream(
        stream(session, folder),
        source,
        folder / "out",
        checkpoint=folder / "checkpoint",
        **given,  # type: ignore[arg-type]
    )
    assert query.awaitTermination(60)


def deliveries(session: SparkSession, folder: Path) -> list[tuple[int, int, str]]:
    rows = session.read.parquet(str(folder / "out" / "deliveries")).collect()
    return sorted((row["k"], row["filter"], row["version"]) for row in rows)


def test_a_new_version_of_the_filters_is_used_from_the_next_batch_on(session: SparkSession, tmp_path: Path) -> None:
    filters(tmp_path, "9.txt", "x > 0", "x > 5")
    put(session, tmp_path, [(1, 3.0), (2, 7.0)])
    run(session, tmp_path)
    filters(tmp_path, "10.txt", "x < 5", "broken >")
    put(session, tmp_path, [(3, 3.0), (4, 7.0)])
    run(session, tmp_path)
    assert deliveries(session, tmp_path) == [(1, 1, "9.txt"), (2, 1, "9.txt"), (2, 2, "9.txt"), (3, 1, "10.txt")]
    rejects = session.read.parquet(str(tmp_path / "out" / "rejects")).collect()
    assert [(row["version"], row["id"], row["text"]) for row in rejects] == [("10.txt", 2, "broken >")]


def test_a_poisoned_record_is_told_and_the_stream_goes_on(session: SparkSession, tmp_path: Path) -> None:
    filters(tmp_path, "1.txt", "x > 0")
    put(session, tmp_path, [(1, 3.0), (2, float("nan")), (3, None)])
    put(session, tmp_path, [(4, 4.0)])
    run(session, tmp_path)
    assert deliveries(session, tmp_path) == [(1, 1, "1.txt"), (4, 1, "1.txt")]
    unreadable = session.read.parquet(str(tmp_path / "out" / "unreadable")).collect()
    assert [(row["k"], row["problem"].partition(";")[0]) for row in unreadable] == [
        (2, "column 'x': float that is NaN or infinite")
    ]


def test_a_version_that_cannot_be_used_leaves_the_one_before_in_use(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The second version lacks a column; it comes while the query runs, between its first and its second batch."""
    filters(tmp_path, "1.txt", "x > 0")
    put(session, tmp_path, [(1, 3.0)])
    put(session, tmp_path, [(2, 4.0)])

    class Changing(spark.FilterDirectory):
        asked = 0

        def newest(self) -> str:
            self.asked += 1
            if self.asked == 3:  # once when the query is started, then once a batch
                session.createDataFrame([(1,)], "id long").write.parquet(str(tmp_path / "filters" / "2.parquet"))
            return super().newest()

    run(session, tmp_path, Changing(session, tmp_path / "filters"))
    assert deliveries(session, tmp_path) == [(1, 1, "1.txt"), (2, 1, "1.txt")]
    assert "the filters stay at version 1.txt: filters: columns 'id' and 'text' are needed" in caplog.text


def test_versions_of_a_table(session: SparkSession, tmp_path: Path) -> None:
    rows = session.createDataFrame([(1, "x > 0", 1), (1, "x > 5", 2)], "id long, text string, version int")
    rows.where("version = 1").write.saveAsTable("palio_filters", path=str(tmp_path / "table"))
    try:
        source = spark.FilterTable(session, "palio_filters")
        put(session, tmp_path, [(1, 3.0), (2, 7.0)])
        run(session, tmp_path, source)
        rows.where("version = 2").write.mode("append").saveAsTable("palio_filters", path=str(tmp_path / "table"))
        put(session, tmp_path, [(3, 3.0), (4, 7.0)])
        run(session, tmp_path, source)
        assert deliveries(session, tmp_path) == [(1, 1, "1"), (2, 1, "1"), (4, 1, "2")]
    finally:
        session.sql("drop table palio_filters")


def test_filters_that_are_gone_damaged_or_of_another_type(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The stream goes on with the version before, and its progress has the reason."""
    path = tmp_path / "table"
    rows = session.createDataFrame([(1, "x > 0", 1)], "id long, text string, version int")
    rows.coalesce(1).write.saveAsTable("palio_filters", path=str(path))
    put(session, tmp_path, [(1, 3.0)])
    query = spark.match_stream(
        stream(session, tmp_path),
        spark.FilterTable(session, "palio_filters"),
        tmp_path / "out",
        checkpoint=tmp_path / "checkpoint",
        key="k",
        every="0 seconds",
    )
    expected = ["", "FAILED_READ_FILE", "id", "TABLE_OR_VIEW_NOT_FOUND"]
    try:
        query.processAllAvailable()
        for number, change in enumerate([damage_new_version, give_names_as_ids, drop], 1):
            change(session, path)
            put(session, tmp_path, [(1 + number, 3.0)])
            query.processAllAvailable()
    finally:
        query.stop()
        session.sql("drop table if exists palio_filters")
    told = {
        each["batch"]: each["kept_because"]
        for progress in query.recentProgress
        if progress.numInputRows
        for each in [progress.observedMetrics["palio"]]
    }
    assert [reason in (told[number] or "") for number, reason in enumerate(expected)] == [True] * 4, told
    assert told[0] is None
    assert deliveries(session, tmp_path) == [(k, 1, "1") for k in (1, 2, 3, 4)]
    assert caplog.text.count("the filters stay at version 1") == 3
    assert query.totals[:2] == (4, 4)


def damage_new_version(session: SparkSession, path: Path) -> None:
    rows = session.createDataFrame([(1, "x > 5", 2)], "id long, text string, version int")
    before = {*path.glob("*.parquet")}
    rows.coalesce(1).write.mode("append").saveAsTable("palio_filters", path=str(path))
    for file in {*path.glob("*.parquet")} - before:
        (file.parent / f".{file.name}.crc").unlink()
        file.write_bytes(b"PAR1 damaged")


def give_names_as_ids(session: SparkSession, path: Path) -> None:
    session.sql("drop table palio_filters")
    rows = session.createDataFrame([("one", "x > 5", 3)], "id string, text string, version int")
    rows.write.saveAsTable("palio_filters", path=str(path.with_name("names")))


def drop(session: SparkSession, path: Path) -> None:
    session.sql("drop table palio_filters")


def test_a_file_that_is_replaced(session: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "filters: all.txt"
    path.write_text("x > 0\nbroken >", encoding="utf-8")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    source = spark.FilterFile(session, path)
    put(session, tmp_path, [(1, 3.0)])
    run(session, tmp_path, source)
    path.write_text("x > 0\n\nx > 1", encoding="utf-8")
    put(session, tmp_path, [(2, 3.0)])
    run(session, tmp_path, source)
    first, second = "2001-09-09T01-46-40.000000Z", source.newest()
    assert deliveries(session, tmp_path) == [(1, 1, first), (2, 1, second), (2, 3, second)]
    rejects = session.read.parquet(str(tmp_path / "out" / "rejects")).collect()
    assert [(row["version"], row["id"]) for row in rejects] == [(first, 2)]
    with pytest.raises(CallerError, match="there is no file"):
        spark.FilterFile(session, tmp_path / "missing.txt")


def test_versions_with_any_name(session: SparkSession, tmp_path: Path) -> None:
    name = "a b:c%d=é.txt"
    filters(tmp_path, name, "x > 0", "broken >")
    put(session, tmp_path, [(1, 3.0)])
    run(session, tmp_path)
    assert deliveries(session, tmp_path) == [(1, 1, name)]
    rejects = session.read.parquet(str(tmp_path / "out" / "rejects")).collect()
    assert [row["version"] for row in rejects] == [name]


def test_other_sources_of_streams(session: SparkSession, tmp_path: Path) -> None:
    """Numbers that Spark makes up, and lines from a socket."""
    made = spark.prepare(session.createDataFrame([(1, "value >= 0"), (2, 'value >* "fire"')], "id long, text string"))
    with socket.create_server(("127.0.0.1", 0)) as server, Lines(server, ["fire 1", "water", "fire 2"]):
        host, port = server.getsockname()
        lines = session.readStream.format("socket").option("host", host).option("port", port).load()
        numbers = session.readStream.format("rate").option("rowsPerSecond", 50).load()
        for name, events in (("lines", lines), ("numbers", numbers)):
            found = spark.match(events, made, key="value")
            query = found.writeStream.format("memory").queryName(name).start()
            try:
                wait_until(lambda name=name: session.table(name).count() >= 2)  # type: ignore[misc]
            finally:
                query.stop()
    assert sorted(row["value"] for row in session.table("lines").collect()) == ["fire 1", "fire 2"]
    assert {row["filter"] for row in session.table("numbers").collect()} == {1}


class Lines(Thread):
    """Sends lines to whoever connects, until the end of the ``with`` block."""

    def __init__(self, server: socket.socket, lines: list[str]) -> None:
        super().__init__(daemon=True)
        self.server, self.lines, self.is_over = server, lines, Event()

    def run(self) -> None:
        connections = []
        with suppress(OSError):  # when the server is closed
            while not self.is_over.is_set():
                connection, _ = self.server.accept()
                connection.sendall("".join(f"{line}\n" for line in self.lines).encode())
                connections.append(connection)
        for connection in connections:
            connection.close()

    def __enter__(self) -> Lines:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.server.shutdown(socket.SHUT_RDWR)
        self.join(10)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def test_wide_and_counted_results(session: SparkSession, tmp_path: Path) -> None:
    filters(tmp_path, "1.txt", "x > 0", "x > 5")
    put(session, tmp_path, [(1, 3.0), (2, 7.0), (3, -1.0)])
    run(session, tmp_path, key=None, result="wide")
    rows = session.read.parquet(str(tmp_path / "out" / "deliveries")).collect()
    assert {row["k"]: row["filters"] for row in rows} == {1: [1], 2: [1, 2], 3: []}
    (tmp_path / "checkpoint").rename(tmp_path / "old")
    (tmp_path / "out").rename(tmp_path / "old out")
    run(session, tmp_path, key=None, result="counts")
    rows = session.read.parquet(str(tmp_path / "out" / "deliveries")).collect()
    assert {row["filter"]: row["count"] for row in rows} == {1: 2, 2: 1}


def test_which_version_is_the_newest(session: SparkSession, tmp_path: Path) -> None:
    source = spark.FilterDirectory(session, tmp_path)
    with pytest.raises(CallerError, match="no version in"):
        source.newest()
    for name in ("9.txt", "v10.txt", ".hidden", "_ignored", "2.txt"):
        (tmp_path / name).write_text("x = 1", encoding="utf-8")
    (tmp_path / "11").mkdir()
    assert source.newest() == "v10.txt"
    (tmp_path / "11" / "_SUCCESS").touch()
    assert source.newest() == "11"
    (tmp_path / "latest.txt").write_text("x = 1", encoding="utf-8")
    assert source.newest() == "latest.txt"


def test_what_is_wrong_is_told_before_the_stream_starts(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="there is no directory"):
        spark.FilterDirectory(session, tmp_path / "missing")
    filters(tmp_path, "1.txt", "x > 0")
    put(session, tmp_path, [(1, 1.0)])
    source = spark.FilterDirectory(session, tmp_path / "filters")
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(CallerError, match="no stream"):
        spark.match_stream(session.range(3), source, **places)
    events = stream(session, tmp_path)
    with pytest.raises(CallerError, match="key: narrow results need"):
        spark.match_stream(events, source, **places)
    with pytest.raises(CallerError, match="'version' would be in the result twice"):
        spark.match_stream(events.withColumnRenamed("k", "version"), source, **places, key="version")
    with pytest.raises(UnsupportedColumnError, match="'x' of type 'array"):
        spark.match_stream(events.selectExpr("k", "array(x) as x"), source, **places, key="k")


# -- processes that die ------------------------------------------------------------------------------------------------


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that matches the stream; it is killed at the end."""
    command = [sys.executable, "-m", "tests.spark.stream_worker", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def next_line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


def go_on(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    worker.stdin.write("\n")
    worker.stdin.flush()


def test_a_query_that_is_killed_goes_on_and_delivers_everything_once(session: SparkSession, tmp_path: Path) -> None:
    """Killed when the second batch is written and Spark has not noted it; meanwhile the filters change."""
    filters(tmp_path, "1.txt", "x > 0")
    for batch in range(4):
        put(session, tmp_path, [(10 * batch + i, float(i)) for i in range(3)])
    with started(tmp_path) as worker:
        assert next_line(worker) == "0"
        go_on(worker)
        assert next_line(worker) == "1"
    filters(tmp_path, "2.txt", "x > 1")
    told = []
    with started(tmp_path) as worker:
        while (line := next_line(worker)) not in {"done", ""}:
            told.append(line)
            go_on(worker)
    assert (told, line) == (["1", "2", "3"], "done")
    found = session.read.parquet(str(tmp_path / "out" / "deliveries")).collect()
    assert {row["batch"]: row["version"] for row in found} == {0: "1.txt", 1: "1.txt", 2: "2.txt", 3: "2.txt"}
    order = {row["k"] // 10: row["batch"] for row in found}  # files come in the order of their times
    assert sorted(order.values()) == [0, 1, 2, 3]
    expected = [k for k in range(40) if 0 < k % 10 < 3 and (k % 10 > 1 or order[k // 10] < 2)]
    assert sorted(row["k"] for row in found) == expected
