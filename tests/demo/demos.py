"""Demonstrations as their users run them: in a process, with servers as processes below it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DEADLINE = 90
"""Seconds; nothing here takes nearly as long, even on a busy machine."""


class RunningDemo:
    """A demonstration with what it tells, line by line."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "palio", "demo", "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder), "PALIO_PORT": "1", "PALIO_SERVER": "palio://127.0.0.1:1"},
        )
        self.told: list[dict[str, Any]] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def until(self, event: str, **fields: object) -> dict[str, Any]:
        """The next event of this kind with these fields."""
        end = time.monotonic() + DEADLINE
        while line := self._lines.get(timeout=max(0.0, end - time.monotonic())):
            self.told.append(json.loads(line))
            if self.told[-1]["event"] == event and fields.items() <= self.told[-1].items():
                return self.told[-1]
        raise AssertionError(f"no {event} with {fields} in {self.told[-20:]}: {self.finish()}")

    def finish(self) -> tuple[int, str]:
        """How it ended: the code, and what it said to the standard error."""
        code = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        assert self.process.stderr is not None
        return code, self.process.stderr.read()

    def servers(self) -> list[int]:
        """The processes of servers that there are; their configurations lie in our folder."""
        return [int(each.name) for each in Path("/proc").glob("[0-9]*") if str(self.folder) in _command(each)]

    def check_nothing_is_left(self) -> None:
        assert self.servers() == []
        assert list(self.folder.iterdir()) == []

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for pid in self.servers():
            os.kill(pid, 9)
        self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""


@contextmanager
def demonstration(folder: Path, *arguments: str) -> Iterator[RunningDemo]:
    made = RunningDemo(folder, *arguments)
    try:
        yield made
    finally:
        made.close()


def wait_for(condition: Callable[[], object]) -> None:
    """Until it holds."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.01)
