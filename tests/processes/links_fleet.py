"""The servers of the links campaign: their files and stores change while it runs, and so do their clocks."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Collection
from pathlib import Path

from tests.processes.fleet import PATIENT, Fleet, Network, Proxy, ServerProcess
from tests.processes.shifted import VARIABLE

PING_SECONDS = 2.0
"""Idle seconds before servers ping each other; after as long again they regard a connection as lost."""
SETTINGS = f"""
history_bytes = 0
[connections]
ping_seconds = {PING_SECONDS}
drain_seconds = 2.0
[http]
port = 0
"""
_TREE = (("a1", "a0"), ("a2", "a0"), ("a3", "a1"))
_RING = (("a1", "a0"), ("a2", "a1"), ("a3", "a2"), ("a3", "a0"))
NETWORKS = {
    **{name: Network(name, _TREE) for name in ("as", "aa", "hs")},
    **{name: Network(name, _RING) for name in ("gs", "ga")},
}
"""Four servers each."""


class LinksFleet(Fleet):
    """A fleet whose configurations, stores and clocks can be changed, server by server."""

    def __init__(
        self, network: Network, folder: Path, without_store: Collection[str] = (), program: str = "palio"
    ) -> None:
        super().__init__(network, folder, SETTINGS, program)
        self.stores: dict[str, str | None] = {
            name: None if name in without_store else "own" for name in network.servers
        }
        """Which folder holds the store that each server uses from its next start on; none: it runs without one."""
        self.left_out: set[tuple[str, str]] = set()
        """Pairs of servers of which the first one does not have the second one in its file."""
        self.detours: dict[tuple[str, str], Proxy] = {}
        """A second url for each link."""
        self.is_detoured: set[tuple[str, str]] = set()
        self.latencies: dict[tuple[str, str], int] = {}
        """Latencies of links that the files of servers have in place of the network's."""
        self._twins: list[ServerProcess] = []

    async def __aenter__(self) -> LinksFleet:
        for name in self.network.servers:
            self.store_folder(name).mkdir(parents=True)
        for who, whom in self.network.dials:
            self.detours[who, whom] = Proxy(lambda whom=whom: self.servers[whom].port)  # type: ignore[misc]
            await self.detours[who, whom].start()
        await super().__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(twin.kill() for twin in self._twins))
        await super().__aexit__()
        await asyncio.gather(*(each.stop() for each in self.detours.values()))

    # -- configurations ------------------------------------------------------------------------------------------------

    def settings_of(self, name: str) -> str:
        """With the store that it is to use."""
        settings, store = super().settings_of(name), self.stores[name]
        return settings if store is None else f'{settings}[store]\npath = "{name}-{store}/{name}.db"\n'

    def configured(self, name: str) -> list[str]:
        """Without those that were left out."""
        return [peer for peer in super().configured(name) if (name, peer) not in self.left_out]

    def latency(self, who: str, whom: str) -> int:
        """The network's, or another one."""
        return self.latencies.get((who, whom), super().latency(who, whom))

    def way(self, who: str, whom: str) -> Proxy:
        """The way over which a server dials another one just now."""
        return (self.detours if (who, whom) in self.is_detoured else self.ways)[who, whom]

    def url(self, server: str) -> str:
        """Where clients find a server."""
        return f"palio://127.0.0.1:{self.doors[server].port}"

    def dialed_by(self, server: str) -> list[str]:
        """The neighbours that a server dials."""
        return [whom for who, whom in self.network.dials if who == server]

    # -- servers -------------------------------------------------------------------------------------------------------

    async def end(self, name: str, number: int = signal.SIGTERM) -> None:
        """End a server by a signal."""
        await self.servers[name].kill(number)

    async def begin(self, name: str, *, shifted: int = 0) -> None:
        """Start a server with the configuration that it should have now, and perhaps with a wrong clock."""
        server = self.servers[name]
        server.configure(self.config(name))
        server.program = "tests.processes.shifted" if shifted else self._program
        server.environment = {**PATIENT, VARIABLE: str(shifted)} if shifted else PATIENT
        await server.start()

    async def begin_twin(self, name: str) -> ServerProcess:
        """Start a second server of a name, with the same neighbours and without a store."""
        folder = self._folder / f"twin-{len(self._twins)}"
        folder.mkdir()
        store, self.stores[name] = self.stores[name], None
        twin = ServerProcess(folder, name, self.config(name), PATIENT)
        self.stores[name] = store
        self._twins.append(twin)
        await twin.start()
        return twin

    # -- stores --------------------------------------------------------------------------------------------------------

    def store_folder(self, name: str, which: str = "own") -> Path:
        """Where the files of a server's store are."""
        return self._folder / f"{name}-{which}"

    def use_empty_store(self, name: str) -> None:
        """From its next start on a server uses a store that does not exist yet."""
        which = f"other-{self.servers[name].lives}"
        self.store_folder(name, which).mkdir()
        self.stores[name] = which

    def take_snapshot(self, name: str) -> None:
        """Copy the files of a server's store; the server is not running."""
        snapshot = self.store_folder(name, "snapshot")
        shutil.rmtree(snapshot, ignore_errors=True)
        shutil.copytree(self.store_folder(name), snapshot)

    def restore_snapshot(self, name: str) -> None:
        """Put the copy in place of a server's store; the server is not running."""
        shutil.rmtree(self.store_folder(name))
        shutil.copytree(self.store_folder(name, "snapshot"), self.store_folder(name))
