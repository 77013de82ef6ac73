"""What the applications of the campaigns share: how patient they are, what they offer, and what they write down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import MappingProxyType

from palio.client import Acceptance, Client, Delivery, Gap, PublishOptions
from palio.model import Notification
from tests.processes.kill_ledger import MOST_X, Accepted, Delivered, Intent, Line, Missing, Noted

PATIENT = MappingProxyType({"reconnect_time_wait": 0.05, "reconnect_time_max": 0.5, "ping_interval": 5.0})
"""Options of all clients."""
PUBLISHING = MappingProxyType({"mode": "synced", "retry": True, "max_outstanding": 64})
"""Options of the clients of publishers."""
PAUSE = 0.1
"""Seconds before a program makes another client."""
Write = Callable[[Line], None]
"""Writes a line into the ledger."""
Failed = Callable[[int, BaseException | None], Line | None]
"""A line about a publication that failed with an error, or was given up; none if nothing is written of it."""


def offers(name: str, *more: str) -> list[str]:
    """What a publisher advertises: where advertisements spread, only that is promised to subscribers."""
    return [f'n any and x any and by = "{name}"{each}' for each in ("", *(f" and {each} any" for each in more))]


class Publications:
    """Publications of one publisher: each is written down before it is sent, and when it is acknowledged or not."""

    def __init__(self, name: str, random: Random, write: Write, failed: Failed, first: int = 0) -> None:
        """Begin with a number; ``failed`` says what is written down of a publication that was not accepted."""
        self._name = name
        self._random = random
        self._write = write
        self._failed = failed
        self._next = first
        self.under_way: set[asyncio.Future[Acceptance]] = set()

    def intend(self, *, is_mark: bool = False) -> Intent:
        """Write down that something is about to be published."""
        intent = Intent(self._next, self._random.randrange(MOST_X), is_mark)
        self._next += 1
        self._write(intent)
        return intent

    async def send(self, client: Client, intent: Intent, **more: str | bool) -> None:
        """Publish what was written down, without waiting for the acknowledgement."""
        notification = Notification({"n": intent.n, "x": intent.x, "by": self._name, **more})
        future = await client.send(notification, PublishOptions(key=str(intent.n)))
        self.under_way.add(future)
        future.add_done_callback(lambda done: self._done(intent.n, done))

    def _done(self, n: int, done: asyncio.Future[Acceptance]) -> None:
        self.under_way.discard(done)
        error = None if done.cancelled() else done.exception()
        if error is None and not done.cancelled():
            self._write(Accepted(n, done.result().mode.value))
        elif line := self._failed(n, error):
            self._write(line)


def delivered(notification: Notification, log: int, number: int, *, is_repeated: bool = False) -> Delivered:
    """What is written down of a notification that has come."""
    assert notification.envelope is not None
    id, by, n = notification.envelope.id, notification["by"], notification["n"]
    assert isinstance(by, str)
    assert isinstance(n, int)
    return Delivered(log, number, f"{id.origin}/{id.incarnation}/{id.sequence}", by, n, is_repeated)


def note_delivery(delivery: Delivery, write: Write) -> None:
    """Write a delivery to a durable subscriber down."""
    write(delivered(delivery.notification, *delivery.cursor, is_repeated=delivery.is_repeated))


async def acknowledge(delivery: Delivery, write: Write, *, is_noted: bool) -> None:
    """Acknowledge a delivery; perhaps wait until the server has noted that for good, and write that down."""
    await delivery.ack(wait=is_noted)
    if is_noted:
        write(Noted(*delivery.cursor))


def missing(gap: Gap) -> Missing:
    """What is written down of deliveries that are gone."""
    return Missing(gap.before.log, gap.after.number, gap.before.number, gap.reason)
