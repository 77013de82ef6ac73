"""Several servers on real sockets in one loop."""

from __future__ import annotations

import asyncio
import random
import socket
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime

import pytest

from palio.codec import control, frames
from palio.link import wire
from palio.link.frames import Data
from palio.model import Envelope, Notification
from palio.model.envelope import NotificationId
from palio.routing.messages import Publish
from palio.server.server import Server
from tests.serving import Raw, configured, serving, until

TREE = {"b": "a", "c": "a", "d": "b", "e": "b"}
"""Five servers: each with the one that it dials."""
_ENVELOPE = Envelope(NotificationId("b", 1, 0), datetime(2026, 1, 1, tzinfo=UTC), "eva")
ARCHITECTURES = ["hs", "as", "aa", "nf", "gs", "ga"]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; below those that systems give to connections, which would take them meanwhile."""
    found: dict[int, None] = {}
    while len(found) < count:
        port = random.randrange(12_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found[port] = None
    return list(found)


async def kill(server: Server) -> None:
    """End a server without a word, as if the machine had failed."""
    for listener in server._listeners:
        listener.close()
    server.peers.stop()
    server._abort_all()
    await server.stop()


class Network:
    def __init__(self, architecture: str, *, both_dial: bool = False) -> None:
        self.architecture, self.both_dial = architecture, both_dial
        self.ports = dict(zip("abcde", free_ports(5), strict=True))
        self.servers: dict[str, Server] = {}

    async def start(self, name: str) -> None:
        role = "master" if self.architecture == "hs" else "peer"
        dials = [TREE[name]] if name in TREE else []
        if self.both_dial:
            dials += [other for other, above in TREE.items() if above == name]
        peers = [{"name": each, "url": f"palio://127.0.0.1:{self.ports[each]}", "role": role} for each in dials]
        config = configured(name, self.ports[name], architecture=self.architecture, peers=peers)
        self.servers[name] = Server(config)
        await self.servers[name].start()

    def is_whole(self) -> bool:
        return all(
            below in self.servers[above].driver.node.links.peers
            and above in self.servers[below].driver.node.links.peers
            for below, above in TREE.items()
        )

    async def stop(self) -> None:
        await asyncio.gather(*(server.stop() for server in self.servers.values()))


async def network(stack: AsyncExitStack, architecture: str, *, both_dial: bool = False) -> Network:
    made = Network(architecture, both_dial=both_dial)
    stack.push_async_callback(made.stop)
    for name in reversed(made.ports):  # those that dial come before those that are dialed
        await made.start(name)
    await until(made.is_whole)
    return made


async def publish_until_seen(publisher: Raw, reader: Raw, x: int) -> None:
    """Publish again and again until it arrives: subscriptions need their time to spread."""
    got = asyncio.create_task(reader.until(Notification))
    while not got.done():
        publisher.publish(x=x)
        await asyncio.wait([got], timeout=0.05)
    assert got.result()["x"] == x


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_parties_at_different_servers_get_what_they_want(architecture: str) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            made = await network(stack, architecture)
            publisher = await Raw.party(made.servers["d"], "publisher")
            assert (await publisher.ask("advertise", "x any", "advertisement", wait=True)).code == ""
            readers = {}
            for name in "abce":
                readers[name] = reader = await Raw.party(made.servers[name], f"reader-{name}")
                await reader.subscribe("x > 3", wait=True)
            for x in (1, 5, 2, 7):
                publisher.publish(x=x)
            for reader in readers.values():
                assert [(await reader.until(Notification))["x"] for _ in range(2)] == [5, 7]
            for each in (publisher, *readers.values()):
                await each.close()

    asyncio.run(play())


@pytest.mark.parametrize("architecture", ["hs", "aa", "gs"])
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_a_network_heals_when_a_server_comes_back(architecture: str, is_killed: bool) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            made = await network(stack, architecture)
            publisher = await Raw.party(made.servers["d"], "publisher")
            await publisher.ask("advertise", "x any", "advertisement")
            reader = await Raw.party(made.servers["c"], "reader")
            await reader.subscribe("x > 3")
            await publish_until_seen(publisher, reader, 5)
            await (kill if is_killed else Server.stop)(made.servers["b"])
            await made.start("b")
            await until(made.is_whole, 40)
            await publish_until_seen(publisher, reader, 9)
            await publisher.close()
            await reader.close()

    asyncio.run(play())


def test_of_two_connections_one_is_kept() -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            made = await network(stack, "as", both_dial=True)
            await until(
                lambda: all(len(server._connections) == len(server.driver.peers) for server in made.servers.values())
            )
            for below, above in TREE.items():
                kept = made.servers[below].driver.peers[above], made.servers[above].driver.peers[below]
                assert [each.is_dialed for each in kept] == [below < above, above < below]  # type: ignore[attr-defined]
            publisher, reader = await Raw.party(made.servers["d"], "p"), await Raw.party(made.servers["c"], "r")
            await reader.subscribe("x any")
            await publish_until_seen(publisher, reader, 1)
            await publisher.close()
            await reader.close()

    asyncio.run(play())


def test_long_frames_of_links_go_in_several() -> None:
    async def play() -> None:
        async with serving(server="a") as a:
            peer = {"name": "a", "url": f"palio://127.0.0.1:{a.port}"}
            async with serving(server="b", peers=[peer]) as b:
                publisher, reader = await Raw.party(b, "publisher"), await Raw.party(a, "reader")
                await reader.subscribe("x any", wait=True)
                await until(lambda: len(b.driver.node.router.subscriptions) == 1)
                for x in range(100):
                    publisher.publish(x=x, body="y" * 100_000)
                got = [await reader.until(Notification) for _ in range(100)]
                assert [each["x"] for each in got] == list(range(100))
                assert a.counts.refusals.total() == b.counts.refusals.total() == 0
                await publisher.close()
                await reader.close()

    asyncio.run(play())


def test_a_link_that_closed_a_cycle_comes_about_when_it_does_not_any_more() -> None:
    async def play() -> None:
        async with serving(server="a") as a:
            to_a = {"name": "a", "url": f"palio://127.0.0.1:{a.port}"}
            async with serving(server="b", peers=[to_a]) as b:
                await until(lambda: "a" in b.driver.node.links.peers)
                to_b = {"name": "b", "url": f"palio://127.0.0.1:{b.port}"}
                async with serving(server="c", peers=[to_b]) as c:
                    await until(lambda: "b" in c.driver.node.links.peers)
                    c.reload(configured("c", peers=[to_b, to_a]))
                    await until(lambda: "a" in c.peers._retries)
                    assert "a" not in c.driver.node.links.peers
                    b.reload(configured("b"))
                    await until(lambda: "a" in c.driver.node.links.peers)

    asyncio.run(play())


def test_a_dead_connection_does_not_keep_its_peer_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lesser name's connection is kept; but if nobody is at its other end any more, it has to go."""
    monkeypatch.setattr("palio.server.peers._CHALLENGE_SECONDS", 0.1)

    async def play() -> None:
        mute: list[asyncio.StreamWriter] = []

        async def welcome_and_fall_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(control.encode(control.Welcome(1, "b", 1, 1000)))
            mute.append(writer)

        listener = await asyncio.start_server(welcome_and_fall_silent, "127.0.0.1", 0)
        peer = {"name": "b", "url": f"palio://127.0.0.1:{listener.sockets[0].getsockname()[1]}"}
        async with serving(server="a", peers=[peer]) as a:
            await until(lambda: "b" in a.driver.peers)
            listener.close()
            codes = []
            while not codes or codes[-1] != "welcome":
                b = await Raw.connect(a)
                said = await b.hello("b", role="server")
                codes.append("welcome" if isinstance(said, control.Welcome) else said.code)
                await b.close()
            assert codes[0] == "replaced"
            for writer in mute:
                writer.close()

    asyncio.run(play())


@pytest.mark.parametrize("cut", [0, 1, 3, 10, 5_000], ids=lambda cut: f"cut {cut} bytes behind the welcome")
def test_long_frames_may_come_together_with_the_welcome(cut: int) -> None:
    """A neighbour for whom much waits is sent that at once: it may be read together with the welcome."""

    async def play() -> None:
        messages = (Publish(Notification(text="x" * 20_000).with_envelope(_ENVELOPE)),)
        long = frames.frame(frames.LINK, wire.encode(Data((7, "b", 1), 0, messages, 0, True)))
        behind = [long, control.encode(control.Ping(77))]
        said: list[bytes] = []

        async def welcome_at_length(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            welcome, rest = control.encode(control.Welcome(1, "b", 1, 1000)), b"".join(behind)
            writer.write(welcome + rest[:cut] if cut else welcome + rest)
            if cut:
                await asyncio.sleep(0)
                writer.write(rest[cut:])
            with suppress(asyncio.IncompleteReadError):
                while True:
                    head = await reader.readexactly(frames.HEADER)
                    said.append(head[4:] + await reader.readexactly(int.from_bytes(head[:4], "big") - 1))
            writer.close()

        listener = await asyncio.start_server(welcome_at_length, "127.0.0.1", 0)
        peer = {"name": "b", "url": f"palio://127.0.0.1:{listener.sockets[0].getsockname()[1]}"}
        async with serving(server="a", peers=[peer]) as a:
            pong = control.encode(control.Pong(77))[4:]
            await until(lambda: pong in said)
            assert not a.counts.refusals
        listener.close()

    asyncio.run(play())


def test_a_party_that_does_not_come_back_is_forgotten() -> None:
    async def play() -> None:
        async with serving(connections={"forget_seconds": 0.1}) as server:
            party, other = await Raw.party(server, "eva"), await Raw.party(server, "adam")
            await party.subscribe("x = 1")
            await party.subscribe("x = 1; y = 2", "pattern")
            await other.subscribe("z = 1")
            assert (await party.ask("advertise", "x any", "advertisement")).code == ""
            assert (await party.ask("watch", "x any", "advertisement")).code == ""
            await party.close()
            router = server.driver.node.router
            await until(lambda: len(router.subscriptions) == 1 and len(router.advertisements) == 0)
            assert server.counts.faults == 0
            await other.close()

    asyncio.run(play())


def test_networks_of_different_architectures_are_joined_by_a_gateway() -> None:
    async def play() -> None:
        waited_for = {"name": "b", "role": "gateway", "exports": "x > 3"}
        async with serving(server="a", architecture="as", peers=[waited_for]) as a:
            dialed = {"name": "a", "role": "gateway", "url": f"palio://127.0.0.1:{a.port}"}
            async with serving(server="b", architecture="hs", peers=[dialed]) as b:
                await until(lambda: "b" in a.driver.node.links.peers)
                publisher, reader = await Raw.party(a, "publisher"), await Raw.party(b, "reader")
                await reader.subscribe("x any", wait=True)
                for x in (1, 5, 2, 7):
                    publisher.publish(x=x)
                assert [(await reader.until(Notification))["x"] for _ in range(2)] == [5, 7]
                await publisher.close()
                await reader.close()

    asyncio.run(play())
