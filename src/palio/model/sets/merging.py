"""The union of two filters' value sets, where it is again the value sets of one filter."""

from __future__ import annotations

from palio.model.sets import intervals
from palio.model.sets.cones import is_finite, points
from palio.model.sets.intervals import EMPTY
from palio.model.sets.strings import Shape, StringSet, conjoin
from palio.model.sets.valueset import EVERYTHING, Orders, ValueSet


def merge_sets(left: dict[str, ValueSet], right: dict[str, ValueSet]) -> dict[str, ValueSet] | None:
    """The value sets of the union, neither side covering the other.

    Filters are boxes: a set for each name, independent of one another. Two boxes of which neither contains the
    other make a box exactly when they differ in one name only.
    """
    names = sorted({*left, *right})
    differing = [name for name in names if left.get(name, EVERYTHING) != right.get(name, EVERYTHING)]
    if len(differing) != 1:
        return None
    (name,) = differing
    united = _unite(left.get(name, EVERYTHING), right.get(name, EVERYTHING))
    return None if united is None else {**{each: left[each] for each in names if each != name}, name: united}


def _unite(left: ValueSet, right: ValueSet) -> ValueSet | None:
    strings = _unite_strings(left.string, right.string)
    if strings is None:
        return None
    orders = Orders._make(map(intervals.union, left.orders, right.orders))
    return ValueSet(left.absent or right.absent, orders, strings)


def _unite_strings(left: StringSet, right: StringSet) -> StringSet | None:
    """The union of two string sets of filters (at most one shape each), if one shape can say it."""
    if left.covers(right):
        return left
    if right.covers(left):
        return right
    first, second = _only_part(left), _only_part(right)
    if first[1:] == second[1:]:
        return conjoin([first._replace(order=intervals.union(first.order, second.order))])
    return _join_points(first, second) or _join_points(second, first) or _drop_opposites(first, second)


def _only_part(strings: StringSet) -> Shape:
    return next(strings.parts(), Shape(EMPTY))


def _join_points(shape: Shape, single: Shape) -> StringSet | None:
    """Single strings join a shape whose intervals lack nothing but them."""
    if single.has_atoms or not is_finite(single.order) or not all(map(shape.meets_atoms, points(single.order))):
        return None
    return conjoin([shape._replace(order=intervals.union(shape.order, single.order))])


def _drop_opposites(first: Shape, second: Shape) -> StringSet | None:
    """Two shapes that differ in one atom, which one states and the other denies, are together one without it."""
    for stating, denying in ((first, second), (second, first)):
        for text in stating.contains:
            kept = stating._replace(contains=_without(stating.contains, text))
            if kept == denying._replace(no_contains=_without(denying.no_contains, text)):
                return conjoin([kept])
        kept = stating._replace(suffix="")
        if stating.suffix and kept == denying._replace(no_suffix=_without(denying.no_suffix, stating.suffix)):
            return conjoin([kept])
    return None


def _without(texts: tuple[str, ...], text: str) -> tuple[str, ...]:
    return tuple(each for each in texts if each != text)
