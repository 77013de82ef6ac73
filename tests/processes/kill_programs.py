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

from palio import connect
from palio.client import (
    CannotConnectError,
    Client,
    Cursor,
    Delivery,
    Durable,
    Gap,
    PublishOptions,
    Subscription,
    UnknownCursorError,
)
from palio.model import Mode, Notification
from tests.processes.kill_judge import KINDS, Kind
from tests.processes.kill_ledger import MOST_X, Accepted, Book, Delivered, Intent, Life, Missing, Noted, Spread, Trouble

_PATIENT = {"reconnect_time_wait": 0.05, "reconnect_time_max": 0.5, "max_attempts": 400, "ping_interval": 5.0}
_PAUSE = 0.1
"""Seconds before a program tries once more to connect for the first time."""
_PADDING = "x" * 2_000


@asynccontextmanager
async def _connected(url: str, **options: object) -> AsyncIterator[Client]:
    """A client with a connection; its server may be dead just now. If the campaign is gone, nobody needs it."""
    campaign = os.getppid()
    while os.getppid() == campaign:
        client = connect(url, **{**_PATIENT, **options})
        try:
            await client.connect()
            break
        except UnknownCursorError:  # it was delivered, and so it must be known for ever
            raise
        except CannotConnectError:
            await asyncio.sleep(_PAUSE)
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
        self._next = 1 + max((line.n for line in book.before if isinstance(line, Intent)), default=-1)
        self._random = Random(f"{given.seed} {self._name} {self._next}")
        self._under_way: set[asyncio.Future[Mode]] = set()
        self._has_spread = any(isinstance(line, Spread) for line in book.before)

    async def run(self) -> None:
        ended = await _asked_to_end()
        options = {"mode": "synced", "retry": True, "max_outstanding": 64}
        async with _connected(self._url, name=self._name, **options) as client:
            await self._advertise(client)
            for intent in self._unsettled:
                await self._send(client, intent)
            while not ended.is_set():
                burst = self._random.choice([1, 1, 2, 5, 15])
                for _ in range(burst):
                    await self._publish(client, is_mark=False)
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), burst / self._rate)
            await self._publish(client, is_mark=True)
            while self._under_way:
                await asyncio.wait(self._under_way)

    async def _advertise(self, client: Client) -> None:
        """Say what it may publish: where advertisements spread, only that is promised to anybody."""
        for more in ("", " and mark any", " and padding any"):
            offer = f'n any and x any and by = "{self._name}"{more}'
            await client.advertise(offer, wait=not self._has_spread)
        if not self._has_spread:
            self._book.write(Spread())

    async def _publish(self, client: Client, *, is_mark: bool) -> None:
        intent = Intent(self._next, self._random.randrange(MOST_X), is_mark)
        self._next += 1
        self._book.write(intent)
        await self._send(client, intent)

    async def _send(self, client: Client, intent: Intent) -> None:
        attributes = {"n": intent.n, "x": intent.x, "by": self._name}
        more = {"mark": True} if intent.is_mark else {"padding": _PADDING} if intent.x % 10 == 0 else {}
        options = PublishOptions(key=str(intent.n))
        future = await client.send(Notification({**attributes, **more}), options)
        self._under_way.add(future)
        future.add_done_callback(lambda done: self._done(intent.n, done))

    def _done(self, n: int, done: asyncio.Future[Mode]) -> None:
        self._under_way.discard(done)
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._book.write(Trouble(f"publication {n}: {error!r}"))
        elif not done.cancelled():
            self._book.write(Accepted(n, done.result().value))


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
            self._book.write(Missing(gap.before.log, gap.after.number, gap.before.number, gap.reason))
        else:
            self._book.write(Trouble(str(gap)))

    async def run(self) -> None:
        ended = await _asked_to_end()
        durable = Durable(count=self._kind.count, after=self._after, on_gap=self._missed, window=64)
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

    async def _process(self, stream: Subscription) -> None:
        async for delivery in stream:
            assert isinstance(delivery, Delivery)
            self._die_sometimes(0.3)
            notification = delivery.notification
            envelope = notification.envelope
            assert envelope is not None
            id = envelope.id
            self._book.write(
                Delivered(
                    *delivery.cursor,
                    f"{id.origin}/{id.incarnation}/{id.sequence}",
                    notification["by"],
                    notification["n"],
                    delivery.is_repeated,
                )
            )
            self._die_sometimes(0.4)
            is_noted = self._random.random() < 0.02 or "mark" in notification
            await delivery.ack(wait=is_noted)
            if is_noted:
                self._book.write(Noted(*delivery.cursor))
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
