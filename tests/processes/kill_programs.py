"""The applications of the kill campaign, each a process: ``python -m tests.processes.kill_programs publisher ...``.

They use the public client alone. They may be killed at any moment, and go on from their ledger when they are started
again. When their standard input ends, they finish what they have begun and end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

from palio import connect
from palio.client import (
    CannotConnectError,
    Client,
    Cursor,
    Delivery,
    Durable,
    Gap,
    Subscription,
    UnknownCursorError,
)
from tests.processes.kill_judge import KINDS, Kind
from tests.processes.kill_ledger import Accepted, Book, Delivered, Intent, Life, Spread, Trouble
from tests.processes.programs import (
    PATIENT,
    PAUSE,
    PUBLISHING,
    Publications,
    acknowledge,
    missing,
    note_delivery,
    offers,
)

_ATTEMPTS = 400
"""So often a client connects again before it gives up."""
_PADDING = "x" * 2_000


@asynccontextmanager
async def _connected(url: str, **options: Any) -> AsyncIterator[Client]:
    """A client with a connection; its server may be dead just now. If the campaign is gone, nobody needs it."""
    campaign = os.getppid()
    while os.getppid() == campaign:
        client = connect(url, **{**PATIENT, "max_attempts": _ATTEMPTS, **options})
        try:
            await client.connect()
            break
        except UnknownCursorError:  # it was delivered, and so it must be known for ever
            raise
        except CannotConnectError:
            await asyncio.sleep(PAUSE)
    else:
        raise SystemExit("the campaign is gone")
    try:
        yield client
    finally:
        await client.close()


async def _asked_to_end() -> asyncio.Event:
    """Set when the standard input ends."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    class Input(asyncio.Protocol):
        def connection_lost(self, _: Exception | None) -> None:
            ended.set()

    await loop.connect_read_pipe(Input, sys.stdin)
    return ended


class Publisher:
    """Publishes in order, with keys: what is not known to be accepted is published again, also by the next life."""

    def __init__(self, given: argparse.Namespace, book: Book) -> None:
        self._name: str = given.name
        self._url: str = given.url
        self._rate: float = given.rate
        self._book = book
        intents = {line.n: line for line in book.before if isinstance(line, Intent)}
        for line in book.before:
            if isinstance(line, Accepted):
                intents.pop(line.n, None)
        self._unsettled = list(intents.values())
        first = 1 + max((line.n for line in book.before if isinstance(line, Intent)), default=-1)
        self._random = Random(f"{given.seed} {self._name} {first}")
        self._publications = Publications(self._name, self._random, book.write, _trouble, first)
        self._has_spread = any(isinstance(line, Spread) for line in book.before)

    async def run(self) -> None:
        ended = await _asked_to_end()
        async with _connected(self._url, name=self._name, **PUBLISHING) as client:
            await self._advertise(client)
            for intent in self._unsettled:
                await self._send(client, intent)
            while not ended.is_set():
                burst = self._random.choice([1, 1, 2, 5, 15])
                for _ in range(burst):
                    await self._send(client, self._publications.intend())
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), burst / self._rate)
            await self._send(client, self._publications.intend(is_mark=True))
            while self._publications.under_way:
                await asyncio.wait(self._publications.under_way)

    async def _advertise(self, client: Client) -> None:
        """Say what it may publish."""
        for offer in offers(self._name, "mark", "padding"):
            await client.advertise(offer, wait=not self._has_spread)
        if not self._has_spread:
            self._book.write(Spread())

    async def _send(self, client: Client, intent: Intent) -> None:
        if intent.is_mark:
            await self._publications.send(client, intent, mark=True)
        elif intent.x % 10 == 0:
            await self._publications.send(client, intent, padding=_PADDING)
        else:
            await self._publications.send(client, intent)


def _trouble(n: int, error: BaseException | None) -> Trouble | None:
    return None if error is None else Trouble(f"publication {n}: {error!r}")


class DurableParty:
    """Writes each delivery down and then acknowledges it, and dies in between now and then."""

    def __init__(self, given: argparse.Namespace, book: Book) -> None:
        self._name: str = given.name
        self._url: str = given.url
        self._wanted: str = given.wanted
        self._kind: Kind = KINDS[given.kind]
        self._book = book
        self._mean_life: int = given.mean_life
        self._random = Random(f"{given.seed} {self._name} {sum(isinstance(line, Life) for line in book.before)}")
        self._has_spread = any(isinstance(line, Spread) for line in book.before)
        last = next((line for line in reversed(book.before) if isinstance(line, Delivered)), None)
        self._after = Cursor(last.log, last.number) if self._kind.has_cursor and last is not None else None

    def _die_sometimes(self, share: float) -> None:
        """Die as if killed from outside, here and now."""
        if self._mean_life and self._random.random() < share / self._mean_life:
            os.kill(os.getpid(), signal.SIGKILL)

    def _missed(self, gap: Gap) -> None:
        if gap.after.log == gap.before.log:
            self._book.write(missing(gap))
        else:
            self._book.write(Trouble(str(gap)))

    async def run(self) -> None:
        ended = await _asked_to_end()
        durable = Durable(count=self._kind.most, after=self._after, on_gap=self._missed, window=64)
        async with _connected(self._url, name=self._name, durable=durable) as client:
            stream = await client.subscribe(self._wanted, wait=not self._has_spread)
            if not self._has_spread:
                self._book.write(Spread())
            processing = asyncio.create_task(self._process(stream))
            await asyncio.wait([processing, asyncio.ensure_future(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
            if processing.done():
                processing.result()
            processing.cancel()
            if client.unwanted:
                self._book.write(Trouble(f"{client.unwanted} came that it had not subscribed to"))

    async def _process(self, stream: Subscription[Any]) -> None:
        async for delivery in stream:
            assert isinstance(delivery, Delivery)
            self._die_sometimes(0.3)
            note_delivery(delivery, self._book.write)
            self._die_sometimes(0.4)
            is_noted = self._random.random() < 0.02 or "mark" in delivery.notification
            await acknowledge(delivery, self._book.write, is_noted=is_noted)
            self._die_sometimes(0.3)


def main() -> None:
    """Run one program until it is asked to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.processes.kill_programs", description=__doc__)
    commands = parser.add_subparsers(dest="program", required=True)
    for program in ("publisher", "party"):
        command = commands.add_parser(program)
        command.add_argument("--name", required=True)
        command.add_argument("--url", required=True)
        command.add_argument("--ledger", type=Path, required=True)
        command.add_argument("--seed", required=True)
        if program == "publisher":
            command.add_argument("--rate", type=float, required=True, help="publications a second")
        else:
            command.add_argument("--wanted", required=True, help="what it subscribes to")
            command.add_argument("--kind", choices=KINDS, required=True)
            command.add_argument("--mean-life", type=int, required=True, help="in deliveries; 0: it does not die")
    given = parser.parse_args()
    made = Publisher if given.program == "publisher" else DurableParty
    asyncio.run(made(given, Book(given.ledger)).run())


if __name__ == "__main__":
    main()
