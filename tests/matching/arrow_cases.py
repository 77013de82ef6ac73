"""What the tests of Arrow batches share: arrays of every type at random, and what each cell must come out as.

The arrays are built from raw buffers, with arbitrary values under the nulls. What is expected is computed from the same
raw values in exact Python arithmetic.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from palio._core import arrow_rows
from palio.model.value import Value

LIMITS = {"attributes": 1_024, "name_bytes": 256, "value_bytes": 64}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ["UTC", "Europe/Rome", "+05:30", "America/New_York", "-00:01"]


def rows(batch: object, *, round_decimals: bool = False, **limits: int) -> list[dict[str, Value]]:
    return arrow_rows(batch, round_decimals=round_decimals, **(LIMITS | limits))


def exact(value: object) -> object:
    """Everything about a value: its class, and the sign of a zero."""
    return type(value), value.hex() if isinstance(value, float) else value


def exact_rows(found: list[dict[str, Any]]) -> list[dict[str, object]]:
    return [{name: exact(value) for name, value in row.items()} for row in found]


class RefusedError(Exception):
    """The raw value has no counterpart; the text is part of the message that must say so."""


@dataclass(frozen=True)
class Case:
    """A type of Arrow, its raw values, the buffers they make, and what each must be read as."""

    type: pa.DataType
    raws: st.SearchStrategy[Any]
    buffers: Callable[[list[Any]], list[pa.Buffer]]
    expect: Callable[[Any], Value]

    def array(self, raws: list[Any], present: list[bool] | None = None) -> pa.Array:
        """An array of raw values; those not present are null but keep their raw value underneath."""
        validity = None if present is None else pa.py_buffer(bits(present))
        return pa.Array.from_buffers(self.type, len(raws), [validity, *self.buffers(raws)])


def bits(flags: list[bool]) -> bytes:
    number = sum(1 << place for place, flag in enumerate(flags) if flag)
    return number.to_bytes(len(flags) // 8 + 1, "little")


# -- numbers -----------------------------------------------------------------------------------------------------------


def packed(code: str) -> Callable[[list[Any]], list[pa.Buffer]]:
    return lambda raws: [pa.py_buffer(struct.pack(f"<{len(raws)}{code}", *raws))]


def integer(raw: int) -> int:
    if not -(2**63) <= raw < 2**63:
        raise RefusedError("integer outside the signed 64-bit range; cast")
    return raw


def integers(bits_: int, *, signed: bool) -> Case:
    low, high = (-(2 ** (bits_ - 1)), 2 ** (bits_ - 1) - 1) if signed else (0, 2**bits_ - 1)
    edges = st.sampled_from([low, high, high - 1, 0, min(high, 2**53 + 1), min(high, 2**63 - 1), min(high, 2**63)])
    code = {8: "b", 16: "h", 32: "i", 64: "q"}[bits_]
    of = getattr(pa, f"{'' if signed else 'u'}int{bits_}")()
    return Case(of, st.integers(low, high) | edges, packed(code if signed else code.upper()), integer)


def real(raw: float) -> float:
    if not math.isfinite(raw):
        raise RefusedError("float that is NaN or infinite; make it null")
    return raw


def reals(of: pa.DataType, code: str, width: int) -> Case:
    """Floats as raw bits, so that every one of them can come."""
    word = {2: "H", 4: "I", 8: "Q"}[width]
    chosen = [-0.0, 0.0, 1.5, 5.0, math.nan, math.inf, -math.inf, 2.0**-24, -(2.0**-24)]
    if width == 8:
        chosen += [5e-324, 2.0**53 + 2, 1.7976931348623157e308]
    edges = st.sampled_from([struct.unpack(word, struct.pack(code, number))[0] for number in chosen])

    def expect(raw: int) -> float:
        return real(struct.unpack(code, struct.pack(word, raw))[0])

    return Case(of, st.integers(0, 2 ** (8 * width) - 1) | edges, packed(word), expect)


WIDE = Context(prec=100, Emin=-9999, Emax=9999)


def is_short(number: Decimal) -> bool:
    """Whether a decimal has a float of its own among all such decimals."""
    return len(number.normalize(WIDE).as_tuple().digits) <= 15 and abs(number) <= 2**53


def decimals(of: Callable[[int, int], pa.DataType], precision: int, width: int, scale: int) -> Case:
    low, high = -(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1
    # Numbers of few digits with zeros at the end are the ones that may be floats; so they must not be left to chance.
    lucky = st.tuples(st.integers(-(10**16), 10**16), st.integers(0, 60)).map(lambda pair: pair[0] * 10 ** pair[1])
    raws = st.integers(low, high) | st.integers(-999, 999) | lucky.filter(lambda raw: low <= raw <= high)

    def buffers(found: list[int]) -> list[pa.Buffer]:
        return [pa.py_buffer(b"".join(raw.to_bytes(width, "little", signed=True) for raw in found))]

    def expect(raw: int) -> Value:
        number = Fraction(raw) / Fraction(10) ** scale
        if scale <= 0:
            if not -(2**63) <= number < 2**63:
                raise RefusedError("decimal outside the signed 64-bit range; cast")
            return int(number)
        if not is_short(Decimal(raw).scaleb(-scale, WIDE)):
            raise RefusedError("decimal of more than 15 digits, or beyond 2**53; let round_decimals round it")
        return float(number)

    edges = st.sampled_from([low, high, 0, 1, -1, max(low, -(2**63)), min(high, 2**63 - 1), min(high, 2**63)])
    return Case(of(precision, scale), raws | edges, buffers, expect)


# -- times -------------------------------------------------------------------------------------------------------------

FIRST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
LAST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def times(unit: str, zone: str) -> Case:
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]

    def expect(raw: int) -> datetime:
        microseconds = Fraction(raw, per_second) * 1_000_000
        if microseconds.denominator != 1:
            raise RefusedError("time finer than a microsecond; round it")
        if not FIRST <= microseconds <= LAST:
            raise RefusedError("time outside years 1 to 9999; make it null")
        return EPOCH + timedelta(microseconds=int(microseconds))

    ends = [FIRST * per_second // 1_000_000, LAST * per_second // 1_000_000]
    edges = [end + step for end in ends for step in (-1, 0, 1) if abs(end) < 2**62]
    plain = st.integers(-(10**9), 10**9).map(lambda raw: raw * max(per_second // 1_000_000, 1))
    raws = plain | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([*edges, 0, -1000, 1, -1])
    return Case(pa.timestamp(unit, zone), raws, packed("q"), expect)


# -- text --------------------------------------------------------------------------------------------------------------

BROKEN = [b"\xff", b"caf\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a" * 20 + b"\x80"]
TEXTS = st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace"))
RAW_TEXT = TEXTS | st.binary(max_size=5) | st.sampled_from([b"", b"x" * 8, b"x" * 12, b"x" * 13, b"x" * 64, *BROKEN])
LONG = st.sampled_from([b"y" * 65, b"z" * 200])


def string(raw: bytes) -> str:
    if len(raw) > LIMITS["value_bytes"]:
        raise RefusedError("limit 'value_bytes'")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise RefusedError("string that is not valid UTF-8; mend it") from None


def binary(raw: bytes) -> bytes:
    if len(raw) > LIMITS["value_bytes"]:
        raise RefusedError("limit 'value_bytes'")
    return raw


def texts(of: pa.DataType, plain: pa.DataType, expect: Callable[[bytes], Value]) -> Case:
    """Text of any type, from its binary sibling."""
    return Case(of, RAW_TEXT | LONG, lambda raws: pa.array(raws, plain).buffers()[1:], expect)


def fixed(width: int) -> Case:
    raws = st.binary(min_size=width, max_size=width)
    return Case(pa.binary(width), raws, lambda found: [pa.py_buffer(b"".join(found))], binary)


def booleans() -> Case:
    return Case(pa.bool_(), st.booleans(), lambda raws: [pa.py_buffer(bits(raws))], bool)


CASES = [
    booleans(),
    *(integers(width, signed=signed) for width in (8, 16, 32, 64) for signed in (True, False)),
    reals(pa.float16(), "e", 2),
    reals(pa.float32(), "f", 4),
    reals(pa.float64(), "d", 8),
    texts(pa.string(), pa.binary(), string),
    texts(pa.large_string(), pa.large_binary(), string),
    texts(pa.string_view(), pa.binary_view(), string),
    texts(pa.binary(), pa.binary(), binary),
    texts(pa.large_binary(), pa.large_binary(), binary),
    texts(pa.binary_view(), pa.binary_view(), binary),
    *(fixed(width) for width in (0, 1, 8, 64, 65)),
    *(times(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ZONES[:2]),
    *(times("us", zone) for zone in ZONES[2:]),
    *(decimals(pa.decimal32, 9, 4, scale) for scale in (-3, 0, 1, 5, 13)),
    *(decimals(pa.decimal64, 18, 8, scale) for scale in (-2, 0, 2, 27, 28)),
    *(decimals(pa.decimal128, 38, 16, scale) for scale in (-20, -1, 0, 1, 3, 28, 54, 80)),
    *(decimals(pa.decimal256, 76, 32, scale) for scale in (-1, 0, 2, 40, 109, 120)),
]


def is_shown(of: pa.DataType) -> bool:
    """Whether pyarrow can show all values: it fails at year 1 west of Greenwich and at scales beyond the precision."""
    return getattr(of, "tz", "UTC") == "UTC" and not (pa.types.is_decimal(of) and of.scale > of.precision)


def from_pylist(value: object, of: pa.DataType) -> object:
    """What pyarrow's own conversion gives, as a value of the model; it knows no zone-free instants or decimals."""
    if isinstance(value, datetime):  # of pandas, if that is installed and the type is finer than microseconds
        return datetime.combine(value.date(), value.timetz()).astimezone(UTC)
    if isinstance(value, Decimal):
        return int(value) if of.scale <= 0 else float(value)
    return value
