"""Values in Arrow batches that cannot be read: they fail the constraints on their attribute, and nothing else."""

from __future__ import annotations

import array
import math
from collections.abc import Sequence
from datetime import datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Constraint, Filter, Notification
from palio.errors import InvalidBatchError, InvalidValueError
from palio.matching import FilterIndex, LinearScan, Unions
from palio.model.limits import Limits
from tests.matching.populations import TEMPLATES
from tests.matching.strategies import NAMES, candidates, examples
from tests.matching.twins import pairs_of

TYPES = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime: pa.timestamp("us", "UTC"),
}
BAD: list[pa.Array] = [
    pa.array([math.nan]),
    pa.array([math.inf], pa.float32()),
    pa.array([2**63], pa.uint64()),
    pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"], pa.binary()).buffers()),
    pa.array([1], pa.timestamp("ns", "UTC")),
    pa.array([2**62], pa.timestamp("us", "UTC")),
    pa.array([10**16 + 1], pa.decimal128(18, 0)).cast(pa.decimal128(20, 2)),
    pa.array([2**63], pa.decimal128(20, 0)),
    pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array([math.nan])),
]


def one_row(event: Notification, unreadable: dict[str, pa.Array]) -> pa.RecordBatch:
    columns: dict[str, Any] = {name: pa.array([value], TYPES[type(value)]) for name, value in event.items()}
    return pa.record_batch(columns | unreadable)


def expected(filters: Sequence[Filter], event: Notification, unreadable: Sequence[str]) -> list[int]:
    """A filter matches if the model says so of the attributes that can be read, and it mentions none of the others."""
    rest = Notification({name: value for name, value in event.items() if name not in unreadable})
    found = LinearScan(filters).match(rest)
    return [id for id in found if not any(constraint.name in unreadable for constraint in filters[id])]


def check(index: FilterIndex, filters: Sequence[Filter], event: Notification, unreadable: dict[str, pa.Array]) -> None:
    batch = one_row(event, unreadable)
    found = index.match_batch(batch, report_unreadable=True)
    mentioned = {constraint.name for filter in filters for constraint in filter}
    assert [id for _, id in pairs_of(found)] == expected(filters, event, list(unreadable))
    named = {batch.schema.names[each.column] for each in found.unreadable}
    assert named == set(unreadable) & mentioned
    counts = array.array("q", [0] * len(filters))
    told = index.tally(batch, counts, report_unreadable=True)
    assert [id for id, count in enumerate(counts) if count] == [id for _, id in pairs_of(found)]
    assert [each[:2] for each in told] == [each[:2] for each in found.unreadable]


@st.composite
def events(draw: st.DrawFn, filters: Sequence[Filter]) -> tuple[Notification, dict[str, pa.Array]]:
    random = draw(st.randoms(use_true_random=False))
    values = candidates(constraint for filter in random.choices(filters, k=3) for constraint in filter) or [1]
    mentioned = {constraint.name for filter in filters for constraint in filter} | set(NAMES[:2])
    names = sorted(name for name in mentioned if "\0" not in name)  # with which the name of a column would end
    event = {name: random.choice(values) for name in names if random.random() < 0.8}
    bad = {name: random.choice(BAD) for name in names if random.random() < 0.3}
    return Notification({name: value for name, value in event.items() if name not in bad}), bad


@examples(2)
@given(st.data(), st.sampled_from(sorted(TEMPLATES)), st.integers(0, 2**32), st.sampled_from([5, 90, 700]))
def test_filters_of_every_kind_answer_as_the_model_does(
    data: st.DataObject, template: str, seed: int, count: int
) -> None:
    random = Random(seed)
    maker = TEMPLATES[template](random)
    filters = [maker() for _ in range(count)]
    index = FilterIndex(filters)
    for _ in range(3):
        check(index, filters, *data.draw(events(filters)))
    dumped = FilterIndex()
    dumped.add_dumped(index.dumps())
    check(dumped, filters, *data.draw(events(filters)))


def undividable(i: int) -> Filter:
    """Many of these lie in one bucket, whose digests decide them together."""
    kinds = [
        Constraint("a", "!=", i),
        Constraint("a", "any"),
        Constraint("b", "!>*", f"v{i}"),
        Constraint("b", "absent"),
    ]
    return Filter([kinds[i % 4], Constraint("c", "!=", i)] if i % 3 else [kinds[i % 4]])


@pytest.mark.parametrize("bad", [["a"], ["b"], ["c"], ["a", "b"], ["a", "b", "c"], []])
def test_filters_that_are_decided_together(bad: list[str]) -> None:
    filters = [undividable(i) for i in range(3_000)]
    index = FilterIndex(filters)
    event = Notification(a=7, b="v2", c=11)
    readable = Notification({name: value for name, value in event.items() if name not in bad})
    for array_ in BAD:
        check(index, filters, readable, dict.fromkeys(bad, array_))


@pytest.mark.parametrize("count", [1, 40, 5_000])
def test_filters_that_say_nothing_match_whatever_cannot_be_read(count: int) -> None:
    """The first name, too, which units that say nothing must not look at."""
    filters = [Filter([Constraint("x", "=", 5)]), *[Filter()] * count]
    index = FilterIndex(filters)
    check(index, filters, Notification(), {"x": BAD[0]})
    settled = [Filter([Constraint("x", "=", 5), Constraint("y", "any")]) for _ in range(count)]
    check(FilterIndex(settled), settled, Notification(y=1), {"x": BAD[0]})


@pytest.mark.parametrize("text", ["x = 1", "x > 0", "x any", "x absent", 'x !>* "a"', "integer x any", "x != 2"])
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: str(bad.type))
def test_neither_a_filter_nor_its_negation_matches(text: str, bad: pa.Array) -> None:
    filters = [*Filter.parse_union(text), *Filter.parse_union(f"not ({text})")]
    for index in (FilterIndex(filters), FilterIndex(filters * 500)):
        found = index.match_batch(pa.record_batch({"x": bad}), report_unreadable=True)
        assert pairs_of(found) == []
        assert [each[:2] for each in found.unreadable] == [(0, 0)]


def test_columns_that_no_filter_mentions_are_not_looked_at() -> None:
    index = FilterIndex([Filter.parse("x = 1")])
    found = index.match_batch(pa.record_batch({"y": [math.nan], "x": [1]}))
    assert (pairs_of(found), found.unreadable) == ([(0, 0)], [])


def test_all_that_cannot_be_read_is_reported_with_row_column_and_reason() -> None:
    index = FilterIndex([Filter.parse("x any"), Filter.parse("y any"), Filter.parse("z absent")])
    batch = pa.record_batch(
        {"x": [1.0, math.nan, math.inf], "y": pa.array([2**63, 1, 2**63], pa.uint64()), "z": [None, None, 5]}
    )
    found = index.match_batch(batch, report_unreadable=True)
    assert pairs_of(found) == [(0, 0), (0, 2), (1, 1), (1, 2)]
    assert [(each.row, each.column) for each in found.unreadable] == [(0, 1), (1, 0), (2, 0), (2, 1)]
    assert {type(each.error) for each in found.unreadable} == {InvalidValueError}
    assert str(found.unreadable[1].error) == "column 'x': float that is NaN or infinite; make it null"
    assert str(found.unreadable[3].error).startswith("column 'y': integer outside the signed 64-bit range")
    with pytest.raises(InvalidValueError, match="column 'y', row 0"):
        index.match_batch(batch)


@pytest.mark.parametrize("whole_rows", [False, True])
@pytest.mark.parametrize("owners", [None, [0, 0, 2, 3]], ids=["plain", "unions"])
def test_pages_report_each_value_once(owners: list[int] | None, whole_rows: bool) -> None:
    """Also where a page ends within a row that has both matches and a value that cannot be read."""
    filters = [Filter.parse("y >= 0"), Filter.parse("y any"), Filter.parse("x > 0"), Filter()]
    index = FilterIndex(filters)
    values = [1.0, math.nan, math.nan, 3.0, math.nan]
    batch = pa.record_batch({"x": values, "y": range(len(values))})
    how = {"unions": Unions(array.array("I", owners)) if owners else None, "whole_rows": whole_rows}
    whole = index.match_batch(batch, report_unreadable=True, **how)
    for limit in range(1, 20):
        pairs, told, after = [], [], None
        while True:
            page = index.match_batch(batch, limit=limit, after=after, report_unreadable=True, **how)
            pairs += pairs_of(page)
            told += [each.row for each in page.unreadable]
            after = page.continuation
            if after is None:
                break
        assert pairs == pairs_of(whole)
        assert told == [1, 2, 4]


def test_texts_that_are_too_long_are_reported_with_their_lengths() -> None:
    index = FilterIndex([Filter.parse("x any")], limits=Limits(value_bytes=3))
    found = index.match_batch(pa.record_batch({"x": ["abcd", "abc", "abcdefg", "abcd"]}), report_unreadable=True)
    assert pairs_of(found) == [(1, 0)]
    assert [("4" in str(each.error), "7" in str(each.error)) for each in found.unreadable] == [
        (True, False),
        (False, True),
        (True, False),
    ]


def test_damage_is_an_error_all_the_same() -> None:
    index = FilterIndex([Filter.parse("x any")])
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int8()), pa.array([1.0]), safe=False)
    with pytest.raises(InvalidBatchError):
        index.match_batch(pa.record_batch({"x": dictionary}), report_unreadable=True)


def test_an_event_after_one_that_cannot_be_read_is_not_affected() -> None:
    filters = [Filter.parse("x absent"), Filter.parse("x any"), Filter.parse("y any")]
    index = FilterIndex(filters)
    values = [math.nan, 1.0, None, math.nan, None]
    batch = pa.record_batch({"x": pa.array(values, pa.float64()), "y": [1] * 5})
    found = index.match_batch(batch, report_unreadable=True)
    assert pairs_of(found) == [(0, 2), (1, 1), (1, 2), (2, 0), (2, 2), (3, 2), (4, 0), (4, 2)]
