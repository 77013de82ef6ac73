r"""What an index can know about a set of values: its kind, its few values, its intervals, the text in its strings.

All of it is *necessary* for covering and nothing is sufficient: a set that covers another has a kind that can cover
the other's, all of its values, for each of its intervals one that holds it, and asks for no text that the other lacks.
So an index built on features misses nothing, and ``ValueSet.covers`` has the last word.

Strings need care. A filter with a suffix or a substring may cover another although a few single strings at the ends
of its intervals are missing, because the other one's atoms exclude those (``sets/strings.py``). Such strings differ
from the boundary by NULs at the end alone, so the interval that a set *promises* to lie in (``outer``) is widened by
them, and the one that it *asks* for (``inner``) is narrowed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from itertools import islice, pairwise
from typing import Final, NamedTuple
from zlib import crc32

from palio.model.sets.cones import cone_end, essential_prefix, is_finite, points, split_finite
from palio.model.sets.intervals import (
    BOOLEAN,
    FLOAT,
    INTEGER,
    TIME,
    Boundary,
    Bounds,
    Domain,
    pieces,
)
from palio.model.sets.strings import StringSet
from palio.model.sets.valueset import ABSENT as ABSENT_ONLY
from palio.model.sets.valueset import ValueSet

FEW: Final = 8
"""Sets of at most so many values are looked up by value; larger ones by interval, of which at most so many are told
apart."""


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

EVERYTHING: Final = -1
_BITS: Final = 64

Hull = tuple[Boundary, Boundary]
"""The ends of an interval; whether the upper one belongs to it depends on the type alone."""

_FULL_STRING: Hull = ("", TOP)
_FULL_BYTES: Hull = (b"", TOP)


class Form:
    """How a set of one type is best found; with the type it makes the set's kind."""

    ONE = "one"
    FEW = "few"
    RANGE = "range"
    """One interval."""
    RANGES = "ranges"
    """A few intervals."""
    SUFFIX = "suffix"
    """Strings with a common end: an interval in the order of the reversed strings too."""
    PART = "part"
    """Strings that contain something, and may begin and end as they like."""
    LOOSE = "loose"
    """Nothing to go by: all values of the type, or nearly all."""


Kind = tuple[str, str]
ABSENT: Final[Kind] = ("absent", Form.ONE)
MIXED: Final[Kind] = ("mixed", Form.LOOSE)
_FAMILIES = ("boolean", "number", "time", "bytes", "string")
_FINITE = (Form.ONE, Form.FEW)
_KINDS: tuple[Kind, ...] = (
    ABSENT,
    MIXED,
    *((family, form) for family in _FAMILIES for form in (Form.ONE, Form.FEW, Form.RANGE, Form.RANGES, Form.LOOSE)),
    *(("string", form) for form in (Form.SUFFIX, Form.PART)),
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
    outers: tuple[Hull, ...] = ()
    """Intervals, upwards and apart, that together hold the set."""
    inners: tuple[Hull, Hull] = ((None, None), (None, None))
    """A low interval and a high one (or the same twice); what covers the set has each inside one of its ``outers``.

    One alone would not do: of sets that have something common and something rare, all would look alike by the former.
    """
    gaps: int = 0
    """The values that a set lacks, as bits, if it has all values of its type but for single ones.

    What covers it lacks no others.
    """
    may_lack: int = EVERYTHING
    """The same; of sets of any other kind that is not known, and they may lack everything."""


def describe(allowed: ValueSet) -> Feature:
    """The features of a set that is not empty.

    >>> from palio import Filter
    >>> describe(Filter.parse("x >= 3 and x < 7").value_sets()["x"]).outers
    ((3, 6.999999999999999),)
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
        return _describe_shapes(string) if string.shapes else _describe_plain(string.order)
    if orders.time:
        return _ordered("time", *_discrete(orders.time, TIME), _span(TIME))
    if orders.bytes:
        return _describe_bytes(orders.bytes)
    return _ordered("boolean", *_discrete(orders.boolean, BOOLEAN), _span(BOOLEAN))


def _ordered(family: str, hulls: tuple[Hull, ...], members: tuple[Boundary, ...] | None, full: Hull) -> Feature:
    inners = hulls[0], hulls[-1]
    gaps = _gaps(hulls, full)
    if len(hulls) > FEW:
        hulls = ((hulls[0][0], hulls[-1][1]),)
    if members is not None:
        return Feature((family, Form.ONE if len(members) == 1 else Form.FEW), members, hulls, inners)
    return Feature((family, _form(hulls, full)), (), hulls, inners, *gaps)


def _gaps(hulls: tuple[Hull, ...], full: Hull) -> tuple[int, int]:
    """The ``gaps`` of a set that consists of these intervals, and what it ``may_lack``."""
    gaps = 0
    if len(hulls) < 2 or hulls[0][0] > full[0] or hulls[-1][1] < full[1]:
        return 0, EVERYTHING
    for (_, high), (low, _) in pairwise(hulls):
        if not _is_single_gap(high, low):
            return 0, EVERYTHING
        gaps |= _bit(_after(high))
    return gaps, gaps


def _is_single_gap(high: Boundary, low: Boundary) -> bool:
    """Whether one value lies between two intervals."""
    missing = _after(high)
    if isinstance(missing, str):
        return bool(low == missing + "\0")
    if isinstance(missing, bytes):
        return bool(low == missing + b"\0")
    return bool(low == (math.nextafter(missing, math.inf) if isinstance(missing, float) else missing + 1))


def _after(high: Boundary) -> Boundary:
    """The value behind an interval. The upper end of intervals of texts does not belong to them."""
    if isinstance(high, str | bytes):
        return high
    return math.nextafter(high, math.inf) if isinstance(high, float) else high + 1


def _bit(boundary: Boundary) -> int:
    """One of a few bits; Python's own hash of a text is another one in each process."""
    if isinstance(boundary, str | bytes):
        boundary = crc32(boundary.encode() if isinstance(boundary, str) else boundary)
    return 1 << hash(boundary) % _BITS


def _form(outers: tuple[Hull, ...], full: Hull) -> str:
    """How to find a set with these intervals, whose values are many."""
    if outers[0][0] <= full[0] and outers[0][1] >= full[1]:
        return Form.LOOSE
    return Form.RANGE if len(outers) == 1 else Form.RANGES


def _span(domain: Domain) -> Hull:
    """The least and the greatest value of a discrete domain."""
    assert domain.top is not None
    return domain.bottom, domain.top - 1


def _discrete(bounds: Bounds, domain: Domain) -> tuple[tuple[Hull, ...], tuple[int, ...] | None]:
    """The intervals, by their least and greatest values; and all values, if they are few."""
    ends = bounds if len(bounds) % 2 == 0 else (*bounds, domain.top)
    lows, highs = ends[::2], ends[1::2]
    hulls = tuple([(low, high - 1) for low, high in zip(lows, highs, strict=True)])
    if sum(highs) - sum(lows) > FEW:
        return hulls, None
    return hulls, tuple(value for low, high in hulls for value in range(low, high + 1))


def _floats(bounds: Bounds) -> tuple[tuple[Hull, ...], tuple[float, ...] | None]:
    ends = bounds if len(bounds) % 2 == 0 else (*bounds, FLOAT.top)
    lows, highs = ends[::2], ends[1::2]
    hulls = tuple([(low, math.nextafter(high, -math.inf)) for low, high in zip(lows, highs, strict=True)])
    if len(hulls) > FEW or any(low != high for low, high in hulls):
        return hulls, None
    return hulls, lows


def _describe_number(integers: Bounds, floats: Bounds) -> Feature:
    """Numbers compare by exact value whatever their type, so intervals of both types go together."""
    full = _span(INTEGER)
    if not floats:
        found = _ordered("number", *_discrete(integers, INTEGER), full)
        return found._replace(may_lack=EVERYTHING)  # all floats are lacking, too
    hulls, members = _floats(floats)
    if not integers:
        found = _ordered("number", hulls, members, (FLOAT.bottom, -FLOAT.bottom))
        return found._replace(may_lack=EVERYTHING)
    others, values = _discrete(integers, INTEGER)
    both = None if members is None or values is None else tuple(dict.fromkeys((*values, *members)))
    return _ordered("number", _joined([*others, *hulls]), None if both is None or len(both) > FEW else both, full)


def _joined(hulls: list[Hull]) -> tuple[Hull, ...]:
    """Intervals, ends included, joined where they overlap. What covers intervals that overlap does it by one."""
    joined: list[Hull] = []
    for low, high in sorted(hulls):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return tuple(joined)


def _describe_bytes(bounds: Bounds) -> Feature:
    hulls = tuple((low, TOP if high is None else high) for low, high in pieces(bounds))
    are_single = len(hulls) <= FEW and all(high == low + b"\0" for low, high in hulls)
    return _ordered("bytes", hulls, bounds[::2] if are_single else None, _FULL_BYTES)


def _describe_plain(order: Bounds) -> Feature:
    """Strings without atoms."""
    inners = _first_and_last(order)
    outers = _outers(order)
    gaps = _gaps(tuple((low, TOP if high is None else high) for low, high in pieces(order)), _FULL_STRING)
    if len(order) <= 2 * FEW and is_finite(order):
        members = tuple(islice(points(order), FEW + 1))
        if len(members) <= FEW:
            return Feature(("string", Form.ONE if len(members) == 1 else Form.FEW), members, outers, inners)
    return Feature(("string", _form(outers, _FULL_STRING)), (), outers, inners, *gaps)


def _first_and_last(order: Bounds) -> tuple[Hull, Hull]:
    ends = order if len(order) % 2 == 0 else (*order, TOP)
    return (ends[0], ends[1]), (ends[-2], ends[-1])


def _outers(order: Bounds) -> tuple[Hull, ...]:
    """Intervals of strings, widened downwards by NULs at the end, and joined where only finitely many are between."""
    outers: list[Hull] = []
    for low, high in pieces(order):
        start, end = low.rstrip("\0"), TOP if high is None else high
        if outers and start <= outers[-1][1]:
            outers[-1] = outers[-1][0], end
        else:
            outers.append((start, end))
    return tuple(outers) if len(outers) <= FEW else ((outers[0][0], outers[-1][1]),)


def _describe_shapes(allowed: StringSet) -> Feature:
    """Strings with atoms. Every shape is infinite; what covers it nearly holds each of its infinite intervals."""
    ends = [(order[0].rstrip("\0"), order[-1] if len(order) % 2 == 0 else TOP) for order, *_ in allowed.parts()]
    outer = _around(ends)
    _, infinite = split_finite(allowed.shapes[0].order)
    first, last = [(low, high if high is TOP else high.rstrip("\0")) for low, high in _first_and_last(infinite)]
    form = _form((outer,), _FULL_STRING)
    if reverse_hull(allowed) != _FULL_STRING:
        form = Form.SUFFIX
    elif form == Form.LOOSE and part_of(allowed):
        form = Form.PART
    return Feature(("string", form), (), (outer,), (first, last))


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


def part_of(allowed: StringSet) -> str:
    """A text that all strings of the set contain, and that it therefore asks of the sets it covers; or none.

    >>> from palio import Filter
    >>> part_of(Filter.parse("x * 'b' and x * 'acc'").value_sets()["x"].string)
    'acc'
    """
    if allowed.order or len(allowed.shapes) != 1:
        return ""
    return max(allowed.shapes[0].contains, key=len, default="")


def texts_of(allowed: StringSet) -> list[str]:
    """Texts in one of which anything occurs that a set which covers this one asks for.

    >>> from palio import Filter
    >>> texts_of(Filter.parse("x >* 'a' and x * 'bb'").value_sets()["x"].string)
    ['', 'bb', 'a']
    """
    if allowed.shapes:
        shape = allowed.shapes[0]
        return [shape.suffix, *shape.contains, essential_prefix(shape.order)]
    _, infinite = split_finite(allowed.order)
    return [essential_prefix(infinite)] if infinite else [allowed.order[0]]
