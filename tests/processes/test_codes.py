"""Every code that is documented, from a server that is a process, by its cause; and only who causes it suffers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from palio.codec import control, frames
from palio.codec.control import VERSION, Answer, Durable, Hello
from palio.model import Notification
from palio.server.credentials import hash_of
from palio.server.errors import Code
from tests.processes.fleet import ServerProcess
from tests.processes.noise import BAD_DOCUMENTS, BEGINNINGS, BREAKING, CONSTRAINTS, FRAME_BYTES, bad_asks
from tests.serving import Raw, run

_OPEN = f"""
server = "milan"
port = 0
guard = true
[limits]
constraints = {CONSTRAINTS}
document_bytes = {FRAME_BYTES - 64}
[connections]
most = 12
frame_bytes = {FRAME_BYTES}
ping_seconds = 3.0
[slow]
bytes = 200_000
"""
_CLOSED = f"""
server = "rome"
port = 0
[connections]
failures_per_minute = 2
[tokens]
bystander = "{hash_of("b")}"
"""


class Scene:
    """A server, and somebody who behaves and is served all the while."""

    def __init__(self, server: ServerProcess, bystander: Raw) -> None:
        self.server = server
        self._bystander = bystander
        self.seen: set[str] = set()

    async def goodbye(self, offender: Raw, code: str) -> None:
        """A connection is closed with a code, and nobody else's is."""
        closing = asyncio.ensure_future(offender.goodbye())
        while not closing.done():
            assert await self._bystander.is_served()
            await asyncio.wait([closing], timeout=0.2)
        assert closing.result() == code
        await self._note(code)

    async def answer(self, offender: Raw, number: int, code: str) -> None:
        """A request is refused with a code, and its connection goes on."""
        while (answer := await offender.until(Answer)).number != number:
            pass
        assert answer.code == code
        assert await offender.is_served()
        await self._note(code)

    async def _note(self, code: str) -> None:
        self.seen.add(code)
        self._bystander.publish(proof=1)
        assert (await self._bystander.until(Notification))["proof"] == 1


@asynccontextmanager
async def scene_at(folder: Path, config: str, token: str = "") -> AsyncIterator[Scene]:
    server = ServerProcess(folder, "server", config)
    await server.start()
    try:
        bystander = await Raw.party(server.port, "bystander", token)
        assert (await bystander.ask("advertise", "proof any", "advertisement")).code == ""
        await bystander.subscribe("proof any")
        yield Scene(server, bystander)
        assert await bystander.goodbye() == "stopping"
        assert server.faults() == []
    finally:
        await server.kill()


async def _beginnings(scene: Scene) -> None:
    for data, code in BEGINNINGS:
        offender = await Raw.connect(scene.server.port)
        offender.send(data)
        await scene.goodbye(offender, code)


async def _frames(scene: Scene) -> None:
    for data, code in BREAKING:
        offender = await Raw.party(scene.server.port, "offender")
        offender.send(data + bytes(1_000))
        await scene.goodbye(offender, code)


async def _requests(scene: Scene) -> None:
    offender = await Raw.party(scene.server.port, "offender")
    for number, (document, code) in enumerate(BAD_DOCUMENTS, 1):
        offender.send(frames.frame(frames.PUBLISH, number.to_bytes(4, "big") + document))
        await scene.answer(offender, number, code)
    for ask, code in bad_asks(1_000):
        offender.send(control.encode(ask))
        await scene.answer(offender, 1_000, code)
    offender.publish(2_000, x=1)
    await scene.answer(offender, 2_000, "not-advertised")
    await offender.close()


async def _without_store(scene: Scene) -> None:
    offender = await Raw.connect(scene.server.port)
    offender.send(control.encode(Hello((VERSION,), "party", "eva", durable=Durable())))
    await scene.goodbye(offender, "no-store")


async def _replaced(scene: Scene) -> None:
    older, newer = await Raw.party(scene.server.port, "eva"), await Raw.party(scene.server.port, "eva")
    await scene.goodbye(older, "replaced")
    assert await newer.is_served()
    await newer.close()


async def _name_taken(scene: Scene) -> None:
    older, newer = await Raw.connect(scene.server.port), await Raw.connect(scene.server.port)
    await older.hello("rome", role="server")
    newer.send(control.encode(Hello((VERSION,), "server", "rome")))
    await older.until(control.Ping)
    older.send(control.encode(control.Pong(0)))
    await scene.goodbye(newer, "name-taken")
    assert await older.is_served()
    await older.close()


async def _silent(scene: Scene) -> None:
    await scene.goodbye(await Raw.party(scene.server.port, "silent"), "silent")


async def _full(scene: Scene) -> None:
    others = [await Raw.party(scene.server.port, f"other-{i}") for i in range(11)]
    await scene.goodbye(await Raw.connect(scene.server.port), "full")
    for each in others:
        assert await each.is_served()
        await each.close()


async def _slow(scene: Scene) -> None:
    deaf, publisher = await Raw.party(scene.server.port, "deaf"), await Raw.party(scene.server.port, "publisher")
    assert (await publisher.ask("advertise", "body any", "advertisement")).code == ""
    await deaf.subscribe("body any")
    deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for number in range(2, 1_000):
        publisher.publish(number, body="b" * 20_000)
        await publisher.writer.drain()
    while await publisher.until(int) < 999:
        pass
    deaf.writer.transport.resume_reading()  # type: ignore[attr-defined]
    await scene.goodbye(deaf, "slow")
    await publisher.close()


async def _late(scene: Scene) -> None:
    half = await Raw.connect(scene.server.port)
    half.send(control.encode(Hello((VERSION,), "party", "eva", "e"))[:7])
    await scene.goodbye(half, "hello")


async def _tokens(scene: Scene) -> None:
    for name, code in (("bystander", "token"), ("nobody", "unknown"), ("bystander", "too-many")):
        offender = await Raw.connect(scene.server.port)
        offender.send(control.encode(Hello((VERSION,), "party", name, "wrong")))
        await scene.goodbye(offender, code)


def test_every_code_has_its_cause(tmp_path: Path) -> None:
    seen: set[str] = set()

    async def play(config: str, token: str, acts: list[Callable[[Scene], Awaitable[None]]]) -> None:
        async with scene_at(tmp_path, config, token) as scene:
            for act in acts:
                await act(scene)
            seen.update(scene.seen)
            await scene.server.kill(signal.SIGTERM)
        seen.add("stopping")

    async def both() -> None:
        await play(
            _OPEN, "", [_beginnings, _frames, _requests, _without_store, _replaced, _name_taken, _silent, _slow, _full]
        )
        await play(_CLOSED, "b", [_tokens, _late])

    run(both(), deadline=120)
    without = {
        Code.INTERNAL,
        Code.GONE,
        Code.FULL_DISK,
        Code.TLS,
    }  # there is no cause; and those of stores and of TLS have tests of their own
    assert seen == {code.value for code in set(Code) - without}
