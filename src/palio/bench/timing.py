"""Timing small operations on a noisy machine."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

_LEAST_SECONDS = 0.05
_ROUNDS = 5


def seconds_per_call(operation: Callable[[], object]) -> float:
    """The time of one call: the best of several rounds, each long enough for the clock.

    The best, because whatever else the machine does only ever adds time.
    """
    number = 1
    while _round(operation, number) < _LEAST_SECONDS:
        number *= 2
    return min(_round(operation, number) for _ in range(_ROUNDS)) / number


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
