"""The demonstration from beginning to end: servers, feeds, readers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from palio.client import CannotConnectError, Client, ConnectionLostError, connect
from palio.demo import feeds
from palio.demo.happenings import Delivery, Ended, Happening, Reader, Started, Writer
from palio.demo.servers import Servers

WRITERS = (
    Writer("exchange", "turin", "ticks", ("symbol any; price any; change any; volume any; lit any",)),
    Writer(
        "airports", "naples", "flights",
        ("flight any; from any; to any; scheduled any; event any; minutes any; gate any",),
    ),
    Writer(
        "house", "milan", "sensors",
        ("room any; celsius any", "event any; room any; level any; raw any; drill any"),
    ),
)  # fmt: skip
READERS = (
    Reader("eva", "rome", 'symbol = "DIS" and change > 0'),
    Reader("otto", "siena", "change > 1 or change < -1"),
    Reader("nora", "turin", "minutes >= 30"),
    Reader("luca", "milan", 'to = "FCO"'),
    Reader("vigili", "naples", 'event = "fire" and level > 3'),
    Reader("gina", "siena", 'symbol = "MSFT" and change < 0 then symbol = "MSFT" and change > 0'),
)
_PAUSE = 0.2
"""Seconds before a party looks again for a server that is not there."""
FEEDS: dict[str, feeds.Feed] = {"ticks": feeds.ticks, "flights": feeds.flights, "sensors": feeds.sensors}


class Plan(NamedTuple):
    """What is to be shown."""

    seed: int
    rate: float
    """Notifications a second of each feed."""
    seconds: float | None
    """For how long; until it is stopped, if nobody says."""
    architecture: str


class Demo:
    """One demonstration."""

    def __init__(self, plan: Plan, tell: Callable[[Happening], None]) -> None:
        self._plan = plan
        self._tell = tell
        self._stopping = asyncio.Event()
        self._servers: Servers | None = None
        self._published = 0
        self._deliveries = Counter({reader.name: 0 for reader in READERS})

    def stop(self) -> None:
        """End it in good order; who asks a second time does not want to wait for that."""
        if self._stopping.is_set() and self._servers is not None:
            self._servers.kill()
        self._stopping.set()

    async def run(self) -> None:
        """From the first server to the last; nothing is left of it."""
        begin = time.monotonic()
        with TemporaryDirectory(prefix="palio-demo-") as folder:
            self._servers = Servers(Path(folder), self._plan.architecture, self._tell)
            try:
                await self._until_stopped()
            finally:
                await self._servers.stop()
        self._tell(Ended(self._published, dict(self._deliveries), round(time.monotonic() - begin, 3)))

    async def _until_stopped(self) -> None:
        assert self._servers is not None
        work = asyncio.create_task(self._work(self._servers))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            work.cancel()
            await asyncio.wait([work])
        if not work.cancelled() and (error := work.exception()) is not None:
            raise _innermost(error)

    async def _work(self, servers: Servers) -> None:
        await servers.start()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(servers.watch())
            ready = [asyncio.Event() for _ in (*READERS, *WRITERS)]
            begin = asyncio.Event()
            for reader, is_ready in zip(READERS, ready, strict=False):
                tasks.create_task(self._read(reader, is_ready))
            for writer, is_ready in zip(WRITERS, ready[len(READERS) :], strict=True):
                tasks.create_task(self._write(writer, is_ready, begin))
            for each in ready:
                await each.wait()
            self._tell(Started(tuple(servers.sites.values()), servers.pids(), WRITERS, READERS, servers.metrics))
            begin.set()
            if self._plan.seconds is not None:
                asyncio.get_running_loop().call_later(self._plan.seconds, self._stopping.set)

    @asynccontextmanager
    async def _party(self, name: str, server: str) -> AsyncIterator[Client]:
        """A client; if its server has just died, as soon as that is back."""
        assert self._servers is not None
        while True:
            client = connect(self._servers.sites[server].url, name=name, reconnect_time_max=1.0, max_attempts=1000)
            try:
                await client.connect()
                break
            except CannotConnectError:
                await asyncio.sleep(_PAUSE)
        try:
            yield client
        finally:
            await client.close()

    async def _read(self, reader: Reader, is_ready: asyncio.Event) -> None:
        async with self._party(reader.name, reader.server) as client:
            # not cancelled in the end: all servers end, too, and one that hangs would not answer
            events = await client.subscribe(reader.wanted, wait=True)
            is_ready.set()
            async for element in events:
                self._deliveries[reader.name] += 1
                self._tell(Delivery(reader, element))

    async def _write(self, writer: Writer, is_ready: asyncio.Event, begin: asyncio.Event) -> None:
        """Publish a feed at its pace; what was under way when a server died may be lost, as with any publisher."""
        async with self._party(writer.name, writer.server) as client:
            for offer in writer.offers:
                await client.advertise(offer, wait=True)
            is_ready.set()
            await begin.wait()
            due = time.monotonic()
            for notification in FEEDS[writer.feed](self._plan.seed):
                try:
                    await client.publish(notification)
                    self._published += 1
                except ConnectionLostError:
                    continue
                due = max(due + 1 / self._plan.rate, time.monotonic() - 1)  # of a break, a second is made up for
                await asyncio.sleep(due - time.monotonic())


def _innermost(error: BaseException) -> BaseException:
    """What went wrong first, out of the groups of tasks in which it did."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
