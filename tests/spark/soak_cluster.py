"""A standalone cluster of separate processes, without Palio in their Python: ``make soak SOAK=cluster``.

Starts a master and two workers on loopback, ships a packed environment, matches a table against filters and compares
with one process; then does the same while an executor is killed in the middle of the job.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame, SparkSession

from palio import spark
from palio.bench.workloads import WORKLOADS, record_batch
from palio.matching import FilterIndex

ROOT = Path(__file__).parents[2]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
FILTERS, EVENTS, REPEATS = 20_000, 20_000, 50


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def daemon(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Spark's processes, with nothing of this environment on its path."""
    clean = {"PATH": "/usr/bin:/bin:" + os.environ["PATH"], "SPARK_LOCAL_IP": "127.0.0.1", "HOME": str(folder)}
    clean["PATH"] = ":".join(part for part in clean["PATH"].split(":") if part != str(Path(sys.executable).parent))
    with (folder / f"{arguments[0].rpartition('.')[2]}-{free_port()}.log").open("wb") as log:
        process = subprocess.Popen([str(SPARK_CLASS), *arguments], stdout=log, stderr=log, env=clean)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise SystemExit(f"nothing listens on port {port}")


def kill_one_executor(session: SparkSession, worker: subprocess.Popen[bytes]) -> Thread:
    """Kill what the worker has started, when the job is under way."""

    def run() -> None:
        tracker = session.sparkContext.statusTracker()
        deadline = time.monotonic() + 60
        while not tracker.getActiveStageIds() and time.monotonic() < deadline:
            time.sleep(0.02)
        found = subprocess.run(["pgrep", "-P", str(worker.pid)], capture_output=True, text=True, check=True)
        victim = int(found.stdout.split()[0])
        print(f"  killing executor {victim} in stage {tracker.getActiveStageIds()}")
        os.kill(victim, signal.SIGKILL)

    thread = Thread(target=run)
    thread.start()
    return thread


def counts(found: DataFrame) -> dict[int, int]:
    return {row["filter"]: row["count"] for row in found.collect()}


def run(session: SparkSession, folder: Path, worker: subprocess.Popen[bytes]) -> None:
    workload = WORKLOADS["W1"]
    filters, events = workload.filters(FILTERS), workload.events(EVENTS)
    batch = record_batch(events)
    for i in range(8):
        table = pa.Table.from_batches([batch] * REPEATS)
        pq.write_table(table, folder / f"events-{i}.parquet")
    expected: dict[int, int] = {}
    index = FilterIndex(filters)
    for id in index.match_batch(batch).ids:
        expected[id] = expected.get(id, 0) + 8 * REPEATS
    texts = pa.table({"id": range(FILTERS), "text": [str(filter) for filter in filters]})
    begin = time.monotonic()
    made = spark.prepare(session.createDataFrame(texts).repartition(4))
    print(f"  {FILTERS:,} filters prepared in {time.monotonic() - begin:.1f} s")
    table = session.read.parquet(*(str(path) for path in folder.glob("events-*.parquet")))
    for is_killed in (False, True):
        begin = time.monotonic()
        killer = kill_one_executor(session, worker) if is_killed else None
        found = counts(spark.match(table, made, result="counts"))
        took = time.monotonic() - begin
        if killer:
            killer.join()
        assert found == expected, "the cluster counts otherwise than one process"
        events_done, matches = 8 * REPEATS * EVENTS, sum(found.values())
        print(f"  {events_done:,} events in {took:.1f} s, {matches:,} matches, as one process has them")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        archive = folder / "palio.tar.gz"
        subprocess.run([sys.executable, str(ROOT / "scripts" / "pack-environment"), str(archive)], check=True)
        port, page = free_port(), str(free_port())
        address = f"spark://127.0.0.1:{port}"
        master = (
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--webui-port",
            page,
        )
        worker = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g")
        with daemon(folder, *master):
            wait_for(port)
            more = [("--webui-port", str(free_port()), "--work-dir", str(folder / f"work{i}"), address) for i in (1, 2)]
            with daemon(folder, *worker, *more[0]) as first, daemon(folder, *worker, *more[1]):
                session = spark.session(address, packed=archive, settings={"spark.ui.enabled": "false"})
                try:
                    run(session, folder, first)
                finally:
                    session.stop()
    print("the cluster did what one process does")


if __name__ == "__main__":
    main()
