"""Relations on strings against automata: exact outside the list of inexact cases, safe inside it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Advertisement, Constraint, Filter, Notification, Operator
from palio.model.exactness import INEXACT, InexactCase, inexact_cases
from tests.model.oracle import find_string, string_counterexample
from tests.model.strategies import (
    EVERY_STRING,
    STRING_ORDER,
    WORDS,
    string_advertisements,
    string_constraints,
    string_filters,
)

filters = string_filters()
ordered_filters = string_filters(operators=STRING_ORDER)
advertisements = string_advertisements()


@given(st.one_of(filters, ordered_filters), st.one_of(filters, ordered_filters))
def test_covers(wide: Filter, narrow: Filter) -> None:
    missing = string_counterexample(wide.constraints, narrow.constraints)
    if wide.covers(narrow):
        assert missing is None, f"{missing!r} matches {narrow} and not {wide}"
    elif not inexact_cases("Filter.covers", wide, narrow):
        assert missing is not None, f"{wide} does cover {narrow}"


@given(st.one_of(filters, ordered_filters))
def test_satisfiable(filter: Filter) -> None:
    found = find_string(filter.constraints)
    if not filter.is_satisfiable():
        assert found is None
    elif not inexact_cases("Filter.is_satisfiable", filter):
        assert found is not None


@given(st.one_of(filters, ordered_filters), WORDS)
def test_canonical(filter: Filter, word: str) -> None:
    canonical = filter.canonical()
    assert canonical == filter
    assert canonical.canonical().constraints == canonical.constraints
    if filter.is_satisfiable():
        assert string_counterexample(canonical.constraints, filter.constraints) is None
        assert string_counterexample(filter.constraints, canonical.constraints) is None
        assert canonical.matches(Notification(x=word)) is filter.matches(Notification(x=word))


@given(filters, filters)
def test_covering_both_ways_is_equality(left: Filter, right: Filter) -> None:
    assert (left == right) is (left.covers(right) and right.covers(left))


@given(st.one_of(filters, ordered_filters), st.one_of(filters, ordered_filters))
def test_merge_is_the_exact_union(left: Filter, right: Filter) -> None:
    merged = left.merge(right)
    if merged is None:
        return
    first, second = len(merged), len(merged) + len(left)

    def differs(holds: list[bool]) -> bool:
        either = all(holds[first:second]) or all(holds[second:])
        return all(holds[:first]) is not either

    assert find_string([*merged, *left, *right], differs) is None


@given(advertisements, advertisements)
def test_advertisement_covers(wide: Advertisement, narrow: Advertisement) -> None:
    split = len(wide)
    missing = find_string([*wide, *narrow], lambda holds: any(holds[split:]) and not any(holds[:split]))
    if wide.covers(narrow):
        assert missing is None, f"{missing!r} is announced by {narrow} and not by {wide}"
        assert (wide == narrow) is narrow.covers(wide)
    elif not inexact_cases("Advertisement.covers", wide, narrow):
        assert missing is not None, f"{wide} does cover {narrow}"


@given(advertisements, filters)
def test_relevant_to(advertisement: Advertisement, filter: Filter) -> None:
    split = len(advertisement)
    common = find_string([*advertisement, *filter], lambda holds: any(holds[:split]) and all(holds[split:]))
    if not advertisement.relevant_to(filter):
        assert common is None, f"{common!r} is announced by {advertisement} and matches {filter}"
    elif not inexact_cases("Advertisement.relevant_to", advertisement, filter):
        assert common is not None, f"{advertisement} is not relevant to {filter}"


@pytest.mark.parametrize("words", [["", "a", "b", "ab"], ["\0", "a", "a\0"], ["\1", "\0\0", "\U0010ffff"]])
def test_single_constraints_exhaustively(words: list[str]) -> None:
    """Every operator against every other, on words that begin, end and contain one another."""
    singles = [Filter([Constraint("x", operator, word)]) for operator in EVERY_STRING for word in words]
    for wide, narrow in itertools.product(singles, repeat=2):
        covered = string_counterexample(wide.constraints, narrow.constraints) is None
        if wide.covers(narrow) is not covered:
            assert not wide.covers(narrow)
            assert inexact_cases("Filter.covers", wide, narrow), f"{wide} / {narrow}"


@pytest.mark.parametrize("words", [["a", "b", "ab"], ["\0", "\0a", "a"], ["\0\0", "\1", "\U0010ffff"]])
def test_canonical_form_of_every_pair(words: list[str]) -> None:
    pool = [Constraint("x", operator, word) for operator in EVERY_STRING for word in words]
    for pair in itertools.combinations(pool, 2):
        canonical = Filter(pair).canonical()
        if Filter(pair).is_satisfiable():
            assert string_counterexample(canonical.constraints, pair) is None, f"{canonical} misses of {Filter(pair)}"
            assert string_counterexample(pair, canonical.constraints) is None, f"{canonical} exceeds {Filter(pair)}"
        else:
            assert find_string(pair) is None


@given(st.lists(string_constraints(), min_size=1, max_size=3), st.data())
def test_inexact_cases_do_not_depend_on_order(constraints: list[Constraint], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(constraints))
    assert Filter(constraints) == Filter(shuffled)


# -- the list itself ---------------------------------------------------------------------------------------------------


def _sides(case: InexactCase) -> tuple[list[Constraint], list[Constraint]]:
    return [list(Advertisement.parse(text)) for text in case.example]  # type: ignore[return-value]


@pytest.mark.parametrize("case", INEXACT, ids=lambda case: f"{case.relation}: {case.because}")
def test_every_listed_case_is_real(case: InexactCase) -> None:
    """The example holds by the automata, Palio does not see it, and the list says so."""
    left, right = (list(Advertisement.parse(text)) for text in case.example)
    split = len(left)
    match case.relation:
        case "Filter.covers":
            assert string_counterexample(left, right) is None
            answer = Filter(left).covers(Filter(right))
        case "Filter.is_satisfiable":
            assert find_string(left) is None
            answer = not Filter(left).is_satisfiable()
        case "Filter.merge":
            union = [Constraint("x", Operator.SUFFIX, "b")]
            for side in (left, right):
                assert string_counterexample(union, side) is None
            assert (
                find_string(
                    [*union, *left, *right],
                    lambda holds: holds[0] and not all(holds[1 : 1 + split]) and not all(holds[1 + split :]),
                )
                is None
            )
            answer = Filter(left).merge(Filter(right)) is not None
        case "Advertisement.covers":
            assert find_string([*left, *right], lambda holds: any(holds[split:]) and not any(holds[:split])) is None
            answer = Advertisement(left).covers(Advertisement(right))
        case "Advertisement.relevant_to":
            assert find_string([*left, *right], lambda holds: any(holds[:split]) and all(holds[split:])) is None
            answer = not Advertisement(left).relevant_to(Filter(right))
        case other:
            pytest.fail(f"no check for {other}")
    assert not answer
    sides = (
        (Filter(left), Filter(right)) if case.relation.startswith("Filter") else (Advertisement(left), Filter(right))
    )
    assert case in inexact_cases(case.relation, *sides)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ('x *< "b"', 'x *< "ab"'),
        ('x * "b"', 'x >* "abc"'),
        ('x * "b"', 'x >= "ab" and x < "ac"'),
        ('x * "b"', 'x *< "abc"'),
        ('x * "b"', 'x * "abc"'),
        ('x !*< "ab"', 'x !*< "b"'),
        ('x !*< "ab"', 'x !* "a"'),
        ('x !*< "a"', 'x *< "b"'),
        ('x !* "ab"', 'x !* "b"'),
        ('x != "zz"', 'x *< "b"'),
        ('x != "zz"', 'x * "b"'),
        ('x != "zbz"', 'x !* "b"'),
        ('x * "b" and x *< "c"', 'x = "abc"'),
        ('x >* "ab"', 'x >= "ab" and x < "ac" and x != "abz"'),
        ('x *< "d" and x != "q"', 'x *< "cd"'),
        ("string x any", 'x !* "b" and x *< "c"'),
    ],
)
def test_coverings_that_people_expect(wide: str, narrow: str) -> None:
    assert Filter.parse(wide).covers(Filter.parse(narrow))
    assert not Filter.parse(narrow).covers(Filter.parse(wide))


@pytest.mark.parametrize(
    "text",
    [
        'x *< "ab" and x *< "cb"',
        'x *< "ab" and x !*< "b"',
        'x *< "ab" and x !* "b"',
        'x * "abc" and x !* "b"',
        'x >* "abc" and x !* "b"',
        'x = "abc" and x !* "b"',
        'x >* "a" and x < "a"',
        'x >* "a" and x !>* "a"',
        'x !* ""',
        'x < ""',
    ],
)
def test_contradictions_that_people_expect_to_be_seen(text: str) -> None:
    assert not Filter.parse(text).is_satisfiable()
    assert Filter.parse(text) == Filter.parse("false")


def test_canonical_form_does_not_spell_what_the_atoms_exclude() -> None:
    text = 'x *< "q" and x !>* "a' + "\\u0000" * 500 + '"'
    canonical = Filter.parse(text).canonical()
    assert len(canonical) == 2
    assert canonical == Filter.parse(text)


def test_order_of_strings_is_exact() -> None:
    assert Filter.parse('x >= "ab" and x < "ac"') == Filter.parse('x >* "ab"')
    assert Filter.parse(r'x > "a" and x < "a\u0000\u0000"') == Filter.parse(r'x = "a\u0000"')
    assert Filter.parse('x >= "" and x != ""') == Filter.parse('x > ""')
    assert Filter.parse('x >* ""') == Filter.parse("string x any")
    assert Filter.parse('x >* "\ud7ff"') == Filter.parse('x >= "\ud7ff" and x < "\ue000"')
    assert Filter.parse(r'x < "\u0000x" and x * "\u0000"') == Filter.parse(r'x >= "\u0000" and x < "\u0000x"')
    assert Filter.parse('x >* "\U0010ffff"') == Filter.parse('x >= "\U0010ffff"')


def test_merging_strings() -> None:
    merge = lambda left, right: Filter.parse(left).merge(Filter.parse(right))  # noqa: E731
    assert merge('x *< "b" and x != "ab"', 'x = "ab"') == Filter.parse('x *< "b"')
    assert merge('x * "a" and x *< "b"', 'x !* "a" and x *< "b"') == Filter.parse('x *< "b"')
    assert merge('x *< "b"', 'x !*< "b"') == Filter.parse("string x any")
    assert merge('x < "b"', 'x >= "c"') == Filter.parse('x !>* "b"')
    assert merge('x >* "a"', 'x >* "b"') == Filter.parse('x >= "a" and x < "c"')
    assert merge('x = "a"', 'x = "b"') is None
    assert merge('x = "a"', "x absent") is None
    assert merge("x any", "x absent") == Filter()
