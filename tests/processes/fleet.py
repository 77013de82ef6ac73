"""Servers as processes, the ways between them, and how both are broken."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from palio.model import Filter
from palio.routing.border import Gateway
from palio.routing.router import Role
from palio.sim.histories.federation import architecture_of, are_joined
from palio.sim.invariants.federated_world import FederatedWorld
from palio.sim.invariants.world import GraphWorld, World
from tests.serving import until

START_SECONDS = 60
"""A process that does not listen after so long never will, even on a busy machine."""
PATIENT = {"PALIO_CONNECTIONS__HELLO_SECONDS": str(START_SECONDS)}
"""Hundreds of parties live in one process with the test: they are all late when it is."""
BORDER = "x >= 2"
"""What passes a gateway."""


class Network(NamedTuple):
    """Which servers there are, and who dials whom."""

    architecture: str
    """As the simulator names it: of several networks with a plus between them."""
    dials: tuple[tuple[str, str], ...]

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(sorted({"a0", *(name for pair in self.dials for name in pair)}))

    def role(self, server: str, peer: str) -> Role:
        """What a neighbour is to a server."""
        if are_joined(self.architecture, server, peer):
            return Role.GATEWAY
        if architecture_of(self.architecture, server) != "hs":
            return Role.PEER
        return Role.MASTER if (server, peer) in self.dials else Role.CLIENT

    def latency(self, one: str, other: str) -> int:
        pairs = [{*pair} for pair in self.dials]
        return 1 + pairs.index({one, other}) % 3

    def neighbours(self, server: str) -> list[str]:
        return sorted(({*pair} - {server}).pop() for pair in self.dials if server in pair)

    def world(self) -> World:
        """The network as the simulator's laws know it; what parties hold they are told otherwise."""
        servers = self.servers
        links = {name: {peer: self.role(name, peer) for peer in self.neighbours(name)} for name in servers}
        holdings: dict[str, dict[str, tuple[Any, ...]]] = {name: {} for name in servers}
        latencies = {(one, other): self.latency(one, other) for pair in self.dials for one, other in [sorted(pair)]}
        if "+" in self.architecture:
            border = Filter.parse(BORDER)
            gateways = {
                (name, peer): Gateway(None, border if (name, peer) in self.dials else None, ())
                for name in servers
                for peer in self.neighbours(name)
                if are_joined(self.architecture, name, peer)
            }
            return FederatedWorld(self.architecture, links, holdings, holdings, latencies, gateways)
        if self.architecture in ("gs", "ga"):
            return GraphWorld(self.architecture, links, holdings, holdings, latencies)
        return World(self.architecture, links, holdings, holdings)


_TREE = (("a1", "a0"), ("a2", "a0"), ("a3", "a1"), ("a4", "a1"))
_RING = (("a1", "a0"), ("a2", "a1"), ("a3", "a2"), ("a4", "a3"), ("a4", "a0"), ("a3", "a1"))
_JOINED = (("a1", "a0"), ("a2", "a1"), ("a2", "b0"), ("b1", "b0"))
NETWORKS = {
    "ce": Network("ce", ()),
    **{name: Network(name, _TREE) for name in ("hs", "as", "aa", "nf")},
    **{name: Network(name, _RING) for name in ("gs", "ga")},
    "as+hs": Network("as+hs", _JOINED),
    "gs+as": Network("gs+as", (("a1", "a0"), ("a2", "a1"), ("a2", "a0"), ("a2", "b0"), ("b1", "b0"))),
}
"""Five servers each, but for the centralized one; two of them with a cycle, two with a gateway."""


class ServerProcess:
    """One ``palio serve``, which can be killed and started again."""

    def __init__(
        self,
        folder: Path,
        name: str,
        config: str,
        environment: Mapping[str, str] = MappingProxyType({}),
        program: str = "palio",
    ) -> None:
        self.name = name
        self.environment = environment
        """What its next life finds in its environment, besides that of this process."""
        self.program = program
        """What its next life runs."""
        self._config = folder / f"{name}.toml"
        self.configure(config)
        self._log = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None
        self._log_begin = 0
        """Where the log of this life begins."""
        self.lives = 0
        self.port = 0
        """Where it listens; zero while it does not."""
        self.http_port = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it has ended; none if it runs."""
        assert self._process is not None
        return self._process.returncode

    def configure(self, config: str) -> None:
        """Rewrite its configuration file; it counts from the next start or reload on."""
        self._config.write_text(config)

    async def start(self) -> None:
        await self.launch()
        await self.listens()

    async def launch(self) -> None:
        """Start the process; it may be killed before it listens."""
        self.lives += 1
        self._log_begin = self.log_bytes
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self.program, "serve", "--config", str(self._config), "--json",
                stderr=log, env={**os.environ, **self.environment},
            )  # fmt: skip

    async def listens(self) -> None:
        """Wait until it does."""
        await until(lambda: self._find(self._log_begin) or self._has_ended(), START_SECONDS)
        listening = self._find(self._log_begin)
        assert listening is not None, self.log_tail()
        self.port, self.http_port = listening["port"], listening["http_port"]

    def _has_ended(self) -> bool:
        return self._process is None or self._process.returncode is not None

    def _find(self, begin: int) -> dict[str, Any] | None:
        """Where it says that it listens, behind a place in its log."""
        return next((line for line in self.said(begin) if line["event"] == "listening"), None)

    async def kill(self, number: int = signal.SIGKILL) -> None:
        """End it, by its id; without a word, unless another signal is named."""
        self.port = 0
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
            await self._process.wait()

    def signal(self, number: int) -> None:
        """Send it a signal that does not end it."""
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def log_bytes(self) -> int:
        """How long its log is by now."""
        return self._log.stat().st_size if self._log.exists() else 0

    def log_tail(self, size: int = 2_000) -> str:
        """The end of its log."""
        with self._log.open("rb") as log:
            log.seek(max(0, self.log_bytes - size))
            return log.read().decode(errors="replace")

    def said(self, begin: int = 0) -> Iterator[dict[str, Any]]:
        """The lines of its log, of all its lives; or only those behind a place."""
        yield from _lines(self._log.read_bytes()[begin:] if self._log.exists() else b"")

    def faults(self) -> list[str]:
        """What it says of faults of its own."""
        return [str(line) for line in self.said() if line["event"] == "fault"]

    def status(self, key: str) -> int:
        """What the system says of it: kilobytes of memory (VmRSS, VmHWM), and so on."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{key}:")).split()[1])

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    async def figures(self) -> dict[str, float]:
        """What its metrics say."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.http_port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(START_SECONDS):
            said = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
        lines = said.partition("\r\n\r\n")[2].splitlines()
        return {
            name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[:1] not in ("#", ""))
        }


def _lines(log: bytes) -> Iterator[dict[str, Any]]:
    for line in log.splitlines():
        with suppress(ValueError):  # the last one may not be whole, when a server was killed
            said = json.loads(line)
            if "event" in said:  # the last words of the command, why it has ended, have none
                yield said


class Proxy:
    """The way from one server to another; it can be cut, stalled, and closed in one direction only."""

    def __init__(self, target: Callable[[], int]) -> None:
        self._target = target
        self._flow = asyncio.Event()
        self._flow.set()
        self.is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._half_closed: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.is_cut or not self._target():
                raise ConnectionRefusedError
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target())
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                await self._flow.wait()
                if target in self._half_closed:
                    continue
                target.write(data)
                await target.drain()
        self._writers.discard(target)
        self._half_closed.discard(target)
        target.close()

    def cut(self) -> None:
        """Drop what is under way, and let nobody through."""
        self.is_cut = True
        self.drop()

    def drop(self) -> None:
        """End the connections that there are; new ones are let through."""
        writers, self._writers = self._writers, set()
        for writer in writers:
            writer.transport.abort()

    def stall(self) -> None:
        """Connections stay, and nothing gets through."""
        self._flow.clear()

    def half_close(self) -> None:
        """Say in one direction that nothing more comes."""
        for writer in list(self._writers)[:1]:
            self._half_closed.add(writer)
            with suppress(OSError):
                writer.write_eof()

    def mend(self) -> None:
        self.is_cut = False
        self._flow.set()

    async def stop(self) -> None:
        self.mend()
        if self._server is not None:
            self._server.close()
        self.drop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Fleet:
    """All servers of a network, each a process, and a proxy on each way between two."""

    def __init__(self, network: Network, folder: Path, settings: str = "", program: str = "palio") -> None:
        """``{server}`` in the settings stands for the server's name; ``program`` is what is run in place of Palio."""
        self.network = network
        self._folder = folder
        self._settings = settings
        self._program = program
        self.servers: dict[str, ServerProcess] = {}
        self.ways: dict[tuple[str, str], Proxy] = {}
        self.doors = {name: Proxy(lambda name=name: self.servers[name].port) for name in network.servers}  # type: ignore[misc]
        """Where clients find a server: it has another port each time that it is started."""

    async def __aenter__(self) -> Fleet:
        for door in self.doors.values():
            await door.start()
        for who, whom in self.network.dials:
            self.ways[who, whom] = Proxy(lambda whom=whom: self.servers[whom].port)  # type: ignore[misc]
            await self.ways[who, whom].start()
        for name in self.network.servers:
            self.servers[name] = ServerProcess(self._folder, name, self.config(name), PATIENT, self._program)
        try:
            await asyncio.gather(*(server.start() for server in self.servers.values()))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(server.kill() for server in self.servers.values()))
        await asyncio.gather(*(each.stop() for each in (*self.ways.values(), *self.doors.values())))

    def settings_of(self, name: str) -> str:
        """What the configuration of a server says besides its name, port and peers."""
        return self._settings.replace("{server}", name)

    def configured(self, name: str) -> list[str]:
        """The neighbours that may be in the configuration of a server."""
        return self.network.neighbours(name)

    def way(self, who: str, whom: str) -> Proxy:
        """The way over which a server dials another one."""
        return self.ways[who, whom]

    def dialed_port(self, who: str, whom: str) -> int:
        """The port at which a server dials another one."""
        return self.way(who, whom).port

    def peer_settings(self, who: str, whom: str) -> list[str]:
        """More lines of the configuration of a server about a neighbour that it dials."""
        return []

    def latency(self, who: str, whom: str) -> int:
        """The latency of a link in the configuration of the server that dials."""
        return self.network.latency(who, whom)

    def config(self, name: str) -> str:
        """The configuration of a server, as it should be now."""
        network = self.network
        lines = [
            f'server = "{name}"',
            f'architecture = "{architecture_of(network.architecture, name)}"',
            "port = 0",
            self.settings_of(name),
        ]
        for peer in self.configured(name):
            role, is_dialed = network.role(name, peer), (name, peer) in network.dials
            if is_dialed or role is Role.GATEWAY:
                lines += ["[[peers]]", f'name = "{peer}"', f'role = "{role.value}"']
                lines += [f"latency = {self.latency(name, peer)}"]
            if is_dialed:
                lines += [f'url = "palio://127.0.0.1:{self.dialed_port(name, peer)}"', *self.peer_settings(name, peer)]
                lines += [f'exports = "{BORDER}"'] if role is Role.GATEWAY else []
        return "\n".join(lines)

    def faults(self) -> list[str]:
        return [f"{name}: {fault}" for name, server in self.servers.items() for fault in server.faults()]
