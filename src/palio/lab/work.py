"""What workers do: play runs, and leave the figures, or the whole trace, in files.

A file appears when all of it is written, so a run whose file is there was done.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from palio.lab.play import Play
from palio.lab.scenario import Scenario
from palio.lab.study import Run, Setting
from palio.lab.tally import METRICS, Tally
from palio.lab.topology import Topology
from palio.sim.engine.trace import TraceEntry

ROWS = 100_000
"""Messages of a trace that are written at once."""
_SETTING_TYPES = {"architecture": pa.string(), "is_poisson": pa.bool_(), "network": pa.string()}
RESULTS = pa.schema(
    [
        ("run", pa.int64()),
        ("name", pa.string()),
        *((name, _SETTING_TYPES.get(name, pa.int64())) for name in Setting._fields),
        ("repetition", pa.int64()),
        ("seed", pa.int64()),
        *((name, pa.float64()) for name in METRICS),
        ("sites", pa.map_(pa.string(), pa.float64())),
        ("seconds", pa.float64()),
    ]
)
"""A row a run: what it was, its figures, the cost of each site, and how long it took."""
TRACE = pa.schema(
    [
        ("run", pa.int64()),
        ("type", pa.string()),
        ("message_id", pa.int64()),
        ("service_id", pa.int64()),
        ("source_object", pa.string()),
        ("source_site", pa.string()),
        ("destination_object", pa.string()),
        ("destination_site", pa.string()),
        ("departure", pa.int64()),
        ("arrival", pa.int64()),
        ("cost", pa.int64()),
    ]
)
"""A row a message, with the fields of the thesis."""


class Order(NamedTuple):
    """What a worker is to do."""

    network: Topology
    out: str
    """A folder that all workers share."""
    longest_trace: int
    """Messages; of runs with more there are figures, but no trace."""

    def is_done(self, run: Run) -> bool:
        """Whether all files of a run are there."""
        wanted = [results_file(self.out, run)] + [trace_file(self.out, run)] * bool(self.longest_trace)
        return all(path.exists() for path in wanted)


class Outcome(NamedTuple):
    """What has become of a run."""

    run: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of the processor."""
    problem: str | None = None


def key_of(run: Run) -> str:
    """A short name for files."""
    return blake2b(run.name.encode(), digest_size=12).hexdigest()


def number_of(name: str) -> int:
    """By which a run is known in tables: aggregation by numbers takes half as long as by names."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> 1


def results_file(out: str | os.PathLike[str], run: Run) -> Path:
    """Where the figures of a run are, if it was done."""
    return Path(out) / "runs" / f"experiment={run.experiment}" / f"{key_of(run)}.parquet"


def trace_file(out: str | os.PathLike[str], run: Run) -> Path:
    """Where the trace of a run is, if it was to be kept; without rows if it was too long for that."""
    return Path(out) / "traces" / f"experiment={run.experiment}" / f"{key_of(run)}.parquet"


def play_all(order: Order, runs: Iterable[Run]) -> Iterator[Outcome]:
    """Play runs one after the other; what goes wrong with one does not concern the others.

    Those whose files are there are not played again: a task is begun anew when the executor that had it is lost.
    """
    for run in runs:
        problem, begin, cpu_begin = None, perf_counter(), process_time()
        try:
            if not order.is_done(run):
                _play(order, run)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is told)
            problem = f"{type(error).__name__}: {error}".partition("\n")[0]
        yield Outcome(run.name, perf_counter() - begin, process_time() - cpu_begin, problem)


def played(scenario: Scenario, seed: int, trace: TraceFile | None = None) -> Tally:
    """Play a scenario and add it up, and keep its trace in a file, if there is one."""
    tally = Tally(scenario.topology.names)
    if trace is None:
        Play(scenario, seed, tally=tally).run()
    else:
        with trace:

            def record(entry: TraceEntry) -> None:
                tally.add(entry)
                trace.add(entry)

            Play(scenario, seed, record).run()
    return tally


def _play(order: Order, run: Run) -> None:
    begin, scenario = perf_counter(), run.scenario(order.network)
    if order.longest_trace:
        with _appearing(trace_file(order.out, run)) as path:
            tally = played(scenario, run.seed, TraceFile(path, run.name, order.longest_trace))
    else:
        tally = played(scenario, run.seed)
    row = {
        "run": number_of(run.name),
        "name": run.name,
        **run.setting._asdict(),
        "repetition": run.repetition,
        "seed": run.seed,
        **tally.figures(),
        "sites": list(tally.sites().items()),
        "seconds": perf_counter() - begin,
    }
    with _appearing(results_file(order.out, run)) as path:
        pq.write_table(pa.Table.from_pylist([row], RESULTS), path)


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """A file that is there when all of it is written, or not at all.

    Then what killed processes have left of it is removed, too. A living one that writes the same file, of another sweep
    in the same folder, loses its own by that, and is content: the same run gives the same file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))  # never what a link points to
    try:
        yield unfinished
        try:
            unfinished.replace(path)
        except FileNotFoundError:
            if not path.exists():
                raise
        for left in path.parent.glob(f".{path.name}.*"):
            left.unlink(missing_ok=True)
    finally:
        unfinished.unlink(missing_ok=True)


class TraceFile:
    """A trace that is being written, and given up when it gets too long."""

    def __init__(self, path: Path, name: str, longest: int) -> None:
        self._run, self._path = number_of(name), path
        self._room = longest
        self._writer = pq.ParquetWriter(path, TRACE, compression="zstd")
        self._entries: list[TraceEntry] = []

    def add(self, entry: TraceEntry) -> None:
        """One more message."""
        if not self._room:
            self._give_up()
        self._room -= 1
        if self._room < 0:
            return
        self._entries.append(entry)
        if len(self._entries) == ROWS:
            self._write()

    def _give_up(self) -> None:
        """What is there goes: a part of a trace could be taken for the whole."""
        self._entries.clear()
        self._writer.close()
        self._writer = pq.ParquetWriter(self._path, TRACE, compression="zstd")

    def _write(self) -> None:
        entries, self._entries = self._entries, []
        columns = [pa.array([self._run] * len(entries), pa.int64())]
        columns += [pa.array([getattr(each, name) for each in entries]) for name in TRACE.names[1:]]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=TRACE))

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(self, kind: object, *_rest: object) -> None:
        if kind is None and self._entries:
            self._write()
        try:
            self._writer.close()
        except OSError:
            self._writer.is_open = False  # else it tries once more when it is forgotten
            if kind is None:
                raise
