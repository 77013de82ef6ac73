"""The relations against brute force, over saturated domains of every type but string (see test_strings.py)."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Advertisement, Constraint, Filter, Notification, Operator
from palio.model.value import MAX_INTEGER, Value
from tests.model.strategies import (
    DOMAINS,
    EVERY_VALUE,
    FLOATS,
    INTEGERS,
    ORDER,
    numeric_constraints,
    ordered_constraints,
)

constraints = ordered_constraints()
filters = st.lists(constraints, max_size=5).map(Filter)
numeric_filters = st.lists(numeric_constraints(), min_size=1, max_size=6).map(Filter)
announced = constraints.filter(lambda constraint: constraint.operator is not Operator.ABSENT)
advertisements = st.lists(announced, max_size=5).map(Advertisement)

VALUES = [*EVERY_VALUE, "b", "a\0"]


def selected(filter: Filter, values: Iterable[Value | None] = VALUES) -> set[int]:
    """The places of the values that the filter's constraints all admit; absence is a value like the others."""
    return {
        place for place, value in enumerate(values) if all(constraint.matches_value(value) for constraint in filter)
    }


def announced_values(advertisement: Advertisement) -> set[int]:
    """Absence is always announced; a value when one of the constraints admits it."""
    return {
        place
        for place, value in enumerate(VALUES)
        if value is None or any(constraint.matches_value(value) for constraint in advertisement)
    }


@given(filters, st.sampled_from(VALUES))
def test_matches_is_all_constraints(filter: Filter, value: Value | None) -> None:
    notification = Notification() if value is None else Notification(x=value)
    assert filter.matches(notification) is all(constraint.matches_value(value) for constraint in filter)
    assert filter.explain(notification).matches is filter.matches(notification)


@given(st.one_of(filters, numeric_filters), st.one_of(filters, numeric_filters))
def test_covers_is_inclusion(wide: Filter, narrow: Filter) -> None:
    assert wide.covers(narrow) is (selected(wide) >= selected(narrow))


@given(st.one_of(filters, numeric_filters))
def test_satisfiable_is_not_empty(filter: Filter) -> None:
    assert filter.is_satisfiable() is bool(selected(filter))


@given(st.one_of(filters, numeric_filters), st.one_of(filters, numeric_filters))
def test_equal_filters_are_those_that_select_the_same(left: Filter, right: Filter) -> None:
    same = selected(left) == selected(right)
    assert (left == right) is same
    if same:
        assert hash(left) == hash(right)
        assert str(left.canonical()) == str(right.canonical())


@given(st.one_of(filters, numeric_filters))
def test_canonical_form_says_the_same_and_is_stable(filter: Filter) -> None:
    canonical = filter.canonical()
    assert canonical == filter
    assert canonical.canonical().constraints == canonical.constraints
    assert selected(canonical) == selected(filter)
    if filter.is_satisfiable():
        assert len(canonical) <= len(filter)


@given(st.one_of(filters, numeric_filters), st.one_of(filters, numeric_filters))
def test_merge_is_the_exact_union(left: Filter, right: Filter) -> None:
    merged = left.merge(right)
    if merged is not None:
        assert selected(merged) == selected(left) | selected(right)
    assert (merged is None) is (right.merge(left) is None)


def speakable_sets() -> set[frozenset[int]]:
    """Every set of small integers that some filter selects: an interval without some points."""
    pool = [Constraint("x", operator, n, "integer") for operator in Operator if operator.takes_value
            and not operator.strings_only for n in range(5)]  # fmt: skip
    found: set[frozenset[int]] = {frozenset(range(-1, 6))}
    for constraint in pool:
        found |= {known & frozenset(n for n in range(-1, 6) if constraint.matches_value(n)) for known in found}
    return found


def test_merge_finds_every_union_that_one_filter_can_say() -> None:
    speakable = speakable_sets()
    pairs = [Filter([Constraint("x", op, n, "integer")]) for op in ("=", "!=", "<", ">=") for n in range(5)]
    for left in pairs:
        for right in pairs:
            union = frozenset(
                n for n in range(-1, 6) if left.matches(Notification(x=n)) or right.matches(Notification(x=n))
            )
            assert (left.merge(right) is not None) is (union in speakable), f"{left} or {right}"


@given(advertisements, st.integers(0, len(VALUES) - 1))
def test_announces(advertisement: Advertisement, place: int) -> None:
    value = VALUES[place]
    notification = Notification() if value is None else Notification(x=value)
    assert advertisement.announces(notification) is (place in announced_values(advertisement))
    assert not advertisement.announces(Notification(dict(notification), other=1))


@given(advertisements, advertisements)
def test_advertisement_covers_is_inclusion(wide: Advertisement, narrow: Advertisement) -> None:
    included = announced_values(wide) >= announced_values(narrow)
    assert wide.covers(narrow) is included
    assert (wide == narrow) is (announced_values(wide) == announced_values(narrow))


@given(advertisements, st.one_of(filters, numeric_filters))
def test_relevance_is_a_common_notification(advertisement: Advertisement, filter: Filter) -> None:
    assert advertisement.relevant_to(filter) is bool(announced_values(advertisement) & selected(filter))


two_names = st.lists(st.one_of(numeric_constraints("x"), ordered_constraints("y")), max_size=4).map(Filter)
FEW: list[Value | None] = [None, "", True, -1, 0, 1, 2, 3, 0.25, 0.5, 1.0, 2.5, b"", b"a", MAX_INTEGER]


@given(two_names, two_names)
def test_two_names_are_independent(left: Filter, right: Filter) -> None:
    def boxes(filter: Filter) -> set[tuple[int, int]]:
        rows = {name: [c for c in filter if c.name == name] for name in ("x", "y")}
        xs, ys = selected(Filter(rows["x"])), selected(Filter(rows["y"]))
        return {(x, y) for x in xs for y in ys}

    assert left.covers(right) is (boxes(left) >= boxes(right))
    merged = left.merge(right)
    if merged is not None:
        assert boxes(merged) == boxes(left) | boxes(right)


@given(two_names, st.sampled_from(FEW), st.sampled_from(FEW))
def test_covering_filters_match_what_the_covered_match(filter: Filter, x: Value | None, y: Value | None) -> None:
    notification = Notification({name: value for name, value in (("x", x), ("y", y)) if value is not None})
    if filter.matches(notification):
        for wider in (Filter(filter.constraints[1:]), Filter(filter.constraints[:-1])):
            assert wider.covers(filter)
            assert wider.matches(notification)


# -- where the type systems of number and Python would mislead ---------------------------------------------------------


def test_integers_and_floats_are_discrete() -> None:
    assert Filter.parse("integer x > 3; integer x < 5").covers(Filter.parse("integer x = 4"))
    assert Filter.parse("integer x > 3; integer x < 5") == Filter.parse("integer x = 4")
    assert not Filter.parse("integer x > 3; integer x < 4").is_satisfiable()
    assert Filter.parse("float x > 3; float x < 4").is_satisfiable()
    assert Filter.parse("x > 3 and x < 5") != Filter.parse("x = 4")
    assert Filter.parse("float x > 1") == Filter.parse("float x >= 1.0000000000000002")
    assert not Filter.parse("float x = 9007199254740993").is_satisfiable()
    assert Filter.parse("x = 9007199254740993") == Filter.parse("integer x = 9007199254740993")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("x = 5.0", "x = 5"),
        ("x > 3", "x > 3"),
        ("float x > 0.1", "float x > 0.1"),
        ("float x <= 0.1", "float x <= 0.1"),
        ("x >= 9007199254740993", "x >= 9007199254740993"),
        ("x < 9007199254740993", "x <= 9007199254740992"),
        (
            "x > 3 and x != 7 and x != 9007199254740993 and x != 3.5",
            "x > 3 and x != 3.5 and x != 7 and x != 9007199254740993",
        ),
        ("x > -1e300 and x < 1e300", "x > -1e+300 and x < 1e+300"),
        ("x >= 9223372036854775807", "x >= 9223372036854775807"),
        ("integer x >= 9223372036854775807", "integer x = 9223372036854775807"),
        ("x != 9223372036854775807", "x != 9223372036854775807"),
        ("x != -9223372036854775808", "x != -9223372036854775808"),
        ("x != 1.7976931348623157e308", "x <= 1.7976931348623155e+308"),
        ("x <= 9223372036854775807", "x <= 9223372036854775807"),
        ("x >= -9223372036854775808", "x >= -9223372036854775808"),
        ("x >= 9007199254740993 and x != 9007199254740994", "x >= 9007199254740993 and x != 9007199254740994"),
        ("x > 18014398509481984 and x != 18014398509481988", "x >= 18014398509481985 and x != 18014398509481988"),
        ("x > -9223372036854775808 and x != -9.223372036854775e+18", None),
        ("x < 9.223372036854776e+18 and x != 9.223372036854775e+18", None),
        ("x > 4611686018427387904 and x != 4611686018427388928", None),
        ("boolean x >= true", "x = true"),
        ("boolean x any", "boolean x any"),
        ("x > 2.5 and x < 2.6", "float x > 2.5 and float x < 2.6"),
    ],
)
def test_canonical_text_of_numbers(text: str, canonical: str | None) -> None:
    filter = Filter.parse(text)
    assert filter.canonical() == filter
    assert str(filter.canonical()) == canonical or canonical is None


def test_every_numeric_constraint_and_many_pairs_have_a_canonical_text() -> None:
    pool = [
        Constraint("x", operator, literal, type)
        for operator in ORDER
        for literal in [*INTEGERS, *FLOATS]
        for type in (None, "integer", "float")
    ]
    draw = random.Random(3)
    for constraints in [*([one] for one in pool), *(draw.sample(pool, 2) for _ in range(3000))]:
        filter = Filter(constraints)
        canonical = filter.canonical()
        assert canonical == filter
        assert canonical.canonical().constraints == canonical.constraints
        assert Filter.parse(str(canonical)) == filter


def test_merging_where_floats_are_sparse() -> None:
    merged = Filter.parse("x > 9007199254740994").merge(Filter.parse("x > 9007199254740992 and x < 9007199254740994"))
    assert merged == Filter.parse("x > 9007199254740992 and x != 9007199254740994")


def test_merging_far_apart_stops_at_the_limit() -> None:
    assert Filter.parse("x < 1").merge(Filter.parse("x > 2")) is None
    assert Filter.parse("integer x < 1").merge(Filter.parse("integer x > 900")) is None
    assert Filter.parse("integer x = 1").merge(Filter.parse("integer x = 9"), most=8) is None
    merged = Filter.parse("integer x = 1").merge(Filter.parse("integer x = 9"), most=9)
    assert merged is not None
    assert len(merged) == 9


def test_integer_and_float_compare_by_exact_value() -> None:
    above = Filter.parse(f"x > {float(2**53)!r}")
    assert above.matches(Notification(x=2**53 + 1))
    assert not above.matches(Notification(x=float(2**53)))
    assert not Filter.parse(f"x = {2**53 + 1}").matches(Notification(x=float(2**53)))
    assert Filter.parse("x = 5").matches(Notification(x=5.0))
    assert Filter.parse(f"integer x = {2**53 + 1}").covers(Filter.parse(f"integer x > {2**53} and x < {2**53 + 2}"))
    assert not Filter.parse(f"x >= {2**53 + 1}").covers(Filter.parse(f"x >= {float(2**53)!r}"))
    assert Filter.parse("integer x >= 9.3e18").is_satisfiable() is False
    assert Filter.parse("integer x > 3.5") == Filter.parse("integer x >= 4")


def test_booleans_are_no_integers() -> None:
    assert not Filter.parse("x = 1").matches(Notification(x=True))
    assert not Filter.parse("x = true").matches(Notification(x=1))
    assert Filter.parse("x > false") == Filter.parse("x = true")
    assert not Filter.parse("x < false").is_satisfiable()


def test_ends_of_the_domains() -> None:
    assert Filter.parse(f"integer x >= {-(2**63)}") == Filter.parse("integer x any")
    assert not Filter.parse(f"integer x > {2**63 - 1}").is_satisfiable()
    assert Filter.parse('x >= b""') == Filter.parse("bytes x any")
    assert Filter.parse('x > b"a"') == Filter.parse(r'x >= b"a\x00"')
    low, high = DOMAINS["time"][0], DOMAINS["time"][-1]
    assert Filter([Constraint("x", ">=", low)]) == Filter([Constraint("x", "<=", high)]) == Filter.parse("time x any")
    assert not Filter([Constraint("x", ">", high)]).is_satisfiable()


def test_contradictions_are_one_filter_that_everything_covers() -> None:
    contradiction = Filter.parse('x = 1 and x = "a"')
    assert contradiction == Filter.parse("x absent and x any") == Filter.parse("false")
    assert str(contradiction.canonical()) == "never absent and never any"
    assert Filter.parse("y = 3").covers(contradiction)
    assert not contradiction.covers(Filter.parse("y = 3"))
    assert not Advertisement.parse("x any; y any; never any").relevant_to(contradiction)
