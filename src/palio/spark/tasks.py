"""What runs in the worker processes: Arrow batches of events in, batches of results out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from palio.matching import Continuation, Unreadable
from palio.spark.counts import pack
from palio.spark.shipping import Codes, OpenSet, Shipment, open_shipment
from palio.spark.unreadable import UnreadableCounter, count_into

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
    """Whether the result says which events have values that cannot be read."""
    clock: str | None = None
    """A column of times: narrow results also have the row of each batch with the latest, without a filter."""
    round_decimals: bool = False
    """Whether decimals that are too long for a float of their own are rounded, or cannot be read."""
    counter: UnreadableCounter | None = None
    """Counts the values that cannot be read, by column."""


class Found(NamedTuple):
    """What was found for some rows of a batch."""

    begin: int
    end: int
    rows: Rows
    """Ascending, counted from the beginning of the batch."""
    filters: Codes
    """For each row the numbers of the filters that match, ascending; of a union the first one that does."""
    problems: dict[int, str]
    """Why values of rows, or bodies, cannot be read."""


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
            if found.problems and task.tells_problems:
                rows = pa.array(list(found.problems), pa.int32())
                columns = [*kept.take(rows).columns, pa.nulls(len(rows), opened.ids.type)]
                yield _batch(task, columns, "filter", list(found.problems.values()))
        latest = _latest(batch[task.clock]) if task.clock else None
        if latest is not None:
            yield _batch(task, [*kept.slice(latest, 1).columns, pa.nulls(1, opened.ids.type)], "filter", [None])


def match_wide(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each event, with the ids of all its filters; with null instead where its body cannot be read."""
    opened = open_shipment(task.shipment)
    for batch in _named(task, batches):
        for found in find(task, opened, batch):
            counts = np.bincount(found.rows - found.begin, minlength=found.end - found.begin)
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
            problems = [found.problems.get(row) for row in range(found.begin, found.end)]
            without = pa.array([problem is not None for problem in problems]) if task.is_bodies else None
            lists = pa.ListArray.from_arrays(pa.array(offsets), opened.ids.take(pa.array(found.filters)), mask=without)
            kept = batch.slice(found.begin, found.end - found.begin).select(task.kept)
            yield _batch(task, [*kept.columns, lists], "filters", problems)


def match_counts(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many events of this partition each filter matches, for :mod:`palio.spark.counts` to add up."""
    opened = open_shipment(task.shipment)
    counts = np.zeros(len(opened.ids), np.int64)
    problems: Counter[str] = Counter()
    for batch in _named(task, batches):
        if opened.is_divided is None:  # each index counts on its own, without pairs
            problems.update(_tally(task, opened, batch, counts).values())
            continue
        for found in find(task, opened, batch):
            np.add.at(counts, found.filters if opened.owners is None else opened.owners[found.filters], 1)
            problems.update(found.problems.values())
    yield pack(counts, problems if task.tells_problems else Counter())


def _latest(times: pa.Array) -> int | None:
    """The row of the latest time."""
    latest = pc.max(times)
    return int(pc.index(times, latest).as_py()) if latest.is_valid else None


def _named(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.rename_columns(list(task.columns))


def find(task: Task, opened: OpenSet, batch: pa.RecordBatch) -> Iterator[Found]:
    """Match a batch, piece by piece, so that no piece has many more pairs than :data:`MOST_PAIRS`."""
    events = batch.select(task.attributes)
    searches = [_Search(task, opened, place, events) for place in range(len(opened.indexes))]
    begin = 0
    while begin < len(events):
        for search in searches:
            if search.end == begin:
                search.go_on()
        end = min(search.end for search in searches)
        pieces = [search.take(end) for search in searches]
        problems = _problems(task, events, [each for piece in pieces for each in piece.unreadable])
        yield _together(opened, begin, end, pieces, problems)
        begin = end


class _Piece(NamedTuple):
    """What one index has found for some rows."""

    rows: Rows
    filters: Codes
    unreadable: list[Unreadable]


class _Search:
    """One index on its way through a batch. It looks at each row once, and keeps what the others are not ready for."""

    def __init__(self, task: Task, opened: OpenSet, place: int, events: pa.RecordBatch) -> None:
        self._base = opened.bases[place]
        self._events = events
        self._ask = partial(
            opened.indexes[place].match_batch,
            events,
            unions=opened.unions[place],
            limit=MOST_PAIRS,
            whole_rows=True,
            **_reading(task),
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
        rows, filters = np.asarray(matches.rows), np.asarray(matches.ids)
        self._piece = _Piece(rows, filters + self._base if self._base else filters, matches.unreadable)

    def take(self, end: int) -> _Piece:
        """What was found for rows before this one."""
        rows, filters, unreadable = self._piece
        if end == self.end:
            return self._piece
        place = int(np.searchsorted(rows, end))
        self._piece = _Piece(rows[place:], filters[place:], [each for each in unreadable if each.row >= end])
        return _Piece(rows[:place], filters[:place], [each for each in unreadable if each.row < end])


def _tally(task: Task, opened: OpenSet, batch: pa.RecordBatch, counts: Codes) -> dict[int, str]:
    """Count without making pairs; gives for each row why its values cannot be read."""
    events, unreadable = batch.select(task.attributes), []
    for index, unions, base in zip(opened.indexes, opened.unions, opened.bases, strict=True):
        unreadable += index.tally(events, counts[base:], unions=unions, **_reading(task))
    return _problems(task, events, unreadable)


class _Reading(TypedDict):
    """How indexes read batches."""

    bodies: str | None
    report_unreadable: bool
    round_decimals: bool


def _reading(task: Task) -> _Reading:
    bodies = task.attributes[0] if task.is_bodies else None
    return {"bodies": bodies, "report_unreadable": True, "round_decimals": task.round_decimals}


def _problems(task: Task, events: pa.RecordBatch, unreadable: list[Unreadable]) -> dict[int, str]:
    """For each row why its values cannot be read; several indexes may report the same value."""
    values = {(each.row, each.column): each.error for each in unreadable}
    count_into(task.counter, (events.schema.names[column] for _, column in values))
    problems: dict[int, str] = {}
    for (row, _), error in sorted(values.items(), key=lambda each: each[0]):
        problems[row] = f"{problems[row]}; {error}" if row in problems else str(error)
    return problems


def _together(opened: OpenSet, begin: int, end: int, pieces: list[_Piece], problems: dict[int, str]) -> Found:
    """What all indexes have found."""
    if len(pieces) == 1:
        return Found(begin, end, pieces[0].rows, pieces[0].filters, problems)
    rows = np.concatenate([piece.rows for piece in pieces])
    filters = np.concatenate([piece.filters for piece in pieces])
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
