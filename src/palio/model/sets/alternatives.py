"""From a set of values back to constraints that are alternatives: the twin of :mod:`palio.model.sets.express`.

A constraint of an advertisement selects a ray, a single value, all but a single value, the strings with a prefix (or
without it), or the strings that meet one atom. So every set that an advertisement allows is, type by type, at most one
ray downwards, at most one ray upwards, single values and prefixes between them, and atoms. That is how it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product
from typing import NamedTuple

from palio.errors import InternalError
from palio.model.constraint import Constraint
from palio.model.operator import Operator
from palio.model.sets.cones import cone, cone_end
from palio.model.sets.express import SPELLINGS, Spelling, Test, Unspeakable, brief_number, previous_float
from palio.model.sets.intervals import (
    EMPTY,
    FLOAT,
    INTEGER,
    Boundary,
    Bounds,
    difference,
    fold,
    is_subset,
    pieces,
    union,
)
from palio.model.sets.strings import StringSet
from palio.model.sets.valueset import PRESENT, Orders, ValueSet
from palio.model.value import Type, Value

_Free = Callable[[str], bool]
_Tests = tuple[Test | None, Test | None]
"""For the ray downwards, and for that upwards."""


def express_union(name: str, allowed: ValueSet) -> tuple[Constraint, ...]:
    """Constraints on the name of which each allows a part of this set, and which together allow all of it.

    They depend on the set alone, so they serve as the canonical form of an advertisement. The set must come from
    alternatives: no other can be written like this. It may hold no more constraints than those it comes from.

    >>> from palio.model.sets.valueset import disjunction
    >>> alternatives = [Constraint("x", "<", 3), Constraint("x", "=", 3), Constraint("x", "=", 7)]
    >>> [str(each) for each in express_union("x", disjunction(alternatives))]
    ['x <= 3', 'x = 7']
    """
    if allowed == PRESENT:
        return (Constraint(name, Operator.ANY),)
    try:
        return tuple(Constraint(name, operator, value, type) for type, (operator, value) in _every_type(allowed))
    except Unspeakable:
        raise InternalError(f"the values of {name!r} cannot be said as alternatives; please report this") from None


_Typed = tuple[Type, tuple[Operator, Value | None]]


def _every_type(allowed: ValueSet) -> Iterator[_Typed]:
    orders = allowed.orders
    yield from _typed("boolean", orders.boolean)
    yield from _numbers(orders)
    yield from _typed("time", orders.time)
    yield from _typed("bytes", orders.bytes)
    yield from ((Type.STRING, test) for test in _strings(allowed.string))


def _spelling(field: str) -> Spelling:
    return SPELLINGS[frozenset({field})]


def _typed(field: str, bounds: Bounds) -> Iterator[_Typed]:
    """The alternatives of one type that is nothing but ordered."""
    if bounds:
        spelling = _spelling(field)
        yield from ((spelling.type, test) for test in _ordered(spelling, bounds))


class _Split(NamedTuple):
    """A set of one ordered type: the interval from its bottom, the one to its top, and the others."""

    down: Bounds
    up: Bounds
    between: tuple[tuple[Boundary, Boundary], ...]

    @classmethod
    def of(cls, spelling: Spelling, bounds: Bounds) -> _Split:
        intervals = list(pieces(bounds))
        down: Bounds = EMPTY
        up: Bounds = EMPTY
        if intervals and intervals[0][0] == spelling.domain.bottom:
            low, high = intervals.pop(0)
            down = (low,) if high is None else (low, high)
        if intervals and intervals[-1][1] is None:
            up = (intervals.pop()[0],)
        return cls(down, up, tuple((low, high) for low, high in intervals if high is not None))


def _ordered(spelling: Spelling, bounds: Bounds) -> Iterator[tuple[Operator, Value | None]]:
    cuts, domain = spelling.cuts, spelling.domain
    if bounds == domain.full:
        yield Operator.ANY, None
        return
    down, up, between = _Split.of(spelling, bounds)
    if down and up and not between:
        gap = cuts.value(down[1], up[0])
        if gap is not None:
            yield Operator.NE, gap
            return
    if down:
        yield _ray(spelling, down)
    if up:
        yield _ray(spelling, up)
    for low, high in between:
        yield from _between(spelling, low, high)


def _ray(spelling: Spelling, bounds: Bounds) -> Test:
    """An interval that reaches to the bottom or to the top; a single value is said as such."""
    low, high = bounds[0], bounds[1] if len(bounds) > 1 else spelling.domain.top
    single = spelling.cuts.value(low, high)
    if single is not None:
        return Operator.EQ, single
    return spelling.cuts.upper(bounds[1]) if len(bounds) > 1 else spelling.cuts.lower(low)


def _between(spelling: Spelling, low: Boundary, high: Boundary) -> Iterator[Test]:
    """Single values, and prefixes: what would leave the interval out, turned round."""
    return ((operator.negation, value) for operator, value in spelling.cuts.hole(low, high))


# -- numbers -----------------------------------------------------------------------------------------------------------


def _numbers(orders: Orders) -> Iterator[_Typed]:
    """Integers and floats: said together wherever one literal says both."""
    integers, floats = orders.integer, orders.float
    if not integers or not floats:
        yield from _typed("integer", integers)
        yield from _typed("float", floats)
        return
    if (integers, floats) == (INTEGER.full, FLOAT.full):
        yield Type.NUMBER, (Operator.ANY, None)
        return
    missing = [*_singles("integer", INTEGER.complement(integers)), *_singles("float", FLOAT.complement(floats))]
    for value in missing:
        if _selects(Operator.NE, value, integers, floats):
            yield Type.NUMBER, (Operator.NE, value)
            return
    yield from _split_numbers(integers, floats)


class _Rest:
    """What of one type of numbers is still to be said."""

    def __init__(self, field: str, bounds: Bounds) -> None:
        self.spelling = _spelling(field)
        self.down, self.up, between = _Split.of(self.spelling, bounds)
        self.points: dict[Value, None] = {}
        """Single values."""
        for low, high in between:
            self.points.update(dict.fromkeys(value for _, value in _between(self.spelling, low, high)))

    @property
    def is_full(self) -> bool:
        """Whether all values are there: then the only interval is that from the bottom."""
        return self.down == self.spelling.domain.full

    def left(self, tests: _Tests, other: _Rest) -> tuple[Value, ...] | None:
        """The single values that tests leave of the rays, if they select nothing else, and leave only a few.

        There are few if the other type may have them as points. A ray for which there is no test does not count.
        """
        domain, outside = self.spelling.domain, union(self.down, self.up)
        selected = fold(union, [EMPTY, *(domain.select(*test) for test in tests if test is not None)])
        if not is_subset(selected, outside):
            return None
        untested = [ray for test, ray in zip(tests, (self.down, self.up), strict=True) if test is None]
        if self.is_full and any(tests):
            untested = []
        most = len(other.points) + 1
        found: list[Value] = []
        for low, high in pieces(difference(outside, selected)):
            piece = (low,) if high is None else (low, high)
            if piece not in untested:
                end = domain.top if high is None else high
                found += (each for _, each in islice(_between(self.spelling, low, end), most + 1))
        return tuple(found) if len(found) <= most else None

    def leave(self, tests: _Tests, points: Iterable[Value]) -> None:
        """The tests have said the rays; these points are left of them."""
        if tests[0] is not None or (tests[1] is not None and self.is_full):
            self.down = ()
        if tests[1] is not None:
            self.up = ()
        self.points.update(dict.fromkeys(points))

    def settle(self) -> Iterator[_Typed]:
        """Say the rays that the other type does not share; rays of one value become points."""
        type = self.spelling.type
        if self.is_full:
            yield type, (Operator.ANY, None)
            return
        gap = self.spelling.cuts.value(self.down[1], self.up[0]) if self.down and self.up and not self.points else None
        if gap is not None:
            yield type, (Operator.NE, gap)
            return
        for ray in (self.down, self.up):
            if ray:
                operator, value = _ray(self.spelling, ray)
                if operator is Operator.EQ:
                    self.points[value] = None
                else:
                    yield type, (operator, value)


def _split_numbers(integers: Bounds, floats: Bounds) -> list[_Typed]:
    """The fewest alternatives; of several wordings that are as short, the one that says more of both types together."""
    wordings: list[tuple[tuple[object, ...], list[_Typed]]] = []
    whole = _Rest("integer", integers), _Rest("float", floats)
    for tests in product([None, *_downwards(*whole)], [None, *_upwards(*whole)]):
        said = [test for test in tests if test is not None]
        wording = _with_rays(tests, _Rest("integer", integers), _Rest("float", floats))
        if wording is not None:
            texts = [(len(repr(value)), operator.value, value) for operator, value in said]
            wordings.append(((len(wording), -len(said), sum(text[0] for text in texts), texts), wording))
    return min(wordings, key=lambda each: each[0])[1]


def _with_rays(tests: _Tests, integers: _Rest, floats: _Rest) -> list[_Typed] | None:
    """All alternatives, if these tests say rays of both types; what they leave of them must be points of both."""
    left, others = integers.left(tests, floats), floats.left(tests, integers)
    if (
        left is None
        or others is None
        or not all(each in floats.points or each in others for each in left)
        or not all(each in integers.points or each in left for each in others)
    ):
        return None
    integers.leave(tests, left)
    floats.leave(tests, others)
    said: list[_Typed] = [(Type.NUMBER, test) for test in tests if test is not None]
    said += [*integers.settle(), *floats.settle()]
    for value in sorted({**integers.points, **floats.points}):
        is_both = value in integers.points and value in floats.points
        type = Type.NUMBER if is_both else Type.INTEGER if value in integers.points else Type.FLOAT
        said.append((type, (Operator.EQ, value)))
    return said


def _downwards(integers: _Rest, floats: _Rest) -> Iterator[Test]:
    """Tests that may say the rays downwards of both types."""
    if not integers.down or not floats.down:
        return
    if not integers.is_full:
        yield Operator.LE, integers.down[1] - 1
    if not floats.is_full:
        yield Operator.LT, brief_number(floats.down[1])
        yield Operator.LE, brief_number(previous_float(floats.down[1]))


def _upwards(integers: _Rest, floats: _Rest) -> Iterator[Test]:
    """Tests that may say the rays upwards of both types."""
    if not (integers.up or integers.is_full) or not (floats.up or floats.is_full):
        return
    if integers.up:
        yield Operator.GE, integers.up[0]
    if floats.up:
        yield Operator.GE, brief_number(floats.up[0])
        yield Operator.GT, brief_number(previous_float(floats.up[0]))


def _selects(operator: Operator, value: Value, integers: Bounds, floats: Bounds) -> bool:
    return INTEGER.select(operator, value) == integers and FLOAT.select(operator, value) == floats


def _singles(field: str, bounds: Bounds) -> list[Value]:
    """The only value of a set, if it has but one."""
    if not 1 <= len(bounds) <= 2:
        return []
    spelling = _spelling(field)
    value = spelling.cuts.value(bounds[0], bounds[1] if len(bounds) > 1 else spelling.domain.top)
    return [] if value is None else [value]


# -- strings -----------------------------------------------------------------------------------------------------------


def _strings(allowed: StringSet) -> Iterator[tuple[Operator, Value | None]]:
    spelling, shapes = _spelling("string"), allowed.shapes

    def is_free(text: str) -> bool:
        """Whether an atom selects the string, so that it need not be selected once more."""
        return any(shape.meets_atoms(text) for shape in shapes)

    if not shapes:
        yield from _intervals(spelling, allowed.order, is_free) if allowed.order else ()
        return
    yield from _intervals(spelling, allowed.order, is_free)
    for shape in shapes:
        if shape.suffix:
            yield Operator.SUFFIX, shape.suffix
        for operator, texts in (
            (Operator.CONTAINS, shape.contains),
            (Operator.NOT_SUFFIX, shape.no_suffix),
            (Operator.NOT_CONTAINS, shape.no_contains),
        ):
            yield from ((operator, text) for text in texts)


def _intervals(spelling: Spelling, order: Bounds, is_free: _Free) -> Iterator[tuple[Operator, Value | None]]:
    if order == spelling.domain.full:
        yield Operator.ANY, None
        return
    down, up, between = _Split.of(spelling, order)
    outside = _gap(down[1], up[0], is_free) if down and up else None
    if outside is not None:
        yield outside
    else:
        yield from (_ray(spelling, ray) for ray in (down, up) if ray)
    for low, high in between:
        for operator, value in _between(spelling, low, high):
            if operator is not Operator.EQ or not is_free(str(value)):
                yield operator, value


def _gap(low: str, high: str, is_free: _Free) -> Test | None:
    """One test for two rays with a gap between them: all but one string, or all without a prefix.

    Free strings at the lower end of the gap do not matter.
    """
    if high == low + "\0":
        return Operator.NE, low
    while cone(low) != (low, high):
        end = cone_end(low)
        if (end is not None and end < high) or not is_free(low):
            return None
        low += "\0"
    return Operator.NOT_PREFIX, low
