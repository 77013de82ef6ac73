"""Whose results of streams are, and which batches are complete: nothing is lost or overwritten, whatever happens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from palio import spark
from palio.errors import CallerError, FileFormatError, PalioError
from palio.spark.results import MARK, MatchedBatch, ResultFolder

OTHER = "another checkpoint, that of query"


class Streams:
    """Events, filters, and queries that match them with several checkpoints."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session, self.folder, self.out = session, folder, folder / "out"
        self.are_distinct = False
        (folder / "filters.txt").write_text("x > 0\n", encoding="utf-8")

    def put(self, keys: Iterable[int]) -> None:
        rows = self.session.createDataFrame([(k, 1) for k in keys], "k long, x long")
        rows.coalesce(1).write.mode("append").parquet(str(self.folder / "events"))

    def events(self) -> DataFrame:
        reader = self.session.readStream.schema("k long, x long").option("maxFilesPerTrigger", 1)
        events = reader.parquet(str(self.folder / "events"))
        return events.dropDuplicates(["k"]) if self.are_distinct else events

    def start(self, checkpoint: str = "a", *, adopt: bool = False, **options: Any) -> spark.MatchQuery:
        return spark.match_stream(
            self.events(),
            spark.FilterFile(self.session, self.folder / "filters.txt"),
            self.out,
            checkpoint=self.folder / checkpoint,
            key="k",
            adopt=adopt,
            **options,
        )

    def run(self, checkpoint: str = "a", *, adopt: bool = False) -> spark.MatchQuery:
        query = self.start(checkpoint, adopt=adopt)
        assert query.awaitTermination(60)
        return query

    def delivered(self) -> list[int]:
        return sorted(row["k"] for row in self.session.read.parquet(str(self.out / "deliveries")).collect())

    def batches(self) -> list[int]:
        return sorted(int(path.name.partition("=")[2]) for path in (self.out / "deliveries").glob("batch=*"))

    def owner(self) -> dict[str, Any]:
        return dict(json.loads((self.out / MARK).read_text()))

    def forget_commit(self, checkpoint: str, batch: int) -> None:
        """As if the process had died when the batch was written and Spark had not noted it."""
        for name in (str(batch), f".{batch}.crc"):
            (self.folder / checkpoint / "commits" / name).unlink()

    def make_as_before(self) -> None:
        """Leave the results as releases without marks of their own have left them."""
        for mark in [*self.out.rglob(f"*{MARK}*")]:
            mark.unlink()


@pytest.fixture
def streams(session: SparkSession, tmp_path: Path) -> Streams:
    return Streams(session, tmp_path)


def test_another_checkpoint_is_refused(streams: Streams) -> None:
    streams.put(range(5))
    query = streams.run()
    assert streams.owner()["query"] == query.id
    streams.put(range(5, 25))
    with pytest.raises(CallerError, match=f"{OTHER} {query.id}; name a new folder.*adopt=True.*--adopt"):
        streams.start("b")
    assert not (streams.folder / "b").exists()
    assert streams.delivered() == list(range(5))
    streams.run()
    assert streams.delivered() == list(range(25))


def test_a_deleted_checkpoint_is_another_one(streams: Streams) -> None:
    streams.put(range(5))
    streams.run()
    shutil.rmtree(streams.folder / "a")
    streams.put(range(5, 10))
    with pytest.raises(CallerError, match=OTHER):
        streams.start()
    streams.run(adopt=True)
    assert streams.delivered() == sorted([*range(5), *range(10)])  # matched again, and nothing lost


def test_a_folder_that_was_taken_over(streams: Streams) -> None:
    """New batches get numbers of their own; the query that had the folder before may take it back."""
    streams.put([0])
    streams.put([1])
    streams.run()
    files = {path: path.read_bytes() for path in streams.out.rglob("*.parquet")}
    second = streams.run("b", adopt=True)
    assert (streams.batches(), streams.owner()["query"]) == ([0, 1, 2, 3], second.id)
    assert streams.delivered() == [0, 0, 1, 1]
    streams.forget_commit("b", 1)
    streams.put([2])
    streams.run("b")  # without being told to take it over: it has it
    assert (streams.batches(), streams.delivered()) == ([0, 1, 2, 3, 4], [0, 0, 1, 1, 2])
    with pytest.raises(CallerError, match=OTHER):
        streams.start()
    streams.forget_commit("a", 1)
    streams.run(adopt=True)  # its batch 1 was complete when it had the folder
    assert (streams.batches(), streams.delivered()) == ([0, 1, 2, 3, 4, 7], [0, 0, 1, 1, 2, 2])
    streams.put([3])
    streams.run(adopt=True)
    assert streams.delivered() == [0, 0, 1, 1, 2, 2, 3]
    assert {path: path.read_bytes() for path in files} == files


def test_a_folder_is_taken_over_also_without_events(streams: Streams) -> None:
    streams.put([0])
    streams.run()
    streams.session.createDataFrame([], "k long, x long").write.mode("overwrite").parquet(
        str(streams.folder / "events")
    )
    for file in (streams.folder / "events").glob("*.parquet"):
        file.unlink()
    query = streams.run("b", adopt=True)
    assert streams.owner()["query"] == query.id


def test_marks_of_spark_may_be_switched_off(streams: Streams) -> None:
    """A batch that is complete is not done again with other filters."""
    configuration = streams.session.sparkContext._jsc.hadoopConfiguration()
    name = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
    configuration.set(name, "false")
    try:
        streams.put([0])
        streams.run()
        assert not list(streams.out.rglob("_SUCCESS"))
        streams.forget_commit("a", 0)
        (streams.folder / "filters.txt").write_text("x < 0\n", encoding="utf-8")
        query = streams.run()
    finally:
        configuration.set(name, "true")
    assert streams.delivered() == [0]
    assert query.totals[:3] == (1, 1, 0)


def test_a_batch_that_is_complete_writes_the_state_of_its_stream_again(streams: Streams) -> None:
    streams.are_distinct = True
    for keys in ([1, 2], [2, 3]):
        streams.put(keys)
        streams.run()
    streams.forget_commit("a", 1)
    streams.put([3, 4])
    assert streams.run().totals.batches == 2
    assert streams.delivered() == [1, 2, 3, 4]


def test_a_batch_without_a_mark_is_written_anew(streams: Streams) -> None:
    streams.put([0])
    streams.run()
    streams.forget_commit("a", 0)
    (streams.out / "deliveries" / "batch=0" / MARK).unlink()
    (streams.folder / "filters.txt").write_text("x > 0\nx any\n", encoding="utf-8")
    streams.run()
    assert streams.delivered() == [0, 0]


def test_results_of_releases_without_marks(streams: Streams) -> None:
    """The checkpoint that knows of all batches has written them; a batch with Spark's mark was complete."""
    streams.put([0])
    streams.put([1])
    streams.run()
    streams.make_as_before()
    with pytest.raises(CallerError, match=r"holds results that this checkpoint knows nothing of.*--adopt"):
        streams.start("b")
    streams.forget_commit("a", 1)
    (streams.folder / "filters.txt").write_text("x < 0\n", encoding="utf-8")
    streams.run()
    assert streams.delivered() == [0, 1]
    (streams.folder / "filters.txt").write_text("x > 0\n", encoding="utf-8")
    streams.put([2])
    streams.run()
    assert (streams.delivered(), streams.batches()) == ([0, 1, 2], [0, 1, 2])
    streams.make_as_before()
    streams.run("b", adopt=True)
    assert (streams.delivered(), streams.batches()) == ([0, 0, 1, 1, 2, 2], [0, 1, 2, 3, 4, 5])


def test_a_file_of_the_owner_that_is_missing_or_damaged(streams: Streams) -> None:
    """The marks of the batches say whose they are."""
    streams.put([0])
    streams.run()
    for batch, content in enumerate([None, b"", b"{", b'{"query": "x"}', b"\xff"]):
        for path in streams.out.glob(f"*{MARK}*"):
            path.unlink()
        if content is not None:
            (streams.out / MARK).write_bytes(content)
        with pytest.raises(CallerError, match=OTHER):
            streams.start("b")
        streams.forget_commit("a", batch)
        streams.put([batch + 1])
        streams.run()
        found = [*range(batch + 2)]
        assert (streams.delivered(), streams.batches()) == (found, found), content


def test_a_damaged_mark_of_a_batch(streams: Streams) -> None:
    streams.put([0])
    streams.run()
    mark = streams.out / "deliveries" / "batch=0" / MARK
    mark.write_bytes(b"{")
    streams.forget_commit("a", 0)
    with pytest.raises(StreamingQueryException, match=r"batch=0/_palio.json is damaged.*delete its folder"):
        streams.run()
    shutil.rmtree(mark.parent)
    streams.run()
    assert streams.delivered() == [0]


def test_a_checkpoint_that_was_restored(streams: Streams) -> None:
    """It makes other batches of numbers that were complete; these must be neither skipped nor overwritten."""
    streams.put([0])
    streams.run()
    shutil.copytree(streams.folder / "a", streams.folder / "copy")
    streams.put([1])
    streams.run()
    shutil.rmtree(streams.folder / "a")
    (streams.folder / "copy").rename(streams.folder / "a")
    streams.put([2])
    with pytest.raises(StreamingQueryException, match=r"another batch 1 of query .*copied, or restored"):
        streams.run()
    assert streams.delivered() == [0, 1]
    streams.run(adopt=True)
    assert (streams.delivered(), streams.batches()) == ([0, 1, 1, 2], [0, 1, 2, 3])
    streams.put([3])
    streams.run()
    assert (streams.delivered(), streams.batches()) == ([0, 1, 1, 2, 3], [0, 1, 2, 3, 4])


def test_a_live_query_ends_when_its_folder_is_taken(streams: Streams) -> None:
    streams.put([0])
    first = streams.start(every="0 seconds")
    try:
        first.processAllAvailable()
        second = streams.run("b", adopt=True)
        streams.put([1])
        with pytest.raises(StreamingQueryException, match=f"was taken over by query {second.id}"):
            first.processAllAvailable()
    finally:
        first.stop()
    streams.run("b")
    assert streams.delivered() == [0, 0, 1]


def test_a_run_ends_when_another_run_of_its_query_begins(streams: Streams) -> None:
    streams.put([0])
    streams.run()
    places = (streams.session, str(streams.out), str(streams.folder / "a"))
    first, second = ResultFolder(*places, adopt=False), ResultFolder(*places, adopt=False)
    first.claim()
    second.claim()
    with pytest.raises(CallerError, match="taken over by another run of this query"):
        first.begin(0)
    with pytest.raises(CallerError, match="taken over by another run of this query"):
        first.complete(0, MatchedBatch(0, "", 0, 0))
    assert isinstance(second.begin(0), MatchedBatch)


def test_a_damaged_checkpoint(streams: Streams) -> None:
    streams.put([0])
    streams.run()
    (streams.folder / "a" / ".metadata.crc").unlink()
    (streams.folder / "a" / "metadata").write_text("nonsense")
    with pytest.raises(FileFormatError, match=r"checkpoint: .*metadata is damaged; name a new checkpoint"):
        streams.start()


def test_results_on_a_file_system_that_cannot_be(streams: Streams) -> None:
    streams.put([0])
    streams.out = Path("nowhere:/out")
    with pytest.raises(PalioError, match="No FileSystem for scheme"):
        streams.start()


def test_progress_has_deliveries(streams: Streams) -> None:
    streams.put([0, 1])
    streams.put([2])
    query = streams.run()
    told = [progress.observedMetrics["palio"] for progress in query.recentProgress if progress.numInputRows]
    assert sorted((each.batch, each.deliveries, each.unreadable) for each in told) in (
        [(0, 2, 0), (1, 1, 0)],
        [(0, 1, 0), (1, 2, 0)],
    )
    version = spark.FilterFile(streams.session, streams.folder / "filters.txt").newest()
    assert {each.version for each in told} == {version}
    assert query.totals == (2, 3, 0, 0, version)
    assert query.lastProgress is not None
    assert query.lastProgress.batchId in {0, 1, 2}
