"""Sweeps to which something happens: executors and drivers that are killed, and disks that are full."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from palio.cli.main import palio
from palio.lab import siena, work
from palio.lab.play import Play
from palio.lab.study import Experiment, Run, Setting
from palio.lab.sweep import Sweep, runs_table
from palio.lab.work import Order, key_of, play_all, results_file, trace_file
from tests.spark.lab_worker import GRID, NETWORK, RUNS, finished, parent, unfinished, wait_for

TINY = tuple(
    Setting(each, 1, 2, publications=2, notifications=2, object_cycles=1, party_cycles=1) for each in ("ce", "hs", "as")
)
ROOT = Path(__file__).parents[2]


def rows(session: SparkSession, folder: Path) -> dict[int, dict[str, Any]]:
    found = [row.asDict() | {"seconds": 0} for row in runs_table(session, folder).collect()]
    assert len({row["run"] for row in found}) == len(found)
    return {row["run"]: row for row in found}


def assert_same(session: SparkSession, one: Path, other: Path) -> None:
    """The same figures, and the same traces, of the same runs; and nothing else."""
    assert rows(session, one) == rows(session, other)
    for run in GRID[0].runs():
        assert pq.read_table(trace_file(one, run)).equals(pq.read_table(trace_file(other, run)))
    assert len(finished(other)) == len(list((other / "traces").rglob("*.parquet"))) == RUNS
    assert unfinished(other) == []


@pytest.fixture(scope="module")
def undisturbed(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert Sweep(GRID, NETWORK, str(folder), longest_trace=1_000_000).run(session).done == RUNS
    return folder


# -- processes that are killed -----------------------------------------------------------------------------------------


def test_executors_of_their_own_of_which_one_is_killed(
    session: SparkSession, undisturbed: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.spark.lab_worker", "cluster", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["calm"] == [RUNS, 0, []]
    assert 1 <= told["killed_at"] < RUNS
    assert told["disturbed"] == [RUNS, 0, []]  # the other executor did what the killed one left
    assert told["again"] == [0, RUNS, []]
    assert_same(session, undisturbed, tmp_path / "calm")
    assert_same(session, undisturbed, tmp_path / "disturbed")


@contextmanager
def command_in_a_process(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``palio lab run`` in a session of processes of its own, none of which is left in the end."""
    command = [sys.executable, "-m", "tests.spark.lab_worker", "command", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as run:
        try:
            yield run
        finally:
            for pid in in_session(run.pid):
                os.kill(pid, signal.SIGKILL)


def in_session(number: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if fields[0] != "Z" and int(fields[3]) == number:
            found.append(int(path.parent.name))
    return found


def test_a_study_whose_driver_is_killed_goes_on(
    session: SparkSession, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with command_in_a_process(tmp_path) as run:
        wait_for(lambda: len(finished(tmp_path)) >= 2)
        run.kill()
        run.wait()
        wait_for(lambda: not in_session(run.pid))  # Spark and its workers notice
    files = {path: path.stat().st_mtime_ns for path in finished(tmp_path)}
    assert len(files) < RUNS
    monkeypatch.setattr(siena, "experiments", lambda *, quick: GRID)
    again = CliRunner().invoke(palio, ["lab", "run", "--traces", "--out", str(tmp_path)])
    assert again.exit_code == 0, again.output
    assert f"{RUNS - len(files)} runs done, {len(files)} were done before, 0 failed" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert_same(session, undisturbed, tmp_path)


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    order, run = Order(NETWORK, str(tmp_path), longest_trace=1_000_000), Run("tiny", TINY[0], 0)
    other = results_file(tmp_path, run._replace(repetition=1))
    left = [
        path.with_name(f".{path.name}.4194305") for path in (results_file(tmp_path, run), trace_file(tmp_path, run))
    ]
    left.append(other.with_name(f".{other.name}.4194305"))
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"PAR1")
    assert [outcome.problem for outcome in play_all(order, [run])] == [None]
    assert unfinished(tmp_path) == left[2:]  # of a run that may be being played


def test_two_sweeps_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run at the same time: what comes second finds its work done."""
    order, run = Order(NETWORK, str(tmp_path), longest_trace=1_000_000), Run("tiny", TINY[0], 0)
    play = Play.run

    def play_while_another_does(self: Play) -> object:
        entries = play(self)
        with monkeypatch.context() as patch:
            patch.setattr(Play, "run", play)
            patch.setattr(os, "getpid", lambda: 4194305)
            assert [outcome.problem for outcome in play_all(order, [run])] == [None]
        return entries

    monkeypatch.setattr(Play, "run", play_while_another_does)
    assert [outcome.problem for outcome in play_all(order, [run])] == [None]
    assert finished(tmp_path) == [results_file(tmp_path, run)]
    assert unfinished(tmp_path) == []


# -- disks that are full -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [results_file, trace_file])
def test_a_full_disk(tmp_path: Path, file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of one run appears as a link to a device on which every write fails for lack of room."""
    runs = [Run("tiny", setting, 0) for setting in TINY]
    order = Order(NETWORK, str(tmp_path), longest_trace=1_000_000)
    unfinished_file = file(tmp_path, runs[1]).with_name(f".{file(tmp_path, runs[1]).name}.{os.getpid()}")
    open_file = os.open

    def open_on_a_full_disk(path: Any, *options: Any, **more: Any) -> int:
        if path == unfinished_file:
            unfinished_file.symlink_to("/dev/full")
            return open_file("/dev/full", os.O_WRONLY)
        return open_file(path, *options, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_on_a_full_disk)
        first, full, last = play_all(order, runs)
    assert (first.problem, last.problem) == (None, None)
    assert full.run == runs[1].name
    assert "No space left on device" in str(full.problem)
    assert {path.stem for path in finished(tmp_path)} == {key_of(runs[0]), key_of(runs[2])}
    assert unfinished(tmp_path) == []
    assert not trace_file(tmp_path, runs[1]).exists() or file is results_file
    assert [outcome.problem for outcome in play_all(order, runs)] == [None] * 3
    assert len(finished(tmp_path)) == 3


@contextmanager
def largest_file(size: int, pids: list[int]) -> Iterator[None]:
    """Let writes of processes fail when a file becomes larger than so many bytes."""
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in pids}
    try:
        for pid, (_, most) in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, most))
        yield
    finally:
        for pid, limits in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


def workers(session: SparkSession) -> list[int]:
    """The processes that run Python for Spark, and that from which they are forked."""
    session.sparkContext.parallelize(range(2), 2).map(str).count()  # now there are some
    java = session.sparkContext._jvm.ProcessHandle.current().pid()  # type: ignore[union-attr]
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (path / "cmdline").read_bytes():
                above = parent(int(path.name))
                if java in {above, parent(above)}:
                    found.append(int(path.name))
        except OSError:  # it has just ended
            continue
    return found


def test_a_trace_that_cannot_be_written_to_its_end(session: SparkSession, tmp_path: Path) -> None:
    """What fails is the second part of it."""
    large = Setting("ce", 10, 1_000)
    grid = (Experiment("mixed", (*TINY, large), 1),)
    sweep = Sweep(grid, NETWORK, str(tmp_path), longest_trace=1_000_000)
    with largest_file(700_000, workers(session)):
        swept = sweep.run(session)
    assert (swept.done, swept.skipped) == (3, 0)
    assert [outcome.run for outcome in swept.failed] == [Run("mixed", large, 0).name]
    assert "File too large" in str(swept.failed[0].problem)
    assert len(finished(tmp_path)) == len(list((tmp_path / "traces").rglob("*.parquet"))) == 3
    assert unfinished(tmp_path) == []
    again = sweep.run(session)
    assert (again.done, again.skipped, again.failed) == (1, 3, ())
    trace = pq.ParquetFile(trace_file(tmp_path, Run("mixed", large, 0)))
    assert trace.metadata.num_row_groups == 2
    assert trace_file(tmp_path, Run("mixed", large, 0)).stat().st_size > 700_000


def test_the_first_problem_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing the trace fails as well, and that is not what the run failed of."""
    with largest_file(4, [os.getpid()]):  # enough for the first bytes of the file

        def fail(_self: Play) -> None:
            raise ZeroDivisionError("by nothing")

        monkeypatch.setattr(Play, "run", fail)
        order, run = Order(NETWORK, str(tmp_path), longest_trace=1_000_000), Run("tiny", TINY[0], 0)
        outcomes = list(play_all(order, [run]))
    assert [outcome.problem for outcome in outcomes] == ["ZeroDivisionError: by nothing"]
    assert unfinished(tmp_path) == finished(tmp_path) == []


def test_a_trace_whose_end_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "ROWS", 10)
    order, run = Order(NETWORK, str(tmp_path), longest_trace=1_000_000), Run("tiny", TINY[0], 0)
    assert [outcome.problem for outcome in play_all(order, [run])] == [None]
    path = trace_file(tmp_path, run)
    size = path.stat().st_size
    results_file(tmp_path, run).unlink()
    path.unlink()
    with largest_file(size - 10, [os.getpid()]):
        outcomes = list(play_all(order, [run]))
    assert "File too large" in str(outcomes[0].problem)
    assert unfinished(tmp_path) == finished(tmp_path) == []
    assert not path.exists()
