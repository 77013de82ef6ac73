"""Hypothesis strategies over small domains, so that relations between what they draw really occur.

For each type there are a few literals and a *saturated* domain of values: one value from every region that the
literals can tell apart. On such a domain brute force decides inclusion and emptiness exactly.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from palio import Advertisement, Constraint, Filter, Operator
from palio.model.value import MAX_INTEGER, MIN_INTEGER, Value

ORDER = [Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE]
STRING_ORDER = [*ORDER, Operator.PREFIX, Operator.NOT_PREFIX]
EVERY_STRING = [operator for operator in Operator if operator.takes_value]

INTEGERS = [MIN_INTEGER, -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**53 + 2, 2**62, 2**62 + 1, MAX_INTEGER]
FLOATS = [
    -sys.float_info.max,
    -0.5,
    0.0,
    5e-324,
    0.5,
    1.0,
    1.0000000000000002,
    1.5,
    2.0,
    2.0**53,
    2.0**53 + 4,
    2.0**62 + 1024,
    1e300,
]
FLOATS.append(sys.float_info.max)
TIMES = [datetime.min.replace(tzinfo=UTC), datetime(2026, 7, 2, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
TIMES[2:2] = [TIMES[1] + timedelta(microseconds=n) for n in (1, 2, 5)]
BYTES = [b"", b"\0", b"a", b"a\0", b"a\0\0", b"ab", b"b", b"\xff", b"\xff\xff"]


def _integer_domain() -> list[Value]:
    """The integers around every literal of either number type."""
    around = {math.floor(literal) + d for literal in [*INTEGERS, *FLOATS] for d in (-1, 0, 1)}
    return sorted(number for number in around if MIN_INTEGER <= number <= MAX_INTEGER)


def _float_domain() -> list[Value]:
    """The floats at and right after every literal of either number type."""
    found: set[float] = set()
    for literal in [*FLOATS, *INTEGERS]:
        near = float(literal)
        found |= {math.nextafter(near, -math.inf), near, math.nextafter(near, math.inf)}
    return sorted(value for value in found if math.isfinite(value))


def _time_domain() -> list[Value]:
    found: set[datetime] = set()
    for time in TIMES:
        for delta in (-1, 0, 1):
            try:
                found.add(time + timedelta(microseconds=delta))
            except OverflowError:
                continue
    return sorted(found)


DOMAINS: dict[str, list[Value]] = {
    "boolean": [False, True],
    "integer": _integer_domain(),
    "float": _float_domain(),
    "time": _time_domain(),
    "bytes": sorted({b"", *BYTES, *(literal + b"\0" for literal in BYTES)}),
}
EVERY_VALUE: list[Value | None] = [None, "", "a", *(value for domain in DOMAINS.values() for value in domain)]
"""Absence, two strings, and the saturated domains of all other types."""


def numeric_constraints(name: str = "x") -> st.SearchStrategy[Constraint]:
    literals = st.sampled_from([*INTEGERS, *FLOATS])
    types = st.sampled_from([None, "integer", "float"])
    return st.builds(Constraint, st.just(name), st.sampled_from(ORDER), literals, types)


def ordered_constraints(name: str = "x") -> st.SearchStrategy[Constraint]:
    """Constraints of every type but string, bare and typed ``any`` and ``absent`` among them."""

    def of(literals: Sequence[Value]) -> st.SearchStrategy[Constraint]:
        return st.builds(Constraint, st.just(name), st.sampled_from(ORDER), st.sampled_from(literals))

    presence = [
        Constraint(name, Operator.ABSENT),
        Constraint(name, Operator.ANY),
        *(Constraint(name, Operator.ANY, type=each) for each in ("boolean", "integer", "float", "number", "bytes")),
        Constraint(name, Operator.ANY, type="string"),
    ]
    return st.one_of(numeric_constraints(name), of([False, True]), of(TIMES), of(BYTES), st.sampled_from(presence))


WORDS = st.text(st.sampled_from(["a", "b", "\0", "\1", "\U0010ffff"]), max_size=3)
"""Short strings with shared prefixes and suffixes, the lowest and the highest character among their letters."""


def string_constraints(operators: list[Operator] = EVERY_STRING, name: str = "x") -> st.SearchStrategy[Constraint]:
    return st.builds(Constraint, st.just(name), st.sampled_from(operators), WORDS)


def string_filters(most: int = 4, operators: list[Operator] = EVERY_STRING) -> st.SearchStrategy[Filter]:
    return st.lists(string_constraints(operators), min_size=1, max_size=most).map(Filter)


def string_advertisements(most: int = 4) -> st.SearchStrategy[Advertisement]:
    return st.lists(string_constraints(), min_size=1, max_size=most).map(Advertisement)


def related_constraints(constraints: st.SearchStrategy[Constraint]) -> st.SearchStrategy[list[list[Constraint]]]:
    """Three lists that share constraints, so that covering between them is common."""

    def pick(pool: list[Constraint]) -> st.SearchStrategy[list[list[Constraint]]]:
        return st.lists(st.lists(st.sampled_from(pool), max_size=4), min_size=3, max_size=3)

    return st.lists(constraints, min_size=1, max_size=6).flatmap(pick)


# -- anything at all, for round trips ----------------------------------------------------------------------------------

NAMES = st.one_of(
    st.sampled_from(["x", "event", "and", "NOT", "in", "string", "date", "byte-array", "a b", 'q"q', "then", "b", "µ"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
)
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.integers(MIN_INTEGER, MAX_INTEGER),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.datetimes(timezones=st.just(UTC)),
    st.binary(max_size=12),
)
TYPES_BY_CLASS = {int: [None, "integer", "float", "number"], float: [None, "integer", "float", "number"]}


@st.composite
def any_constraints(draw: st.DrawFn) -> Constraint:
    name = draw(NAMES)
    operator = draw(st.sampled_from(list(Operator)))
    if operator is Operator.ABSENT:
        return Constraint(name, operator)
    if operator is Operator.ANY:
        kinds = [None, "string", "integer", "float", "boolean", "time", "bytes", "number"]
        return Constraint(name, operator, type=draw(st.sampled_from(kinds)))
    if operator.strings_only:
        return Constraint(name, operator, draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=8)))
    value = draw(VALUES)
    return Constraint(name, operator, value, draw(st.sampled_from(TYPES_BY_CLASS.get(type(value), [None]))))
