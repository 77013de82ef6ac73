"""Sets as boundaries against sets as sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio.model.sets import intervals
from palio.model.sets.intervals import BOOLEAN, Bounds, Domain
from palio.model.sets.needles import Needles, all_inside

DOMAIN = Domain(0, 12, int, lambda number: int(number) + 1)
bounds = st.sets(st.integers(0, 11), max_size=7).map(lambda chosen: tuple(sorted(chosen)))


def members(of: Bounds) -> set[int]:
    """Walk the domain and flip at each boundary."""
    return {number for number in range(12) if sum(boundary <= number for boundary in of) % 2}


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 14))))
def test_all_but_many_intervals_at_once_is_what_is_left_one_by_one(ends: list[tuple[int, int]]) -> None:
    holes = [() if low >= high else (low,) if high >= 12 else (low, high) for low, high in ends]
    left: Bounds = DOMAIN.full
    for hole in holes:
        left = intervals.intersection(left, DOMAIN.complement(hole))
    assert DOMAIN.all_but(holes) == left


@given(bounds, bounds)
def test_operations(left: Bounds, right: Bounds) -> None:
    one, two = members(left), members(right)
    assert members(intervals.union(left, right)) == one | two
    assert members(intervals.intersection(left, right)) == one & two
    assert members(intervals.difference(left, right)) == one - two
    assert intervals.is_subset(left, right) is (one <= two)
    assert members(DOMAIN.complement(left)) == set(range(12)) - one


@given(bounds)
def test_pieces_and_membership(of: Bounds) -> None:
    from_pieces = {n for low, high in intervals.pieces(of) for n in range(low, 12 if high is None else high)}
    assert from_pieces == members(of) == {n for n in range(12) if intervals.contains(of, n)}


@given(st.lists(bounds, min_size=1, max_size=6))
def test_folding(sets: list[Bounds]) -> None:
    assert members(intervals.fold(intervals.union, sets)) == set().union(*map(members, sets))
    assert members(intervals.fold(intervals.intersection, sets)) == set.intersection(*map(members, sets))


def test_every_set_has_one_form() -> None:
    for of in (BOOLEAN.full, BOOLEAN.select(intervals.Operator.GE, False)):
        assert of == (0,)
    assert BOOLEAN.select(intervals.Operator.LE, True) == BOOLEAN.full
    assert BOOLEAN.select(intervals.Operator.GT, True) == intervals.EMPTY


texts = st.text("ab", max_size=5)


@given(st.lists(texts, max_size=20), st.lists(texts, max_size=5))
def test_needles(needles: list[str], haystack: list[str]) -> None:
    """Few and many needles are looked for in different ways; both must say the same as the plain way."""
    sought = Needles(needles)
    for text in haystack:
        assert sought.any_in(text) is any(needle in text for needle in needles)
        assert sought.any_ends(text) is any(text.endswith(needle) for needle in needles)
    if haystack:
        assert all_inside(needles, haystack) is all(any(needle in text for text in haystack) for needle in needles)
