"""The comparison of ``make soak SOAK=tables``, shortly; and faults that it must find."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types

from palio.model.operator import Operator
from palio.spark import matching, pushdown, shipping, types
from tests.spark import table_oracle as oracle
from tests.spark.soak_tables import Soak
from tests.spark.table_cases import Case


def test_tables_agree_with_brute_force(session: SparkSession, tmp_path: Path) -> None:
    soak = Soak(session, tmp_path)
    soak.try_refused()
    types = {kind.name for kind in oracle.kinds()}
    for case in (Case("few", 1, count=2, only=types), Case("many", 1, count=60, only=types), _of_files()):
        soak.try_case(case)
    assert soak.mismatches == []
    assert soak.pairs > 120 * 62
    assert sum("refused" in kind for kind in soak.kinds) > 10


def _of_files() -> Case:
    """The first case with events from files."""
    cases = (Case("files", number, count=7) for number in itertools.count())
    return next(case for case in cases if case.table.source in {"json", "parquet"} and case.table.size > 1)


def test_a_case_is_the_same_for_its_seed() -> None:
    first, again, other = Case("s", 3), Case("s", 3), Case("s", 4)
    assert (first.table.columns[0].values, first.filters, first.settings) == (
        again.table.columns[0].values,
        again.filters,
        again.settings,
    )
    assert first.filters != other.filters


# -- faults ------------------------------------------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def _strict_comparisons(patch: pytest.MonkeyPatch) -> None:
    """Spark leaves out events that are equal to the bound, and those that are equal."""

    def wrong(column: Column, operator: Operator, literal: Any, kind: spark_types.DataType) -> Column | None:
        if isinstance(literal, bool) or not isinstance(kind, spark_types.LongType) or not isinstance(literal, int):
            return None
        up = operator in {Operator.GE, Operator.GT, Operator.EQ}
        down = operator in {Operator.LE, Operator.LT}
        return column > sql.lit(literal) if up else column < sql.lit(literal) if down else None

    patch.setattr(pushdown, "_comparison", wrong)


def _padded_literals(patch: pytest.MonkeyPatch) -> None:
    """Spark compares with a literal that was filled with blanks, as it does for columns of type CHAR."""
    right = pushdown._comparison

    def wrong(column: Column, operator: Operator, literal: Any, kind: spark_types.DataType) -> Column | None:
        return right(column, operator, literal.ljust(4) if isinstance(literal, str) else literal, kind)

    patch.setattr(pushdown, "_comparison", wrong)


def _collated_comparisons(patch: pytest.MonkeyPatch) -> None:
    """Spark compares strings by the collation of the column, and not by code points as filters do."""
    right = pushdown._comparison
    order = {Operator.LT: Column.__lt__, Operator.LE: Column.__le__, Operator.GT: Column.__gt__}

    def wrong(column: Column, operator: Operator, literal: Any, kind: spark_types.DataType) -> Column | None:
        compare = order.get(operator) if isinstance(literal, str) else None
        return right(column, operator, literal, kind) if compare is None else compare(column, sql.lit(literal))

    patch.setattr(pushdown, "_comparison", wrong)


def _absent_where_present(patch: pytest.MonkeyPatch) -> None:
    right = pushdown._of_constraint

    def wrong(constraint: Any, kinds: Any) -> Column | None:
        condition = right(constraint, kinds)
        return ~condition if constraint.operator is Operator.ABSENT and condition is not None else condition

    patch.setattr(pushdown, "_of_constraint", wrong)


def _forgotten_unions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shipping.Assembly, "_write_unions", lambda self, *_: ((False,) * len(self._indexes), False))


def _nan_as_absent(patch: pytest.MonkeyPatch) -> None:
    """An event whose value cannot be read is matched as if it had none."""
    right = matching._column

    def wrong(field: spark_types.StructField) -> Column:
        column = right(field)
        is_double = isinstance(field.dataType, spark_types.DoubleType)
        return sql.when(~sql.isnan(column), column) if is_double else column

    patch.setattr(matching, "_column", wrong)


def _rounding(always: bool) -> Patch:
    def fault(patch: pytest.MonkeyPatch) -> None:
        right = matching._run

        def wrong(events: Any, task: Any, *others: Any) -> Any:
            return right(events, task._replace(round_decimals=always), *others)

        patch.setattr(matching, "_run", wrong)

    fault.__name__ = "_always_rounding" if always else "_never_rounding"
    return fault


_LONG = {"decimal(18,4)", "decimal(38,18)"}
FAULTS: list[tuple[Patch, int, set[str], int]] = [
    (_strict_comparisons, 1, {"bigint"}, 9),
    (_padded_literals, 1, {"string"}, 17),
    (_collated_comparisons, 1, {"string collate UTF8_BINARY_RTRIM", "string collate UTF8_LCASE"}, 1),
    (_absent_where_present, 1, {"binary"}, 5),
    (_forgotten_unions, 30, {"int"}, 3),
    (_nan_as_absent, 5, {"double"}, 0),
    (_rounding(always=True), 5, _LONG, 0),
    (_rounding(always=False), 5, _LONG, 0),
]
"""With the number of filters, the types, and the first case that finds the fault, so that it need not be searched for
every time; cases after it are tried if what is drawn has changed."""


@pytest.mark.parametrize(("fault", "count", "only", "first"), FAULTS, ids=[fault.__name__ for fault, *_ in FAULTS])
def test_planted_faults_are_found(
    session: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: Patch,
    count: int,
    only: set[str],
    first: int,
) -> None:
    fault(monkeypatch)
    soak = Soak(session, tmp_path, besides=(0,))
    for number in range(first, first + 60):
        soak.try_case(Case("planted", number, count=count, only=only))
        if soak.mismatches:
            break
    assert "SEED=planted CASE=" in soak.mismatches[0]
    assert "filter " in soak.mismatches[0] or "those that cannot be read" in soak.mismatches[0]
    assert soak.mismatches[0] in capsys.readouterr().out


def test_types_that_are_not_refused_are_found(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(types, "_SUPPORTED", (*types._SUPPORTED, spark_types.DateType))
    soak = Soak(session, tmp_path)
    soak.try_refused()
    assert soak.mismatches == ["not refused: column 'an x' of type 'date"]
