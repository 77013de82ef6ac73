"""Attacks of the hostile campaign by connections: silent, unfinished, too many, with wrong tokens, or with nonsense."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from palio.codec import control, frames
from palio.codec.control import VERSION, Goodbye, Hello, Welcome
from tests.processes.hostile_attack import Connection, Scene, Target, advertise, filter_document
from tests.processes.hostile_fleet import FEW_FILES, FEW_FILES_SERVER
from tests.processes.noise import BAD_DOCUMENTS, BEGINNINGS, BREAKING

_HALF_HELLO = control.encode(Hello((VERSION,), "party", "h1", "half"))[:-3]
_HALF_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: half\r\nX-Slow: "
_INNOCENT = "h99"
"""The party that comes with the right token after many wrong ones."""


async def silent(scene: Scene) -> None:
    """150 connections that say nothing, or half a hello; new ones when they are sent away."""
    target = scene.target()
    await _keep_open(
        scene, 150, lambda: _begin(scene, target.port, scene.random.choice([b"", _HALF_HELLO[:3], _HALF_HELLO]))
    )


async def silent_http(scene: Scene) -> None:
    """100 connections to the HTTP port that say nothing, or never end their headers."""
    target = scene.target()
    await _keep_open(scene, 100, lambda: _begin(scene, target.http_port, scene.random.choice([b"", _HALF_REQUEST])))


async def descriptors(scene: Scene) -> None:
    """More connections than the server with few files can have."""
    target = scene.targets.get(FEW_FILES_SERVER, scene.target())
    await _keep_open(scene, 2 * FEW_FILES, lambda: _begin(scene, target.port, b""))


async def _begin(scene: Scene, port: int, said: bytes) -> Connection:
    connection = await scene.open(port)
    await connection.send(said)
    return connection


async def _keep_open(scene: Scene, count: int, begin: Callable[[], Awaitable[Connection]]) -> None:
    """Keep so many connections open; at most as many more are opened each second."""
    connections: list[Connection] = []
    while not scene.is_over:
        for each in [each for each in connections if each.reader.at_eof() or each.writer.transport.is_closing()]:
            connections.remove(each)
            scene.leave(each)
        while len(connections) < count and not scene.is_over:
            with suppress(OSError):
                async with asyncio.timeout(2):
                    connections.append(await begin())
                    scene.counts["connections"] += 1
            await scene.breathe()
        await asyncio.sleep(1)


async def flood(scene: Scene) -> None:
    """2,000 connections that come and go at once, some after a hello."""
    target = scene.target()
    for n in range(2_000):
        if scene.is_over:
            return
        with suppress(OSError, EOFError):
            connection = await scene.enter(target) if n % 5 == 0 else await scene.open(target.port)
            scene.leave(connection)
        scene.counts["connections"] += 1
        await scene.breathe()


async def wrong_tokens(scene: Scene) -> None:
    """300 wrong tokens from the address of all others; after each 100 a party comes with the right one."""
    target = scene.target()
    for n in range(300):
        if scene.is_over:
            return
        with suppress(OSError, EOFError):
            connection = await scene.open(target.port)
            name = scene.random.choice(["h1", "d0", "nobody", "p1"])
            await connection.hello(name, scene.random.choice(["party", "server", "observer"]), token=f"wrong {n}")
            scene.counts["wrong"] += 1
            scene.leave(connection)
        await scene.breathe()
        if n % 100 == 99:
            await _come_rightly(scene, target)


async def _come_rightly(scene: Scene, target: Target) -> None:
    connection = await scene.open(target.port)
    answer = await connection.hello(_INNOCENT)
    if isinstance(answer, Goodbye) and answer.code != "full":
        scene.problems.append(f"after wrong tokens from its address, a party with the right one got {answer.code}")
    elif isinstance(answer, Welcome):
        scene.counts["right"] += 1
    scene.leave(connection)


async def nonsense(scene: Scene) -> None:
    """Malformed, oversized and deeply nested frames and bodies, and random bytes."""
    target = scene.target()
    random = scene.random
    while not scene.is_over:
        with suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(3):
                if random.random() < 0.4:
                    begun = random.choice([random.randbytes(200), *(data for data, _ in BEGINNINGS)])
                    connection = await _begin(scene, target.port, begun)
                else:
                    connection = await scene.enter(target)
                    for _ in range(random.randrange(20)):
                        await connection.send(_bad_publication(random.choice(BAD_DOCUMENTS)[0]))
                        scene.counts["frames"] += 1
                    await connection.send(random.choice([random.randbytes(200), *(data for data, _ in BREAKING)]))
                scene.counts["frames"] += 1
                await connection.reader.read(1)
                scene.leave(connection)
        await scene.breathe()


def _bad_publication(document: bytes) -> bytes:
    return frames.frame(frames.PUBLISH, (1).to_bytes(4, "big") + document)


async def names(scene: Scene) -> None:
    """Control characters, line ends, invalid UTF-8 and marks of direction in names, attributes and reasons."""
    target = scene.target()
    bad = ["\x1b[2J\x07", "a\nb\r\n{}", "\u202eevil", "\0", "x" * 1_024, "é" * 512, "\x9b31m", "{server}%s%n"]
    raw = control.encode(Hello((VERSION,), "party", "AAAA", "BBBB")).replace(b"AAAA", b"\xff\xfe\xc3\x28")
    while not scene.is_over:
        with suppress(OSError, EOFError):
            connection = await scene.open(target.port)
            if scene.random.random() < 0.2:
                await connection.send(raw)
            else:
                role = scene.random.choice(["party", "server", "observer", "\x1b[31m"])
                await connection.hello(scene.random.choice(bad), role, agent=scene.random.choice(bad))
            scene.leave(connection)
            scene.counts["hellos"] += 1
            if scene.counts["hellos"] % 10 == 0:
                await _odd_attributes(scene, target, scene.random.choice(bad))
        await scene.breathe()


async def _odd_attributes(scene: Scene, target: Target, name: str) -> None:
    """Names of attributes as bad as names of parties, within their limit."""
    name = name.encode()[:256].decode(errors="ignore")
    connection = await scene.enter(target)
    await advertise(connection, name)
    await connection.ask("subscribe", "filter", filter_document([(name, "string", "=", name)]))
    await connection.publish(**{name: name})
    async with asyncio.timeout(max(0.1, min(2.0, scene.end - time.monotonic()))):
        await connection.next()
    scene.leave(connection)
