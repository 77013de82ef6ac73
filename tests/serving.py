"""What tests of servers and clients share: servers in the same loop, a tiny client, and ways to wait for things."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar, NamedTuple

import msgspec

from palio.codec import control, frames, msgpack
from palio.codec.control import VERSION, Answer, Ask, Goodbye, Hello, Welcome
from palio.model import Notification
from palio.server.config import Config, read_config
from palio.server.server import Server

DEADLINE = 30.0
"""Seconds after which something that should happen has not happened; nothing takes nearly as long."""


class Noted(NamedTuple):
    """The server has noted what a durable party has acknowledged."""

    number: int


class Duplicated(NamedTuple):
    """The server says that the key of a publication was known."""

    number: int


Received = control.Control | Notification | Noted | Duplicated | int


class Raw:
    """A connection as bytes and frames."""

    opened: ClassVar[set[Raw]] = set()
    """Those that were not closed; who runs a test does it in the end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.number = 0
        self.opened.add(self)

    @classmethod
    async def connect(cls, server: Server | int, context: ssl.SSLContext | None = None) -> Raw:
        port = server if isinstance(server, int) else server.port
        host = "localhost" if context else "127.0.0.1"
        return cls(
            *await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=host if context else None)
        )

    @classmethod
    async def party(
        cls, server: Server | int, name: str, token: str = "", context: ssl.SSLContext | None = None
    ) -> Raw:
        raw = await cls.connect(server, context)
        answer = await raw.hello(name, token)
        assert isinstance(answer, Welcome), answer
        return raw

    async def hello(
        self, name: str, token: str = "", role: str = "party", versions: tuple[int, ...] = (VERSION,)
    ) -> Any:
        self.send(control.encode(Hello(versions, role, name, token)))
        return await self.next()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def next(self) -> Received:
        """The next frame; notifications and accepted numbers as such."""
        async with asyncio.timeout(DEADLINE):
            head = await self.reader.readexactly(frames.HEADER)
            content = await self.reader.readexactly(int.from_bytes(head[:4], "big") - 1)
        kind = head[4]
        if kind == frames.DELIVER:
            return frames.delivered(content)
        if kind == frames.ACCEPTED:
            return frames.accepted_up_to(content)[0]
        if kind == frames.DUPLICATE:
            return Duplicated(frames.duplicated(content))
        if kind == frames.ACKNOWLEDGED:
            return Noted(frames.acknowledged(content))
        return control.decode(kind, content)

    async def until(self, cls: type[Any]) -> Any:
        """The next frame of a kind; others are skipped."""
        while not isinstance(found := await self.next(), cls):
            pass
        return found

    async def goodbye(self) -> str:
        """The code with which the connection is closed; it is closed."""
        said = await self.until(Goodbye)
        async with asyncio.timeout(DEADLINE):
            assert await self.reader.read() == b""
        await self.close()
        return str(said.code)

    async def ask(self, operation: str, text: str, kind: str = "filter", **more: Any) -> Answer:
        cls = control._SUBJECTS[kind]
        return await self.ask_raw(operation, kind, msgpack.encode(cls.parse(text)), **more)

    async def ask_raw(self, operation: str, kind: str, document: bytes, **more: Any) -> Answer:
        self.number += 1
        self.send(control.encode(Ask(self.number, operation, kind, msgspec.Raw(document), **more)))
        answer = await self.until(Answer)
        assert answer.number == self.number
        return answer  # type: ignore[no-any-return]

    async def subscribe(self, text: str, kind: str = "filter", *, wait: bool = False) -> None:
        assert (await self.ask("subscribe", text, kind, wait=wait)).code == ""

    def publish(self, number: int = 0, **attributes: Any) -> None:
        self.send(frames.publish(Notification(attributes), number))

    async def is_served(self) -> bool:
        """Whether the server answers."""
        self.send(control.encode(control.Ping(77)))
        pong: control.Pong = await self.until(control.Pong)
        return pong.number == 77

    async def close(self) -> None:
        self.opened.discard(self)
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


def run(coroutine: Coroutine[Any, Any, None], deadline: float = DEADLINE) -> None:
    """Run a test in a loop of its own, and not forever."""

    async def bounded() -> None:
        try:
            async with asyncio.timeout(deadline):
                await coroutine
        finally:
            await asyncio.gather(*(each.close() for each in tuple(Raw.opened)))

    asyncio.run(bounded())


async def until(condition: Callable[[], object], deadline: float = DEADLINE) -> None:
    """Wait for something to be so."""
    async with asyncio.timeout(deadline):
        while not condition():
            await asyncio.sleep(0.002)


def configured(server: str = "milan", port: int = 0, **more: Any) -> Config:
    """A configuration, as if read from a file."""
    config = read_config(f'server = "{server}"')
    return msgspec.convert({**msgspec.to_builtins(config), "port": port, **more}, Config)


@asynccontextmanager
async def serving(config: Config | None = None, **more: Any) -> AsyncIterator[Server]:
    """A server, until all its connections are gone; in the end it does not wait long for those that stay open."""
    server = Server(config or configured(**{"connections": {"drain_seconds": 0.5}, **more}))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        await until(lambda: not server._connections)
