"""Covering is a partial order: reflexive, transitive and antisymmetric, everywhere."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Advertisement, Constraint, Filter, Operator, Pattern
from tests.model.strategies import (
    EVERY_STRING,
    ordered_constraints,
    related_constraints,
    string_constraints,
)

mixed = st.one_of(
    ordered_constraints("x"), string_constraints(), ordered_constraints("y"), string_constraints(name="y")
)


@given(related_constraints(mixed))
def test_filters(lists: list[list[Constraint]]) -> None:
    check_order([Filter(constraints) for constraints in lists])


@given(related_constraints(string_constraints()))
def test_string_filters(lists: list[list[Constraint]]) -> None:
    check_order([Filter(constraints) for constraints in lists])


@given(related_constraints(mixed.filter(lambda constraint: constraint.operator is not Operator.ABSENT)))
def test_advertisements(lists: list[list[Constraint]]) -> None:
    check_order([Advertisement(constraints) for constraints in lists])


def check_order(values: list[Filter] | list[Advertisement]) -> None:
    for one in values:
        assert one.covers(one)  # type: ignore[arg-type]
    for one, two in itertools.permutations(values, 2):
        assert (one == two) is (one.covers(two) and two.covers(one)), f"{one} / {two}"
    for one, two, three in itertools.permutations(values, 3):
        if one.covers(two) and two.covers(three):
            assert one.covers(three), f"{one} covers {two} covers {three}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["", "a", "ab", "b"], ["a", "\0", "a\0", "\0\0"], ["\U0010ffff", "a\U0010ffff", "b\0", "\1"]]
)
@pytest.mark.parametrize("cls", [Filter, Advertisement])
def test_every_small_string_set(cls: type[Filter] | type[Advertisement], words: list[str]) -> None:
    """All sets of one and two constraints, and some of three, on words that trip the rules over."""
    pool = [Constraint("x", operator, word) for operator in EVERY_STRING for word in words]
    draw = random.Random(7)
    chosen = [*itertools.combinations(pool, 1), *itertools.combinations(pool, 2)]
    chosen += [tuple(draw.sample(pool, 3)) for _ in range(600)]
    distinct = list(dict.fromkeys(map(cls, chosen)))
    draw.shuffle(distinct)
    above = [
        sum(1 << place for place, narrow in enumerate(distinct) if wide.covers(narrow))  # type: ignore[arg-type]
        for wide in distinct
    ]
    for place, covered in enumerate(above):
        assert covered >> place & 1
        for other in range(len(distinct)):
            if covered >> other & 1 and other != place:
                assert not above[other] >> place & 1, f"{distinct[place]} and {distinct[other]} cover each other"
                assert not above[other] & ~covered, f"{distinct[place]} covers {distinct[other]}, which covers more"


@given(st.lists(st.lists(mixed, max_size=2).map(Filter), min_size=1, max_size=3), st.data())
def test_patterns_cover_position_by_position(filters: list[Filter], data: st.DataObject) -> None:
    wide = Pattern(Filter(list(filter)[: data.draw(st.integers(0, len(filter)))]) for filter in filters)
    narrow = Pattern(filters)
    assert wide.covers(narrow)
    assert narrow.covers(wide) is (wide == narrow)
    assert not wide.covers(Pattern([*filters, Filter()]))
    assert not Pattern([*filters, Filter()]).covers(narrow)
