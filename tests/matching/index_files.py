"""Files of indexes taken apart and put together again, so that they can lie: their sums are right, their contents not.

What is where is said by ``native/layout.hpp`` and ``native/file.hpp``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tests.matching.test_seed import STEP, mix, scatter

GRANULE = 16
HEADER_FIELDS = {
    "version": ("I", 8),
    "byte_order": ("I", 12),
    "file_size": ("Q", 16),
    "arena_offset": ("Q", 24),
    "arena_size": ("Q", 32),
    "table_offset": ("Q", 40),
    "buckets": ("Q", 48),
    "directory_offset": ("Q", 64),
    "slots": ("Q", 72),
    "filters": ("Q", 80),
    "nodes": ("Q", 88),
    "mask": ("Q", 96),
    "root": ("Q", 104),
}
HEADER_HASH = 232
BUCKET_SIZE = 64
ENTRIES = 64
"""Where the entries of a node begin, each of 16 bytes."""
PREDICATES = 24
"""Where the predicates of a record begin; in each the literal's offset and size are 8 bytes in."""


def hash_bytes(data: bytes) -> int:
    """The core's hash of a text, under the seed 0; of whole words, which is all that is needed here."""
    words = struct.unpack(f"<{len(data) // 8}Q", data)
    start, factor = scatter(STEP), scatter(2 * STEP) | 1
    hash = start
    for word in words[:-1]:
        hash = mix(hash ^ word, factor)
    return mix(hash ^ words[-1], factor ^ (STEP + len(data)))


class IndexFile:
    """The bytes of a file, to be changed in place."""

    def __init__(self, whole: bytes) -> None:
        self.data = bytearray(whole)

    def header(self, field: str) -> int:
        code, place = HEADER_FIELDS[field]
        return int(struct.unpack_from(f"<{code}", self.data, place)[0])

    def set_header(self, field: str, value: int) -> None:
        code, place = HEADER_FIELDS[field]
        struct.pack_into(f"<{code}", self.data, place, value)

    def sealed(self) -> bytes:
        """The file with a header that adds up."""
        struct.pack_into("<Q", self.data, HEADER_HASH, hash_bytes(bytes(self.data[:HEADER_HASH])))
        return bytes(self.data)

    # -- what lies in the arena, by its reference ----------------------------------------------------------------------

    def _place(self, ref: int, offset: int) -> int:
        return self.header("arena_offset") + ref * GRANULE + offset

    def word(self, ref: int, offset: int) -> int:
        return int(struct.unpack_from("<I", self.data, self._place(ref, offset))[0])

    def set_word(self, ref: int, offset: int, value: int) -> None:
        struct.pack_into("<I", self.data, self._place(ref, offset), value)

    @property
    def root(self) -> int:
        return self.header("root")

    def record(self, slot: int) -> int:
        return int(struct.unpack_from("<I", self.data, self.header("directory_offset") + 8 * slot)[0])

    def last_chunk(self, node: int) -> int:
        return self.word(node, 24)

    def first_partition(self, node: int) -> int:
        """The details of the first of a node's partitions."""
        return self.word(self.word(node, 20), 16 + 12)

    def overflows(self) -> Iterator[int]:
        """The buckets beyond the first of those places of the table that have more."""
        for number in range(self.header("buckets")):
            place = self.header("table_offset") + number * BUCKET_SIZE + BUCKET_SIZE - 4
            ref = int(struct.unpack_from("<I", self.data, place)[0])
            if ref != 0:
                yield ref
