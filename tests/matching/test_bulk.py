"""What bulk work needs: indexes put together from parts, counts by filter, and rows that cannot be read skipped."""

from __future__ import annotations

import array
from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Constraint, Filter, Notification
from palio.codec import msgpack
from palio.errors import (
    CallerError,
    DecodeError,
    FileFormatError,
    InvalidBatchError,
    LimitError,
    ReadOnlyError,
)
from palio.matching import FilterIndex
from palio.model.limits import Limits
from tests.matching.strategies import FILTERS, aimed_lists, examples, meetings
from tests.matching.twins import Twins, body_batch, column_batches, flat, pairs_of

# -- indexes put together ----------------------------------------------------------------------------------------------


def built(filters: Sequence[Filter], seed: int, random: Random) -> tuple[FilterIndex, list[Filter]]:
    """An index with some filters removed again and slots used anew, and its filters in the order of their ids."""
    index = FilterIndex(seed=seed)
    kept = {index.add(filter): filter for filter in filters}
    for id in random.sample(sorted(kept), len(kept) // 3):
        index.remove(id)
        del kept[id]
    kept |= {index.add(filter): filter for filter in filters[: len(filters) // 4]}
    return index, [kept[id] for id in sorted(kept)]


@examples(2)
@given(st.data(), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.randoms(use_true_random=False))
def test_an_index_made_of_parts_answers_like_one_that_was_not(
    data: st.DataObject, seed: int, other: int, random: Random
) -> None:
    parts = data.draw(st.lists(st.lists(FILTERS, max_size=30), max_size=3))
    twins = Twins()
    twins.index = FilterIndex(seed=seed)
    twins.add_many(data.draw(st.lists(FILTERS, max_size=3)))
    for part in parts:
        index, filters = built(part, other, random)
        ids = twins.index.add_dumped(index.dumps()).tolist()
        twins._admit(ids, twins.scan.add_many(filters))
    everything = [filter for part in parts for filter in part]
    twins.check(data.draw(aimed_lists(everything)))
    twins.check_membership()
    while twins.ids:
        twins.remove(0)
    assert len(twins.index) == 0


def test_a_large_part_keeps_its_order_of_ids() -> None:
    part = FilterIndex(Filter((Constraint("x", "=", i),)) for i in range(3_000))
    index = FilterIndex([Filter.parse("x = 7")])
    assert index.add_dumped(part.dumps()).tolist() == list(range(1, 3_001))
    assert index.match(Notification(x=7)) == [0, 8]


def test_bytes_that_lie_anywhere_can_be_read() -> None:
    part = FilterIndex([Filter.parse("x = 1")]).dumps()
    index = FilterIndex()
    for shift in range(20):
        index.add_dumped((b"-" * shift + part)[shift:])
    assert len(index.match(Notification(x=1))) == 20


def test_damaged_parts_are_refused_and_nothing_is_added() -> None:
    random = Random(5)
    whole = FilterIndex(Filter((Constraint("x", "=", i), Constraint("y", "*", f"t{i}"))) for i in range(50)).dumps()
    index = FilterIndex([Filter.parse("z = 1")])
    header = FilterIndex().dumps()[:4096]
    used = [i for i in range(len(whole)) if whole[i] != 0]  # what pads a file out is not part of it
    for place in random.sample(used, 300):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << random.randrange(8)
        with pytest.raises(FileFormatError):
            index.add_dumped(bytes(damaged))
    for size in (0, 1, 100, 240, 4096, len(whole) - 4096, len(whole) - 1):
        with pytest.raises(FileFormatError):
            index.add_dumped(whole[:size])
    with pytest.raises(FileFormatError):
        index.add_dumped(header)
    assert len(index) == 1
    assert index.match(Notification(x=1, z=1)) == [0]


@pytest.mark.parametrize("wrong", [None, "text", bytearray(5), 5, FilterIndex()], ids=repr)
def test_what_is_no_dump_is_refused(wrong: object) -> None:
    with pytest.raises(CallerError, match="dumps"):
        FilterIndex().add_dumped(wrong)  # type: ignore[arg-type]


def test_an_opened_index_takes_no_parts(tmp_path: object) -> None:
    path = f"{tmp_path}/index"
    FilterIndex().dump(path)
    with pytest.raises(ReadOnlyError):
        FilterIndex.open(path).add_dumped(FilterIndex().dumps())


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (Limits(constraints=2), "x = 1 and y = 2 and z = 3"),
        (Limits(literal_bytes=3), 'x = "long"'),
        (Limits(name_bytes=3), "name = 5"),
    ],
    ids=str,
)
def test_parts_beyond_the_limits_add_nothing(limit: Limits, text: str) -> None:
    index = FilterIndex(limits=limit)
    part = FilterIndex([Filter.parse("x = 1"), Filter.parse(text)])
    with pytest.raises(LimitError):
        index.add_dumped(part.dumps())
    assert len(index) == 0
    assert index.stats().names == 0
    assert FilterIndex().add_dumped(part.dumps()).tolist() == [0, 1]


# -- counts by filter --------------------------------------------------------------------------------------------------


@examples(2)
@given(meetings(), st.integers(0, 5))
def test_counts_by_filter_are_those_of_the_pairs(drawn: tuple[list[Filter], list[Notification]], more: int) -> None:
    filters, events = drawn
    index = FilterIndex(filters)
    expected = [3] * (len(filters) + more)
    counts = array.array("q", expected)
    for members, batch in column_batches(events):
        for _, id in flat([index.match(event) for event in members]):
            expected[id] += 1
        assert index.tally(batch, counts) == []
    assert counts.tolist() == expected
    index.tally(body_batch(events), counts, bodies="body")
    for _, id in flat([index.match(event) for event in events]):
        expected[id] += 1
    assert counts.tolist() == expected


def test_counts_that_are_too_few_or_none() -> None:
    index = FilterIndex([Filter.parse("x > 0"), Filter.parse("x > 5")])
    batch = pa.record_batch({"x": [1, 7]})
    with pytest.raises(LimitError, match="counts"):
        index.tally(batch, array.array("q", [0]))
    wrong = [
        None,
        [0, 0],
        b"12345678" * 2,
        array.array("i", [0, 0]),
        array.array("d", [0, 0]),
        array.array("Q", [0, 0]),
    ]
    for counts in wrong:
        with pytest.raises(CallerError, match="64-bit"):
            index.tally(batch, counts)
    readonly = memoryview(array.array("q", [0, 0])).toreadonly()
    with pytest.raises(CallerError, match="writable"):
        index.tally(batch, readonly)


# -- bodies that cannot be read (values: test_unreadable.py) -----------------------------------------------------------

INDEX = FilterIndex([Filter.parse("x > 0"), Filter.parse("y any"), Filter.parse("x absent")])


def test_bodies_that_are_none_match_nothing_and_are_reported() -> None:
    good = msgpack.encode(Notification(x=1))
    batch = pa.record_batch({"body": [good, b"\xff", None, good[:-1], good]})
    matches = INDEX.match_batch(batch, bodies="body", report_unreadable=True)
    assert pairs_of(matches) == [(0, 0), (4, 0)]
    assert [(each.row, each.column, type(each.error)) for each in matches.unreadable] == [
        (1, 0, DecodeError),
        (3, 0, DecodeError),
    ]
    assert "row" not in str(matches.unreadable[0].error)
    with pytest.raises(DecodeError, match="row 1"):
        INDEX.match_batch(batch, bodies="body")


def test_bodies_beyond_a_limit_match_nothing_and_are_reported() -> None:
    index = FilterIndex([Filter.parse("x any")], limits=Limits(document_bytes=10))
    bodies = [msgpack.encode(Notification(x=value)) for value in ("a", "a" * 20, "b")]
    matches = index.match_batch(pa.record_batch({"body": bodies}), bodies="body", report_unreadable=True)
    assert pairs_of(matches) == [(0, 0), (2, 0)]
    assert [(each.row, type(each.error)) for each in matches.unreadable] == [(1, LimitError)]


def test_what_is_wrong_with_a_whole_batch_is_an_error() -> None:
    with pytest.raises(CallerError):
        INDEX.match_batch(pa.record_batch({"x": [[1]]}), report_unreadable=True)
    with pytest.raises(InvalidBatchError):
        INDEX.match_batch(5, report_unreadable=True)
