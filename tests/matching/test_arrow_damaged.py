"""Batches that break the rules of the Arrow C data interface are refused, not read; and each is released once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from palio.errors import CallerError, InvalidBatchError, InvalidNameError, InvalidValueError, LimitError
from tests.matching.arrow_by_hand import (
    NO_ARRAY_RELEASE,
    NO_SCHEMA_RELEASE,
    CArray,
    CSchema,
    Node,
    batch,
    numbers,
    text,
    view,
    views,
)
from tests.matching.arrow_cases import rows

NO_SCHEMA = ctypes.cast(None, ctypes.POINTER(CSchema))
NO_ARRAY = ctypes.cast(None, ctypes.POINTER(CArray))


def at(part: str, field: str, value: Any) -> Callable[[Node], None]:
    """Set one field of the batch's or of its first column's schema or array."""
    owner, _, which = part.partition(".")

    def change(node: Node) -> None:
        of = node if owner == "batch" else node.children[0]
        setattr(getattr(of, which), field, value)

    return change


def child_to_none(node: Node, *, schema: bool) -> None:
    if schema:
        node.schema_children[0] = NO_SCHEMA
    else:
        node.array_children[0] = NO_ARRAY


CHANGES: dict[str, tuple[Callable[[Node], None], str]] = {
    "released schema": (at("batch.schema", "release", NO_SCHEMA_RELEASE), "released already"),
    "released array": (at("batch.array", "release", NO_ARRAY_RELEASE), "released already"),
    "released column's schema": (at("column.schema", "release", NO_SCHEMA_RELEASE), "released already"),
    "released column": (at("column.array", "release", NO_ARRAY_RELEASE), "column '.*': .*released already"),
    "no format": (at("batch.schema", "format", None), "without a format"),
    "column without a format": (at("column.schema", "format", None), "column 'x': schema without a format"),
    "negative length": (at("batch.array", "length", -1), "negative length or offset"),
    "negative offset": (at("batch.array", "offset", -1), "negative length or offset"),
    "column's negative length": (at("column.array", "length", -1), "column 'x': negative length or offset"),
    "column's negative offset": (at("column.array", "offset", -8), "column 'x': negative length or offset"),
    "offset beyond memory": (at("column.array", "offset", 2**62), "beyond any memory"),
    "length beyond memory": (at("batch.array", "length", 2**63 - 1), "beyond any memory"),
    "nulls below -1": (at("column.array", "null_count", -2), "number of nulls"),
    "more nulls than rows": (at("column.array", "null_count", 3), "number of nulls"),
    "nulls without a bitmap": (at("column.array", "null_count", 1), "column 'x': nulls without a bitmap"),
    "rows null without a bitmap": (at("batch.array", "null_count", 1), "nulls without a bitmap"),
    "fewer schemas": (at("batch.schema", "n_children", 0), "differ in children"),
    "more schemas": (at("batch.schema", "n_children", 2), "differ in children"),
    "fewer arrays": (at("batch.array", "n_children", 0), "differ in children"),
    "negative children": (at("batch.schema", "n_children", -1), "differ in children"),
    "no schemas": (at("batch.schema", "children", None), "missing children"),
    "no arrays": (at("batch.array", "children", None), "missing children"),
    "schema of a child missing": (lambda node: child_to_none(node, schema=True), "missing child 0"),
    "array of a child missing": (lambda node: child_to_none(node, schema=False), "missing child 0"),
    "no buffers": (at("column.array", "buffers", None), "column 'x': missing buffers"),
    "batch without buffers": (at("batch.array", "buffers", None), "missing buffers"),
    "fewer buffers": (at("column.array", "n_buffers", 1), "1 buffers where the type has 2"),
    "more buffers": (at("column.array", "n_buffers", 3), "3 buffers where the type has 2"),
    "more buffers of the batch": (at("batch.array", "n_buffers", 2), "2 buffers where the type has 1"),
    "null type with buffers": (at("column.schema", "format", b"n"), "2 buffers where the type has 0"),
    "text without its buffer": (at("column.schema", "format", b"u"), "2 buffers where the type has 3"),
    "short column": (at("column.array", "length", 1), "column 'x': column shorter than the batch"),
    "rows beyond the columns": (at("batch.array", "length", 3), "column shorter than the batch"),
    "offset beyond the columns": (at("batch.array", "offset", 1), "column shorter than the batch"),
    "offset beyond all columns": (at("batch.array", "offset", 9), "column shorter than the batch"),
    "width beyond the limit": (at("column.schema", "format", b"w:2147483647"), "row 0: .*limit 'value_bytes'"),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES.keys())
def test_one_thing_wrong(change: Callable[[Node], None], message: str) -> None:
    assert rows(batch(numbers(5, 6))) == [{"x": 5}, {"x": 6}]
    node = batch(numbers(5, 6))
    change(node)
    released = (bool(node.schema.release), bool(node.array.release))
    with pytest.raises(CallerError, match=message):
        rows(node)
    assert (node.schemas_released, node.arrays_released) == released  # once, or never if it was before


def test_bytes_beyond_any_memory() -> None:
    column = Node("w:2147483647", "x", 1, [None, b"x"])
    column.array.offset = 2**40
    with pytest.raises(InvalidBatchError, match="column 'x': length or offset beyond any memory"):
        rows(batch(column))


@pytest.mark.parametrize("format", ["b", "c", "l"])
@pytest.mark.parametrize("offset", [2**63 - 1, 2**63 - 2, 2**57])
def test_offsets_whose_end_no_word_holds(format: str, offset: int) -> None:
    """Also of bits and bytes, where multiplying by the width shows nothing."""
    column = Node(format, "x", 1, [None, bytes(8)])
    column.array.offset = offset
    with pytest.raises(InvalidBatchError, match="column 'x': length or offset beyond any memory"):
        rows(batch(column))


def test_release_happens_once_and_not_by_the_capsule() -> None:
    node = batch(numbers(1, 2), text([0, 1, 3], b"abc", name="y"))
    assert rows(node) == [{"x": 1, "y": "a"}, {"x": 2, "y": "bc"}]
    assert (node.schemas_released, node.arrays_released) == (1, 1)
    assert not node.schema.release, "the source must be marked as moved"
    assert not node.array.release
    with pytest.raises(InvalidBatchError, match="released already"):
        rows(node)
    assert (node.schemas_released, node.arrays_released) == (1, 1)


def test_what_the_method_gives_must_be_two_capsules() -> None:
    class Exporter:
        def __init__(self, result: Any) -> None:
            self.result = result

        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            if isinstance(self.result, Exception):
                raise self.result
            return self.result

    for result in (None, (), (1, 2, 3), [1, 2]):
        with pytest.raises(InvalidBatchError, match="gave no pair of capsules"):
            rows(Exporter(result))
    node = batch(numbers(1))
    schema, array = node.capsules()
    for pair in ((1, 2), (array, schema), (schema, 2)):
        with pytest.raises(InvalidBatchError, match="gave no capsule named 'arrow_array'"):
            rows(Exporter(pair))
    assert (node.schemas_released, node.arrays_released) == (0, 0)
    with pytest.raises(InvalidBatchError, match="gave no capsule named 'arrow_schema'"):
        rows(Exporter((1, array)))
    assert (node.schemas_released, node.arrays_released) == (0, 1)  # the array was taken; the schema never was
    with pytest.raises(KeyError, match="mine"):
        rows(Exporter(KeyError("mine")))


@pytest.mark.parametrize("format", ["u", "z", "U", "Z"])
@pytest.mark.parametrize("offsets", [[0, 3, 1, 4], [-1, 1, 2, 4], [0, 5, 5, 4], [0, 2**31 - 1, 2, 4], [-3, -1, 2, 4]])
def test_offsets_that_go_astray(format: str, offsets: list[int]) -> None:
    with pytest.raises(InvalidBatchError, match=r"column 'x', row [01]: text that lies outside its buffer"):
        rows(batch(text(offsets, b"abcd", format=format)))


@pytest.mark.parametrize("format", ["u", "Z"])
def test_the_last_offset_bounds_the_text(format: str) -> None:
    with pytest.raises(InvalidBatchError, match="column 'x': negative offset of text"):
        rows(batch(text([0, 1, -1], b"a", format=format)))
    empty = "" if format == "u" else b""
    assert rows(batch(text([0, 0, 0], None, format=format))) == [{"x": empty}, {"x": empty}]
    with pytest.raises(InvalidBatchError, match="column 'x', row 1: text that lies outside"):
        rows(batch(text([0, 0, 1], None, format=format)))


def test_an_empty_batch_needs_no_buffers() -> None:
    for format, count in (("l", 2), ("b", 2), ("u", 3), ("Z", 3), ("vu", 3), ("w:7", 2), ("d:3,1", 2), ("n", 0)):
        column = Node(format, "x", 0, [None] * count)
        assert rows(batch(column)) == []
        column.array.offset = 2**40
        assert rows(batch(column)) == []
    for format, count in (("l", 2), ("b", 2), ("u", 3), ("vu", 3), ("w:7", 2)):
        with pytest.raises(InvalidBatchError, match="column 'x': missing buffer of values"):
            rows(batch(Node(format, "x", 1, [None] * count)))


@pytest.mark.parametrize(
    "damaged",
    [
        views(view(-1)),
        views(view(13)),
        views(view(13, block=1), blocks=(bytes(20),)),
        views(view(13, block=-1), blocks=(bytes(20),)),
        views(view(13, offset=-1), blocks=(bytes(20),)),
        views(view(13, offset=8), blocks=(bytes(20),)),
        views(view(2**31 - 1, offset=2**31 - 1), blocks=(bytes(20),)),
        views(view(13), blocks=(None,), sizes=(20,)),
    ],
)
def test_views_that_go_astray(damaged: Node) -> None:
    with pytest.raises(InvalidBatchError, match="column 'x', row 0: text that lies outside its buffer"):
        rows(batch(damaged))


def test_views_to_the_last_byte() -> None:
    block = b"a text of twenty one."
    node = views(view(13, offset=8), view(21), view(13, block=1), blocks=(block, b"0123456789abc"))
    assert [row["x"] for row in rows(batch(node))] == [block[8:].decode(), block.decode(), "0123456789abc"]
    without_sizes = views(view(13), blocks=(bytes(20),))
    without_sizes.buffers[3] = None
    with pytest.raises(InvalidBatchError, match="buffers of text without their sizes"):
        rows(batch(without_sizes))


def test_dictionaries_that_do_not_fit() -> None:
    entries = text([0, 1, 3], b"abc", name="")
    assert rows(batch(numbers(1, 0).refer_to(entries))) == [{"x": "bc"}, {"x": "a"}]
    only_schema, only_array = numbers(1, 0).refer_to(entries), numbers(1, 0).refer_to(entries)
    only_schema.array.dictionary, only_array.schema.dictionary = NO_ARRAY, NO_SCHEMA
    for half in (only_schema, only_array):
        with pytest.raises(InvalidBatchError, match="column 'x': schema and array differ in dictionary"):
            rows(batch(half))
    indexes = numbers(1, 0).refer_to(entries)
    indexes.schema.format = b"g"
    with pytest.raises(InvalidBatchError, match="indexes that are no integers"):
        rows(batch(indexes))
    with pytest.raises(CallerError, match="dictionary of dictionaries; decode it first"):
        rows(batch(numbers(0).refer_to(numbers(0).refer_to(entries))))
    broken = text([0, 3, 1], b"abc", name="")
    with pytest.raises(InvalidBatchError, match="column 'x', row 0: text that lies outside"):
        rows(batch(numbers(1, 0).refer_to(broken)))
    released = text([0, 1], b"a", name="")
    released.array.release = NO_ARRAY_RELEASE
    with pytest.raises(InvalidBatchError, match=r"column 'x': .*released already"):
        rows(batch(numbers(0).refer_to(released)))


def test_bitmaps_are_read_only_if_there_are_nulls() -> None:
    node = Node("l", "x", 2, [b"\x02", numbers(7, 8)._kept[1].raw])
    assert rows(batch(node)) == [{"x": 7}, {"x": 8}]  # null_count says none
    for count in (1, -1):
        node = Node("l", "x", 2, [b"\x02", numbers(7, 8)._kept[1].raw])
        node.array.null_count = count
        assert rows(batch(node)) == [{}, {"x": 8}]
    node = numbers(7, 8)
    node.array.null_count = -1  # not counted, and no bitmap: none
    assert rows(batch(node)) == [{"x": 7}, {"x": 8}]


def test_offsets_of_batch_and_column_add_up() -> None:
    column = Node("l", "x", 4, [b"\x1d", numbers(0, 1, 2, 3, 4)._kept[1].raw])
    column.array.offset, column.array.null_count = 1, -1
    node = Node("+s", "", 3, [b"\x0b"], [column])
    node.array.offset, node.array.null_count = 1, -1
    assert rows(node) == [{"x": 2}, {}, {"x": 4}]


def test_names_by_hand() -> None:
    nameless = numbers(1)
    nameless.schema.name = None
    with pytest.raises(InvalidNameError, match="column '': empty name"):
        rows(batch(nameless))
    odd = numbers(1)
    odd.schema.name = b"caf\xe9\x1b["
    with pytest.raises(InvalidNameError) as caught:
        rows(batch(odd))
    assert str(caught.value) == r"column 'caf\\xe9\x1b[': name that is not valid UTF-8; rename the column"


FORMATS = ["", "x", "tsx:UTC", "ts", "tsu", "tsu:", "d:", "d:5", "d:5,x", "d:5,1,16", "d:5,1,128,1", "d:5,99999999999"]
FORMATS += ["w:", "w:-1", "w:99999999999", "w:3x", "w:3,4", "v", "vx", "\x1b[31m", "t" * 100, "+w:3", "ll"]


@pytest.mark.parametrize("format", FORMATS)
def test_formats_that_are_none(format: str) -> None:
    node = numbers(1)
    node.schema.format = format.encode()
    with pytest.raises(CallerError, match=r"^column 'x': .*\(Arrow format '.*'\); ") as caught:
        rows(batch(node))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


def test_failures_under_a_row_that_is_null_are_none() -> None:
    node = Node("+s", "", 2, [b"\x02"], [text([0, 1, 2], b"\xffa")])
    node.array.null_count = 1
    assert rows(node) == [{}, {"x": "a"}]
    node = Node("+s", "", 2, [b"\x03"], [text([0, 1, 2], b"\xffa")])
    node.array.null_count = -1
    with pytest.raises(InvalidValueError, match="column 'x', row 0: string that is not valid UTF-8"):
        rows(node)


def test_values_beyond_what_keys_can_hold_are_refused_whatever_the_limit() -> None:
    node = views(view(2**30), blocks=(bytes(20),), sizes=(2**31 - 1,))  # refused before anything is read
    with pytest.raises(LimitError) as caught:
        rows(batch(node), value_bytes=2**64 - 1)
    assert (caught.value.allowed, caught.value.actual) == (2**30 - 1, 2**30)
