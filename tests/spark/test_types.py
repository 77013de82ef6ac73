"""Every type that Spark has against an oracle, with values that cannot be read: small sets, of which Spark tests a
condition by itself, and large ones."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from pyspark.sql import DataFrame, SparkSession

from palio import Filter, Notification, spark
from palio.errors import CallerError, DuplicateNameError, UnsupportedColumnError
from palio.matching import LinearScan
from palio.model.value import Value
from palio.spark.filters import SMALL_SET
from palio.spark.pushdown import necessary_condition

UNREADABLE = "unreadable"
Cell = Value | None | str

COLUMNS: dict[str, tuple[str, list[tuple[str, Cell]]]] = {
    "bo": ("boolean", [("true", True), ("false", False)]),
    "ti": ("tinyint", [("5", 5), ("-128", -128), ("127", 127)]),
    "si": ("smallint", [("5", 5), ("-32768", -32768)]),
    "i": ("int", [("5", 5), ("16777217", 2**24 + 1), ("2147483647", 2**31 - 1)]),
    "l": ("bigint", [("5", 5), ("9007199254740993", 2**53 + 1), ("9223372036854775807", 2**63 - 1)]),
    "f": (
        "float",
        [
            ("0.5", 0.5),
            ("16777216", 2.0**24),
            ("float('-0.0')", -0.0),
            ("float('NaN')", UNREADABLE),
            ("float('-Infinity')", UNREADABLE),
        ],
    ),
    "d": (
        "double",
        [
            ("0.5D", 0.5),
            ("0.1D", 0.1),
            ("double('-0.0')", -0.0),
            ("9007199254740992D", 2.0**53),
            ("double('NaN')", UNREADABLE),
            ("double('Infinity')", UNREADABLE),
        ],
    ),
    "m": (
        "decimal(20,2)",
        [
            ("9.99", 9.99),
            ("10.00", 10.0),
            ("-0.01", -0.01),
            ("9999999999999.99", 9999999999999.99),
            ("10000000000000.01", UNREADABLE),
            ("100000000000000000", UNREADABLE),
            ("9000000000000000", 9e15),
        ],
    ),
    "n": ("decimal(20,0)", [("5", 5), ("9223372036854775807", 2**63 - 1), ("9223372036854775808", UNREADABLE)]),
    "s": (
        "string",
        [
            ("'ab'", "ab"),
            ("'ab '", "ab "),
            ("''", ""),
            ("'AB'", "AB"),
            ("'é'", "é"),
            ("cast(X'61ff' as string)", UNREADABLE),
        ],
    ),
    "c": ("char(4)", [("'ab'", "ab  "), ("'abcd'", "abcd"), ("''", "    ")]),
    "v": ("varchar(4)", [("'ab'", "ab"), ("'ab '", "ab "), ("'abcd'", "abcd")]),
    "z": ("string collate UTF8_LCASE", [("'ab'", "ab"), ("'AB'", "AB")]),
    "by": ("binary", [("X'6162'", b"ab"), ("X'ff'", b"\xff")]),
    "t": (
        "timestamp",
        [
            ("timestamp_micros(1783000000123456)", datetime(2026, 7, 2, 13, 46, 40, 123456, tzinfo=UTC)),
            ("timestamp_seconds(0)", datetime(1970, 1, 1, tzinfo=UTC)),
            ("timestamp_seconds(316516204800)", UNREADABLE),
        ],
    ),
    "o.d`d": ("int", [("5", 5), ("300", 300)]),
}
LITERALS = [
    *("5", "5.0", "-0.0", "0", "0.5", "0.1", "9.99", "10", "10.0", "300", "-129", "16777217", "16777216"),
    *(str(2**53), str(2**53 + 1), str(float(2**53)), str(2**63 - 1), "1e300", "9999999999999.99", "-0.01"),
    *('""', '"ab"', '"ab "', '"ab  "', '"abc"', '"AB"', '"é"', 'b"ab"', "true", "false"),
    *("2026-07-02T13:46:40.123456Z", "1970-01-01T00:00:00Z", "2000-01-01T00:00:00Z"),
]
OPERATORS = ["=", "!=", "<", "<=", ">", ">=", ">*", "*<", "*", "!>*", "!*", "any", "absent"]
ROWS = 150


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.fixture(scope="module")
def cells() -> list[dict[str, Cell]]:
    random = Random(5)
    return [
        {name: random.choice([*(value for _, value in pool), None]) for name, (_, pool) in COLUMNS.items()}
        for _ in range(ROWS)
    ]


@pytest.fixture(scope="module")
def table(
    session: SparkSession, cells: list[dict[str, Cell]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A table in Parquet files, several of them, so that a scan can pass over some."""
    random = Random(6)
    columns = ", ".join(["k bigint", *(f"{quoted(name)} {kind}" for name, (kind, _) in COLUMNS.items())])
    place = tmp_path_factory.mktemp("typed") / "table"
    session.sql(f"create table typed ({columns}) using parquet location '{place}'")
    for begin in range(0, ROWS, 50):
        rows = []
        for k, row in enumerate(cells[begin : begin + 50], begin):
            texts = [
                "null"
                if row[name] is None
                else random.choice(
                    [text for text, value in pool if type(value) is type(row[name]) and value == row[name]]
                )
                for name, (_, pool) in COLUMNS.items()
            ]
            rows.append(f"({k}, {', '.join(texts)})")
        session.sql("insert into typed values " + ", ".join(rows))
    yield "typed"
    session.sql("drop table typed")


def expected(filters: list[tuple[int, str]], cells: list[dict[str, Cell]]) -> list[tuple[int, int]]:
    """What the model says of the values that can be read, without filters that look at the others."""
    parts = [(id, part) for id, text in filters for part in Filter.parse_union(text)]
    scan = LinearScan(part for _, part in parts)
    pairs = set()
    for k, row in enumerate(cells):
        bad = {name for name, value in row.items() if value is UNREADABLE}
        event = {name: value for name, value in row.items() if value is not None and name not in bad}
        for place in scan.match(Notification(event)):
            id, part = parts[place]
            if not any(constraint.name in bad for constraint in part):
                pairs.add((k, id))
    return sorted(pairs)


def random_filters(random: Random, count: int) -> list[tuple[int, str]]:
    filters: list[tuple[int, str]] = []
    while len(filters) < count:
        parts = []
        for name in random.sample([*COLUMNS, "missing"], random.choice([1, 1, 2])):
            operator = random.choice(OPERATORS)
            literal = "" if operator in {"any", "absent"} else " " + random.choice(LITERALS)
            parts.append(f'"{name}" {operator}{literal}')
        text = random.choice(["{}", "{}", "not ({})"]).format(" and ".join(parts))
        try:
            Filter.parse_union(text)
        except CallerError:  # an operator that the literal's type has not
            continue
        filters.append((len(filters), text))
    return filters


@contextmanager
def settings(session: SparkSession, **values: str) -> Iterator[None]:
    before = {name: session.conf.get(name) for name in values}
    try:
        for name, value in values.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            session.conf.set(name, str(old))


def pairs(found: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["k"], row["filter"]) for row in found.collect())


def prepare(session: SparkSession, filters: list[tuple[int, str]]) -> spark.FilterSet:
    return spark.prepare(session.createDataFrame(filters, "id long, text string"))


# -- the oracle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "ansi"),
    [("UTC", "true"), ("UTC", "false"), ("America/New_York", "false"), ("Asia/Kathmandu", "true")],
)
def test_all_types_answer_as_the_model_does(
    session: SparkSession, table: str, cells: list[dict[str, Cell]], zone: str, ansi: str
) -> None:
    """Small sets, which Spark tests before, and large ones, which it does not: the same filters, many times."""
    random = Random(f"{zone} {ansi}")
    with settings(session, **{"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": ansi}):
        for size in (1, 3, 8):
            filters = random_filters(random, size)
            wanted = expected(filters, cells)
            with prepare(session, filters) as few:
                assert pairs(spark.match(session.table(table), few, key="k")) == wanted, filters
        all_filters = random_filters(random, 400)
        with prepare(session, all_filters) as many:
            assert many.small is None
            assert pairs(spark.match(session.table(table), many, key="k")) == expected(all_filters, cells)


EDGES = [
    'c > "ab"',
    'c = "ab"',
    'c = "ab  "',
    'c < "ab "',
    'c >* "ab  "',
    'v > "ab"',
    'v = "ab"',
    'z = "ab"',
    'z < "ab"',
    's = "ab"',
    's >= "ab "',
    "d = 0.0",
    "d = -0.0",
    "d <= 0",
    "f = 0",
    "f < 16777217",
    "f >= 16777217",
    "f > 0.1",
    "ti = 300",
    "ti > -129",
    "ti < 300",
    f"l = {2**53}",
    f"l > {float(2**53)}",
    f"d = {2**53 + 1}",
    f"d <= {2**53 + 1}",
    "m = 9.99",
    "m > 9.98 and m < 10",
    "n = 5.0",
    "bo = true",
    '"o.d`d" = 300',
    "d any",
    "d absent",
    "m absent",
    "missing absent",
]


def test_what_spark_tests_for_each_filter_alone_leaves_out_no_match(
    session: SparkSession, table: str, cells: list[dict[str, Cell]]
) -> None:
    """Without ANSI mode, in which Spark would compare integers with floats of 32 bits as such floats."""
    with settings(session, **{"spark.sql.ansi.enabled": "false"}):
        events, found = session.table(table), None
        for id, text in enumerate(EDGES):
            alone = SimpleNamespace(small=Filter.parse_union(text))
            condition = necessary_condition(events, alone, tells_problems=False)  # type: ignore[arg-type]
            one = (events if condition is None else events.where(condition)).selectExpr("k", f"{id} as filter")
            found = one if found is None else found.union(one)
        assert found is not None
        passed, wanted = pairs(found), expected(list(enumerate(EDGES)), cells)
        assert not set(wanted) - set(passed)
        assert len(passed) < len(EDGES) * ROWS / 2, "else nothing is left out"
        padding = [(1000 + i, f"missing = {i}") for i in range(SMALL_SET)]
        among = pairs(spark.match(events, prepare(session, [*enumerate(EDGES), *padding]), key="k"))
        assert among == wanted
        assert {id for _, id in among} >= {EDGES.index('c > "ab"'), EDGES.index("d = 0.0"), EDGES.index("m = 9.99")}


@pytest.mark.parametrize("value", ["-0.0", "0.0"])
@pytest.mark.parametrize("kind", ["double", "float"])
def test_zeros_of_either_sign_are_found_in_files_that_have_no_other(
    session: SparkSession, tmp_path: Path, kind: str, value: str
) -> None:
    """The statistics and dictionaries of a file must not hide them."""
    place = str(tmp_path / "zeros")
    session.sql(f"select id as k, {kind}('{value}') as x from range(100)").coalesce(1).write.parquet(place)
    for text in ("x = 0.0", "x = -0.0", "x >= 0", "x <= -0.0"):
        made = prepare(session, [(1, text)])
        assert spark.match(session.read.parquet(place), made, key="k").count() == 100, text


# -- what cannot be read -----------------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_reported_by_key_and_counted_by_column(
    session: SparkSession, table: str, cells: list[dict[str, Cell]]
) -> None:
    filters = [(id, f'"{name}" any') for id, name in enumerate(COLUMNS)]
    bad = {k: sorted(name for name, value in row.items() if value is UNREADABLE) for k, row in enumerate(cells)}
    made = prepare(session, filters)
    rows = spark.match(session.table(table), made, key="k", problems=True).collect()
    told = {row["k"]: row["problem"] for row in rows if row["filter"] is None}
    assert sorted(told) == [k for k, names in bad.items() if names]
    for k, problem in told.items():
        assert sorted(part.split("'")[1] for part in problem.split("; column ")) == bad[k] or all(
            f"column '{name}'" in problem for name in bad[k]
        )
    assert sorted((row["k"], row["filter"]) for row in rows if row["filter"] is not None) == expected(filters, cells)
    by_column = {name: sum(name in names for names in bad.values()) for name in COLUMNS}
    assert made.unreadable == {name: count for name, count in by_column.items() if count}
    wide = spark.match(session.table(table), made, result="wide", problems=True).drop("t").collect()  # year 12000
    assert sorted((row["k"], id) for row in wide for id in row["filters"]) == expected(filters, cells)
    assert {row["k"]: row["problem"] for row in wide if row["problem"]} == told
    counts = spark.match(session.table(table), made, result="counts", problems=True).collect()
    assert sum(row["count"] for row in counts if row["filter"] is None) == len(told)


def test_one_warning_is_logged(session: SparkSession, table: str, caplog: pytest.LogCaptureFixture) -> None:
    made = prepare(session, [(i, "d >= 0") for i in range(40)])
    with caplog.at_level(logging.WARNING, "palio.spark"):
        for _ in range(3):
            spark.match(session.table(table), made, result="counts").collect()
        spark.match(session.table(table), made, key="k", problems=True).collect()
    (record,) = [record for record in caplog.records if record.name == "palio.spark"]
    assert "in column 'd'" in record.getMessage()
    assert made.unreadable["d"] % 4 == 0


def test_longer_decimals_are_rounded_if_wanted(session: SparkSession, tmp_path: Path) -> None:
    events = session.createDataFrame(
        [(1, Decimal("12345678901234567.89")), (2, Decimal("9.99"))], "k long, x decimal(20,2)"
    )
    made = prepare(session, [(1, "x > 9.98"), (2, "x any"), (3, "x > 12345678901234567")])
    assert pairs(spark.match(events, made, key="k")) == [(2, 1), (2, 2)]
    rounded = spark.match(events, made, key="k", round_decimals=True)
    assert pairs(rounded) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]
    events.write.parquet(str(tmp_path / "in"))
    stream = session.readStream.schema(events.schema).parquet(str(tmp_path / "in"))
    (tmp_path / "filters").mkdir()
    (tmp_path / "filters" / "1").write_text("x > 9.98\n")
    for name, options, found in [("a", {}, [2]), ("b", {"round_decimals": True}, [1, 2])]:
        source = spark.FilterDirectory(session, tmp_path / "filters")
        query = spark.match_stream(
            stream, source, tmp_path / name, checkpoint=tmp_path / f"{name}.check", key="k", **options
        )
        query.awaitTermination()
        delivered = session.read.parquet(str(tmp_path / name / "deliveries")).collect()
        assert sorted(row["k"] for row in delivered) == found


@pytest.mark.parametrize("result", ["narrow", "wide"])
def test_streams_deliver_what_matches_and_report_what_cannot_be_read(
    session: SparkSession, tmp_path: Path, result: str
) -> None:
    events = session.createDataFrame([(1, 5.0, 1), (2, float("nan"), 2), (3, None, 9)], "k long, x double, y int")
    events.write.parquet(str(tmp_path / "in"))
    (tmp_path / "filters").mkdir()
    (tmp_path / "filters" / "1").write_text("x > 0\ny < 5\nx absent\n")
    query = spark.match_stream(
        session.readStream.schema(events.schema).parquet(str(tmp_path / "in")),
        spark.FilterDirectory(session, tmp_path / "filters"),
        tmp_path / "out",
        checkpoint=tmp_path / "check",
        key="k" if result == "narrow" else None,
        result=result,  # type: ignore[arg-type]
    )
    query.awaitTermination()
    delivered = session.read.parquet(str(tmp_path / "out" / "deliveries")).collect()
    found = [(row["k"], [row["filter"]] if result == "narrow" else row["filters"]) for row in delivered]
    assert sorted((k, id) for k, ids in found for id in ids) == [(1, 1), (1, 2), (2, 2), (3, 3)]
    (told,) = session.read.parquet(str(tmp_path / "out" / "unreadable")).collect()
    assert (told["k"], told["problem"]) == (2, "column 'x': float that is NaN or infinite; make it null")


# -- settings, names, kept columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("large", ["true", "false"])
@pytest.mark.parametrize("ids", [["p", "q", "p"], [1, 2, 1]], ids=["strings", "integers"])
def test_results_of_all_kinds_whatever_types_of_arrow_texts_have(
    session: SparkSession, large: str, ids: list[str | int]
) -> None:
    events = session.createDataFrame([("a", 1.0, "x"), ("b", float("nan"), "y")], "k string, x double, t string")
    kind = "string" if isinstance(ids[0], str) else "long"
    texts = list(zip(ids, ["x > 0", 't = "y"', 't = "x"'], strict=True))
    first, second, _ = ids
    with settings(session, **{"spark.sql.execution.arrow.useLargeVarTypes": large}):
        made = spark.prepare(session.createDataFrame(texts, f"id {kind}, text string"))
        for problems in (True, False):
            narrow = spark.match(events, made, key="k", problems=problems).collect()
            assert {(row["k"], row["filter"]) for row in narrow if row["filter"] is not None} == {
                ("a", first),
                ("b", second),
            }
            wide = spark.match(events, made, result="wide", problems=problems).collect()
            assert {row["k"]: row["filters"] for row in wide} == {"a": [first], "b": [second]}
            counts = spark.match(events, made, result="counts", problems=problems).collect()
            assert {row["filter"]: row["count"] for row in counts if row["filter"] is not None} == {first: 1, second: 1}
            for rows in (narrow, wide, counts):
                assert sum(bool(problems and row["problem"]) for row in rows) == problems


def test_a_result_that_is_computed_after_its_set_was_closed(session: SparkSession) -> None:
    events = session.createDataFrame([(1, 5)], "k long, x int")
    for result in ("narrow", "wide", "counts"):
        made = prepare(session, [(1, "x = 5")])
        found = spark.match(events, made, key="k" if result == "narrow" else None, result=result)  # type: ignore[arg-type]
        made.close()
        with pytest.raises(Exception, match="this set was closed before the result was computed; compute it first"):
            found.collect()
        with pytest.raises(CallerError, match="this set was closed; prepare it again"):
            spark.match(events, made, result="counts")


@pytest.mark.parametrize(
    "kind",
    [
        "interval",
        "interval year to month",
        "array<interval>",
        "struct<a:interval>",
        "struct<a:int, a:int>",
        "map<void, array<void>>",
    ],
)
def test_columns_that_cannot_be_kept_are_named_before_anything_runs(session: SparkSession, kind: str) -> None:
    events = session.sql(f"select 1 as k, cast(null as {kind}) as x, timestamp_seconds(0) as t, array(1) as a")
    made = prepare(session, [(1, "k = 1")])
    for options in ({"key": ["k", "x"]}, {"result": "wide"}):
        with pytest.raises(UnsupportedColumnError, match=r"column 'x' of type '.*' cannot be kept in a result"):
            spark.match(events, made, **options)  # type: ignore[arg-type]
    assert spark.match(events, made, key=["k", "t", "a"]).count() == 1


def test_two_columns_of_one_name_are_refused(session: SparkSession) -> None:
    events = session.sql("select 1 as k, 5 as a, 6 as a")
    with pytest.raises(DuplicateNameError, match="columns 'a' and 'a'"):
        spark.match(events, prepare(session, [(1, "a = 5")]), key="k")


def test_names_are_told_apart_by_case(session: SparkSession) -> None:
    """An attribute is the column of exactly its name, though Spark would take any case."""
    events = session.sql("select 1 as k, 5 as Price")
    filters = [(1, "price = 5"), (2, "Price = 5"), (3, "price absent"), (4, "Price absent")]
    padding = [(1000 + i, f"missing = {i}") for i in range(SMALL_SET)]
    for texts in (filters, [*filters, *padding]):
        assert pairs(spark.match(events, prepare(session, texts), key="k")) == [(1, 2), (1, 3)]
