"""Arrays of the Arrow C data interface made by hand, so that anything can be wrong with them."""

from __future__ import annotations

import ctypes
import struct
from typing import Any


class CSchema(ctypes.Structure):
    pass


class CArray(ctypes.Structure):
    pass


RELEASE_SCHEMA = ctypes.CFUNCTYPE(None, ctypes.POINTER(CSchema))
RELEASE_ARRAY = ctypes.CFUNCTYPE(None, ctypes.POINTER(CArray))

CSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(CSchema))),
    ("dictionary", ctypes.POINTER(CSchema)),
    ("release", RELEASE_SCHEMA),
    ("private_data", ctypes.c_void_p),
]
CArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    ("dictionary", ctypes.POINTER(CArray)),
    ("release", RELEASE_ARRAY),
    ("private_data", ctypes.c_void_p),
]

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

NO_SCHEMA_RELEASE = RELEASE_SCHEMA()
NO_ARRAY_RELEASE = RELEASE_ARRAY()


class Node:
    """A schema and an array of it; change their fields before use. It counts how often each was released."""

    def __init__(self, format: str, name: str = "", length: int = 0, buffers: Any = (), children: Any = ()) -> None:
        self.children: list[Node] = list(children)
        self.schemas_released = self.arrays_released = 0
        self._kept: list[Any] = [
            None if data is None else ctypes.create_string_buffer(data, len(data)) for data in buffers
        ]
        pointers = [None if data is None else ctypes.addressof(data) for data in self._kept]
        self.buffers = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        self.schema: CSchema
        self.array: CArray
        self.schema_children = self._pointers(CSchema, [child.schema for child in self.children])
        self.array_children = self._pointers(CArray, [child.array for child in self.children])
        self._release_schema = RELEASE_SCHEMA(self._schema_released)
        self._release_array = RELEASE_ARRAY(self._array_released)
        count = len(self.children)
        self.schema = CSchema(format.encode(), name.encode(), None, 2, count, self.schema_children)
        self.schema.release = self._release_schema
        self.array = CArray(length, 0, 0, len(pointers), count, self.buffers, self.array_children)
        self.array.release = self._release_array

    @staticmethod
    def _pointers(of: Any, nodes: list[Any]) -> Any:
        pointers = (ctypes.POINTER(of) * max(len(nodes), 1))()
        for place, node in enumerate(nodes):
            pointers[place] = ctypes.pointer(node)
        return pointers

    def _schema_released(self, pointer: Any) -> None:
        self.schemas_released += 1
        pointer.contents.release = NO_SCHEMA_RELEASE

    def _array_released(self, pointer: Any) -> None:
        self.arrays_released += 1
        pointer.contents.release = NO_ARRAY_RELEASE

    def refer_to(self, dictionary: Node) -> Node:
        """Make the array the indexes of a dictionary."""
        self._kept.append(dictionary)
        self.schema.dictionary = ctypes.pointer(dictionary.schema)
        self.array.dictionary = ctypes.pointer(dictionary.array)
        return self

    def capsules(self) -> tuple[Any, Any]:
        schema = _new_capsule(ctypes.addressof(self.schema), b"arrow_schema", None)
        return schema, _new_capsule(ctypes.addressof(self.array), b"arrow_array", None)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return self.capsules()


def numbers(*values: int, name: str = "x") -> Node:
    return Node("l", name, len(values), [None, struct.pack(f"{len(values)}q", *values)])


def text(offsets: list[int], data: bytes | None, name: str = "x", format: str = "u") -> Node:
    code = "q" if format in ("U", "Z") else "i"
    return Node(format, name, len(offsets) - 1, [None, struct.pack(f"{len(offsets)}{code}", *offsets), data])


def view(size: int, block: int = 0, offset: int = 0) -> bytes:
    return struct.pack("<i4sii", size, b"long", block, offset)


def views(*found: bytes, blocks: tuple[bytes | None, ...] = (), sizes: tuple[int, ...] | None = None) -> Node:
    known = sizes if sizes is not None else tuple(len(block or b"") for block in blocks)
    end = struct.pack(f"{len(known)}q", *known)
    return Node("vu", "x", len(found), [None, b"".join(found), *blocks, end])


def batch(*columns: Node) -> Node:
    return Node("+s", "", columns[0].array.length if columns else 0, [None], columns)
