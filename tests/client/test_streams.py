"""Consumers that are slow."""

from __future__ import annotations

import asyncio

import pytest

from palio.client import SlowConsumerError
from palio.errors import CallerError
from tests.client.puppet import client_of, held
from tests.serving import run, serving, until


@pytest.mark.parametrize(("overflow", "kept"), [("drop_oldest", range(15, 20)), ("drop_newest", range(5))])
def test_what_is_dropped_is_counted(overflow: str, kept: range) -> None:
    async def story() -> None:
        async with (
            serving() as server,
            client_of(server) as eva,
            eva.subscribe("n any", queue=5, overflow=overflow) as events,
        ):  # type: ignore[arg-type]
            for n in range(20):
                await eva.publish(n=n)
            await until(lambda: events.dropped == 15)
            assert [(await anext(events))["n"] for _ in range(5)] == list(kept)

    run(story())


def test_a_slow_consumer_may_fail() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            events = await eva.subscribe("n any", queue=5, overflow="error")
            others = await eva.subscribe("n > 17")
            for n in range(20):
                await eva.publish(n=n)
            assert [(await anext(events))["n"] for _ in range(5)] == list(range(5))
            with pytest.raises(SlowConsumerError, match="5 elements wait"):
                await anext(events)
            assert [(await anext(others))["n"] for _ in range(2)] == [18, 19]
            await until(lambda: held(server, "eva") == {*others.wanted})

    run(story())


def test_a_slow_consumer_holds_up_the_server_and_loses_nothing() -> None:
    count, size = 3000, 10

    async def story() -> None:
        async with (
            serving() as server,
            client_of(server, name="eva") as eva,
            client_of(server) as bob,
            eva.subscribe("n any", queue=size) as events,
        ):
            await asyncio.gather(*(bob.publish(n=n, filling="x" * 2000) for n in range(count)))
            await until(lambda: eva._connection._is_paused)  # type: ignore[union-attr]
            assert len(events._waiting) == size
            for n in range(count):
                assert (await anext(events))["n"] == n
                assert len(events._waiting) <= size

    run(story())


def test_who_publishes_while_it_consumes_does_not_wait_for_itself() -> None:
    async def story() -> None:
        async with (
            serving() as server,
            client_of(server) as eva,
            client_of(server) as bob,
            eva.subscribe("n any", queue=2) as events,
        ):
            await asyncio.gather(*(bob.publish(n=n) for n in range(300)))
            for n in range(300):
                assert (await anext(events))["n"] == n
                await eva.publish(seen=n)
                async with eva.subscribe(f"x = {n}"):
                    pass

    run(story())


def test_the_end_of_a_full_subscription_lets_the_others_go_on() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva, client_of(server) as bob:
            full = await eva.subscribe("n any", queue=1)
            other = await eva.subscribe("m any")
            for n in range(10):
                await bob.publish(n=n)
            await bob.publish(m=1)
            await until(lambda: eva._connection._is_paused)  # type: ignore[union-attr]
            await full.close()
            assert (await anext(other))["m"] == 1

    run(story())


def test_a_broken_connection_gives_what_was_read_already() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, max_attempts=0) as eva, client_of(server) as bob:
            events = await eva.subscribe("n any", queue=2)
            await asyncio.gather(*(bob.publish(n=n) for n in range(50)))
            await until(lambda: eva._connection._is_paused)  # type: ignore[union-attr]
            eva._connection._transport.abort()  # type: ignore[union-attr]
            await until(lambda: not eva.is_connected)
            got = len(events._waiting)
            assert [(await anext(events))["n"] for _ in range(got)] == list(range(got))

    run(story())


@pytest.mark.parametrize("options", [{"queue": 0}, {"queue": "many"}, {"overflow": "explode"}])
def test_queues_are_checked(options: dict[str, object]) -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva:
            with pytest.raises(CallerError, match=next(iter(options))):
                eva.subscribe("x any", **options)  # type: ignore[arg-type]

    run(story())
