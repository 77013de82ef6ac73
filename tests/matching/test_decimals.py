"""Decimals in Arrow batches: which have a value, and that filters compare them as decimal arithmetic does."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from palio import Filter, Limits
from palio.errors import InvalidValueError
from palio.matching import FilterIndex
from tests.matching.arrow_cases import is_short, rows
from tests.matching.twins import pairs_of

EXACT = Context(prec=100, Emin=-9999, Emax=9999)
COMPARISONS = {
    "=": Decimal.__eq__,
    "!=": Decimal.__ne__,
    "<": Decimal.__lt__,
    "<=": Decimal.__le__,
    ">": Decimal.__gt__,
    ">=": Decimal.__ge__,
}
DIGITS = st.integers(-(10**15) + 1, 10**15 - 1)
SCALES = st.integers(1, 38)


def column(number: Decimal, scale: int, width: int = 256) -> pa.Array:
    """A column of one decimal, made from its bytes: pyarrow wants to check precisions."""
    raw = int(number.scaleb(scale, EXACT)).to_bytes(width // 8, "little", signed=True)
    of = {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}[width]
    return pa.Array.from_buffers(of(9 if width == 32 else 18, scale), 1, [None, pa.py_buffer(raw)])


def read(number: Decimal, scale: int, *, round_decimals: bool = False) -> object:
    return rows(pa.record_batch({"x": column(number, scale)}), round_decimals=round_decimals)[0]["x"]


@st.composite
def short_pairs(draw: st.DrawFn) -> tuple[Decimal, int, Decimal]:
    """A decimal of up to 15 digits with its scale, and a literal of up to 15 digits, often a neighbour or the same."""
    scale = draw(SCALES)
    number = Decimal(draw(DIGITS)).scaleb(-draw(st.integers(-1, scale)), EXACT)
    near = number.next_plus(Context(prec=15)) if draw(st.booleans()) else number.next_minus(Context(prec=15))
    other = Decimal(draw(DIGITS)).scaleb(-draw(st.integers(-30, 30)), EXACT)
    return number, scale, draw(st.sampled_from([number, near, other, -number, Decimal(int(number))]))


@given(short_pairs(), st.sampled_from(sorted(COMPARISONS)), st.booleans())
@example((Decimal("9.99"), 2, Decimal("9.99")), "=", False)
@example((Decimal(2**53 - 2), 2, Decimal(2**53 - 1)), "<", True)
def test_comparisons_agree_with_decimal_arithmetic(
    pair: tuple[Decimal, int, Decimal], operator: str, is_plain: bool
) -> None:
    number, scale, literal = pair
    assume(is_short(number) and is_short(literal.scaleb(-40, EXACT)) and abs(literal.adjusted()) < 300)
    text = f"{literal:f}" if is_plain and abs(literal.adjusted()) < 18 else f"{literal:e}"
    assume("." in text or "e" in text or abs(literal) < 2**63)
    index = FilterIndex([Filter.parse(f"x {operator} {text}")])
    found = index.match_batch(pa.record_batch({"x": column(number, scale)}))
    assert bool(pairs_of(found)) is bool(COMPARISONS[operator](number, literal))


@given(st.integers(-(10**37), 10**37), SCALES, st.integers(0, 30))
@example(10**15, 1, 0)
@example(10**15 - 1, 1, 0)
@example(2**53, 1, 1)
@example(2**53 + 2, 1, 1)
@example(900719925474099, 1, 2)
@example(900719925474100, 1, 2)
@example(10**15 * 5 + 5, 2, 0)  # 50000000000000.05 is longer than any float can say
def test_a_decimal_is_the_nearest_float_if_it_is_short(whole: int, scale: int, zeros: int) -> None:
    number = Decimal(whole * 10**zeros).scaleb(-scale, EXACT)
    nearest = float(Fraction(number))
    if is_short(number):
        assert read(number, scale) == nearest
    else:
        with pytest.raises(InvalidValueError, match="column 'x', row 0: decimal of more than 15 digits, or beyond"):
            read(number, scale)
    assert read(number, scale, round_decimals=True) == nearest


def test_a_long_decimal_that_a_float_equals_is_refused_too() -> None:
    """It would be equal to a shorter decimal whose nearest float it is."""
    exact = Decimal("0.1000000000000000055511151231257827021181583404541015625")
    assert Fraction(exact) == Fraction(0.1)
    assert not is_short(exact)
    with pytest.raises(InvalidValueError, match="15 digits"):
        read(exact, 55)
    assert read(exact, 55, round_decimals=True) == read(Decimal("0.1"), 55) == 0.1


@pytest.mark.parametrize("width", [32, 64, 128, 256])
def test_decimals_of_every_width(width: int) -> None:
    for text in ("0", "0.01", "-0.01", "12345.67", "-12345.67"):
        of = column(Decimal(text), 2, width)
        assert rows(pa.record_batch({"x": of})) == [{"x": float(text)}]


@pytest.mark.parametrize("scale", [300, 307, 308, 320, 400, 2**31 - 1])
def test_decimals_of_hardly_anything(scale: int) -> None:
    """Below the least float that has all its bits, different decimals are the same float."""
    of = pa.Array.from_buffers(
        pa.decimal256(76, scale), 2, [None, pa.py_buffer((3).to_bytes(32, "little") + bytes(32))]
    )
    batch = pa.record_batch({"x": of})
    if scale <= 308:
        assert rows(batch)[0] == {"x": float(f"3e-{scale}")}
    else:
        with pytest.raises(InvalidValueError, match="15 digits"):
            rows(batch)
    assert rows(batch, round_decimals=True) == [{"x": float(f"3e-{scale}")}, {"x": 0.0}]


def test_rounding_makes_no_integers_of_what_is_beyond_64_bits() -> None:
    of = pa.array([Decimal(2**63), Decimal(2**63 - 1)], pa.decimal128(20, 0))
    index = FilterIndex([Filter.parse("x any")], limits=Limits())
    found = index.match_batch(pa.record_batch({"x": of}), report_unreadable=True, round_decimals=True)
    assert pairs_of(found) == [(1, 0)]
    assert "outside the signed 64-bit range" in str(found.unreadable[0].error)


def test_every_call_rounds_if_it_is_told_to() -> None:
    index = FilterIndex([Filter.parse("x > 1234567890123456")])
    batch = pa.record_batch({"x": pa.array([Decimal("1234567890123456.78")], pa.decimal128(20, 2))})
    counts = pa.array([0], pa.int64()).to_numpy().copy()
    assert pairs_of(index.match_batch(batch, round_decimals=True)) == [(0, 0)]
    assert index.match_counts(batch, round_decimals=True).tolist() == [1]
    assert index.tally(batch, counts, round_decimals=True) == []
    assert counts.tolist() == [1]
    with pytest.raises(InvalidValueError):
        index.match_counts(batch)
