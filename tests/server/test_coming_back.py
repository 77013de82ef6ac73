"""A party that comes back gets the answers to what it asks now, and not those to what it asked before."""

from __future__ import annotations

import asyncio
from typing import Any

from palio.codec import control, frames
from palio.codec.control import Answer, Ask, Ping, Pong
from palio.model import Filter, Notification
from tests.serving import Raw, run, serving, until


async def all_said(party: Raw) -> list[Any]:
    """Whatever the server has said until now."""
    party.send(control.encode(Ping(5)))
    said = []
    while not isinstance(one := await party.next(), Pong):
        said.append(one)
    return said


def test_publications_of_before() -> None:
    async def play() -> None:
        async with serving() as server:
            reader = await Raw.party(server, "reader")
            await reader.subscribe("x any")
            before = await Raw.party(server, "eva")
            bad = [frames.frame(frames.PUBLISH, n.to_bytes(4, "big") + b"\xc1") for n in range(1, 5_001)]
            before.send(b"".join(bad) + frames.publish(Notification(x=1), 5_001))
            await until(lambda: server.driver._behind)
            before.writer.transport.abort()
            after = await Raw.party(server, "eva")
            after.publish(7, x=2)
            assert [(await reader.until(Notification))["x"] for _ in range(2)] == [1, 2]
            assert await all_said(after) == [7]
            await reader.close()
            await after.close()

    run(play())


def test_requests_of_before_that_wait_for_others() -> None:
    async def play() -> None:
        async with serving(server="a") as a:
            peer = {"name": "a", "url": f"palio://127.0.0.1:{a.port}"}
            async with serving(server="b", peers=[peer]) as b:
                await until(lambda: "a" in b.driver.node.links.peers and "b" in a.driver.node.links.peers)
                b.driver._is_planned = True  # it takes its time
                before = await Raw.party(a, "eva")
                before.send(control.encode(Ask(1, "subscribe", *control.document(Filter.parse("x any")), True)))
                await until(lambda: len(a.driver.node.router.subscriptions) == 1)
                before.writer.transport.abort()
                after = await Raw.party(a, "eva")
                after.send(control.encode(Ask(1, "subscribe", *control.document(Filter.parse("y any")), True)))
                await until(lambda: len(a.driver.node.router.subscriptions) == 2)
                assert await all_said(after) == []
                b.driver._is_planned = False
                b.driver._plan()
                await until(lambda: not list(a.driver.node.spreading.waves.waiting()))
                await asyncio.sleep(0)
                assert await all_said(after) == [Answer(1)]
                await after.close()

    run(play())


def test_numbers_that_are_none() -> None:
    async def play() -> None:
        async with serving() as server:
            for number in (-1, 2**32):
                party = await Raw.party(server, "eva")
                party.send(control.encode(Ask(number, "subscribe", *control.document(Filter.parse("x any")))))
                assert await party.goodbye() == "frame"

    run(play())
