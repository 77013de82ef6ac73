"""The compiled core of Palio; use it through the packages that wrap it."""

import datetime
from typing import Any, overload


def decode_body(data: bytes, *, attributes: int, name_bytes: int, value_bytes: int, payload_bytes: int) -> tuple[dict[str, str | int | float | bool | datetime.datetime | bytes], str | None, bytes | None]:
    """
    Validate and read the body of a notification: its attributes, content type and payload.
    """

def unpack(data: bytes, depth: int, most: int) -> object:
    """
    Read arrays of plain values, nested at most so deep and with at most so many elements in all.
    """

class Index:
    """Filters, indexed; use it as palio.matching.FilterIndex."""

    @overload
    def __init__(self) -> None: ...

    @overload
    def __init__(self, path: str) -> None: ...

    def add(self, filter: object, constraints: int, name_bytes: int, literal_bytes: int) -> int: ...

    def add_many(self, filters: object, constraints: int, name_bytes: int, literal_bytes: int) -> list: ...

    def remove(self, id: int) -> None: ...

    def contains(self, id: int) -> bool: ...

    def match(self, attributes: dict[str, Any]) -> list[int]: ...

    def match_any(self, attributes: dict[str, Any]) -> bool: ...

    def match_encoded(self, body: bytes, attributes: int, name_bytes: int, value_bytes: int, payload_bytes: int) -> list[int]: ...

    def size(self) -> int: ...

    def memory_usage(self) -> int: ...

    def stats(self) -> dict: ...

    def dumps(self) -> bytes: ...

    def dump(self, path: str) -> None: ...

    def is_whole(self) -> bool: ...
