"""What all attacks of the hostile campaign share: bounds of time and processor, connections, bodies made by hand."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

import msgspec

from palio.codec import control, frames
from palio.codec.control import VERSION, Ask, Durable, Hello
from palio.model import Notification
from tests.processes.hostile_fleet import PARTIES, token_of

CPU_SHARE = 0.15
"""Of one processor that one attacker may use, besides being nice: so the effect of attacks is that on servers."""
_LONGEST_PAUSE = 1.0


class Target(NamedTuple):
    """A server, as attackers find it."""

    name: str
    port: int
    http_port: int
    architecture: str


class Pace:
    """Keeps this process within its share of one processor."""

    def __init__(self, share: float = CPU_SHARE) -> None:
        self._share = share
        self._began, self._used = time.monotonic(), time.process_time()

    async def breathe(self) -> None:
        """Sleep for as long as this process has used the processor too much; at least let others run."""
        used = time.process_time() - self._used
        late = used / self._share - (time.monotonic() - self._began)
        await asyncio.sleep(min(max(late, 0.0), _LONGEST_PAUSE))


class Scene:
    """One attack: where it happens, by which seed, and what became of it."""

    def __init__(self, targets: Iterable[Target], seed: str, seconds: float) -> None:
        self.targets = {each.name: each for each in targets}
        self.random = Random(seed)
        self.end = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        """What an innocent client could not do, though it should."""
        self._pace = Pace()
        self._connections: list[Connection] = []

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    def target(self) -> Target:
        """Any server."""
        return self.random.choice([*self.targets.values()])

    async def breathe(self) -> None:
        """Stay within the share of the processor."""
        await self._pace.breathe()

    def party(self) -> str:
        """The name of a party that attackers may use; not that of the admin."""
        return f"h{self.random.randrange(1, PARTIES)}"

    async def open(self, port: int, *, receive_bytes: int = 0) -> Connection:
        """Connect without a word."""
        made = socket.socket()
        made.setblocking(False)
        if receive_bytes:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
            connection = Connection(*await asyncio.open_connection(sock=made))
        except BaseException:
            made.close()
            raise
        self._connections.append(connection)
        return connection

    async def enter(self, target: Target, name: str = "", **more: Any) -> Connection:
        """Connect as a party, with the right token."""
        receive_bytes = more.pop("receive_bytes", 0)
        connection = await self.open(target.port, receive_bytes=receive_bytes)
        await connection.hello(name or self.party(), **more)
        return connection

    def leave(self, connection: Connection) -> None:
        """Break a connection."""
        connection.abort()
        with suppress(ValueError):
            self._connections.remove(connection)

    def clean_up(self) -> None:
        """Break all connections."""
        for connection in self._connections:
            connection.abort()
        self._connections.clear()


class Connection:
    """A connection as bytes and frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.number = 0

    async def hello(
        self, name: str, role: str = "party", token: str | None = None, agent: str = "", durable: Durable | None = None
    ) -> control.Control:
        """Say hello; the welcome, or the goodbye."""
        said = token_of(name) if token is None else token
        self.writer.write(control.encode(Hello((VERSION,), role, name, said, agent, durable)))
        kind, content = await self.next()
        return control.decode(kind, content)

    async def next(self) -> tuple[int, bytes]:
        """The next frame."""
        head = await self.reader.readexactly(frames.HEADER)
        return head[4], await self.reader.readexactly(int.from_bytes(head[:4], "big") - 1)

    async def send(self, data: bytes) -> None:
        """Send bytes; wait until most of them are on their way."""
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, operation: str, kind: str, document: bytes, **more: Any) -> int:
        """Send a request, without waiting for its answer; its number."""
        self.number += 1
        await self.send(control.encode(Ask(self.number, operation, kind, msgspec.Raw(document), **more)))
        return self.number

    async def publish(self, **attributes: Any) -> None:
        """Publish something that no innocent subscriber wants, without an answer."""
        await self.send(frames.publish(Notification(attributes)))

    async def answered(self, number: int) -> control.Answer:
        """Skip frames up to an answer."""
        while True:
            kind, content = await self.next()
            if kind == control.KINDS[control.Answer]:
                answer = control.decode(kind, content)
                assert isinstance(answer, control.Answer)
                if answer.number >= number:
                    return answer

    async def answers(self, number: int, scene: Scene) -> None:
        """Read until a request is answered, or the attack is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, scene.end - time.monotonic())):
                await self.answered(number)

    def stop_reading(self) -> None:
        """Take nothing more from the socket."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    def abort(self) -> None:
        """Break it."""
        self.writer.transport.abort()


Attack = Callable[[Scene], Awaitable[None]]


def filter_document(rows: Iterable[tuple[Any, ...]]) -> bytes:
    """A filter or an advertisement: rows of name, type, operator and value.

    >>> filter_document([("x", "integer", "=", 1)]).hex(" ")
    '92 01 91 94 a1 78 a7 69 6e 74 65 67 65 72 a1 3d 01'
    """
    return msgspec.msgpack.encode([1, [*rows]])


def pattern_document(filters: Iterable[Iterable[tuple[Any, ...]]]) -> bytes:
    """A pattern, as rows of its filters."""
    return msgspec.msgpack.encode([1, [[*rows] for rows in filters]])


async def advertise(connection: Connection, *names: str) -> None:
    """Advertise attributes of these names, where that matters."""
    number = await connection.ask(
        "advertise", "advertisement", filter_document([(name, "any", "any") for name in names])
    )
    await connection.answered(number)
