"""Arrow batches, cell by cell: every type, wherever slices begin and nulls fall, against exact arithmetic."""

from __future__ import annotations

import gc
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio._core import arrow_rows
from palio.errors import (
    CallerError,
    DuplicateNameError,
    InvalidBatchError,
    InvalidNameError,
    InvalidValueError,
    LimitError,
    UnsupportedColumnError,
    brief,
)
from palio.model.value import Value
from tests.matching.arrow_cases import (
    CASES,
    EPOCH,
    LIMITS,
    ZONES,
    Case,
    RefusedError,
    exact_rows,
    from_pylist,
    is_shown,
    rows,
)

ABSENT = object()
INDEXES = [getattr(pa, f"{sign}int{width}")() for sign in ("", "u") for width in (8, 16, 32, 64)]


@dataclass
class Drawn:
    """An array, and for each of its cells what must be found: a value, ABSENT, or why it is refused."""

    array: pa.Array
    cells: list[Any]


def outcome(case: Case, raw: Any, present: bool) -> Any:
    if not present:
        return ABSENT
    try:
        return case.expect(raw)
    except RefusedError as refusal:
        return refusal


def cut(draw: st.DrawFn, drawn: Drawn, length: int) -> Drawn:
    """So many cells from anywhere inside."""
    start = draw(st.integers(0, len(drawn.cells) - length))
    return Drawn(drawn.array.slice(start, length), drawn.cells[start : start + length])


def drawn_from(draw: st.DrawFn, case: Case, size: int, valid: bool) -> Drawn:
    """So many cells; if all must be valid, those to be refused are null, and keep their raw value underneath."""
    raws = draw(st.lists(case.raws, min_size=size, max_size=size))
    present = draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size))
    cells = [outcome(case, raw, present is None or present[place]) for place, raw in enumerate(raws)]
    if valid:
        cells = [ABSENT if isinstance(cell, RefusedError) else cell for cell in cells]
        present = [cell is not ABSENT for cell in cells]
    return Drawn(case.array(raws, present), cells)


@st.composite
def plain(draw: st.DrawFn, length: int, valid: bool) -> Drawn:
    size = length + draw(st.integers(0, 12))
    return cut(draw, drawn_from(draw, draw(st.sampled_from(CASES)), size, valid), length)


@st.composite
def dictionaries(draw: st.DrawFn, length: int, valid: bool) -> Drawn:
    values = draw(plain(draw(st.integers(1, 12)), valid))
    size = length + draw(st.integers(0, 12))
    places = draw(st.lists(st.integers(0, len(values.cells) - 1) | st.none(), min_size=size, max_size=size))
    indexes = pa.array(places, draw(st.sampled_from(INDEXES)))
    cells = [ABSENT if place is None else values.cells[place] for place in places]
    return cut(draw, Drawn(pa.DictionaryArray.from_arrays(indexes, values.array), cells), length)


@st.composite
def nothing(draw: st.DrawFn, length: int, valid: bool) -> Drawn:
    return Drawn(pa.nulls(length + 3).slice(draw(st.integers(0, 3)), length), [ABSENT] * length)


def columns(length: int, valid: bool) -> st.SearchStrategy[Drawn]:
    return plain(length, valid) | plain(length, valid) | dictionaries(length, valid) | nothing(length, valid)


@st.composite
def tables(draw: st.DrawFn, valid: bool) -> tuple[object, list[Drawn], list[bool], int]:
    """A batch or an array of structs, its columns, which of its rows are there at all, and how many."""
    length = draw(st.integers(0, 20))
    drawn = draw(st.lists(columns(length, valid), max_size=4))
    names = [f"x{number}" for number in range(len(drawn))]
    start = draw(st.integers(0, length))
    count = draw(st.integers(0, length - start))
    there = [True] * length
    if drawn and draw(st.booleans()):
        there = draw(st.lists(st.booleans(), min_size=length, max_size=length))
        mask = pa.array([not flag for flag in there], pa.bool_())
        whole: Any = pa.StructArray.from_arrays([column.array for column in drawn], names=names, mask=mask)
    else:
        whole = pa.RecordBatch.from_arrays([column.array for column in drawn], names=names)
        length = whole.num_rows  # without columns, none
        start, count = min(start, length), min(count, length - min(start, length))
    parts = [Drawn(column.array.slice(start, count), column.cells[start : start + count]) for column in drawn]
    return whole.slice(start, count), parts, there[start : start + count], count


def expected(drawn: list[Drawn], there: list[bool], count: int) -> list[dict[str, Value]]:
    """The rows; or RefusedError, with the pattern of the message, for the first cell that must be refused."""
    found = []
    for row in range(count):
        attributes = {}
        for number, column in enumerate(drawn):
            cell = column.cells[row] if there[row] else ABSENT
            if isinstance(cell, RefusedError):
                raise RefusedError(f"column 'x{number}', row {row}: .*{re.escape(str(cell))}")
            if cell is not ABSENT:
                attributes[f"x{number}"] = cell
        found.append(attributes)
    return found


@given(tables(valid=False))
def test_every_cell_is_the_value_absent_or_refused(table: tuple[object, list[Drawn], list[bool], int]) -> None:
    batch, drawn, there, count = table
    try:
        wanted = expected(drawn, there, count)
    except RefusedError as refusal:
        with pytest.raises((InvalidValueError, LimitError), match=str(refusal)):
            rows(batch)
    else:
        assert exact_rows(rows(batch)) == exact_rows(wanted)


@given(tables(valid=True))
def test_valid_cells_are_the_values(table: tuple[object, list[Drawn], list[bool], int]) -> None:
    batch, drawn, there, count = table
    assert exact_rows(rows(batch)) == exact_rows(expected(drawn, there, count))


@pytest.mark.parametrize("case", [case for case in CASES if is_shown(case.type)], ids=lambda case: str(case.type))
@settings(max_examples=settings.default.max_examples // 20)
@given(data=st.data())
def test_pyarrow_reads_the_same(case: Case, data: st.DataObject) -> None:
    drawn = drawn_from(data.draw, case, data.draw(st.integers(0, 10)), valid=True)
    batch = pa.RecordBatch.from_arrays([drawn.array], names=["x"]).slice(data.draw(st.integers(0, 3)))
    wanted = [{} if row["x"] is None else {"x": from_pylist(row["x"], case.type)} for row in batch.to_pylist()]
    assert exact_rows(rows(batch)) == exact_rows(wanted)


# -- what must not be left to chance -----------------------------------------------------------------------------------


def one(array: pa.Array, **limits: int) -> list[Value | None]:
    """The cells of a single column."""
    batch = pa.RecordBatch.from_arrays([array], names=["x"])
    return [row.get("x") for row in rows(batch, **limits)]


@pytest.mark.parametrize(
    ("values", "of"),
    [
        ([-(2**63), 2**63 - 1, 2**53 + 1, -1, 0], pa.int64()),
        ([2**63 - 1, 0], pa.uint64()),
        ([-0.0, 5e-324, -5e-324, 2.0**53 + 2, 1.7976931348623157e308], pa.float64()),
        ([-0.0, 2.0**-149, 3.4028234663852886e38], pa.float32()),
        ([-0.0, 2.0**-24, 1023 * 2.0**-24, 2.0**-14, 65504.0, -1.5], pa.float16()),
        (["", "é", "\0", "\U0010ffff", "twelve bytes", "thirteen bytes"], pa.string_view()),
    ],
)
def test_edges_come_through_unchanged(values: list[Value], of: pa.DataType) -> None:
    assert exact_rows([{"x": value} for value in one(pa.array(values, of))]) == exact_rows([{"x": v} for v in values])


def test_the_ends_of_time() -> None:
    first, last = datetime.min.replace(tzinfo=EPOCH.tzinfo), datetime.max.replace(tzinfo=EPOCH.tzinfo)
    numbers = [(end - EPOCH) // timedelta(microseconds=1) for end in (first, last)]
    assert one(pa.array(numbers, pa.timestamp("us", "UTC"))) == [first, last]
    for number in (numbers[0] - 1, numbers[1] + 1):
        with pytest.raises(InvalidValueError, match="column 'x', row 1: time outside years 1 to 9999"):
            one(pa.array([None, number], pa.timestamp("us", "UTC")))


@pytest.mark.parametrize("zone", ZONES)
def test_the_zone_does_not_change_the_instant(zone: str) -> None:
    assert one(pa.array([1_000_001], pa.timestamp("us", zone))) == [EPOCH + timedelta(microseconds=1_000_001)]


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_dictionaries_larger_and_smaller_than_the_batch(size: int) -> None:
    values = pa.array(["a", None, "a value beyond twelve bytes"])
    places = [place % 4 for place in range(size)]
    indexes = pa.array([None if place == 3 else place for place in places], pa.int8())
    shared = pa.DictionaryArray.from_arrays(indexes, values)
    batch = pa.RecordBatch.from_arrays([shared, shared.slice(0, size)], names=["x", "y"])
    wanted = [[*values.to_pylist(), None][place] for place in places]
    assert rows(batch) == [{} if value is None else {"x": value, "y": value} for value in wanted]


@pytest.mark.parametrize("size", [2, 9])
def test_entries_that_no_row_refers_to_do_no_harm(size: int) -> None:
    values = pa.array([1.5, float("nan"), 2.5])
    fine = pa.DictionaryArray.from_arrays(pa.array([0, 2] * size), values)
    assert one(fine) == [1.5, 2.5] * size
    assert one(fine.slice(1, 1)) == [2.5]
    with pytest.raises(InvalidValueError, match="column 'x', row 1: float that is NaN"):
        one(pa.DictionaryArray.from_arrays(pa.array([0, 1] * size), values))


@pytest.mark.parametrize("place", [-1, 3, 100, -128])
@pytest.mark.parametrize("size", [1, 5])
def test_indexes_outside_the_dictionary(place: int, size: int) -> None:
    indexes = pa.array([*[0] * size, place], pa.int8())
    array = pa.DictionaryArray.from_arrays(indexes, pa.array(["a", "b", "c"]), safe=False)
    with pytest.raises(InvalidBatchError, match=f"column 'x', row {size}: index outside the dictionary; the batch is"):
        one(array)


def test_indexes_are_read_with_their_sign() -> None:
    values = pa.array([f"entry {number}" for number in range(300)])
    unsigned = pa.DictionaryArray.from_arrays(pa.array([255], pa.uint8()), values)
    assert one(unsigned) == ["entry 255"]
    signed = pa.DictionaryArray.from_arrays(pa.array([-1], pa.int8()), values, safe=False)
    with pytest.raises(InvalidBatchError):
        one(signed)
    with pytest.raises(InvalidBatchError):
        one(pa.DictionaryArray.from_arrays(pa.array([2**64 - 1], pa.uint64()), values, safe=False))


def test_extension_types_are_read_as_what_they_are_stored_in() -> None:
    assert one(pa.array([b"0123456789abcdef", None], pa.uuid())) == [b"0123456789abcdef", None]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array([1], pa.timestamp("us")), "timestamp without a time zone .*'tsu:'.*give it one"),
        (pa.array([1], pa.date32()), "date without a time .*'tdD'.*cast it to a timestamp"),
        (pa.array([1], pa.date64()), "date without a time .*'tdm'.*cast it to a timestamp"),
        (pa.array([1], pa.time64("us")), "time of day .*'ttu'.*cast it to an integer"),
        (pa.array([1], pa.duration("s")), "span of time .*'tDs'.*cast it to an integer"),
        (pa.array([None], pa.month_day_nano_interval()), "span of time .*'tin'.*"),
        (pa.array([[1]]), r"nested type .*'\+l'.*columns of their own"),
        (pa.array([{"a": 1}]), r"nested type .*'\+s'.*columns of their own"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), r"nested type .*'\+m'"),
        (pc.run_end_encode(pa.array([1, 1])), r"run-end encoded .*'\+r'.*decode it first"),
        (pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([1], pa.date32())), "date without a time"),
    ],
)
def test_types_without_a_counterpart(array: pa.Array, message: str) -> None:
    with pytest.raises(UnsupportedColumnError, match=f"column 'x': .*{message}"):
        one(array)
    with pytest.raises(UnsupportedColumnError):  # not only when there are rows
        one(array.slice(0, 0))


def test_names() -> None:
    arrays = [pa.array([1]), pa.array([2])]
    with pytest.raises(DuplicateNameError, match="column 'same': name given twice; rename"):
        rows(pa.RecordBatch.from_arrays(arrays, names=["same", "same"]))
    with pytest.raises(InvalidNameError, match="column '': empty name; give"):
        rows(pa.RecordBatch.from_arrays(arrays, names=["x", ""]))
    assert rows(pa.RecordBatch.from_arrays(arrays, names=["é", "a b"])) == [{"é": 1, "a b": 2}]


@pytest.mark.parametrize("of", [pa.string(), pa.large_binary(), pa.string_view(), pa.binary(9)])
@pytest.mark.parametrize("wrap", [lambda array: array, lambda array: array.dictionary_encode()])
def test_limit_of_values(of: pa.DataType, wrap: Any) -> None:
    array = wrap(pa.array(["123456789" if of in (pa.string(), pa.string_view()) else b"123456789"] * 2, of))
    assert one(array, value_bytes=9) == [array[0].as_py()] * 2
    with pytest.raises(LimitError, match="column 'x', row 0: bytes in a value: 9 where at most 8") as caught:
        one(array, value_bytes=8)
    assert (caught.value.limit, caught.value.allowed, caught.value.actual) == ("value_bytes", 8, 9)


def test_limits_of_names_and_columns() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1])] * 3, names=["a", "éé", "c"])
    assert rows(batch, attributes=3, name_bytes=4) == [{"a": 1, "éé": 1, "c": 1}]
    with pytest.raises(LimitError, match="columns in a batch: 3 where at most 2") as caught:
        rows(batch, attributes=2)
    assert caught.value.limit == "attributes"
    with pytest.raises(LimitError, match="column 'éé': bytes in a name: 4 where at most 3") as caught:
        rows(batch, name_bytes=3)
    assert caught.value.limit == "name_bytes"
    assert rows(batch, value_bytes=2**64 - 1) == rows(batch)


def test_what_is_no_batch() -> None:
    with pytest.raises(CallerError, match=r"pass one record batch at a time \(pyarrow: table.to_batches\(\)\)"):
        rows(pa.table({"a": [1]}))
    with pytest.raises(CallerError, match="object of type int exports no Arrow array; pass a record batch"):
        rows(5)
    with pytest.raises(CallerError, match="an array of Arrow format 'l' is no record batch"):
        rows(pa.array([1]))
    with pytest.raises(TypeError):
        arrow_rows(pa.record_batch({"a": [1]}), **(LIMITS | {"attributes": -1}))


def test_long_names_are_cut_in_messages() -> None:
    name = "n" * 200
    with pytest.raises(InvalidValueError) as caught:
        rows(pa.record_batch({name: [float("inf")]}))
    assert str(caught.value) == f"column {brief(name)}, row 0: float that is NaN or infinite; make it null"


def test_batches_are_released_also_after_errors() -> None:
    gc.collect()
    before = pa.total_allocated_bytes()
    good = pa.record_batch({"a": pa.array(["text"] * 1_000), "b": pa.array(["a", "b"] * 500).dictionary_encode()})
    bad = good.append_column("c", pa.array([float("nan")] * 1_000))
    worse = good.append_column("d", pa.array([1] * 1_000, pa.date32()))
    assert pa.total_allocated_bytes() > before
    for _ in range(200):
        assert len(rows(good)) == 1_000
        with pytest.raises(InvalidValueError):
            rows(bad)
        with pytest.raises(UnsupportedColumnError):
            rows(worse)
    del good, bad, worse
    gc.collect()
    assert pa.total_allocated_bytes() == before
