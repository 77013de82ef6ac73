"""What the hostile campaign sees of servers from outside: memory, health, links, logs and records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from tests.processes.hostile_fleet import HostileFleet
from tests.processes.hostile_judge import Trouble

_PAUSE_SECONDS = 1.0
_HEALTH_SECONDS = 3.0
"""A health check that is not answered after so long has failed, as for most supervisors."""
_LINK_SECONDS = 30.0
_MIB = 1 << 20


class Probes:
    """Looks at all servers once a second."""

    def __init__(self, fleet: HostileFleet, during: Callable[[], tuple[str, ...]]) -> None:
        self._fleet = fleet
        self._during = during
        """The attacks that are being made."""
        self.rss_kib: dict[str, int] = dict.fromkeys(fleet.network.servers, 0)
        self.unhealthy: list[Trouble] = []

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look_at_memory()
            await asyncio.gather(*(self._check_health(name) for name in self._fleet.servers))
            await asyncio.sleep(_PAUSE_SECONDS)

    def look_at_memory(self) -> None:
        """Note the highest memory of each server that runs."""
        for name, server in self._fleet.servers.items():
            with suppress(OSError, StopIteration):
                self.rss_kib[name] = max(self.rss_kib[name], server.status("VmHWM"))

    @property
    def rss_mib(self) -> int:
        """The highest memory of any server."""
        return max(self.rss_kib.values()) // 1024

    @property
    def log_mib(self) -> float:
        """The size of the longest log."""
        return round(self._fleet.log_bytes() / _MIB, 2)

    async def _check_health(self, name: str) -> None:
        during = self._during()
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                said = await _get_health(self._fleet.servers[name].http_port)
        except TimeoutError:
            said = f"no answer in {_HEALTH_SECONDS:g} s"
        except OSError as error:
            said = repr(error)
        if said != "200":
            self.unhealthy.append(Trouble(f"{name}: /healthz: {said}", during))

    async def links_down(self) -> list[str]:
        """Links of the network that do not come up by themselves after the attacks."""
        end = time.monotonic() + _LINK_SECONDS
        while True:
            down = [text for name in self._fleet.servers for text in await self._links_down_of(name)]
            if not down or time.monotonic() > end:
                return down
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _links_down_of(self, name: str) -> list[str]:
        neighbours = self._fleet.network.neighbours(name)
        try:
            figures = await self._fleet.servers[name].figures()
        except (OSError, TimeoutError) as error:
            return [f"{name} does not tell its metrics: {error!r}"]
        return [
            f"the link of {name} to {peer} is down after the attacks"
            for peer in neighbours
            if figures.get(f'palio_link_up{{peer="{peer}"}}') != 1
        ]


async def _get_health(port: int) -> str:
    """The status code of /healthz."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return (await reader.readline()).decode("latin-1").partition(" ")[2][:3] or "closed"
    finally:
        writer.transport.abort()
