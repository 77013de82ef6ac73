"""What is done to one server for a short while by the tests, and for long by ``make soak``."""

from __future__ import annotations

import asyncio
from random import Random

from palio.codec import control, frames
from palio.codec.control import VERSION, Ask, Goodbye, Hello
from palio.model import Advertisement, Filter, Notification, Pattern
from tests.processes.fleet import Fleet, ServerProcess
from tests.processes.noise import CONSTRAINTS, FRAME_BYTES, SLOW_BYTES, Offenders
from tests.processes.parties import PATIENCE
from tests.processes.story import Story

OFFENDERS = 50
FLOOD_SETTINGS = f"""
[limits]
constraints = {CONSTRAINTS}
document_bytes = {FRAME_BYTES - 64}
[connections]
frame_bytes = {FRAME_BYTES}
waiting_bytes = 16_000_000
drain_seconds = 1.0
[slow]
bytes = {SLOW_BYTES}
[http]
port = 0
"""
FLOOD_KILOBYTES = 60_000
"""By how much a flood may let the server's memory grow: what may wait for all (16 MB); for each of the offenders a
frame that is not whole, and a portion of what it sent with its answers (half a megabyte); and some room for Python."""


async def flood(fleet: Fleet, seed: int, frames: int) -> dict[str, int]:
    """Many send bad frames, and others go on as ever, judged by the law; figures of it."""
    server = fleet.servers["a0"]
    story = Story(fleet, seed, 40)
    await story.begin()
    await story.calm()
    before, files = server.status("VmRSS"), server.open_files()
    offenders = Offenders(server.port, seed)
    flooding = asyncio.ensure_future(offenders.run(OFFENDERS, frames))
    while not flooding.done():
        await story.calm()
    await flooding
    await story.calm()
    assert not offenders.problems, "\n".join(offenders.problems[:10])
    peak, figures = server.status("VmHWM"), await server.figures()
    for code, least in offenders.sent.items():
        assert figures[f'palio_refusals_total{{code="{code}"}}'] >= least
    assert figures["palio_faults_total"] == 0
    assert peak - before < FLOOD_KILOBYTES, f"{before:,} KB before, {peak:,} KB at the most"
    await story.end()
    return {
        "frames": offenders.frames,
        "rests": story.counts["rests"],
        "kilobytes before": before,
        "kilobytes at the most": peak,
        "files before": files,
    }


# -- those who come and go ---------------------------------------------------------------------------------------------

CHURN_SETTINGS = """
history_bytes = 0
[connections]
forget_seconds = 1.0
[http]
port = 0
"""
CHURN_KILOBYTES = 12_000
"""By how much memory may differ between the end of the first half and of the second: nothing is kept for those who are
gone, but what Python and the system keep for the next ones is not the same each time."""
_VISITORS = 40


class Visitors:
    """Parties that come, ask for something, and are gone without a word."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._servers = list(fleet.servers.values())
        self._seed = seed
        self._count = 0

    async def come_and_go(self, count: int) -> None:
        """So many of them, some at the same time."""
        most = self._count + count
        await asyncio.gather(*(self._visit(place, most) for place in range(_VISITORS)))

    async def _visit(self, place: int, most: int) -> None:
        while self._count < most:
            self._count += 1
            random = Random(f"{self._seed} visitor {self._count}")
            name = f"visitor-{random.choice([self._count, place])}"
            reader, writer = await asyncio.open_connection("127.0.0.1", random.choice(self._servers).port)
            writer.write(control.encode(Hello((VERSION,), "party", name)))
            async with asyncio.timeout(PATIENCE):
                await reader.readexactly(frames.HEADER)
            writer.write(_requests(random))
            match random.randrange(4):
                case 0:
                    writer.write(control.encode(Goodbye("", "")))
                case 1:
                    writer.write(frames.publish(Notification(junk=1))[: random.randrange(10)])
                case 2:
                    writer.write_eof()
            if random.random() < 0.5:
                await writer.drain()
                await asyncio.sleep(0)
            writer.transport.abort()


def _requests(random: Random) -> bytes:
    """Some requests, whose answers are not waited for."""
    value = random.randrange(10**9)
    wanted = Filter.parse(f"visit = {value}")
    asks = [
        Ask(1, "subscribe", *control.document(wanted), random.random() < 0.5),
        Ask(2, "subscribe", *control.document(Pattern([wanted, Filter.parse(f"visit > {value}")]))),
        Ask(3, "advertise", *control.document(Advertisement.parse(f"visit = {value}"))),
        Ask(4, "watch", *control.document(wanted)),
        Ask(5, "unsubscribe", *control.document(wanted)),
    ]
    made = [control.encode(ask) for ask in asks if random.random() < 0.7]
    return b"".join([*made, frames.publish(Notification(visit=value), 6)])


class Footprint:
    """What a server has of its parties, when those who are gone are forgotten."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.held: dict[str, float] = {}
        self.files = 0
        self.kilobytes = 0

    async def take(self) -> Footprint:
        figures = await self._server.figures()
        names = ("palio_subscriptions", "palio_advertisements", 'palio_connections{role="party"}')
        self.held = {name: figures[name] for name in names}
        self.files = self._server.open_files()
        self.kilobytes = self._server.status("VmRSS")
        return self

    async def comes_back(self) -> int:
        """Wait until all is as it was; by how many kilobytes it differs."""
        async with asyncio.timeout(PATIENCE):
            while True:
                now = await Footprint(self._server).take()
                if (now.held, now.files) == (self.held, self.files):
                    return now.kilobytes - self.kilobytes
                await asyncio.sleep(0.05)


async def churn(fleet: Fleet, seed: int, visits: int) -> dict[str, int]:
    """Many come and go at all servers, and others go on as ever, judged by the law; figures of it."""
    story = Story(fleet, seed, 40)
    await story.begin()
    visitors = Visitors(fleet, seed)
    footprints: list[list[Footprint]] = []
    for _ in range(2):
        before = [await Footprint(server).take() for server in fleet.servers.values()]
        visiting = asyncio.ensure_future(visitors.come_and_go(visits // 2))
        while not visiting.done():
            await story.serve()
        await visiting
        for each in before:
            await each.comes_back()
        footprints.append([await Footprint(server).take() for server in fleet.servers.values()])
    grown = [after.kilobytes - half.kilobytes for half, after in zip(*footprints, strict=True)]
    assert max(grown) < CHURN_KILOBYTES, f"grown by {grown} KB"
    await story.calm()
    await story.end()
    return {"visits": visits, "rests": story.counts["rests"], "kilobytes grown at the most": max(grown)}
