"""The innocent load of the hostile campaign, a process of its own: ``python -m tests.processes.hostile_load``.

Publishers and subscribers use the public client alone and write down what they do. Publications are due at fixed times,
whatever servers do; the latency of a delivery counts from that time. Commands come line by line over the standard
input: ``finish`` ends publishing, and the end of the input ends the process. Answers go to the standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from palio import connect
from palio.client import Client, Delivery, Durable, ServiceError
from palio.errors import CallerError
from palio.model import Notification
from tests.processes.hostile_fleet import VISITOR, token_of
from tests.processes.kill_ledger import Book, Refused, Spread, Wish
from tests.processes.links_programs import Program
from tests.processes.programs import (
    PUBLISHING,
    Publications,
    Write,
    acknowledge,
    delivered,
    missing,
    note_delivery,
    offers,
)

PUBLISHERS = {"p0": "a0", "p1": "a1"}
DURABLE = {"d0": "a0", "d1": "a1", "d2": "a2"}
PLAIN = {"s0": "a0", "s1": "a1", "s2": "a2"}
CLIENTS = (*PUBLISHERS, *DURABLE, *PLAIN)
WISH = Wish()
VISITED = ("a0", "a1")
"""Servers to which a visitor connects again and again; not the one that has few files."""
_PAUSE_SECONDS = 1.0
"""Between two visits."""
_VISIT_SECONDS = 10.0
"""A visitor that is not served after so long has been turned away."""


class Notebook:
    """A file of JSON lines, written in blocks."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1 << 16)

    def write(self, *fields: object) -> None:
        """Append a line; it is in the file after the next flush."""
        self._file.write(json.dumps(fields) + "\n")

    def flush(self) -> None:
        """Let others read what was written."""
        self._file.flush()


class Breaks(logging.Handler):
    """Notes when clients say that they have lost a connection, and why."""

    def __init__(self, notebook: Notebook) -> None:
        super().__init__(logging.WARNING)
        self._notebook = notebook

    def emit(self, record: logging.LogRecord) -> None:
        """A client has logged something."""
        text = record.getMessage()
        if "connecting again" in text:
            self._notebook.write(round(time.monotonic(), 6), text)


class Times:
    """When publications were due, and how long after that they came."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._due: dict[tuple[str, int], float] = {}

    def published(self, by: str, n: int, due: float) -> None:
        """A publication was due."""
        self._due[by, n] = due

    def came(self, subscriber: str, notification: Notification) -> None:
        """A delivery has come."""
        due = self._due.get((str(notification["by"]), int(str(notification["n"]))))
        if due is not None:
            self._notebook.write(round(due, 6), round(1e3 * (time.monotonic() - due), 3), subscriber)


class Publisher(Program):
    """Publishes with acknowledgements on disk and with keys, at fixed times."""

    def __init__(
        self, name: str, server: str, url: Callable[[], str], write: Write, times: Times, seed: str, rate: float
    ) -> None:
        super().__init__(name, server, url, write, token=token_of(name), **PUBLISHING)
        self._times = times
        self._interval = 1 / rate
        self._offers = offers(name, "mark")
        self._publications = Publications(
            name, Random(f"{seed} {name}"), write, lambda n, error: Refused(n, repr(error))
        )
        self._due: float | None = None
        """When the next publication is due; none before publishing begins."""
        self.is_on = asyncio.Event()
        self.end: float | None = None
        """Nothing is due later than that; set when publishing is to end."""
        self.is_done = asyncio.Event()

    async def work(self, client: Client) -> None:
        """Advertise, and publish until the end."""
        for offer in self._offers:
            await client.advertise(offer)
        await self.is_on.wait()
        self._due = self._due or time.monotonic()
        while self.end is None or self._due < self.end:
            await asyncio.sleep(self._due - time.monotonic())
            due, self._due = self._due, self._due + self._interval
            await self._publish(client, due, is_mark=False)
        await self._publish(client, self._due, is_mark=True)
        while self._publications.under_way:
            await asyncio.wait(self._publications.under_way)
        self.is_done.set()
        await asyncio.Event().wait()

    async def _publish(self, client: Client, due: float, *, is_mark: bool) -> None:
        intent = self._publications.intend(is_mark=is_mark)
        self._times.published(self.name, intent.n, due)
        try:
            await self._publications.send(client, intent, **({"mark": True} if is_mark else {}))
        except (ServiceError, CallerError, asyncio.CancelledError) as error:
            self.write(Refused(intent.n, repr(error)))
            raise

    async def _spread(self, client: Client, _: int) -> None:
        for offer in self._offers:
            await client.advertise(offer, wait=True)


class DurableSubscriber(Program):
    """Writes each delivery down, then acknowledges it."""

    def __init__(self, name: str, server: str, url: Callable[[], str], write: Write, times: Times) -> None:
        durable = Durable(window=256, on_gap=lambda gap: write(missing(gap)))
        super().__init__(name, server, url, write, token=token_of(name), durable=durable)
        self._times = times

    async def work(self, client: Client) -> None:
        """Subscribe, and process deliveries."""
        stream = await client.subscribe(WISH.text)
        async for delivery in stream:
            assert isinstance(delivery, Delivery)
            self._times.came(self.name, delivery.notification)
            note_delivery(delivery, self.write)
            await acknowledge(delivery, self.write, is_noted=delivery.number % 50 == 0)

    async def _spread(self, client: Client, barrier: int) -> None:
        await _pass_barrier(client, barrier, self.write)


class PlainSubscriber(Program):
    """Gets deliveries only while it is connected."""

    def __init__(self, name: str, server: str, url: Callable[[], str], write: Write, times: Times) -> None:
        super().__init__(name, server, url, write, token=token_of(name))
        self._times = times
        self._count = 0

    async def work(self, client: Client) -> None:
        """Subscribe, and note deliveries."""
        stream = await client.subscribe(WISH.text)
        async for notification in stream:
            assert isinstance(notification, Notification)
            self._times.came(self.name, notification)
            self.write(delivered(notification, 0, self._count))
            self._count += 1

    async def _spread(self, client: Client, barrier: int) -> None:
        await _pass_barrier(client, barrier, self.write)


async def _pass_barrier(client: Client, barrier: int, write: Write) -> None:
    """Subscribe to something that is never published, and wait until that has spread, and so all before it."""
    stream = await client.subscribe(f"barrier = {barrier}", wait=True)
    write(Spread())
    await stream.close()


async def _visit(urls: dict[str, str], notebook: Notebook) -> None:
    """Connect with the right token again and again, publish something, and note whether that was possible."""
    while True:
        for server in VISITED:
            began, error = time.monotonic(), ""
            try:
                async with asyncio.timeout(_VISIT_SECONDS):
                    client = connect(urls[server], name=VISITOR, token=token_of(VISITOR), max_attempts=0)
                    async with client:
                        await client.publish(visit=True)
            except (ServiceError, CallerError, OSError, TimeoutError) as failed:
                error = f"{type(failed).__name__}: {failed}"
            notebook.write(round(began, 6), server, round(1e3 * (time.monotonic() - began), 3), error)
            await asyncio.sleep(_PAUSE_SECONDS)


class Load:
    """All innocent programs."""

    def __init__(self, folder: Path, seed: str, rate: float, urls: dict[str, str]) -> None:
        self._urls = urls
        self._visits = Notebook(folder / "visits.jsonl")
        self._latencies = Notebook(folder / "latencies.jsonl")
        self._breaks = Notebook(folder / "breaks.jsonl")
        logging.getLogger("palio.client").addHandler(Breaks(self._breaks))
        times = Times(self._latencies)
        self._publishers = [
            Publisher(name, server, self._url(server), Book(folder / f"{name}.ledger").write, times, seed, rate)
            for name, server in PUBLISHERS.items()
        ]
        self._subscribers = [
            cls(name, server, self._url(server), Book(folder / f"{name}.ledger").write, times)
            for cls, servers in ((DurableSubscriber, DURABLE), (PlainSubscriber, PLAIN))
            for name, server in servers.items()
        ]

    def _url(self, server: str) -> Callable[[], str]:
        return lambda: self._urls[server]

    async def run(self) -> None:
        """Begin when everything has spread, and do what the standard input says."""
        commands = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        for program in (*self._publishers, *self._subscribers):
            program.start()
        await asyncio.gather(*(each.has_spread(1) for each in self._publishers))
        await asyncio.gather(*(each.has_spread(1) for each in self._subscribers))
        for publisher in self._publishers:
            publisher.is_on.set()
        helpers = [asyncio.create_task(each) for each in (_visit(self._urls, self._visits), self._flush())]
        _say(ready=True)
        while command := await commands.readline():
            if command.strip() == b"finish":
                await self._finish()
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        await asyncio.gather(*(each.stop() for each in (*self._publishers, *self._subscribers)))

    async def _finish(self) -> None:
        """Publish what is due until now and then a mark, and wait until all of it is acknowledged."""
        end = time.monotonic()
        for publisher in self._publishers:
            publisher.end = end
        await asyncio.gather(*(each.is_done.wait() for each in self._publishers))
        _say(finished=True, unexpected=[text for each in self._programs for text in each.unexpected])

    @property
    def _programs(self) -> list[Program]:
        return [*self._publishers, *self._subscribers]

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            for notebook in (self._visits, self._latencies, self._breaks):
                notebook.flush()


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    """Run until the standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.processes.hostile_load", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--rate", type=float, required=True, help="publications a second of each publisher")
    parser.add_argument("--urls", type=json.loads, required=True, help="of the servers, by name, as JSON")
    given = parser.parse_args()
    asyncio.run(Load(given.folder, given.seed, given.rate, given.urls).run())


if __name__ == "__main__":
    main()
