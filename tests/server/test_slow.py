"""Those who do not take what there is for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from palio.codec import control, frames
from palio.model import Advertisement, Notification
from palio.node.ports import PublishBlock
from palio.server.metrics import Metrics
from palio.server.server import Server
from tests.serving import DEADLINE, Raw, serving, until

BODY = "y" * 10_000


class Deaf(Raw):
    """A party that reads only when it is told to."""

    @classmethod
    async def subscribed(cls, server: Server, name: str) -> Deaf:
        deaf = cls(*await asyncio.open_connection("127.0.0.1", server.port))
        await deaf.hello(name)
        await deaf.subscribe("x any")
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        return deaf

    def listen(self) -> None:
        self.writer.transport.resume_reading()  # type: ignore[attr-defined]


async def publish(publisher: Raw, numbers: range) -> None:
    """Publish, and wait until the last one is accepted."""
    for number in numbers:
        publisher.send(frames.publish(Notification(x=number, body=BODY), number))
        await publisher.writer.drain()
    while await publisher.until(int) < numbers[-1]:
        pass


async def collect(reader: Raw, count: int) -> list[int]:
    return [(await reader.until(Notification))["x"] for _ in range(count)]


def figure(server: Server, line: str) -> float:
    found = [each for each in Metrics(server).text().decode().splitlines() if each.startswith(line)]
    return float(found[0].rpartition(" ")[2]) if found else 0.0


def test_a_slow_party_is_disconnected_and_slows_nobody() -> None:
    async def play() -> None:
        async with serving(slow={"bytes": 4_000_000}, connections={"drain_seconds": 0.5}) as server:
            deaf, reader = await Deaf.subscribed(server, "deaf"), await Raw.party(server, "reader")
            publisher = await Raw.party(server, "publisher")
            await reader.subscribe("x any")
            for start in range(1, 2001, 100):
                await publish(publisher, range(start, start + 100))
                assert await collect(reader, 100) == list(range(start, start + 100))
            assert figure(server, 'palio_slow_disconnects_total{party="deaf"}') == 1
            assert server.counts.refusals["slow"] == 1
            await until(lambda: "deaf" not in server.driver.parties)
            assert figure(server, "palio_waiting_bytes") == 0
            for each in (deaf, reader, publisher):
                await each.close()

    asyncio.run(play())


def test_a_slow_party_that_wakes_up_is_told_why() -> None:
    async def play() -> None:
        async with serving(slow={"bytes": 100_000}, connections={"drain_seconds": DEADLINE}) as server:
            deaf, publisher = await Deaf.subscribed(server, "deaf"), await Raw.party(server, "publisher")
            await publish(publisher, range(1, 2001))
            deaf.listen()
            assert await deaf.goodbye() == "slow"
            await publisher.close()

    asyncio.run(play())


def test_deliveries_to_a_slow_party_can_be_dropped_but_not_answers() -> None:
    async def play() -> None:
        async with serving(slow={"bytes": 100_000, "policy": "drop"}) as server:
            deaf, publisher = await Deaf.subscribed(server, "deaf"), await Raw.party(server, "publisher")
            await publish(publisher, range(1, 2001))
            assert figure(server, 'palio_slow_consumers{party="deaf"}') == 1
            dropped = figure(server, 'palio_dropped_deliveries_total{party="deaf"}')
            assert dropped > 0
            deaf.send(control.encode(control.Ping(5)))
            deaf.listen()
            got = []
            while not isinstance(found := await deaf.next(), control.Pong):
                assert isinstance(found, Notification)
                got.append(found["x"])
            assert got == list(range(1, len(got) + 1))  # the newest are dropped
            assert len(got) + dropped == 2000
            publisher.publish(x=-1)
            assert (await deaf.until(Notification))["x"] == -1
            assert figure(server, 'palio_slow_consumers{party="deaf"}') == 0
            await deaf.close()
            await publisher.close()

    asyncio.run(play())


@pytest.mark.slow
def test_a_party_that_only_asks_and_never_listens_is_disconnected_too() -> None:
    async def play() -> None:
        async with serving(slow={"bytes": 1000, "policy": "drop"}) as server:
            deaf = await Deaf.subscribed(server, "deaf")
            pings = control.encode(control.Ping(1)) * 10_000
            while server.counts.refusals["slow"] == 0:
                deaf.send(pings)
                await deaf.writer.drain()
            deaf.writer.transport.abort()
            await deaf.close()

    asyncio.run(play())


def test_what_waits_in_all_is_bounded_and_those_that_do_not_read_are_disconnected() -> None:
    async def play() -> None:
        settings: dict[str, Any] = {
            "connections": {"waiting_bytes": 2_000_000, "drain_seconds": 0.2},
        }
        async with serving(**settings) as server:
            deaf, reader = await Deaf.subscribed(server, "deaf"), await Raw.party(server, "reader")
            publisher = await Raw.party(server, "publisher")
            await reader.subscribe("x any")
            highest = 0

            async def watch() -> None:
                nonlocal highest
                while True:
                    highest = max(highest, server.backlog.bytes)
                    await asyncio.sleep(0)

            watching = asyncio.create_task(watch())
            reading = asyncio.create_task(collect(reader, 3000))
            async with asyncio.timeout(DEADLINE):
                await publish(publisher, range(1, 3001))
                assert await reading == list(range(1, 3001))
            watching.cancel()
            assert highest < 6_000_000  # of 30 million
            assert figure(server, 'palio_slow_disconnects_total{party="deaf"}') == 1
            await until(lambda: not server.backlog.is_full)
            for each in (deaf, reader, publisher):
                await each.close()

    asyncio.run(play())


@pytest.mark.parametrize("is_held", [False, True])
def test_the_rest_of_a_large_block_keeps_its_place(is_held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.routing.board.MOST_BYTES", 100)

    async def play() -> None:
        async with serving() as server:
            reader, publisher = await Raw.party(server, "reader"), await Raw.party(server, "publisher")
            await reader.subscribe("x any")
            if is_held:
                server.driver.hold()
            ping = control.encode(
                control.Ask(7, "advertise", "advertisement", control.document(Advertisement.parse("x any"))[1])
            )
            blocks = [
                b"".join(frames.publish(Notification(x=10 * i + j), 10 * i + j) for j in range(10)) for i in range(9)
            ]
            publisher.send(ping.join(blocks))
            if is_held:
                await until(lambda: bool(server.driver._rests))
                server.driver.release()
            assert await collect(reader, 90) == list(range(90))
            while await publisher.until(int) < 89:
                pass
            await reader.close()
            await publisher.close()

    asyncio.run(play())


def test_a_slow_neighbour_loses_frames_but_no_messages() -> None:
    async def play() -> None:
        async with serving(server="a") as a:
            peer = {"name": "a", "url": f"palio://127.0.0.1:{a.port}"}
            async with serving(server="b", peers=[peer], slow={"bytes": 50_000}) as b:
                publisher, reader = await Raw.party(b, "publisher"), await Raw.party(a, "reader")
                await reader.subscribe("x any", wait=True)
                await until(lambda: len(b.driver.node.router.subscriptions) == 1)
                link = a.driver.peers["b"]
                link._transport.pause_reading()  # type: ignore[attr-defined]
                for x in range(200):
                    publisher.publish(x=x, body="y" * 100_000)
                await until(lambda: b.driver.peers["a"].is_slow)
                link._transport.resume_reading()  # type: ignore[attr-defined]
                assert await collect(reader, 200) == list(range(200))
                assert b.counts.refusals.total() == 0
                await publisher.close()
                await reader.close()

    asyncio.run(play())


@pytest.mark.slow
def test_who_sends_faster_than_it_is_handled_is_not_read_from() -> None:
    """What is refused takes longer than what is delivered: it goes in portions, and nothing piles up."""

    async def play() -> None:
        async with serving() as server:
            flooder, bystander = await Raw.party(server, "flooder"), await Raw.party(server, "bystander")
            count, most, served = 60_000, 0, 0
            numbers = [number.to_bytes(4, "big") for number in range(1, count)]
            bad = b"".join(frames.frame(frames.PUBLISH, number + b"\xc1" + bytes(20)) for number in numbers)
            flooder.send(bad + frames.publish(Notification(x=1), count))

            async def all_is_answered() -> None:
                while await flooder.until(int) < count:
                    pass

            answered = asyncio.create_task(all_is_answered())
            while not answered.done():
                assert await bystander.is_served()
                served += 1
                waiting = [given for _, given in server.driver._inbox]
                most = max(most, sum(len(each.frames) for each in waiting if isinstance(each, PublishBlock)))
            await answered
            assert server.counts.refusals["document"] == count - 1
            assert 0 < most < 1_000_000
            assert served > 20
            await flooder.close()
            await bystander.close()

    asyncio.run(play())
