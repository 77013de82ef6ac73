"""Archives matched as they are: exactly what the model says of each notification, whatever types and names change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from palio import Filter, Notification, spark
from palio.archive.archiver import Archiver
from palio.archive.compaction import compact
from palio.archive.disk import Disk
from palio.archive.settings import ArchiveSettings
from palio.cli.main import palio
from palio.errors import CallerError, FileFormatError
from palio.model.value import Value
from palio.spark.file_schemas import FileSchemas
from tests.archive.logs import BEGIN, ListedLog, entry, in_entries, instant, published

VALUES: dict[str, list[Value]] = {
    "x": [1, -7, "1"],
    "a.b`c": [2.5, float(2**53)],
    "_palio": [2**53 + 1],
    "day": ["fire", ""],
    "filter": [BEGIN, instant(-(10**15))],
    "a\0b": [b"1"],
}
FILTERS = [
    "x = 1",
    "x > 0",
    'x = "1"',
    "x absent",
    "x any",
    "_palio > 9007199254740992",
    'day >* "fi"',
    "filter < 2026-11-16T00:00:00Z",
    "_palio any",
    "_palio absent and x any",
    "_payload absent",
    '"a.b`c" = 2.5',
    "day absent",
    "filter any and day any",
    "origin any or position any",
    '"X" any',
    '"X" > 1 and x any',
    "",
]


def notifications() -> list[Notification]:
    random = Random(7)
    plain = [
        Notification({name: random.choice(VALUES[name]) for name in random.sample(list(VALUES), random.randrange(4))})
        for _ in range(60)
    ]
    plain += [Notification({"x": 1, "X": 2}), Notification({"_PALIO": 1}).with_payload(b"!", "text/plain")]
    return [published(each, n) for n, each in enumerate(plain)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive in which files were compacted, and those that they were made of are still there."""
    folder = tmp_path_factory.mktemp("archive")
    log = ListedLog(in_entries(notifications(), 10))
    with Archiver(log, Disk(folder), ArchiveSettings(rows=35, tables=64)) as archiver:
        while archiver.step():
            pass
        archiver.write()
    assert compact(Disk(folder), ArchiveSettings()).into == 1
    return folder


@pytest.fixture
def telling_case(session: SparkSession) -> Iterator[None]:
    session.conf.set("spark.sql.caseSensitive", "true")
    yield
    session.conf.set("spark.sql.caseSensitive", "false")


def expected() -> set[tuple[int, int]]:
    parsed = [Filter.parse_union(text) for text in FILTERS]
    return {
        (n, number)
        for n, notification in enumerate(notifications())
        for number, filters in enumerate(parsed)
        if any(filter.matches(notification) for filter in filters)
    }


@pytest.mark.usefixtures("telling_case")
def test_an_archive_is_matched_as_the_model_does(session: SparkSession, folder: Path) -> None:
    filters = session.createDataFrame(list(enumerate(FILTERS)), "id long, text string")
    with spark.prepare(filters) as made:
        archive = spark.Archive(session, folder)
        found = [(row["_palio"], row["filter"]) for row in archive.match(made).collect()]
        with pytest.raises(CallerError, match="a wide result has one type a column"):
            archive.match(made, result="wide")
    pairs = [(envelope["sequence"], filter) for envelope, filter in found]
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) == expected()
    envelope = found[0][0]
    assert (envelope["origin"], envelope["incarnation"], envelope["publisher"]) == ("milan", 1, "palio:eva")


def test_names_that_differ_in_case_need_a_setting(session: SparkSession, folder: Path) -> None:
    with pytest.raises(FileFormatError, match=r"set spark\.sql\.caseSensitive to true"):
        spark.Archive(session, folder)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    log = ListedLog([entry([published(Notification(x=1).with_payload(b"!"), 0), published(Notification(y="a"), 1)])])
    with Archiver(log, Disk(tmp_path / "small")) as archiver:
        archiver.step()
        archiver.write()
    return tmp_path / "small"


def test_wide_results_and_counts(session: SparkSession, small: Path) -> None:
    filters = session.createDataFrame([(1, "x any"), (2, "_palio any")], "id long, text string")
    archive = spark.Archive(session, small)
    assert [tuple(row) for row in archive.match(filters, result="counts").collect()] == [(1, 1)]
    rows = archive.match(filters, result="wide").orderBy("_palio.sequence").collect()
    assert [(row["x"], row["y"], row["filters"]) for row in rows] == [(1, None, [1]), (None, "a", [])]
    assert rows[0]["_payload"]["data"] == b"!"


@pytest.mark.usefixtures("telling_case")
def test_palio_match_takes_archives(session: SparkSession, small: Path, tmp_path: Path) -> None:
    (tmp_path / "filters.txt").write_text("x > 0\n_palio any\ny any\nx any\n", encoding="utf-8")
    options = {"--events": small, "--filters": tmp_path / "filters.txt", "--out": tmp_path / "out"}
    command = ["match", "--json", *(str(each) for option in options.items() for each in option)]
    result = CliRunner().invoke(palio, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["events"]["read"], told["deliveries"]) == (2, 3)
    assert told["unknown_attributes"] == [{"name": "_palio", "perhaps": None}]
    rows = session.read.parquet(str(tmp_path / "out")).collect()
    assert {(row["_palio"]["sequence"], row["filter"]) for row in rows} == {(0, 1), (1, 3), (0, 4)}
    refused = CliRunner().invoke(palio, [*command, "--overwrite", "--key", "x"])
    assert (refused.exit_code, "is an archive" in refused.output) == (1, True)


def test_many_column_sets_are_opened_without_a_job_for_each(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The footers say what columns there are; what is read of them comes when it is matched."""
    many = 200
    log = ListedLog([entry([published(Notification({f"a{n}": n}), n)]) for n in range(many)])
    with Archiver(log, Disk(tmp_path / "many"), ArchiveSettings(rows=1)) as archiver:
        while archiver.step():
            archiver.write()
    assert len(list((tmp_path / "many").glob("*/*.parquet"))) == many
    looked: list[str] = []
    monkeypatch.setattr(FileSchemas, "_look", lambda _, file: looked.append(file))
    archive = spark.Archive(session, tmp_path / "many")
    assert len(archive.columns) == many
    assert looked == []
    assert "tables" not in vars(archive)


def test_an_archive_is_no_stream(session: SparkSession, small: Path, tmp_path: Path) -> None:
    """New files may hold what was there before."""
    folder = spark.EventFolder(session, small)
    (tmp_path / "filters.txt").write_text("x > 0\n", encoding="utf-8")
    source = spark.FilterFile(session, tmp_path / "filters.txt")
    with pytest.raises(CallerError, match="an archive of a server is no stream"):
        spark.match_stream(folder, source, tmp_path / "out", checkpoint=tmp_path / "state", key="x")
