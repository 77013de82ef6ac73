"""Random tables, filters and settings of sessions, each the same for its seed and number."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from datetime import datetime
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import _parse_datatype_string

from palio import Filter, codec
from palio.errors import CallerError
from tests.spark import table_oracle as oracle
from tests.spark.table_oracle import Kind, Row

ZONES = [
    *("UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia", "Europe/Amsterdam"),
    *("Africa/Monrovia", "+18:00", "-18:00", "America/St_Johns", "Asia/Pyongyang", "Antarctica/Troll", "GMT+5"),
]
SETTINGS: dict[str, list[str]] = {
    "spark.sql.session.timeZone": ZONES,
    "spark.sql.ansi.enabled": ["true", "false"],
    "spark.sql.caseSensitive": ["true", "false"],
    "spark.sql.execution.arrow.maxRecordsPerBatch": ["1", "3", "20000"],
    "spark.sql.execution.arrow.useLargeVarTypes": ["true", "false"],
    "spark.sql.adaptive.enabled": ["true", "false"],
    "spark.sql.parquet.enableVectorizedReader": ["true", "false"],
    "spark.sql.codegen.wholeStage": ["true", "false"],
    "spark.sql.preserveCharVarcharTypeInfo": ["true", "false"],
}
"""Settings of a session on which no result may depend."""
NAMES = [
    *(
        "x",
        "y",
        "a.b",
        "a.b.c",
        ".",
        "x `y`",
        "`",
        "``",
        "select",
        "any",
        "absent",
        "not",
        "from",
        "é",
        "日本",
        "\U0001f40e",
    ),
    *(
        "a blank",
        " x",
        "x ",
        " ",
        "tab\t",
        "line\nend",
        'a "quote"',
        "it's",
        "back\\slash",
        "%s",
        "*",
        "x.*",
        "1",
        "c0",
        "c1",
    ),
    *(
        "_metadata",
        "id",
        "text",
        "block",
        "count",
        "null",
        "true",
        "$x",
        "a,b",
        "a;b",
        "{a}",
        "(a)",
        "a=b",
        "ǅ",
        "n" * 256,
    ),
]
SOURCES = ["memory", "view", "parquet", "json", "expression"]
_NO_FILTER = "x ="


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: Kind
    values: list[Any]


class Table(NamedTuple):
    """A table and what it means; the column of the key counts the rows."""

    key: str
    columns: list[Column]
    source: str
    size: int
    partitions: int
    beside: str | None
    """The SQL of a column that no filter can mention, under a name that none has."""

    def rows(self, *, rounding: bool) -> list[Row]:
        """The events, as filters see them."""
        cells = ({c.name: (c.kind, c.values[k]) for c in self.columns} for k in range(self.size))
        return [oracle.row_of({self.key: (_KEY, k)} | each, rounding=rounding) for k, each in enumerate(cells)]

    def read(self, session: SparkSession, folder: Path) -> DataFrame:
        """As Spark has it."""
        frame = _READERS[self.source](self, session, folder)
        if self.beside is not None:
            frame = frame.withColumn(_BESIDE, sql.expr(self.beside))
        if self.partitions == _ALL_IN_ONE:
            return frame.repartition(3, sql.lit(1))
        return frame.repartition(self.partitions) if self.partitions else frame

    def show(self, place: int) -> str:
        """A row, for people."""
        cells = [f"{column.name!r} {column.kind.name} = {column.values[place]!r}" for column in self.columns]
        return f"{self.key!r} = {place}, " + ", ".join(cells)


_KEY = Kind("bigint", lambda _: 0, oracle._as_it_is, pa.int64())
_ALL_IN_ONE = -1
"""Partitions of which all but one are empty."""
_BESIDE = "beside all that filters mention"


class Filters(NamedTuple):
    """Rows of id and text, and what they mean."""

    id_type: str
    rows: list[tuple[Any, str]]
    forms: set[str]

    def by_id(self) -> dict[Any, list[Filter]]:
        """The filters of each id, but for what cannot be read."""
        found: dict[Any, list[Filter]] = {}
        for id, text in self.rows:
            found.setdefault(id, []).extend(_parse(text))
        return found


@cache
def _parse(text: str) -> tuple[Filter, ...]:
    if text == _NO_FILTER:
        return ()
    if text.startswith("{"):
        return (codec.json.decode(Filter, text),)
    return Filter.parse_union(text)


class Case:
    """One table, one set of filters, one session."""

    def __init__(self, seed: str, number: int, *, count: int | None = None, only: Collection[str] = ()) -> None:
        """``count`` says how many filters there are, ``only`` which types; both are drawn unless given."""
        self.title = f"SEED={seed} CASE={number}"
        self._random = Random(f"{seed}/{number}")
        self.settings = {name: self._random.choice(values) for name, values in SETTINGS.items()}
        count = count or _draw_size(self._random, number)
        self.table = draw_table(self._random, 17 if count > 1000 else 400, only)
        self.filters = draw_filters(self._random, self.table, count)

        self.is_wide_large = self._random.random() < 0.5
        """Whether wide results are tried with other filters beside, and counts without; or the other way round."""
        self.tells_problems = self._random.random() < 0.5
        """Whether results have the events with values that cannot be read."""
        self.rounds_decimals = self._random.random() < 0.5
        """Whether decimals without a float of their own are taken for the nearest one."""

    @cached_property
    def rows(self) -> list[Row]:
        """The events, as filters see them."""
        return self.table.rows(rounding=self.rounds_decimals)

    @cached_property
    def kinds(self) -> list[str]:
        """Which types and forms are tried."""
        size = len(self.filters.rows)
        sizes = next(f"set to {most:,}" for most in (10, 32, 1000, 100_000, 10**9) if size <= most)
        zone = self.settings["spark.sql.session.timeZone"]
        types = {column.kind.name for column in self.table.columns}
        is_rounding = self.rounds_decimals and any(column.kind.rounded for column in self.table.columns)
        rounding = {"decimals rounded"} if is_rounding else set()
        is_empty = {"empty table"} if not self.table.size else {"empty partitions"} if self._has_empty() else set()
        return sorted(
            {*types, *self.filters.forms, f"from {self.table.source}", sizes, f"zone {zone}", *rounding, *is_empty}
        )

    def _has_empty(self) -> bool:
        return self.table.partitions > self.table.size or self.table.partitions == _ALL_IN_ONE


def _draw_size(random: Random, number: int) -> int:
    if number % 50 == 49:
        return random.choice([10_000, 100_000])
    few = [1, 1, 1, 2, 3, random.randint(4, 10)]  # of many, one or the other lets every event pass
    return random.choice([*few, random.randint(11, 32), random.randint(33, 100), 500, 1000])


# -- tables ------------------------------------------------------------------------------------------------------------


def draw_table(random: Random, most: int, only: Collection[str] = ()) -> Table:
    """Some columns of types that the source has, and at most so many rows."""
    source = random.choice(["memory", "view", "expression"] if only else SOURCES)
    usable = [kind for kind in oracle.kinds() if _can_hold(source, kind) and (not only or kind.name in only)]
    names = _draw_names(random, random.randint(2, 7))
    size = min(most, random.choice([120] if only else [0, 1, 2, 17, 120, 400]))
    columns = []
    for name in names[1:]:
        kind = random.choice(usable)
        share = random.choice([0.0, 0.2, 0.5])
        values = [None if random.random() < share else kind.draw(random) for _ in range(size)]
        columns.append(Column(name, kind, values))
    if not only and source == "parquet" and random.random() < 0.3:
        kind = oracle.padded_kind()
        columns.append(Column(f"{names[-1]}2", kind, [kind.draw(random) for _ in range(size)]))
    kept = [expression for kind, expression in oracle.REFUSED.items() if kind not in oracle.NOT_KEPT]
    beside = random.choice([None, None, *kept])
    return Table(names[0], columns, source, size, random.choice([0, 0, 1, min(size, 4) + 2, _ALL_IN_ONE]), beside)


def _draw_names(random: Random, count: int) -> list[str]:
    names: dict[str, str] = {}
    while len(names) < count:
        name = random.choice(NAMES)
        names.setdefault(name.lower(), name)
    return list(names.values())


def _can_hold(source: str, kind: Kind) -> bool:
    if source == "parquet":
        return kind.arrow is not None
    return source != "json" or (kind.is_in_json and "collate" not in kind.name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _in_memory(table: Table, session: SparkSession, _folder: Path) -> DataFrame:
    schema = ", ".join(["k bigint", *(f"c{i} {column.kind.name}" for i, column in enumerate(table.columns))])
    rows = list(zip(range(table.size), *(column.values for column in table.columns), strict=True))
    frame = session.createDataFrame(rows, schema)
    return frame.toDF(table.key, *(column.name for column in table.columns))


def _view(table: Table, session: SparkSession, folder: Path) -> DataFrame:
    _in_memory(table, session, folder).createOrReplaceTempView("events of the oracle".replace(" ", "_"))
    return session.sql("select * from events_of_the_oracle")


def _expression(table: Table, session: SparkSession, folder: Path) -> DataFrame:
    """The same values, computed anew: conditions are pushed through what computes them."""
    frame = _in_memory(table, session, folder)
    names = [table.key, *(column.name for column in table.columns)]
    return frame.select(*(sql.coalesce(sql.col(_quoted(name)), sql.col(_quoted(name))).alias(name) for name in names))


def _parquet(table: Table, session: SparkSession, folder: Path) -> DataFrame:
    """Files of another writer: several, one of them without rows."""
    place = folder / "events.parquet"
    place.mkdir()
    plain = [column for column in table.columns if column.kind.arrow is not None]
    arrays = {table.key: pa.array(range(table.size), pa.int64())}
    arrays |= {column.name: pa.array(column.values, column.kind.arrow) for column in plain}
    whole = pa.table(arrays)
    share = max(1, table.size // 2)
    for part, begin in enumerate([*range(0, table.size, share), table.size]):
        pq.write_table(whole.slice(begin, share), place / f"{part}.parquet", row_group_size=max(1, share // 2))
    frame = session.read.parquet(str(place))
    return _with_padded(table, session, frame) if len(plain) < len(table.columns) else frame


def _with_padded(table: Table, session: SparkSession, frame: DataFrame) -> DataFrame:
    """Beside the others the columns that only tables of the catalog can have."""
    name = "padded_events_of_the_oracle"
    padded = [column for column in table.columns if column.kind.arrow is None]
    session.sql(f"drop table if exists {name}")
    columns = ", ".join(f"{_quoted(column.name)} {column.kind.name}" for column in padded)
    session.sql(f"create table {name} (k_of_padded bigint, {columns}) using parquet")
    rows = list(zip(range(table.size), *(column.values for column in padded), strict=True))
    texts = ", ".join(["k bigint", *(f"c{i} string" for i in range(len(padded)))])
    session.createDataFrame(rows, texts).write.insertInto(name)
    both = frame.join(session.table(name), sql.col(_quoted(table.key)) == sql.col("k_of_padded"))
    return both.drop("k_of_padded")


def _json(table: Table, session: SparkSession, folder: Path) -> DataFrame:
    place = folder / "events.json"
    with place.open("w", encoding="utf-8") as file:
        for k in range(table.size):
            row = {column.name: column.values[k] for column in table.columns if column.values[k] is not None}
            file.write(json.dumps({table.key: k} | row, default=_in_json) + "\n")
    types = {table.key: "bigint"} | {column.name: column.kind.name for column in table.columns}
    schema = ", ".join(f"{_quoted(name)} {kind}" for name, kind in types.items())
    return session.read.schema(_parse_datatype_string(schema)).json(str(place))  # type: ignore[arg-type]


def _in_json(value: object) -> object:
    if isinstance(value, Decimal):
        return str(value)
    assert isinstance(value, datetime)
    return value.isoformat(timespec="microseconds")


_READERS: dict[str, Callable[[Table, SparkSession, Path], DataFrame]] = {
    "memory": _in_memory,
    "view": _view,
    "expression": _expression,
    "parquet": _parquet,
    "json": _json,
}


# -- filters -----------------------------------------------------------------------------------------------------------

_ORDER = ["=", "!=", "<", "<=", ">", ">="]
_OF_STRINGS = [">*", "*<", "*", "!>*", "!*<", "!*"]


def draw_filters(random: Random, table: Table, count: int) -> Filters:
    """Filters that look at the table's columns, and now and then at others; some are unions."""
    id_type = random.choice(["bigint", "int", "smallint" if count < 30_000 else "int", "string"])
    forms: set[str] = set()
    texts = [_draw_text(random, table, forms) for _ in range(min(count, 2000))]
    texts *= -(-count // len(texts))
    ids: list[Any] = list(range(count))
    if random.random() < 0.5:
        forms.add("several rows")
        ids = [random.choice(ids) if random.random() < 0.1 else id for id in ids]
    if id_type == "string":
        ids = [f"id {id}" for id in ids]
    return Filters(id_type, list(zip(ids, texts[:count], strict=True)), forms)


def _draw_text(random: Random, table: Table, forms: set[str]) -> str:
    draw = random.random()
    if draw < 0.02:
        forms.add("unreadable text")
        return _NO_FILTER
    if draw < 0.05:
        return ""
    first = _draw_conjunction(random, table, forms)
    if draw < 0.1 and not {"in", "not"} & set(first.split()):
        forms.add("filter as JSON")
        return _as_json(first)
    if draw < 0.2:
        forms.add("or")
        return f"{first} or {_draw_conjunction(random, table, forms)}"
    return first


def _as_json(text: str) -> str:
    (filter,) = Filter.parse_union(text)
    return codec.json.encode(filter).decode()


def _draw_conjunction(random: Random, table: Table, forms: set[str]) -> str:
    terms = [_draw_term(random, table, forms) for _ in range(random.choice([1, 1, 2, 3]))]
    if len(terms) > 1:
        forms.add("and")
    return " and ".join(terms)


def _draw_term(random: Random, table: Table, forms: set[str]) -> str:
    for _ in range(100):
        term = _draw_condition(random, table)
        form = random.random()
        if form < 0.06:
            term = f"not {term}"
        elif form < 0.14:
            term = _draw_list(random, table)
        try:
            Filter.parse_union(term)
        except CallerError:  # an operator that the literal's type does not have
            continue
        forms.update({"not"} if form < 0.06 else {"in"} if form < 0.14 else ())
        return term
    return "true"


def _draw_column(random: Random, table: Table) -> tuple[str, Kind]:
    if random.random() < 0.08:
        return random.choice(["missing", "K", "a.missing"]), _KEY
    if not table.columns or random.random() < 0.05:
        return table.key, Kind("bigint", lambda random: random.randrange(max(1, table.size)), oracle._as_it_is)
    column = random.choice(table.columns)
    return column.name, column.kind


def _draw_condition(random: Random, table: Table) -> str:
    name, kind = _draw_column(random, table)
    quoted = json.dumps(name, ensure_ascii=False)
    draw = random.random()
    if draw < 0.12:
        type = random.choice(["", "", "string ", "number ", "integer ", "float ", "time "])
        return f"{type}{quoted} any"
    if draw < 0.2:
        return f"{quoted} absent"
    operator = random.choice(_OF_STRINGS if "string" in kind.name and draw < 0.5 else _ORDER)
    type = random.choice(["integer ", "float ", "number "]) if draw > 0.95 else ""
    return f"{type}{quoted} {operator} {oracle.literal_near(random, kind)}"


def _draw_list(random: Random, table: Table) -> str:
    name, kind = _draw_column(random, table)
    literals = [oracle.literal_near(random, kind) for _ in range(random.randint(1, 4))]
    return f"{json.dumps(name, ensure_ascii=False)} {random.choice(['', 'not '])}in ({', '.join(literals)})"
