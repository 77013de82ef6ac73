"""What is done to servers, ways and programs while the kill campaign runs, by a seed."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tests.processes.fleet import Fleet, Proxy, ServerProcess


class Havoc:
    """Kills servers, stops them for a while, and breaks the ways between them; one event after the other.

    No server is the victim of two events at a time, so several may be dead at the same time, but all come back.
    """

    def __init__(self, fleet: Fleet, seed: int, pause: tuple[float, float]) -> None:
        self._fleet = fleet
        self._random = Random(f"{seed} havoc")
        self._pause = pause
        self._busy: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()
        self.starts: list[float] = []
        """Seconds from each start of a server until it listened."""

    @property
    def kills(self) -> int:
        """How often a server was killed."""
        return self.counts["kills"]

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Go on until it is over; then all servers are there, and all ways are open."""
        try:
            while not is_over():
                await asyncio.sleep(self._random.uniform(*self._pause))
                self._happen()
                for task in [task for task in self._tasks if task.done()]:
                    self._tasks.discard(task)
                    task.result()
            await asyncio.gather(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()

    def _happen(self) -> None:
        events: list[tuple[Callable[[], None], int]] = [
            (lambda: self._do_to_servers(1, self._kill), 10),
            (lambda: self._do_to_servers(2, self._kill), 3),
            (lambda: self._do_to_servers(1, self._kill_again), 4),
            (lambda: self._do_to_servers(1, self._stop), 2),
            (self._break_way, 3 if self._fleet.ways else 0),
        ]
        self._random.choices([each for each, _ in events], [weight for _, weight in events])[0]()

    def _begin(self, event: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(event))

    def _do_to_servers(self, count: int, event: Callable[[ServerProcess, Random], Coroutine[Any, Any, None]]) -> None:
        free = [name for name in self._fleet.network.servers if name not in self._busy]
        for name in self._random.sample(free, min(count, len(free))):
            self._busy.add(name)
            random = Random(self._random.random())
            self._begin(self._until_done(name, event(self._fleet.servers[name], random)))

    async def _until_done(self, name: str, event: Coroutine[Any, Any, None]) -> None:
        try:
            await event
        finally:
            self._busy.discard(name)

    async def _kill(self, server: ServerProcess, random: Random) -> None:
        await self._end(server)
        await asyncio.sleep(random.choice([0.0, 0.3, random.uniform(0, 2)]))
        await self._start(server)

    async def _kill_again(self, server: ServerProcess, random: Random) -> None:
        """Kill it, and once more while it starts, reads its store, or has just begun to listen."""
        await self._end(server)
        for _ in range(random.choice([1, 2])):
            await server.launch()
            listening = asyncio.create_task(server.listens())
            await asyncio.wait([listening], timeout=random.uniform(0, 2.5))
            if not listening.done():
                self.counts["killed while starting"] += 1
            listening.cancel()
            await self._end(server)
            await asyncio.gather(listening, return_exceptions=True)
        await self._start(server)

    async def _stop(self, server: ServerProcess, random: Random) -> None:
        """Let it stand still for a while; and sometimes it does not come back from that."""
        server.signal(signal.SIGSTOP)
        self.counts["stops"] += 1
        await asyncio.sleep(random.uniform(0.2, 2.5))
        if random.random() < 0.3:
            await self._kill(server, random)
        else:
            server.signal(signal.SIGCONT)

    async def _end(self, server: ServerProcess) -> None:
        self.counts["kills"] += 1
        await server.kill()

    async def _start(self, server: ServerProcess) -> None:
        began = time.monotonic()
        await server.start()
        self.starts.append(time.monotonic() - began)

    def _break_way(self) -> None:
        way = self._random.choice(list(self._fleet.ways.values()))
        trouble = self._random.choice([Proxy.cut, Proxy.drop, Proxy.stall, Proxy.half_close])
        self._begin(self._broken(way, trouble, self._random.uniform(0.1, 1.5)))

    async def _broken(self, way: Proxy, trouble: Callable[[Proxy], None], seconds: float) -> None:
        self.counts["broken ways"] += 1
        trouble(way)
        await asyncio.sleep(seconds)
        way.mend()
