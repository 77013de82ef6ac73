"""Streams of files whose columns change, and of files that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from palio import spark
from palio.errors import CallerError


class Stream:
    """A folder of events, a folder of filters, and what a stream makes of them."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session = session
        self.folder = folder
        self.events = folder / "events here"
        self.events.mkdir()
        (folder / "filters").mkdir()

    def filters(self, version: str, *texts: str) -> None:
        (self.folder / "filters" / version).write_text("\n".join(texts), encoding="utf-8")

    def put(self, name: str, **columns: pa.Array | list[Any]) -> Path:
        path = self.events / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path)
        return path

    def run(
        self, *, format: str = "parquet", files: int | None = None, key: str | None = "k", result: Any = "narrow"
    ) -> int:
        """Match what is there; how many events there were."""
        folder = spark.EventFolder(self.session, self.events, format, files_per_batch=files)
        source = spark.FilterDirectory(self.session, self.folder / "filters")
        query = spark.match_stream(
            folder, source, self.folder / "out", checkpoint=self.folder / "checkpoint", key=key, result=result
        )
        assert query.awaitTermination(60)
        return folder.events

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        path = self.folder / "out" / table
        if not path.exists():
            return []
        found = self.session.read.option("mergeSchema", "true").parquet(str(path))
        return sorted((tuple(row[name] for name in columns) for row in found.collect()), key=str)

    def skipped(self) -> list[tuple[str, str | None, str]]:
        return [
            (Path(file).name, record, problem)
            for file, record, problem in self.rows("skipped", "file", "record", "problem")
        ]


@pytest.fixture
def stream(session: SparkSession, tmp_path: Path) -> Stream:
    return Stream(session, tmp_path)


def test_columns_that_change_from_file_to_file(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0", 'x = "a"', "y = 1", "x absent")
    stream.put("1.parquet", k=[1, 2], x=[1.5, -1.5])
    stream.put("2.parquet", k=pa.array([3, 4], pa.int32()), x=["a", "b"])
    stream.put("3.parquet", k=pa.array([5], pa.int16()), y=[1])
    stream.put("4.parquet", k=[6], x=pa.array([2], pa.int8()), z=[[1, 2]])
    assert stream.run() == 6
    assert stream.rows("deliveries", "k", "filter") == [(1, 1), (3, 2), (5, 3), (5, 4), (6, 1)]
    assert stream.skipped() == []


def test_columns_that_change_while_the_stream_runs(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0")
    stream.put("1.parquet", k=[1], x=[1])
    stream.put("2.parquet", k=[2], x=["no number"])
    stream.put("3.parquet", k=[3], x=[0.5])
    assert stream.run(files=1) == 3
    stream.put("4.parquet", x=[7], k=[4], news=["new"])
    assert stream.run() == 1
    assert stream.rows("deliveries", "k", "filter") == [(1, 1), (3, 1), (4, 1)]
    assert len({batch for (batch,) in stream.rows("deliveries", "batch")}) == 3


def test_wide_results_get_new_columns_and_keep_their_types(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0")
    stream.put("1.parquet", k=[1], x=[1.5])
    stream.run(key=None, result="wide")
    stream.put("2.parquet", k=[2], x=[2.5], y=["new"])
    stream.put("3.parquet", k=[3], x=["text"])
    stream.run(key=None, result="wide")
    assert stream.rows("deliveries", "k", "x", "y", "filters") == [(1, 1.5, None, [1]), (2, 2.5, "new", [1])]
    told = "column 'x' of type string: results have it as double; cast it, or begin another folder of results"
    assert stream.skipped() == [("3.parquet", None, told)]


def test_counts_of_files_with_different_columns_are_added_up(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0", "y = 1")
    stream.put("1.parquet", x=[1.5, 2.5])
    stream.put("2.parquet", x=[3], y=[1])
    stream.run(key=None, result="counts")
    assert stream.rows("deliveries", "filter", "count") == [(1, 3), (2, 1)]


def test_a_session_that_takes_times_for_readings_of_clocks(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0", "t > 2026-07-02T12:00:00Z")
    (stream.events / "1.json").write_text('{"k": 1, "x": 1, "t": "2026-07-02T12:00:01Z"}\n', encoding="utf-8")
    stream.session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        assert stream.run(format="json") == 1
    finally:
        stream.session.conf.unset("spark.sql.timestampType")
    assert stream.rows("deliveries", "k", "filter") == [(1, 1), (1, 2)]


@pytest.mark.parametrize("name", ["", "out", "more/below/out"])
def test_results_among_events_are_refused(stream: Stream, name: str) -> None:
    """They would be events of the next batch, again and again."""
    stream.filters("1.txt", "x > 0")
    folder = spark.EventFolder(stream.session, f"file://{stream.events}/")
    source = spark.FilterDirectory(stream.session, stream.folder / "filters")
    beside, within = stream.folder / "beside", stream.events / name
    for role, places in (("out", (within, beside)), ("checkpoint", (beside, within))):
        with pytest.raises(CallerError, match=f"{role}: .* lies in the folder of events"):
            spark.match_stream(folder, source, places[0], checkpoint=places[1], key="k")
    assert not beside.exists()
    stream.put("1.parquet", k=[1], x=[1])
    for _ in range(2):  # such names are passed over
        query = spark.match_stream(
            folder, source, stream.events / "_out", checkpoint=stream.events / ".state", key="k", every="0 seconds"
        )
        query.processAllAvailable()
        query.stop()
    assert folder.events == 1


@pytest.mark.parametrize("name", ["", "/"])
def test_results_that_have_no_folder(stream: Stream, name: str) -> None:
    stream.filters("1.txt", "x > 0")
    folder = spark.EventFolder(stream.session, stream.events)
    source = spark.FilterDirectory(stream.session, stream.folder / "filters")
    beside = stream.folder / "beside"
    for role, (out, checkpoint) in (("out", (name, beside)), ("checkpoint", (beside, name))):
        with pytest.raises(CallerError, match=f"{role}: '{name}' is no folder"):
            spark.match_stream(folder, source, out, checkpoint=checkpoint, key="k")


def damage(path: Path) -> None:
    """Spoil the data and leave the footer as it is."""
    content = bytearray(path.read_bytes())
    for place in range(8, len(content) // 2):
        content[place] ^= 0x55
    path.write_bytes(content)


def test_files_that_cannot_be_read_are_skipped_and_told(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0")
    stream.put("1.parquet", k=[1], x=[1])
    (stream.events / "2.parquet").write_text("nonsense", encoding="utf-8")
    damage(stream.put("3 %20.parquet", k=list(range(10_000)), x=list(range(10_000))))
    damage(stream.put("4.parquet", k=list(range(10_000)), x=list(range(10_000))))
    stream.put("5.parquet", other=[1])
    stream.put("6.parquet", k=[6], x=[[1]])
    stream.put("7.parquet", k=["seven"], x=[1])
    stream.put("8.parquet", k=[8], x=[8])
    assert stream.run() == 2
    assert stream.rows("deliveries", "k", "filter") == [(1, 1), (8, 1)]
    problems = {name: problem for name, _, problem in stream.skipped()}
    assert list(problems) == [f"{name}.parquet" for name in ("2", "3 %20", "4", "5", "6", "7")]
    assert "Could not read footer" in problems["2.parquet"]
    assert "FAILED_READ_FILE" in problems["3 %20.parquet"]
    assert "no column 'k'" in problems["5.parquet"]
    assert "column 'x' of type 'array<bigint>'" in problems["6.parquet"]
    assert "column 'k' of type string: results have it as bigint" in problems["7.parquet"]
    stream.put("9.parquet", k=[9], x=[9])
    assert stream.run() == 1
    assert stream.rows("deliveries", "k", "filter") == [(1, 1), (8, 1), (9, 1)]


def test_a_batch_of_nothing_but_bad_files(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0")
    (stream.events / "1.parquet").write_text("nonsense", encoding="utf-8")
    assert stream.run() == 0
    stream.put("2.parquet", k=[2], x=[2])
    assert stream.run() == 1
    assert stream.rows("deliveries", "k", "filter") == [(2, 1)]
    assert [name for name, _, _ in stream.skipped()] == ["1.parquet"]


def test_lines_that_are_no_json(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0", "x absent")
    (stream.events / "1.json").write_text('{"k": 1, "x": 1}\n{"k": 2, "x"\n[3]\n\n{"k": 4}\n', encoding="utf-8")
    (stream.events / "2.json").write_text('{"k": 5, "x": 2.5, "more": "text"}\n', encoding="utf-8")
    (stream.events / "3.json").write_text("", encoding="utf-8")
    (stream.events / "4.json").write_text("nonsense\n", encoding="utf-8")
    assert stream.run(format="json") == 3
    assert stream.rows("deliveries", "k", "filter") == [(1, 1), (4, 2), (5, 1)]
    lines = [(name, record) for name, record, problem in stream.skipped() if problem == "no JSON object"]
    assert lines == [("1.json", "[3]"), ("1.json", '{"k": 2, "x"')]
    assert ("4.json", None, "none of its lines is a JSON object") in stream.skipped()


def test_csv_whose_columns_stand_elsewhere(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0")
    (stream.events / "1.csv").write_text("k,x\n1,5\n", encoding="utf-8")
    (stream.events / "2.csv").write_text("x,note,k\n7,a note,2\n-7,another,3\n", encoding="utf-8")
    assert stream.run(format="csv") == 3
    assert stream.rows("deliveries", "k", "filter") == [(1, 1), (2, 1)]


def test_lines_of_csv_that_were_cut_off(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0", "x any")
    (stream.events / "1.csv").write_text("k,x,note\n1,5,a\n2,6\n3,7,b,c\n", encoding="utf-8")
    (stream.events / "2.csv").write_text("k,x,note\n4,8,a\n", encoding="utf-8")
    assert stream.run(format="csv") == 2
    assert stream.rows("deliveries", "k", "filter") == [(1, 1), (1, 2), (4, 1), (4, 2)]
    problem = "not a value for each of the 3 columns"
    assert stream.skipped() == [("1.csv", "2,6", problem), ("1.csv", "3,7,b,c", problem)]


def test_names_of_folders_give_columns(stream: Stream) -> None:
    stream.filters("1.txt", 'place = "milan"')
    stream.put("place=milan/1.parquet", k=[1])
    stream.put("place=rome/1.parquet", k=[2])
    assert stream.run() == 2
    assert stream.rows("deliveries", "k", "filter") == [(1, 1)]


def test_what_an_earlier_try_left_does_not_stay(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0")
    stream.put("0.parquet", k=[0], x=[0])
    stream.run()
    stream.put("1.parquet", k=[1], x=[1])
    for name in ("unreadable", "skipped"):
        stale = stream.folder / "out" / name / "batch=1"
        stale.mkdir(parents=True)
        pq.write_table(pa.table({"file": ["stale"], "record": ["stale"], "problem": ["stale"]}), stale / "1.parquet")
    stream.run()
    assert stream.rows("deliveries", "k", "filter") == [(1, 1)]
    assert list((stream.folder / "out").glob("unreadable/*")) == list((stream.folder / "out").glob("skipped/*")) == []


def test_a_version_whose_ids_have_another_type_is_not_used(stream: Stream) -> None:
    stream.filters("1.txt", "x > 0")
    stream.put("1.parquet", k=[1], x=[1])
    stream.run()
    (stream.folder / "filters" / "2.json").write_text('{"id": "one", "text": "x > 5"}\n', encoding="utf-8")
    with pytest.raises(CallerError, match="ids of type string: results have filter as bigint"):
        stream.run()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda session: spark.EventFolder(session, "x", "xml"), "'xml' is none of parquet, json, csv"),
        (lambda session: spark.EventFolder(session, "x", files_per_batch=0), "files_per_batch: 0"),
    ],
)
def test_folders_that_cannot_be(session: SparkSession, make: Callable[[SparkSession], object], told: str) -> None:
    with pytest.raises(CallerError, match=told):
        make(session)
