"""Filters that nothing divides: decided together by what they exclude, and each on its own where that does not do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import cycle, islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Constraint, Filter, Notification
from palio.matching import FilterIndex
from palio.model.value import Value
from tests.matching.strategies import examples
from tests.matching.test_division import looked_at_per_event
from tests.matching.twins import Twins

NAMES = ("a", "b", "c")
START = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS: tuple[Value, ...] = (0, 1, 1.0, 0.5, 2**53, 2**53 + 1, float(2**53), -7, -7.5, -8, -99, 5e-324)
TEXTS: tuple[Value, ...] = ("", "x", "y", "long", "text", "a long text", "a longer text")
VALUES: tuple[Value, ...] = (*NUMBERS, *TEXTS, b"x", True, START)
BOUNDS = (-100, -99, -9.5, -8, -7, 0)


def constraint(name: str, kind: int, value: Value, bound: float, negation: str) -> Constraint:
    """One that excludes little: a value, absence, presence, or a few small numbers."""
    if kind == 0:
        return Constraint(name, "any")
    if kind == 1:
        return Constraint(name, ">=", bound)
    if kind == 2:
        return Constraint(name, "absent")
    return Constraint(name, negation if isinstance(value, str) else "!=", value)


CONSTRAINTS = st.builds(
    constraint,
    st.sampled_from(NAMES),
    st.integers(0, 6),
    st.sampled_from(VALUES),
    st.sampled_from(BOUNDS),
    st.sampled_from(["!=", "!*", "!>*", "!*<"]),
)
FILTERS = st.lists(st.lists(CONSTRAINTS, max_size=4).map(lambda found: Filter(tuple(found))), min_size=1, max_size=12)
EVENTS = st.lists(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES)).map(Notification), min_size=1, max_size=4
)


@examples(2)
@given(FILTERS, EVENTS, st.integers(30, 200), st.randoms(use_true_random=False))
def test_long_buckets_answer_as_the_model_does_while_filters_come_and_go(
    filters: list[Filter], events: list[Notification], count: int, random: Random
) -> None:
    twins = Twins(list(islice(cycle(filters), count)))
    for keep in (1.0, 0.6, 0.2):
        for _ in range(round(len(twins.ids) * (1 - keep))):
            twins.remove(random.randrange(len(twins.ids)))
        twins.check(events)
        for filter in random.choices(filters, k=count // 4):
            twins.add(filter)
        twins.check(events)


def undividable(i: int) -> Filter:
    return Filter((Constraint("a", "!=", i), Constraint("b", "!=", f"v{i}"), Constraint("c", ">=", i % 5)))


def test_an_event_looks_only_at_those_it_might_not_meet() -> None:
    index = FilterIndex(undividable(i) for i in range(10_000))
    events = [Notification(a=i, b=f"v{i + 1}", c=7) for i in range(100, 140)]
    assert all(len(index.match(event)) == 9_998 for event in events)
    assert looked_at_per_event(index, events) < 300


def test_that_stays_so_while_filters_are_replaced() -> None:
    index, random = FilterIndex(), Random(1)
    ids = [index.add(undividable(i)) for i in range(3_000)]
    for i in range(3_000, 12_000):
        place = random.randrange(len(ids))
        index.remove(ids[place])
        ids[place] = index.add(undividable(i))
    events = [Notification(a=i, b="none", c=7) for i in range(40)]
    assert looked_at_per_event(index, events) < 600  # some of each chunk are new, and tested until there are enough


@pytest.mark.parametrize("value", [5, 5.0, 2**53 + 1, float(2**53), 0.5, True, START])
def test_a_number_is_excluded_by_its_equals_alone(value: Value) -> None:
    literals = [value, *(v for v in VALUES if v.__class__ is value.__class__), *range(200)]
    filters = [Filter((Constraint("x", "!=", literal),)) for literal in literals]
    Twins(filters).check([Notification(x=each) for each in (value, *VALUES, 5, 5.0)])


def test_a_few_ranges_among_filters_that_exclude_little() -> None:
    """Too few to divide by, so they lie with the others, which a digest decides, and are tested."""
    filters = []
    for i in range(800):
        ends = [Constraint("x", ">=", i % 7), Constraint("x", "<=", 50 - i % 11)] if i % 25 == 0 else []
        filters.append(Filter([Constraint("x", "!=", i + 0.25), *ends]))
    twins = Twins(filters)
    divided = twins.index.stats().partitions
    assert not any(divided[way] for way in ("cell", "lower", "upper"))
    numbers = [-1, 0, 1, 3, 5.5, 6, 25, 40, 45.5, 50, 51]
    numbers += [end + sign * 2.0**-40 for end in (0, 1, 6, 40, 50) for sign in (-1, 1)]
    twins.check([*(Notification(x=number) for number in numbers), Notification(y=1), Notification(x="a")])


@pytest.mark.parametrize("names", [1, 61, 62, 63, 64, 100])
def test_more_names_than_a_digest_has_room_for(names: int) -> None:
    twins = Twins([Filter([Constraint("x", "!=", i), Constraint(f"n{i % names}", "absent")]) for i in range(300)])
    twins.check([Notification({"x": 5}), *(Notification({"x": 5, f"n{number}": 1}) for number in range(names))])


@pytest.mark.parametrize("length", [2, 3, 4, 5, 8])
def test_filters_that_say_more_than_an_entry_has_room_for(length: int) -> None:
    filters = [Filter([Constraint(f"n{place}", "!=", i) for place in range(length)]) for i in range(200)]
    usual: dict[str, Value] = {f"n{place}": -1 for place in range(length)}
    Twins(filters).check([Notification(usual | {name: 77}) for name in usual])


@pytest.mark.parametrize("literal", [float, lambda i: i + 0.5, lambda i: 2.0 ** (-1 - i % 900), str, lambda i: -i])
def test_no_kind_of_number_is_hard_to_tell_from_others(literal: Callable[[int], Value]) -> None:
    index = FilterIndex(Filter((Constraint("x", "!=", literal(i)),)) for i in range(5_000))
    events = [Notification(x=value) for value in (0.375, 3.25, -7, 12345678, "other", 2.0**-1000)]
    assert looked_at_per_event(index, events) < 300


def test_few_that_admit_other_types_do_not_make_all_others_suspect() -> None:
    literals: list[Value] = ["s" if i % 64 == 0 else i for i in range(6_400)]
    index = FilterIndex(Filter((Constraint("x", "!=", literal),)) for literal in literals)
    assert len(index.match(Notification(x=-1))) == 6_300
    assert looked_at_per_event(index, [Notification(x=-1 - i) for i in range(10)]) < 300


def test_what_is_left_when_the_undecidable_go_is_decided_together() -> None:
    index = FilterIndex()
    is_undecidable = [i % 64 < 40 for i in range(6_400)]  # because they say more than an entry has room for
    ids = [
        index.add(Filter([Constraint(name, "!=", f"t{i}") for name in ("abcx" if undecidable else "x")]))
        for i, undecidable in enumerate(is_undecidable)
    ]
    assert looked_at_per_event(index, [Notification(x=f"o{i}", a="", b="", c="") for i in range(10)]) > 3_000
    for id, undecidable in zip(ids, is_undecidable, strict=True):
        if undecidable:
            index.remove(id)
    assert len(index.match(Notification(x="other"))) == len(index) == 2_400
    assert looked_at_per_event(index, [Notification(x=f"o{i}") for i in range(10)]) < 600


@pytest.mark.parametrize("operator", ["!*", "!>*", "!*<"])
def test_parts_that_texts_must_not_have(operator: str) -> None:
    parts = ["", "a", "ab", "bc", "abc", "cab", "abcabc", "b", "zz", "abz", *(f"p{i}q" for i in range(200))]
    filters = [Filter((Constraint("x", operator, part),)) for part in parts]
    texts = ["", "a", "ab", "abc", "abcabc", "xabcx", "zabz", "p7q", "p7", "q7p", "ba"]
    Twins(filters).check([*(Notification(x=text) for text in texts), Notification(x=5), Notification(y="ab")])
