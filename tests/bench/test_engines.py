"""The engines that the index is measured against give the right answers: the model says which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Constraint, Filter, Notification
from palio.bench._baselines import Counting, Linear, PairHash
from palio.bench.workloads import WORKLOADS
from tests.model.strategies import (
    EVERY_VALUE,
    VALUES,
    WORDS,
    any_constraints,
    ordered_constraints,
    string_constraints,
)

GENERAL = [Linear, Counting]
NAMES = ["x", "y", "z"]


def by_model(filters: list[Filter], events: list[Notification]) -> list[list[int]]:
    return [[id for id, each in enumerate(filters) if each.matches(event)] for event in events]


def found(engine: Linear | Counting | PairHash, filters: list[Filter], events: list[Notification]) -> list[list[int]]:
    engine.add(filters)
    engine.prepare(events)
    pairs = engine.match_all()
    results = engine.results()
    assert pairs == sum(map(len, results))
    return results


CONSTRAINTS = st.one_of([of(name=name) for name in NAMES for of in (ordered_constraints, string_constraints)])
FILTERS = st.lists(st.lists(CONSTRAINTS, max_size=3).map(Filter), max_size=12)
EVENTS = st.dictionaries(  # few names, and the values at which the constraints' answers change
    st.sampled_from(NAMES), st.one_of(st.sampled_from([value for value in EVERY_VALUE if value is not None]), WORDS)
).map(Notification)


@given(filters=FILTERS, events=st.lists(EVENTS, min_size=1, max_size=6))
def test_general_engines_agree_with_the_model(filters: list[Filter], events: list[Notification]) -> None:
    expected = by_model(filters, events)
    for engine in GENERAL:
        assert found(engine(), filters, events) == expected


@given(data=st.data())
def test_general_engines_agree_on_anything_at_all(data: st.DataObject) -> None:
    filters = data.draw(st.lists(st.lists(any_constraints(), min_size=1, max_size=3).map(Filter), max_size=6))
    literals = [c.value for each in filters for c in each if c.value is not None]
    names = sorted({name for each in filters for name in each.names}) or ["x"]
    values = st.one_of(VALUES, st.sampled_from(literals)) if literals else VALUES
    events = data.draw(st.lists(st.dictionaries(st.sampled_from(names), values).map(Notification), max_size=4))
    expected = by_model(filters, events)
    for engine in GENERAL:
        assert found(engine(), filters, events) == expected


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("name", WORKLOADS)
def test_general_engines_agree_on_every_workload(engine: type[Linear | Counting], name: str) -> None:
    filters, events = WORKLOADS[name].filters(400), WORKLOADS[name].events(40, size=400)
    assert found(engine(), filters, events) == by_model(filters, events)


@pytest.mark.parametrize("name", ["W1", "W1e"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_pair_hash_agrees_on_w1(name: str, seed: int) -> None:
    filters, events = WORKLOADS[name].filters(3000, seed=seed), WORKLOADS[name].events(200, size=3000, seed=seed)
    expected = by_model(filters, events)
    assert any(expected)
    assert found(PairHash(), filters, events) == expected


def test_the_pair_hash_sorts_many_matches() -> None:
    """More than are ranked by comparing each with each, and filters of one key beside those of others."""
    text = "s{} = 'a' and s{} = '{}' and n{} >= 10 and n{} <= 20"
    filters = [
        Filter.parse(text.format(i, j, "ab"[k % 2], k % 3, k % 3))
        for k in range(60)
        for i in range(4)
        for j in range(i)
    ]
    events = [Notification(s0="a", s1="a", s2=s2, s3="a", n0=n0, n1=20, n2=21) for s2 in "abc" for n0 in (9, 10, 20)]
    events += [Notification(s0="a", s1="a", n1=15), Notification(s0=1, s1="a", n1="15"), Notification(n1=15)]
    expected = by_model(filters, events)
    assert max(map(len, expected)) > 100
    assert found(PairHash(), filters, events) == expected
    assert found(Linear(), filters, events) == expected


@pytest.mark.parametrize(
    "text",
    [
        "s0 = 'a' and n0 >= 1 and n0 <= 2",
        "s0 = 'a' and s1 = 'b'",
        "s0 = 'a' and s1 = 'b' and s2 = 'c' and n0 >= 1 and n0 <= 2",
        "s0 = 'a' and s1 != 'b' and n0 >= 1 and n0 <= 2",
        "s0 = 'a' and s0 = 'b' and n0 >= 1 and n0 <= 2",
        "s0 = 'a' and s1 = 'b' and n0 >= 1.5 and n0 <= 2",
        "s0 = 'a' and s1 = 'b' and n0 >= 1",
        "s0 = 'a' and s1 = 'b' and integer n0 >= 1 and integer n0 <= 2",
        "s0 = 'a' and s1 = 'b' and n0 >= 1 and n0 <= 40000",
        "true",
    ],
)
def test_the_pair_hash_refuses_other_filters(text: str) -> None:
    with pytest.raises(ValueError, match="workload W1"):
        PairHash().add([Filter.parse(text)])


def test_the_pair_hash_refuses_other_events() -> None:
    engine = PairHash()
    engine.add([Filter.parse("s0 = 'a' and s1 = 'b' and n0 >= 1 and n0 <= 2")])
    with pytest.raises(ValueError, match="workload W1"):
        engine.prepare([Notification(n0=1.5)])


@pytest.mark.parametrize("engine", GENERAL)
def test_filters_with_very_many_constraints(engine: type[Linear | Counting]) -> None:
    wide = [Filter([Constraint(f"a{i}", "!=", 0) for i in range(count)]) for count in (254, 255, 256, 300)]
    events = [Notification({f"a{i}": 1 for i in range(count)}) for count in (253, 254, 255, 256, 300)]
    assert found(engine(), wide, events) == by_model(wide, events)


def test_counters_outlive_their_stamps() -> None:
    """More events than a stamp has values: what was counted for the first must not count for its namesake."""
    engine = Counting()
    engine.add([Filter.parse("a = 1 and b = 1"), Filter.parse("a = 1 and c = 1")])
    engine.prepare([Notification(a=1), *[Notification()] * 65_534, Notification(c=1), Notification(a=1, b=1)])
    for _ in range(3):
        assert engine.match_all() == 1
        assert engine.results()[-1] == [0]


@pytest.mark.parametrize("engine", [*GENERAL, PairHash])
def test_part_of_the_events(engine: type[Linear | Counting | PairHash]) -> None:
    filters, events = WORKLOADS["W1"].filters(5000), WORKLOADS["W1"].events(70, size=5000)
    expected = by_model(filters, events)
    measured = engine()
    assert (measured.match_all(), measured.results()) == (0, [])
    measured.add(filters[:10])
    measured.add(filters[10:])
    assert len(measured) == 5000
    assert measured.memory_usage() > 5000
    measured.prepare(events)
    measured.match_all(3, 60)
    assert measured.results() == expected[3:60]
    assert measured.write_out() == sum(map(len, expected[3:60]))
    assert [measured.write_list(i) for i in range(57)] == expected[3:60]
    with pytest.raises(IndexError):
        measured.write_list(57)
    measured.match_all(60, 1000)
    assert measured.results() == expected[60:]
    assert measured.match_all(100) == 0


@pytest.mark.parametrize("engine", [*GENERAL, PairHash])
def test_other_objects_are_refused(engine: type[Linear | Counting | PairHash]) -> None:
    with pytest.raises(TypeError, match="filters"):
        engine().add(["a = 1"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="notifications"):
        engine().prepare([{"a": 1}])  # type: ignore[list-item]
