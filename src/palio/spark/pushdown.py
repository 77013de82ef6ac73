"""What Spark can test by itself, before an event is handed to a worker: a condition that every match meets.

It is needed for few filters only; for many it would hold for nearly all events and cost more than it spares.
"""

from __future__ import annotations

from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType

from palio.model.constraint import Constraint
from palio.model.filter import Filter
from palio.model.operator import Operator
from palio.spark.filters import FilterSet
from palio.spark.types import quoted

_WHOLE = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
_REAL = (spark_types.FloatType, spark_types.DoubleType)
_EXACT = 2**53
"""Beyond it, Spark's comparison of integers with floats rounds, and ours does not."""


def necessary_condition(events: DataFrame, made: FilterSet, tells_problems: bool) -> Column | None:
    """A condition on the events without which no filter of a small set matches; ``None`` if there is nothing to say.

    Where problems are to be told, events that cannot be read must come through: nothing is left out then.
    """
    if made.small is None or tells_problems:
        return None
    types = {field.name: field.dataType for field in events.schema.fields}
    conditions = []
    for filter in made.small:
        condition = _of_filter(filter, types)
        if condition is None:
            return None
        conditions.append(condition)
    return reduce(Column.__or__, conditions) if conditions else sql.lit(False)


def _of_filter(filter: Filter, types: dict[str, DataType]) -> Column | None:
    found = [condition for each in filter if (condition := _of_constraint(each, types)) is not None]
    return reduce(Column.__and__, found) if found else None


def _of_constraint(constraint: Constraint, types: dict[str, DataType]) -> Column | None:
    """A condition that follows from the constraint, as strong as Spark can test exactly."""
    name, operator = constraint.name, constraint.operator
    kind = types.get(name)
    if operator is Operator.ABSENT:
        return None if kind is None else quoted(name).isNull()
    if kind is None:
        return sql.lit(False)
    test = _comparison(quoted(name), operator, constraint.value, kind)
    return quoted(name).isNotNull() if test is None else test


def _comparison(column: Column, operator: Operator, literal: object, kind: DataType) -> Column | None:
    if not _is_exact(literal, kind):
        return None
    if isinstance(literal, str):
        column = column.cast("string")  # or Spark would pad the literal to the width of a CHAR column
    elif isinstance(literal, int | float) and isinstance(kind, _REAL):
        literal = float(literal)  # or Spark may make it a float of 32 bits
        if literal == 0:
            return _comparison_with_zero(column, operator)
    match operator:
        case Operator.EQ:
            return column == sql.lit(literal)
        case Operator.LT:
            return column < sql.lit(literal)
        case Operator.LE:
            return column <= sql.lit(literal)
        case Operator.GT:
            return column > sql.lit(literal)
        case Operator.GE:
            return column >= sql.lit(literal)
        case Operator.PREFIX:
            return column.startswith(sql.lit(literal)) if isinstance(literal, str) else None
        case _:
            return None


def _comparison_with_zero(column: Column, operator: Operator) -> Column | None:
    """The zeros are equal, but the dictionaries of Parquet files have one of them below the other."""
    least, greatest = sql.lit(-0.0), sql.lit(0.0)
    match operator:
        case Operator.EQ:
            return (column >= least) & (column <= greatest)
        case Operator.LT:
            return column < greatest
        case Operator.LE:
            return column <= greatest
        case Operator.GT:
            return column > least
        case Operator.GE:
            return column >= least
        case _:
            return None


def _is_exact(literal: object, kind: DataType) -> bool:
    """Whether Spark compares such a column with such a literal just as we do."""
    if literal is None or isinstance(literal, bool | datetime | bytes):
        return False
    if isinstance(literal, str):
        return isinstance(kind, spark_types.StringType) and kind.isUTF8BinaryCollation()
    if isinstance(literal, int):
        return isinstance(kind, _WHOLE) or (isinstance(kind, _REAL) and abs(literal) < _EXACT)
    return isinstance(kind, _REAL)
