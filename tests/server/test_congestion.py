"""What is published faster than neighbours take it waits with its publishers, and nothing of it is lost."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise

import msgspec
import pytest

from palio.codec import control, frames
from palio.codec.control import Goodbye
from palio.model import Filter, Notification
from palio.node.ports import LinkDown
from palio.server.server import Server
from tests.serving import Raw, configured, serving, until

FLOOD = 30_000
"""Publications; many more than may wait for a neighbour before its link is given up."""
LARGE = 20_000
"""Publications of which each is so long that sockets do not keep them all."""


def pair_of(one: Server, other: Server) -> bool:
    return other.config.server in one.driver.node.links.peers and one.config.server in other.driver.node.links.peers


async def joined(stack: AsyncExitStack, names: str, **more: object) -> list[Server]:
    """Servers in a row."""
    servers: list[Server] = []
    for name in names:
        url = f"palio://127.0.0.1:{servers[-1].port}" if servers else ""
        peers = [{"name": servers[-1].config.server, "url": url}] if servers else []
        servers.append(await stack.enter_async_context(serving(configured(name, peers=peers, **more))))
    for one, other in pairwise(servers):
        await until(lambda one=one, other=other: pair_of(one, other))  # type: ignore[misc]
    return servers


def flood(publisher: Raw, count: int, text: str = "") -> None:
    publisher.send(b"".join(frames.publish(Notification(x=x, text=text)) for x in range(count - 1)))
    publisher.publish(1, x=count - 1, text=text)


@pytest.mark.slow
def test_a_flood_goes_over_two_links_and_nothing_is_lost() -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            servers = await joined(stack, "abc", links={"full": 500, "most": 20_000})
            downs: list[LinkDown] = []
            for server in servers:
                tell = server.driver._events
                server.driver._events = lambda event, tell=tell: (  # type: ignore[misc]
                    downs.append(event) if isinstance(event, LinkDown) else None,
                    tell(event),
                )
            reader, publisher = await Raw.party(servers[2], "reader"), await Raw.party(servers[0], "publisher")
            await reader.subscribe("x any", wait=True)
            await publisher.is_served()
            flood(publisher, FLOOD)
            assert [(await reader.until(Notification))["x"] for _ in range(FLOOD)] == [*range(FLOOD)]
            assert await publisher.until(int) == 1
            assert servers[0].backlog.pauses
            assert not downs
            assert not servers[0].backlog.is_full
            for each in (reader, publisher):
                await each.close()

    asyncio.run(play())


@pytest.mark.slow
def test_a_crowded_server_lets_its_neighbours_wait() -> None:
    """The only reader is slower than the publisher, but it reads: what servers keep meanwhile is bounded."""

    async def play() -> None:
        async with AsyncExitStack() as stack:
            small = {"waiting_bytes": 200_000}
            more = {"connections": small, "slow": {"seconds": 1_000.0}}
            servers = await joined(stack, "ab", links={"full": 500, "most": 20_000}, **more)
            reader, publisher = await Raw.party(servers[1], "reader"), await Raw.party(servers[0], "publisher")
            await reader.subscribe("x any", wait=True)
            bystander = await Raw.party(servers[1], "bystander")
            flood(publisher, LARGE, "." * 1_500)
            found: list[int] = []
            while not (servers[0].backlog.is_full and servers[1].backlog.is_full):
                found += [(await reader.until(Notification))["x"] for _ in range(100)]
                assert await bystander.is_served()
            assert not servers[1].counts.refusals
            found += [(await reader.until(Notification))["x"] for _ in range(LARGE - len(found))]
            assert found == [*range(LARGE)]
            await until(lambda: not servers[0].backlog.is_full and not servers[1].backlog.is_full)
            for each in (reader, publisher, bystander):
                await each.close()

    asyncio.run(play())


def test_who_stays_away_has_no_link_any_more_and_gets_it_back() -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            one, other = await joined(stack, "ab", links={"lost_seconds": 0.3})
            port = one.port
            await one.stop()
            await until(lambda: "a" not in other.driver.node.links.peers)
            again = await stack.enter_async_context(serving(configured("a", port, links={"lost_seconds": 0.3})))
            await until(lambda: pair_of(again, other))

    asyncio.run(play())


def test_a_party_that_leaves_takes_its_subscriptions_along_and_one_that_parts_does_not() -> None:
    async def play() -> None:
        async with serving() as server:
            for name, code in (("stays", ""), ("goes", control.LEFT)):
                party = await Raw.party(server, name)
                await party.subscribe("x > 3")
                party.send(control.encode(Goodbye(code, "")))
                await until(lambda name=name: name not in server.driver.parties)  # type: ignore[misc]
                await party.close()
            profiles = {name: server.driver.node.router.profile(name).filters for name in ("stays", "goes")}
            assert profiles == {"stays": (Filter.parse("x > 3"),), "goes": ()}

    asyncio.run(play())


def test_a_subscription_takes_the_place_of_another_one() -> None:
    narrow, wrong = control.document(Filter.parse("x > 5")), ("filter", msgspec.Raw(b"\x01"))
    impossible = control.document(Filter.parse("x = 1 and x = 2"))

    async def play() -> None:
        async with serving() as server:
            party = await Raw.party(server, "eva")
            await party.subscribe("x > 3")
            held = server.driver.node.router.profile
            assert (await party.ask("unsubscribe", "x > 3", instead=(wrong,))).code == "document"
            assert (await party.ask("unsubscribe", "x > 3", instead=(impossible,))).code != ""
            assert (await party.ask("subscribe", "x > 3", instead=(narrow,))).code == "invalid"
            assert held("eva").filters == (Filter.parse("x > 3"),)
            assert (await party.ask("unsubscribe", "x > 3", instead=(narrow,))).code == ""
            assert held("eva").filters == (Filter.parse("x > 5"),)
            await party.close()

    asyncio.run(play())
