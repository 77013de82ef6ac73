"""A stream whose process is killed again and again, at any moment: ``make soak SOAK=stream``.

Files of events come in all the while, with columns that change and now and then damaged; the filters change, too. The
process that matches them is killed with its Java process, or alone. In the end every event must have been delivered
exactly to the filters of one version, and every damaged file must have been told once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pd
import pyarrow.parquet as pq

from palio import Filter, Notification, spark

KILLS = 40
ROWS = 200


def work(folder: Path, every: str | None) -> None:
    """What the process does that is killed."""
    session = spark.session("local[1]")
    query = spark.match_stream(
        spark.EventFolder(session, folder / "events", files_per_batch=3),
        spark.FilterDirectory(session, folder / "filters"),
        folder / "out",
        checkpoint=folder / "checkpoint",
        key="k",
        every=every,
    )
    print("started", flush=True)
    query.awaitTermination()


class Feed:
    """Puts files and filters into the folder, and knows what they are."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.folder, self.random = folder, random
        self.events: dict[int, Notification] = {}
        self.bad: list[str] = []
        self.versions: dict[str, list[Filter]] = {}
        for name in ("events", "filters", "new"):
            (folder / name).mkdir()

    def add_filters(self) -> None:
        number, limit = len(self.versions) + 1, self.random.randrange(100)
        texts = ["k any", f"x > {limit}", f'x < "{limit}"', f"y = {limit % 7}", f"z absent and k > {limit * 50}"]
        self.versions[f"{number}.txt"] = [Filter.parse(text) for text in texts]
        self._put("filters", f"{number}.txt", "\n".join(texts).encode())

    def add_file(self) -> None:
        name = f"{len(self.events) // ROWS + len(self.bad):06}.parquet"
        if self.random.random() < 0.1:
            self.bad.append(name)
            self._put("events", name, self.random.choice([b"nonsense", b"PAR1" + bytes(100) + b"PAR1"]))
            return
        begin = len(self.events)
        table = pa.table({"k": pa.array(range(begin, begin + ROWS), pa.int64()), **self._columns()})
        for row in table.to_pylist():
            attributes = {name: value for name, value in row.items() if value is not None}
            self.events[row["k"]] = Notification(attributes)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        self._put("events", name, sink.getvalue().to_pybytes())

    def _columns(self) -> dict[str, list[Any]]:
        draw = self.random.randrange
        columns: dict[str, list[Any]] = {
            "x": self.random.choice(
                [
                    [draw(100) for _ in range(ROWS)],
                    [draw(1000) / 10 for _ in range(ROWS)],
                    [str(draw(100)) for _ in range(ROWS)],
                ]
            ),
            "y": [self.random.choice([None, draw(7)]) for _ in range(ROWS)],
            "z": [self.random.choice([None, b"z", b"other"]) for _ in range(ROWS)],
        }
        return {name: values for name, values in columns.items() if self.random.random() < 0.7}

    def _put(self, kind: str, name: str, content: bytes) -> None:
        beside = self.folder / "new" / name
        beside.write_bytes(content)
        beside.rename(self.folder / kind / name)


def run_and_kill(folder: Path, feed: Feed, random: Random) -> None:
    """Let the process work for a while, and end it without warning."""
    command = [sys.executable, "-m", "tests.spark.soak_stream", "work", str(folder)]
    with (folder / "log").open("ab") as log:
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        try:
            assert worker.stdout is not None
            if worker.stdout.readline() != b"started\n":
                raise SystemExit(f"the process has ended by itself; see {folder / 'log'}")
            end = time.monotonic() + random.uniform(0, 8)
            while time.monotonic() < end:
                feed.add_file()
                if random.random() < 0.1:
                    feed.add_filters()
                time.sleep(random.uniform(0, 0.4))
        finally:
            if random.random() < 0.5:
                os.kill(worker.pid, signal.SIGKILL)
                worker.wait()
                _wait_for_the_end_of(worker.pid)
            else:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()


def _wait_for_the_end_of(group: int) -> None:
    """Java notices that Python is gone, and ends; what it still does until then is part of the trial."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    raise SystemExit("Java goes on without Python")


def check(folder: Path, feed: Feed) -> Counter[str]:
    """Compare what was delivered with what the model says."""
    found: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    for row in pd.dataset(folder / "out" / "deliveries", partitioning="hive").to_table().to_pylist():
        found[row["k"]].append((row["batch"], row["version"], row["filter"]))
    told: Counter[str] = Counter(events=len(feed.events), batches=len(list((folder / "out/deliveries").iterdir())))
    for k, event in feed.events.items():
        places = {(batch, version) for batch, version, _ in found[k]}
        told["lost"] += not places
        told["in several batches"] += len(places) > 1
        for _, version in places:
            filters = feed.versions[version]
            expected = [number for number, filter in enumerate(filters, 1) if filter.matches(event)]
            got = sorted(id for _, _, id in found[k])
            told["deliveries"] += len(got)
            told["wrong"] += got != expected
    told["unknown"] = len(found.keys() - feed.events.keys())
    skipped = pd.dataset(folder / "out" / "skipped", partitioning="hive").to_table()["file"].to_pylist()
    names = Counter(Path(file).name for file in skipped)
    told["files skipped"] = len(skipped)
    told["files skipped wrongly"] = (names - Counter(feed.bad)).total() + (Counter(feed.bad) - names).total()
    return told


def main() -> None:
    seed = int(os.environ.get("SEED", time.time_ns() % 100_000))
    random = Random(seed)
    with tempfile.TemporaryDirectory(prefix="palio-soak-") as place:
        folder = Path(place)
        feed = Feed(folder, random)
        feed.add_filters()
        feed.add_file()
        for kill in range(1, KILLS + 1):
            run_and_kill(folder, feed, random)
            print(
                f"\r{kill} of {KILLS} kills, {len(feed.events):,} events, {len(feed.versions)} versions",
                end="",
                flush=True,
            )
        print()
        work(folder, None)
        told = check(folder, feed)
    print(f"seed {seed}, kills {KILLS}, " + ", ".join(f"{name} {count:,}" for name, count in told.items()))
    if any(told[name] for name in ("lost", "in several batches", "wrong", "unknown", "files skipped wrongly")):
        raise SystemExit("the stream did not deliver everything once")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(Path(sys.argv[2]), "0 seconds")
    else:
        main()
