"""Matching as its users see it, on a real session of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType

from palio import Notification, spark
from palio.bench.workloads import WORKLOADS, encode, record_batch
from palio.errors import CallerError, DuplicateNameError, UnsupportedColumnError
from palio.matching import LinearScan
from palio.model.limits import Limits
from palio.spark.filters import SMALL_SET, FilterRejectedError
from tests.spark.local import expected_ids


def filter_table(session: SparkSession, texts: Sequence[tuple[object, str | None]], id_type: str = "long") -> DataFrame:
    return session.createDataFrame(list(texts), f"id {id_type}, text string")


def pairs(found: DataFrame, key: str = "k") -> list[tuple[object, object]]:
    return sorted((row[key], row["filter"]) for row in found.collect())


@pytest.fixture(scope="module")
def alarms(session: SparkSession) -> DataFrame:
    rows = [(1, "fire", 5, 1.5), (2, "alarm", 2, None), (3, None, 9, 2.5), (4, "fire", None, -1.0)]
    return session.createDataFrame(rows, "k long, event string, level int, x double")


ALARMS = [(10, 'event = "fire"'), (11, "level > 3"), (12, 'event in ("alarm", "fire") and x any'), (13, "level absent")]


@pytest.fixture(scope="module")
def alarm_filters(session: SparkSession) -> spark.FilterSet:
    return spark.prepare(filter_table(session, ALARMS))


# -- results -----------------------------------------------------------------------------------------------------------


def test_narrow(alarms: DataFrame, alarm_filters: spark.FilterSet) -> None:
    found = spark.match(alarms, alarm_filters, key="k")
    assert found.schema.simpleString() == "struct<k:bigint,filter:bigint>"
    assert pairs(found) == [(1, 10), (1, 11), (1, 12), (3, 11), (4, 10), (4, 12), (4, 13)]


def test_narrow_with_several_keys_one_of_them_an_attribute(alarms: DataFrame, alarm_filters: spark.FilterSet) -> None:
    found = spark.match(alarms, alarm_filters, key=["event", "k"])
    assert found.columns == ["event", "k", "filter"]
    assert {(row["event"], row["k"], row["filter"]) for row in found.collect()} >= {("fire", 1, 10), (None, 3, 11)}


def test_wide(alarms: DataFrame, alarm_filters: spark.FilterSet) -> None:
    found = spark.match(alarms, alarm_filters, result="wide")
    assert found.columns == [*alarms.columns, "filters"]
    assert {row["k"]: sorted(row["filters"]) for row in found.collect()} == {
        1: [10, 11, 12],
        2: [],
        3: [11],
        4: [10, 12, 13],
    }
    assert found.drop("filters").exceptAll(alarms).count() == 0


def test_counts(alarms: DataFrame, alarm_filters: spark.FilterSet) -> None:
    found = spark.match(alarms.union(alarms).repartition(3), alarm_filters, result="counts")
    assert {row["filter"]: row["count"] for row in found.collect()} == {10: 4, 11: 4, 12: 4, 13: 2}


def test_counts_where_filters_mention_no_column(session: SparkSession, alarms: DataFrame) -> None:
    """Batches without columns have no rows to count."""
    filters = filter_table(session, [(1, "z absent"), (2, ""), (3, "z any")])
    found = spark.match(alarms, filters, result="counts").collect()
    assert {(row["filter"], row["count"]) for row in found} == {(1, 4), (2, 4)}


def test_columns_beside_attributes(session: SparkSession, alarms: DataFrame) -> None:
    """Filters do not see them, whatever they are called and of whatever type; results may have them."""
    filters = filter_table(session, [(1, "event any"), (2, "k absent and level > 3"), (3, "event absent")])
    events = alarms.selectExpr("struct(event) as event", "level", "k")
    found = spark.match(events, filters, key=["event", "k"], beside=["event", "k"])
    assert {(row["event"]["event"], row["k"], row["filter"]) for row in found.collect()} == {
        *((event, k, 3) for event, k in [("fire", 1), ("alarm", 2), (None, 3), ("fire", 4)]),
        ("fire", 1, 2),
        (None, 3, 2),
    }
    with pytest.raises(UnsupportedColumnError, match="'event' of type"):
        spark.match(events, filters, key="k")
    with pytest.raises(CallerError, match="beside: the events have no column 'no'"):
        spark.match(events, filters, key="k", beside="no")


def test_string_ids_and_a_table_of_filters_as_it_is(session: SparkSession, alarms: DataFrame) -> None:
    table = filter_table(session, [("a", "level > 3"), ("b", "level < 3"), ("a", "level = 2")], "string")
    assert pairs(spark.match(alarms, table, key="k")) == [(1, "a"), (2, "a"), (2, "b"), (3, "a")]


@pytest.mark.parametrize("name", ["W1", "W2", "W4"])
@pytest.mark.parametrize("per_index", [10**6, 700])
def test_real_workloads_give_what_the_model_gives(session: SparkSession, name: str, per_index: int) -> None:
    workload = WORKLOADS[name]
    filters, events = workload.filters(2_000), workload.events(300)
    texts = [(i, str(filter)) for i, filter in enumerate(filters)]
    made = spark.prepare(filter_table(session, texts).repartition(4), filters_per_index=per_index)
    assert len(made.shipment.indexes) == (1 if per_index > 2_000 else 4)
    scan = LinearScan(filters)
    expected = sorted((i, id) for i, event in enumerate(events) for id in scan.match(event))
    table = pa.Table.from_batches([record_batch(events)]).append_column("k", pa.array(range(len(events))))
    assert pairs(spark.match(session.createDataFrame(table).repartition(3), made, key="k")) == expected
    bodies = pa.table({"k": range(len(events)), "body": pa.array(encode(events), pa.binary())})
    found = spark.match(session.createDataFrame(bodies), made, key="k", bodies="body")
    assert pairs(found) == expected


def test_no_filters_and_filters_of_nothing(session: SparkSession, alarms: DataFrame) -> None:
    none = spark.prepare(filter_table(session, []))
    assert pairs(spark.match(alarms, none, key="k")) == []
    assert spark.match(alarms, none, result="counts").count() == 0
    assert [row["filters"] for row in spark.match(alarms, none, result="wide").collect()] == [[]] * 4
    everything = spark.prepare(filter_table(session, [(1, ""), (2, "nothing = 1")]))
    assert pairs(spark.match(alarms, everything, key="k")) == [(k, 1) for k in (1, 2, 3, 4)]


def test_names_that_look_like_sql(session: SparkSession) -> None:
    events = session.createDataFrame([(1, 5, 6, 7)], "k long, `a.b` int, `x ``y` int, `select` int")
    table = filter_table(session, [(1, '"a.b" = 5'), (2, '"x `y" = 6'), (3, '"select" > 6')])
    assert pairs(spark.match(events, table, key="k")) == [(1, 1), (1, 2), (1, 3)]
    few = filter_table(session, [(i, '"a.b" = 5') for i in range(40)])
    assert spark.match(events, few, key="k").count() == 40


# -- types -------------------------------------------------------------------------------------------------------------

TYPED: list[tuple[str, object, str, str]] = [
    ("string", "a", 'x = "a"', 'x = "b"'),
    ("boolean", True, "x = true", "x = false"),
    ("tinyint", 5, "x = 5", "x > 5"),
    ("smallint", 5, "x = 5.0", "x > 5"),
    ("int", 5, "x < 5.5", "x > 5"),
    ("bigint", 2**53 + 1, f"x = {2**53 + 1}", f"x = {float(2**53)}"),
    ("float", 0.5, "x = 0.5", "x > 0.5"),
    ("double", 0.1, "x = 0.1", "x = 0.10000000000000002"),
    ("decimal(10,2)", Decimal("5.25"), "x = 5.25", "x > 5.25"),
    ("decimal(20,0)", Decimal(2**60), f"x = {2**60}", f"x > {2**60}"),
    ("timestamp", datetime(2026, 7, 2, 12, tzinfo=UTC), "x = 2026-07-02T12:00:00Z", "x > 2026-07-02T12:00:00Z"),
    ("binary", bytearray(b"ab"), 'x = b"ab"', 'x = b"a"'),
]


@pytest.mark.parametrize("times", [1, 20], ids=["few", "many"])
def test_types_that_attributes_can_have(session: SparkSession, times: int) -> None:
    """In each row one column has a value: Spark, which tests few filters too, lets it pass for one filter only."""
    together = SMALL_SET // 3
    more = ("x any",) if times > 1 else ()
    for begin in range(0, len(TYPED), together):
        some = TYPED[begin : begin + together]
        values = [value for _, value, *_ in some]
        rows = [(k, *(value if k == n else None for n, value in enumerate(values))) for k in range(-1, len(some))]
        schema = ", ".join(["k long", *(f"x{k} {kind}" for k, (kind, *_) in enumerate(some))])
        texts, wanted = [], []
        for k, (kind, _, holds, fails) in enumerate(some):
            texts += [(f"{kind}: {text}", text.replace("x", f"x{k}", 1)) for text in (holds, fails, *more)]
            wanted += [(k, f"{kind}: {text}") for text in (holds, *more)]
        with spark.prepare(filter_table(session, texts * times, "string")) as made:
            assert (made.small is None) == (times > 1)
            assert pairs(spark.match(session.createDataFrame(rows, schema), made, key="k")) == sorted(wanted)


@pytest.mark.parametrize("times", [1, 40], ids=["few", "many"])
def test_a_column_of_no_type_is_absent(session: SparkSession, times: int) -> None:
    events = session.createDataFrame([(1, None), (2, None)], "k long, x void")
    filters = filter_table(session, [(1, "x absent"), (2, "x any")] * times)
    assert pairs(spark.match(events, filters, key="k")) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("kind", ["char(4)", "varchar(4)"])
def test_bounded_strings_are_kept_as_strings(session: SparkSession, kind: str) -> None:
    session.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
    try:
        events = session.sql(f"select 1L as k, cast('abcd' as {kind}) as x")
        assert events.schema["x"].dataType.simpleString() == kind
        filters = filter_table(session, [(i, 'x = "abcd"') for i in range(40)])
        wide = spark.match(events, filters, result="wide")
        assert [(row["k"], row["x"], len(row["filters"])) for row in wide.collect()] == [(1, "abcd", 40)]
        assert pairs(spark.match(events, filters, key="x"), "x") == [("abcd", id) for id in range(40)]
    finally:
        session.conf.unset("spark.sql.preserveCharVarcharTypeInfo")


REFUSED = [
    "date",
    "timestamp_ntz",
    "array<int>",
    "map<string,int>",
    "struct<a:int>",
    "variant",
    "interval day to second",
]


@pytest.fixture(scope="module")
def asking(session: SparkSession) -> spark.FilterSet:
    return spark.prepare(filter_table(session, [(1, "x any")]))


@pytest.fixture(scope="module")
def asking_for_another(session: SparkSession) -> spark.FilterSet:
    return spark.prepare(filter_table(session, [(1, 'y = "b"')]))


@pytest.mark.parametrize("kind", REFUSED)
def test_types_that_attributes_cannot_have_are_named_before_anything_runs(
    session: SparkSession, asking: spark.FilterSet, asking_for_another: spark.FilterSet, kind: str
) -> None:
    events = session.createDataFrame([(1,)], "k long").selectExpr("k", f"cast(null as {kind}) as x", "'b' as y")
    with pytest.raises(
        UnsupportedColumnError, match=rf"column 'x' of type '{kind.split('<', maxsplit=1)[0].split(maxsplit=1)[0]}"
    ):
        spark.match(events, asking, key="k")
    if kind == "variant":
        return  # which Arrow cannot carry
    found = spark.match(events, asking_for_another, key="k")  # nobody asks for it, so it may be
    assert pairs(found) == [(1, 1)]


def test_all_columns_that_cannot_be_are_named_at_once(session: SparkSession) -> None:
    events = session.sql("select 1 as k, array(1) as x, date'2026-01-01' as y")
    with pytest.raises(UnsupportedColumnError, match=r"'x'.*'y'"):
        spark.match(events, filter_table(session, [(1, "x any and y any")]), key="k")


# -- what Spark does by itself -----------------------------------------------------------------------------------------


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_only_the_columns_that_filters_mention_are_read(session: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1], "a": [5], "b": ["x"], "c": [1.5]}), tmp_path / "events.parquet")
    events = session.read.parquet(str(tmp_path))
    found = spark.match(events, filter_table(session, [(1, "a = 5")]), key="k")
    assert "ReadSchema: struct<k:bigint,a:bigint>" in plan(found)
    assert pairs(found) == [(1, 1)]


def test_a_small_set_is_tested_by_the_scan_too(session: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1, 2], "a": [5, 7], "b": ["x", "y"]}), tmp_path / "events.parquet")
    events = session.read.parquet(str(tmp_path))
    few = filter_table(session, [(1, "a = 5 and b any"), (2, 'b >* "z" and a != 3')])
    pushed = spark.match(events, few, key="k")
    assert "EqualTo(a,5)" in plan(pushed)
    assert "StringStartsWith(b,z)" in plan(pushed)
    assert pairs(pushed) == [(1, 1)]
    many = filter_table(session, [(i, f"a = {i}") for i in range(100)])
    assert "EqualTo" not in plan(spark.match(events, many, key="k"))


def test_what_spark_tests_leaves_nothing_out(session: SparkSession) -> None:
    """Few filters of every operator and type, against columns of every type, with and without the condition."""
    random = Random(11)
    columns = {
        "i": ("long", [0, -1, 5, 2**53 + 1, -(2**63), 2**63 - 1]),
        "d": ("double", [0.0, -0.0, 5.0, 0.1, 2.0**53, 1e300]),
        "f": ("float", [0.5, 5.0, -1.25]),
        "s": ("string", ["", "a", "ab", "b\0", "é", "\U0001f40e", "5"]),
        "b": ("boolean", [True, False]),
        "t": ("timestamp", [datetime(2026, 7, 2, 12, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)]),
        "n": ("decimal(20,2)", [Decimal("5.00"), Decimal("0.50")]),
    }
    literals = [
        "0",
        "-0.0",
        "5",
        "5.0",
        "0.1",
        str(2**53),
        str(float(2**53)),
        str(2**63 - 1),
        '""',
        '"a"',
        '"ab"',
        '"é"',
    ]
    literals += ["true", "2026-07-02T12:00:00Z", '"5"', 'b"a"']
    operators = ["=", "!=", "<", "<=", ">", ">=", ">*", "*<", "*", "!>*", "any", "absent"]
    rows = [(k, *(random.choice([*values, None]) for _, values in columns.values())) for k in range(120)]
    schema = ", ".join(["k long", *(f"{name} {kind}" for name, (kind, _) in columns.items())])
    events = session.createDataFrame(rows, schema).persist()
    model = [
        Notification(
            {
                name: float(v) if isinstance(v, Decimal) else v
                for name, v in zip(columns, row[1:], strict=True)
                if v is not None
            }
        )
        for row in rows
    ]
    filters = []
    while len(filters) < 24 * 6:
        parts = []
        for name in random.sample([*columns, "missing"], random.randint(1, 2)):
            operator = random.choice(operators)
            parts.append(
                f"{name} {operator}"
                if operator in {"any", "absent"}
                else f"{name} {operator} {random.choice(literals)}"
            )
        text = " and ".join(parts)
        try:
            expected_ids([(0, text)], [])
        except CallerError:  # an operator that the literal's type has not
            continue
        filters.append((len(filters), text))
    for begin in range(0, len(filters), 24):
        some = filters[begin : begin + 24]
        made = spark.prepare(filter_table(session, some))
        assert made.small is not None
        expected = [(k, id) for k, ids in enumerate(expected_ids(some, model)) for id in ids]
        assert pairs(spark.match(events, made, key="k")) == sorted(expected)


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_filters_that_cannot_be_read_are_listed(session: SparkSession, alarms: DataFrame) -> None:
    table = filter_table(session, [(1, "level > 3"), (2, "level >"), (3, None), (None, "x = 1"), (5, "level <")])
    made = spark.prepare(table)
    assert made.rejected == 4
    rejects = {row["id"]: row for row in made.rejects.collect()}
    assert rejects[2]["text"] == "level >"
    assert (rejects[2]["line"], rejects[2]["column"]) == (1, 8)
    assert "expected a value" in rejects[2]["reason"]
    assert pairs(spark.match(alarms, made, key="k")) == [(1, 1), (3, 1)]
    with pytest.raises(FilterRejectedError, match="3 more"):
        spark.prepare(table, fail_fast=True)


def test_events_that_cannot_be_read_are_errors_or_told(session: SparkSession) -> None:
    events = session.createDataFrame([(1, 5.0), (2, float("nan"))], "k long, x double")
    made = spark.prepare(filter_table(session, [(i, "x > 0") for i in range(50)]))
    assert made.unreadable == {}
    assert pairs(spark.match(events, made, key="k")) == [(1, i) for i in range(50)]
    assert made.unreadable == {"x": 1}
    told = spark.match(events, made, key="k", problems=True).where("problem is not null").collect()
    assert [(row["k"], row["filter"], row["problem"]) for row in told] == [
        (2, None, "column 'x': float that is NaN or infinite; make it null")
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "key: narrow results need"),
        ({"key": "missing"}, "no column 'missing'; they have k, event"),
        ({"key": ["k", "k"]}, "one twice"),
        ({"key": []}, "names no column"),
        ({"key": 5}, "no column 5"),
        ({"key": "k", "result": "wide"}, "wide results need none"),
        ({"result": "many"}, "'many' is none of narrow, wide, counts"),
        ({"key": "k", "bodies": "missing"}, "bodies: the events have no column 'missing'"),
    ],
)
def test_calls_that_make_no_sense(
    alarms: DataFrame, alarm_filters: spark.FilterSet, options: dict[str, object], message: str
) -> None:
    with pytest.raises(CallerError, match=message):
        spark.match(alarms, alarm_filters, **options)  # type: ignore[arg-type]


def test_columns_that_cannot_be_told_apart_or_are_in_the_way(
    session: SparkSession, alarms: DataFrame, alarm_filters: spark.FilterSet
) -> None:
    with pytest.raises(UnsupportedColumnError, match="encoded bodies are binary"):
        spark.match(alarms, alarm_filters, key="k", bodies="event")
    with pytest.raises(CallerError, match="column 'filter' would be in the result twice"):
        spark.match(alarms.withColumnRenamed("k", "filter"), alarm_filters, key="filter")
    with pytest.raises(CallerError, match="column 'problem' would be"):
        spark.match(alarms.withColumnRenamed("k", "problem"), alarm_filters, result="wide", problems=True)
    session.conf.set("spark.sql.caseSensitive", "true")
    try:
        twice = alarms.selectExpr("k", "level", "level as LEVEL")
        with pytest.raises(DuplicateNameError, match="'level' and 'LEVEL'"):
            spark.match(twice, alarm_filters, key="k")
    finally:
        session.conf.set("spark.sql.caseSensitive", "false")


def test_one_name_twice(session: SparkSession, alarms: DataFrame) -> None:
    """Also where the name is a single letter, of which Python has only one string."""
    for twice in (alarms.select("k", "event", "event"), alarms.selectExpr("k", "k")):
        with pytest.raises(DuplicateNameError, match="Spark cannot tell them apart"):
            spark.match(twice, filter_table(session, [(1, "event any")]), key="k")


@pytest.mark.parametrize("fillers", [0, 40])
def test_a_column_whose_name_is_empty_is_kept(session: SparkSession, alarms: DataFrame, fillers: int) -> None:
    events = alarms.select("k", "event").toDF("", "event")
    filters = filter_table(session, [(1, 'event = "fire"'), *((2 + i, f"no = {i}") for i in range(fillers))])
    assert pairs(spark.match(events, filters, key=""), "") == [(1, 1), (4, 1)]
    wide = spark.match(events, filters, result="wide").collect()
    assert sorted((row[""], row["event"] or "", row["filters"]) for row in wide) == [
        (1, "fire", [1]),
        (2, "alarm", []),
        (3, "", []),
        (4, "fire", [1]),
    ]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("id long, filter string", "columns 'id' and 'text'"),
        ("id double, text string", "'id' must be"),
        ("id long, text int", "'text' must be"),
    ],
)
def test_tables_that_are_no_filters(session: SparkSession, schema: str, message: str) -> None:
    with pytest.raises(CallerError, match=message):
        spark.prepare(session.createDataFrame([], schema))
    with pytest.raises(CallerError, match="no DataFrame"):
        spark.prepare([(1, "x = 1")])  # type: ignore[arg-type]


def test_limits_reach_the_executors(session: SparkSession) -> None:
    made = spark.prepare(filter_table(session, [(1, 'x = "long"'), (2, "x any")]), limits=Limits(literal_bytes=3))
    assert made.rejected == 1
    assert "literal_bytes" in made.rejects.collect()[0]["reason"]


def test_a_set_that_is_closed_leaves_no_files(session: SparkSession, alarms: DataFrame) -> None:
    with spark.prepare(filter_table(session, ALARMS)) as made:
        folder = made._folder
        assert list(folder.iterdir())
    assert not folder.exists()
    for use in (lambda: made.rejects, lambda: spark.match(alarms, made, key="k")):
        with pytest.raises(CallerError, match="this set was closed"):
            use()


def test_ids_are_told_apart_whatever_their_collation(session: SparkSession, tmp_path: Path) -> None:
    ids = [("a", "x > 0"), ("A", "x > 1"), ("a ", "x > 2")]
    table = session.createDataFrame(ids, "id string, text string")
    events = session.range(4).selectExpr("id as k", "id as x")
    events.write.parquet(str(tmp_path / "events"))
    stream = session.readStream.schema(events.schema).parquet(str(tmp_path / "events"))
    for collation in ("UTF8_LCASE", "UNICODE_CI", "UTF8_BINARY_RTRIM"):
        collated = table.selectExpr(f"id collate {collation} as id", "text")
        with spark.prepare(collated) as made:
            assert made.id_type == StringType()
            query = spark.match(stream, made, result="counts").writeStream.format("memory").outputMode("complete")
            started = query.queryName("counted").trigger(availableNow=True).start()
            assert started.awaitTermination(60)
            for counted in (spark.match(events, made, result="counts"), session.table("counted")):
                assert sorted(map(tuple, counted.collect())) == [("A", 2), ("a", 3), ("a ", 1)]


@pytest.mark.parametrize("problems", [False, True])
def test_a_stream_counts_from_batch_to_batch(
    session: SparkSession, alarms: DataFrame, alarm_filters: spark.FilterSet, tmp_path: Path, problems: bool
) -> None:
    alarms.repartition(3).write.parquet(str(tmp_path / "events"))
    events = session.readStream.schema(alarms.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "events"))
    counted = spark.match(events, alarm_filters, result="counts", problems=problems)
    query = counted.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).outputMode("complete")
    name = f"counts_{problems}"
    query.trigger(availableNow=True).format("memory").queryName(name).start().awaitTermination(60)
    found = sorted(tuple(row) for row in session.table(name).collect())
    expected = spark.match(alarms, alarm_filters, result="counts", problems=problems)
    assert found == sorted(tuple(row) for row in expected.collect())
    assert expected.columns == session.table(name).columns


def test_a_stream_gives_what_a_table_gives(
    session: SparkSession, alarms: DataFrame, alarm_filters: spark.FilterSet, tmp_path: Path
) -> None:
    alarms.repartition(3).write.parquet(str(tmp_path / "events"))
    events = session.readStream.schema(alarms.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "events"))
    found = spark.match(events, alarm_filters, key="k")
    query = found.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).format("parquet").start(str(tmp_path / "out")).awaitTermination(60)
    assert pairs(session.read.parquet(str(tmp_path / "out"))) == pairs(spark.match(alarms, alarm_filters, key="k"))
