"""Columns of many files found out together are those that Spark says of each file by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrameReader, SparkSession

from palio import spark
from palio.spark.event_folder import event_reader
from palio.spark.file_schemas import FileSchemas, shapes

VALUES: list[Any] = [
    *(0, -7, 2**31, 2**53 + 1, 2**63, 1e300, 0.1, 1.0, -0.0, True, None, "", "a", "true", "nan", "NaN", "Infinity"),
    *(
        "2026-07-02T12:00:00Z",
        "2026-07-02T12:00:00.123456+02:00",
        "2026-02-30T12:00:00Z",
        "2026-07-02",
        " 5",
        "5 ",
        "1e3",
    ),
    *(
        "1.5d",
        "0x1F",
        "é",
        'quo"te',
        "com,ma",
        "back\\slash",
        "+5",
        ".5",
        "5.",
        "12345678901",
        "1234567890",
        "1_000",
        '"5"',
        '"a b"',
        '"2026-07-02T12:00:00Z"',
        '"1.5"',
        '""',
    ),
    *({}, {"x": 1}, [], [1], [{"x": None}], {"y": {"x": "2026-07-02T12:00:00Z"}}),
]
SURE = ["7", "-12345678901", "0.5", "true", "milan", "two words", "2026-07-02T12:00:00Z"]
"""Values of CSV about whose types there is no doubt."""
LINES = [
    "",
    "  ",
    "\t",
    "null",
    "3",
    '"text"',
    "[1]",
    '[{"k": 1}]',
    '{"k"',
    '{"k": 1} more',
    '{"k": 1}}',
    '1, "z": 2',
    "{}",
]


class Once(FileSchemas):
    """Asks Spark of each file once, which is what takes time."""

    def __init__(self, session: SparkSession, format: str, folder: Path) -> None:
        def reader() -> DataFrameReader:
            return event_reader(session, format).option("basePath", str(folder)).option("__globPaths__", "false")

        super().__init__(session, format, reader)
        self.said: dict[str, Any] = {}
        self.looked: set[str] = set()
        """The files that were looked at by themselves since this was cleared."""

    def _look(self, file: str) -> tuple[str, Any]:
        self.looked.add(file)
        if file not in self.said:
            self.said[file] = super()._look(file)[1]
        return file, self.said[file]


class Checked(NamedTuple):
    kinds: int
    """So many kinds of columns there are."""
    alike: int
    """So many files were not looked at by themselves."""


def check(session: SparkSession, folder: Path, format: str, said: dict[str, Any] | None = None) -> Checked:
    """Compare all files of a folder; what was ``said`` of some before need not be asked again."""
    files = list(spark.EventFolder(session, folder, format).files())
    schemas = Once(session, format, folder)
    schemas.said = {} if said is None else said
    expected = dict(map(schemas._look, files))  # what Spark says of each file by itself
    schemas.looked.clear()
    for _ in range(2):  # the second time much of it is known
        found = dict(schemas.read(files))
        assert found == expected
    return Checked(len({str(each) for each in expected.values()}), len(expected.keys() - schemas.looked))


def json_file(random: Random, *, is_usual: bool) -> list[str]:
    names = random.sample(["k", "x", "a b`.c", "X", "_corrupt_record", "é"], random.randrange(1, 4))
    values = random.sample(VALUES, random.randrange(1, 4))
    lines = [
        json.dumps({name: random.choice(values) for name in random.sample(names, random.randrange(len(names) + 1))})
        for _ in range(random.randrange(1, 6))
    ]
    if not is_usual:
        lines.insert(random.randrange(len(lines) + 1), random.choice(LINES))
    return lines


def csv_file(random: Random, *, is_usual: bool) -> list[str]:
    names = random.sample(["k", "x", "a b`.c", "K", "", '"q"'], random.randrange(1, 4))
    drawn = random.sample([str(value) for value in VALUES if not isinstance(value, dict | list)], 2)
    columns = [[random.choice(SURE), ""] if is_usual else [*drawn, ""] for _ in names]
    rows = [names, *([random.choice(values) for values in columns] for _ in range(random.randrange(5)))]
    if not is_usual and random.random() < 0.3:
        rows.append(["1"] * (len(names) + random.choice([-1, 1])))
    return [",".join(row) for row in rows]


@pytest.mark.parametrize(("format", "make"), [("json", json_file), ("csv", csv_file)])
def test_files_of_text(session: SparkSession, tmp_path: Path, format: str, make: Callable[..., list[str]]) -> None:
    """First files that are usual, each twice with other lines first; then unusual files among them."""
    random = Random(3)

    def put(name: str, lines: list[str], *more: str) -> None:
        folder = tmp_path / random.choice(["", "place=1", "place=milan", "day 7%", *more])
        folder.mkdir(exist_ok=True)
        text = random.choice(["\n", "\r\n"] if format == "csv" else ["\n"]).join(lines)
        (folder / f"{name}%20.{format}").write_text(text, encoding="utf-8")

    said: dict[str, Any] = {}
    for number in range(12):
        lines = make(random, is_usual=True)
        put(f"{number}", lines)
        put(f"{number} again", [*lines[:1], *lines[:0:-1]])
    usual = check(session, tmp_path, format, said)
    for number in range(12):
        put(f"unusual {number} *[a]", make(random, is_usual=False), "day 7% [1]")
    (tmp_path / f"bytes.{format}").write_bytes(b'{"k": "\xff"}\n')
    both = check(session, tmp_path, format, said)
    assert usual.alike > 0
    assert usual.kinds > 5
    assert both.kinds > 15


def parquet_columns(random: Random) -> dict[str, pa.Array]:
    made = {
        "k": pa.array([1]),
        "x": random.choice([pa.array([1], pa.int8()), pa.array(["a"]), pa.array([b"a"]), pa.array([{"y": [1]}])]),
        "t": random.choice(
            [pa.array([0], pa.timestamp("us", "UTC")), pa.array([0], pa.timestamp("us")), pa.array([1.5])]
        ),
        "X": pa.array([None], pa.decimal128(9, 2)),
        "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        "a`b.c": pa.array([0], pa.date32()),
    }
    return {name: made[name] for name in random.sample(list(made), random.randrange(1, 4))}


def test_files_of_parquet(session: SparkSession, tmp_path: Path) -> None:
    random = Random(5)
    for number in range(40):
        folder = tmp_path / random.choice(["", "place=1", "place=milan", "x=1", "day 7% [1]"])
        folder.mkdir(exist_ok=True)
        columns = parquet_columns(random)
        fields = [
            pa.field(name, each.type, nullable=random.random() < 0.5 or name == "X") for name, each in columns.items()
        ]
        pq.write_table(pa.table(columns, pa.schema(fields)), folder / f"{number} *[a]%20.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    (tmp_path / "none.parquet").write_text("nonsense")
    for name, type in (("char", "char(5)"), ("varchar", "varchar(5)")):
        session.sql(f"create or replace temporary view one as select cast('a' as {type}) as c")
        session.table("one").write.parquet(str(tmp_path / name))
    assert check(session, tmp_path, "parquet").kinds > 15


def test_a_line_cannot_pretend_to_be_of_another_file(session: SparkSession, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.json").write_text('{"k": 1}, "other": {"k": "text"}\n{"k": 2}', encoding="utf-8")
    (tmp_path / "9.json").write_text('{"k": 1.5}', encoding="utf-8")
    assert check(session, tmp_path, "json").kinds == 2


def test_files_that_are_gone_are_told(session: SparkSession, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.json").write_text('{"k": 1}', encoding="utf-8")
    folder = spark.EventFolder(session, tmp_path, "json")
    files = list(folder.files())
    (tmp_path / "3.json").unlink()
    same, skipped = folder.schemas(files)
    assert [[Path(file).name for file in each] for each, _ in same] == [["0.json", "1.json", "2.json", "4.json"]]
    assert [Path(each.file).name for each in skipped] == ["3.json"]
    assert "PATH_NOT_FOUND" in skipped[0].problem


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_files_that_are_alike_are_not_looked_at_one_by_one(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    for number in range(40):
        path = tmp_path / f"{number}.{format}"
        if format == "parquet":
            pq.write_table(pa.table({"k": [number], "x": [0.5]}), path)
        else:
            path.write_text('{"k": 1, "x": 0.5}' if format == "json" else "k,x\n1,0.5\n", encoding="utf-8")
    (tmp_path / f"damaged.{format}").write_text('k,"x\n1', encoding="utf-8")
    looked: list[str] = []
    look = FileSchemas._look

    def count(self: FileSchemas, file: str) -> Any:
        looked.append(file)
        return look(self, file)

    monkeypatch.setattr(FileSchemas, "_look", count)
    folder = spark.EventFolder(session, tmp_path, format)
    same, _ = folder.schemas(folder.files())
    assert max(len(files) for files, _ in same) == 40
    assert len(looked) <= 2


def test_shapes_of_files_one_after_the_other() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for file, value in [("a", "k"), ("a", "1"), ("b", "k"), ("b", "1")]:
            yield pa.RecordBatch.from_pydict({"file": [file], "value": [value]})

    found = [row for batch in shapes(batches()) for row in batch.to_pylist()]
    assert found == [{"file": "a", "shape": "k\ninteger"}, {"file": "b", "shape": "k\ninteger"}]
