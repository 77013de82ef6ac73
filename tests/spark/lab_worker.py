"""Processes that run sweeps, and are killed or lose an executor: ``python -m tests.spark.lab_worker PART FOLDER``.

- *cluster*: a sweep on executors in processes of their own, and another one, of which an executor is killed when it
  is in the middle of a run; then what is missing.
- *command*: ``palio lab run``, with a small grid.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from palio import spark
from palio.cli.main import palio
from palio.lab import networks, siena, sweep
from palio.lab.study import Experiment, Setting
from palio.lab.sweep import Sweep

_, NETWORK = networks.named(networks.USUAL_NETWORK)
GRID = (Experiment("siena", tuple(Setting(each, 1, 30) for each in ("hs", "as", "aa")), 3),)
"""Each run takes a quarter of a second or more, so that it can be disturbed."""
RUNS = 9


def small_tasks() -> None:
    """Let there be several tasks a core, as there are in long sweeps."""
    sweep._TASK = 0.5


def small_grid() -> None:
    """Let the studies be small."""
    small_tasks()
    siena.experiments = lambda *, quick: GRID


def unfinished(folder: Path) -> list[Path]:
    """Files that are being written, or were when their process was killed."""
    return [path for path in folder.rglob(".*") if path.is_file()]


def finished(folder: Path) -> list[Path]:
    """The figures of all runs that are done."""
    return [path for path in folder.glob("runs/*/*.parquet") if not path.name.startswith(".")]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.01)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def executor_that_writes(folder: Path) -> int | None:
    """The process of an executor whose worker has a file that is not finished."""
    for path in unfinished(folder):
        try:
            found = parent(parent(int(path.suffix[1:])))  # workers are children of a daemon of the executor
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{found}/cmdline").read_bytes():
                return found
        except OSError:  # it has just ended
            continue
    return None


def cluster(folder: Path) -> None:
    java = os.environ.get("SPARK_SUBMIT_OPTS", "")  # which executors do not inherit
    settings = {"spark.ui.enabled": "false", "spark.executor.defaultJavaOptions": java}
    session = spark.session("local-cluster[2,1,1024]", settings=settings)
    calm = Sweep(GRID, NETWORK, str(folder / "calm"), longest_trace=1_000_000).run(session)
    place = folder / "disturbed"
    disturbed = Sweep(GRID, NETWORK, str(place), longest_trace=1_000_000)
    with ThreadPoolExecutor(1) as thread:
        swept = thread.submit(disturbed.run, session)
        wait_for(lambda: bool(finished(place)) and executor_that_writes(place) is not None)
        victim = executor_that_writes(place)
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        killed_at = len(finished(place))
        first = swept.result()
    again = disturbed.run(session)
    session.stop()
    told = {"killed_at": killed_at, "calm": calm[:3], "disturbed": first[:3], "again": again[:3]}
    print(json.dumps(told))


if __name__ == "__main__":
    if sys.argv[1] == "cluster":
        small_tasks()
        cluster(Path(sys.argv[2]))
    else:
        small_grid()
        palio(["lab", "run", "--traces", "--master", "local[2]", "--out", sys.argv[2]])
