"""Clients that connect again quickly, what servers hold for them, and a server that says only what it is told to."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

from palio.client import Client, connect
from palio.codec import control, frames
from palio.codec.control import Hello, Welcome
from palio.model import Filter, Pattern
from palio.server.server import Server

QUICK: dict[str, Any] = {"reconnect_time_wait": 0.005, "reconnect_time_max": 0.05, "max_attempts": 1000}


def client_of(server: Server, **options: Any) -> Client:
    """A client that is quick to connect again."""
    made: Client = connect(f"palio://127.0.0.1:{server.port}", **{**QUICK, **options})
    return made


def held(server: Server, party: str) -> set[Filter]:
    """The filters that a server has for a party."""
    return set(server.driver.node.router.profile(party).filters)


def held_patterns(server: Server, party: str) -> set[Pattern]:
    """The patterns that a server has for a party."""
    return set(server.driver.node.monitors.patterns(party))


class Puppet:
    """A server that says only what it is told to."""

    def __init__(self, *, welcomes: bool = True, context: ssl.SSLContext | None = None) -> None:
        self._welcomes = welcomes
        self._context = context
        self.received: list[tuple[int, bytes]] = []
        self.hellos: list[Hello] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.speaker: asyncio.StreamWriter | None = None
        """Over which connection the last frame came."""
        self.port = 0
        self.is_deaf = False
        """Whether it reads nothing more."""

    async def __aenter__(self) -> Puppet:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self.hang_up()

    @property
    def url(self) -> str:
        return f"{'palio' if self._context is None else 'palios'}://127.0.0.1:{self.port}"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while not self.is_deaf:
                length = int.from_bytes(await reader.readexactly(4), "big")
                body = await reader.readexactly(length)
                self.speaker = writer
                self._took(body[0], body[1:])
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _took(self, kind: int, content: bytes) -> None:
        self.received.append((kind, content))
        if kind == control.KINDS[Hello]:
            hello = control.decode(kind, content)
            assert isinstance(hello, Hello)
            self.hellos.append(hello)
            if self._welcomes:
                self.say(control.encode(Welcome(1, "puppet", 1, 4096)))

    def of_kind(self, kind: int) -> list[bytes]:
        return [content for received, content in self.received if received == kind]

    def publications(self) -> list[bytes]:
        return self.of_kind(frames.PUBLISH)

    def say(self, data: bytes) -> None:
        self._writers[-1].write(data)

    async def hang_up(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
