"""Archives of which some files are damaged: these are named and counted, and the others are matched."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from palio import Notification, spark
from palio.archive.archiver import Archiver
from palio.archive.disk import Disk
from palio.archive.settings import ArchiveSettings
from palio.cli.main import palio
from palio.errors import FileFormatError
from palio.spark import damaged_files
from palio.spark.damaged_files import skipped_text
from tests.archive.logs import ListedLog, entry, published
from tests.spark import damage

ROLLS = 6
FILTERS = [(1, "x >= 0"), (2, "y any"), (3, "x < 100 and y absent")]


@pytest.fixture
def archive(tmp_path: Path) -> list[Path]:
    """One file for each of six notifications, half of which have another column too."""
    folder = tmp_path / "archive 100%"
    log = ListedLog(
        [entry([published(Notification({"x": n} | ({"y": "a"} if n % 2 else {})), n)]) for n in range(ROLLS)]
    )
    with Archiver(log, Disk(folder), ArchiveSettings(rows=1)) as archiver:
        while archiver.step():
            archiver.write()
    files = sorted(folder.glob("*/*.parquet"))
    assert len(files) == ROLLS
    return files


def filters(session: SparkSession) -> Any:
    return session.createDataFrame(FILTERS, "id long, text string")


def expected(*numbers: int) -> set[tuple[int, int]]:
    return {(n, id) for n in numbers for id in ([1, 2] if n % 2 else [1, 3])}


def pairs(session: SparkSession, archive: spark.Archive) -> set[tuple[int, int]]:
    rows = archive.match(filters(session)).collect()
    return {(row["_palio"]["sequence"], row["filter"]) for row in rows}


def names(archive: spark.Archive) -> list[str]:
    return sorted(Path(each.file).name for each in archive.skipped)


@pytest.mark.parametrize("harm", [damage.cut, damage.empty, damage.replace])
def test_files_without_a_footer_are_left_out_at_once(
    session: SparkSession, archive: list[Path], caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None]
) -> None:
    for file in archive[1:3]:
        harm(file)
    with caplog.at_level(logging.WARNING, "palio.spark"):
        opened = spark.Archive(session, archive[0].parents[1])
    assert names(opened) == [file.name for file in archive[1:3]]
    told = "the file is empty" if harm is damage.empty else "Could not read footer"
    assert all(told in each.problem for each in opened.skipped)
    assert [record.getMessage() for record in caplog.records] == [
        f"{archive[0].parents[1]}: {skipped_text(opened.skipped)}"
    ]
    assert (opened.count(), pairs(session, opened)) == (4, expected(0, 3, 4, 5))


def test_files_with_damaged_contents_are_left_out_when_matched(
    session: SparkSession, archive: list[Path], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (archive[1], archive[2], archive[4]):
        damage.spoil(file)
    opened = spark.Archive(session, archive[0].parents[1])
    assert opened.skipped == ()
    with caplog.at_level(logging.WARNING, "palio.spark"):
        assert pairs(session, opened) == expected(0, 3, 5)
    assert names(opened) == [file.name for file in (archive[1], archive[2], archive[4])]
    assert any("3 files are skipped" in record.getMessage() for record in caplog.records)
    counted = opened.match(filters(session), result="counts").collect()
    assert {row["filter"]: row["count"] for row in counted} == {1: 3, 2: 2, 3: 1}
    wide = opened.match(filters(session), result="wide").collect()
    assert sorted((row["x"], sorted(row["filters"])) for row in wide) == [(0, [1, 3]), (3, [1, 2]), (5, [1, 2])]
    monkeypatch.setattr(damaged_files, "_rows_of", None)  # what was read once is not read again
    assert len(opened.skipped) == 3
    assert pairs(session, opened) == expected(0, 3, 5)


def test_damage_in_columns_that_are_not_read_does_not_matter(session: SparkSession, archive: list[Path]) -> None:
    """Only the column of x, which is behind the others, is damaged."""
    column = pq.ParquetFile(archive[0]).metadata.row_group(0).column(0)
    assert column.path_in_schema == "x"
    content = bytearray(archive[0].read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    for place in range(begin, begin + column.total_compressed_size):
        content[place] ^= 0x55
    archive[0].write_bytes(content)
    opened = spark.Archive(session, archive[0].parents[1])
    about_y = session.createDataFrame([(1, "y any")], "id long, text string")
    assert opened.match(about_y).count() == 3
    assert opened.skipped == ()
    assert pairs(session, opened) == expected(1, 2, 3, 4, 5)
    assert names(opened) == [archive[0].name]


def test_files_of_others_are_named(session: SparkSession, archive: list[Path]) -> None:
    pq.write_table(pa.table({"x": [7]}), archive[0])  # the name of an archive's file, and not its columns
    (archive[0].parents[1] / "notes.txt").write_text("foreign", encoding="utf-8")
    opened = spark.Archive(session, archive[0].parents[1])
    problems = {Path(each.file).name: each.problem for each in opened.skipped}
    assert problems == {
        archive[0].name: "no file of an archive: it has no columns of envelope and payload",
        "notes.txt": "no file of an archive: it has another name",
    }
    assert pairs(session, opened) == expected(1, 2, 3, 4, 5)


@pytest.mark.parametrize("harm", [damage.replace, damage.spoil])
def test_an_archive_without_a_sound_file_is_an_error(
    session: SparkSession, archive: list[Path], harm: Callable[[Path], None]
) -> None:
    for file in archive:
        harm(file)
    with pytest.raises(
        FileFormatError, match=f"no file of the archive can be read; {ROLLS} files are skipped: .*and 1 more"
    ):
        spark.Archive(session, archive[0].parents[1]).match(filters(session))


def test_a_file_that_is_gone_meanwhile_is_named_by_the_error(session: SparkSession, archive: list[Path]) -> None:
    """Results are computed later; a file that was sound and is not any more ends that job."""
    opened = spark.Archive(session, archive[0].parents[1])
    found = opened.match(filters(session))
    archive[3].unlink()
    with pytest.raises(Exception, match=archive[3].name):
        found.collect()


def test_palio_match_goes_on(session: SparkSession, archive: list[Path], tmp_path: Path) -> None:
    assert session is not None  # the command uses it
    damage.cut(archive[1])
    damage.spoil(archive[2])
    (tmp_path / "filters.txt").write_text("x >= 0\ny any\n", encoding="utf-8")
    options = {"--events": archive[0].parents[1], "--filters": tmp_path / "filters.txt", "--out": tmp_path / "out"}
    command = ["match", *(str(each) for option in options.items() for each in option)]
    result = CliRunner().invoke(palio, [*command, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["events"]["read"], told["events"]["skipped"], told["deliveries"]) == (4, 2, 6)
    assert [Path(each["file"]).name for each in told["events"]["first_skipped"]] == [file.name for file in archive[1:3]]
    assert told["places"]["skipped"] == f"{tmp_path}/out.rejects/skipped"
    rows = session.read.parquet(told["places"]["skipped"]).collect()
    assert {Path(row["file"]).name for row in rows} == {file.name for file in archive[1:3]}
    shown = CliRunner().invoke(palio, [*command, "--overwrite"], catch_exceptions=False, env={"COLUMNS": "300"})
    assert "2 files or lines skipped" in shown.output
    assert archive[2].name in shown.output
    session.conf.set("spark.sql.caseSensitive", "false")
