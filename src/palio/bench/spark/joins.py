"""Matching as a join of Spark SQL, as good as one can formulate it for each workload.

One scheme serves all of them. From each filter some constraints are taken that can be tested by equality: they are its
key. Each event is exploded into all keys that a filter for it could have. Then filters and events are joined by hash,
and what remains of a filter is tested on each pair. What the keys are decides how many pairs there are:

- W1: the two equalities.
- W2: the symbol, or symbol and exchange, or sector and exchange.
- W3 has ranges only. Values are divided into buckets; keys are the buckets of two attributes. A filter is there once
  for each pair of buckets that its two ranges touch, mostly four times.
- W4: the beginning or the end of a string, of all lengths that filters use; or else a part of it, of all such lengths
  at all places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from itertools import combinations
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from palio.model import Filter
from palio.model.constraint import Constraint
from palio.model.operator import Operator

_BROADCAST_ROWS = 2_000_000
"""A larger table of filters is divided among the cores, and events travel to it: one hash table would not fit."""


Exploding = Callable[[DataFrame], DataFrame]
"""From events to events with keys: each is there once for each key that a filter for it may have."""


class Prepared(NamedTuple):
    """The filters' side of a join, once for all queries."""

    filters: DataFrame
    """In memory; its columns begin with ``f_``."""
    rows: int
    explode_events: Exploding
    keys: tuple[str, ...]
    rest: str

    def counts(self, events: DataFrame) -> DataFrame:
        """How many of the events each filter matches."""
        hinted = self.filters.hint("broadcast" if self.rows <= _BROADCAST_ROWS else "shuffle_hash")
        equal = [sql.col(name) == sql.col(f"f_{name}") for name in self.keys]
        pairs = self.explode_events(events).join(hinted, reduce(Column.__and__, equal, sql.expr(self.rest)))
        return pairs.groupBy(sql.col("f_id").alias("filter")).count()

    def close(self) -> None:
        """Give back the memory."""
        self.filters.unpersist()


class Join(NamedTuple):
    """The join of one workload."""

    columns: Mapping[str, pa.DataType]
    """What a filter is as a row, besides its id."""
    row: Callable[[Filter], tuple[object, ...]]
    keys: tuple[str, ...]
    """Columns that are equal in filters and exploded events."""
    explode_events: Callable[[DataFrame], Exploding]
    """How it is done with these filters."""
    rest: str
    """What is tested on each pair."""
    explode_filters: Callable[[DataFrame], DataFrame] = lambda filters: filters

    def prepare(self, table: DataFrame) -> Prepared:
        """Bring filters into the form that queries need."""
        exploded = self.explode_filters(table.drop("text"))
        filters = exploded.toDF(*(f"f_{name}" for name in exploded.columns)).persist()
        return Prepared(filters, filters.count(), self.explode_events(filters), self.keys, self.rest)


def _explode(events: DataFrame, keys: Column) -> DataFrame:
    """A row for each struct of the array, whose fields become columns."""
    return events.withColumn("key", sql.explode(keys)).select("*", "key.*").drop("key")


def _bounds(filter: Filter) -> dict[str, tuple[object, object]]:
    """By name: the least and the greatest value, where there are any."""
    least = {each.name: each.value for each in filter if each.operator is Operator.GE}
    most = {each.name: each.value for each in filter if each.operator is Operator.LE}
    return {name: (least.get(name), most.get(name)) for name in least | most}


def _equal(filter: Filter) -> dict[str, object]:
    return {each.name: each.value for each in filter if each.operator is Operator.EQ}


# -- W1 ----------------------------------------------------------------------------------------------------------------


def _w1_row(filter: Filter) -> tuple[object, ...]:
    (first, x), (second, y) = sorted(_equal(filter).items())
    ((name, (lo, hi)),) = _bounds(filter).items()
    return int(first[1:] + second[1:]), x, y, int(name[1:]), lo, hi


def _w1_events(events: DataFrame) -> DataFrame:
    pairs = combinations(range(6), 2)
    keys = [f"named_struct('names', {i}{j}, 'x', s{i}, 'y', s{j})" for i, j in pairs]
    return _explode(events, sql.expr(f"array({', '.join(keys)})"))


# -- W2 ----------------------------------------------------------------------------------------------------------------


def _w2_row(filter: Filter) -> tuple[object, ...]:
    equal, bounds = _equal(filter), _bounds(filter)
    if "sector" in equal:
        key = (2, equal["sector"], equal["exchange"])
    else:
        key = (1, equal["symbol"], equal["exchange"]) if "exchange" in equal else (0, equal["symbol"], "")
    operators = {each.operator for each in filter}
    ranges = [bound for name in ("price", "change", "volume") for bound in bounds.get(name, (None, None))]
    return *key, *ranges[:5], Operator.ANY in operators, Operator.ABSENT in operators


def _w2_events(events: DataFrame) -> DataFrame:
    keys = """array(
        named_struct('kind', 0, 'x', symbol, 'y', ''),
        named_struct('kind', 1, 'x', symbol, 'y', exchange),
        named_struct('kind', 2, 'x', sector, 'y', exchange))"""
    return _explode(events, sql.expr(keys))


_W2_REST = """
    (f_price_lo is null or price >= f_price_lo) and (f_price_hi is null or price <= f_price_hi)
    and (f_change_lo is null or change >= f_change_lo) and (f_change_hi is null or change <= f_change_hi)
    and (f_volume_lo is null or volume >= f_volume_lo)
    and (not f_needs_bid or bid is not null) and (not f_not_halted or halted is null)"""


# -- W3 ----------------------------------------------------------------------------------------------------------------

_BUCKETS = 15
"""About as wide as a range, which then touches two: wider ones have more pairs, narrower ones more rows."""


def _w3_row(filter: Filter) -> tuple[object, ...]:
    ranges = sorted((int(name[1:]), *bounds) for name, bounds in _bounds(filter).items())
    return tuple(part for each in ranges for part in each)


def _bucket(attribute: str, value: str) -> str:
    """Even attributes are integers below 10,000, odd ones floats below 100. It ascends with the value."""
    return f"cast(floor({value} * {_BUCKETS} / if({attribute} % 2 = 0, 10000, 100)) as int)"


def _w3_key(i: str, at_i: str, j: str, at_j: str) -> str:
    """Two attributes and their buckets in one number, which Spark looks up faster than several columns."""
    return f"cast((({i} * 10 + {j}) * 100 + {at_i}) * 100 + {at_j} as long)"


def _w3_events(events: DataFrame) -> DataFrame:
    values = ", ".join(f"cast(x{i} as double)" for i in range(10))
    read = events.selectExpr(f"array({values}) x", *(f"{_bucket(str(i), f'x{i}')} b{i}" for i in range(10)))
    keys = ", ".join(_w3_key(str(i), f"b{i}", str(j), f"b{j}") for i, j in combinations(range(10), 2))
    return read.selectExpr("x", f"explode(array({keys})) key")


def _w3_filters(filters: DataFrame) -> DataFrame:
    buckets = [f"explode(sequence({_bucket(f'a{n}', f'lo{n}')}, {_bucket(f'a{n}', f'hi{n}')})) b{n}" for n in (0, 1)]
    exploded = filters.selectExpr("*", buckets[0]).selectExpr("*", buckets[1])
    return exploded.selectExpr(*filters.columns, f"{_w3_key('a0', 'b0', 'a1', 'b1')} key")


# -- W4 ----------------------------------------------------------------------------------------------------------------

_W4_KEYS = (
    ("url", Operator.PREFIX),
    ("author", Operator.PREFIX),
    ("author", Operator.SUFFIX),
    ("title", Operator.CONTAINS),
)
"""What may be the key, the best first."""
_W4_REST = {
    "url_suffix": ("url", Operator.SUFFIX),
    "url_part": ("url", Operator.CONTAINS),
    "url_not_prefix": ("url", Operator.NOT_PREFIX),
    "url_not_suffix": ("url", Operator.NOT_SUFFIX),
    "title_part": ("title", Operator.CONTAINS),
}
"""What else a filter may ask for, each at most once."""


def _w4_row(filter: Filter) -> tuple[object, ...]:
    def rank(constraint: Constraint) -> tuple[int, int]:
        kind = constraint.name, constraint.operator
        return _W4_KEYS.index(kind) if kind in _W4_KEYS else len(_W4_KEYS), -len(str(constraint.value))

    key, *others = sorted(filter, key=rank)
    rest = {(each.name, each.operator): each.value for each in others}
    return _W4_KEYS.index((key.name, key.operator)), key.value, *(rest.get(kind) for kind in _W4_REST.values())


def _w4_events(filters: DataFrame) -> Exploding:
    used = filters.selectExpr("f_kind kind", "length(f_part) length").distinct().orderBy("kind", "length").collect()
    keys = []
    for kind, (name, operator) in enumerate(_W4_KEYS):
        lengths = [row["length"] for row in used if row["kind"] == kind]
        if lengths:
            fitting = f"filter(array({', '.join(map(str, lengths))}), n -> n <= length({name}))"
            parts = _w4_parts(name, operator, fitting)
            keys.append(f"transform({parts}, part -> named_struct('kind', {kind}, 'part', part))")
    return lambda events: _explode(events, sql.expr(f"concat({', '.join(keys)})"))


def _w4_parts(name: str, operator: Operator, lengths: str) -> str:
    """All that a filter may ask for of a string, each once."""
    match operator:
        case Operator.PREFIX:
            return f"transform({lengths}, n -> left({name}, n))"
        case Operator.SUFFIX:
            return f"transform({lengths}, n -> right({name}, n))"
    places = f"sequence(1, length({name}) - n + 1)"
    return f"array_distinct(flatten(transform({lengths}, n -> transform({places}, p -> substring({name}, p, n)))))"


_STRING, _INTEGER, _FLOAT, _KIND = pa.string(), pa.int64(), pa.float64(), pa.int32()

JOINS: dict[str, Join] = {
    "W1": Join(
        {"names": _KIND, "x": _STRING, "y": _STRING, "n": _KIND, "lo": _INTEGER, "hi": _INTEGER},
        _w1_row,
        ("names", "x", "y"),
        lambda _: _w1_events,
        "case f_n when 0 then n0 when 1 then n1 else n2 end between f_lo and f_hi",
    ),
    "W2": Join(
        {"kind": _KIND, "x": _STRING, "y": _STRING}
        | dict.fromkeys(["price_lo", "price_hi", "change_lo", "change_hi", "volume_lo"], _FLOAT)
        | dict.fromkeys(["needs_bid", "not_halted"], pa.bool_()),
        _w2_row,
        ("kind", "x", "y"),
        lambda _: _w2_events,
        _W2_REST,
    ),
    "W3": Join(
        {name: _FLOAT if name[0] in "lh" else _KIND for n in range(4) for name in (f"a{n}", f"lo{n}", f"hi{n}")},
        _w3_row,
        ("key",),
        lambda _: _w3_events,
        " and ".join(f"x[f_a{n}] between f_lo{n} and f_hi{n}" for n in range(4)),
        _w3_filters,
    ),
    "W4": Join(
        {"kind": _KIND, "part": _STRING} | dict.fromkeys(_W4_REST, _STRING),
        _w4_row,
        ("kind", "part"),
        _w4_events,
        """(f_url_suffix is null or endswith(url, f_url_suffix)) and (f_url_part is null or contains(url, f_url_part))
        and (f_url_not_prefix is null or not startswith(url, f_url_not_prefix))
        and (f_url_not_suffix is null or not endswith(url, f_url_not_suffix))
        and (f_title_part is null or contains(title, f_title_part))""",
    ),
}
"""By workload."""
