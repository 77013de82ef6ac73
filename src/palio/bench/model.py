"""How fast the model is in Python: parsing, matching one notification, covering.

The compiled index is what matches many filters; these figures say what one filter costs without it. Covering is also
measured against its size: the time per constraint must not grow with the number of constraints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from palio import codec
from palio.bench.report import Figure, Report
from palio.bench.timing import seconds_per_call
from palio.errors import InternalError
from palio.model import Constraint, Filter, Notification

_ALARM = 'event = "alarm" and level > 3 and level < 7'
_STOCK = 'event >* "finance/exchanges/" and exchange = "NYSE" and symbol = "DIS" and float change < 0'
_TICK = Notification(
    event="finance/exchanges/stock", exchange="NYSE", symbol="DIS", name="Walt Disney Co.", prior=105.25, change=-4.0
)
SIZES = (4, 16, 64, 256)
"""Numbers of constraints on each side at which covering is measured."""


class Case(NamedTuple):
    """One operation, beside something that does comparable work in the usual way."""

    operation: str
    subject: str
    constraints: int
    run: Callable[[], object]
    baseline: str
    run_baseline: Callable[[], object]


def run(progress: Callable[[str], None] = lambda _: None) -> Report:
    """Measure everything; ``progress`` is told what comes next."""
    rows: list[dict[str, Figure]] = []
    for case in (*_single_cases(), *_covering_cases()):
        progress(f"{case.operation}, {case.subject}, {case.constraints} constraints")
        seconds, baseline = seconds_per_call(case.run), seconds_per_call(case.run_baseline)
        rows.append(
            {
                "operation": case.operation,
                "subject": case.subject,
                "constraints": case.constraints,
                "operations_per_second": 1 / seconds,
                "microseconds": seconds * 1e6,
                "baseline": case.baseline,
                "times_baseline": seconds / baseline,
            }
        )
    return Report("model", rows)


def _single_cases() -> Iterator[Case]:
    filter, other = Filter.parse(_STOCK), Filter.parse("symbol = 'DIS' and change < -1 and exchange = 'NYSE'")
    narrow = Filter.parse(_STOCK + ' and float change < -2 and name *< "Co."')
    miss = Notification(event="weather", exchange="NYSE", symbol="DIS")
    for text in (_ALARM, _STOCK):
        encoded = codec.json.encode(Filter.parse(text))
        yield Case(
            "parse",
            "text",
            len(Filter.parse(text)),
            partial(Filter.parse, text),
            "json.loads",
            partial(json.loads, encoded),
        )
    tick, missing = dict(_TICK), dict(miss)
    by_hand, naively = "by hand", "naive"
    yield Case("match", "all hold", 4, lambda: filter.matches(_TICK), by_hand, lambda: _by_hand(tick))
    yield Case("match", "first fails", 4, lambda: filter.matches(miss), by_hand, lambda: _by_hand(missing))
    yield Case("covers", "yes", 4, lambda: filter.covers(narrow), naively, lambda: _covers_naively(filter, narrow))
    yield Case("covers", "no", 4, lambda: filter.covers(other), naively, lambda: _covers_naively(filter, other))
    yield Case(
        "covers",
        "yes, both new",
        4,
        lambda: Filter(filter.constraints).covers(Filter(narrow.constraints)),
        "known",
        lambda: filter.covers(narrow),
    )


def _by_hand(attributes: Mapping[str, object]) -> bool:
    """What a programmer would write instead of the filter, types checked as the filter checks them."""
    event, change = attributes.get("event"), attributes.get("change")
    return (
        isinstance(event, str)
        and event.startswith("finance/exchanges/")
        and attributes.get("exchange") == "NYSE"
        and attributes.get("symbol") == "DIS"
        and isinstance(change, float)
        and change < 0
    )


def _covering_cases() -> Iterator[Case]:
    """Each population at several sizes; the baseline is as many constraints in portions of the smallest size."""
    for subject, build in _POPULATIONS.items():
        smallest = _pair(build, SIZES[0])
        for size in SIZES[1:]:
            wide, narrow = _pair(build, size)
            if not wide.covers(narrow):
                raise InternalError(f"{subject}: the benchmark's filters do not cover each other")
            portions = size // SIZES[0]
            yield Case(
                "covers",
                subject,
                size,
                partial(wide.covers, narrow),
                f"{portions} x {SIZES[0]}",
                partial(_repeat, portions, *smallest),
            )


def _repeat(times: int, wide: Filter, narrow: Filter) -> None:
    for _ in range(times):
        wide.covers(narrow)


_POPULATIONS: dict[str, Callable[[int, bool], list[Constraint]]] = {
    "ranges": lambda n, wide: [Constraint(f"a{i}", ">", i - wide) for i in range(n)],
    "not these": lambda n, wide: [Constraint("x", "!=", 2 * i) for i in range(n)] + [Constraint("x", ">", -1 - wide)],
    "containing": lambda n, wide: [Constraint("x", "*", f"{i:05d}" if wide else f"{i:05d}.") for i in range(n)],
    "not containing": lambda n, wide: [Constraint("x", "!*", f"{i:05d}." if wide else f"{i:05d}") for i in range(n)],
    "not ending": lambda n, wide: [Constraint("x", "!*<", f".{i:05d}" if wide else f"{i:05d}") for i in range(n)],
    "not these/parts": lambda n, wide: [Constraint("x", "!=" if wide else "!*", f"{i:05d}") for i in range(n)],
}
"""Filters of n constraints, on n names or all on one; with ``wide`` the covering filter, else the covered one."""


def _pair(build: Callable[[int, bool], list[Constraint]], size: int) -> tuple[Filter, Filter]:
    wide, narrow = Filter(build(size, True)), Filter(build(size, False))
    wide.value_sets()
    narrow.value_sets()
    return wide, narrow


def _covers_naively(wide: Filter, narrow: Filter) -> bool:
    """Covering as in the papers: each constraint of one implied by a single constraint of the other.

    Only what the measured filters need: equality, a lower or upper bound, a prefix.
    """
    return all(any(_implies(given, wanted) for given in narrow.constraints) for wanted in wide.constraints)


def _implies(given: Constraint, wanted: Constraint) -> bool:
    if given.name != wanted.name or given.type is not wanted.type:
        return False
    if given.operator is wanted.operator and given.value == wanted.value:
        return True
    if given.operator.value == "=":
        return wanted.matches_value(given.value)
    if given.operator.value == wanted.operator.value == "<":
        return given.value <= wanted.value  # type: ignore[operator]
    return given.operator.value == wanted.operator.value == ">*" and str(given.value).startswith(str(wanted.value))
