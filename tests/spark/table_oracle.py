"""What tables mean to filters, written down a second time: no code that is tested says how a value is read.

A kind is a type of Spark's with the values that tables get. ``read`` says which value of the model a cell is; the
filters are then asked one by one, in plain Python.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from palio import Filter, Notification
from palio.model.value import Value


class Unreadable(Enum):
    """What a cell is that has no value of the model."""

    VALUE = "unreadable"


Cell = Value | Unreadable | None


class Kind(NamedTuple):
    """A type of Spark's that attributes can have."""

    name: str
    """As Spark writes it."""
    draw: Callable[[Random], Any]
    """A value for a row, as Spark takes it from Python."""
    read: Callable[[Any], Cell]
    """What such a value is to filters."""
    arrow: pa.DataType | None = None
    """Its type in a file; ``None`` if no file has it."""
    is_in_json: bool = True
    rounded: Callable[[Any], Cell] | None = None
    """What a value is if decimals are to be rounded; ``None`` if that makes no difference."""

    def read_as(self, value: Any, *, rounding: bool) -> Cell:
        """What a value is, with or without ``round_decimals``."""
        return self.rounded(value) if rounding and self.rounded is not None else self.read(value)


# -- values ------------------------------------------------------------------------------------------------------------

_TEXTS = [
    *(
        "",
        "a",
        "ab",
        "ab ",
        " ab",
        "abc",
        "abd",
        "b",
        "B",
        "aB",
        "é",
        "e\u0301",
        "ß",
        "日本",
        "\U0001f40e",
        "a\0b",
        "\0",
    ),
    *("5", "5.0", "true", "null", "a'b", 'a"b', "a\\b", "a`b", "a%b", "a_b", "\n", "\t", "a" * 40, "İ", "\u0131", "Ω"),
]
_WHOLE = [0, 1, -1, 5, 7, 100, 127, -128]
_LARGE = [2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63)]
_REAL = [0.0, -0.0, 5.0, 0.5, 0.1, -1.25, 7.0, 100.0, 1e-300, 5e-324, 1e300, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63)]
_SINGLE = [0.0, -0.0, 5.0, 0.5, 0.1, 16777216.0, 16777218.0, -1.25, 7.0, 3.4028234663852886e38, 1e-45, 2.0**31, 2.0**62]
_NOT_FINITE = [math.nan, math.inf, -math.inf]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = [
    *(datetime(2026, 7, 2, 12, tzinfo=UTC), datetime(2026, 7, 2, 12, 0, 0, 1, tzinfo=UTC), _EPOCH),
    *(datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),  # the clock goes back
    *(datetime(2026, 3, 29, 1, 30, tzinfo=UTC), datetime(2026, 3, 8, 7, 30, tzinfo=UTC)),  # it goes forward
    *(datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(2011, 12, 30, 12, tzinfo=UTC)),
    *(datetime(1931, 5, 1, tzinfo=UTC), datetime(2999, 12, 31, 23, 59, 59, tzinfo=UTC)),
]
_BYTES = [b"", b"a", b"ab", b"\x00", b"\xff", b"ab\x00", "é".encode()]


def _any_of(values: Sequence[Any]) -> Callable[[Random], Any]:
    return lambda random: random.choice(values)


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _as_it_is(value: Any) -> Cell:
    assert isinstance(value, Value)
    return value


def _read_float(value: float) -> Cell:
    return value if math.isfinite(value) else Unreadable.VALUE


def _read_single(value: float) -> Cell:
    return _read_float(_single(value)) if math.isfinite(value) else Unreadable.VALUE


def _read_whole(value: Decimal) -> Cell:
    whole = int(value)
    return whole if -(2**63) <= whole < 2**63 else Unreadable.VALUE


def _read_money(value: Decimal) -> Cell:
    """The nearest float, for up to 15 digits within 2**53: then no two values are the same float."""
    digits = "".join(map(str, value.as_tuple().digits)).strip("0")
    return float(value) if len(digits) <= 15 and -(2**53) <= value <= 2**53 else Unreadable.VALUE


def _round_money(value: Decimal) -> Cell:
    return float(value)


def _decimals(scale: int, precision: int) -> list[Decimal]:
    """Numbers of the type: around small ones, with all digits, and at its ends."""
    numbers = [0, 1, -1, 5, 999, 10**scale, 5 * 10**scale, 5 * 10**scale + 1, -125, 10 ** min(precision, 15) - 1]
    numbers += [10**precision - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63)]
    return [Decimal(f"{number}e{-scale}") for number in numbers if abs(number) < 10**precision]  # without rounding


def kinds() -> list[Kind]:
    """All types that attributes can have, but for the padded one."""
    return [
        Kind("string", _any_of(_TEXTS), _as_it_is, pa.string()),
        Kind("string collate UTF8_LCASE", _any_of(_TEXTS), _as_it_is),
        Kind("string collate UNICODE_CI", _any_of(_TEXTS), _as_it_is),
        Kind("string collate UTF8_BINARY_RTRIM", _any_of(_TEXTS), _as_it_is),
        Kind("boolean", _any_of([True, False]), _as_it_is, pa.bool_()),
        Kind("tinyint", _any_of(_WHOLE), _as_it_is, pa.int8()),
        Kind("smallint", _any_of(_WHOLE + _LARGE[:2]), _as_it_is, pa.int16()),
        Kind("int", _any_of(_WHOLE + _LARGE[:4]), _as_it_is, pa.int32()),
        Kind("bigint", _any_of(_WHOLE + _LARGE), _as_it_is, pa.int64()),
        Kind("float", _any_of([*_SINGLE, *_NOT_FINITE]), _read_single, pa.float32()),
        Kind("double", _any_of([*_REAL, *_NOT_FINITE]), _read_float, pa.float64()),
        Kind("decimal(5,0)", _any_of(_decimals(0, 5)), _read_whole, pa.decimal128(5, 0)),
        Kind("decimal(38,0)", _any_of(_decimals(0, 38)), _read_whole, pa.decimal128(38, 0)),
        Kind("timestamp", _any_of(_TIMES), _as_it_is, pa.timestamp("us", "UTC")),
        Kind("binary", _any_of(_BYTES), _as_it_is, pa.binary(), is_in_json=False),
        Kind("void", lambda _: None, _as_it_is, is_in_json=False),
        *(_money(precision, scale) for precision, scale in ((10, 2), (18, 4), (38, 18))),
    ]


def _money(precision: int, scale: int) -> Kind:
    values = _decimals(scale, precision)
    arrow = pa.decimal128(precision, scale)
    return Kind(f"decimal({precision},{scale})", _any_of(values), _read_money, arrow, rounded=_round_money)


PADDED = 4


def padded_kind() -> Kind:
    """Strings that a table stores with blanks up to a length, which filters see."""
    short = [text for text in _TEXTS if len(text) <= PADDED]
    return Kind(f"char({PADDED})", _any_of(short), lambda text: str(text).ljust(PADDED), is_in_json=False)


REFUSED: dict[str, str] = {
    "date": "date'2026-07-02'",
    "timestamp_ntz": "timestamp_ntz'2026-07-02 12:00:00'",
    "array": "array(1, 2)",
    "map": "map('a', 1)",
    "struct": "named_struct('a', 1)",
    "struct of nothing": "struct()",
    "variant": "parse_json('{\"a\": 1}')",
    "interval day to second": "interval '1 02:03:04' day to second",
    "interval hour": "interval '5' hour",
    "interval year to month": "interval '1-2' year to month",
    "interval": "make_interval(1, 2, 3)",
    "time": "time'12:30:00'",
}
"""Types that attributes cannot have, each with an expression of the type."""
NOT_KEPT = {
    **{kind: REFUSED[kind] for kind in ("variant", "interval year to month", "interval")},
    "array of intervals": "array(make_interval(1, 2, 3))",
    "struct of months": "named_struct('a', interval '1-2' year to month)",
    "struct with a name twice": "named_struct('a', 1, 'a', 2)",
    "array without elements": "array()",
}
"""Types that Arrow does not have: results cannot keep such columns."""


# -- matching ----------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """An event as filters see it."""

    notification: Notification
    unreadable: frozenset[str]
    """Attributes whose values cannot be read: no constraint on one of them holds."""


def row_of(cells: dict[str, tuple[Kind, Any]], *, rounding: bool) -> Row:
    """What a row of a table is; null is absent, and no attribute has an empty name."""
    values = {
        name: None if value is None else kind.read_as(value, rounding=rounding)
        for name, (kind, value) in cells.items()
        if name
    }
    unreadable = frozenset(name for name, value in values.items() if value is Unreadable.VALUE)
    kept = {name: value for name, value in values.items() if value is not None and not isinstance(value, Unreadable)}
    return Row(Notification(kept), unreadable)


def does_match(filter: Filter, row: Row) -> bool:
    """By the model; a constraint on what cannot be read fails, whatever it says."""
    if row.unreadable and any(constraint.name in row.unreadable for constraint in filter):
        return False
    return filter.matches(row.notification)


def literal_near(random: Random, kind: Kind) -> str:
    """A literal such as one compares values of the kind with: one of them, one beside it, or of another type."""
    if random.random() < 0.15:
        return random.choice(['"a"', "5", "5.0", "true", "2026-07-02T12:00:00Z", 'b"ab"', '""', "-0.0", str(2**53 + 1)])
    value = kind.draw(random)
    read = "" if value is None else kind.read_as(value, rounding=random.random() < 0.5)
    if isinstance(read, Unreadable):
        return random.choice(["5", "0.1", '"a"'])
    return _literal(_moved(random, read))


def _moved(random: Random, value: Cell) -> Cell:
    if random.random() < 0.6 or isinstance(value, bool | str | bytes):
        return value
    if isinstance(value, datetime):
        return min(
            max(value + timedelta(microseconds=random.choice([-1, 1])), _EPOCH - timedelta(days=10**5)), _TIMES[-1]
        )
    if isinstance(value, int):
        return random.choice([min(value + 1, 2**63 - 1), max(value - 1, -(2**63)), float(value)])
    assert isinstance(value, float)
    return random.choice([math.nextafter(value, 1e308), math.nextafter(value, -1e308), *_as_whole(value)])


def _as_whole(value: float) -> list[Cell]:
    return [int(value)] if value.is_integer() and abs(value) < 2**63 else [value / 2]


def _literal(value: Cell) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + "".join(_escaped(letter) for letter in value) + '"'
        case bytes():
            return 'b"' + "".join(f"\\x{byte:02x}" for byte in value) + '"'
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return repr(value)


def _escaped(letter: str) -> str:
    return "\\" + letter if letter in '"\\' else f"\\u{ord(letter):04x}" if letter < " " else letter
