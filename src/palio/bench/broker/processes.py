"""Brokers as processes: started with a folder and a port of their own, stopped by their ids."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from palio.errors import PalioError

HOST = "127.0.0.1"
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_LOOK_SECONDS = 0.05
_KIBIBYTE = 1024
_USER_TICKS = 11
"""Which field behind the name of a process says how long it ran in user mode; the next one is of the system."""


class BrokerError(PalioError):
    """A broker does not start, or does not do what it should."""


def find(program: str, *others: str) -> str | None:
    """Where a program is; those of system administrators count, too."""
    paths = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    return next((found for name in (*others, program) if (found := shutil.which(name, path=paths))), None)


def free_port() -> int:
    """A port at which nobody listens now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def exactly(stream: socket.socket, size: int) -> bytes:
    """So many bytes from a connection."""
    data = bytearray()
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise BrokerError("the broker has closed a connection")
        data += more
    return bytes(data)


class Running:
    """Processes of a broker, of which the last one started listens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._log = folder / "log"

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start another process; what it prints goes to the log."""
        with self._log.open("ab") as log, _signals_wait():  # else a process may be there that nobody knows of
            self._processes.append(
                subprocess.Popen(  # noqa: S603 (the commands are those of the brokers)
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                    env={**os.environ, **(environment or {})},
                )
            )  # fmt: skip

    def wait(self) -> None:
        """Until it listens."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._processes[-1].poll() is not None:
                break
            try:
                socket.create_connection((HOST, self.port), timeout=1).close()
            except OSError:
                time.sleep(_LOOK_SECONDS)
            else:
                return
        raise BrokerError(f"{self._processes[-1].args!r:.200} does not listen; it says: {self.said()}")

    def said(self) -> str:
        """The end of the log."""
        return self._log.read_text(errors="replace")[-400:].strip() if self._log.exists() else ""

    def stop(self) -> None:
        """End what was started, the last first, and what that has started."""
        for process in reversed(self._processes):
            family = list(_family(process.pid))
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _end(family[1:])
        self._processes.clear()

    def kill(self) -> None:
        """End what was started at once, as a loss of power would; what is on disk stays."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._processes.clear()

    def memory(self) -> int:
        """Bytes that the processes have for themselves."""
        return sum(_private_bytes(pid) for process in self._processes for pid in _family(process.pid))

    def processor_seconds(self) -> float:
        """That the processes have spent so far."""
        return sum(_processor_seconds(pid) for process in self._processes for pid in _family(process.pid))

    def settled_memory(self, seconds: float = 15.0) -> int:
        """The same when it does not shrink or grow any more, or after so many seconds."""
        deadline = time.monotonic() + seconds
        before, now = -1, self.memory()
        while abs(now - before) > now // 200 and time.monotonic() < deadline:
            time.sleep(1)
            before, now = now, self.memory()
        return now


@contextmanager
def ended_by_signal() -> Iterator[None]:
    """Whoever is told to end by SIGTERM leaves its blocks before, so that no broker stays behind."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Signals that end this process come behind the block."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda which, _frame: came.append(which))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for which in came:
        signal.raise_signal(which)


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    """Processes that end with the block, whatever happens in it."""
    processes = Running(folder)
    try:
        yield processes
    finally:
        processes.stop()


def _family(pid: int) -> Iterator[int]:
    """A process and what it has started, and so on."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _end(pids: Sequence[int]) -> None:
    """Wait until children of a process that has ended are gone; it has told them, so they go by themselves."""
    deadline = time.monotonic() + _STOP_SECONDS
    while any(_private_bytes(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def _processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it is gone
        return 0.0
    return (int(fields[_USER_TICKS]) + int(fields[_USER_TICKS + 1])) / os.sysconf("SC_CLK_TCK")


def _private_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it is gone
        return 0
    return sum(int(line.split()[1]) * _KIBIBYTE for line in lines if line.startswith("Private_"))
