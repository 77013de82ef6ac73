"""From a set of values back to the constraints that say it, where a conjunction can."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice, pairwise
from typing import NamedTuple, Protocol

from palio.model.constraint import Constraint
from palio.model.operator import Operator
from palio.model.sets import strings
from palio.model.sets.cones import cone, cone_end
from palio.model.sets.intervals import BOOLEAN, BYTES, FLOAT, INTEGER, STRING, TIME, Boundary, Bounds, Domain, pieces
from palio.model.sets.strings import StringSet
from palio.model.sets.valueset import ABSENT, EVERYTHING, PRESENT, Orders, ValueSet, conjunction
from palio.model.value import Type, Value, from_microseconds

_Test = tuple[Operator, Value]


def express(name: str, allowed: ValueSet, most: int) -> tuple[Constraint, ...] | None:
    """At most so many constraints on the name that together allow exactly this set, or ``None``.

    What comes out depends on the set alone, so it serves as the canonical text of a filter.
    """
    if allowed == EVERYTHING:
        return ()
    if allowed == PRESENT:
        return (Constraint(name, Operator.ANY),)
    if allowed == ABSENT:
        return (Constraint(name, Operator.ABSENT),)
    spelling = _SPELLINGS.get(frozenset(_filled_fields(allowed)))
    if spelling is None:
        return None
    if spelling.type is Type.STRING:
        tests = _string_tests(spelling, allowed.string)
    else:
        tests = _order_tests(spelling, getattr(allowed.orders, spelling.field))
    try:
        chosen = list(islice(tests, most + 1))
    except _Unspeakable:
        return None
    constraints = tuple(Constraint(name, operator, value, spelling.type) for operator, value in chosen)
    if not constraints:
        constraints = (Constraint(name, Operator.ANY, type=spelling.type),)
    # Checking the answer is cheaper than being clever about numbers, whose integer and float parts must agree.
    return constraints if len(constraints) <= most and conjunction(constraints) == allowed else None


def _filled_fields(allowed: ValueSet) -> Iterator[str]:
    """Which parts of the set are not empty."""
    if allowed.absent:
        yield "absent"
    yield from (field for field, bounds in zip(Orders._fields, allowed.orders, strict=True) if bounds)
    if allowed.string != strings.NOTHING:
        yield "string"


class _Unspeakable(Exception):  # noqa: N818 (nobody outside sees it)
    """No conjunction of constraints leaves out just this."""


class _Cuts(Protocol):
    """How the boundaries of a domain are written as operators and literals."""

    def value(self, low: Boundary, high: Boundary | None) -> Value | None:
        """The only value of the interval, if it has but one."""

    def lower(self, boundary: Boundary) -> _Test: ...

    def upper(self, boundary: Boundary) -> _Test: ...

    def hole(self, low: Boundary, high: Boundary) -> Iterator[_Test]:
        """Tests that exclude exactly the interval."""


class _DiscreteCuts:
    def literal(self, number: int) -> Value:
        return number

    def value(self, low: int, high: int | None) -> Value | None:
        return self.literal(low) if high == low + 1 else None

    def lower(self, boundary: int) -> _Test:
        return Operator.GE, self.literal(boundary)

    def upper(self, boundary: int) -> _Test:
        return Operator.LE, self.literal(boundary - 1)

    def hole(self, low: int, high: int) -> Iterator[_Test]:
        return ((Operator.NE, self.literal(number)) for number in range(low, high))


class _BooleanCuts(_DiscreteCuts):
    def value(self, low: int, high: int | None) -> Value | None:
        return bool(low) if high == low + 1 or low == 1 else None


class _TimeCuts(_DiscreteCuts):
    def literal(self, number: int) -> datetime:
        return from_microseconds(number)


class _DenseCuts:
    def value(self, low: tuple[float, int], high: tuple[float, int] | None) -> Value | None:
        return low[0] if high is not None and high[0] == low[0] else None

    def lower(self, boundary: tuple[float, int]) -> _Test:
        return Operator.GT if boundary[1] else Operator.GE, boundary[0]

    def upper(self, boundary: tuple[float, int]) -> _Test:
        return Operator.LE if boundary[1] else Operator.LT, boundary[0]

    def hole(self, low: tuple[float, int], high: tuple[float, int]) -> Iterator[_Test]:
        if low[0] != high[0]:
            raise _Unspeakable
        yield Operator.NE, low[0]


class _BytesCuts:
    def value(self, low: bytes, high: bytes | None) -> Value | None:
        return low if high == low + b"\0" else None

    def lower(self, boundary: bytes) -> _Test:
        return (Operator.GT, boundary[:-1]) if boundary.endswith(b"\0") else (Operator.GE, boundary)

    def upper(self, boundary: bytes) -> _Test:
        return (Operator.LE, boundary[:-1]) if boundary.endswith(b"\0") else (Operator.LT, boundary)

    def hole(self, low: bytes, high: bytes) -> Iterator[_Test]:
        while low != high:
            if not high.startswith(low):
                raise _Unspeakable
            yield Operator.NE, low
            low += b"\0"


class _StringCuts:
    def value(self, low: str, high: str | None) -> Value | None:
        return low if high == low + "\0" else None

    def lower(self, boundary: str) -> _Test:
        return (Operator.GT, boundary[:-1]) if boundary.endswith("\0") else (Operator.GE, boundary)

    def upper(self, boundary: str) -> _Test:
        return (Operator.LE, boundary[:-1]) if boundary.endswith("\0") else (Operator.LT, boundary)

    def hole(self, low: str, high: str) -> Iterator[_Test]:
        while low != high:
            end = cone_end(low)
            if end is not None and end <= high:
                yield Operator.NOT_PREFIX, low
                low = end
            elif high.startswith(low):
                yield Operator.NE, low
                low += "\0"
            else:
                raise _Unspeakable


class _Spelling(NamedTuple):
    """The type that constraints on a set are written with, and the field of the set that its bounds come from."""

    type: Type
    field: str
    domain: Domain
    cuts: _Cuts


_SPELLINGS = {
    frozenset({"boolean"}): _Spelling(Type.BOOLEAN, "boolean", BOOLEAN, _BooleanCuts()),
    frozenset({"integer"}): _Spelling(Type.INTEGER, "integer", INTEGER, _DiscreteCuts()),
    frozenset({"float"}): _Spelling(Type.FLOAT, "float", FLOAT, _DenseCuts()),
    frozenset({"integer", "float"}): _Spelling(Type.NUMBER, "float", FLOAT, _DenseCuts()),
    frozenset({"time"}): _Spelling(Type.TIME, "time", TIME, _TimeCuts()),
    frozenset({"bytes"}): _Spelling(Type.BYTES, "bytes", BYTES, _BytesCuts()),
    frozenset({"string"}): _Spelling(Type.STRING, "string", STRING, _StringCuts()),
}


def _order_tests(spelling: _Spelling, bounds: Bounds) -> Iterator[_Test]:
    cuts = spelling.cuts
    intervals = list(pieces(bounds))
    low, high = intervals[0][0], intervals[-1][1]
    single = cuts.value(low, high)
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


def _string_tests(spelling: _Spelling, allowed: StringSet) -> Iterator[_Test]:
    shape, *others = allowed.parts()
    if others:
        raise _Unspeakable
    yield from _order_tests(spelling, shape.order)
    if shape.suffix:
        yield Operator.SUFFIX, shape.suffix
    for operator, texts in (
        (Operator.CONTAINS, shape.contains),
        (Operator.NOT_SUFFIX, shape.no_suffix),
        (Operator.NOT_CONTAINS, shape.no_contains),
    ):
        yield from ((operator, text) for text in texts)
