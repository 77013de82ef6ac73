"""Five servers as processes on this machine: started, watched, started again when they die, and stopped in order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from palio.demo.happenings import Back, Died, Site
from palio.errors import PalioError

TREE = {"siena": None, "milan": "siena", "rome": "siena", "turin": "milan", "naples": "rome"}
"""Each server with the one above it; those above come first."""
_PORTS = {"siena": 7400, "milan": 7410, "rome": 7420, "turin": 7430, "naples": 7440}
"""Where they listen if nobody else does."""
_METRICS_PORT = 7401
_START_SECONDS = 60.0
_STOP_SECONDS = 4.0
"""For how long a server may take to stop before it is made to."""
_MOST_STARTS = 3
_FIRST_PAUSE = 0.2
_LOG_LINES = 10
_LONGEST_LINE = 1 << 20


class DemoError(PalioError):
    """The demonstration cannot go on."""


class ServerProcess:
    """One ``palio serve`` with its log."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        """The last lines, to tell why it has ended."""
        self._seen: dict[str, asyncio.Event] = {}

    async def start(self, *events: str) -> None:
        """Start it, and wait until its log has told of these events."""
        self._log.clear()
        self._seen = {event: asyncio.Event() for event in events}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "palio", "serve", "--json", "--config", str(self._path)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            # what the shell tells clients and servers is not for these
            env={name: value for name, value in os.environ.items() if not name.startswith("PALIO_")},
            start_new_session=True,  # an interruption from the keyboard is for us: we stop them in order
        )
        self._reading = asyncio.create_task(self._read(self._process))
        waiting = [asyncio.create_task(event.wait()) for event in self._seen.values()]
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._until(waiting, self._reading)
        except TimeoutError:
            await self.stop()
            raise DemoError(f"{self.name} did not start within {_START_SECONDS:g} s{self._last_words()}") from None
        finally:
            for each in waiting:
                each.cancel()

    async def _until(self, waiting: Sequence[asyncio.Task[bool]], reading: asyncio.Task[None]) -> None:
        """Until all these events have come; if the log ends before, so has the server."""
        for each in waiting:
            await asyncio.wait([each, reading], return_when=asyncio.FIRST_COMPLETED)
            if not each.done():
                raise DemoError(f"{self.name} ended when it should start{self._last_words()}")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self._log.append(line.decode(errors="replace").rstrip())
            try:
                event = json.loads(line).get("event")
            except (ValueError, AttributeError):  # what Python itself says when it cannot go on
                continue
            if event in self._seen:
                self._seen[event].set()

    def _last_words(self) -> str:
        """The last line of the log; if it is an error as JSON, its text."""
        if not self._log:
            return ""
        try:
            error = json.loads(self._log[-1]).get("error")
        except (ValueError, AttributeError):
            error = None
        return f": {error or self._log[-1]}"

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process is not None
        return self._process.pid

    async def ended(self) -> str:
        """Wait until it has ended; why."""
        assert self._process is not None
        code = await self._process.wait()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"it ended with code {code}{self._last_words()}"

    async def stop(self) -> None:
        """End it in good order, or if that takes too long, at once."""
        process = self._process
        if process is None:
            return
        try:
            self._signal(signal.SIGTERM)
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        """Not by the methods of the process: they look whether it has ended, and take that from who waits for it."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


class Servers:
    """The network."""

    def __init__(self, folder: Path, architecture: str, tell: Callable[[Died | Back], None]) -> None:
        self._folder = folder
        self._architecture = architecture
        self._tell = tell
        self._processes: dict[str, ServerProcess] = {}
        self.sites: dict[str, Site] = {}
        self.metrics = ""
        """Where the first server shows its figures."""

    async def start(self) -> None:
        """Start all of them, and wait until they are connected.

        Between looking for a free port and listening there, somebody else may have taken it; then others are tried.
        """
        for attempt in range(_MOST_STARTS):
            self._prepare(use_known=attempt == 0)
            starting = [asyncio.create_task(each.start(*_events(name))) for name, each in self._processes.items()]
            try:
                await asyncio.gather(*starting)
            except DemoError:
                for task in starting:  # they may wait for a neighbour that will not come
                    task.cancel()
                await asyncio.wait(starting)
                await self.stop()
                if attempt == _MOST_STARTS - 1:
                    raise
            else:
                return

    def _prepare(self, *, use_known: bool) -> None:
        """Choose ports, and write configurations."""
        wanted = [*_PORTS.values(), _METRICS_PORT] if use_known else [0] * (len(_PORTS) + 1)
        *ports, metrics_port = free_ports(wanted)
        self.sites = {name: Site(name, above, port) for (name, above), port in zip(TREE.items(), ports, strict=True)}
        self.metrics = f"http://127.0.0.1:{metrics_port}/metrics"
        for site in self.sites.values():
            path = self._folder / f"{site.name}.toml"
            above = self.sites[site.above] if site.above else None
            path.write_text("\n".join(configuration(site, above, self._architecture, metrics_port)))
            self._processes[site.name] = ServerProcess(site.name, path)

    async def watch(self) -> None:
        """Start again those that die, for good."""
        async with asyncio.TaskGroup() as keepers:
            for process in self._processes.values():
                keepers.create_task(self._keep(process))

    async def _keep(self, process: ServerProcess) -> None:
        while True:
            self._tell(Died(process.name, await process.ended()))
            pause = _FIRST_PAUSE
            for attempt in range(_MOST_STARTS):
                try:
                    await process.start(*_events(process.name))
                    break
                except DemoError:
                    if attempt == _MOST_STARTS - 1:
                        raise
                    await asyncio.sleep(pause)
                    pause *= 4
            self._tell(Back(process.name))

    async def stop(self) -> None:
        """Stop all that run, those at the end of the tree first, so that nobody looks for a neighbour in vain."""
        for name in reversed(TREE):
            if name in self._processes:
                await self._processes[name].stop()

    def pids(self) -> dict[str, int]:
        """The processes of the servers."""
        return {name: process.pid for name, process in self._processes.items()}

    def kill(self) -> None:
        """End them at once."""
        for process in self._processes.values():
            process.kill()


def _events(name: str) -> tuple[str, ...]:
    """What the log of a server says when it is ready: that it listens, and that the one above it is there."""
    return ("listening", "peer-connected") if TREE[name] else ("listening",)


def configuration(site: Site, above: Site | None, architecture: str, metrics_port: int) -> Iterator[str]:
    """The lines of a server's configuration file; the first server shows figures by HTTP as well."""
    yield f'server = "{site.name}"'
    yield f'architecture = "{architecture}"'
    yield f"port = {site.port}"
    yield "[connections]"
    yield "most = 500"
    yield "drain_seconds = 1.0"
    yield from ("[store]", f'path = "{site.name}.db"')
    if above is None:
        yield from ("[http]", f"port = {metrics_port}")
    else:
        role = "master" if architecture == "hs" else "peer"
        yield from ("[[peers]]", f'name = "{above.name}"', f'url = "{above.url}"', f'role = "{role}"')


def free_ports(wanted: list[int]) -> list[int]:
    """These ports, and others instead of those that somebody uses already."""
    with ExitStack() as stack:  # all are held until all are chosen, so that none is chosen twice
        ports = []
        for port in wanted:
            try:
                made = socket.create_server(("127.0.0.1", port))
            except OSError:
                made = socket.create_server(("127.0.0.1", 0))
            ports.append(stack.enter_context(made).getsockname()[1])
        return ports
