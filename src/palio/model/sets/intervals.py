r"""Sets of values of one ordered type, as sorted boundaries.

A set is a tuple of strictly increasing boundaries ``(b0, b1, b2, ...)``: values from ``b0`` on are in, from
``b1`` on they are out again, from ``b2`` on in, and so forth. An odd number of boundaries means that the set
reaches to the top of its domain. So every set has exactly one form, and equality of sets is equality of tuples.

That works because in every domain the place just before and the place just after a value can be named:

========  ==========================  ==========================================================================
domain    just before v, just after   why
========  ==========================  ==========================================================================
integer   v, v + 1                    discrete; literals that are no integers round up
time      v, v + 1 (microseconds)     discrete
boolean   0 or 1, that + 1            discrete
float     the least float >= v, > v   64-bit floats are discrete too; literals that are no floats round up
string    v, v + "\0"                  nothing lies between v and v followed by the lowest character
bytes     v, v + b"\0"                 likewise
========  ==========================  ==========================================================================
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from palio.model.operator import Operator
from palio.model.value import MAX_INTEGER, MAX_MICROSECONDS, MIN_INTEGER, MIN_MICROSECONDS, to_microseconds

Boundary = Any
Bounds = tuple[Boundary, ...]
EMPTY: Bounds = ()


class Domain(NamedTuple):
    """An ordered type: its lowest boundary, the one after its highest value (if any), and cuts at a literal."""

    bottom: Boundary
    top: Boundary | None
    below: Callable[[Any], Boundary]
    above: Callable[[Any], Boundary]

    @property
    def full(self) -> Bounds:
        """All values of the domain."""
        return (self.bottom,)

    def select(self, operator: Operator, literal: Any) -> Bounds:
        r"""The values that stand in an order relation to a literal.

        >>> INTEGER.select(Operator.GT, 3.5)
        (4,)
        >>> STRING.select(Operator.LE, "b")
        ('', 'b\x00')
        """
        below, above = self._clamp(self.below(literal)), self._clamp(self.above(literal))
        match operator:
            case Operator.EQ:
                return _between(below, above)
            case Operator.NE:
                return self.complement(_between(below, above))
            case Operator.LT:
                return _between(self.bottom, below)
            case Operator.LE:
                return _between(self.bottom, above)
            case Operator.GE:
                return _between(below, None)
            case Operator.GT:
                return _between(above, None)
        raise AssertionError(f"{operator!r} is no order relation")

    def complement(self, bounds: Bounds) -> Bounds:
        """The values of the domain that are not in the set."""
        if bounds and bounds[0] == self.bottom:
            return bounds[1:]
        return (self.bottom, *bounds)

    def all_but(self, holes: Iterable[Bounds]) -> Bounds:
        """The values of the domain that are in none of the sets, each of which is an interval or empty.

        >>> INTEGER.all_but([(7, 8), (3, 5), (4, 6)]) == INTEGER.complement((3, 6, 7, 8))
        True
        """
        result = [self.bottom]
        for hole in sorted(filter(None, holes), key=itemgetter(0)):
            if hole[0] > result[-1]:
                result += hole
            elif len(hole) == 1:
                result.pop()
            elif hole[1] > result[-1]:
                result[-1] = hole[1]
            if len(result) % 2 == 0:
                break  # nothing is left up to the top
        return tuple(result)

    def _clamp(self, boundary: Boundary) -> Boundary | None:
        """The boundary moved into the domain; ``None`` stands for its top."""
        if self.top is not None and boundary >= self.top:
            return None
        return max(boundary, self.bottom)


_MAX_FLOAT = sys.float_info.max


def _float_from(number: int | float) -> float:
    """The least float that is not below the number; Python compares integers with floats exactly."""
    nearest = float(number)
    return next_float(nearest) if nearest < number else nearest + 0.0  # never a negative zero


def _float_above(number: int | float) -> float:
    """The least float above the number."""
    least = _float_from(number)
    return next_float(least) if least == number else least


def next_float(number: float) -> float:
    """The float right after; infinity, the top of the domain, after the last one.

    >>> next_float(1.0)
    1.0000000000000002
    """
    return math.nextafter(number, math.inf) + 0.0


INTEGER = Domain(MIN_INTEGER, MAX_INTEGER + 1, math.ceil, lambda number: math.floor(number) + 1)
TIME = Domain(MIN_MICROSECONDS, MAX_MICROSECONDS + 1, to_microseconds, lambda time: to_microseconds(time) + 1)
BOOLEAN = Domain(0, 2, int, lambda value: int(value) + 1)
FLOAT = Domain(-_MAX_FLOAT, math.inf, _float_from, _float_above)
BYTES = Domain(b"", None, bytes, lambda value: value + b"\0")
STRING = Domain("", None, str, lambda value: value + "\0")


def _between(low: Boundary | None, high: Boundary | None) -> Bounds:
    if low is None or low == high:
        return EMPTY
    return (low,) if high is None else (low, high)


def contains(bounds: Bounds, boundary: Boundary) -> bool:
    """Whether the value just above the boundary is in the set."""
    return bisect_right(bounds, boundary) % 2 == 1


def pieces(bounds: Bounds) -> Iterator[tuple[Boundary, Boundary | None]]:
    """The maximal intervals ``[low, high)`` of the set, upwards; ``high`` is ``None`` at the domain's top."""
    for index in range(0, len(bounds), 2):
        yield bounds[index], bounds[index + 1] if index + 1 < len(bounds) else None


def union(left: Bounds, right: Bounds) -> Bounds:
    """Values in either set."""
    if not left or not right:
        return left or right
    return _sweep(left, right, _EITHER)


def intersection(left: Bounds, right: Bounds) -> Bounds:
    """Values in both sets."""
    if left == right:
        return left
    return _sweep(left, right, _BOTH)


def difference(left: Bounds, right: Bounds) -> Bounds:
    """Values in the left set and not in the right one."""
    return _sweep(left, right, _LEFT_ONLY)


def is_subset(left: Bounds, right: Bounds) -> bool:
    """Whether every value of the left set is in the right one."""
    if not left or left == right:
        return True
    if 1 <= len(right) <= 2:  # a single interval, as most are: compare the ends
        is_open = len(right) == 1
        return bool(right[0] <= left[0] and (is_open or (len(left) % 2 == 0 and left[-1] <= right[1])))
    return _lies_within(left, right)


def _lies_within(left: Bounds, right: Bounds) -> bool:
    """Whether each interval of the left set lies in one interval of the right set; the first that does not decides.

    Sets of many intervals are compared often, and most of them differ in one of the first intervals.
    """
    last = len(left) - 1
    start = 0
    for index in range(0, len(left), 2):
        start = bisect_right(right, left[index], start)
        if not start % 2:
            return False
        if start < len(right) and (index == last or left[index + 1] > right[start]):
            return False
    return True


# What a sweep keeps, by 2 * (inside left) + (inside right).
_EITHER = (False, True, True, True)
_BOTH = (False, False, False, True)
_LEFT_ONLY = (False, False, True, False)


def _sweep(left: Bounds, right: Bounds, keep: tuple[bool, bool, bool, bool]) -> Bounds:
    """Walk both boundary lists upwards once and keep what the table says."""
    result: list[Boundary] = []
    i = j = 0
    inside = False
    while i < len(left) or j < len(right):
        is_left = j == len(right) or (i < len(left) and left[i] <= right[j])
        boundary = left[i] if is_left else right[j]
        i += i < len(left) and left[i] == boundary
        j += j < len(right) and right[j] == boundary
        if keep[2 * (i % 2) + j % 2] is not inside:
            inside = not inside
            result.append(boundary)
    return tuple(result)


def fold(combine: Callable[[Bounds, Bounds], Bounds], sets: list[Bounds]) -> Bounds:
    """Combine many sets pairwise, as a balanced tree: n sets of one piece cost n log n, not n squared."""
    while len(sets) > 1:
        paired = [combine(sets[i], sets[i + 1]) for i in range(0, len(sets) - 1, 2)]
        sets = paired + sets[len(sets) & ~1 :]
    return sets[0]
