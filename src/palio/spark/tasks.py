"""What runs in the worker processes: Arrow batches of events in, batches of results out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import PalioError
from palio.matching import Continuation
from palio.spark.counts import pack
from palio.spark.shipping import Codes, OpenSet, Shipment, open_shipment

MOST_PAIRS = 1 << 18
"""When so many pairs are found they are handed on, with all of the row that comes to so many."""

Rows = npt.NDArray[np.int32]


class Task(NamedTuple):
    """What is to be matched, and how."""

    shipment: Shipment
    columns: tuple[str, ...]
    """What the columns that come from Spark are called, which there have names that mean nothing."""
    attributes: tuple[str, ...]
    """The columns that filters mention, or the one of encoded bodies."""
    kept: tuple[str, ...]
    """The columns that go into the result."""
    is_bodies: bool
    tells_problems: bool
    """Whether events that cannot be read are told in the result, and are no errors."""
    clock: str | None = None
    """A column of times: narrow results also have the row of each batch with the latest, without a filter."""


class Found(NamedTuple):
    """What was found for some rows of a batch."""

    begin: int
    end: int
    rows: Rows
    """Ascending, counted from the beginning of the batch."""
    filters: Codes
    """For each row the numbers of the filters that match, ascending; of a union the first one that does."""
    problems: dict[int, str]
    """Why rows could not be read."""


def place_names(columns: Iterable[str]) -> list[str]:
    """Names for columns on their way through Spark, which has trouble with dots and backticks."""
    return [f"c{place}" for place, _ in enumerate(columns)]


def match_narrow(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row for each pair of an event and a filter."""
    opened = open_shipment(task.shipment)
    for batch in _named(task, batches):
        kept = batch.select(task.kept)
        for found in find(task, opened, batch):
            if len(found.rows):
                columns = [*kept.take(pa.array(found.rows)).columns, opened.ids.take(pa.array(found.filters))]
                yield _batch(task, columns, "filter", [None] * len(found.rows))
            if found.problems:
                rows = pa.array(list(found.problems), pa.int32())
                columns = [*kept.take(rows).columns, pa.nulls(len(rows), opened.ids.type)]
                yield _batch(task, columns, "filter", list(found.problems.values()))
        latest = _latest(batch[task.clock]) if task.clock else None
        if latest is not None:
            yield _batch(task, [*kept.slice(latest, 1).columns, pa.nulls(1, opened.ids.type)], "filter", [None])


def match_wide(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each event, with the ids of all its filters."""
    opened = open_shipment(task.shipment)
    for batch in _named(task, batches):
        for found in find(task, opened, batch):
            counts = np.bincount(found.rows - found.begin, minlength=found.end - found.begin)
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
            lists = pa.ListArray.from_arrays(pa.array(offsets), opened.ids.take(pa.array(found.filters)))
            kept = batch.slice(found.begin, found.end - found.begin).select(task.kept)
            problems = [found.problems.get(row) for row in range(found.begin, found.end)] if task.tells_problems else []
            yield _batch(task, [*kept.columns, lists], "filters", problems)


def match_counts(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many events of this partition each filter matches, for :mod:`palio.spark.counts` to add up."""
    opened = open_shipment(task.shipment)
    counts = np.zeros(len(opened.ids), np.int64)
    problems: Counter[str] = Counter()
    for batch in _named(task, batches):
        if opened.is_divided is None and (len(opened.indexes) == 1 or not task.tells_problems):
            problems.update(_tally(task, opened, batch, counts))
            continue
        for found in find(task, opened, batch):
            np.add.at(counts, found.filters if opened.owners is None else opened.owners[found.filters], 1)
            problems.update(found.problems.values())
    yield pack(counts, problems)


def _latest(times: pa.Array) -> int | None:
    """The row of the latest time."""
    latest = pc.max(times)
    return int(pc.index(times, latest).as_py()) if latest.is_valid else None


def _named(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.rename_columns(list(task.columns))


def find(task: Task, opened: OpenSet, batch: pa.RecordBatch) -> Iterator[Found]:
    """Match a batch, piece by piece, so that no piece has many more pairs than :data:`MOST_PAIRS`."""
    events, bodies = _events(task, batch)
    searches = [_Search(task, opened, place, events, bodies) for place in range(len(opened.indexes))]
    begin = 0
    while begin < len(events):
        for search in searches:
            if search.end == begin:
                search.go_on()
        end = min(search.end for search in searches)
        yield _together(opened, begin, end, [search.take(end) for search in searches])
        begin = end


class _Piece(NamedTuple):
    """What one index has found for some rows."""

    rows: Rows
    filters: Codes
    skipped: list[tuple[int, PalioError]]


class _Search:
    """One index on its way through a batch. It looks at each row once, and keeps what the others are not ready for."""

    def __init__(self, task: Task, opened: OpenSet, place: int, events: pa.RecordBatch, bodies: str | None) -> None:
        self._index, self._base = opened.indexes[place], opened.bases[place]
        self._events = events
        self._ask = partial(
            self._index.match_batch,
            events,
            bodies=bodies,
            unions=opened.unions[place],
            limit=MOST_PAIRS,
            whole_rows=True,
            skip_unreadable=task.tells_problems,
        )
        self._after: Continuation | None = None
        self._piece = _Piece(np.empty(0, np.int32), np.empty(0, np.int64), [])
        self.end = 0
        """The row up to which it has come."""

    def go_on(self) -> None:
        """Match the next rows. All that was found before must have been taken."""
        matches = self._ask(after=self._after)
        self._after = matches.continuation
        self.end = len(self._events) if self._after is None else self._after.row
        filters = np.asarray(matches.ids)
        self._piece = _Piece(np.asarray(matches.rows), filters + self._base if self._base else filters, matches.skipped)

    def take(self, end: int) -> _Piece:
        """What was found for rows before this one."""
        rows, filters, skipped = self._piece
        if end == self.end:
            return self._piece
        place = int(np.searchsorted(rows, end))
        self._piece = _Piece(rows[place:], filters[place:], [each for each in skipped if each[0] >= end])
        return _Piece(rows[:place], filters[:place], [each for each in skipped if each[0] < end])


def _tally(task: Task, opened: OpenSet, batch: pa.RecordBatch, counts: Codes) -> Iterator[str]:
    """Count without making pairs; gives the problem of each row that could not be read."""
    events, bodies = _events(task, batch)
    for index, unions, base in zip(opened.indexes, opened.unions, opened.bases, strict=True):
        skipped = index.tally(events, counts[base:], bodies=bodies, unions=unions, skip_unreadable=task.tells_problems)
        yield from (str(error) for _, error in skipped)


def _events(task: Task, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, str | None]:
    return batch.select(task.attributes), task.attributes[0] if task.is_bodies else None


def _together(opened: OpenSet, begin: int, end: int, pieces: list[_Piece]) -> Found:
    """What all indexes have found. A row that one of them cannot read matches nothing, also where another one can."""
    problems = {row: str(error) for piece in pieces for row, error in piece.skipped}
    problems = {row: problems[row] for row in sorted(problems)}
    if len(pieces) == 1:
        return Found(begin, end, pieces[0].rows, pieces[0].filters, problems)
    rows = np.concatenate([piece.rows for piece in pieces])
    filters = np.concatenate([piece.filters for piece in pieces])
    if problems:
        is_good = ~np.isin(rows, list(problems))
        rows, filters = rows[is_good], filters[is_good]
    order = np.argsort(rows, kind="stable")
    rows, filters = rows[order], filters[order]
    if opened.owners is not None and opened.is_divided is not None:
        is_kept = _is_first(rows, opened.owners[filters], opened.is_divided[filters])
        rows, filters = rows[is_kept], filters[is_kept]
    return Found(begin, end, rows, filters, problems)


def _is_first(rows: Rows, owners: Codes, is_divided: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether a pair is the first of those that several indexes have found of one union."""
    places = np.flatnonzero(is_divided)
    greatest = int(owners.max(initial=0)) + 1
    pairs = rows[places].astype(np.int64) * greatest + owners[places]
    is_first = ~is_divided
    is_first[places[np.unique(pairs, return_index=True)[1]]] = True
    return is_first


def _batch(task: Task, columns: list[pa.Array], name: str, problems: list[str | None]) -> pa.RecordBatch:
    names = [*place_names(task.kept), name]
    if task.tells_problems:
        columns = [*columns, pa.array(problems, pa.string())]
        names.append("problem")
    return pa.RecordBatch.from_arrays(columns, names)
