"""The index and the model side by side: the same filters in both, and every way of asking compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from palio import Filter, Notification
from palio.codec import msgpack
from palio.matching import FilterIndex, LinearScan

Pairs = list[tuple[int, int]]

ARROW_TYPES: dict[type, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", tz="UTC"),
    bytes: pa.binary(),
}


def column_batches(events: Sequence[Notification]) -> Iterator[tuple[list[Notification], pa.RecordBatch]]:
    """Events as batches with a column for each attribute.

    A column has one type, so events whose types clash go to different batches. Names with NUL fit no Arrow schema.
    """
    groups: list[tuple[dict[str, type], list[Notification]]] = []
    for event in events:
        if any("\0" in name for name in event):
            continue
        types = {name: type(value) for name, value in event.items()}
        for known, members in groups:
            if all(known.get(name, cls) is cls for name, cls in types.items()):
                known.update(types)
                members.append(event)
                break
        else:
            groups.append((types, [event]))
    for types, members in groups:
        yield members, column_batch(members, types)


def column_batch(events: Sequence[Notification], types: dict[str, type]) -> pa.RecordBatch:
    """One batch, with a column for each name of ``types``; a batch without columns still has its rows."""
    columns = [pa.array([event.get(name) for event in events], ARROW_TYPES[cls]) for name, cls in types.items()]
    schema = pa.schema([(name, ARROW_TYPES[cls]) for name, cls in types.items()])
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(events), pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def body_batch(events: Sequence[Notification | None], type: pa.DataType | None = None) -> pa.RecordBatch:
    """The encoded events as a column ``body``, beside a column that matching must not look at."""
    bodies = [None if event is None else msgpack.encode(event) for event in events]
    decoy = pa.array([1] * len(bodies), pa.int64())
    return pa.record_batch({"x": decoy, "body": pa.array(bodies, type or pa.binary())})


def pairs_of(matches: Any) -> Pairs:
    """Rows and ids of a result as Python numbers, after checking that they are sorted and of equal number."""
    rows, ids, *_ = matches
    pairs = list(zip(list(rows), list(ids), strict=True))
    assert pairs == sorted(set(pairs)), "pairs are not sorted, or not unique"
    return pairs


def drain(index: FilterIndex, batch: object, limit: int, bodies: str | None = None) -> Pairs:
    """All pairs of a batch, at most ``limit`` at a time."""
    pairs: Pairs = []
    after = None
    while True:
        page = index.match_batch(batch, bodies=bodies, limit=limit, after=after)
        found = pairs_of(page)
        assert len(found) <= limit
        assert not pairs or not found or found[0] > pairs[-1], "a page that goes back"
        pairs += found
        after = page.continuation
        if after is None:
            return pairs
        assert found, "a page without pairs that says there are more"


def flat(expected: Iterable[Sequence[int]]) -> Pairs:
    return [(row, id) for row, ids in enumerate(expected) for id in ids]


class Twins:
    """An index, the model that says what it should answer, and which id of the one is which id of the other."""

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self.index = FilterIndex()
        self.scan = LinearScan()
        self.ids: dict[int, int] = {}
        """The index's id for each of the scan's that is still there."""
        self.gone: list[int] = []
        self.used: set[int] = set()
        """Every id that the index ever gave out."""
        self.add_many(list(filters))

    def add(self, filter: Filter) -> int:
        id = self.index.add(filter)
        self._admit([id], [self.scan.add(filter)])
        return id

    def add_many(self, filters: Sequence[Filter]) -> list[int]:
        ids = self.index.add_many(iter(filters))
        self._admit(ids, self.scan.add_many(filters))
        return ids

    def _admit(self, ids: list[int], expected: list[int]) -> None:
        assert type(ids) is list
        assert all(type(id) is int and id >= 0 for id in ids)
        assert len(ids) == len(expected)
        fresh = set(ids)
        assert len(fresh) == len(ids), "two filters got one id"
        assert not fresh & self.used, "an id was given out again"
        self.used |= fresh
        self.ids |= dict(zip(expected, ids, strict=True))

    def remove(self, place: int) -> int:
        """Remove one of the filters, counted round the list of those that are left; return the index's id for it."""
        mine = list(self.ids)[place % len(self.ids)]
        id = self.ids.pop(mine)
        self.index.remove(id)
        self.scan.remove(mine)
        self.gone.append(id)
        return id

    def expected(self, events: Iterable[Notification]) -> list[list[int]]:
        return [sorted(self.ids[mine] for mine in self.scan.match(event)) for event in events]

    # -- comparisons ---------------------------------------------------------------------------------------------------

    def check(self, events: Sequence[Notification], index: FilterIndex | None = None) -> None:
        """Every way of asking, on these events; of this index, if it was reopened, or of the twin."""
        index = self.index if index is None else index
        assert len(index) == len(self.scan) == len(self.ids)
        expected = self.expected(events)
        for event, ids in zip(events, expected, strict=True):
            found = index.match(event)
            assert type(found) is list
            assert found == ids
            assert index.match_any(event) is bool(ids)
            assert index.match_encoded(msgpack.encode(event)) == ids
        self.check_bodies(events, expected, index)
        self.check_columns(events, dict(zip(map(id, events), expected, strict=True)), index)

    def check_bodies(self, events: Sequence[Notification], expected: list[list[int]], index: FilterIndex) -> None:
        batch = body_batch(events)
        matches = index.match_batch(batch, bodies="body")
        assert pairs_of(matches) == flat(expected)
        assert matches.continuation is None
        assert list(index.match_counts(batch, bodies="body")) == [len(ids) for ids in expected]

    def check_columns(self, events: Sequence[Notification], expected: dict[int, list[int]], index: FilterIndex) -> None:
        for members, batch in column_batches(events):
            wanted = [expected[id(event)] for event in members]
            matches = index.match_batch(batch)
            assert pairs_of(matches) == flat(wanted)
            assert matches.continuation is None
            assert list(index.match_counts(batch)) == [len(ids) for ids in wanted]

    def check_membership(self) -> None:
        assert len(self.index) == len(self.ids)
        assert all(id in self.index for id in self.ids.values())
        assert not any(id in self.index for id in self.gone)

    def reopened(self, path: Path) -> FilterIndex:
        self.index.dump(path)
        return FilterIndex.open(path)
