"""Attacks of the hostile campaign by servers: frames without end, refused links, taken names, and lies."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from palio.codec import control, frames
from palio.codec.control import Goodbye
from palio.link import wire
from palio.link.frames import Accept, Close, Closed, Data, Frame, Known, Open, Probe, Refuse
from palio.model import Advertisement, Filter
from palio.routing import messages
from palio.routing.messages import Message, Stamp
from palio.server.agents import agent_of
from tests.processes.hostile_attack import Connection, Scene, Target
from tests.processes.hostile_fleet import STRANGERS, liar_of

_MIB = 1 << 20
_UNFINISHED_BYTES = 60_000_000
_UNFINISHED_PEERS = 10
_LINKS = 500
"""Links that one attack asks for, each under a name of its own."""


async def _enter(scene: Scene, target: Target, name: str) -> Connection | Goodbye:
    """Connect as a server, with the right token; or the reason why that was refused."""
    connection = await scene.open(target.port)
    answer = await connection.hello(name, "server", agent=agent_of(scene.random.randrange(1, 2**40)))
    return answer if isinstance(answer, Goodbye) else connection


async def unfinished_frames(scene: Scene) -> None:
    """Ten servers that each send 60 MB of a frame and never its end."""
    target = scene.target()
    first = scene.random.randrange(STRANGERS - _UNFINISHED_PEERS)
    await asyncio.gather(*(_begin_frame(scene, target, f"x{first + i}") for i in range(_UNFINISHED_PEERS)))
    await asyncio.sleep(max(0.0, scene.end - time.monotonic()))


async def _begin_frame(scene: Scene, target: Target, name: str) -> None:
    block = bytes(_MIB // 4)
    with suppress(OSError, EOFError, TimeoutError):
        async with asyncio.timeout(max(0.1, scene.end - time.monotonic())):
            connection = await _enter(scene, target, name)
            if isinstance(connection, Goodbye):
                return
            await connection.send((_UNFINISHED_BYTES + 1_000).to_bytes(4, "big") + bytes([frames.LINK]))
            for _ in range(_UNFINISHED_BYTES // len(block)):
                await connection.send(block)
                scene.counts["bytes"] += len(block)
                await scene.breathe()


async def refused_links(scene: Scene) -> None:
    """500 servers that nobody has heard of ask for a link of another architecture, and go."""
    target = scene.target()
    for _ in range(_LINKS):
        if scene.is_over:
            return
        with suppress(OSError, EOFError, TimeoutError):
            name = f"x{scene.random.randrange(STRANGERS)}"
            connection = await _enter(scene, target, name)
            if isinstance(connection, Goodbye):
                continue
            session = (1, name, scene.random.randrange(2**40))
            await _say(connection, Open(session, "peer", "nf", ((name, (0, "", 0)),)))
            async with asyncio.timeout(1):
                await connection.next()
            scene.leave(connection)
            scene.counts["links"] += 1
        await scene.breathe()


async def twins(scene: Scene) -> None:
    """Second live servers of names that are taken, with the right token."""
    target = scene.targets.get("a0", scene.target())
    while not scene.is_over:
        with suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(5):
                answer = await _enter(scene, target, scene.random.choice(["a1", "a2"]))
                scene.counts["servers"] += 1
                if not isinstance(answer, Goodbye):
                    scene.problems.append(f"a second live server of a name was let in by {target.name}")
                    scene.leave(answer)
        await asyncio.sleep(0.2)


async def _say(connection: Connection, frame: Frame) -> None:
    await connection.send(frames.frame(frames.LINK, wire.encode(frame)))


# -- a neighbour that lies ---------------------------------------------------------------------------------------------


async def lies(scene: Scene) -> None:
    """A neighbour with a link that takes back things it never said, and names sources that are not its own."""
    target = scene.target()
    while not scene.is_over:
        with suppress(OSError, EOFError, TimeoutError):
            await _lie(scene, target)
        await asyncio.sleep(0.2)


async def _lie(scene: Scene, target: Target) -> None:
    """One link, until the server gives it up."""
    connection = await _enter(scene, target, liar_of(target.name))
    if isinstance(connection, Goodbye):
        return
    liar = _Liar(connection, scene, target)
    async with asyncio.timeout(max(0.1, min(3.0, scene.end - time.monotonic()))):
        await liar.run()
    scene.leave(connection)


class _Liar:
    """The other end of a link: it does as a server would until the link is up, and then lies."""

    def __init__(self, connection: Connection, scene: Scene, target: Target) -> None:
        self._connection, self._scene, self._target = connection, scene, target
        self._name = liar_of(target.name)
        self._has_sources = target.architecture in ("gs", "ga")
        self._session: Stamp = (scene.random.randrange(1, 2**30), self._name, scene.random.randrange(2**40))
        self._next = 0
        self._expected = 0
        self._is_over = False
        """Whether the server has ended the link."""

    @property
    def _members(self) -> tuple[tuple[str, Stamp], ...]:
        return ((self._name, (0, "", 0)),)

    async def run(self) -> None:
        role = "master" if self._target.architecture == "hs" else "peer"
        await _say(self._connection, Open(self._session, role, self._target.architecture, self._members))
        while not self._is_over:
            kind, content = await self._connection.next()
            if kind == frames.LINK:
                await self._hear(wire.decode(content))
            elif kind == control.KINDS[control.Goodbye]:
                return

    async def _hear(self, frame: Frame) -> None:
        match frame:
            case Open(session):
                self._session = session
                await _say(self._connection, Accept(session, self._members))
            case Accept(session):
                self._session = session
                await self._lie()
            case Close(session):
                await _say(self._connection, Closed(session))
                self._is_over = True
            case Refuse():
                self._is_over = True
            case Probe(session, number):
                await _say(self._connection, Known(session, number, 0, self._next, self._expected))
            case Data(session, first, said):
                self._session, self._expected = session, max(self._expected, first + len(said))
                await self._lie()

    async def _lie(self) -> None:
        said = tuple(self._message() for _ in range(self._scene.random.randrange(1, 4)))
        await _say(self._connection, Data(self._session, self._next, said, self._expected))
        self._next += len(said)
        self._scene.counts["lies"] += len(said)
        await self._scene.breathe()

    def _message(self) -> Message:
        random = self._scene.random
        sources = [self._name, "a0", "a1", "a2", "ghost"] if self._has_sources else ["", "", "", "a1"]
        source = random.choice(sources)
        filter = Filter.parse(random.choice(['by = "p0"', "x > 5", "mark any", "lie = 1", 's0 >* "a"']))
        offer = Advertisement.parse(random.choice(['n any and x any and by = "p1"', "lie any"]))
        made: list[Message] = [
            messages.Unsubscribe(filter, source),
            messages.Unadvertise(offer, source),
            messages.Subscribe(filter, source),
            messages.Advertise(offer, source),
            messages.Spreaded(random.randrange(9)),
            messages.Recall(random.randrange(9)),
            messages.Returned(random.randrange(9), ()),
        ]
        return random.choice(made)


async def broad_neighbour(scene: Scene) -> None:
    """A neighbour with a link that subscribes to thousands of hard filters at once."""
    target = scene.target()
    connection = await _enter(scene, target, liar_of(target.name))
    if isinstance(connection, Goodbye):
        return
    hard = _HardNeighbour(connection, scene, target)
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.1, scene.end - time.monotonic())):
            await hard.run()


class _HardNeighbour(_Liar):
    """It says the truth, but much of it."""

    async def _lie(self) -> None:
        if self._next >= 2_000:
            return
        await super()._lie()

    def _message(self) -> Message:
        random = self._scene.random
        source = self._name if self._has_sources else ""
        names = random.sample(range(30), 10)
        return messages.Subscribe(
            Filter.parse(" and ".join(f"u{name} != {random.randrange(6)}" for name in names)), source
        )
