r"""What an index can know about a set of values: its kind, its few values, the interval around it.

All of it is *necessary* for covering and nothing is sufficient: a set that covers another has a kind that can cover the
other's, all of its values, and an interval around its interval. So an index built on features misses nothing, and
:meth:`~palio.model.sets.valueset.ValueSet.covers` has the last word.

Strings need care. A filter with a suffix or a substring may cover another although a few single strings at the ends
of its intervals are missing, because the other one's atoms exclude those (``sets/strings.py``). Such strings differ
from the boundary by NULs at the end alone, so the interval that a set *promises* to lie in (``outer``) is widened by
them, and the one that it *asks* for (``inner``) is narrowed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from palio.model.sets.cones import cone_end, is_finite, points, split_finite
from palio.model.sets.intervals import BOOLEAN, INTEGER, TIME, Boundary, Bounds, Domain, next_float, pieces
from palio.model.sets.strings import StringSet
from palio.model.sets.valueset import ABSENT as ABSENT_ONLY
from palio.model.sets.valueset import ValueSet

FEW: Final = 8
"""Sets of at most so many values are looked up by value; larger ones by the interval around them."""


class _Top:
    """Above every string and every byte string, which have no highest."""

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, other: object) -> bool:
        return True


TOP: Final = _Top()

Hull = tuple[Boundary, Boundary]
"""The ends of an interval around a set; whether the upper one belongs to it depends on the type alone."""

_FULL_STRING: Hull = ("", TOP)
_NO_HULL: Hull = (None, None)


class Form:
    """How a set of one type is best found; with the type it makes the set's kind."""

    ONE = "one"
    FEW = "few"
    RANGE = "range"
    SUFFIX = "suffix"
    """Strings with a common end: an interval in the order of the reversed strings too."""
    LOOSE = "loose"
    """Strings with nothing to go by."""


Kind = tuple[str, str]
ABSENT: Final[Kind] = ("absent", Form.ONE)
MIXED: Final[Kind] = ("mixed", Form.LOOSE)
_FAMILIES = ("boolean", "number", "time", "bytes", "string")
_FINITE = (Form.ONE, Form.FEW)
_KINDS: tuple[Kind, ...] = (
    ABSENT,
    MIXED,
    *((family, form) for family in _FAMILIES for form in (Form.ONE, Form.FEW, Form.RANGE)),
    *(("string", form) for form in (Form.SUFFIX, Form.LOOSE)),
)


def may_cover(wide: Kind, narrow: Kind) -> bool:
    """Whether a set of the one kind can cover a set, not empty, of the other.

    >>> may_cover(("number", "few"), ("number", "one")), may_cover(("number", "few"), ("number", "range"))
    (True, False)
    """
    if wide == MIXED:
        return True
    if wide[0] != narrow[0]:
        return False
    if wide[1] == Form.ONE:
        return narrow[1] == Form.ONE
    return wide[1] != Form.FEW or narrow[1] in _FINITE


@cache
def covering_kinds(narrow: Kind) -> tuple[Kind, ...]:
    """The kinds of sets that can cover a set of this kind."""
    return tuple(kind for kind in _KINDS if may_cover(kind, narrow))


@cache
def covered_kinds(wide: Kind) -> tuple[Kind, ...]:
    """The kinds of sets that a set of this kind can cover."""
    return tuple(kind for kind in _KINDS if may_cover(wide, kind))


class Feature(NamedTuple):
    """What is known about one set of values."""

    kind: Kind
    members: tuple[Boundary, ...] = ()
    """All values, if they are few."""
    outer: Hull = _NO_HULL
    """An interval that holds the set."""
    inner: Hull = _NO_HULL
    """An interval that is inside the ``outer`` one of every set that covers this one."""


def describe(allowed: ValueSet) -> Feature:
    """The features of a set that is not empty.

    >>> from palio import Filter
    >>> describe(Filter.parse("x >= 3 and x < 7").value_sets()["x"]).outer
    (3.0, 6.999999999999999)
    >>> describe(Filter.parse("x = 'a'").value_sets()["x"]).members
    ('a',)
    """
    orders, string = allowed.orders, allowed.string
    has_string = bool(string.order or string.shapes)
    has_number = bool(orders.integer or orders.float)
    families = has_string + has_number + bool(orders.boolean) + bool(orders.time) + bool(orders.bytes)
    if families != 1 or allowed.absent:
        return Feature(ABSENT if allowed == ABSENT_ONLY else MIXED)
    if has_number:
        return _describe_number(orders.integer, orders.float)
    if has_string:
        return _describe_string(string)
    if orders.time:
        return _ordered("time", *_discrete(orders.time, TIME))
    if orders.bytes:
        return _describe_bytes(orders.bytes)
    return _ordered("boolean", *_discrete(orders.boolean, BOOLEAN))


def _ordered(family: str, hull: Hull, members: tuple[Boundary, ...] | None) -> Feature:
    if members is None:
        return Feature((family, Form.RANGE), (), hull, hull)
    return Feature((family, Form.ONE if len(members) == 1 else Form.FEW), members, hull, hull)


def _discrete(bounds: Bounds, domain: Domain) -> tuple[Hull, tuple[int, ...] | None]:
    """The least and the greatest value; and all of them, if they are few."""
    assert domain.top is not None
    ends = bounds if len(bounds) % 2 == 0 else (*bounds, domain.top)
    hull = ends[0], ends[-1] - 1
    if hull[0] == hull[1]:
        return hull, (ends[0],)
    if sum(ends[1::2]) - sum(ends[::2]) > FEW:
        return hull, None
    return hull, tuple(value for low, high in zip(ends[::2], ends[1::2], strict=True) for value in range(low, high))


def _floats(bounds: Bounds) -> tuple[Hull, tuple[float, ...] | None]:
    ends = bounds if len(bounds) % 2 == 0 else (*bounds, math.inf)
    hull = ends[0], math.nextafter(ends[-1], -math.inf)
    if len(ends) > 2 * FEW or any(high != next_float(low) for low, high in pieces(ends)):
        return hull, None
    return hull, ends[::2]


def _describe_number(integers: Bounds, floats: Bounds) -> Feature:
    """Numbers compare by exact value whatever their type, so one interval holds both."""
    if not floats:
        return _ordered("number", *_discrete(integers, INTEGER))
    hull, members = _floats(floats)
    if integers:
        (low, high), others = _discrete(integers, INTEGER)
        hull = min(hull[0], low), max(hull[1], high)
        both = None if members is None or others is None else tuple(dict.fromkeys((*others, *members)))
        members = None if both is None or len(both) > FEW else both
    return _ordered("number", hull, members)


def _describe_bytes(bounds: Bounds) -> Feature:
    hull = bounds[0], bounds[-1] if len(bounds) % 2 == 0 else TOP
    singles = len(bounds) <= 2 * FEW and all(high == low + b"\0" for low, high in pieces(bounds))
    return _ordered("bytes", hull, bounds[::2] if singles else None)


def _describe_string(allowed: StringSet) -> Feature:
    order = allowed.order
    if allowed.shapes:
        return _describe_shapes(allowed)
    low, high = order[0], order[-1] if len(order) % 2 == 0 else TOP
    outer = low.rstrip("\0"), high
    if len(order) <= 2 * FEW and is_finite(order):
        members = tuple(islice(points(order), FEW + 1))
        if len(members) <= FEW:
            return Feature(("string", Form.ONE if len(members) == 1 else Form.FEW), members, outer, (low, high))
    return Feature(("string", Form.LOOSE if outer == _FULL_STRING else Form.RANGE), (), outer, (low, high))


def _describe_shapes(allowed: StringSet) -> Feature:
    """Every shape is infinite; what covers it holds its infinite intervals but for single strings at their ends."""
    outer = _around((order[0].rstrip("\0"), _end(order)) for order in _orders(allowed))
    asked: list[Hull] = [(allowed.order[0], _end(allowed.order))] if allowed.order else []
    for shape in allowed.shapes:
        _, infinite = split_finite(shape.order)
        end = _end(infinite)
        asked.append((infinite[0], end if end is TOP else end.rstrip("\0")))
    form = Form.LOOSE if outer == _FULL_STRING else Form.RANGE
    if reverse_hull(allowed) != _FULL_STRING:
        form = Form.SUFFIX
    return Feature(("string", form), (), outer, _around(asked))


def _orders(allowed: StringSet) -> Iterator[Bounds]:
    return (part.order for part in allowed.parts())


def _end(bounds: Bounds) -> Boundary:
    return bounds[-1] if len(bounds) % 2 == 0 else TOP


def _around(hulls: Iterable[Hull]) -> Hull:
    lows, highs = zip(*hulls, strict=True)
    return min(lows), max(highs)


def reverse_hull(allowed: StringSet) -> Hull:
    r"""The interval around a set of strings, each read backwards: what covers a set is around it there as well.

    >>> from palio import Filter
    >>> reverse_hull(Filter.parse("x *< 'ab'").value_sets()["x"].string)
    ('ba', 'bb')
    """
    hulls: list[Hull] = []
    if allowed.order:
        if not is_finite(allowed.order):
            return _FULL_STRING
        backwards = [string[::-1] for string in points(allowed.order)]
        hulls.append((min(backwards), max(backwards) + "\0"))
    for shape in allowed.shapes:
        suffix = shape.suffix[::-1]
        end = cone_end(suffix)
        hulls.append((suffix, TOP if end is None else end))
    return _around(hulls)
