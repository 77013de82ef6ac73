"""The workloads are what their description says."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest

from palio import Filter, Notification, Operator, codec
from palio.bench._baselines import Linear
from palio.bench.workloads import WORKLOADS, encode, record_batch

HOSTILE = ["W5a", "W5b", "W5c"]


def matches_per_event(name: str, filters: int, events: int) -> float:
    engine = Linear()
    engine.add(WORKLOADS[name].filters(filters))
    engine.prepare(WORKLOADS[name].events(events, size=filters))
    return engine.match_all() / events


def wording(filters: list[Filter]) -> list[tuple[object, ...]]:
    return [each.constraints for each in filters]


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same(name: str) -> None:
    workload = WORKLOADS[name]
    assert wording(workload.filters(50)) == wording(workload.filters(50))
    assert workload.events(50) == workload.events(50)
    assert wording(workload.filters(50, seed=2)) != wording(workload.filters(50))
    assert workload.events(50, seed=2) != workload.events(50)


@pytest.mark.parametrize("name", WORKLOADS)
def test_more_is_more_of_the_same(name: str) -> None:
    """So that the larger index holds the filters of the smaller one, wherever these do not depend on the size."""
    workload = WORKLOADS[name]
    assert wording(workload.filters(20, size=500)) == wording(workload.filters(50, size=500))[:20]
    assert workload.events(20) == workload.events(50)[:20]


@pytest.mark.parametrize("name", WORKLOADS)
def test_constraints_are_shared(name: str) -> None:
    filters = WORKLOADS[name].filters(2000)
    equal, identical = {c for f in filters for c in f}, {id(c) for f in filters for c in f}
    assert len(equal) == len(identical)


@pytest.mark.parametrize("name", WORKLOADS)
def test_other_forms_say_the_same_as_the_events(name: str) -> None:
    events = WORKLOADS[name].events(60)
    assert [codec.msgpack.decode(Notification, body) for body in encode(events)] == events
    batch = record_batch(events)
    rows = [{key: value for key, value in row.items() if value is not None} for row in batch.to_pylist()]
    assert list(map(Notification, rows)) == events


def test_w1_is_as_the_issue_says() -> None:
    for event in WORKLOADS["W1"].events(200):
        assert set(event) == {"c0", "n0", "n1", "n2", "s0", "s1", "s2", "s3", "s4", "s5"}
        assert all(isinstance(event[f"n{k}"], int) and 0 <= event[f"n{k}"] <= 999 for k in range(3))
    seen: Counter[object] = Counter()
    for each in WORKLOADS["W1"].filters(3000):
        first, second, low, high = each.constraints
        assert first.name[0] == second.name[0] == "s"
        assert first.name != second.name
        assert first.operator is second.operator is Operator.EQ
        assert (low.name, low.operator, high.operator) == (high.name, Operator.GE, Operator.LE)
        assert isinstance(low.value, int)
        assert 0 <= low.value <= 800
        assert high.value == low.value + 199
        seen.update([first.name, low.name, ("value", first.value)])
    assert {"s0", "s1", "s2", "s3", "s4", "s5", "n0", "n1", "n2"} <= set(seen)
    assert sum(isinstance(key, tuple) for key in seen) == 100


@pytest.mark.parametrize("name", ["W1", "W3"])
def test_two_in_a_hundred_thousand_match(name: str) -> None:
    """20,000 filters on 1,000 events: 400 matches expected, give or take 5 standard deviations."""
    expected = 1000 * 20_000 * 2e-5
    assert abs(matches_per_event(name, 20_000, 1000) * 1000 - expected) < 5 * math.sqrt(expected)


@pytest.mark.parametrize("name", ["W1e", "W3e"])
@pytest.mark.parametrize("size", [1000, 20_000])
def test_matches_do_not_grow_with_the_filters(name: str, size: int) -> None:
    assert matches_per_event(name, size, 400) == pytest.approx(2, rel=0.25)


@pytest.mark.parametrize("name", ["W3", "W3e"])
def test_w3_has_ranges_on_four_of_ten_numbers(name: str) -> None:
    assert {type(value) for event in WORKLOADS[name].events(5) for value in event.values()} == {int, float}
    widths = set()
    for each in WORKLOADS[name].filters(500, size=100_000):
        assert len(each.names) == 4
        assert all(c.operator in (Operator.GE, Operator.LE) for c in each)
        for low, high in zip(each.constraints[::2], each.constraints[1::2], strict=True):
            assert low.name == high.name
            hundredths = 100 * (Fraction(high.value) - Fraction(low.value))  # type: ignore[arg-type]
            widths.add(high.value - low.value + 1 if isinstance(low.value, int) else round(hundredths))  # type: ignore[operator]
    assert widths == {669}


def test_w2_is_skewed_and_sparse() -> None:
    events = WORKLOADS["W2"].events(2000)
    present = Counter(name for event in events for name in event)
    assert present["symbol"] == present["exchange"] == present["price"] == present["change"] == 2000
    assert 0 < present["halted"] < present["sector"] < present["bid"] < present["volume"] < 2000
    symbols = Counter(event["symbol"] for event in events)
    assert symbols.most_common(1)[0][1] > 20 * len(events) / 10_000
    assert len(symbols) > 500
    operators = {(c.name, c.operator.value) for each in WORKLOADS["W2"].filters(2000) for c in each}
    assert {("symbol", "="), ("exchange", "="), ("price", ">="), ("change", "<="), ("halted", "absent")} <= operators
    assert 2e-5 < matches_per_event("W2", 20_000, 400) / 20_000 < 5e-4


def test_w4_has_every_kind_of_string_operator() -> None:
    operators = {c.operator for each in WORKLOADS["W4"].filters(500) for c in each}
    assert {Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS} <= operators
    assert 5e-6 < matches_per_event("W4", 20_000, 400) / 20_000 < 5e-4


@pytest.mark.parametrize("name", HOSTILE)
def test_nearly_all_filters_match_in_hostile_workloads(name: str) -> None:
    assert matches_per_event(name, 2000, 100) > 0.9 * 2000
    assert WORKLOADS[name].is_hostile


def test_hostile_filters_offer_nothing_to_divide_by() -> None:
    shared = {c for c in WORKLOADS["W5a"].filters(1)[0] if c.operator is Operator.EQ}
    assert all(shared == {c for c in each if c.operator is Operator.EQ} for each in WORKLOADS["W5a"].filters(300))
    operators = {c.operator for each in WORKLOADS["W5b"].filters(300) for c in each}
    assert operators == {Operator.ANY, Operator.NE}
    operators = {c.operator for each in WORKLOADS["W5c"].filters(300) for c in each}
    assert operators == {Operator.NOT_PREFIX, Operator.NOT_SUFFIX, Operator.NOT_CONTAINS}
