"""The durable client and a real server with a store, in one loop; the server dies and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from palio import Durable, Mode, PublishOptions
from palio.client import (
    Client,
    Delivery,
    Gap,
    GoneError,
    NoStoreError,
    RefusedError,
    Subscription,
    UnknownCursorError,
)
from palio.server.server import Server
from tests.client.puppet import client_of
from tests.serving import run, serving, until


@asynccontextmanager
async def stored(folder: Path, **more: Any) -> AsyncIterator[Server]:
    """A server with a store that replays what is acknowledged for a while."""
    store = {"path": str(folder / "milan.db"), "keep_seconds": 600.0, **more.pop("store", {})}
    async with serving(store=store, **more) as server:
        yield server


def durable(server: Server, durable: Durable | bool = True, **more: Any) -> Client:
    return client_of(server, name="urn:eva", durable=durable, **more)


def break_one(server: Server, random: Random) -> None:
    if server._connections:
        random.choice(list(server._connections)).abort()


def is_all_done(server: Server, party: str) -> bool:
    log = server.driver.node.logs.of(party)
    return log.done == log.next


async def taken(subscription: Subscription, count: int) -> list[Delivery]:
    return [await anext(subscription) for _ in range(count)]


def test_what_is_published_while_nobody_is_there_waits(tmp_path: Path) -> None:
    async def story() -> None:
        async with stored(tmp_path) as server, client_of(server) as adam:
            async with durable(server) as eva, eva.subscribe("n any") as events:
                assert (await adam.publish(n=0)).mode is Mode.SYNCED
                first = await anext(events)
                await first.ack(wait=True)
            for n in range(1, 4):
                await adam.publish(n=n)
            async with durable(server) as eva, eva.subscribe("n any") as events:
                got = await taken(events, 3)
                assert [(each.number, each.notification["n"]) for each in got] == [(1, 1), (2, 2), (3, 3)]
                assert first.cursor.log == got[0].cursor.log
                await got[0].ack(wait=True)
            async with durable(server) as eva, eva.subscribe("n any", ack="auto") as events:
                assert [(each.number, each.is_repeated) for each in await taken(events, 2)] == [(2, True), (3, True)]
            async with durable(server) as eva, eva.subscribe("n any") as events:
                await adam.publish(n=4)
                last = await anext(events)
                assert (last.number, last.is_repeated) == (4, False)

    run(story())


def test_what_is_acknowledged_behind_a_rejection_does_not_come_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with stored(tmp_path) as server, client_of(server) as adam:
            async with durable(server) as eva, eva.subscribe("n any") as events:
                for n in range(4):
                    await adam.publish(n=n)
                zero, one, two, three = await taken(events, 4)
                await zero.ack()
                await one.reject("no such customer")
                await two.ack()
                await three.ack()
            await until(lambda: is_all_done(server, "urn:eva"))
            assert len(server.driver.node.logs.of("urn:eva").letters) == 1
            await adam.publish(n=4)
            async with durable(server) as eva, eva.subscribe("n any") as events:
                assert [each.notification["n"] for each in await taken(events, 1)] == [4]

    run(story())


def test_a_client_hears_that_its_lease_has_ended(tmp_path: Path) -> None:
    """Also one that is another process than the one whose log has ended."""

    async def story() -> None:
        async with stored(tmp_path) as server, client_of(server) as adam:
            async with durable(server, Durable(lease=0.05)) as eva, eva.subscribe("n any") as events:
                for n in range(3):
                    await adam.publish(n=n)
                (first,) = await taken(events, 1)
                await first.ack(wait=True)
            await until(lambda: "urn:eva" not in server.driver.node.logs)
            gaps: list[Gap] = []
            for told in (1, 2):
                async with durable(server, Durable(on_gap=gaps.append)) as eva:
                    assert len(gaps) == told
                    assert (gaps[-1].reason, gaps[-1].count, eva.missed) == ("lease-ended", 2, 2)
                    assert gaps[-1].after == first.cursor
                    assert gaps[-1].before.log != first.cursor.log
                    assert "for longer than its lease" in str(gaps[-1])
            async with durable(server, Durable(on_gap=gaps.append)) as eva, eva.subscribe("n any") as events:
                await adam.publish(n=3)
                (other,) = await taken(events, 1)
                await other.ack(wait=True)
            async with durable(server, Durable(on_gap=gaps.append)):
                assert len(gaps) == 3, "it was told until it acknowledged something"

    run(story())


def test_modes_and_keys(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            stored(tmp_path) as server,
            client_of(server, name="adam", mode="memory") as adam,
            durable(server) as eva,
            eva.subscribe("n any") as events,
        ):
            for mode in Mode:
                got = await adam.publish({"n": 1}, PublishOptions(mode=mode))
                assert got.mode.strength >= mode.strength
            once = [await adam.publish({"n": 2}, PublishOptions(key="once")) for _ in range(3)]
            assert once == [(Mode.MEMORY, False), (Mode.MEMORY, True), (Mode.MEMORY, True)]
            await adam.publish(n=3)
            assert [each.notification["n"] for each in await taken(events, 5)] == [1, 1, 1, 2, 3]
        async with serving() as memory:
            with pytest.raises(NoStoreError, match="has no store"):
                await durable(memory).connect()
            with pytest.raises(NoStoreError, match="has no store"):
                await client_of(memory, mode="synced").connect()
            async with client_of(memory) as adam:
                with pytest.raises(NoStoreError):
                    await adam.publish({"n": 1}, PublishOptions(mode="synced"))

    run(story())


def test_replay_and_what_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with stored(tmp_path) as server, client_of(server) as adam:
            async with durable(server) as eva, eva.subscribe("n any") as events:
                for n in range(5):
                    await adam.publish(n=n)
                for each in await taken(events, 5):
                    await each.ack()
                await eva.acknowledged(each.cursor)
                for wanted in ({"first": 2}, {"last": 3}):
                    await eva.replay(**wanted)  # type: ignore[arg-type]
                    again = await taken(events, 3)
                    assert [(each.number, each.is_repeated) for each in again] == [(2, True), (3, True), (4, True)]
                    for each in again:
                        await each.ack()
                with pytest.raises(RefusedError, match="the next delivery has number 5"):
                    await eva.replay(first=9)
                log = again[0].cursor.log
            async with durable(server, Durable(after=f"{log}/1")) as eva, eva.subscribe("n any") as events:
                assert [each.number for each in await taken(events, 3)] == [2, 3, 4]
                assert eva.missed == 0
            for unknown in (f"{log + 1}/1", f"{log}/5"):
                with pytest.raises(UnknownCursorError, match=f"there is the log {log}") as error:
                    await durable(server, Durable(after=unknown)).connect()
                assert error.value.log == log

    run(story())


def test_what_falls_out_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with stored(tmp_path) as server, client_of(server) as adam:
            gaps: list[Gap] = []
            away = {"reconnect_time_wait": 1.0, "reconnect_time_max": 1.0}
            eva = durable(server, Durable(count=3, on_gap=gaps.append), **away)
            await eva.connect()
            events = await eva.subscribe("n any")
            await adam.publish(n=0)
            first = await anext(events)
            await first.ack(wait=True)
            next(each for each in server._connections if each.name == "urn:eva").abort()
            await until(lambda: not eva.is_connected)
            await asyncio.gather(*(adam.publish(n=n) for n in range(1, 9)))
            assert not eva.is_connected
            got = await taken(events, 3)
            assert [each.number for each in got] == [6, 7, 8]
            (gap,) = gaps
            assert (gap.after, gap.before, gap.reason) == (first.cursor, got[0].cursor, "dropped")
            assert eva.missed == gap.count == 5
            await asyncio.gather(*(each.ack(wait=True) for each in got))
            await eva.close()

    run(story())


def test_a_new_program_hears_what_fell_out_since_the_party_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        async with stored(tmp_path) as server, client_of(server) as adam:
            async with durable(server, Durable(count=3)) as eva, eva.subscribe("n any") as events:
                await adam.publish(n=0)
                (first,) = await taken(events, 1)
                await first.ack(wait=True)
            await asyncio.gather(*(adam.publish(n=n) for n in range(1, 9)))
            gaps: list[Gap] = []
            for told in (1, 2):
                async with durable(server, Durable(count=3, on_gap=gaps.append)) as eva:
                    assert len(gaps) == told, "it is repeated until something later is acknowledged"
                    assert eva.missed == 5
            async with durable(server, Durable(count=3, on_gap=gaps.append)) as eva, eva.subscribe("n any") as events:
                got = await taken(events, 3)
                assert {(gap.after, gap.before, gap.reason) for gap in gaps} == {
                    (first.cursor, got[0].cursor, "dropped")
                }
                assert [each.number for each in got] == [6, 7, 8]
                await got[0].ack(wait=True)
            async with durable(server, Durable(count=3, on_gap=gaps.append)) as eva:
                assert len(gaps) == 3, "the three connections before this one"
                assert not eva.missed

    run(story())


def test_dead_letters(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            stored(tmp_path) as server,
            client_of(server) as adam,
            durable(server) as eva,
            eva.subscribe("n any") as events,
        ):
            for n in range(3):
                await adam.publish(n=n)
            first, second, third = await taken(events, 3)
            await second.reject("no such customer")
            await third.ack()
            await first.ack()
            await eva.acknowledged(third.cursor)
            (letter,) = (await eva.letters()).letters
            assert (letter.delivery, letter.reason) == (1, "no such customer")
            assert letter.notifications[0]["n"] == 1
            assert letter.notifications[0].envelope is not None
            await eva.requeue([letter.number])
            again = await anext(events)
            assert (again.number, again.notification["n"]) == (3, 1)
            await again.reject("still none", wait=True)
            (letter,) = (await eva.letters()).letters
            with pytest.raises(RefusedError, match="there is no dead letter 77"):
                await eva.discard([77])
            await eva.discard([letter.number])
            assert (await eva.letters()).letters == ()
            await eva.replay(last=1)
            repeated = await anext(events)
            with pytest.raises(RefusedError, match="cannot be rejected"):
                await repeated.reject("again", wait=True)
            await adam.publish(n=9)
            await (await anext(events)).ack(wait=True)

    run(story())


def test_to_leave_is_the_end_of_the_log(tmp_path: Path) -> None:
    async def story() -> None:
        async with stored(tmp_path) as server, client_of(server) as adam:
            eva = durable(server)
            await eva.connect()
            events = await eva.subscribe("n any")
            await adam.publish(n=1)
            cursor = (await anext(events)).cursor
            await eva.leave()
            await until(lambda: "urn:eva" not in server.driver.node.logs)
            await adam.publish(n=2)
            async with durable(server) as eva:
                assert eva.position is not None
                assert (eva.position.log != cursor.log, eva.position.first) == (True, 0)
            with pytest.raises(UnknownCursorError):
                await durable(server, Durable(after=cursor)).connect()

    run(story())


class Story:
    """One client publishes, another one is durable and is done in any order, while servers and connections end."""

    count = 150

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.numbers: list[object] = []
        """What has come."""
        self.accepted: list[asyncio.Task[Mode]] = []

    async def begin(self, server: Server) -> None:
        self.eva, self.adam = durable(server, Durable(window=16)), client_of(server, name="adam", retry=True)
        for client in (self.eva, self.adam):
            await client.connect()
        self.consuming = asyncio.create_task(self._consume(await self.eva.subscribe("n any", queue=5)))

    async def _consume(self, events: Subscription) -> None:
        held: list[Delivery] = []
        async for delivery in events:
            self.numbers.append(delivery.notification["n"])
            held.append(delivery)
            while held and delivery.number - held[0].number > 10:  # the window is not larger
                await held.pop(0).ack()
            while held and (self.random.random() < 0.6 or len(self.numbers) == self.count):
                await held.pop(self.random.randrange(len(held))).ack()

    async def publish(self, server: Server, count: int) -> None:
        for _ in range(count):
            self.accepted.append(asyncio.create_task(self.adam.publish(n=len(self.accepted))))
            if self.random.random() < 0.1:
                break_one(server, self.random)
            await asyncio.sleep(self.random.choice([0, 0, 0.001]))

    async def end(self, server: Server) -> None:
        await asyncio.gather(*self.accepted)
        await until(lambda: len(self.numbers) >= self.count and is_all_done(server, "urn:eva"))
        await self.eva.close()
        await self.adam.close()
        await self.consuming


# Python 3.11 forgets to close what it accepts while its listener is closed, and says so when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", range(4))
def test_a_living_client_survives_restarts_and_breaks(tmp_path: Path, seed: int) -> None:
    async def story() -> None:
        told, port = Story(seed), 0
        for life in range(3):
            async with stored(tmp_path, port=port, connections={"drain_seconds": 0.1}) as server:
                if life == 0:
                    port = server.port
                    await told.begin(server)
                await told.publish(server, told.count // 3)
                if life == 2:
                    await told.end(server)
        assert told.numbers == list(range(told.count))

    run(story())


@pytest.mark.slow
def test_old_deliveries_are_gone_where_nothing_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            stored(tmp_path, store={"keep_seconds": 0.0}) as server,
            client_of(server) as adam,
            durable(server) as eva,
            eva.subscribe("n any") as events,
        ):
            log = server.driver.node.logs.of("urn:eva")
            for n in range(5_000):  # in one turn of the server each
                await adam.publish({"n": n}, PublishOptions(mode="memory"))
                await (await anext(events)).ack()
                if log.first:
                    break
            with pytest.raises(GoneError, match="delivery 0 is gone; there are deliveries from number"):
                await eva.replay(first=0)

    run(story())
