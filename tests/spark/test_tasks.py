"""What runs in the workers, tried without Spark: against the model, for all kinds of results."""

from __future__ import annotations

import tempfile
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, Notification
from palio.codec import json, msgpack
from palio.errors import CallerError
from palio.model.limits import Limits
from palio.spark import counts as counting
from palio.spark import parsing, sequences, shipping, tasks
from palio.spark.tasks import Task
from tests.matching.strategies import aimed_lists, examples, filter_lists
from tests.matching.twins import body_batch, column_batches
from tests.spark.local import Id, expected_ids, ship


@st.composite
def filter_sets(draw: st.DrawFn) -> tuple[list[tuple[Id, str]], list[Notification]]:
    """Filters as text, some ids twice and some texts unions, with ids of either kind; and events."""
    filters = draw(filter_lists(12))
    texts = [str(filter) for filter in filters if filter.constraints]
    texts += [f"({first}) or ({second})" for first, second in pairwise(texts) if draw(st.booleans())]
    spread = draw(st.sampled_from([1, 3, 1000]))
    ids: list[Id] = [place * spread // 3 for place in range(len(texts))]
    if draw(st.booleans()):
        ids = [f"id {id}" for id in ids]
    return list(zip(ids, texts, strict=True)), draw(aimed_lists(filters))


@examples(2)
@given(filter_sets(), st.sampled_from([1, 4, 10**9]), st.sampled_from([1, 2, 3, 10**6]), st.booleans())
def test_all_kinds_of_results_are_what_the_model_says(
    drawn: tuple[list[tuple[Id, str]], list[Notification]], per_index: int, most_pairs: int, tells_problems: bool
) -> None:
    filters, events = drawn
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "MOST_PAIRS", most_pairs)
        shipment = ship(filters, Path(folder), patch, filters_per_index=per_index)
        names = {constraint.name for _, text in filters for f in Filter.parse_union(text) for constraint in f}
        for members, batch in column_batches(events):
            attributes = tuple(name for name in batch.schema.names if name in names)
            check(Task(shipment, (), attributes, (), False, tells_problems), batch, expected_ids(filters, members))
        batch = body_batch(events)
        check(Task(shipment, (), ("body",), (), True, tells_problems), batch, expected_ids(filters, events))


def check(task: Task, batch: pa.RecordBatch, expected: list[list[Id]]) -> None:
    key = "the number of the row, under a name that no attribute has"
    batch = batch.append_column(key, pa.array(range(len(batch)), pa.int64()))
    task = task._replace(kept=(key,), columns=tuple(batch.schema.names))
    pairs = [row for part in tasks.match_narrow(task, [batch]) for row in part.to_pylist()]
    assert sorted((row["c0"], row["filter"]) for row in pairs) == [
        (i, id) for i, ids in enumerate(expected) for id in ids
    ]
    wide = [row for part in tasks.match_wide(task, [batch]) for row in part.to_pylist()]
    assert [row["c0"] for row in wide] == list(range(len(batch)))
    assert [sorted(row["filters"]) for row in wide] == expected
    counts = counted(task, [[batch], [], [batch]])
    twice = Counter(id for ids in expected for id in ids for _ in range(2))
    assert {row["filter"]: row["count"] for row in counts} == twice
    assert len(counts) == len(twice)


def counted(task: Task, partitions: list[list[pa.RecordBatch]]) -> list[dict[str, Any]]:
    """What tasks on these partitions count, added up as on tables and as on streams."""
    made = pa.Table.from_batches([part for batches in partitions for part in tasks.match_counts(task, batches)])
    groups = made.group_by(["block", "problem"], use_threads=False).aggregate([]).to_pylist()
    rows: list[dict[str, Any]] = []
    for group in groups:
        is_meant = [
            each["block"] == group["block"] and each["problem"] == group["problem"] for each in made.to_pylist()
        ]
        rows += counting.add_up(task.shipment, task.tells_problems, made.filter(pa.array(is_meant))).to_pylist()
    spread = [
        row
        for part in counting.spread(task.shipment, task.tells_problems, made.to_batches())
        for row in part.to_pylist()
    ]
    sums: Counter[tuple[Any, Any]] = Counter()
    for row in spread:
        sums[row["filter"], row.get("problem")] += row["count"]
    assert sums == {(row["filter"], row.get("problem")): row["count"] for row in rows}
    return rows


FILTERS: list[tuple[Id, str]] = [(1, "x > 0"), (2, "y any"), (3, "x < 0 or x > 5"), (3, "z = 1")]


def task_on(batch: pa.RecordBatch, shipment: shipping.Shipment, *, tells_problems: bool = True) -> Task:
    attributes = tuple(name for name in batch.schema.names if name in "xyz")
    return Task(shipment, tuple(batch.schema.names), attributes, ("k",), False, tells_problems)


NOT_FINITE = "column 'x': float that is NaN or infinite; make it null"
NOT_UTF8 = "column 'y': string that is not valid UTF-8; mend it or make the column binary"


class Counted:
    """What an accumulator of Spark is to a task."""

    def __init__(self) -> None:
        self.value: Counter[str] = Counter()

    def add(self, term: Counter[str]) -> None:
        self.value.update(term)


def broken_text(texts: list[bytes | None]) -> pa.Array:
    made = pa.array(texts, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(made), made.buffers())


@pytest.mark.parametrize("per_index", [1, 2, 100])
@pytest.mark.parametrize("most", [1, 2, 10**6])
@pytest.mark.parametrize("filters", [FILTERS, FILTERS[:2]], ids=["unions", "plain"])
def test_values_that_cannot_be_read_are_told_once_and_the_rest_matches(
    filters: list[tuple[Id, str]], most: int, per_index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where indexes come to their limits at different rows."""
    monkeypatch.setattr(tasks, "MOST_PAIRS", most)
    shipment = ship(filters, tmp_path, monkeypatch, filters_per_index=per_index, rows_per_batch=1)
    batch = pa.record_batch(
        {
            "k": [10, 11, 12, 13, 14],
            "x": [7.0, float("nan"), -1.0, float("inf"), float("nan")],
            "y": broken_text([b"a", None, b"b", b"c", b"\xff"]),
        }
    )
    problems = {11: NOT_FINITE, 13: NOT_FINITE, 14: f"{NOT_FINITE}; {NOT_UTF8}"}
    unions = [(10, 3), (12, 3)] if len(filters) > 2 else []
    expected = sorted([(10, 1), (10, 2), (12, 2), (13, 2), *unions])
    for tells in (True, False):
        counter = Counted()
        task = task_on(batch, shipment, tells_problems=tells)._replace(counter=counter)  # type: ignore[arg-type]
        narrow = [row for part in tasks.match_narrow(task, [batch]) for row in part.to_pylist()]
        assert counter.value == {"x": 3, "y": 1}
        told = {row["c0"]: row["problem"] for row in narrow if row["filter"] is None}
        assert told == (problems if tells else {})
        assert sorted((row["c0"], row["filter"]) for row in narrow if row["filter"] is not None) == expected
        wide = [row for part in tasks.match_wide(task, [batch]) for row in part.to_pylist()]
        assert sorted((row["c0"], id) for row in wide for id in row["filters"]) == expected
        assert [row.get("problem") for row in wide] == [problems.get(k) if tells else None for k in range(10, 15)]
        counts = counted(task, [[batch], [], [batch]])
        assert {row["filter"]: row["count"] for row in counts if row["filter"]} == Counter(
            id for _, id in expected for _ in range(2)
        )
        told_counts = {row["problem"]: row["count"] for row in counts if row["filter"] is None}
        assert told_counts == ({NOT_FINITE: 4, problems[14]: 2} if tells else {})
        assert counter.value == {"x": 3 * 4, "y": 4}


@pytest.mark.parametrize("per_index", [1, 100])
def test_bodies_that_cannot_be_read_match_nothing(
    per_index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_PAIRS", 1)
    filters: list[tuple[Id, str]] = [(1, ""), (2, "x absent")]
    shipment = ship(filters, tmp_path, monkeypatch, filters_per_index=per_index, rows_per_batch=1)
    bodies = [msgpack.encode(Notification(x=1)), b"\xff", None]
    batch = pa.record_batch({"k": [10, 11, 12], "body": pa.array(bodies, pa.binary())})
    for tells in (True, False):
        counter = Counted()
        task = Task(shipment, ("k", "body"), ("body",), ("k",), True, tells, counter=counter)  # type: ignore[arg-type]
        wide = [row for part in tasks.match_wide(task, [batch]) for row in part.to_pylist()]
        assert [(row["c0"], row["filters"]) for row in wide] == [(10, [1]), (11, None), (12, [])]
        assert [row.get("problem") is not None for row in wide] == [False, tells, False]
        narrow = [row for part in tasks.match_narrow(task, [batch]) for row in part.to_pylist()]
        assert [(row["c0"], row["filter"]) for row in narrow] == [(10, 1), (11, None)][: 1 + tells]
        assert {row["filter"]: row["count"] for row in counted(task, [[batch]])} == (
            {1: 1, None: 1} if tells else {1: 1}
        )
        assert counter.value == {"body": 3}


def test_decimals_are_rounded_if_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipment = ship([(1, "x > 1000")], tmp_path, monkeypatch)
    prices = pa.array([Decimal("1234567890123456.78"), Decimal("1000.01")], pa.decimal128(20, 2))
    batch = pa.record_batch({"k": [10, 11], "x": prices})
    for rounds in (True, False):
        task = task_on(batch, shipment, tells_problems=False)._replace(round_decimals=rounds)
        narrow = [row["c0"] for part in tasks.match_narrow(task, [batch]) for row in part.to_pylist()]
        assert narrow == ([10, 11] if rounds else [11])
        assert [row["count"] for row in counted(task, [[batch]])] == [len(narrow)]


def test_a_set_whose_files_are_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipment = ship(FILTERS, tmp_path, monkeypatch)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(CallerError, match="this set was closed before the result was computed; compute it first"):
        shipping.open_shipment(shipment)


@pytest.mark.parametrize("most", [1, 10, 30, 10**6])
@pytest.mark.parametrize("per_index", [1, 2, 100])
def test_pieces_are_small_and_no_row_is_matched_twice(
    most: int, per_index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_PAIRS", most)
    filters: list[tuple[Id, str]] = [(i, f"x > {i}") for i in range(7)]
    shipment = ship(filters, tmp_path, monkeypatch, filters_per_index=per_index, rows_per_batch=1)
    batch = pa.record_batch({"k": range(40), "x": [i % 9 for i in range(40)]})
    opened = shipping.open_shipment(shipment)
    found = list(tasks.find(task_on(batch, shipment), opened, batch))
    assert [piece.begin for piece in found[1:]] == [piece.end for piece in found[:-1]]
    assert (found[0].begin, found[-1].end) == (0, 40)
    assert all(len(piece.rows) < (most + 7) * len(opened.indexes) for piece in found)
    assert sum(len(piece.rows) for piece in found) == sum(min(7, i % 9) for i in range(40))
    assert [index.stats().events for index in opened.indexes] == [40] * len(opened.indexes)
    assert (len(found) > 1) == (most < 100)


def test_pieces_of_one_index_do_not_wait_for_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One index finds nothing until the end, the other one much in every row: both look at each row once."""
    monkeypatch.setattr(tasks, "MOST_PAIRS", 10)
    filters: list[tuple[Id, str]] = [*((i, "x = 29") for i in range(5)), *((i, "x any") for i in range(5, 10))]
    shipment = ship(filters, tmp_path, monkeypatch, filters_per_index=5, rows_per_batch=5)
    batch = pa.record_batch({"k": range(30), "x": range(30)})
    opened = shipping.open_shipment(shipment)
    found = list(tasks.find(task_on(batch, shipment), opened, batch))
    assert [piece.end for piece in found] == list(range(2, 31, 2))
    assert [index.stats().events for index in opened.indexes] == [30, 30]
    assert [id for piece in found for id in piece.filters.tolist()] == [*list(range(5, 10)) * 29, *range(10)]


DIVIDED: list[tuple[Id, str]] = [
    (1, "x > 0"),
    (2, "x > 1 or x > 2"),
    (1, "x > 1"),
    (3, "x = 4"),
    (2, "x < 0"),
    (1, "y any"),
]


@pytest.mark.parametrize("per_index", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("tells_problems", [False, True])
def test_unions_that_are_divided_among_indexes(
    per_index: int, tells_problems: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipment = ship(DIVIDED, tmp_path, monkeypatch, filters_per_index=per_index, rows_per_batch=1)
    values = [-1, 0, 1, 2, 3, 4, 5]
    batch = pa.record_batch({"x": values, "y": [None, 1] * 3 + [None]})
    events = [Notification({n: v for n, v in row.items() if v is not None}) for row in batch.to_pylist()]
    task = Task(shipment, (), ("x", "y"), (), False, tells_problems)
    check(task, batch, expected_ids(DIVIDED, events))


@pytest.mark.parametrize("tells_problems", [False, True])
@pytest.mark.parametrize("per_index", [2, 100])
@pytest.mark.parametrize("filters", [[(1, "x > 0"), (2, "x > 1 or x > 2")], [(1, "x > 0"), (2, "x > 1")]])
def test_counts_make_no_pairs(
    filters: list[tuple[Id, str]],
    per_index: int,
    tells_problems: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless an id has filters in several indexes."""
    shipment = ship([*filters, (3, "y any")], tmp_path, monkeypatch, filters_per_index=per_index, rows_per_batch=1)
    assert len(shipment.indexes) == (1 if per_index == 100 else 3 if " or " in filters[1][1] else 2)
    monkeypatch.delattr(tasks, "find")
    batch = pa.record_batch({"k": [1, 2, 3, 4], "x": [0, 2, 5, float("nan")]})
    rows = counted(task_on(batch, shipment, tells_problems=tells_problems), [[batch]])
    unreadable = {None: 1} if tells_problems else {}
    assert {row["filter"]: row["count"] for row in rows} == {1: 2, 2: 2} | unreadable


def test_a_row_that_matches_more_than_is_wanted_at_once_comes_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_PAIRS", 3)
    shipment = ship([(i, f"x > {i}") for i in range(50)], tmp_path, monkeypatch)
    batch = pa.record_batch({"k": [0, 1, 2], "x": [100, 0, 2]})
    wide = [row for part in tasks.match_wide(task_on(batch, shipment), [batch]) for row in part.to_pylist()]
    assert [len(row["filters"]) for row in wide] == [50, 0, 2]


def test_a_partition_without_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipment = ship(FILTERS, tmp_path, monkeypatch)
    batch = pa.record_batch({"k": pa.array([], pa.int64()), "x": pa.array([], pa.int64())})
    task = task_on(batch, shipment)
    assert list(tasks.match_narrow(task, [])) == list(tasks.match_wide(task, [])) == []
    assert counted(task, [[]]) == []
    assert sum(len(part) for part in tasks.match_narrow(task, [batch])) == 0
    assert sum(len(part) for part in tasks.match_wide(task, [batch])) == 0


def test_events_without_any_attribute_that_filters_mention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipment = ship([(1, "x absent"), (2, "x any")], tmp_path, monkeypatch)
    batch = pa.record_batch({"k": [5, 6]})
    narrow = [row for part in tasks.match_narrow(task_on(batch, shipment), [batch]) for row in part.to_pylist()]
    assert [(row["c0"], row["filter"]) for row in narrow] == [(5, 1), (6, 1)]


def test_a_set_is_opened_once_and_old_ones_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipments = []
    for i in range(4):
        (tmp_path / str(i)).mkdir()
        shipments.append(ship(FILTERS, tmp_path / str(i), monkeypatch))
        first = shipping.open_shipment(shipments[i])
        assert shipping.open_shipment(shipments[i]) is first
    assert shipments[3].version in shipping._opened
    assert shipments[0].version not in shipping._opened


# -- reading filters ---------------------------------------------------------------------------------------------------


def test_what_is_no_filter_is_rejected_with_its_place() -> None:
    rows = [(1, "x > 1"), (2, "y = 1 and\nx >"), (None, "x = 1"), (4, None), (5, '{"palio":1}'), (6, "x = 1 or y = 2")]
    batch = pa.record_batch(
        {"id": pa.array([id for id, _ in rows], pa.int64()), "text": pa.array([text for _, text in rows])}
    )
    found = [
        row for part in parsing.read_parts(parsing.Reading(Limits(), pa.int64()), [batch]) for row in part.to_pylist()
    ]
    rejects = [row for row in found if row["reason"]]
    assert [(row["id"], row["text"]) for row in rejects] == [rows[1], rows[2], rows[3], rows[4]]
    assert [(row["line"], row["column"]) for row in rejects] == [(2, 4), (None, None), (None, None), (None, None)]
    assert all("\n" not in row["reason"] for row in rejects)
    (part,) = [row for row in found if row["index"]]
    assert part["attributes"] == ["x", "y"]
    assert pa.ipc.read_record_batch(part["ids"], pa.schema({"id": pa.int64()}))["id"].to_pylist() == [1, 6, 6]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_strings_that_are_not_utf8_are_rejected_and_the_others_are_read(kind: pa.DataType) -> None:
    bad, good = strings([b"a", b'x = "\xff"', None], kind), pa.array(["x = 1", "x = 2", "x = 3"], kind)
    reading = parsing.Reading(Limits(), kind)
    for read in (parsing.read_parts, sequences.split_patterns):
        for ids, texts, name in ((bad, good, "id"), (good, bad, "text")):
            (*rows,) = (
                row for part in read(reading, [pa.record_batch({"id": ids, "text": texts})]) for row in part.to_pylist()
            )
            reasons = [row["reason"] for row in rows if row["id"] != "x = 1" and row["reason"]]
            assert reasons == [f"the {name} is not UTF-8", f"the {name} is null"]
            (row,) = [row for row in rows if row["reason"] == reasons[0]]
            assert row[name] == 'x = "\ufffd"'


def strings(values: list[bytes | None], kind: pa.DataType) -> pa.Array:
    """As Spark hands them over: nothing checks whether they are UTF-8."""
    binary = pa.array(values, pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
    return pa.Array.from_buffers(kind, len(values), binary.buffers())


def test_many_filters_come_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "PART_FILTERS", 10)
    batches = [
        pa.record_batch({"id": range(i, i + 9), "text": [f"x = {n}" for n in range(i, i + 9)]}) for i in range(0, 27, 9)
    ]
    parts = list(parsing.read_parts(parsing.Reading(Limits(), pa.int64()), batches))
    ids = [
        pa.ipc.read_record_batch(row["ids"], pa.schema({"id": pa.int64()}))["id"].to_pylist()
        for part in parts
        for row in part.to_pylist()
    ]
    assert ids == [list(range(10)), list(range(10, 20)), list(range(20, 27))]


def test_filters_in_the_json_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.encode(Filter.parse('x = "a"')).decode()
    shipment = ship([(1, text), (2, f"  {text}")], tmp_path, monkeypatch)
    assert len(shipping.open_shipment(shipment).indexes[0].match(Notification(x="a"))) == 2


def test_limits_hold_where_filters_are_read_and_where_events_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(literal_bytes=3, value_bytes=4)
    reading = parsing.Reading(limits, pa.int64())
    batch = pa.record_batch({"id": [1], "text": ['x = "long"']})
    (part,) = parsing.read_parts(reading, [batch])
    assert "literal_bytes" in part.to_pylist()[0]["reason"]
    shipment = ship([(1, "x any")], tmp_path, monkeypatch, limits=limits)
    events = pa.record_batch({"k": [1, 2], "x": ["long", "longer"]})
    narrow = [row for part in tasks.match_narrow(task_on(events, shipment), [events]) for row in part.to_pylist()]
    assert [row["filter"] for row in narrow] == [1, None]


def test_random_order_of_parts_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filters: list[tuple[Id, str]] = [(f"f{i}", f"x = {i % 10}") for i in range(60)]
    Random(3).shuffle(filters)
    shipment = ship(filters, tmp_path, monkeypatch, rows_per_batch=1, filters_per_index=25)
    assert len(shipment.indexes) == 3
    bodies = pa.record_batch({"k": range(10), "body": [msgpack.encode(Notification(x=i)) for i in range(10)]})
    check(
        Task(shipment, (), ("body",), (), True, False),
        bodies,
        expected_ids(filters, [Notification(x=i) for i in range(10)]),
    )


@pytest.mark.parametrize("count", [3, 4, 5, 12])
def test_counts_at_the_edges_of_blocks(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "BLOCK", 4)
    shipment = ship([(place, f"x = {place}") for place in range(count)], tmp_path, monkeypatch)
    met = [0, count // 2, 3, 4, count - 1, count - 1, count]
    task = task_on(batch := pa.record_batch({"k": met, "x": met}), shipment, tells_problems=False)
    expected = Counter(value for value in met if value < count)
    assert {row["filter"]: row["count"] for row in counted(task, [[batch], [batch]])} == expected + expected


def test_a_block_is_not_larger_than_its_places_can_say() -> None:
    assert np.iinfo(np.uint16).max == counting.BLOCK - 1
