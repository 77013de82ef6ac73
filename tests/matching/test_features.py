"""Features leave nothing out: whatever covers a set has the features that an index looks for."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Constraint, Operator
from palio.matching.features import Form, describe, may_cover, part_of, reverse_hull, texts_of
from palio.model.sets.valueset import ValueSet, conjunction, disjunction
from tests.matching.covering_populations import constraints_on
from tests.model.strategies import EVERY_STRING, string_constraints

UNITE = {"filter": conjunction, "advertisement": disjunction}


def check(wide: ValueSet, narrow: ValueSet) -> bool:
    """Whether there is something to check: the one set covers the other, and neither is empty."""
    if wide.is_empty or narrow.is_empty or not wide.covers(narrow):
        return False
    outside, inside = describe(wide), describe(narrow)
    assert may_cover(outside.kind, inside.kind)
    if outside.members:
        assert inside.members
        assert all(member in outside.members for member in inside.members)
    if outside.outers:
        for low, high in inside.inners:
            holding = [start for start, end in outside.outers if not start > low and not end < high]
            assert len(holding) == 1
    if outside.kind[1] in (Form.RANGE, Form.SUFFIX):
        assert len(outside.outers) == 1
    if outside.kind[1] == Form.SUFFIX:
        (low, high), (least, most) = reverse_hull(wide.string), reverse_hull(narrow.string)
        assert not low > least
        assert not high < most
    if outside.kind[1] == Form.PART:  # strings only, so the covered set has some
        assert any(part_of(wide.string) in text for text in texts_of(narrow.string))
    assert not outside.gaps & ~inside.may_lack
    return True


_UNEQUAL = st.one_of(
    st.builds(Constraint, st.just("x"), st.just("!="), st.sampled_from([0, 1, 2, 5, 2**53, 2**60, -3])),
    st.builds(Constraint, st.just("x"), st.just("!="), st.sampled_from([0.0, 1.5, 2.0, 5.5, 2.0**53, 5e-324])),
    st.builds(Constraint, st.just("x"), st.just("!="), st.sampled_from([0, 1, 5, 6]), st.just("integer")),
    st.builds(Constraint, st.just("x"), st.just("!="), st.sampled_from([0.0, 1.5, 5.0]), st.just("float")),
    st.builds(Constraint, st.just("x"), st.just("!="), st.sampled_from(["", "a", "a\0", "b"])),
    st.builds(Constraint, st.just("x"), st.just("!="), st.sampled_from([b"", b"a", b"a\0"])),
    st.builds(Constraint, st.just("x"), st.sampled_from([">", "<"]), st.sampled_from([1, 5.0, "a"])),
)


@given(lists=st.lists(st.lists(_UNEQUAL, min_size=1, max_size=5), min_size=2, max_size=6))
def test_what_covers_sets_that_lack_single_values_lacks_no_others(lists: list[list[Constraint]]) -> None:
    sets = [conjunction(each) for each in lists]
    for wide, narrow in product(sets, sets):
        check(wide, narrow)


@pytest.mark.parametrize("unite", UNITE.values(), ids=UNITE)
@given(data=st.data())
def test_what_covers_has_the_features(unite, data: st.DataObject) -> None:
    constraints = constraints_on("x")
    if unite is disjunction:
        constraints = constraints.filter(lambda each: each.operator is not Operator.ABSENT)
    pool = data.draw(st.lists(constraints, min_size=1, max_size=6))
    lists = data.draw(st.lists(st.lists(st.sampled_from(pool), min_size=1, max_size=4), min_size=2, max_size=6))
    sets = [unite(each) for each in lists]
    for wide, narrow in product(sets, sets):
        check(wide, narrow)


@pytest.mark.parametrize("unite", UNITE.values(), ids=UNITE)
@given(lists=st.lists(st.lists(string_constraints(), min_size=1, max_size=4), min_size=2, max_size=6))
def test_what_covers_strings_has_the_features(unite, lists: list[list[Constraint]]) -> None:
    sets = [unite(each) for each in lists]
    for wide, narrow in product(sets, sets):
        check(wide, narrow)


@pytest.mark.slow
@pytest.mark.parametrize("unite", UNITE.values(), ids=UNITE)
def test_all_pairs_of_two_constraints_over_awkward_words(unite) -> None:
    words = ["", "\0", "a", "a\0", "ab", "\U0010ffff"]
    constraints = [Constraint("x", operator, word) for operator in EVERY_STRING for word in words]
    lists = [[each] for each in constraints]
    lists += [[one, two] for at, one in enumerate(constraints) for two in constraints[at + 1 :]]
    sets = list(dict.fromkeys(map(unite, lists)))
    singles = list(dict.fromkeys(unite([each]) for each in constraints))
    covered = sum(check(wide, narrow) for wide, narrow in product(sets, singles))
    covered += sum(check(wide, narrow) for wide, narrow in product(singles, sets))
    assert covered > 3000
