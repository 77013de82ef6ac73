"""Filters and notifications that meet: small pools of names and literals, and values at the edges of the literals.

Hypothesis draws these one by one, so that failures shrink; ``populations.py`` makes filters by the thousand.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from palio import Constraint, Filter, Notification, Operator, Type
from palio.model.value import MAX_INTEGER, MAX_MICROSECONDS, MIN_INTEGER, MIN_MICROSECONDS, Value, to_microseconds

NAMES = ["a", "b", "x", "xy", "é", "a name of more than sixteen bytes", "n\0"]
ORDER = [Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE]
STRING = [operator for operator in Operator if operator.takes_value]

INTEGERS = [
    *(0, 1, -1, 2, 3, 7, 255, 2**24 + 1, 2**31, 2**32, -(2**31) - 1),
    *(2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**62 + 1),
    *(MAX_INTEGER, MAX_INTEGER - 1, MAX_INTEGER - 512, MIN_INTEGER, MIN_INTEGER + 1),
]
FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, 2.5, 0.1, 3.0, 7.0, 255.0, 2.0**24 + 1),
    *(5e-324, -5e-324, sys.float_info.min, sys.float_info.min / 2, math.nextafter(1, 2), math.nextafter(1, 0)),
    *(2.0**53 - 1, 2.0**53, 2.0**53 + 2, -(2.0**53) - 2, 2.0**62, 2.0**63, -(2.0**63), math.nextafter(2.0**63, 0)),
    *(math.nextafter(-(2.0**63), -math.inf), 2.0**64, 1e300, sys.float_info.max, -sys.float_info.max, 1e-300),
]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = [
    *(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), EPOCH, datetime(2026, 7, 2, tzinfo=UTC)),
    *(EPOCH + timedelta(microseconds=n) for n in (-1, 1, 2, 3)),
]
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65]
STRINGS = [
    *(
        "",
        "a",
        "b",
        "aa",
        "ab",
        "ba",
        "abc",
        "bc",
        "a\0",
        "\0",
        "a\0\0",
        "é",
        "éa",
        "aé",
        "ü",
        "日本",
        "日",
        "😀",
        "a😀",
    ),
    *("\U0010ffff", "a\U0010ffff", "\uffff", "\ue000", "\ud7ff"),
    *("a" * length for length in LENGTHS if length > 2),
    *("ab" * (length // 2) + "c" * (length % 2) for length in LENGTHS if length > 5),
    *("a" * length + "b" for length in (6, 7, 8, 14, 15, 16, 30, 31, 32)),
    *("b" + "a" * length for length in (6, 7, 8, 14, 15, 16, 30, 31, 32)),
]
BYTES = [
    *(b"", b"\0", b"a", b"a\0", b"a\0\0", b"ab", b"b", b"\xff", b"\xff\xff", b"\x7f", b"\x80"),
    *(b"a" * length for length in (7, 8, 9, 15, 16, 17, 31, 32, 33)),
    *(b"a" * length + b"\xff" for length in (7, 8, 15, 16)),
]
LITERALS: list[Sequence[Value]] = [INTEGERS, FLOATS, TIMES, STRINGS, STRINGS, BYTES, [False, True]]
TYPED_ANY: list[str | None] = [None, *(type.value for type in Type)]


def examples(divisor: int) -> settings:
    """As many examples as the profile asks for, divided: for properties whose examples are large."""
    return settings(max_examples=max(2, settings().max_examples // divisor))


# -- values at the edges of a literal ----------------------------------------------------------------------------------


def near(literal: Value) -> list[Value]:
    """The literal, its neighbours on both sides, and values of other types that an index might take for it."""
    match literal:
        case bool():
            return [literal, not literal, int(literal), float(literal), str(literal)]
        case int() | float():
            return _near_number(literal)
        case datetime():
            at = to_microseconds(literal)
            around = [n for n in (at, at - 1, at + 1, at - 10**6) if MIN_MICROSECONDS <= n <= MAX_MICROSECONDS]
            return [*(EPOCH + timedelta(microseconds=n) for n in around), at, float(at)]
        case str():
            return _near_string(literal)
        case bytes():
            below = literal[:-1] + bytes([max(literal[-1] - 1, 0)]) + b"\xff" if literal else b"\0"
            found: list[Value] = [literal, literal + b"\0", literal[:-1], below, literal + b"z", literal[::-1]]
            return [*found, literal.decode("latin-1")]
    raise AssertionError(literal)


def _near_number(literal: float) -> list[Value]:
    whole = math.floor(literal)
    integers = [n for n in (whole, whole + 1, whole - 1) if MIN_INTEGER <= n <= MAX_INTEGER]
    real = float(literal)
    floats = [real, math.nextafter(real, math.inf), math.nextafter(real, -math.inf), real + 0.5, -real]
    found: list[Value] = [literal, *integers, *(each for each in floats if math.isfinite(each))]
    if MIN_MICROSECONDS <= whole <= MAX_MICROSECONDS:
        found.append(EPOCH + timedelta(microseconds=whole))
    return [*found, bool(literal), str(literal)]


def _near_string(literal: str) -> list[Value]:
    flip = {"a": "b", "b": "a"}
    found: list[Value] = [literal, literal + "\0", literal + "b", "b" + literal, f"a{literal}b", literal[:-1]]
    found += [literal[1:], literal[::-1], literal * 2, literal[:-1] + literal, literal + literal[1:]]
    if literal:
        first, last = literal[0], literal[-1]
        found += [flip.get(first, "a") + literal[1:], literal[:-1] + flip.get(last, "a")]
        found += [literal[: len(literal) // 2] + literal, "a" * 40 + literal + "a" * 40]
        below = ord(last) - 1
        if below >= 0 and not 0xD800 <= below < 0xE000:
            found.append(literal[:-1] + chr(below) + "\U0010ffff")
    return [*found, literal.encode()]


OTHERS: list[Value] = ["", "other", 0, 1, -5, 0.25, True, False, EPOCH, b"", b"other"]


def candidates(constraints: Iterable[Constraint]) -> list[Value]:
    """Values near the literals of constraints; for ``any``, one of each type."""
    found: list[Value] = []
    for constraint in constraints:
        found += OTHERS if constraint.value is None else near(constraint.value)
    return found


# -- drawn by Hypothesis -----------------------------------------------------------------------------------------------

LITERAL = st.sampled_from(LITERALS).flatmap(st.sampled_from)
VALUES = st.one_of(LITERAL, LITERAL.flatmap(lambda literal: st.sampled_from(near(literal))))


@st.composite
def constraints(draw: st.DrawFn, names: Sequence[str] = NAMES) -> Constraint:
    """Constraints of every operator, with every type that goes with it."""
    name = draw(st.sampled_from(names))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return Constraint(name, Operator.ABSENT)
    if kind == 1:
        return Constraint(name, Operator.ANY, type=draw(st.sampled_from(TYPED_ANY)))
    literal = draw(LITERAL)
    if isinstance(literal, str):
        return Constraint(name, draw(st.sampled_from(STRING)), literal)
    number = isinstance(literal, int | float) and not isinstance(literal, bool)
    type = draw(st.sampled_from([None, None, "number", "integer", "float"])) if number else None
    return Constraint(name, draw(st.sampled_from(ORDER)), literal, type)


FEW = st.lists(constraints(), max_size=4)
ON_ONE_NAME = st.sampled_from(NAMES).flatmap(lambda name: st.lists(constraints([name]), min_size=2, max_size=5))
FILTERS = st.one_of(FEW, st.lists(constraints(["x"]), min_size=1, max_size=2), ON_ONE_NAME).map(Filter)


@st.composite
def filter_lists(draw: st.DrawFn, most: int = 16) -> list[Filter]:
    """Filters some of which share constraints, or are the same."""
    filters = draw(st.lists(FILTERS, max_size=most))
    shares: Any = draw(st.booleans())
    if filters and shares:
        pool = [constraint for filter in filters for constraint in filter]
        if pool:
            filters += draw(st.lists(st.lists(st.sampled_from(pool), max_size=6).map(Filter), max_size=4))
        filters.append(draw(st.sampled_from(filters)))
    return filters


NOTIFICATIONS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5).map(Notification)


@st.composite
def aimed(draw: st.DrawFn, filters: Sequence[Filter]) -> Notification:
    """A notification at the edges of one of the filters, mostly within them."""
    if not filters or draw(st.integers(0, 7)) == 0:
        return draw(NOTIFICATIONS)
    attributes: dict[str, Value] = {}
    for name, group in draw(st.sampled_from(filters)).by_name().items():
        choice = draw(st.integers(0, 7))
        if choice == 0:
            continue
        values = candidates(group)
        fitting = [value for value in values if all(constraint.matches_value(value) for constraint in group)]
        if choice == 1 or (values and fitting):
            attributes[name] = draw(st.sampled_from(values if choice == 1 else fitting))
    if draw(st.booleans()):
        attributes |= draw(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=2))
    return Notification(attributes)


def aimed_lists(filters: Sequence[Filter], most: int = 6) -> st.SearchStrategy[list[Notification]]:
    return st.lists(aimed(filters), min_size=1, max_size=most)


@st.composite
def meetings(draw: st.DrawFn, most: int = 16) -> tuple[list[Filter], list[Notification]]:
    """Filters, and notifications aimed at them."""
    filters = draw(filter_lists(most))
    return filters, draw(aimed_lists(filters))


@st.composite
def long_filters(draw: st.DrawFn) -> Filter:
    """Filters of 30 to 90 constraints, which a counter of few bits or a mask of 64 would not hold."""
    count = draw(st.integers(30, 90))
    literals = draw(st.lists(LITERAL, min_size=count, max_size=count))
    return Filter([Constraint(f"n{number}", "=", literal) for number, literal in enumerate(literals)])
