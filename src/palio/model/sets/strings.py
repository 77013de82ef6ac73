"""Sets of strings: exact for order, equality and prefixes; safe for suffixes and substrings.

Order, equality, prefixes and their negations are intervals, and intervals are exact. The other four operators
(ends with, contains, and their negations), here called *atoms*, select regular languages, and deciding inclusion
between conjunctions of those takes exponential time. So for them Palio decides by rules of inference, chosen so
that the answer "covers" is always true, and that the relation is reflexive, transitive and antisymmetric:

* A :class:`Shape` is an interval set and a conjunction of atoms. A :class:`StringSet` is a union: one interval
  set, exact, and any number of shapes (one at most for filters, one per atom for advertisements).
* A shape *nearly covers* another when every fact it states follows from the other's facts for all but finitely many
  strings, and those exceptions can be listed (``_exceptions``). Facts follow like this: intervals by inclusion;
  ``ends with`` from a longer suffix; ``contains`` from a longer substring, a suffix or an essential prefix;
  ``does not contain`` from a shorter one; ``does not end with`` from a shorter one, from ``does not contain``, or
  from another suffix that excludes it.
* A union covers a part when one of its shapes nearly covers it and each exception is in the union; membership of
  single strings is exact.

Why it is transitive: near covering is (each rule composes with itself and a finite set plus a finite set is
finite), and exceptions are settled by exact membership, which inclusion of sets carries over. Why it is
antisymmetric: shapes are reduced to the strongest facts that the same rules do not derive from one another, and
strings whose membership does not matter are settled in one way (``cones.settle``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from palio.model.sets.cones import cone, essential_prefix, is_finite, of_points, points, settle, split_finite
from palio.model.sets.intervals import EMPTY, STRING, Bounds, contains, difference, fold, intersection, union
from palio.model.sets.needles import all_inside, needles_of


class Shape(NamedTuple):
    """The strings in some intervals that also meet every atom."""

    order: Bounds
    suffix: str = ""
    contains: tuple[str, ...] = ()
    no_suffix: tuple[str, ...] = ()
    no_contains: tuple[str, ...] = ()

    def meets_atoms(self, string: str) -> bool:
        """Whether the string meets the atoms, wherever it lies in the order."""
        return (
            string.endswith(self.suffix)
            and not string.endswith(self.no_suffix)
            and all(part in string for part in self.contains)
            and not any(part in string for part in self.no_contains)
        )

    def admits(self, string: str) -> bool:
        """Whether the string belongs to the set."""
        return contains(self.order, string) and self.meets_atoms(string)

    @property
    def has_atoms(self) -> bool:
        """Whether anything but order is asked."""
        return self[1:] != _NO_ATOMS


_NO_ATOMS = Shape(EMPTY)[1:]


class StringSet(NamedTuple):
    """A union of an interval set and shapes, in canonical form; build it with :func:`conjoin` or :func:`unite`."""

    order: Bounds
    shapes: tuple[Shape, ...] = ()

    def admits(self, string: str) -> bool:
        """Whether the string belongs to the set, exactly."""
        return contains(self.order, string) or any(shape.admits(string) for shape in self.shapes)

    def covers(self, other: StringSet) -> bool:
        """Whether every string of the other set is in this one; may miss where atoms are mixed, never invents."""
        if self.order == STRING.full or self == other:
            return True
        finite, infinite = split_finite(other.order)
        parts = (*other.shapes, Shape(infinite)) if infinite else other.shapes
        # Single strings last: there may be many of them, and the rest often settles it.
        return all(any(self._covers_by(whole, part) for whole in self.parts()) for part in parts) and all(
            map(self.admits, points(finite))
        )

    def _covers_by(self, whole: Shape, part: Shape) -> bool:
        exceptions = _exceptions(whole, part)
        if exceptions is None:
            return False
        excluded = needles_of(part.no_contains)  # there may be many exceptions, and many strings to look for in each
        part = part._replace(no_contains=())
        return all(self.admits(string) for string in exceptions if not excluded.any_in(string) and part.admits(string))

    def parts(self) -> Iterator[Shape]:
        """The shapes whose union this is, the plain intervals among them."""
        if self.order:
            yield Shape(self.order)
        yield from self.shapes

    def meets(self, other: StringSet) -> bool:
        """Whether some string is in both sets; may invent where atoms are mixed, never misses."""
        return any(conjoin([left, right]) != NOTHING for left in self.parts() for right in other.parts())


NOTHING = StringSet(EMPTY)
EVERYTHING = StringSet(STRING.full)


def conjoin(shapes: list[Shape]) -> StringSet:
    """The strings that belong to every one of the shapes, in canonical form."""
    order = fold(intersection, [shape.order for shape in shapes])
    stated = [shape for shape in shapes if shape.has_atoms]
    if not stated:
        return StringSet(order)
    reduced = _reduce_atoms(
        {shape.suffix for shape in stated},
        {part for shape in stated for part in shape.contains},
        {part for shape in stated for part in shape.no_suffix},
        {part for shape in stated for part in shape.no_contains},
    )
    if reduced is None:
        return NOTHING
    return _settle_shape(reduced._replace(order=order))


def unite(order: Bounds, atoms: Iterable[Shape]) -> StringSet:
    """The strings in some intervals or meeting one of several single atoms, in canonical form."""
    shapes = _maximal(sorted(set(atoms)))

    def is_matched(string: str) -> bool:
        return any(shape.meets_atoms(string) for shape in shapes)

    if not shapes:
        return StringSet(order)
    missing = STRING.complement(order)
    if is_finite(missing):
        return StringSet(union(order, of_points(filter(is_matched, points(missing)))))
    finite, infinite = split_finite(order)
    singles = set(points(finite))
    if infinite:
        for shape in shapes:
            exceptions = _exceptions(shape, Shape(infinite))
            if exceptions is not None:
                singles.update(exceptions)
                infinite = EMPTY
                break
    remaining = union(infinite, of_points(sorted(string for string in singles if not is_matched(string))))
    return StringSet(settle(remaining, is_matched), tuple(shapes))


def _maximal(shapes: list[Shape]) -> list[Shape]:
    """The single-atom shapes that no other one covers."""
    return [
        shape
        for shape in shapes
        if not any(other is not shape and _exceptions(other, shape) is not None for other in shapes)
    ]


def _reduce_atoms(suffixes: set[str], inside: set[str], not_at_end: set[str], outside: set[str]) -> Shape | None:
    """The strongest atoms, those dropped that follow from others; ``None`` if they contradict each other."""
    suffix = max(suffixes, key=len)
    if not all(map(suffix.endswith, suffixes)):
        return None
    contained: list[str] = []
    for part in sorted(inside, key=len, reverse=True):
        if part not in suffix and not any(part in longer for longer in contained):
            contained.append(part)
    excluded: list[str] = []
    for part in sorted(outside, key=len):
        if not any(shorter in part for shorter in excluded):
            excluded.append(part)
    unended: list[str] = []
    for part in sorted(not_at_end, key=len):
        follows = part.endswith(tuple(unended)) or any(shorter in part for shorter in excluded)
        if not follows and not _exclude_each_other(suffix, part):
            unended.append(part)
    stated = [suffix, *contained]
    if suffix.endswith(tuple(unended)) or any(part in text for part in excluded for text in stated):
        return None
    return Shape(EMPTY, suffix, tuple(sorted(contained)), tuple(sorted(unended)), tuple(sorted(excluded)))


def _settle_shape(shape: Shape) -> StringSet:
    """The canonical form of intervals with atoms that do not contradict each other."""
    order = settle(shape.order, lambda string: not shape.meets_atoms(string))
    if is_finite(order):
        return StringSet(of_points(filter(shape.meets_atoms, points(order))))
    prefix = essential_prefix(order)
    apart = of_points(filter(shape.meets_atoms, points(difference(order, cone(prefix)))))
    if any(part in prefix for part in shape.no_contains):
        return StringSet(apart)
    order = union(intersection(order, cone(prefix)), apart)
    # Strings apart from the prefix meet every atom already, so what the prefix contains need not be said.
    shape = shape._replace(order=order, contains=tuple(part for part in shape.contains if part not in prefix))
    return StringSet(EMPTY, (shape,)) if shape.has_atoms else StringSet(order)


def _exceptions(whole: Shape, part: Shape) -> Iterator[str] | None:
    """The finitely many strings of an infinite part that the whole may miss; ``None`` if it may miss more."""
    missing = difference(part.order, whole.order)
    if not is_finite(missing) or not part.suffix.endswith(whole.suffix):
        return None
    if not _excludes(part, whole):
        return None
    unproved = set(whole.contains).difference(part.contains)
    if unproved and not all_inside(unproved, [part.suffix, *part.contains]):
        prefix = essential_prefix(part.order)
        if not all_inside(unproved, [part.suffix, *part.contains, prefix]):
            return None
        missing = union(missing, difference(part.order, cone(prefix)))
    return points(missing)


def _excludes(part: Shape, whole: Shape) -> bool:
    """Whether every negated atom of the whole follows from the part."""
    if not whole.no_suffix and not whole.no_contains:
        return True
    excluded = needles_of(part.no_contains)
    if not all(map(excluded.any_in, whole.no_contains)):
        return False
    unended = needles_of(part.no_suffix)
    return all(
        unended.any_ends(text) or _exclude_each_other(part.suffix, text) or excluded.any_in(text)
        for text in whole.no_suffix
    )


def _exclude_each_other(left: str, right: str) -> bool:
    """Whether no string ends with both."""
    return not left.endswith(right) and not right.endswith(left)
