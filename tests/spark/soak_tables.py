"""Random tables, filters and sessions, matched through Spark and by brute force: ``make soak SOAK=tables MINUTES=3``.

Every set is matched as it is and once more among filters that match nothing, so that sets small enough for Spark's own
conditions and larger ones must agree; and all three kinds of results must say the same. SEED repeats a run, SEED and
CASE one case of it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from traceback import format_tb
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from palio import Filter, spark
from palio.errors import DuplicateNameError, UnsupportedColumnError
from palio.spark.filters import SMALL_SET
from tests.spark import table_oracle as oracle
from tests.spark.table_cases import Case

Pairs = set[tuple[int, Any]]


class Soak:
    """Tries cases, counts them, and tells what did not agree."""

    def __init__(self, session: SparkSession, folder: Path, besides: Sequence[int] = (0, SMALL_SET + 1)) -> None:
        """Each set is matched with so many filters beside that match nothing."""
        self._session, self._folder, self._besides = session, folder, besides
        self.pairs = 0
        self.mismatches: list[str] = []
        self.kinds: Counter[str] = Counter()

    def try_case(self, case: Case) -> None:
        """One case, in all forms of results; what Spark or Palio raise is a mismatch, too."""
        try:
            self._try_case(case)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the case
            self._tell(
                case, f"{type(error).__name__}: {str(error)[:2000]}\n{''.join(format_tb(error.__traceback__)[-4:])}"
            )

    def _try_case(self, case: Case) -> None:
        with _settings(self._session, case.settings), tempfile.TemporaryDirectory(dir=self._folder) as place:
            events = case.table.read(self._session, Path(place))
            expected = _expected(case)
            for beside in self._besides:
                with spark.prepare(self._table(case, beside)) as made:
                    self._compare(case, events, made, expected, beside)
            self.pairs += len(case.rows) * len(case.filters.rows)
        self.kinds.update(case.kinds)

    def _table(self, case: Case, beside: int) -> DataFrame:
        """The filters, and so many that match nothing."""
        rows: list[tuple[Any, str]] = [*case.filters.rows]
        is_text = case.filters.id_type == "string"
        numbers = range(len(rows), len(rows) + beside)
        rows += [(f"id {number}" if is_text else number, f'"no such column" = {number}') for number in numbers]
        return self._session.createDataFrame(rows, f"id {case.filters.id_type}, text string")

    def _compare(self, case: Case, events: DataFrame, made: spark.FilterSet, expected: Pairs, beside: int) -> None:
        key, tells = case.table.key, case.tells_problems
        how = f"{beside} filters beside" + (", with problems" if tells else "")
        how += ", decimals rounded" if case.rounds_decimals else ""
        unread = _unread(case) if tells else []
        find = partial(spark.match, events, made, problems=tells, round_decimals=case.rounds_decimals)
        narrow = find(key=key).select(_quoted(key), "filter").collect()
        self._judge(case, [(row[0], row[1]) for row in narrow if row[1] is not None], expected, f"narrow, {how}")
        if sorted(row[0] for row in narrow if row[1] is None) != unread:
            self._tell(case, f"narrow, {how}: not just the rows {unread} are those that cannot be read")
        if (beside > 0) == case.is_wide_large:
            wide = find(result="wide")
            listed = wide.select(_quoted(key), "filters", *["problem"] * tells).collect()
            self._judge(case, [(row[0], id) for row in listed for id in row[1]], expected, f"wide, {how}")
            if sorted(row[0] for row in listed) != list(range(case.table.size)):
                self._tell(case, f"wide, {how}: the rows are not those of the table")
            if sorted(row[0] for row in listed if tells and row[2] is not None) != unread:
                self._tell(case, f"wide, {how}: not just the rows {unread} are those that cannot be read")
        else:
            counted = find(result="counts").collect()
            counts = sorted((row["filter"], row["count"]) for row in counted if row["filter"] is not None)
            if counts != sorted(Counter(id for _, id in expected).items()):
                self._tell(case, f"counts, {how}: {counts[:5]} ...")
            if sum(row["count"] for row in counted if row["filter"] is None) != len(unread):
                self._tell(case, f"counts, {how}: not {len(unread)} rows are those that cannot be read")

    def _judge(self, case: Case, found: list[tuple[int, Any]], expected: Pairs, how: str) -> None:
        told = Counter(found)
        wrong = [(pair, f"{times} times") for pair, times in told.items() if times != (pair in expected)]
        wrong += [(pair, "not at all") for pair in expected - told.keys()]
        if wrong:
            (k, id), times = min(wrong, key=str)
            filters = [text for known, text in case.filters.rows if known == id]
            right = "once" if (k, id) in expected else "not at all"
            row = case.table.show(k) if isinstance(k, int) and k < case.table.size else f"unknown row {k!r}"
            self._tell(
                case, f"{how}: {len(wrong)} pairs\n  row {row}\n  filter {id!r}: {filters}\n  {times}, not {right}"
            )

    def _tell(self, case: Case, problem: str) -> None:
        names = ", ".join(f"{column.name!r} {column.kind.name}" for column in case.table.columns)
        message = (
            f"{case.title}: {problem}\n  table from {case.table.source}, {case.table.size} rows: {names}\n"
            f"  settings {case.settings}"
        )
        self.mismatches.append(message)
        print(f"\n{message}", flush=True)

    # -- types that are refused ----------------------------------------------------------------------------------------

    def try_refused(self) -> None:
        """Every type that attributes cannot have is refused by name before anything runs, and harmless beside."""
        with (
            _settings(self._session, {"spark.sql.timeType.enabled": "true", "spark.sql.caseSensitive": "true"}),
            spark.prepare(self._one('"an x" any')) as asking,
            spark.prepare(self._one("y = 'b'")) as other,
        ):
            for kind, expression in oracle.REFUSED.items():
                events = self._session.sql(f"select 1L as k, 'b' as y, {expression} as `an x`")
                self._refuse(events, asking, UnsupportedColumnError, f"column 'an x' of type '{kind.split()[0]}")
                self.kinds[f"refused {kind}"] += 1
            for kind, expression in oracle.NOT_KEPT.items():
                events = self._session.sql(f"select 1L as k, 'b' as y, {expression} as `an x`")
                for wanted in ({"result": "wide"}, {"key": ["k", "an x"]}):
                    self._refuse(events, other, UnsupportedColumnError, "cannot be kept in a result", **wanted)
                self.kinds[f"not kept {kind}"] += 1
            columns = ", ".join(f"{expression} as `{kind}`" for kind, expression in oracle.REFUSED.items())
            events = self._session.sql(f"select 1L as k, 'b' as y, {columns}")
            found = [tuple(row) for row in spark.match(events, other, key="k").collect()]
            self.pairs += 1
            if found != [(1, 1)]:
                self._tell_plainly(f"beside columns of other types: {found}")
            events = self._session.sql("select 1L as k, 'b' as y, 5 as Y")
            self._refuse(events, other, DuplicateNameError, "'y' and 'Y'")
            self.kinds["names that differ in case"] += 1

    def _one(self, text: str) -> DataFrame:
        return self._session.createDataFrame([(1, text)], "id long, text string")

    def _refuse(
        self, events: DataFrame, made: spark.FilterSet, error: type[Exception], message: str, **wanted: Any
    ) -> None:
        try:
            spark.match(events, made, **wanted or {"key": "k"})
        except error as told:
            if message not in str(told):
                self._tell_plainly(f"{told} does not say {message}")
        else:
            self._tell_plainly(f"not refused: {message}")

    def _tell_plainly(self, problem: str) -> None:
        self.mismatches.append(problem)
        print(f"\n{problem}", flush=True)


def _expected(case: Case) -> Pairs:
    """By brute force; equal filters are asked once."""
    known: dict[Filter, list[int]] = {}
    pairs: Pairs = set()
    for id, filters in case.filters.by_id().items():
        for filter in filters:
            if filter not in known:
                known[filter] = [k for k, row in enumerate(case.rows) if oracle.does_match(filter, row)]
            pairs.update((k, id) for k in known[filter])
    return pairs


def _unread(case: Case) -> list[int]:
    """The rows with values that cannot be read, in columns that filters mention."""
    parts = (filter for filters in case.filters.by_id().values() for filter in filters)
    mentioned = {constraint.name for filter in parts for constraint in filter}
    return [k for k, row in enumerate(case.rows) if row.unreadable & mentioned]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def _settings(session: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, known in before.items():
            session.conf.unset(name) if known is None else session.conf.set(name, known)


def main() -> None:
    """A run of some minutes, or one case of it."""
    parser = argparse.ArgumentParser(prog="soak_tables")
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", default=str(time.time_ns() % 100_000))
    parser.add_argument("--case", type=int)
    given = parser.parse_args()
    end = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="palio-soak-") as folder:
        session = spark.session("local[2]", settings={"spark.sql.warehouse.dir": f"{folder}/tables"})
        soak = Soak(session, Path(folder))
        if given.case is not None:
            soak.try_case(Case(given.seed, given.case))
        else:
            soak.try_refused()
            number = 0
            while time.monotonic() < end:
                soak.try_case(Case(given.seed, number))
                number += 1
                left = max(0, end - time.monotonic())
                print(
                    f"\r{number} cases, {soak.pairs:,} pairs, {len(soak.mismatches)} mismatches, {left:.0f} s left ",
                    end="",
                )
                sys.stdout.flush()
        print(f"\nseed {given.seed}")
    print(
        json.dumps({"pairs": soak.pairs, "mismatches": len(soak.mismatches), "kinds": dict(sorted(soak.kinds.items()))})
    )
    session.stop()
    raise SystemExit(1 if soak.mismatches else 0)


if __name__ == "__main__":
    main()
