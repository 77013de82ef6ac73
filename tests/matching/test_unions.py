"""Filters that are one union are found once a row; and a batch in pages costs what it costs at once."""

from __future__ import annotations

from array import array
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter
from palio.errors import CallerError
from palio.matching import Continuation, FilterIndex, Unions
from tests.matching.strategies import examples
from tests.matching.twins import drain, flat, pairs_of

BITS = 64 * 80
"""So many filters that what a row finds of a few unions is looked for, and of many looked at one by one."""


def owners_of(labels: list[int]) -> list[int]:
    """For each place the first place that has the same label."""
    return [labels.index(label) for label in labels]


def first_of_each(found: list[int], owners: list[int]) -> list[int]:
    met: set[int] = set()
    return [id for id in found if (owner := owners[id] if id < len(owners) else id) not in met and not met.add(owner)]  # type: ignore[func-returns-value]


def expected_counts(found: list[list[int]], owners: list[int], size: int) -> list[int]:
    counts = [0] * size
    for row in found:
        for owner in {owners[id] if id < len(owners) else id for id in row}:
            counts[owner] += 1
    return counts


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], list[int], list[int | None], int]:
    """Filters ``x >= limit`` with labels of unions, the values of rows, and how many filters the unions do not know."""
    size = draw(st.integers(1, 90))
    limits = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
    different = draw(st.sampled_from([1, 2, size // 2 + 1, size, 10 * size]))
    labels = draw(st.lists(st.integers(0, different), min_size=size, max_size=size))
    values = draw(st.lists(st.none() | st.integers(-1, 10), max_size=20))
    return limits, labels, values, draw(st.integers(0, 3))


@examples(2)
@given(cases(), st.sampled_from([1, 2, 7, 64, 10**6]), st.booleans())
def test_a_union_is_found_once_a_row(
    case: tuple[list[int], list[int], list[int | None], int], limit: int, has_generations: bool
) -> None:
    limits, labels, values, unknown = case
    index = FilterIndex()
    if has_generations:  # some ids are no places any more, and so belong to no union
        for id in index.add_many([Filter()] * 3):
            index.remove(id)
    ids = index.add_many(Filter.parse(f"x >= {limit}") for limit in limits)
    owners = owners_of(labels)[: len(labels) - unknown]
    unions = Unions(array("I", owners))
    batch = pa.record_batch({"x": pa.array(values, pa.int64())})
    found = [
        sorted(id for id, limit in zip(ids, limits, strict=True) if value is not None and value >= limit)
        for value in values
    ]
    expected = [first_of_each(row, owners) for row in found]
    assert pairs_of(index.match_batch(batch, unions=unions)) == flat(expected)
    assert drained(index, batch, unions, limit) == flat(expected)
    if not has_generations:
        counts = array("q", [0] * len(limits))
        assert index.tally(batch, counts, unions=unions) == []
        assert counts.tolist() == expected_counts(found, owners, len(limits))


def drained(index: FilterIndex, batch: Any, unions: Unions, limit: int) -> list[tuple[int, int]]:
    """Pages of both kinds in turn."""
    pairs: list[tuple[int, int]] = []
    after, random = None, Random(limit)
    while True:
        whole = random.random() < 0.3
        page = index.match_batch(batch, unions=unions, limit=limit, after=after, whole_rows=whole)
        assert whole or len(page.rows) <= limit
        pairs += pairs_of(page)
        after = page.continuation
        if after is None:
            return pairs
        assert len(page.rows) >= limit
        assert not whole or not len(after.rest)


@pytest.mark.parametrize(
    "parts", [[10, 5000], [0, 1], [5118, 5119], [3, 70, 71, 2000], [*range(0, BITS, 9)], [*range(BITS)]]
)
@pytest.mark.parametrize("values", [[BITS], [9, 10, 11], [4999, 5000, 5001, 0], [-1]])
def test_few_and_many_parts_among_many_filters(parts: list[int], values: list[int]) -> None:
    index = FilterIndex(Filter.parse(f"x >= {place}") for place in range(BITS))
    owners = list(range(BITS))
    for part in parts:
        owners[part] = parts[0] if len(parts) < 5 else parts[parts.index(part) // 3 * 3]
    unions = Unions(array("I", owners))
    batch = pa.record_batch({"x": values})
    found = [list(range(min(BITS, value + 1))) for value in values]
    assert pairs_of(index.match_batch(batch, unions=unions)) == flat([first_of_each(row, owners) for row in found])
    counts = array("q", [0] * BITS)
    index.tally(batch, counts, unions=unions)
    assert counts.tolist() == expected_counts(found, owners, BITS)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        b"abcd",
        array("i", [0]),
        array("q", [0]),
        array("I", [1, 1]),
        array("I", [0, 0, 1]),
        array("I", [2**32 - 1]),
    ],
    ids=repr,
)
def test_owners_that_are_none(wrong: object) -> None:
    with pytest.raises(CallerError, match="owners: "):
        Unions(wrong)


def test_unions_that_are_none() -> None:
    index = FilterIndex([Filter()])
    batch = pa.record_batch({"x": [1]})
    for wrong in ([0], array("I", [0]), 5):
        with pytest.raises(CallerError, match="unions: "):
            index.match_batch(batch, unions=wrong)  # type: ignore[arg-type]
        with pytest.raises(CallerError, match="unions: "):
            index.tally(batch, array("q", [0]), unions=wrong)  # type: ignore[arg-type]


# -- pages -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 19, 20, 21, 40, 599, 600, 601, 10**6])
@pytest.mark.parametrize("whole_rows", [False, True])
def test_no_row_is_matched_twice_however_small_the_pages(limit: int, whole_rows: bool) -> None:
    index = FilterIndex(Filter.parse(f"x > {place}") for place in range(20))
    batch = pa.record_batch({"x": [place % 24 for place in range(60)]})
    expected = pairs_of(index.match_batch(batch))
    before, pages, after = index.stats().events, [], None
    while True:
        pages.append(index.match_batch(batch, limit=limit, whole_rows=whole_rows, after=after))
        after = pages[-1].continuation
        if after is None:
            break
    assert index.stats().events - before == len(batch)
    assert [pair for page in pages for pair in pairs_of(page)] == expected
    if not whole_rows:
        assert {len(page.rows) for page in pages[:-1]} <= {limit}
        assert len(pages) == max(1, -(-len(expected) // limit))  # no page is empty, and the last one says so
    else:
        rows = [{row for row, _ in pairs_of(page)} for page in pages]
        assert sum(map(len, rows)) == len(set().union(*rows))
        assert all(len(page.rows) >= limit for page in pages[:-1])


def test_what_was_found_of_a_row_is_not_copied_for_every_page() -> None:
    index = FilterIndex([Filter()] * 1000)
    batch = pa.record_batch({"x": [1, 2]})
    page = index.match_batch(batch, limit=1)
    first = page.continuation
    assert first is not None
    assert (first.row, len(first.rest), first.taken) == (0, 999, 0)
    address = pa.array(first.rest).buffers()[1].address
    for place in range(1, 5):
        page = index.match_batch(batch, limit=1, after=page.continuation)
        assert page.continuation is not None
        assert (page.continuation.row, page.continuation.taken) == (0, place)
        assert pa.array(page.continuation.rest).buffers()[1].address == address
    assert drain(index, batch, 7) == flat([list(range(1000))] * 2)


def test_pages_of_a_large_dictionary() -> None:
    index = FilterIndex(Filter.parse(f'x >= "{place:03}"') for place in range(0, 300, 30))
    words = pa.array([f"{place:03}" for place in range(300)])
    batch = pa.record_batch({"x": pa.DictionaryArray.from_arrays(pa.array(range(300), pa.int16()), words)})
    expected = pairs_of(index.match_batch(batch))
    for limit in (1, 299, 300, 301):
        assert drain(index, batch, limit) == expected


def test_the_pairs_of_a_row_are_of_one_moment() -> None:
    index = FilterIndex([Filter()] * 5)
    batch = pa.record_batch({"x": [1, 2]})
    page = index.match_batch(batch, limit=2)
    index.remove(3)
    rest = pairs_of(index.match_batch(batch, after=page.continuation))
    by_row = {row: [id for _, id in pairs] for row, pairs in groupby(rest, key=lambda pair: pair[0])}
    assert by_row == {0: [2, 3, 4], 1: [0, 1, 2, 4]}


def test_continuations_that_were_tampered_with_do_no_harm() -> None:
    index = FilterIndex([Filter()] * 5)
    batch = pa.record_batch({"x": [1, 2, 3]})
    page = index.match_batch(batch, limit=2)
    after = page.continuation
    assert isinstance(after, Continuation)
    whole = flat([list(range(5))] * 3)
    assert pairs_of(index.match_batch(batch, after=after._replace(taken=10**9))) == whole
    assert pairs_of(index.match_batch(batch, after=after._replace(rest=page.rows))) == whole
    assert pairs_of(index.match_batch(batch, after=after._replace(row=-5))) == flat(
        [[2, 3, 4], list(range(5)), list(range(5))]
    )
    assert pairs_of(index.match_batch(batch, after=after._replace(row=2**31))) == []
