"""Which files a reader takes, whenever it lists the folder."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio.archive.rolls import Part, Roll, current, sort_out


def names(roll: Roll, count: int) -> list[str]:
    return [f"2026-11-16/{Part(roll, number, count)}" for number in range(1, count + 1)]


@given(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**30), st.integers(1, 500), st.integers(1, 500))
def test_names_say_it(incarnation: int, first: int, more: int, number: int, beyond: int) -> None:
    part = Part(Roll(incarnation, first, first + more), number, number + beyond - 1)
    assert Part.parse(f"folder/{part}") == part


def test_other_names_are_no_parts() -> None:
    for name in (
        "part-00000-1.snappy.parquet",
        "palio-1-0000000002-0000000001-1of1.parquet",
        "palio-1-0000000001-0000000002-3of2.parquet",
        "palio-1-0000000001-0000000002-0of2.parquet",
        ".palio-1-0000000001-0000000002-1of1.parquet",
        "palio-1-0000000001-0000000002-1of1.parquet.tmp",
    ):
        assert Part.parse(name) is None
        assert sort_out([name]).others == (name,)


@given(st.data())
def test_at_every_moment_of_a_compaction_each_position_counts_once(data: st.DataObject) -> None:
    """Files of rolls get their names one by one, larger ones come, replaced ones go in any order: no matter when."""
    width = data.draw(st.integers(1, 6))
    small = {Roll(1, n, n): data.draw(st.integers(1, 3)) for n in range(width)}
    there = [name for roll, count in small.items() for name in names(roll, count)]
    inner = set(small)
    for _ in range(data.draw(st.integers(1, 3))):  # compacted, and compacted again
        first = data.draw(st.integers(0, width - 1))
        last = data.draw(st.integers(first, width - 1))
        inside = [roll for roll in inner if first <= roll.first <= last]
        if len(inside) < 2:
            continue
        large = Roll(1, min(roll.first for roll in inside), max(roll.last for roll in inside))
        for name in data.draw(st.permutations(names(large, data.draw(st.integers(1, 3))))):
            there.append(name)
            check(there, width)
        gone = [name for name in there if (part := Part.parse(name)) is not None and part.roll in inside]
        for name in data.draw(st.permutations(gone))[: data.draw(st.integers(0, len(gone)))]:
            there.remove(name)
            check(there, width)
        inner = (inner - set(inside)) | {large}


def check(there: list[str], width: int) -> None:
    counted = [position for roll in sort_out(there).current for position in range(roll.first, roll.last + 1)]
    assert counted == list(range(width))
    assert not sort_out(there).incomplete


def test_a_damaged_roll_counts_as_far_as_it_is_there() -> None:
    roll = Roll(1, 0, 9)
    left = names(roll, 3)[:2]
    assert current(left) == left
    assert sort_out(left).incomplete == (roll,)


def test_incarnations_do_not_mix() -> None:
    older, newer = names(Roll(1, 3, 4), 1), names(Roll(2, 0, 9), 1)
    assert current([*newer, *older]) == [*older, *newer]
