"""An operator of a network: gives commands, sends signals, and reads status, metrics and logs; nothing else."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from palio import connect
from palio.client import ServiceError
from palio.server.status import STATE_REASONS
from tests.processes.fleet import START_SECONDS, ServerProcess
from tests.processes.links_fleet import PING_SECONDS, LinksFleet
from tests.serving import until

_LOOK_SECONDS = 0.1
_QUERY_SECONDS = 5.0
_REFUSED_SECONDS = 16.0
"""For so long a link is refused: long enough for pauses between retries to grow."""
SHOWN_SECONDS = 2 * PING_SECONDS + 3.0
"""Within so many seconds the metrics must show a lost neighbour: two pings, and some more for a busy machine."""


_EMPTY_WORDS = frozenset({"", "the link has ended", "the connection was lost", *STATE_REASONS.values()})
"""Reasons that explain nothing while both servers run and can reach each other."""
_PASSING_CODES = ("stopping: ", "silent: ", "replaced: ")
"""How reasons begin that explain the end of a connection, but not that there is no new one."""


def is_explanation(reason: str) -> bool:
    """Whether a reason says why a link between two servers that run is not up."""
    return reason not in _EMPTY_WORDS and not reason.startswith(_PASSING_CODES)


class LinkEnd(NamedTuple):
    """A link as the server at one end of it sees it."""

    server: str
    state: str
    reason: str
    """From its status, or else from its log."""

    def __str__(self) -> str:
        return f"{self.server} says {self.state} ({self.reason or 'no reason'})"


class LinkStanding(NamedTuple):
    """A link as both ends see it."""

    ends: tuple[LinkEnd, LinkEnd]

    @property
    def is_up(self) -> bool:
        return all(end.state == "up" for end in self.ends)

    @property
    def is_explained(self) -> bool:
        """Whether both ends say why the link is not up; a server that is not there need not."""
        return all(is_explanation(end.reason) or end.state == "not running" for end in self.ends)

    def __str__(self) -> str:
        return " - ".join(end.server for end in self.ends) + ": " + ", ".join(map(str, self.ends))


def reason_in_log(server: ServerProcess, peer: str, begin: int) -> str:
    """The last reason that a server has logged for its link to a neighbour, behind a place in its log."""
    lines = server.said(begin)
    return next(
        (str(each["reason"]) for each in reversed([*lines]) if each.get("peer") == peer and each.get("reason")), ""
    )


async def links_of(url: str) -> dict[str, dict[str, Any]] | None:
    """The links in the status of a server, by neighbour; none if it does not answer."""
    try:
        async with asyncio.timeout(_QUERY_SECONDS), connect(url, max_attempts=0) as client:
            status = await client.query("status")
    except (ServiceError, TimeoutError):
        return None
    return {each["name"]: each for each in status["links"]}


class Operator:
    """Changes links by the documented means, and writes down what it did."""

    def __init__(self, fleet: LinksFleet, say: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._say = say
        self.done: list[str] = []
        """What was done since the network was whole."""

    def note(self, text: str) -> None:
        """Something was done."""
        self.done.append(text)
        self._say(f"  {text}")

    # -- commands and signals ------------------------------------------------------------------------------------------

    async def remove(self, server: str, neighbour: str) -> None:
        """``palio net link remove``."""
        await self.command(server, "remove", neighbour)

    async def add(self, server: str, neighbour: str) -> None:
        """``palio net link add``; with a url where the server dials the neighbour."""
        network = self._fleet.network
        if (server, neighbour) not in network.dials:
            await self.command(server, "add", neighbour, "--wait", "0")
            return
        await self.dial(server, neighbour, f"palio://127.0.0.1:{self._fleet.way(server, neighbour).port}")

    async def dial(self, server: str, neighbour: str, url: str, role: str = "") -> None:
        """``palio net link add`` with a url."""
        network = self._fleet.network
        role = role or network.role(server, neighbour).value
        is_known = any({server, neighbour} == {*pair} for pair in network.dials)
        latency = network.latency(server, neighbour) if is_known else 1
        await self.command(
            server, "add", neighbour, url, "--role", role, "--latency", str(latency), "--wait", "0"
        )  # fmt: skip

    async def command(self, server: str, *arguments: str) -> None:
        """``palio net link``; that it ends with 1 because a link is not up yet is no problem."""
        code, said = await self._run("net", "link", *arguments, "--server", self._fleet.url(server))
        is_done = code == 0 or "not up yet" in said
        text = "" if is_done else f" -> {code}: {said.strip().splitlines()[-1:]}"
        self.note(f"at {server}: palio net link {' '.join(arguments)}{text}")

    async def back_up(self, server: str) -> Path:
        """``palio store backup``, while the server runs; where the backup is."""
        store = self._fleet.store_folder(server) / f"{server}.db"
        backup = store.with_name(f"backup-{self._fleet.servers[server].lives}.db")
        await self._change_store(server, "backup", store, backup)
        return backup

    async def restore(self, server: str, backup: Path) -> None:
        """``palio store restore``, while the server does not run."""
        await self._change_store(server, "restore", backup, self._fleet.store_folder(server) / f"{server}.db")

    async def _change_store(self, server: str, action: str, source: Path, target: Path) -> None:
        code, said = await self._run("store", action, str(source), str(target))
        assert code == 0, said
        self.note(f"at {server}: palio store {action}")

    async def _run(self, *arguments: str) -> tuple[int, str]:
        """A command; how it ended, and what it said."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "palio", *arguments,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(START_SECONDS):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def reload(self, server: str) -> None:
        """Rewrite the file of a server as it should be, send it SIGHUP, and wait until it has read the file."""
        process = self._fleet.servers[server]
        process.configure(self._fleet.config(server))
        begin = process.log_bytes
        process.signal(signal.SIGHUP)
        self.note(f"at {server}: SIGHUP")
        await until(lambda: any(line["event"] in ("reloaded", "not-reloaded") for line in process.said(begin)))

    # -- what can be seen ----------------------------------------------------------------------------------------------

    def places(self) -> dict[str, int]:
        """How long each log is by now."""
        return {name: server.log_bytes for name, server in self._fleet.servers.items()}

    async def standing(self, pair: tuple[str, str], since: Mapping[str, int]) -> LinkStanding:
        """How a link stands; reasons in logs count from some place on."""
        low, high = pair
        return LinkStanding((await self._end(low, high, since), await self._end(high, low, since)))

    async def _end(self, name: str, peer: str, since: Mapping[str, int]) -> LinkEnd:
        server = self._fleet.servers[name]
        if not server.port:
            return LinkEnd(name, "not running", "")
        links = await links_of(self._fleet.url(name))
        if links is None:
            return LinkEnd(name, "no answer", "")
        link = links.get(peer, {"state": "unknown", "reason": ""})
        told = link["reason"] if is_explanation(link["reason"]) else ""
        return LinkEnd(name, link["state"], told or reason_in_log(server, peer, since[name]))

    async def not_up(
        self, pairs: Iterable[tuple[str, str]], seconds: float, since: Mapping[str, int]
    ) -> list[LinkStanding]:
        """Wait until links are up; those that are not in time."""
        return await self._watched(pairs, seconds, since, lambda link: link.is_up)

    async def unexplained(
        self, pairs: Iterable[tuple[str, str]], seconds: float, since: Mapping[str, int]
    ) -> list[LinkStanding]:
        """Wait until links are up, or both ends say why not; those of which neither comes true in time."""
        return await self._watched(pairs, seconds, since, lambda link: link.is_up or link.is_explained)

    async def _watched(
        self,
        pairs: Iterable[tuple[str, str]],
        seconds: float,
        since: Mapping[str, int],
        is_good: Callable[[LinkStanding], bool],
    ) -> list[LinkStanding]:
        end = time.monotonic() + seconds
        waiting = [*pairs]
        while True:
            found = [await self.standing(pair, since) for pair in waiting]
            bad = [link for link in found if not is_good(link)]
            if not bad or time.monotonic() > end:
                return bad
            await asyncio.sleep(_LOOK_SECONDS)

    async def refused_often(self, server: str, neighbour: str) -> None:
        """Wait until a link was refused several times, or for long enough if the server logs that only once."""
        process, end = self._fleet.servers[server], time.monotonic() + _REFUSED_SECONDS
        begin = process.log_bytes
        while time.monotonic() < end:
            lines = [line for line in process.said(begin) if line["event"] == "link-refused"]
            if sum(line.get("peer") == neighbour for line in lines) >= 5:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def shows_down(self, server: str, neighbour: str) -> str:
        """Wait until the metrics of a server show that a neighbour is lost; what they show instead, if they do not."""
        end, name = time.monotonic() + SHOWN_SECONDS, f'palio_link_up{{peer="{neighbour}"}}'
        while True:
            figures = await self._fleet.servers[server].figures()
            if figures.get(name) == 0:
                return ""
            if time.monotonic() > end:
                shown = figures.get(name, "not at all")
                return f"{server} shows {name} {shown} {SHOWN_SECONDS:g} s after {neighbour} was lost"
            await asyncio.sleep(_LOOK_SECONDS)
