"""Timing small operations on a noisy machine."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

_LEAST_SECONDS = 0.05
_ROUNDS = 5
_LONG_ROUND = 0.3
_LEAST_ROUNDS = 3
_ALL_ROUNDS = 1.0


def seconds_per_call(operation: Callable[[], object]) -> float:
    """The time of one call: the best of several rounds, each long enough for the clock.

    The best, because whatever else the machine does only ever adds time.
    """
    number = 1
    while _round(operation, number) < _LEAST_SECONDS:
        number *= 2
    return min(_round(operation, number) for _ in range(_ROUNDS)) / number


def seconds_per_item(prepare: Callable[[int], Callable[[], object]], available: int) -> tuple[float, int]:
    """The time that one item takes, and how many were done together: as many as fill a round, or as there are.

    ``prepare`` gives an operation on the first so many items. The best of several rounds; of slow items few are done,
    so that every measurement takes about a second.
    """
    count = 1
    while (seconds := _round(prepare(count), 1)) < _LONG_ROUND and count < available:
        count = min(available, max(count * 2, int(count * min(_LONG_ROUND / max(seconds, 1e-9), 100.0))))
    operation = prepare(count)
    rounds, spent = 0, 0.0
    while rounds < _LEAST_ROUNDS or spent < _ALL_ROUNDS:
        this = _round(operation, 1)
        seconds, rounds, spent = min(seconds, this), rounds + 1, spent + this
    return seconds / count, count


def _round(operation: Callable[[], object], number: int) -> float:
    repetitions = [None] * number
    with without_gc():
        start = perf_counter()
        for _ in repetitions:
            operation()
        return perf_counter() - start


@contextmanager
def without_gc() -> Iterator[None]:
    """No collection of garbage meanwhile: it would strike at random, and takes long when there are many objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
