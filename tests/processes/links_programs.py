"""The applications of the links campaign: publishers and subscribers that use the public client alone.

They live in the process of the campaign. A program whose client gives up makes another one, as a supervisor would.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from palio import connect
from palio.client import Client, Delivery, Durable, ServiceError
from palio.errors import CallerError
from palio.model import Notification
from tests.processes.kill_ledger import Life, Refused, Spread, Wish
from tests.processes.programs import (
    PATIENT,
    PAUSE,
    PUBLISHING,
    Publications,
    Write,
    acknowledge,
    delivered,
    missing,
    note_delivery,
    offers,
)

_ATTEMPTS = 1_000_000
"""So often a client connects again before a program makes another one."""


class Program(ABC):
    """Keeps a client, and replaces one that has given up."""

    def __init__(self, name: str, server: str, url: Callable[[], str], write: Write, **options: object) -> None:
        self.name, self.server = name, server
        self.write = write
        self._url = url
        self._options: dict[str, Any] = {**PATIENT, "max_attempts": _ATTEMPTS, **options}
        self._task: asyncio.Task[None] | None = None
        self.client: Client | None = None
        """None while there is no connection that was ever made."""
        self.unexpected: list[str] = []
        """Errors that are faults of the client or of this program."""

    def start(self) -> None:
        """Begin a life."""
        self._task = asyncio.create_task(self._live())

    async def stop(self) -> None:
        """End at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def restart(self) -> None:
        """End at once and begin another life."""
        await self.stop()
        self.start()

    async def _live(self) -> None:
        while True:
            client = connect(self._url(), name=self.name, **self._options)
            try:
                await client.connect()
                self.write(Life())
                self.client = client
                await self.work(client)
            except (ServiceError, CallerError):
                await asyncio.sleep(PAUSE)
            except Exception as error:
                self.unexpected.append(f"{self.name}: {error!r}")
                raise
            finally:
                self.client = None
                await client.close()

    @abstractmethod
    async def work(self, client: Client) -> None:
        """Use a client until it gives up."""

    async def has_spread(self, barrier: int) -> None:
        """Wait until everything that this program subscribes to or advertises has spread through the network."""
        while True:
            with suppress(ServiceError, CallerError):
                if self.client is not None:
                    await self._spread(self.client, barrier)
                    return
            await asyncio.sleep(PAUSE)

    @abstractmethod
    async def _spread(self, client: Client, barrier: int) -> None:
        """The same, with a client that is connected."""


class Publisher(Program):
    """Publishes with acknowledgements on disk and with keys, while it is switched on."""

    def __init__(self, name: str, server: str, url: Callable[[], str], write: Write, seed: object, rate: float) -> None:
        super().__init__(name, server, url, write, **PUBLISHING)
        self._random = Random(f"{seed} {name}")
        self._rate = rate
        self.is_on = asyncio.Event()
        self._publications = Publications(name, self._random, write, lambda n, error: Refused(n, repr(error)))
        self._offers = offers(name, "mark", "barrier")

    async def work(self, client: Client) -> None:
        """Advertise, and publish in bursts."""
        for offer in self._offers:
            await client.advertise(offer)
        while True:
            await self.is_on.wait()
            burst = self._random.choice([1, 1, 2, 5])
            await self.publish(client, burst)
            await asyncio.sleep(burst / self._rate)

    async def _spread(self, client: Client, _: int) -> None:
        for offer in self._offers:
            await client.advertise(offer, wait=True)

    async def publish(self, client: Client, count: int) -> None:
        """Publish so many, without waiting for acknowledgements."""
        for _ in range(count):
            intent = self._publications.intend()
            try:
                await self._publications.send(client, intent)
            except (ServiceError, CallerError, asyncio.CancelledError) as error:
                self.write(Refused(intent.n, repr(error)))
                raise


class DurableSubscriber(Program):
    """Writes each delivery down, then acknowledges it."""

    def __init__(self, name: str, server: str, url: Callable[[], str], write: Write, wish: Wish) -> None:
        durable = Durable(window=64, on_gap=lambda gap: write(missing(gap)))
        super().__init__(name, server, url, write, durable=durable)
        self._wish = wish

    async def work(self, client: Client) -> None:
        """Subscribe, and process deliveries."""
        stream = await client.subscribe(self._wish.text)
        self.write(Spread())
        async for delivery in stream:
            assert isinstance(delivery, Delivery)
            note_delivery(delivery, self.write)
            await acknowledge(delivery, self.write, is_noted=delivery.number % 20 == 0)

    async def _spread(self, client: Client, barrier: int) -> None:
        await _pass_barrier(client, barrier)


class PlainSubscriber(Program):
    """Gets deliveries only while it is connected."""

    def __init__(self, name: str, server: str, url: Callable[[], str], write: Write, wish: Wish) -> None:
        super().__init__(name, server, url, write)
        self._wish = wish
        self._count = 0

    async def work(self, client: Client) -> None:
        """Subscribe, and note deliveries."""
        stream = await client.subscribe(self._wish.text)
        self.write(Spread())
        async for notification in stream:
            assert isinstance(notification, Notification)
            self.write(delivered(notification, 0, self._count))
            self._count += 1

    async def _spread(self, client: Client, barrier: int) -> None:
        await _pass_barrier(client, barrier)


async def _pass_barrier(client: Client, barrier: int) -> None:
    """Subscribe to something that is never published, and wait until that has spread, and so all before it."""
    stream = await client.subscribe(f"barrier = {barrier}", wait=True)
    await stream.close()
