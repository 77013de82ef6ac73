"""From a set of values back to the constraints that say it, where a conjunction can."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from itertools import islice, pairwise
from typing import Generic, NamedTuple, Protocol, TypeVar

from palio.model.constraint import Constraint
from palio.model.operator import Operator
from palio.model.sets import strings
from palio.model.sets.cones import cone, cone_end
from palio.model.sets.intervals import (
    BOOLEAN,
    BYTES,
    FLOAT,
    INTEGER,
    STRING,
    TIME,
    Boundary,
    Bounds,
    Domain,
    difference,
    fold,
    intersection,
    next_float,
    pieces,
)
from palio.model.sets.strings import StringSet
from palio.model.sets.valueset import ABSENT, EVERYTHING, PRESENT, Orders, ValueSet, conjunction
from palio.model.value import MAX_INTEGER, MIN_INTEGER, Type, Value, from_microseconds

Test = tuple[Operator, Value]
S = TypeVar("S", str, bytes)


def express(name: str, allowed: ValueSet, most: int, *, is_of_filter: bool = False) -> tuple[Constraint, ...] | None:
    """At most so many constraints on the name that together allow exactly this set, or ``None``.

    What comes out depends on the set alone, so it serves as the canonical text of a filter. A set that is known to be
    that of a filter can always be said.
    """
    if allowed == EVERYTHING:
        return ()
    if allowed == PRESENT:
        return (Constraint(name, Operator.ANY),)
    if allowed == ABSENT:
        return (Constraint(name, Operator.ABSENT),)
    spelling = SPELLINGS.get(frozenset(_filled_fields(allowed)))
    if spelling is None:
        return None
    try:
        chosen = list(islice(_tests(spelling, allowed), most + 1))
    except Unspeakable:
        return None
    constraints = tuple([Constraint.of_checked(name, operator, value, spelling.type) for operator, value in chosen])
    if not constraints:
        constraints = (Constraint(name, Operator.ANY, type=spelling.type),)
    # Not every pair of an integer and a float part comes from the same literals: see whether this one does.
    is_right = len(constraints) <= most and (is_of_filter or conjunction(constraints) == allowed)
    return constraints if is_right else None


def _filled_fields(allowed: ValueSet) -> Iterator[str]:
    """Which parts of the set are not empty."""
    if allowed.absent:
        yield "absent"
    yield from (field for field, bounds in zip(Orders._fields, allowed.orders, strict=True) if bounds)
    if allowed.string != strings.NOTHING:
        yield "string"


class Unspeakable(Exception):  # noqa: N818 (nobody outside sees it)
    """No constraints leave out just this interval."""


class Cuts(Protocol):
    """How the boundaries of a domain are written as operators and literals."""

    def value(self, low: Boundary, high: Boundary | None) -> Value | None:
        """The only value of the interval, if it has but one."""

    def lower(self, boundary: Boundary) -> Test:
        """A test for what lies above the boundary."""

    def upper(self, boundary: Boundary) -> Test:
        """A test for what lies below it."""

    def hole(self, low: Boundary, high: Boundary) -> Iterator[Test]:
        """Tests that exclude exactly the interval."""


class _IntegerCuts:
    def literal(self, number: int) -> Value:
        return number

    def value(self, low: int, high: int | None) -> Value | None:
        return self.literal(low) if high == low + 1 else None

    def lower(self, boundary: int) -> Test:
        return Operator.GE, self.literal(boundary)

    def upper(self, boundary: int) -> Test:
        return Operator.LE, self.literal(boundary - 1)

    def hole(self, low: int, high: int) -> Iterator[Test]:
        return ((Operator.NE, self.literal(number)) for number in range(low, high))


class _BooleanCuts(_IntegerCuts):
    def literal(self, number: int) -> bool:
        return bool(number)


class _TimeCuts(_IntegerCuts):
    def literal(self, number: int) -> datetime:
        return from_microseconds(number)


class _FloatCuts:
    """Between two neighbouring floats either may name the cut; the shorter one is for people."""

    def value(self, low: float, high: float | None) -> Value | None:
        return brief_number(low) if high == next_float(low) else None

    def lower(self, boundary: float) -> Test:
        return _shorter((Operator.GE, boundary), (Operator.GT, previous_float(boundary)))

    def upper(self, boundary: float) -> Test:
        return _shorter((Operator.LT, boundary), (Operator.LE, previous_float(boundary)))

    def hole(self, low: float, high: float) -> Iterator[Test]:
        while low != high:
            yield Operator.NE, brief_number(low)
            low = next_float(low)


def previous_float(number: float) -> float:
    """The float right before; never a negative zero."""
    return math.nextafter(number, -math.inf) + 0.0


def brief_number(number: int | float) -> int | float:
    """One spelling for each number: as an integer where 64 bits hold it."""
    is_integer = isinstance(number, int) or (number.is_integer() and MIN_INTEGER <= number <= MAX_INTEGER)
    return int(number) if is_integer else number


def _shorter(first: tuple[Operator, float], second: tuple[Operator, float]) -> Test:
    one, two = (first[0], brief_number(first[1])), (second[0], brief_number(second[1]))
    return one if len(repr(one[1])) <= len(repr(two[1])) else two


class _SequenceCuts(Generic[S]):
    """Strings and bytes: a boundary that ends with NUL lies right after what precedes the NUL."""

    def __init__(self, nul: S) -> None:
        self.nul: S = nul

    def value(self, low: S, high: S | None) -> Value | None:
        return low if high == low + self.nul else None

    def lower(self, boundary: S) -> Test:
        return (Operator.GT, boundary[:-1]) if boundary.endswith(self.nul) else (Operator.GE, boundary)

    def upper(self, boundary: S) -> Test:
        return (Operator.LE, boundary[:-1]) if boundary.endswith(self.nul) else (Operator.LT, boundary)

    def hole(self, low: S, high: S) -> Iterator[Test]:
        while low != high:
            if not high.startswith(low):
                raise Unspeakable
            yield Operator.NE, low
            low += self.nul


class _StringCuts(_SequenceCuts[str]):
    def hole(self, low: str, high: str) -> Iterator[Test]:
        while low != high:
            end = cone_end(low)
            if end is not None and end <= high:
                yield Operator.NOT_PREFIX, low
                low = end
            elif high.startswith(low):
                yield Operator.NE, low
                low += self.nul
            else:
                raise Unspeakable


class Spelling(NamedTuple):
    """The type that constraints on a set are written with, and how its boundaries are."""

    type: Type
    domain: Domain
    cuts: Cuts


SPELLINGS = {
    frozenset({"boolean"}): Spelling(Type.BOOLEAN, BOOLEAN, _BooleanCuts()),
    frozenset({"integer"}): Spelling(Type.INTEGER, INTEGER, _IntegerCuts()),
    frozenset({"float"}): Spelling(Type.FLOAT, FLOAT, _FloatCuts()),
    frozenset({"integer", "float"}): Spelling(Type.NUMBER, FLOAT, _FloatCuts()),
    frozenset({"time"}): Spelling(Type.TIME, TIME, _TimeCuts()),
    frozenset({"bytes"}): Spelling(Type.BYTES, BYTES, _SequenceCuts(b"\0")),
    frozenset({"string"}): Spelling(Type.STRING, STRING, _StringCuts("\0")),
}


def _tests(spelling: Spelling, allowed: ValueSet) -> Iterator[Test]:
    if spelling.type is Type.STRING:
        return _string_tests(spelling, allowed.string)
    if spelling.type is Type.NUMBER:
        return _number_tests(allowed.orders)
    return _order_tests(spelling, getattr(allowed.orders, spelling.type.value))


def _order_tests(spelling: Spelling, bounds: Bounds) -> Iterator[Test]:
    cuts = spelling.cuts
    intervals = list(pieces(bounds))
    low, high = intervals[0][0], intervals[-1][1]
    single = cuts.value(low, spelling.domain.top if high is None else high)
    if single is not None:
        yield Operator.EQ, single
        return
    if spelling.type is Type.STRING and low and (low, high)[: 1 + (high is not None)] == cone(low):
        yield Operator.PREFIX, low
    else:
        if low != spelling.domain.bottom:
            yield cuts.lower(low)
        if high is not None:
            yield cuts.upper(high)
    for (_, end), (start, _) in pairwise(intervals):
        yield from cuts.hole(end, start)


def _number_tests(orders: Orders) -> Iterator[Test]:
    """Tests for numbers of both types: from the least allowed number to the greatest, less what is missing between."""
    integers, floats = list(pieces(orders.integer)), list(pieces(orders.float))
    (integer_low, _), (float_low, _) = integers[0], floats[0]
    integer_high = MAX_INTEGER if integers[-1][1] is None else integers[-1][1] - 1
    float_high = previous_float(math.inf if floats[-1][1] is None else floats[-1][1])
    if integer_low == integer_high == float_low == float_high:
        yield Operator.EQ, integer_low
        return
    least, greatest = min(integer_low, float_low), max(integer_high, float_high)
    bounds: list[Test] = []
    if least != FLOAT.bottom:
        below = max(_if_integer(math.ceil(least) - 1), -FLOAT.above(-least))
        bounds.append(_shorter((Operator.GE, least), (Operator.GT, below)))
    if greatest != -FLOAT.bottom:
        above = -max(_if_integer(-math.floor(greatest) - 1), -FLOAT.above(greatest))
        bounds.append(_shorter((Operator.LE, greatest), (Operator.LT, above)))
    yield from bounds
    excluded: set[Test] = set()
    parts: list[tuple[Domain, Cuts, Bounds]] = [
        (FLOAT, _FloatCuts(), orders.float),
        (INTEGER, _IntegerCuts(), orders.integer),
    ]
    for domain, cuts, allowed in parts:
        bounded = fold(intersection, [domain.full, *(domain.select(operator, value) for operator, value in bounds)])
        for low, high in pieces(difference(bounded, allowed)):
            for test in cuts.hole(low, domain.top if high is None else high):
                if test not in excluded:  # an integer and the float of the same value are excluded by one test
                    excluded.add(test)
                    yield test


def _if_integer(number: int) -> float:
    """The number if the integers reach so far, else one that no other is below."""
    return number if -MAX_INTEGER <= number <= MAX_INTEGER else -math.inf


def _string_tests(spelling: Spelling, allowed: StringSet) -> Iterator[Test]:
    shape, *others = allowed.parts()
    if others:
        raise Unspeakable
    for test in _order_tests(spelling, shape.order):
        # What the atoms exclude anyway need not be excluded once more.
        if test[0] is not Operator.NE or shape.meets_atoms(str(test[1])):
            yield test
    if shape.suffix:
        yield Operator.SUFFIX, shape.suffix
    for operator, texts in (
        (Operator.CONTAINS, shape.contains),
        (Operator.NOT_SUFFIX, shape.no_suffix),
        (Operator.NOT_CONTAINS, shape.no_contains),
    ):
        yield from ((operator, text) for text in texts)
