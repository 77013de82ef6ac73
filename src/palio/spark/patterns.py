"""Sequences of events that match patterns, on tables and on streams.

The filters of all patterns are matched first, as any filters are. What they find is brought into the total order of
events, for each pattern on its own, and a monitor goes through it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import and_
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from palio.errors import CallerError, PalioError, UnsupportedColumnError, brief
from palio.model.limits import READING_LIMITS, Limits
from palio.spark.filters import FilterSet, arrow_type_of, check_table, prepare, table_of
from palio.spark.matching import match, match_with_clock
from palio.spark.parsing import Reading
from palio.spark.sequences import follow_sorted, follow_stream, split_patterns
from palio.spark.temporary import close_unused, closing_when_unused
from palio.spark.types import column, quoted, without_collations

_LOG = logging.getLogger("palio.spark")
ORDER = ("published", "origin", "sequence")
"""The columns of the total order, as SEMANTICS has it: time of publication, origin, number."""

_UNBOUNDED = 2**63 - 1
_PLAIN = (spark_types.StringType, spark_types.LongType, spark_types.IntegerType, spark_types.ShortType)


class PatternSet:
    """Patterns ready for matching, made by :func:`prepare_patterns`."""

    def __init__(self, filters: FilterSet, elements: DataFrame, rejects: DataFrame, id_type: DataType) -> None:
        self.filters = filters
        """The filters of all patterns."""
        self.elements = elements
        """Which filter is which position of which pattern."""
        self.rejects = rejects
        """The patterns that could not be read, like :attr:`FilterSet.rejects`."""
        self.id_type = id_type


def prepare_patterns(patterns: DataFrame, *, limits: Limits = READING_LIMITS) -> PatternSet:
    """Read a table of ``id`` and ``text`` (``... then ...``, or the JSON form) and make it ready for matching."""
    id_type = check_table(patterns)
    session = patterns.sparkSession
    schema = f"id {id_type.simpleString()}, position int, length int, text string, reason string, line int, column int"
    reading = Reading(limits, arrow_type_of(id_type))
    split = patterns.select("id", "text").mapInArrow(partial(split_patterns, reading), schema).toArrow()
    is_good = pc.is_null(split["reason"])
    good = split.filter(is_good)
    numbers = pa.array(range(len(good)), pa.int64())
    printed = replace(limits, text_characters=_UNBOUNDED)  # characters that are escaped now may have been none before
    filters = prepare(table_of(session, pa.table({"id": numbers, "text": good["text"]})), limits=printed)
    if filters.rejected:
        raise PalioError("a filter that was printed could not be read again")
    elements = pa.table(
        {"filter": numbers, "pattern": good["id"], "position": good["position"], "length": good["length"]}
    )
    rejected = split.filter(pc.invert(is_good)).select(["id", "text", "reason", "line", "column"])
    if len(rejected):
        first, others = rejected.slice(0, 1).to_pylist()[0], len(rejected) - 1
        more = f"; {others:,} more cannot be read" if others else ""
        _LOG.warning("patterns are left out: pattern %s: %s%s", brief(first["id"]), first["reason"], more)
    return PatternSet(filters, table_of(session, elements), table_of(session, rejected), id_type)


def match_patterns(  # noqa: PLR0913 (each says a thing of its own)
    events: DataFrame,
    patterns: PatternSet | DataFrame,
    *,
    order: Sequence[str] = ORDER,
    key: Sequence[str] = (),
    bodies: str | None = None,
    delay: str = "0 seconds",
    problems: bool = False,
    round_decimals: bool = False,
) -> DataFrame:
    """The sequences of events that match patterns: ``pattern``, its id, and ``elements``, an array of the events.

    ``order`` names the columns that order events: a timestamp, then strings or integers that tell apart what has the
    same time. An element has these columns, and those named by ``key``. Events without a value in one of them are left
    out.

    On a stream, events may come late by ``delay``: a sequence is told when no earlier event can come any more, and what
    comes even later is dropped and counted (``numRowsDroppedByWatermark`` in the query's progress).

    Values that cannot be read, and ``round_decimals``, are as in :func:`~palio.spark.match`. With ``problems`` a stream
    counts, in the progress of the query under ``observedMetrics`` and ``palio_patterns``, how many events have values
    that are *unreadable*, and how many that match a filter are *incomplete*: without a value in one of the columns.
    """
    names = _check_order(events, order, key)
    how = _How(names, bodies, delay, problems, round_decimals)
    if isinstance(patterns, PatternSet):
        return _sequences(events, patterns, how)
    close_unused()
    made = prepare_patterns(patterns)
    with closing_when_unused(made.filters) as results:
        results.append(_sequences(events, made, how))
    return results[0]


class _How(NamedTuple):
    """The options of a search for sequences."""

    names: list[str]
    bodies: str | None
    delay: str
    problems: bool
    round_decimals: bool


def _sequences(events: DataFrame, made: PatternSet, how: _How) -> DataFrame:
    names, bodies, delay, problems, round_decimals = how
    find = match_with_clock if events.isStreaming else match
    pairs = find(events, made.filters, key=names, bodies=bodies, problems=problems, round_decimals=round_decimals)
    found = _complete(pairs, names, problems)
    places = [f"c{place}" for place in range(len(names))]
    found = without_collations(found.toDF("time", *places[1:], "filter")).withColumn("c0", sql.unix_micros("time"))
    carried = ["pattern", "position", "length", *places]
    if events.isStreaming:
        # an id that the join below does not know: rows with none would be dropped before they can tell the time
        found = found.withColumn("filter", sql.coalesce("filter", sql.lit(-1))).withWatermark("time", delay)
        found = found.join(sql.broadcast(made.elements), "filter").select("time", *carried)
        sequences = _follow_stream(found, made, places)
    else:
        found = found.join(sql.broadcast(made.elements), "filter").select(*carried)
        sequences = _follow_table(found, made, places)
    return sequences.select("pattern", _named("elements", names, places).alias("elements"))


def _complete(found: DataFrame, names: list[str], problems: bool) -> DataFrame:
    """Only what has a place in the order, and what only tells the time, which has no filter."""
    is_complete = reduce(and_, (_has_value(found.schema[name]) for name in names)) | sql.col("filter").isNull()
    if not problems:
        return found.where(is_complete)
    is_read = sql.col("problem").isNull()
    counted = found.observe(
        "palio_patterns",
        sql.count_if(~is_read).alias("unreadable"),
        sql.count_if(~is_complete).alias("incomplete"),
    )
    return counted.where(is_read & is_complete).drop("problem")


def _has_value(field: StructField) -> Column:
    """Whether a column has a value that can be read, which it cannot if it is a string that is not UTF-8."""
    has_value = quoted(field.name).isNotNull()
    is_text = isinstance(field.dataType, spark_types.StringType)
    return has_value & sql.is_valid_utf8(quoted(field.name)) if is_text else has_value


def _follow_table(found: DataFrame, made: PatternSet, places: list[str]) -> DataFrame:
    in_order = found.repartition("pattern").sortWithinPartitions("pattern", *places)
    result = _result(found, made, places)
    return in_order.mapInArrow(partial(follow_sorted, to_arrow_schema(result)), result)


def _follow_stream(found: DataFrame, made: PatternSet, places: list[str]) -> DataFrame:
    return found.groupBy("pattern").applyInPandasWithState(
        partial(follow_stream, tuple(places)),
        outputStructType=_result(found, made, places),
        stateStructType="taken int, rows binary",
        outputMode="append",
        timeoutConf="EventTimeTimeout",
    )


def _result(found: DataFrame, made: PatternSet, places: list[str]) -> StructType:
    element = StructType([StructField(name, found.schema[name].dataType) for name in places])
    return StructType([StructField("pattern", made.id_type), StructField("elements", ArrayType(element))])


def _named(elements: str, names: list[str], places: list[str]) -> Column:
    """The elements with the names that their columns have among the events, and the time as a time again."""

    def one(element: Column) -> Column:
        fields = [element[place] for place in places]
        fields[0] = sql.timestamp_micros(fields[0])
        return sql.struct(*(field.alias(name) for field, name in zip(fields, names, strict=True)))

    return sql.transform(elements, one)


def _check_order(events: DataFrame, order: Sequence[str], key: Sequence[str]) -> list[str]:
    if isinstance(order, str) or isinstance(key, str) or not order:
        raise CallerError("order and key are lists of columns; order begins with a timestamp")
    names = list(dict.fromkeys([*order, *key]))
    kinds = {name: column(events, name, "order" if name in order else "key").dataType for name in names}
    if not isinstance(kinds[names[0]], spark_types.TimestampType):
        kind = kinds[names[0]].simpleString()
        raise UnsupportedColumnError(f"order: column {brief(names[0])} must be a timestamp, not {kind}")
    for name in names[1:]:
        if not isinstance(kinds[name], _PLAIN):
            kind = kinds[name].simpleString()
            raise UnsupportedColumnError(f"column {brief(name)} of type {kind}: order and key are strings or integers")
    return names
