"""What runs in the worker processes: Arrow batches of events in, batches of results out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from palio.matching import BatchMatches, Unreadable
from palio.spark.counts import pack
from palio.spark.shipping import Codes, OpenSet, Shipment, open_shipment
from palio.spark.unreadable import UnreadableCounter, count_into

MOST_PAIRS = 1 << 18
"""Pairs that are found before they are handed on."""

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
    codes: Codes
    """For each row the numbers of the ids that match, ascending."""
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
                columns = [*kept.take(pa.array(found.rows)).columns, opened.ids.take(pa.array(found.codes))]
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
            lists = pa.ListArray.from_arrays(pa.array(offsets), opened.ids.take(pa.array(found.codes)), mask=without)
            kept = batch.slice(found.begin, found.end - found.begin).select(task.kept)
            yield _batch(task, [*kept.columns, lists], "filters", problems)


def match_counts(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many events of this partition each filter matches, for :mod:`palio.spark.counts` to add up."""
    opened = open_shipment(task.shipment)
    counts = np.zeros(len(opened.ids), np.int64)
    problems: Counter[str] = Counter()
    for batch in _named(task, batches):
        if opened.codes is None and len(opened.indexes) == 1:  # nothing is found twice: no need for pairs
            events = batch.select(task.attributes)
            problems.update(_problems(task, events, opened.indexes[0].tally(events, counts, **_reading(task))).values())
            continue
        for found in find(task, opened, batch):
            counts += np.bincount(found.codes, minlength=len(counts))
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
    events, how = batch.select(task.attributes), _reading(task)
    first, *others = opened.indexes
    begin = 0
    while begin < len(events):
        rest = events.slice(begin)
        matches = first.match_batch(rest, limit=MOST_PAIRS, **how)
        size = len(rest)
        if matches.continuation is not None:  # the last row may not be complete
            size = max(1, matches.continuation.row)
            matches = first.match_batch(rest.slice(0, size), **how)
        piece = rest.slice(0, size)
        found = [matches, *(index.match_batch(piece, **how) for index in others)]
        problems = _problems(task, piece, [each for part in found for each in part.unreadable])
        yield _together(opened, begin, size, found, problems)
        begin += size


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


def _together(opened: OpenSet, begin: int, size: int, matches: list[BatchMatches], problems: dict[int, str]) -> Found:
    """What all indexes have found."""
    bases = np.cumsum([0, *(len(index) for index in opened.indexes)])
    rows = np.concatenate([np.asarray(each.rows) for each in matches])
    codes = np.concatenate([np.asarray(each.ids) + base for each, base in zip(matches, bases, strict=False)])
    rows, codes = _in_order(opened, rows, codes)
    told = {begin + row: problem for row, problem in problems.items()}
    return Found(begin, begin + size, rows + np.int32(begin), codes, told)


def _in_order(opened: OpenSet, rows: Rows, codes: Codes) -> tuple[Rows, Codes]:
    """Bring pairs of several indexes into order, and drop those that a union has twice."""
    if opened.codes is not None:
        pairs = np.unique(rows.astype(np.int64) * len(opened.ids) + opened.codes[codes])
        return (pairs // len(opened.ids)).astype(np.int32), pairs % len(opened.ids)
    if len(opened.indexes) > 1:
        order = np.lexsort((codes, rows))
        return rows[order], codes[order]
    return rows, codes


def _batch(task: Task, columns: list[pa.Array], name: str, problems: list[str | None]) -> pa.RecordBatch:
    names = [*place_names(task.kept), name]
    if task.tells_problems:
        columns = [*columns, pa.array(problems, pa.string())]
        names.append("problem")
    return pa.RecordBatch.from_arrays(columns, names)
