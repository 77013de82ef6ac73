"""One filter, or advertisement, instead of two: exactly their union, or a little more where that is allowed."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Generic, NamedTuple

from palio.errors import CallerError
from palio.matching.views import E
from palio.model import Filter
from palio.model.conditions import ConstraintSet
from palio.model.limits import DEFAULT_LIMITS
from palio.model.sets.cones import cone
from palio.model.sets.express import express
from palio.model.sets.intervals import FLOAT, INTEGER, TIME, Bounds
from palio.model.sets.strings import Shape, conjoin
from palio.model.sets.valueset import Orders, ValueSet

_MOST_CONSTRAINTS = DEFAULT_LIMITS.constraints
_ROUNDING = 1e-9
"""By so much shares may miss the budget because they are floats."""
_BOTTOMS = {"integer": INTEGER.bottom, "float": FLOAT.bottom, "time": TIME.bottom}


class Merging(NamedTuple):
    """How far merging may go."""

    parts: int = 16
    """So many elements at most become one: so many have to be told anew when one of them is cancelled."""
    slack: int = 0
    """The false-positive budget of a merged filter, in percent; 0 for unions that are exact.

    Of what a merged filter selects, at most this share is selected by none of its parts, if values are spread evenly
    over the ranges of numbers and times in which the parts differ: in one attribute, or in two (the box around two
    boxes). Strings are cut down to their common beginning, by this share of the longest of them at most. Advertisements
    cannot name a range, and are merged exactly.
    """


def check_merging(limits: Merging | None, where: str) -> None:
    """Refuse what makes no sense; ``where`` is the name of the setting."""
    if limits is not None and limits.parts < 1:
        raise CallerError(f"{where}.parts: {limits.parts}; a merged filter has 1 part at least")
    if limits is not None and not 0 <= limits.slack <= 100:
        raise CallerError(f"{where}.slack: {limits.slack}; it is a share in percent, from 0 to 100")


class United(NamedTuple, Generic[E]):
    """An element that stands for others, or for itself alone."""

    element: E
    parts: tuple[E, ...]
    waste: float = 0
    """Which share at most of what it selects is selected by none of its parts."""

    @property
    def is_single(self) -> bool:
        """Whether it stands for itself alone."""
        return self.parts == (self.element,)


def join(left: United[Any], right: United[Any], names: tuple[str, ...], limits: Merging) -> United[Any] | None:
    """What stands for all parts of two that differ in certain names at most, if there is such a thing.

    >>> one, other = (Filter.parse(text) for text in ("x >= 0 and x <= 6", "x >= 8 and x <= 10"))
    >>> join(United(one, (one,)), United(other, (other,)), ("x",), Merging()) is None
    True
    >>> str(join(United(one, (one,)), United(other, (other,)), ("x",), Merging(slack=20)).element)
    'x >= 0 and x <= 10'
    """
    parts = tuple(dict.fromkeys((*left.parts, *right.parts)))
    if len(parts) > limits.parts:
        return None
    found = _exactly(left, right, names[0]) if len(names) == 1 else None
    if found is None and limits.slack:
        found = _nearly(left, right, names, limits.slack)
    if found is None or _exceeds(found[1], limits.slack):
        return None
    merged, waste = found
    if not (merged.covers(left.element) and merged.covers(right.element)):
        return None
    return United(merged, parts, waste)


_Found = tuple[Any, float]
"""A merged element, and which share of it is in vain."""


def _exactly(left: United[Any], right: United[Any], name: str) -> _Found | None:
    merged = left.element.merge(right.element, _room(left.element, right.element))
    if merged is None:
        return None
    for each in (left, right):
        if merged is each.element:
            return merged, each.waste
    waste = left.waste + right.waste
    if waste and isinstance(merged, Filter):
        ratios = _ratios(left.element.value_sets()[name], right.element.value_sets()[name])
        waste = waste if ratios is None else _wasted(left, right, ratios)
    return merged.canonical(), waste


def _room(left: ConstraintSet, right: ConstraintSet) -> int:
    """How many constraints a union may have: one that is a list of exceptions would cost more than it saves.

    For an advertisement several constraints on a name are alternatives, and a union has those of both.
    """
    count = max(len(left), len(right)) + 1 if isinstance(left, Filter) else len(left) + len(right)
    return min(count, _MOST_CONSTRAINTS)


def _exceeds(waste: float, slack: int) -> bool:
    return waste * 100 > slack + _ROUNDING


def _nearly(left: United[Any], right: United[Any], names: tuple[str, ...], slack: int) -> _Found | None:
    """A filter that selects a little more than the two, if the budget allows for it."""
    one, other = left.element, right.element
    if not isinstance(one, Filter) or not isinstance(other, Filter):
        return None
    found = _string_hull(left, right, names[0]) if len(names) == 1 else None
    found = found or _box(left, right, names)
    if found is None or _exceeds(found[1], slack):
        return None
    hulls, waste = found
    constraints = [each for each in one.constraints if each.name not in hulls]
    for name, allowed in hulls.items():
        spoken = express(name, allowed, _MOST_CONSTRAINTS)
        if spoken is None:
            return None
        constraints += spoken
    return (Filter(constraints).canonical(), waste) if len(constraints) <= _MOST_CONSTRAINTS else None


# -- ranges ------------------------------------------------------------------------------------------------------------


class _Ratios(NamedTuple):
    """Two ranges, and what they have in common, as shares of the range around them."""

    around: ValueSet
    left: float
    right: float
    common: float


def _ratios(first: ValueSet, second: ValueSet) -> _Ratios | None:
    """For sets of numbers or times that are bounded and without holes; of others no share can be said."""
    one, other = range_of(first), range_of(second)
    if one is None or other is None or one.keys() != other.keys():
        return None
    around = {field: (min(one[field][0], other[field][0]), max(one[field][1], other[field][1])) for field in one}
    field = next(reversed(one))  # floats rather than integers, if both
    (low, high), (begin, end), (start, stop) = around[field], one[field], other[field]
    whole = high - low
    if math.isinf(whole):
        return None
    common = max(0, min(end, stop) - max(begin, start))
    allowed = ValueSet(orders=Orders(**around))
    return _Ratios(allowed, (end - begin) / whole, (stop - start) / whole, common / whole)


@lru_cache(maxsize=1024)
def range_of(allowed: ValueSet) -> dict[str, Bounds] | None:
    """The least value and the end of a bounded range of numbers, or times, by type; none if it is anything else."""
    fields = {field: bounds for field, bounds in zip(Orders._fields, allowed.orders, strict=True) if bounds}
    if tuple(fields) not in (("integer",), ("float",), ("integer", "float"), ("time",)):
        return None
    if allowed.absent or any(True for _ in allowed.string.parts()):
        return None
    is_bounded = all(len(bounds) == 2 and bounds[0] != _BOTTOMS[field] for field, bounds in fields.items())
    return fields if is_bounded else None


def _box(left: United[Any], right: United[Any], names: tuple[str, ...]) -> tuple[dict[str, ValueSet], float] | None:
    """The box around two boxes that are the same in all other names."""
    first, second = left.element.value_sets(), right.element.value_sets()
    hulls: dict[str, ValueSet] = {}
    together = _Ratios(ValueSet(), 1, 1, 1)
    for name in names:
        if first[name] != second[name]:
            found = _ratios(first[name], second[name])
            if found is None:
                return None
            hulls[name] = found.around
            shares = [mine * more for mine, more in zip(together[1:], found[1:], strict=True)]
            together = _Ratios(found.around, *shares)
    return hulls, _wasted(left, right, together)


def _wasted(left: United[Any], right: United[Any], ratios: _Ratios) -> float:
    """The share in vain: what lies in neither of the two, and what was in vain in them."""
    useful = ratios.left + ratios.right - ratios.common - left.waste * ratios.left - right.waste * ratios.right
    return max(0.0, 1 - useful)


# -- strings -----------------------------------------------------------------------------------------------------------


def _string_hull(left: United[Any], right: United[Any], name: str) -> tuple[dict[str, ValueSet], float] | None:
    """All strings that begin as those of both sets do; what was cut off before counts as well."""
    one, other = (_beginning(each.element.value_sets()[name]) for each in (left, right))
    common = _common_beginning(one, other) if one and other else ""
    if not one or not other or not common or left.waste == 1 or right.waste == 1:
        return None
    longest = max(len(one) / (1 - left.waste), len(other) / (1 - right.waste))
    return {name: ValueSet(string=conjoin([Shape(cone(common))]))}, 1 - len(common) / longest


def _beginning(allowed: ValueSet) -> str | None:
    """The text, if the set has all strings that begin with it, or it alone."""
    if allowed.absent or any(allowed.orders):
        return None
    shape = next(allowed.string.parts(), None)
    if shape is None or allowed.string.shapes or not shape.order:
        return None
    low = shape.order[0]
    return low if low and shape.order in (cone(low), (low, low + "\0")) else None


def _common_beginning(one: str, other: str) -> str:
    length = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[:length] if length is not None else min(one, other, key=len)
