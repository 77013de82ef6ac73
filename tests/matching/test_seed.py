"""The seed of an index: what it guards against, and that it changes no answer."""

from __future__ import annotations

import struct
from math import isfinite
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Constraint, Filter, Notification
from palio.errors import CallerError
from palio.matching import FilterIndex, LinearScan
from tests.matching.strategies import examples, meetings
from tests.matching.twins import column_batches, flat, pairs_of

WORD = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


def scatter(word: int) -> int:
    word &= WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def mix(left: int, right: int) -> int:
    product = left * right
    return (product ^ product >> 64) & WORD


def colliding_literals(count: int, seed: int) -> list[bytes]:
    """Literals of sixteen bytes that all have one hash in an index of this seed: the second half undoes the first."""
    start, factor = scatter(seed + STEP), scatter(seed + 2 * STEP) | 1
    halves = []
    for first in range(1, count + 1):
        state = mix(start ^ first, factor)
        halves.append(first.to_bytes(8, "little") + (state ^ 12345).to_bytes(8, "little"))
    return halves


def filters_on(literals: list[bytes]) -> list[Filter]:
    return [Filter((Constraint("x", "=", literal),)) for literal in literals]


def test_literals_chosen_for_one_seed_collide_there_and_nowhere_else() -> None:
    filters = filters_on(colliding_literals(5_000, seed=0))
    known, secret = FilterIndex(filters), FilterIndex(filters, seed=2**63 + 25)
    overflow = 64 * (5_000 / 7)  # what does not fit its place in the table takes 64 bytes for seven
    assert known.memory_usage() - secret.memory_usage() > overflow / 2


def test_colliding_literals_are_told_apart_all_the_same() -> None:
    literals = colliding_literals(300, seed=7)
    index = FilterIndex(filters_on(literals), seed=7)
    for id, literal in enumerate(literals):
        assert index.match(Notification(x=literal)) == [id]
    for id in range(0, 300, 2):
        index.remove(id)
    assert [index.match(Notification(x=literal)) for literal in literals[:4]] == [[], [1], [], [3]]


@examples(1)
@given(meetings(), st.integers(0, 2**64 - 1))
def test_answers_do_not_depend_on_the_seed(meeting: tuple[list[Filter], list[Notification]], seed: int) -> None:
    filters, events = meeting
    index, oracle = FilterIndex(filters, seed=seed), LinearScan(filters)
    for event in events:
        assert index.match(event) == oracle.match(event)
    for members, batch in column_batches(events):
        assert pairs_of(index.match_batch(batch)) == flat(oracle.match(event) for event in members)


WHOLE, REAL = 1, 2
"""What the hash of a number starts from, besides its bits."""


def number_hash(bits: int, code: int, seed: int) -> int:
    start, factor = scatter(seed + STEP), scatter(seed + 2 * STEP) | 1
    hash = (bits ^ start) * factor & WORD
    return (hash ^ hash >> 32) * (factor + 2 * code) & WORD


def bits_with_hash(hash: int, code: int, seed: int) -> int:
    """The other way round: every step can be undone."""
    start, factor = scatter(seed + STEP), scatter(seed + 2 * STEP) | 1
    hash = hash * pow(factor + 2 * code, -1, 2**64) & WORD
    return (hash ^ hash >> 32) * pow(factor, -1, 2**64) & WORD ^ start


def test_a_float_whose_hash_is_that_of_an_integer_differs_from_it() -> None:
    pairs = []
    for whole in range(200):
        (real,) = struct.unpack("<d", bits_with_hash(number_hash(whole, WHOLE, 5), REAL, 5).to_bytes(8, "little"))
        if isfinite(real) and real != int(real):
            pairs.append((whole, real))
    assert len(pairs) > 50
    index = FilterIndex((Filter((Constraint("x", "!=", whole),)) for whole, _ in pairs), seed=5)
    for place, (whole, real) in enumerate(pairs):
        assert index.match(Notification(x=real)) == list(range(len(pairs)))
        assert index.match(Notification(x=float(whole))) == [id for id in range(len(pairs)) if id != place]


def test_a_file_keeps_its_seed(tmp_path: Path) -> None:
    filters = filters_on([bytes([i]) * 20 for i in range(100)])
    index = FilterIndex(filters, seed=99)
    index.dump(tmp_path / "index")
    opened = FilterIndex.open(tmp_path / "index")
    assert opened.match(Notification(x=bytes([42]) * 20)) == [42]
    assert opened.dumps() == index.dumps() != FilterIndex(filters, seed=98).dumps()


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, True, "1", None])
def test_a_seed_that_is_none_is_refused(seed: object) -> None:
    with pytest.raises(CallerError, match=r"seed: .* is no integer from 0 to 2\*\*64 - 1"):
        FilterIndex(seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_the_least_and_the_greatest_seed_are_taken(seed: int) -> None:
    assert FilterIndex(filters_on([b"a"]), seed=seed).match(Notification(x=b"a")) == [0]
