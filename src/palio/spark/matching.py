"""Which filters match which events, as a table or a stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, CharType, LongType, StringType, StructField, StructType, VarcharType

from palio.errors import CallerError, brief
from palio.spark import counts, tasks
from palio.spark.advice import warn_of_missing
from palio.spark.filters import FilterSet
from palio.spark.pushdown import necessary_condition
from palio.spark.temporary import opened
from palio.spark.types import check_bodies, check_columns, check_kept, check_names, column, quoted

Result = Literal["narrow", "wide", "counts"]
_NO_COLUMN = ("",)
"""What is read where no column is wanted, because batches without columns do not tell how many rows they have."""


def match(  # noqa: PLR0913 (each says a thing of its own)
    events: DataFrame,
    filters: FilterSet | DataFrame,
    *,
    key: str | Sequence[str] | None = None,
    result: Result = "narrow",
    bodies: str | None = None,
    beside: str | Sequence[str] = (),
    problems: bool = False,
    round_decimals: bool = False,
) -> DataFrame:
    """Match events against filters.

    Each column of the events is an attribute, and null means that it is absent; or ``bodies`` names a binary column of
    encoded bodies. Columns named by ``beside`` are no attributes: filters do not see them, but results may have them.
    ``filters`` is what :func:`~palio.spark.prepare` made, or a table for it. The result is

    - *narrow*: the columns named by ``key``, and ``filter``, the id of one that matches: a row for each pair;
    - *wide*: all events with ``filters``, the ids of all that match, perhaps none;
    - *counts*: ``filter`` and ``count``, how many events it matches; filters that match none are left out.

    A value that no attribute can have (NaN, say) fails every constraint that looks at it, ``absent`` included; filters
    that do not mention the column match as usual. A body that is none matches nothing (wide results have null for its
    filters). Such values are counted by column in :attr:`FilterSet.unreadable`, and a warning is logged. With
    ``problems`` the result has a column of that name: narrow results and counts have further rows, without a filter,
    for the events that have such values; wide results have the reason beside the filters.

    Decimals with more than 15 digits, or beyond 2**53, are such values too, because different ones may be the same
    float; ``round_decimals`` takes them for the nearest float. Works on streams as on tables. The logger
    ``palio.spark`` also warns of filters that cannot be read, and of attributes that no column has.
    """
    if result not in get_args(Result):
        raise CallerError(f"result: {brief(result)} is none of {', '.join(get_args(Result))}")
    wanted = _Wanted(key, result, bodies, problems, beside=_names(beside), round_decimals=round_decimals)
    return _match(events, filters, wanted)


def delivered(found: DataFrame, result: Result) -> DataFrame:
    """The deliveries among results with problems, without the problems."""
    return found.where(is_delivery(result)).drop("problem")


def is_delivery(result: Result) -> Column:
    """Whether a row of results with problems is a delivery; a row of wide results may be one, and have problems too."""
    return sql.col("filters").isNotNull() if result == "wide" else sql.col("problem").isNull()


def match_with_clock(  # noqa: PLR0913 (as match)
    events: DataFrame,
    filters: FilterSet,
    *,
    key: Sequence[str],
    bodies: str | None,
    problems: bool,
    round_decimals: bool,
) -> DataFrame:
    """Narrow results of a stream, with rows that have no filter but the latest times, which are first in the key.

    They let the watermark go on where nothing matches.
    """
    wanted = _Wanted(key, "narrow", bodies, problems, clock=key[0], round_decimals=round_decimals)
    return _match(events, filters, wanted)


def match_archived(  # noqa: PLR0913 (each says a thing of its own)
    events: DataFrame,
    filters: FilterSet,
    *,
    key: str | None,
    result: Result,
    beside: Sequence[str],
    problems: bool,
    round_decimals: bool,
) -> DataFrame:
    """The same for a table of an archive, whose columns may differ in case alone if Spark was told that it counts."""
    wanted = _Wanted(
        key,
        result,
        None,
        problems,
        beside=beside,
        tells_case=tells_case(events.sparkSession),
        round_decimals=round_decimals,
    )
    return _match(events, filters, wanted)


def tells_case(session: SparkSession) -> bool:
    """Whether names that differ in case alone are different ones."""
    return bool(session.conf.get("spark.sql.caseSensitive") == "true")


class _Wanted(NamedTuple):
    key: str | Sequence[str] | None
    result: Result
    bodies: str | None
    problems: bool
    clock: str | None = None
    beside: Sequence[str] = ()
    tells_case: bool = False
    round_decimals: bool = False


def _match(events: DataFrame, filters: FilterSet | DataFrame, wanted: _Wanted) -> DataFrame:
    key, result, tells_case = wanted.key, wanted.result, wanted.tells_case
    if not isinstance(events, DataFrame):
        raise CallerError(f"events: {brief(events)} is no DataFrame")
    check_names(events, tells_case=tells_case)
    keys = _check_key(events, key, result)
    with opened(filters) as (made, results):
        found = _planned(events, made, keys, wanted)
        results.append(found)
    return found


def _planned(events: DataFrame, made: FilterSet, keys: list[str], wanted: _Wanted) -> DataFrame:
    _, result, bodies, problems, clock, beside, _, round_decimals = wanted
    made.check_open()
    for name in beside:
        column(events, name, "beside")
    seen = events.select(*(quoted(name) for name in events.columns if name not in beside)) if beside else events
    attributes = _attributes(seen, made, bodies)
    if bodies is None:
        warn_of_missing(made, seen.columns)
    kept = {"narrow": keys, "wide": events.columns, "counts": []}[result]
    _check_free(events, kept, result, problems)
    if bodies is None and result != "wide" and clock is None:
        condition = necessary_condition(seen, made, problems)
        events = events if condition is None else events.where(condition)
    columns = tuple(dict.fromkeys([*kept, *attributes]))
    counter = made.unreadable_counts.told if problems else made.unreadable_counts.logged
    task = tasks.Task(
        made.shipment,
        columns or _NO_COLUMN,
        tuple(attributes),
        tuple(kept),
        bodies is not None,
        problems,
        clock,
        round_decimals,
        counter,
    )
    return _run(events, task, made, result)


def _run(events: DataFrame, task: tasks.Task, made: FilterSet, result: Result) -> DataFrame:
    places = tasks.place_names(task.columns)
    fields_of = {field.name: field for field in events.schema.fields}
    is_any = task.kept or task.attributes
    wanted = [_column(fields_of[name]) for name in task.columns] if is_any else [sql.lit(None).cast("boolean")]
    read = events.select(*(each.alias(place) for each, place in zip(wanted, places, strict=True)))
    fields = read.schema.fields[: len(task.kept)]  # what is kept comes first
    problem = [StructField("problem", StringType())] if task.tells_problems else []
    ids = StructField("filter", made.id_type)
    match result:
        case "narrow":
            schema = StructType([*fields, ids, *problem])
            found = read.mapInArrow(partial(tasks.match_narrow, task), schema)
        case "wide":
            lists = StructField("filters", ArrayType(made.id_type, containsNull=False))
            schema = StructType([*fields, lists, *problem])
            found = read.mapInArrow(partial(tasks.match_wide, task), schema)
        case "counts":
            schema = StructType([ids, StructField("count", LongType()), *problem])
            return _count(read, task, schema)
    return found.toDF(*task.kept, *found.columns[len(fields) :])


def _column(field: StructField) -> Column:
    """The column as Python can hand it back; if a session keeps the types char and varchar, that is as a string."""
    is_bounded = isinstance(field.dataType, CharType | VarcharType)
    return quoted(field.name).cast("string") if is_bounded else quoted(field.name)


def _count(read: DataFrame, task: tasks.Task, schema: StructType) -> DataFrame:
    counted = read.mapInArrow(partial(tasks.match_counts, task), from_arrow_schema(counts.PARTIAL))
    shipment, tells_problems = task.shipment, task.tells_problems
    if not read.isStreaming:

        def add_up(partial: pa.Table) -> pa.Table:
            return counts.add_up(shipment, tells_problems, partial)

        return counted.groupBy("block", "problem").applyInArrow(add_up, schema)
    # what is counted goes on from batch to batch, which only Spark's own aggregates know how to do
    rows = counted.mapInArrow(partial(counts.spread, shipment, tells_problems), schema)
    by = [name for name in schema.names if name != "count"]
    return rows.groupBy(*by).agg(sql.sum("count").alias("count")).select(*schema.names)


def _check_key(events: DataFrame, key: str | Sequence[str] | None, result: Result) -> list[str]:
    if result != "narrow":
        if key is not None:
            raise CallerError(f"key: {result} results need none; leave it out")
        return []
    if key is None:
        raise CallerError("key: narrow results need the column, or columns, by which you know an event")
    names = _names(key)
    for name in names:
        column(events, name, "key")
    if len(set(names)) < len(names) or not names:
        raise CallerError(f"key: {brief(key)} names no column, or one twice")
    return names


def _names(given: object) -> list[Any]:
    return [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]


def _attributes(events: DataFrame, made: FilterSet, bodies: str | None) -> list[str]:
    if bodies is None:
        return check_columns(events, made.attributes)
    check_bodies(events, bodies)
    return [bodies]


def _check_free(events: DataFrame, kept: Sequence[str], result: Result, problems: bool) -> None:
    """The columns that the result adds must not be there, and those it keeps must be such that Arrow can carry them."""
    added = {"narrow": "filter", "wide": "filters", "counts": "filter"}[result]
    for name in kept:
        if name.lower() == added or (problems and name.lower() == "problem"):
            raise CallerError(f"column {brief(name)} would be in the result twice; rename it")
        check_kept(column(events, name, "key"))
