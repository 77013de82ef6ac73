"""Attacks of the hostile campaign by parties that take, keep or ask too much: readers, durable parties, questions."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from palio.codec import control, frames
from palio.codec.control import Durable, Query, Reject
from palio.model import Notification
from tests.processes.hostile_attack import Connection, Scene, Target, advertise, filter_document
from tests.processes.hostile_filters import unequal
from tests.processes.hostile_fleet import ADMIN

_KIB = 1 << 10
_READERS = 8
_SMALL_BUFFER = 4 * _KIB
_ABSENT_SECONDS = 0.5


# -- readers -----------------------------------------------------------------------------------------------------------


async def unread(scene: Scene) -> None:
    """Eight subscribers that do not read, and come again when they are sent away."""
    await _with_junk(scene, _do_not_read)


async def slow_reading(scene: Scene) -> None:
    """Eight subscribers that read byte by byte."""
    await _with_junk(scene, _read_slowly)


async def _with_junk(scene: Scene, read: Any) -> None:
    """Readers of one server, and publications for them at 2 MiB a second at most, from any server."""
    target = scene.target()
    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(_come_again(scene, target, f"h{90 + i}", read)) for i in range(_READERS)]
        await _publish_junk(scene, scene.target(), size=32 * _KIB, rate=64)
        for reader in readers:
            reader.cancel()


async def _come_again(scene: Scene, target: Target, name: str, read: Any) -> None:
    while not scene.is_over:
        with suppress(ConnectionError, EOFError):
            connection = await scene.enter(target, name, receive_bytes=_SMALL_BUFFER)
            scene.counts["connections"] += 1
            await connection.ask("subscribe", "filter", filter_document([("junk", "any", "any")]))
            await read(connection, scene)
        await asyncio.sleep(_ABSENT_SECONDS)


async def _do_not_read(connection: Connection, scene: Scene) -> None:
    """Look for the end of the connection only by writing."""
    connection.stop_reading()
    while not scene.is_over:
        await asyncio.sleep(0.5)
        await connection.send(control.encode(control.Pong(1)))


async def _read_slowly(connection: Connection, scene: Scene) -> None:
    connection.reader._limit = 1  # type: ignore[attr-defined]  # else the stream itself reads ahead
    while not scene.is_over:
        if not await connection.reader.read(1):
            return
        await asyncio.sleep(0.05)


async def _publish_junk(scene: Scene, target: Target, size: int, rate: float) -> None:
    connection = await scene.enter(target)
    await advertise(connection, "junk")
    data = "j" * size
    while not scene.is_over:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await connection.publish(junk=data)
                scene.counts["publications"] += 1
        await asyncio.sleep(1 / rate)
        await scene.breathe()


# -- durable parties ---------------------------------------------------------------------------------------------------


async def never_acknowledging(scene: Scene) -> None:
    """A durable party that subscribes and never acknowledges, and comes again and again."""
    target = scene.target()
    name = f"h{80 + scene.random.randrange(5)}"
    connection = await scene.enter(target, name, durable=Durable(count=5_000))
    await connection.ask("subscribe", "filter", filter_document([("junk", "any", "any")]))
    junk = asyncio.create_task(_publish_junk(scene, scene.target(), size=2 * _KIB, rate=200))
    try:
        while not scene.is_over:
            await asyncio.sleep(1)
            scene.leave(connection)
            connection = await scene.enter(target, name, durable=Durable(count=5_000))
            scene.counts["connections"] += 1
    finally:
        junk.cancel()
        await asyncio.gather(junk, return_exceptions=True)
    await _give_up(connection)


async def rejecting(scene: Scene) -> None:
    """A durable party that makes a dead letter of each delivery, with a long reason."""
    target = scene.target()
    connection = await scene.enter(target, f"h{85 + scene.random.randrange(5)}", durable=Durable())
    await connection.ask("subscribe", "filter", filter_document([("junk", "any", "any")]))
    junk = asyncio.create_task(_publish_junk(scene, target, size=100, rate=500))
    position = 0
    try:
        while not scene.is_over:
            async with asyncio.timeout(max(0.1, scene.end - time.monotonic())):
                kind, content = await connection.next()
            if kind == control.KINDS[control.Position]:
                found = control.decode(kind, content)
                assert isinstance(found, control.Position)
                position = found.first
            elif kind == frames.DELIVER:
                connection.number += 1
                await connection.send(control.encode(Reject(connection.number, position, "r" * 1_000)))
                position += 1
                scene.counts["rejected"] += 1
                await scene.breathe()
    except TimeoutError:
        pass
    finally:
        junk.cancel()
        await asyncio.gather(junk, return_exceptions=True)
    await _give_up(connection)


async def _give_up(connection: Connection) -> None:
    """Unsubscribe, so that other attacks do not fill the log of this party."""
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(2):
            await connection.ask("unsubscribe", "filter", filter_document([]))


async def keys(scene: Scene) -> None:
    """Thousands of publications with keys: of 60 kB, which is too long, and as long as they may be."""
    connection = await scene.enter(scene.target())
    drain = asyncio.create_task(_discard(connection))
    for n in range(4_000):
        if scene.is_over:
            break
        length = 60_000 if n % 4 == 0 else 1_024
        key = f"{scene.random.random()}".ljust(length, "k")
        await connection.send(frames.publish_with(Notification(key=n), frames.Options(key=key), n + 1))
        scene.counts["publications"] += 1
        if n % 20 == 0:
            await scene.breathe()
    drain.cancel()
    await asyncio.gather(drain, return_exceptions=True)


async def odd_options(scene: Scene) -> None:
    """Publications that expired in year 1, with traces and keys that are none."""
    connection = await scene.enter(scene.target())
    drain = asyncio.create_task(_discard(connection))
    first = datetime(1, 1, 1, tzinfo=UTC)
    options: list[bytes] = [
        msgspec.msgpack.encode({"expires": first}),
        msgspec.msgpack.encode({"expires": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)}),
        msgspec.msgpack.encode({"expires": msgspec.msgpack.Ext(-1, bytes(4) + b"\xff" * 8)}),
        msgspec.msgpack.encode({"trace": "00-" + "0" * 60}),
        msgspec.msgpack.encode({"key": ""}),
        msgspec.msgpack.encode({"mode": "never", "more": 1}),
        b"\x81\xa3key\xa2\xc3\x28",
        b"\xdf\xff\xff\xff\xff",
        b"\x91" * 1_000,
    ]
    body = frames.publish(Notification(odd=1))[frames.SHORTEST_PUBLISH :]
    number = 0
    while not scene.is_over and number < 5_000:
        number += 1
        packed = scene.random.choice(options)
        content = number.to_bytes(4, "big") + len(packed).to_bytes(2, "big") + packed + body
        await connection.send(frames.frame(frames.PUBLISH_WITH, content))
        scene.counts["publications"] += 1
        await scene.breathe()
    drain.cancel()
    await asyncio.gather(drain, return_exceptions=True)


async def _discard(connection: Connection) -> None:
    """Read and forget."""
    while await connection.reader.read(1 << 16):
        pass


# -- questions ---------------------------------------------------------------------------------------------------------

_UNANSWERED = 8


async def questions(scene: Scene) -> None:
    """Questions about servers, the network, and what became of notifications, as many at once as are permitted."""
    target = scene.target()
    names = [ADMIN, *(f"h{number}" for number in scene.random.sample(range(1, 80), 3))]
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            connection = await scene.enter(target, name)
            tasks.create_task(_keep_asking(connection, scene, is_admin=name == ADMIN))


async def _keep_asking(connection: Connection, scene: Scene, *, is_admin: bool) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("status", {}),
        ("network", {"seconds": 10.0}),
        ("holdings", {}),
        ("letters", {}),
        ("status", {"no": "such"}),
        ("nonsense", {"a" * 100: ["b"] * 100}),
    ]
    if is_admin:
        asked += [("explain", {"last_of": by, "party": party}) for by in ("p0", "p1") for party in ("d0", "s1", "h1")]
    answers, under_way = (control.KINDS[control.Result], control.KINDS[control.Answer]), 0
    while not scene.is_over:
        while under_way < _UNANSWERED:
            connection.number += 1
            subject, arguments = scene.random.choice(asked)
            await connection.send(control.encode(Query(connection.number, subject, arguments)))
            under_way += 1
            scene.counts["questions"] += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.1, scene.end - time.monotonic())):
                kind, _ = await connection.next()
                under_way -= kind in answers
        await scene.breathe()


async def history(scene: Scene) -> None:
    """Requests and publications that fill what a server remembers: 40 MB of them, small when encoded."""
    connection = await scene.enter(scene.target())
    drain = asyncio.create_task(_discard(connection))
    rows = [(f"m{i}", "integer", "!=", i) for i in range(255)]
    payload = b"p" * 900_000
    sent = 0
    while sent < 40_000_000 and not scene.is_over:
        document = filter_document([*rows, ("z", "integer", "=", scene.random.randrange(10**6))])
        await connection.ask("unsubscribe", "filter", document)
        sent += len(document)
        scene.counts["requests"] += 1
        if scene.random.random() < 0.002:
            await connection.send(_with_payload(payload))
            sent += len(payload)
        if connection.number % 20 == 0:
            await scene.breathe()
    await connection.ask("subscribe", "filter", filter_document(unequal(scene.random)))
    drain.cancel()
    await asyncio.gather(drain, return_exceptions=True)


def _with_payload(payload: bytes) -> bytes:
    document = msgspec.msgpack.encode([1, {"junk-of-history": 1}, "application/octet-stream", payload])
    return frames.frame(frames.PUBLISH, bytes(4) + document)
