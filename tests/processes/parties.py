"""Parties at running servers, who note all they ask for and get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from palio.client import Client, ConnectionLostError, Subscription, connect
from palio.codec import control, frames, msgpack
from palio.codec.control import VERSION, Answer, Ask, Goodbye, Hello, Ping, Pong, Query, Result, Welcome
from palio.model import Envelope, Filter, Limits, Notification, Pattern
from palio.model.envelope import NotificationId
from tests.client.puppet import QUICK
from tests.processes.facts import Facts, Subject
from tests.serving import until

PATIENCE = 90.0
"""Seconds that an answer may take on a busy machine, also while servers are dead and come back."""
_LIMITS = Limits()


class LostError(Exception):
    """The connection is gone."""


class Line(asyncio.Protocol):
    """A light connection of a party: hundreds of them cost a test next to nothing."""

    def __init__(self, name: str, received: Callable[[int, bytes], None]) -> None:
        self._name = name
        self._received = received
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when the connection is gone, with the code that the server said, if it said one."""
        self._code = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.send(control.encode(Hello((VERSION,), "party", self._name)))

    def connection_lost(self, _: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(self._code)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        place = 0
        while len(data) - place >= frames.HEADER:
            end = place + 4 + int.from_bytes(data[place : place + 4], "big")
            if end > len(data):
                break
            kind, content = data[place + 4], data[place + frames.HEADER : end]
            if kind == control.KINDS[Goodbye]:
                self._code = msgspec.msgpack.decode(content)[0]
            self._received(kind, content)
            place = end
        self._rest = data[place:]

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self.lost.done():
            self._transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Party:
    """One party; it asks for one thing at a time."""

    def __init__(self, facts: Facts, name: str, server: str) -> None:
        self.name, self.server = name, server
        self.facts = facts
        facts.enter(name, server)
        self.wishes: dict[Subject, None] = {}
        """What it wants and offers, to be said again when its server has forgotten it."""
        self._line: Line | None = None
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Answer | dict[str, object]]] = {}
        self._under_way: dict[int, NotificationId] = {}
        """Publications that are not accepted."""
        self._pongs = 0
        self._welcome: asyncio.Future[None] | None = None
        self.received = 0
        """Deliveries."""

    # -- the connection ------------------------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        return self._line is not None and not self._line.lost.done()

    async def connect(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._welcome = loop.create_future()
        self._number = 0
        async with asyncio.timeout(PATIENCE):
            _, line = await loop.create_connection(lambda: Line(self.name, self._received), "127.0.0.1", port)
            line.lost.add_done_callback(lambda _: self._lost())
            self._line = line
            await asyncio.wait(
                [asyncio.ensure_future(each) for each in (self._welcome, line.lost)],
                return_when=asyncio.FIRST_COMPLETED,
            )
        if not self._welcome.done():
            raise LostError(line.lost.result())

    def _lost(self) -> None:
        self.facts.uncertain.update(self._under_way.values())
        self._under_way.clear()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            if not each.done():
                each.set_exception(LostError())

    def close(self) -> None:
        """Go without a word."""
        if self._line is not None:
            self._line.abort()

    def _send(self, data: bytes) -> None:
        if not self.is_connected:
            raise LostError
        assert self._line is not None
        self._line.send(data)

    # -- what it gets --------------------------------------------------------------------------------------------------

    def _received(self, kind: int, content: bytes) -> None:
        if kind == frames.DELIVER:
            self.received += 1
            self.facts.delivered(self.name, frames.delivered(content))
        elif kind == frames.ACCEPTED:
            self._accepted(frames.accepted_up_to(content)[0])
        else:
            self._told(control.decode(kind, content))

    def _accepted(self, number: int) -> None:
        for each in [each for each in self._under_way if each <= number]:
            del self._under_way[each]

    def _told(self, frame: control.Control) -> None:
        match frame:
            case Answer(number) | Result(number) if number in self._waiting:
                waiting = self._waiting.pop(number)
                if not waiting.done():
                    waiting.set_result(frame if isinstance(frame, Answer) else frame.document)
            case Answer():
                self.facts.refused(self.name, frame)
            case control.Sequence(pattern, notifications):
                found = [_read(envelope, body) for envelope, body in notifications]
                self.facts.found(self.name, msgpack.decode(Pattern, bytes(pattern), _LIMITS), found)
            case Welcome() if self._welcome is not None:
                self._welcome.set_result(None)
            case Ping(number):
                self._send(control.encode(Pong(number)))
            case Pong():
                self._pongs += 1

    # -- what it does --------------------------------------------------------------------------------------------------

    async def ask(self, operation: str, subject: Subject, *, wait: bool = False) -> None:
        """Ask for something, and note what came of it."""
        self.facts.asked(self.name, operation, subject)
        try:
            answer = await self._request(lambda number: _ask(number, operation, subject, wait))
        except LostError:
            if operation.startswith("un"):
                self._done(operation, subject, has_spread=False)
            raise
        assert isinstance(answer, Answer)
        if answer.code:
            self.facts.refused(self.name, answer)
        self._done(operation, subject, has_spread=wait)

    def _done(self, operation: str, subject: Subject, *, has_spread: bool) -> None:
        self.facts.done(self.name, operation, subject, has_spread=has_spread)
        if not operation.startswith("un"):
            self.wishes[subject] = None
            return
        for each in [each for each in self.wishes if type(each) is type(subject) and subject.covers(each)]:  # type: ignore[arg-type]
            del self.wishes[each]

    async def _request(self, made: Callable[[int], control.Control]) -> Answer | dict[str, object]:
        self._number += 1
        self._send(control.encode(made(self._number)))
        waiting = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(PATIENCE):
            answer: Answer | dict[str, object] = await waiting
            return answer

    def publish(self, life: int, notifications: Sequence[Notification]) -> None:
        """Publish all of them with one write."""
        if not self.is_connected:
            raise LostError
        block = b""
        for each in notifications:
            self._number += 1
            self._under_way[self._number] = self.facts.published(self.name, life, each)
            block += frames.publish(each, self._number)
        self._send(block)

    async def settled(self) -> None:
        """Wait until all that it published is accepted, or it has lost its connection."""
        await until(lambda: not self._under_way, PATIENCE)

    async def links(self) -> list[str]:
        """The neighbours of its server."""
        status = await self._request(lambda number: Query(number, "status"))
        assert isinstance(status, dict)
        links: Any = status["links"]
        return [each["name"] for each in links if each["state"] == "up"]

    async def catch_up(self) -> None:
        """Wait until all has come that the server has written."""
        pongs = self._pongs
        self._send(control.encode(Ping(1)))
        await until(lambda: self._pongs > pongs, PATIENCE)

    async def say_again(self) -> None:
        """Say anew what it wants and offers, when its server has forgotten it."""
        for subject in list(self.wishes):
            operation = "advertise" if control.document(subject)[0] == "advertisement" else "subscribe"
            await self.ask(operation, subject)


def _ask(number: int, operation: str, subject: Subject, wait: bool) -> Ask:
    return Ask(number, operation, *control.document(subject), wait)


def _read(envelope: msgspec.Raw, body: msgspec.Raw) -> Notification:
    notification = msgpack.decode(Notification, bytes(body), _LIMITS)
    return notification.with_envelope(msgpack.decode(Envelope, bytes(envelope), _LIMITS))


class ClientParty:
    """A party that is a client as people use it, with one subscription at a time."""

    def __init__(self, facts: Facts, name: str, server: str, port: int) -> None:
        self.name, self.server = name, server
        self._facts = facts
        facts.enter(name, server)
        self.client: Client = connect(f"palio://127.0.0.1:{port}", name=name, **QUICK)
        self._wanted: Filter | None = None
        self._stream: Subscription[Notification] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def change(self, wanted: Filter) -> None:
        """Want something else."""
        await self.cancel()
        self._facts.asked(self.name, "subscribe", wanted)
        self._stream = await self.client.subscribe(wanted, wait=True)
        self._facts.done(self.name, "subscribe", wanted, has_spread=True)
        self._wanted = wanted
        self._reading = asyncio.create_task(self._read(self._stream))

    async def cancel(self) -> None:
        if self._stream is None or self._wanted is None:
            return
        self._facts.asked(self.name, "unsubscribe", self._wanted)
        await self._stream.close()
        assert self._reading is not None
        await self._reading
        self._facts.done(self.name, "unsubscribe", self._wanted, has_spread=False)
        self._stream = self._wanted = None

    async def _read(self, stream: Subscription[Notification]) -> None:
        async for notification in stream:
            assert isinstance(notification, Notification)
            self._facts.delivered(self.name, notification)

    async def publish(self, life: int, notification: Notification) -> None:
        """Publish, and note if nobody knows what became of it."""
        id = self._facts.published(self.name, life, notification)
        self._facts.uncertain.add(id)
        try:
            await self.client.publish(notification)
        except ConnectionLostError:
            return
        self._facts.uncertain.discard(id)

    async def say_again(self) -> None:
        """The client itself says again what it wants; wait until it has."""
        await until(lambda: self.client.is_connected, PATIENCE)
        if self._wanted is not None:
            self._facts.done(self.name, "subscribe", self._wanted, has_spread=False)

    async def catch_up(self) -> None:
        """Wait until all has come and was read that the server has written."""
        await self.client.unsubscribe('never = "wanted"')
        await until(lambda: self._stream is None or not self._stream._waiting, PATIENCE)
        await asyncio.sleep(0)

    async def close(self) -> None:
        await self.client.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
