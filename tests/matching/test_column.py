"""Columns of results: read in place by others, and alive as long as anyone does."""

from __future__ import annotations

import gc
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from palio._core import Column
from palio.errors import InvalidValueError

WIDTHS = {32: ("i", pa.int32()), 64: ("q", pa.int64())}


def extremes(bits: int) -> list[int]:
    return [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 7]


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("length", [0, 1, 6])
def test_as_a_sequence(bits: int, length: int) -> None:
    numbers = extremes(bits)[:length]
    column = Column(iter(numbers), bits=bits)
    assert len(column) == length
    assert list(column) == column.tolist() == numbers
    assert [column[row] for row in range(-length, length)] == numbers + numbers
    for row in (length, -length - 1, 2**40, -(2**63)):
        with pytest.raises(IndexError, match="row outside the column"):
            column[row]


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("length", [0, 1, 6])
def test_as_a_buffer(bits: int, length: int) -> None:
    numbers = extremes(bits)[:length]
    column = Column(numbers, bits=bits)
    view = memoryview(column)
    assert view.tolist() == numbers
    assert (view.format, view.itemsize, view.ndim, view.shape) == (WIDTHS[bits][0], bits // 8, 1, (length,))
    assert (view.strides, view.nbytes, view.c_contiguous) == ((bits // 8,), length * bits // 8, True)
    assert view.readonly
    with pytest.raises(TypeError, match="read-write"):
        struct.pack_into("b", column, 0, 1)
    assert bytes(column) == b"".join(n.to_bytes(bits // 8, "little", signed=True) for n in numbers)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("length", [0, 1, 6])
def test_as_an_arrow_array_in_place(bits: int, length: int) -> None:
    column = Column(extremes(bits)[:length], bits=bits)
    array = pa.array(column)
    array.validate(full=True)
    assert array.type == WIDTHS[bits][1]
    assert array.to_pylist() == column.tolist()
    assert array.null_count == 0
    assert pa.py_buffer(column).address == pa.py_buffer(memoryview(column)).address
    if length:
        assert array.buffers()[1].address == pa.py_buffer(column).address
    assert pa.DataType._import_from_c_capsule(column.__arrow_c_schema__()) == array.type


HOLDERS = {
    "array": (pa.array, lambda array: array.to_pylist()),
    "slice of an array": (lambda column: pa.array(column).slice(0), lambda array: array.to_pylist()),
    "view": (memoryview, lambda view: view.tolist()),
    "iterator": (iter, list),
    "capsules": (Column.__arrow_c_array__, lambda pair: pa.Array._import_from_c_capsule(*pair).to_pylist()),
}


@pytest.mark.parametrize(("hold", "read"), HOLDERS.values(), ids=HOLDERS.keys())
def test_whoever_holds_the_numbers_keeps_them_alive(hold: Callable[[Column], Any], read: Callable[[Any], Any]) -> None:
    numbers = list(range(100_000))
    held = hold(Column(numbers))
    gc.collect()
    litter = [Column([-1] * len(numbers)) for _ in range(20)]  # would fall where the numbers were
    assert read(held) == numbers
    assert all(column[0] == -1 for column in litter)


USE = """
import resource
import pyarrow as pa
from palio._core import Column

large = memoryview(bytes(4_000_000)).cast("i")

def peak_after(times):
    for _ in range(times):
        column = Column(large, bits=32)
        array = pa.array(column)
        column.__arrow_c_array__()  # capsules that nobody takes
        assert (array[-1].as_py(), memoryview(column)[-1], len(column)) == (0, 0, 1_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

print(-peak_after(4) + peak_after(40))
"""


def test_nothing_is_kept_longer() -> None:
    """In a process of its own, whose peak no other test has raised; were the numbers kept, it would grow by 160 MB."""
    grown = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, check=True).stdout
    assert int(grown) < 60_000


def test_not_initialized() -> None:
    with pytest.raises(BufferError, match="never initialized"):
        memoryview(Column.__new__(Column))


def test_shown() -> None:
    assert repr(Column([1, -2], bits=32)) == "Column([1, -2], bits=32)"
    assert repr(Column(range(10))) == f"Column({list(range(10))}, bits=64)"
    assert repr(Column(range(11))) == "Column([0, 1, 2, 3, 4, 5, 6, 7, ... 11 in all], bits=64)"


def test_what_does_not_fit() -> None:
    for number, bits in ((2**31, 32), (-(2**31) - 1, 32), (2**63, 64), (-(2**63) - 1, 64), (10**30, 32)):
        with pytest.raises(InvalidValueError, match=f"does not fit the column's {bits} bits"):
            Column([0, number], bits=bits)
    with pytest.raises(InvalidValueError, match="32 or 64 bits, not 16"):
        Column([], bits=16)
    with pytest.raises(TypeError):
        Column(["1"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        Column(5)  # type: ignore[arg-type]
