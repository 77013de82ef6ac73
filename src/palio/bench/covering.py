"""How the covering order grows: inserting, asking and removing at several sizes of the same population.

Every round builds the order anew: it inserts a few elements, asks about them so that the index is kept up to date from
the beginning, inserts the rest, asks about elements that are not in it, and removes a quarter. Times are those of the
processor, for one thread, the best of several rounds. Canonical forms are computed beforehand and measured separately.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from time import process_time
from typing import NamedTuple, TypeVar

from palio.bench.populations import SUBSCRIPTIONS, advertisements, subscriptions
from palio.bench.report import Figure, Report
from palio.matching import CoveringOrder
from palio.model import Advertisement, Filter

SIZES = (12_500, 25_000, 50_000, 100_000)
_ADVERTISEMENTS = "advertisements"
POPULATIONS = (*SUBSCRIPTIONS, _ADVERTISEMENTS)
_ROUNDS = 3
_QUESTIONS = 300
_WALKS = 5

E = TypeVar("E", Filter, Advertisement)


class _Cost(NamedTuple):
    """Seconds for so many operations, and how many elements each one found."""

    seconds: float
    operations: int
    answers: float = 0.0


def run(
    progress: Callable[[str], None] = lambda _: None,
    sizes: Sequence[int] = SIZES,
    populations: Sequence[str] = POPULATIONS,
) -> Report:
    """Measure everything; ``progress`` is told what comes next."""
    rows: list[dict[str, Figure]] = []
    for name in populations:
        if name == _ADVERTISEMENTS:
            rows += _measure(name, Advertisement, advertisements(), sizes, progress)
        else:
            rows += _measure(name, Filter, subscriptions(name), sizes, progress)
    return Report("covering", rows)


def _measure(
    population: str, kind: type[E], source: Iterator[E], sizes: Sequence[int], progress: Callable[[str], None]
) -> Iterator[dict[str, Figure]]:
    largest = max(sizes)
    progress(f"{population}: making {largest:,}")
    elements = list(islice(source, largest + _QUESTIONS))
    asked = elements[largest:]
    canonical = _seconds(lambda: [hash(element) for element in elements])[0] / len(elements)
    known: dict[tuple[int, str], float] = {}
    for size in sorted(sizes):
        progress(f"{population}, {size:,}")
        chosen = elements[:size]
        rounds = [_round(kind, chosen, asked) for _ in range(_ROUNDS)]
        walk = min(_seconds(_walk, chosen, asked[:_WALKS])[0] for _ in range(_ROUNDS)) / _WALKS
        costs = {operation: min(each[operation] for each in rounds) for operation in rounds[0]}
        for operation, cost in {"canonical form": _Cost(canonical * size, size), **costs}.items():
            half = known.get((size // 2, operation))
            if operation in costs:  # canonical forms are measured once, for all sizes
                known[size, operation] = cost.seconds
            yield {
                "population": population,
                "size": size,
                "operation": operation,
                "microseconds": cost.seconds / cost.operations * 1e6,
                "answers": cost.answers,
                "times_walk": cost.seconds / cost.operations / walk,
                "times_half": "" if half is None else cost.seconds / half,
            }


def _round(kind: type[E], elements: list[E], asked: list[E]) -> dict[str, _Cost]:
    order: CoveringOrder[E] = CoveringOrder(kind)
    early, leaving = len(elements) // 50, Random(0).sample(elements, len(elements) // 4)  # noqa: S311 (no secrets)

    def insert() -> int:
        for element in elements[:early]:
            order.insert(element)
        for element in elements[:early]:
            order.covering(element)
            order.covered_by(element)
        for element in elements[early:]:
            order.insert(element)
        return len(order.maximal())

    def ask(question: Callable[[E], tuple[E, ...]]) -> _Cost:
        seconds, found = _seconds(lambda: sum(len(question(element)) for element in asked))
        return _Cost(seconds, len(asked), found / len(asked))

    building, maximal = _seconds(insert)
    covering, covered = ask(order.covering), ask(order.covered_by)
    removing, risen = _seconds(lambda: sum(len(order.remove(element).risen) for element in leaving))
    return {
        "insert": _Cost(building, len(elements), maximal),
        "covering": covering,
        "covered_by": covered,
        "remove": _Cost(removing, len(leaving), risen / len(leaving)),
    }


def _walk(elements: list[E], asked: list[E]) -> int:
    """What a list instead of the order would do for a question."""
    return sum(element.covers(each) for each in asked for element in elements)


R = TypeVar("R")


def _seconds(work: Callable[..., R], *arguments: object) -> tuple[float, R]:
    """The processor's time for some work, and what came of it; garbage is collected before and not meanwhile."""
    gc.collect()
    gc.disable()
    try:
        start = process_time()
        result = work(*arguments)
        return process_time() - start, result
    finally:
        gc.enable()
