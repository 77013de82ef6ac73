"""Files on file systems that are not the disk of the driver."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from palio import Notification, spark
from palio.archive.archiver import Archiver
from palio.archive.disk import Disk
from palio.cli.match_job import Job
from palio.cli.match_stream import run_stream
from palio.errors import CallerError
from palio.spark import places
from tests.archive.logs import ListedLog, entry, published


@pytest.fixture
def elsewhere(session: SparkSession, tmp_path: Path) -> str:
    """A folder under a scheme that Hadoop knows, and the disk does not."""
    name = f"m{uuid.uuid4().hex}"
    configuration = session.sparkContext._jsc.hadoopConfiguration()
    configuration.set(f"fs.viewfs.mounttable.{name}.link./data", tmp_path.as_uri())
    return f"viewfs://{name}/data"


def test_files_are_written_read_and_found(session: SparkSession, elsewhere: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 100_000
    for each in (b"", content):
        places.write(session, f"{elsewhere}/a file", each)
        assert places.read(session, f"{elsewhere}/a file") == each
    (tmp_path / "folder").mkdir()
    assert {(each.name, each.is_folder) for each in places.entries(session, elsewhere) if each.name[0] != "."} == {
        ("a file", False),
        ("folder", True),
    }
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".a") and path.suffix != ".crc"]
    assert places.find(session, f"{elsewhere}/none") is None
    places.delete(session, f"{elsewhere}/a file")
    assert not places.exists(session, f"{elsewhere}/a file")
    with pytest.raises(CallerError, match="none' cannot be read or written: FileNotFoundException"):
        places.read(session, f"{elsewhere}/none")


@pytest.mark.parametrize("scheme", ["file", "viewfs"])
def test_filters_and_versions(session: SparkSession, elsewhere: str, tmp_path: Path, scheme: str) -> None:
    base = tmp_path.as_uri() if scheme == "file" else elsewhere
    text = 'x > 0\n\n# none\nname = "é"\n'
    (tmp_path / "versions").mkdir()
    for name in ("9.txt", "10 a b%20.txt"):
        (tmp_path / "versions" / name).write_text(text, encoding="utf-8")
    session.createDataFrame([(1, "x > 0")], "id long, text string").write.parquet(f"{base}/versions/8")
    expected = [(1, "x > 0"), (4, 'name = "é"')]
    source = spark.FilterDirectory(session, f"{base}/versions/")
    assert source.newest() == "10 a b%20.txt"
    assert [tuple(row) for row in source.read("10 a b%20.txt").collect()] == expected
    assert [tuple(row) for row in source.read("8").collect()] == [(1, "x > 0")]
    file = spark.FilterFile(session, f"{base}/versions/9.txt")
    assert [tuple(row) for row in file.read(file.newest()).collect()] == expected
    assert spark.FilterFile(session, f"{base}/versions/8").newest().endswith("Z")
    with pytest.raises(CallerError, match="there is no file or folder"):
        spark.read_filters(session, f"{base}/missing.txt")
    with pytest.raises(CallerError, match="there is no directory"):
        spark.FilterDirectory(session, f"{base}/versions/9.txt")
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    with pytest.raises(CallerError, match="is no UTF-8 text, at byte 0"):
        spark.read_filters(session, f"{base}/latin.txt")


def test_archives(session: SparkSession, elsewhere: str, tmp_path: Path) -> None:
    log = ListedLog([entry([published(Notification(x=1), 0), published(Notification(y="a"), 1)])])
    with Archiver(log, Disk(tmp_path / "archive")) as archiver:
        archiver.step()
        archiver.write()
    filters = session.createDataFrame([(1, "x any")], "id long, text string")
    for base in (elsewhere, tmp_path.as_uri()):
        archive = spark.Archive(session, f"{base}/archive")
        assert archive.count() == 2
        assert [row["filter"] for row in archive.match(filters).collect()] == [1]


def test_streams(session: SparkSession, elsewhere: str, tmp_path: Path) -> None:
    """Events, filters, results and checkpoint, also of the command."""
    (tmp_path / "events").mkdir()
    (tmp_path / "filters").mkdir()
    (tmp_path / "filters" / "1.txt").write_text("x > 0\n", encoding="utf-8")
    for number in range(5):
        pq.write_table(pa.table({"k": [number], "x": [number]}), tmp_path / "events" / f"{number} %20.parquet")
    places_of = {name: f"{elsewhere}/{name}" for name in ("events", "filters", "out")}
    job = Job(
        format="parquet",
        may_replace=False,
        result="narrow",
        keys=["k"],
        bodies=None,
        round_decimals=False,
        fail_fast=False,
        **places_of,
    )
    first = run_stream(session, job, f"{elsewhere}/checkpoint", None, lambda _: None)
    assert (first.files, first.events, first.deliveries, first.version) == (5, 5, 4, "1.txt")
    again = run_stream(session, job, f"{elsewhere}/checkpoint", None, lambda _: None)
    assert (again.batches, again.deliveries) == (0, 0)
    with pytest.raises(CallerError, match="another checkpoint"):
        run_stream(session, job, f"{elsewhere}/other", None, lambda _: None)
    job = Job(**{**vars(job), "adopt": True})
    assert run_stream(session, job, f"{elsewhere}/other", None, lambda _: None).deliveries == 4
    rows = session.read.parquet(str(tmp_path / "out" / "deliveries")).collect()
    assert sorted((row["batch"], row["k"]) for row in rows) == [(n, k) for n in (0, 1) for k in range(1, 5)]
