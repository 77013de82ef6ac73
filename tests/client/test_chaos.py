"""Connections that break again and again, while subscriptions come and go."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from palio.client import Acceptance, ConnectionLostError, Subscription
from palio.client.subscriptions import covers
from palio.server.server import Server
from tests.client.puppet import client_of, held, held_patterns
from tests.serving import run, serving, until

WANTED = [
    "n any",
    "n > 50",
    "n > 100 and n < 200",
    "m any",
    "n > 150 or m = 1",
    "n any then m any",
    "n > 50 then m = 1",
]


def break_all(server: Server) -> None:
    for connection in list(server._connections):
        connection.abort()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_nothing_comes_twice_and_in_the_end_the_server_has_what_is_wanted(seed: int) -> None:
    random = Random(seed)
    steps = random.choices(["publish", "subscribe", "close", "break", "wait"], [20, 3, 3, 1, 5], k=400)

    async def story() -> None:
        async with serving() as server, client_of(server, name="eva", max_outstanding=10) as eva:
            live: list[Subscription] = []
            seen: list[tuple[Subscription, list[object]]] = []
            tasks: list[asyncio.Task[None]] = []
            for number, step in enumerate(steps):
                if step == "publish":
                    tasks.append(asyncio.create_task(eva.publish(n=number, m=number % 5)))
                elif step == "subscribe":
                    live.append(await eva.subscribe(random.choice(WANTED), queue=random.choice([3, 1000])))
                elif step == "close" and live:
                    closed = live.pop(random.randrange(len(live)))
                    await closed.close()
                    seen.append((closed, [each async for each in closed]))
                elif step == "break":
                    break_all(server)
                else:
                    await asyncio.sleep(random.choice([0, 0, 0.001]))
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(each) for each in outcomes} <= {Acceptance, ConnectionLostError}
            await until(lambda: eva.is_connected)
            await eva.advertise("n any")
            wanted = [each for subscription in live for each in subscription.wanted]
            there = held(server, "eva") | held_patterns(server, "eva")
            assert there <= set(wanted)
            assert all(any(covers(one, each) for one in there) for each in wanted)
            seen += [(each, await each.take() if each._waiting else []) for each in live]
            for subscription, elements in seen:
                if not subscription.is_sequence:
                    assert max(Counter(each["n"] for each in elements).values(), default=1) == 1  # type: ignore[index]

    run(story())
