"""The compiled core of Palio; use it through the packages that wrap it."""

from collections.abc import Callable, Iterable, Iterator
import datetime
from typing import Any, overload

import palio.errors
import palio.model


def decode_body(data: bytes, *, attributes: int, name_bytes: int, value_bytes: int, payload_bytes: int) -> tuple[dict[str, str | int | float | bool | datetime.datetime | bytes], str | None, bytes | None]:
    """
    Validate and read the body of a notification: its attributes, content type and payload.
    """

def unpack(data: bytes, depth: int, most: int) -> object:
    """
    Read arrays of plain values, nested at most so deep and with at most so many elements in all.
    """

def arrow_rows(batch: object, *, attributes: int, name_bytes: int, value_bytes: int, round_decimals: bool = False) -> list[dict[str, str | int | float | bool | datetime.datetime | bytes]]:
    """
    The rows of an Arrow record batch as the matcher sees them: one dictionary of attributes a row, without
    those that are null. Takes any object with the method __arrow_c_array__, such as a pyarrow.RecordBatch.
    """

class Column:
    """
    A read-only column of integers, in which results come.

    Arrow libraries, NumPy and memoryview read it without copying, and may outlive it.
    """

    def __init__(self, values: Iterable[int], *, bits: int = 64) -> None:
        """Copies the integers; columns of results are made without."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> int: ...

    def __iter__(self) -> Iterator[int]: ...

    def __repr__(self) -> str: ...

    def __arrow_c_schema__(self) -> object: ...

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

    def tolist(self) -> list[int]:
        """The integers as a list."""

class Unions:
    """Which filters are one union; use it as palio.matching.Unions."""

    def __init__(self, owners: object) -> None: ...

    def __len__(self) -> int: ...

class Index:
    """Filters, indexed; use it as palio.matching.FilterIndex."""

    @overload
    def __init__(self, seed: int) -> None: ...

    @overload
    def __init__(self, path: bytes) -> None: ...

    def add(self, filter: object | None, constraints: int, name_bytes: int, literal_bytes: int) -> int: ...

    def add_many(self, filters: Iterable[palio.model.Filter], constraints: int, name_bytes: int, literal_bytes: int) -> list[int]: ...

    def add_dumped(self, dumped: bytes, constraints: int, name_bytes: int, literal_bytes: int) -> Column: ...

    def remove(self, id: int) -> None: ...

    def contains(self, id: int) -> bool: ...

    def match(self, attributes: dict[str, Any]) -> list[int]: ...

    def match_any(self, attributes: dict[str, Any]) -> bool: ...

    def match_encoded(self, body: bytes, attributes: int, name_bytes: int, value_bytes: int, payload_bytes: int) -> list[int]: ...

    def match_batch(self, batch: object, bodies: str | None, unions: Unions | None, most: int, whole_rows: bool, after_row: int, rest: Column | None, taken: int, report_unreadable: bool, round_decimals: bool, attributes: int, name_bytes: int, value_bytes: int, payload_bytes: int, document_bytes: int) -> tuple[Column, Column, int, Column, int, list[tuple[int, int, palio.errors.PalioError]]]: ...

    def tally(self, batch: object, bodies: str | None, counts: object, unions: Unions | None, report_unreadable: bool, round_decimals: bool, attributes: int, name_bytes: int, value_bytes: int, payload_bytes: int, document_bytes: int) -> list[tuple[int, int, palio.errors.PalioError]]: ...

    def match_counts(self, batch: object, bodies: str | None, round_decimals: bool, attributes: int, name_bytes: int, value_bytes: int, payload_bytes: int, document_bytes: int) -> Column: ...

    def size(self) -> int: ...

    def memory_usage(self) -> int: ...

    def stats(self) -> tuple[int, int, int, dict[str, int], int, int, int, int]: ...

    def dumps(self) -> bytes: ...

    def dump(self, path: bytes) -> None: ...

    def is_whole(self) -> bool: ...

def scan_frames(data: bytes | bytearray | memoryview, most: int) -> tuple[list[tuple[int, int, int]], int, bool]:
    """
    Find whole frames, of at most so many bytes: kind, begin and end of each, of publications in a row together; how far they go; and whether what follows is empty or too long.
    """

class Board:
    """
    Who holds which filters of an index; use it as palio.routing.board.Board.
    """

    def __init__(self, index: Index) -> None: ...

    def add(self, id: int, party: int) -> None: ...

    def remove(self, id: int, party: int) -> None: ...

    def set_others(self, id: int, has_others: bool) -> None: ...

    def forget(self, id: int) -> None: ...

    def set_logged(self, party: int, is_logged: bool) -> None: ...

    def dispatch(self, block: bytes | bytearray | memoryview, origin: str, incarnation: int, sequence: int, published: int, publisher: str, everything_goes_on: bool, everything_logged: bool, most_bytes: int, attributes: int, name_bytes: int, value_bytes: int, payload_bytes: int, document_bytes: int) -> tuple[int, int, int, list[tuple[int, bytes, int, bytes]], list[tuple[int, int, int, int]], list[tuple[int, palio.errors.PalioError]], bytes, int]: ...

class EventTable:
    """
    Notifications as columns: those of attributes, in the order of their names, then the structs
    envelope and payload. Arrow libraries read it in place.
    """

    @property
    def names(self) -> list[str]:
        """The names of the attributes; the columns themselves go by number."""

    def __len__(self) -> int: ...

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

class EventTables:
    """Frames of a log on their way into tables; see palio.archive.tables."""

    def __init__(self, origin: str, fold: Callable[[str], str], *, tables: int, columns: int, bytes: int) -> None: ...

    def add(self, frames: bytes, offset: int, position: int) -> int:
        """
        Take frames from an offset on; how far it came. If not to the end, take() the largest table first.
        """

    def take(self) -> EventTable | None:
        """The largest table, if there is one."""

    def take_bad(self) -> list[tuple[int, str]]:
        """Where frames were that could not be read, and why."""

    @property
    def rows(self) -> int:
        """That wait in all tables."""

    @property
    def bytes(self) -> int:
        """Of memory for them."""

    @property
    def taken(self) -> int:
        """Notifications so far."""

    @property
    def foreign(self) -> int:
        """Those of other origins."""

    @property
    def repeated(self) -> int:
        """Those that came again."""

    @property
    def mark(self) -> tuple[int, int]:
        """
        Incarnation and sequence of the last notification; what is not above it counts as repeated.
        """

    @mark.setter
    def mark(self, mark: tuple[int, int], /) -> None: ...
