"""One filter, or advertisement, instead of several: exactly their union, or a little more where that is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple

from palio.matching.candidates import E
from palio.model import Filter
from palio.model.conditions import ConstraintSet
from palio.model.limits import DEFAULT_LIMITS
from palio.model.sets.cones import cone
from palio.model.sets.express import express
from palio.model.sets.intervals import FLOAT, INTEGER, TIME, Bounds
from palio.model.sets.strings import Shape, conjoin
from palio.model.sets.valueset import Orders, ValueSet

_MOST_ROUNDS = 4
"""In each round elements join that differ in one name; boxes that tile a larger one need some of them."""
_MOST_CONSTRAINTS = DEFAULT_LIMITS.constraints


class Merging(NamedTuple):
    """How far merging may go."""

    parts: int = 16
    """So many elements at most become one: so many have to be told anew when one of them is cancelled."""
    slack: int = 0
    """The false-positive budget of a merged filter, in percent; 0 for unions that are exact.

    A merged filter may select too much in one attribute only. If that is a number or a time, the gaps between the parts
    are together at most this share of the whole range; so, if values are spread evenly, is the share of what it selects
    in vain. If it is a string, the parts are cut down to their common beginning, by this share of the longest of them
    at most. Advertisements cannot name a range, and are merged exactly.
    """


class United(NamedTuple, Generic[E]):
    """An element that stands for others."""

    element: E
    parts: tuple[E, ...]
    widened: str = ""
    """The attribute in which it selects more than its parts."""
    gaps: float = 0
    """How much more, in units of the values; for strings, in characters that were cut off the longest one."""


def unite(elements: Iterable[E], limits: Merging) -> list[United[E]]:
    """Put elements together as far as a quick search finds out how; those that stay alone come out, too.

    >>> texts = ["integer x = 1 and y > 0", "integer x = 2 and y > 0", "integer x > 2 and y > 0", "y < 0"]
    >>> [str(each.element) for each in unite(map(Filter.parse, texts), Merging())]
    ['y < 0', 'y > 0 and integer x >= 1']
    """
    unions = {each: United(each, (each,)) for each in elements}
    for _ in range(_MOST_ROUNDS if limits.parts > 1 else 0):
        before = len(unions)
        for name, line in _lines(unions).items():
            _sweep(unions, name[0], line, limits)
        if len(unions) == before:
            break
    return list(unions.values())


def _lines(unions: dict[E, United[E]]) -> dict[tuple[str, frozenset[Any]], list[E]]:
    """Elements that agree in all but one name, by this name and what they agree in: only such ones make one."""
    lines: dict[tuple[str, frozenset[Any]], list[E]] = {}
    for element in unions:
        sets = element.value_sets()
        for name in sets:
            rest = frozenset((other, allowed) for other, allowed in sets.items() if other != name)
            lines.setdefault((name, rest), []).append(element)
    return {key: line for key, line in lines.items() if len(line) > 1}


def _sweep(unions: dict[E, United[E]], name: str, line: list[E], limits: Merging) -> None:
    """Go upwards along the name in which the elements differ, and join what can be joined with its neighbour."""
    left = [element for element in line if element in unions]  # others were joined along another name
    left.sort(key=lambda element: _place(element.value_sets()[name]))
    run: United[E] | None = None
    for element in left:
        each = unions[element]
        joined = None if run is None else _join(run, each, name, limits)
        if run is not None and joined is not None:
            del unions[run.element], unions[element]
            if joined.element in unions:  # another one is the same already
                unions[run.element], unions[element] = run, each
                joined = None
            else:
                unions[joined.element] = joined
        run = joined or each


def _place(allowed: ValueSet) -> tuple[int, Any]:
    """Where a set begins: the first type that it has values of, and the least value."""
    for number, bounds in enumerate(allowed.orders):
        if bounds:
            return number, bounds[0]
    shape = next(allowed.string.parts(), None)
    return len(allowed.orders), "" if shape is None or not shape.order else shape.order[0]


def _join(left: United[Any], right: United[Any], name: str, limits: Merging) -> United[Any] | None:
    parts = tuple(dict.fromkeys((*left.parts, *right.parts)))
    if len(parts) > limits.parts:
        return None
    widened = {left.widened, right.widened} - {""}
    merged = left.element.merge(right.element, _room(left.element, right.element))
    if merged is None or name in widened:
        return _widen(left, right, name, limits.slack)
    if len(widened) > 1 or not (merged.covers(left.element) and merged.covers(right.element)):
        return None
    return United(merged, parts, next(iter(widened), ""), max(left.gaps, right.gaps))


def _room(left: ConstraintSet, right: ConstraintSet) -> int:
    """How many constraints a union may have: one that is a list of exceptions would cost more than it saves.

    For an advertisement several constraints on a name are alternatives, and a union has those of both.
    """
    count = max(len(left), len(right)) + 1 if isinstance(left, Filter) else len(left) + len(right)
    return min(count, _MOST_CONSTRAINTS)


def _widen(left: United[Any], right: United[Any], name: str, slack: int) -> United[Any] | None:
    """A filter that selects a little more than the two, if the budget allows for it."""
    one, other = left.element, right.element
    if not slack or not isinstance(one, Filter) or not isinstance(other, Filter):
        return None
    if {left.widened, right.widened} - {"", name}:
        return None
    first, second = one.value_sets()[name], other.value_sets()[name]
    hull = _string_hull(left, right, first, second) or _range_hull(left, right, first, second)
    if hull is None or hull.gaps * 100 > slack * hull.extent:
        return None
    spoken = express(name, hull.allowed, _MOST_CONSTRAINTS)
    if spoken is None:
        return None
    merged = Filter([*(each for each in one.constraints if each.name != name), *spoken])
    if len(merged.constraints) > _MOST_CONSTRAINTS or not (merged.covers(one) and merged.covers(other)):
        return None
    return United(merged, tuple(dict.fromkeys((*left.parts, *right.parts))), name, hull.gaps)


class _Hull(NamedTuple):
    allowed: ValueSet
    gaps: float
    extent: float
    """The whole of which the gaps must not be too large a share."""


def _range_hull(left: United[Any], right: United[Any], first: ValueSet, second: ValueSet) -> _Hull | None:
    """The range from the least to the greatest value of two sets of numbers or times that are bounded."""
    fields = [field for field in Orders._fields if getattr(first.orders, field) or getattr(second.orders, field)]
    if fields not in (["integer"], ["float"], ["integer", "float"], ["time"]):
        return None
    hulls: dict[str, Bounds] = {}
    for field in fields:
        one, other = getattr(first.orders, field), getattr(second.orders, field)
        bottom = {"integer": INTEGER, "float": FLOAT, "time": TIME}[field].bottom
        if len(one) != 2 or len(other) != 2 or bottom in (one[0], other[0]):
            return None  # without an end, or with holes: what share a gap has cannot be said
        hulls[field] = min(one[0], other[0]), max(one[1], other[1])
    one, other = getattr(first.orders, fields[-1]), getattr(second.orders, fields[-1])
    low, high = hulls[fields[-1]]
    between = max(0, max(one[0], other[0]) - min(one[1], other[1]))
    allowed = ValueSet(orders=Orders(**hulls))
    return _Hull(allowed, left.gaps + right.gaps + between, high - low)


def _string_hull(left: United[Any], right: United[Any], first: ValueSet, second: ValueSet) -> _Hull | None:
    """All strings that begin as those of both sets do."""
    one, other = _beginning(first), _beginning(second)
    if one is None or other is None:
        return None
    common = _common_beginning(one, other)
    longest = max(len(one) + left.gaps, len(other) + right.gaps)
    if not common:
        return None
    return _Hull(ValueSet(string=conjoin([Shape(cone(common))])), longest - len(common), longest)


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
