"""Bad bytes: what a server must refuse, with the code by which it does, and those who send it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import msgspec

from palio.codec import control, frames, msgpack
from palio.codec.control import VERSION, Answer, Ask, Goodbye, Hello, Ping
from palio.model import Advertisement, Filter, Notification, Pattern
from tests.processes.facts import Facts
from tests.processes.parties import PATIENCE, Party

CONSTRAINTS = 8
"""That a filter may have, so that one with more is short."""
FRAME_BYTES = 65_536
SLOW_BYTES = 1_000_000

_GOOD = msgpack.encode(Notification(junk=1))
BAD_DOCUMENTS: tuple[tuple[bytes, str], ...] = (
    (b"", "document"),
    (b"\xc1", "document"),
    (_GOOD[:-1], "document"),
    (_GOOD + b"\x00", "document"),
    (b"\x92\x02" + _GOOD[2:], "document"),
    (b"\x92\x01\x81\xa1x\xc0", "document"),
    (b"\x92\x01\x81\xa1x\x91\x01", "document"),
    (b"\x92\x01\x82\xa1y\x01\xa1x\x01", "document"),
    (b"\x92\x01\x82\xa1x\x01\xa1x\x01", "document"),
    (b"\x92\x01\x81\xa1x\xcb\x7f\xf8" + bytes(6), "document"),
    (b"\x92\x01\x81\xa1x\xa2\xc3\x28", "document"),
    (b"\x92\x01\x81\xa1x\xcf" + b"\xff" * 8, "document"),
    (b"\x92\x01\x81\xa0\x01", "document"),
    (b"\x92\x01\xdf\xff\xff\xff\xff", "document"),
    (msgpack.encode(Notification({f"{i:04}": 1 for i in range(1_025)})), "limit"),
    (b"\x92\x01\x81\xd9\xff" + b"n" * 255 + b"\x01\x01", "document"),
    (b"\x92\x01\x81\xda\x01\x01" + b"n" * 257 + b"\x01", "limit"),
    (b"\x91" * 2_000, "document"),
)
"""What should be a notification and is none, by docs/protocol.md."""


def bad_asks(number: int) -> tuple[tuple[Ask, str], ...]:
    """Requests that cannot be."""
    many = Filter.parse(" and ".join(f"x{i} > 1" for i in range(CONSTRAINTS + 1)))
    return (
        (Ask(number, "subscribe", "filter", msgspec.Raw(b"\x90")), "document"),
        (Ask(number, "subscribe", "king", msgspec.Raw(b"\x90")), "document"),
        (Ask(number, "advertise", *control.document(Filter.parse("x > 5"))), "invalid"),
        (Ask(number, "watch", *control.document(Pattern.parse("x = 1 then x = 2"))), "invalid"),
        (Ask(number, "subscribe", *control.document(Filter.parse("x > 5 and x < 3"))), "unsatisfiable"),
        (Ask(number, "subscribe", *control.document(many)), "limit"),
        (Ask(number, "subscribe", *control.document(Filter.parse("x any")), False, "somebody-else"), "not-allowed"),
    )


BREAKING: tuple[tuple[bytes, str], ...] = (
    (frames.frame(0x77, b""), "frame"),
    (frames.frame(0x04, b"\xc1"), "frame"),
    (frames.frame(0x12, b"\x91" * 5_000), "frame"),
    (frames.frame(frames.PUBLISH, b"\x00\x00\x01"), "frame"),
    (frames.frame(frames.LINK, b"\x93\x06"), "frame"),
    (frames.frame(frames.DELIVER, b"\x00\x00"), "frame"),
    (control.encode(Hello((VERSION,), "party", "again")), "frame"),
    (control.encode(Ask(1, "fly", *control.document(Advertisement.parse("x any")))), "frame"),
    (bytes(8), "frame-too-long"),
    (b"\xff\xff\xff\xff\x10", "frame-too-long"),
    ((FRAME_BYTES + 1).to_bytes(4, "big") + b"\x10", "frame-too-long"),
)
"""What a connection does not survive."""

BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (control.encode(Hello((7,), "party", "eva")), "version"),
    (control.encode(Hello((VERSION,), "king", "eva")), "name"),
    (control.encode(Hello((VERSION,), "party", "e" * 1_025)), "name"),
    (control.encode(Ping(1)), "hello"),
    (frames.frame(0x01, b"\xc1"), "frame"),
    (b"\xff\xff\xff\xff\x01", "frame-too-long"),
    (b"GET / HTTP/1.1\r\nHost: palio\r\n\r\n", "frame-too-long"),
)
"""First words with which nobody is let in."""


class Offenders:
    """Many at the same time, who send bad bytes until they have sent so many frames."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._seed = seed
        self.frames = 0
        self.sent: Counter[str] = Counter()
        """Refusals that each code must have led to, at least."""
        self.problems: list[str] = []

    async def run(self, count: int, frames_in_all: int) -> None:
        """Let so many loose, until all have sent so many frames together."""
        await asyncio.gather(*(self._offend(i, frames_in_all) for i in range(count)))

    async def _offend(self, place: int, frames_in_all: int) -> None:
        random = Random(f"{self._seed} offender {place}")
        ways: list[Callable[[str, Random], Awaitable[None]]] = [
            self._publish_nonsense,
            self._break_off,
            self._begin_badly,
            self._go_in_the_middle,
            self._never_read,
        ]
        while self.frames < frames_in_all:
            with suppress(ConnectionError):
                await random.choices(ways, [6, 4, 4, 4, 1])[0](f"offender-{place}", random)

    async def _open(self, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(control.encode(Hello((VERSION,), "party", name)))
        async with asyncio.timeout(PATIENCE):
            await _frame(reader)
        return reader, writer

    async def _publish_nonsense(self, name: str, random: Random) -> None:
        """A large block of what is no notification: each is refused by itself, and the connection goes on."""
        reader, writer = await self._open(name)
        chosen = random.choices(BAD_DOCUMENTS, k=500)
        writer.write(b"".join(_publication(i + 1, document) for i, (document, _) in enumerate(chosen)))
        expected = {i + 1: code for i, (_, code) in enumerate(chosen)}
        async with asyncio.timeout(PATIENCE):
            while expected:
                kind, content = await _frame(reader)
                answer = control.decode(kind, content) if kind != frames.ACCEPTED else None
                if isinstance(answer, Answer) and expected.pop(answer.number, None) != answer.code:
                    self.problems.append(f"{name} was told {answer}")
        self.frames += len(chosen)
        self.sent.update(code for _, code in chosen)
        writer.transport.abort()

    async def _break_off(self, name: str, random: Random) -> None:
        """Good frames, then one that ends the connection, then trash."""
        reader, writer = await self._open(name)
        data, code = random.choice(BREAKING)
        good = [frames.publish(Notification(junk=i), i + 1) for i in range(random.randrange(200))]
        writer.write(b"".join(good) + data + random.randbytes(random.randrange(2_000)))
        self.frames += len(good) + 1
        await self._expect(reader, writer, code)

    async def _begin_badly(self, name: str, random: Random) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        data, code = random.choice(BEGINNINGS)
        writer.write(data + random.randbytes(random.randrange(100)))
        self.frames += 1
        await self._expect(reader, writer, code)

    async def _expect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, code: str) -> None:
        """The connection is closed with a code."""
        async with asyncio.timeout(PATIENCE):
            try:
                while (found := await _frame(reader))[0] != control.KINDS[Goodbye]:
                    pass
            except asyncio.IncompleteReadError:
                self.problems.append(f"closed without a goodbye; {code} was expected")
            else:
                said = control.decode(*found)
                if not isinstance(said, Goodbye) or said.code != code:
                    self.problems.append(f"{said} instead of {code}")
                self.sent[code] += 1
        writer.transport.abort()

    async def _go_in_the_middle(self, name: str, random: Random) -> None:
        """A frame that never ends, because its sender is gone."""
        _, writer = await self._open(name)
        whole = frames.publish(Notification(junk="j" * random.randrange(FRAME_BYTES - 100)), 1)
        writer.write(whole[: random.randrange(1, len(whole))])
        self.frames += 1
        await writer.drain()
        writer.transport.abort()

    async def _never_read(self, name: str, random: Random) -> None:
        """Questions without end, whose answers are not read: the server must not keep them all."""
        reader, writer = await self._open(name)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        block = b"".join(_publication(i + 1, b"\xc1") for i in range(2_000))
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(random.uniform(0.1, 1.0)):
                for _ in range(20):
                    writer.write(block)
                    self.frames += 2_000
                    await writer.drain()
        writer.transport.abort()
        reader.feed_eof()


async def drip(port: int, name: str, number: int, seconds: float) -> bytes:
    """Send a publication byte by byte, for so long in all; what the server says to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = frames.publish(Notification(drip=number), 1)
    writer.write(control.encode(Hello((VERSION,), "party", name)))
    async with asyncio.timeout(PATIENCE):
        await _frame(reader)
    for i in range(len(data)):
        writer.write(data[i : i + 1])
        await asyncio.sleep(seconds / len(data))
    async with asyncio.timeout(PATIENCE):
        _, content = await _frame(reader)
    writer.transport.abort()
    return content


def _publication(number: int, document: bytes) -> bytes:
    return frames.frame(frames.PUBLISH, number.to_bytes(4, "big") + document)


async def _frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readexactly(frames.HEADER)
    return head[4], await reader.readexactly(int.from_bytes(head[:4], "big") - 1)


class Mixer(Party):
    """A party whose blocks have good and bad publications and requests in any order."""

    def __init__(self, facts: Facts, name: str, server: str) -> None:
        super().__init__(facts, name, server)
        self.expected: dict[int, str] = {}
        """The codes of answers that have to come, by number."""
        self.refusals: Counter[str] = Counter()

    def mix(self, life: int, random: Random, good: list[Notification]) -> None:
        """One write, of which nothing may get lost and nothing be believed that is wrong."""
        block = b""
        for each in good:
            for _ in range(random.choice([0, 0, 1, 1, 3])):
                block += self._bad(random)
            self._number += 1
            self._under_way[self._number] = self.facts.published(self.name, life, each)
            block += frames.publish(each, self._number)
        self._send(block)

    def _bad(self, random: Random) -> bytes:
        self._number += 1
        if random.random() < 0.3:
            ask, code = random.choice(bad_asks(self._number))
            made = control.encode(ask)
        else:
            document, code = random.choice(BAD_DOCUMENTS)
            made = _publication(self._number, document)
        self.expected[self._number] = code
        return made

    def _told(self, frame: control.Control) -> None:
        if isinstance(frame, Answer) and frame.number in self.expected:
            code = self.expected.pop(frame.number)
            self.refusals[code] += 1
            if code != frame.code:
                self.facts.refused(self.name, f"{frame}; {code} was expected")
        else:
            super()._told(frame)
