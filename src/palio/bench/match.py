"""How fast the index finds the filters that match: beside a linear scan, counting, and a hash made for workload W1.

Every run first checks that all engines find the same filters and that the model agrees. Filters and events are drawn,
and events brought into the form that is measured, before the clock starts.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from palio.bench._baselines import Counting, Linear, PairHash
from palio.bench.report import Figure, Report
from palio.bench.timing import seconds_per_item, without_gc
from palio.bench.workloads import WORKLOADS, Workload, encode, record_batch
from palio.errors import InternalError
from palio.model import Filter, Notification

if TYPE_CHECKING:
    import pyarrow

ENGINES = ("index", "linear", "counting", "pairhash")
MODES = ("single", "encoded", "batch")
SIZES = (1000, 10_000, 100_000)
"""Numbers of filters that are measured unless others are asked for."""

_BASELINES: dict[str, type[Linear] | type[Counting] | type[PairHash]] = {
    "linear": Linear,
    "counting": Counting,
    "pairhash": PairHash,
}
_LARGEST = {"linear": 1_000_000, "counting": 1_000_000}
"""Beyond so many filters an engine takes longer than its figure is worth, and runs only if it is asked for."""
_EVENTS = 20_000
_MOST_PAIRS = 4_000_000
"""So large may the result of a batch be where nearly everything matches."""
_CHECKED_EVENTS = 20
_CHECKED_FILTERS = 1000
_OPERATIONS = 100_000
"""Single updates that are timed on an index of the full size; fewer on a small one."""
_OPENINGS = 3
_REFERENCE = 10_000
"""The number of filters that growth is measured from."""


class Index(Protocol):
    """What the benchmark asks of an index."""

    def add(self, filter: Filter, /) -> int: ...  # noqa: D102
    def add_many(self, filters: list[Filter], /) -> list[int]: ...  # noqa: D102
    def remove(self, id: int, /) -> None: ...  # noqa: D102
    def match(self, notification: Notification, /) -> list[int]: ...  # noqa: D102
    def match_encoded(self, body: bytes, /) -> list[int]: ...  # noqa: D102
    def match_batch(self, batch: Any, /) -> Any: ...  # noqa: D102
    def dump(self, path: Path, /) -> None: ...  # noqa: D102
    def memory_usage(self) -> int: ...  # noqa: D102
    def __len__(self) -> int: ...

    @classmethod
    def open(cls, path: Path, /) -> Index: ...  # noqa: D102


class _Case(NamedTuple):
    """A workload at one size, with its events in every form."""

    workload: Workload
    filters: list[Filter]
    events: list[Notification]
    bodies: list[bytes]
    batch: pyarrow.RecordBatch | None
    checked: int
    """So many events, from the first on, are matched by every engine to compare the results."""

    @property
    def title(self) -> str:
        return f"{self.workload.name}, {len(self.filters):,} filters"


def run(  # noqa: PLR0913 - each is an option of the command line
    workloads: Sequence[str] = tuple(WORKLOADS),
    sizes: Sequence[int] = SIZES,
    *,
    engines: Sequence[str] | None = None,
    modes: Sequence[str] = MODES,
    progress: Callable[[str], None] = lambda _: None,
    events: int | None = None,
) -> Report:
    """Measure the named engines (all of them, where that is sensible, if none is named); ``progress`` is told of it."""
    rows: list[dict[str, Figure]] = []
    notes: list[str] = []
    for name in workloads:
        for size in sizes:
            chosen = [each for each in engines or ENGINES if _takes(each, name, modes)]
            if engines is None:
                chosen = [each for each in chosen if not _is_too_large(each, name, size, notes)]
            if not chosen:
                continue
            progress(f"{name}, {size:,} filters: drawing")
            case = _draw(WORKLOADS[name], size, events or _EVENTS, modes if "index" in chosen else ())
            rows += _measure(case, chosen, modes, progress)
    _add_growth(rows)
    return Report("match", rows, notes)


def _takes(engine: str, workload: str, modes: Sequence[str]) -> bool:
    """Whether the engine can do that at all."""
    if engine == "pairhash" and workload not in ("W1", "W1e"):
        return False
    return engine == "index" or "batch" in modes


def _is_too_large(engine: str, workload: str, size: int, notes: list[str]) -> bool:
    if size <= _LARGEST.get(engine, size):
        return False
    notes.append(f"{workload}: {engine} was left out at {size:,} filters; ask for it with --engine {engine}")
    return True


def _draw(workload: Workload, size: int, most: int, modes: Sequence[str]) -> _Case:
    if workload.is_hostile:
        most = max(2, min(most, _MOST_PAIRS // size))
    events = workload.events(most, size=size)
    bodies = encode(events) if "encoded" in modes else []
    batch = record_batch(events) if "batch" in modes else None
    checked = min(2 if workload.is_hostile else _CHECKED_EVENTS, most)
    return _Case(workload, workload.filters(size), events, bodies, batch, checked)


class _Engine(Protocol):
    """An engine that holds the filters of a case."""

    def results(self) -> dict[str, list[list[int]]]:
        """By a title: for each of the checked events, the positions of the filters that match."""

    def measure(self) -> list[dict[str, Figure]]:
        """A row for each mode."""


def _measure(
    case: _Case, engines: Sequence[str], modes: Sequence[str], progress: Callable[[str], None]
) -> list[dict[str, Figure]]:
    built: dict[str, _Engine] = {}
    for name in engines:
        progress(f"{case.title}: adding to {name}")
        built[name] = _Index(case, modes) if name == "index" else _Baseline(case, name)
    progress(f"{case.title}: checking")
    _check(case, {title: found for engine in built.values() for title, found in engine.results().items()})
    rows: list[dict[str, Figure]] = []
    for name, engine in built.items():
        progress(f"{case.title}: measuring {name}")
        rows += engine.measure()
    batch = {row["engine"]: _seconds(row) for row in rows if row["mode"] == "batch"}
    write_out = _write_out(case) if case.workload.is_hostile else {}
    for row in rows:
        row["times_pairhash"] = _seconds(row) / batch["pairhash"] if "pairhash" in batch else None
        row["times_linear"] = _seconds(row) / batch["linear"] if "linear" in batch else None
        row["times_write_out"] = _seconds(row) / write_out[str(row["mode"])] if write_out else None
    return rows


def _seconds(row: dict[str, Figure]) -> float:
    rate = row["events_per_second"]
    assert isinstance(rate, float)
    return 1 / rate


def _row(case: _Case, engine: str, mode: str, **figures: Figure) -> dict[str, Figure]:
    """A row with every key; what is not said, or does not apply to the engine, stays empty."""
    row: dict[str, Figure] = dict.fromkeys(("workload", "filters", "engine", "mode", *_SPEED, *_UPKEEP))
    row |= {"workload": case.workload.name, "filters": len(case.filters), "engine": engine, "mode": mode}
    return row | figures


_SPEED = (
    "events_per_second",
    "matches_per_event",
    "events",
    "times_pairhash",
    "times_linear",
    "times_write_out",
    "times_10k",
)
_UPKEEP = (
    "bytes_per_filter",
    "adds_per_second",
    "bulk_adds_per_second",
    "removes_per_second",
    "add_p9999_microseconds",
    "add_max_microseconds",
    "remove_p9999_microseconds",
    "remove_max_microseconds",
    "open_milliseconds",
)


def _add_growth(rows: list[dict[str, Figure]]) -> None:
    """The time an event takes beside what it takes with 10,000 filters, where both were measured."""

    def subject(row: dict[str, Figure]) -> tuple[Figure, ...]:
        return row["workload"], row["engine"], row["mode"]

    known = {subject(row): _seconds(row) for row in rows if row["filters"] == _REFERENCE}
    for row in rows:
        row["times_10k"] = _seconds(row) / known[subject(row)] if subject(row) in known else None


# -- the engines of comparison -----------------------------------------------------------------------------------------


class _Baseline:
    def __init__(self, case: _Case, name: str) -> None:
        self._case, self._name, self._engine = case, name, _BASELINES[name]()
        start = perf_counter()
        self._engine.add(case.filters)
        self._adds_per_second = len(case.filters) / (perf_counter() - start)
        self._engine.prepare(case.events)

    def results(self) -> dict[str, list[list[int]]]:
        self._engine.match_all(0, self._case.checked)
        return {self._name: self._engine.results()}

    def measure(self) -> list[dict[str, Figure]]:
        engine = self._engine
        seconds, events = seconds_per_item(lambda count: lambda: engine.match_all(0, count), len(self._case.events))
        row = _row(
            self._case,
            self._name,
            "batch",
            events_per_second=1 / seconds,
            matches_per_event=engine.match_all(0, events) / events,
            events=events,
            bytes_per_filter=engine.memory_usage() / len(engine),
            bulk_adds_per_second=self._adds_per_second,
        )
        return [row]


def _write_out(case: _Case) -> dict[str, float]:
    """Seconds an event to write out the result, known beforehand: as arrays for a batch, as a list for single calls."""
    engine = Linear()
    engine.add(case.filters)
    engine.prepare(case.events)

    def arrays(count: int) -> Callable[[], object]:
        engine.match_all(0, count)
        return engine.write_out

    def lists(count: int) -> Callable[[], object]:
        engine.match_all(0, count)
        return lambda: _exhaust(engine.write_list(event) for event in range(count))

    batch, single = seconds_per_item(arrays, len(case.events))[0], seconds_per_item(lists, len(case.events))[0]
    return {"single": single, "encoded": single, "batch": batch}


def _exhaust(items: Iterable[object]) -> None:
    for _ in items:
        pass


# -- the index ---------------------------------------------------------------------------------------------------------


def _index_class() -> type[Index]:
    from palio.matching import FilterIndex  # noqa: PLC0415 - the other engines can be measured without it

    return FilterIndex


class _Index:
    def __init__(self, case: _Case, modes: Sequence[str]) -> None:
        self._case, self._modes, self._class = case, modes, _index_class()
        self._upkeep: dict[str, Figure] = {}
        self._results: dict[str, list[list[int]]] = {}
        with without_gc():
            index = self._class()
            start = perf_counter()
            ids = index.add_many(case.filters)
            self._upkeep["bulk_adds_per_second"] = len(case.filters) / (perf_counter() - start)
            self._results["index, filled at once"] = _positions(_match_checked(index, case, "single"), ids)
            index = self._class()  # and the other one goes
            start = perf_counter()
            ids = [index.add(each) for each in case.filters]
            self._upkeep["adds_per_second"] = len(case.filters) / (perf_counter() - start)
        self._index, self._ids = index, ids

    def results(self) -> dict[str, list[list[int]]]:
        modes = {f"index, {mode}": _match_checked(self._index, self._case, mode) for mode in self._modes}
        return self._results | {title: _positions(found, self._ids) for title, found in modes.items()}

    def measure(self) -> list[dict[str, Figure]]:
        index, case = self._index, self._case
        self._upkeep["bytes_per_filter"] = index.memory_usage() / len(index)
        self._upkeep["open_milliseconds"] = _open_milliseconds(self._class, index, case)
        found = [(mode, *seconds_per_item(_preparation(index, case, mode), len(case.events))) for mode in self._modes]
        matches = {events: _count_matches(index, case, events) / events for _, _, events in found}
        self._upkeep |= _update(index, self._ids, case)  # comes last, because afterwards other filters are in the index
        return [
            _row(
                case,
                "index",
                mode,
                events_per_second=1 / seconds,
                matches_per_event=matches[events],
                events=events,
                **self._upkeep,
            )
            for mode, seconds, events in found
        ]


def _preparation(index: Index, case: _Case, mode: str) -> Callable[[int], Callable[[], object]]:
    """For a number of events, what matches them: one call after the other from Python, or one call for all."""

    def calls(match: Callable[[Any], object], given: Sequence[object]) -> Callable[[], object]:
        def loop() -> None:
            for each in given:
                match(each)

        return loop

    def prepare(count: int) -> Callable[[], object]:
        if mode == "single":
            return calls(index.match, case.events[:count])
        if mode == "encoded":
            return calls(index.match_encoded, case.bodies[:count])
        assert case.batch is not None
        batch = case.batch.slice(0, count)
        return lambda: index.match_batch(batch)

    return prepare


def _match_checked(index: Index, case: _Case, mode: str) -> list[list[int]]:
    """The ids for the events whose results are compared, in one of the modes."""
    if mode == "single":
        return [index.match(event) for event in case.events[: case.checked]]
    if mode == "encoded":
        return [index.match_encoded(body) for body in case.bodies[: case.checked]]
    assert case.batch is not None
    result = index.match_batch(case.batch.slice(0, case.checked))
    if result.continuation is not None:
        raise InternalError(f"{case.title}: a batch without a limit was not finished")
    found: list[list[int]] = [[] for _ in range(case.checked)]
    for row, id in zip(_listed(result.rows), _listed(result.ids), strict=True):
        found[row].append(id)
    return found


def _listed(items: Any) -> list[int]:
    return items.to_pylist() if hasattr(items, "to_pylist") else list(items)


def _positions(results: list[list[int]], ids: list[int]) -> list[list[int]]:
    """Results of the index in terms of the other engines, whose ids are positions in order of adding."""
    if any(found != sorted(found) for found in results):
        raise InternalError("the index gives ids that are not sorted")
    positions = {id: position for position, id in enumerate(ids)}
    return [sorted(positions[id] for id in found) for found in results]


def _count_matches(index: Index, case: _Case, events: int) -> int:
    return sum(len(index.match(event)) for event in case.events[:events])


def _open_milliseconds(cls: type[Index], index: Index, case: _Case) -> float:
    """From the path of a file to the first answer: the best of a few."""
    event = case.events[0]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "filters.index")
        index.dump(path)
        best = float("inf")
        for _ in range(_OPENINGS):
            start = perf_counter()
            opened = cls.open(path)
            found = opened.match(event)
            best = min(best, perf_counter() - start)
            if found != index.match(event):
                raise InternalError(f"{case.title}: the index opened from a file finds other filters")
            del opened
    return best * 1000


def _update(index: Index, ids: list[int], case: _Case) -> dict[str, Figure]:
    """Replace filters one by one in the index, whose size stays the same, and time each operation."""
    size = len(case.filters)
    operations = min(_OPERATIONS, max(size, _OPERATIONS // 5))
    fresh = case.workload.filters(operations, size=size, seed=2)
    random = Random(1)  # noqa: S311 - no secret
    victims = [int(random.random() * size) for _ in range(operations)]
    adds, removes = [0] * operations, [0] * operations
    with without_gc():
        for i, (filter, victim) in enumerate(zip(fresh, victims, strict=True)):
            start = perf_counter_ns()
            added = index.add(filter)
            middle = perf_counter_ns()
            index.remove(ids[victim])
            end = perf_counter_ns()
            adds[i], removes[i] = middle - start, end - middle
            ids[victim] = added
    if len(index) != size:
        raise InternalError(f"{case.title}: {size} filters are left, but the index says {len(index)}")
    return {
        "removes_per_second": operations / (sum(removes) / 1e9),
        "add_p9999_microseconds": _tail(adds),
        "add_max_microseconds": max(adds) / 1000,
        "remove_p9999_microseconds": _tail(removes),
        "remove_max_microseconds": max(removes) / 1000,
    }


def _tail(nanoseconds: list[int]) -> float:
    """The microseconds that all but one in ten thousand operations stay within."""
    return sorted(nanoseconds)[len(nanoseconds) - 1 - len(nanoseconds) // 10_000] / 1000


# -- checks ------------------------------------------------------------------------------------------------------------


def _check(case: _Case, results: dict[str, list[list[int]]]) -> None:
    """Refuse to measure engines that disagree with each other or with the model."""
    first, expected = next(iter(results.items()))
    for engine, found in results.items():
        for event, one, other in zip(case.events, expected, found, strict=False):
            if one != other:
                less, more = Counter(one), Counter(other)  # an id may also be there twice
                differing = case.filters[min((less - more) | (more - less))]
                raise InternalError(f"{case.title}: {first} and {engine} disagree about {differing} on {event}")
    random = Random(1)  # noqa: S311 - no secret
    sample = random.sample(range(len(case.filters)), min(_CHECKED_FILTERS, len(case.filters)))
    for event, ids in zip(case.events, expected, strict=False):
        matching = set(ids)
        for id in {*sample, *ids[:_CHECKED_FILTERS]}:
            if case.filters[id].matches(event) is not (id in matching):
                raise InternalError(f"{case.title}: {first} is wrong about {case.filters[id]} on {event}")
