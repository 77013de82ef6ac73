"""Canonical forms: one wording, and so one encoding, for all filters, advertisements and patterns that are equal."""

from __future__ import annotations

from hashlib import sha256
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palio import Advertisement, Constraint, Filter, Operator, Pattern
from palio.codec import json, msgpack
from palio.model.conditions import FORM
from palio.model.sets.alternatives import express_union
from palio.model.sets.express import express
from palio.model.sets.plain import is_plain, is_plain_range
from tests.codec.documents import exact
from tests.model.strategies import (
    BYTES,
    FLOATS,
    INTEGERS,
    TIMES,
    any_constraints,
    numeric_constraints,
    ordered_constraints,
    string_constraints,
)
from tests.model.test_relations import announced_values, selected

Document = Filter | Advertisement | Pattern


def _announced(constraints: st.SearchStrategy[Constraint]) -> st.SearchStrategy[Constraint]:
    return constraints.filter(lambda constraint: constraint.operator is not Operator.ABSENT)


def _pools() -> list[st.SearchStrategy[Constraint]]:
    return [
        ordered_constraints(),
        numeric_constraints(),
        string_constraints(),
        st.one_of(ordered_constraints(), ordered_constraints("y"), string_constraints(), string_constraints(name="y")),
        any_constraints(),
    ]


filters = st.one_of(*(st.lists(each, max_size=5).map(Filter) for each in _pools()))
advertisements = st.one_of(*(st.lists(_announced(each), max_size=6).map(Advertisement) for each in _pools()))
patterns = st.lists(filters, min_size=1, max_size=3).map(Pattern)
documents: st.SearchStrategy[Document] = st.one_of(filters, advertisements, patterns)


@st.composite
def _related(draw: st.DrawFn) -> tuple[Advertisement, Advertisement]:
    """Two advertisements from few constraints, so that equal ones are common."""
    pool = draw(st.lists(_announced(draw(st.sampled_from(_pools()))), min_size=1, max_size=5))
    left, right = (draw(st.lists(st.sampled_from(pool), max_size=6)) for _ in range(2))
    return Advertisement(left), Advertisement(right)


@given(documents)
def test_the_canonical_form_is_equal_and_stable(document: Document) -> None:
    canonical = document.canonical()
    assert canonical == document
    assert hash(canonical) == hash(document)
    assert canonical.canonical() is canonical
    again = msgpack.decode(type(document), msgpack.encode(canonical))
    assert exact(again.canonical()) == exact(canonical)
    assert again.canonical() is again


@given(documents)
def test_the_canonical_form_survives_both_codecs_and_text(document: Document) -> None:
    canonical = document.canonical()
    for codec in (json, msgpack):
        assert exact(codec.decode(type(document), codec.encode(canonical))) == exact(canonical)
    text = str(canonical)
    if text:
        assert msgpack.encode(type(document).parse(text).canonical()) == msgpack.encode(canonical)


@given(_related())
def test_advertisements_are_equal_exactly_if_their_canonical_bytes_are(
    pair: tuple[Advertisement, Advertisement],
) -> None:
    left, right = (msgpack.encode(each.canonical()) for each in pair)
    assert (left == right) is (pair[0] == pair[1])


@given(filters, st.randoms(use_true_random=False))
def test_filters_in_another_order_have_the_same_bytes(filter: Filter, random: object) -> None:
    constraints = list(filter.constraints)
    random.shuffle(constraints)  # type: ignore[attr-defined]
    other = Filter([*constraints, *constraints[:1]])
    assert msgpack.encode(other.canonical()) == msgpack.encode(filter.canonical())


@given(advertisements)
@example(Advertisement.parse('x !>* "a\\u0000" and x !* "b"'))
@example(Advertisement.parse('x !>* "a" and x = "ab"'))
def test_the_canonical_form_of_an_advertisement_announces_the_same_with_no_more_constraints(
    advertisement: Advertisement,
) -> None:
    canonical = advertisement.canonical()
    assert announced_values(canonical) == announced_values(advertisement)
    assert len(canonical) <= len(advertisement)


@given(filters)
def test_the_canonical_form_of_a_filter_selects_the_same_with_few_more_constraints(filter: Filter) -> None:
    canonical = filter.canonical()
    assert selected(canonical) == selected(filter)
    # With an atom a string may have one bound more; and two constraints say what nothing can match.
    assert len(canonical) <= max(len(filter) + len(filter.names), 2)


@given(st.lists(string_constraints(), min_size=1, max_size=6).map(Advertisement), st.text("ab\0\1", max_size=4))
def test_the_canonical_form_announces_the_same_strings(advertisement: Advertisement, text: str) -> None:
    def announces(each: Advertisement) -> bool:
        return any(constraint.matches_value(text) for constraint in each)

    assert announces(advertisement.canonical()) is announces(advertisement)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("y any; x any", "x any and y any"),
        ("x = 5.0", "x = 5"),
        ("x > 3 and x > 5 and x = 3", "x >= 3"),
        ("integer x = 1 and integer x = 2 and integer x < 1", "integer x <= 2"),
        ("integer x > 3.5 and float x > 3.5", "x > 3.5"),
        ("integer x = 3 and float x > 3 and integer x > 3", "integer x >= 3 and float x > 3"),
        ("x < 3 and x > 3", "x != 3"),
        ("integer x != 2.5 and float x != 2.5", "x != 2.5"),
        ("integer x any and float x any", "number x any"),
        ("boolean x any; number x any; string x any; time x any; bytes x any", "x any"),
        ("x = true; x = false", "boolean x any"),
        ("x != true", "x = false"),
        ('x >* "b" and x >* "a" and x >* "ab" and x = "c"', 'x >* "a" and x >* "b" and x = "c"'),
        ('x < "a" and x >= "b"', 'x !>* "a"'),
        ('x *< "c" and x *< "bc" and x = "abc" and x = "a"', 'x = "a" and x *< "c"'),
        ("integer x = 2.5; y = 1", "y = 1"),
    ],
)
def test_canonical_texts_of_advertisements(text: str, canonical: str) -> None:
    assert str(Advertisement.parse(text).canonical()) == canonical


def test_a_literal_of_another_class_is_another_wording() -> None:
    for cls in (Filter, Advertisement):
        given = cls([Constraint("x", "=", 5.0)])
        assert msgpack.encode(given.canonical()) == msgpack.encode(cls([Constraint("x", "=", 5)]))


def test_a_canonical_form_is_found_once() -> None:
    for each in (Filter.parse("y any and x > 3"), Advertisement.parse("y any and x > 3")):
        assert each.canonical() is each.canonical()
        assert each.canonical().value_sets() is each.value_sets()


@given(st.one_of(filters, st.lists(numeric_constraints(), min_size=1, max_size=2).map(Filter)))
def test_what_is_seen_at_once_to_be_canonical_is(filter: Filter) -> None:
    if filter._is_plain():
        sets = filter.value_sets()
        spoken = [each for name, allowed in sets.items() for each in express(name, allowed, 99) or [None]]
        assert filter.is_satisfiable()
        assert exact(Filter(spoken)) == exact(filter)  # type: ignore[arg-type]


@given(st.one_of(any_constraints(), ordered_constraints(), numeric_constraints(), string_constraints()))
def test_a_plain_constraint_is_canonical_in_filters_and_advertisements(constraint: Constraint) -> None:
    if is_plain(constraint):
        (allowed,) = Filter([constraint]).value_sets().values()
        assert exact(Filter(express(constraint.name, allowed, 99) or ())) == exact(Filter([constraint]))
        if constraint.operator is not Operator.ABSENT:
            offered = Advertisement([constraint])
            assert exact(Advertisement(express_union(constraint.name, allowed))) == exact(offered)


@given(st.integers(-40, 40), st.integers(-40, 40), st.sampled_from([">", ">="]), st.sampled_from(["<", "<="]))
def test_plain_ranges_are_canonical(low: int, high: int, lower: str, upper: str) -> None:
    bounds = [Constraint("x", lower, low), Constraint("x", upper, high)]
    if is_plain_range(bounds):
        (allowed,) = Filter(bounds).value_sets().values()
        assert exact(Filter(express("x", allowed, 99) or ())) == exact(Filter(bounds))
    assert is_plain_range(bounds) is (low + 2 <= high)


def test_the_form_has_another_version_if_canonical_forms_change() -> None:
    """If this fails, stores have keys that no server would write: raise ``FORM``, and then change the digest."""
    literals = [*INTEGERS, *FLOATS, *TIMES, *BYTES, True, False, "", "a", "ab", "b", "a\0", "\U0010ffff"]
    pool = [
        Constraint(name, operator, literal)
        for name in "xy"
        for literal in literals
        for operator in Operator
        if operator.takes_value and (isinstance(literal, str) or not operator.strings_only)
    ]
    pool += [Constraint("x", ">", number, type) for number in INTEGERS for type in ("integer", "float")]
    draw, digest = Random(7), sha256()
    for _ in range(2_000):
        constraints = draw.sample(pool, draw.randrange(1, 5))
        digest.update(msgpack.encode(Filter(constraints).canonical()))
        digest.update(msgpack.encode(Advertisement(constraints).canonical()))
    assert (FORM, digest.hexdigest()[:16]) == (1, "fb0fb698954e9628")
