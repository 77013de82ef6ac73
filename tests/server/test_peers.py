"""Links of servers: how often they are opened again, and what a changed configuration does to them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from palio.codec import control
from palio.codec.control import Goodbye, Hello, Welcome
from palio.link.ports import Wish
from palio.link.states import State
from palio.model import Filter, Notification
from palio.node import ports
from palio.routing.messages import Unsubscribe
from palio.server import peers as module
from palio.server.agents import agent_of
from palio.server.config import Peer
from palio.server.peers import Peers
from palio.server.server import Server
from tests.serving import Raw, configured, run, serving, until

# -- how often a link is opened again ----------------------------------------------------------------------------------


class Clock:
    """A server around :class:`Peers` whose time is set by hand; it has a connection to rome, and rome refuses."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.given: list[ports.Input] = []
        self.peers = Peers(self._server(), structlog.get_logger())  # type: ignore[arg-type]
        self.peers.known["rome"] = Peer(name="rome", url="palio://127.0.0.1:1")

    def _server(self) -> SimpleNamespace:
        status = SimpleNamespace(state=State.REFUSED)
        links = SimpleNamespace(wishes={"rome": Wish("peer")}, peers={}, status=lambda _: status)
        driver = SimpleNamespace(peers={"rome": None}, give=self.given.append, node=SimpleNamespace(links=links))
        config = SimpleNamespace(links=SimpleNamespace(lost_seconds=60.0))
        loop = SimpleNamespace(time=lambda: self.now)
        return SimpleNamespace(loop=loop, driver=driver, config=config, storage=None)

    def pause(self) -> float:
        """Seconds until the link is asked for again."""
        began = self.now
        while not self.given:
            self.now += 0.25
            assert self.now < began + 120, "the link is not asked for again"
            self.peers.retry(self.now)
        assert self.given == [ports.Connect("rome")]
        self.given.clear()
        return self.now - began


def test_a_link_that_breaks_the_rules_after_each_start_is_opened_less_and_less_often() -> None:
    clock, pauses = Clock(), []
    for _ in range(8):
        clock.peers.up("rome")
        clock.now += 0.5
        clock.peers.refused("rome", "rome breaks the rules")
        pauses.append(clock.pause())
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_link_that_lasted_is_opened_soon_after_a_refusal() -> None:
    clock = Clock()
    for _ in range(4):
        clock.peers.up("rome")
        clock.peers.refused("rome", "rome breaks the rules")
        clock.pause()
    clock.peers.up("rome")
    clock.now += 61
    clock.peers.refused("rome", "rome breaks the rules")
    assert clock.pause() == 1


def test_a_new_reason_for_a_refusal_is_followed_by_a_soon_attempt() -> None:
    clock = Clock()
    for _ in range(4):
        clock.peers.refused("rome", "a cycle")
        clock.pause()
    clock.peers.refused("rome", "another reason")
    assert clock.pause() == 1


@pytest.mark.parametrize(("lasts", "longest"), [(1.05, 0.1), (0.0, 5.0)], ids=["lasts a second", "ends at once"])
def test_how_soon_a_connection_is_opened_again_that_ends_again_and_again(
    monkeypatch: pytest.MonkeyPatch, lasts: float, longest: float
) -> None:
    """A connection that is lost once a second must not be down for longer than it is there."""
    clock, pauses = Clock(), []

    async def connect(_: Peer) -> str:
        clock.now += lasts
        return "the connection was lost"

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 20:
            raise asyncio.CancelledError

    async def play() -> None:
        monkeypatch.setattr(clock.peers, "_connect", connect)
        monkeypatch.setattr(module.asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await clock.peers._dial(Peer(name="bari", url="palio://127.0.0.1:1"))

    run(play())
    assert longest / 2 <= max(pauses) <= longest


@pytest.mark.slow
def test_a_server_opens_a_link_that_breaks_the_rules_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    first = 0.05
    monkeypatch.setattr(module, "_FIRST_RETRY", first)
    monkeypatch.setattr("palio.server.server._ROUND_SECONDS", 0.005)
    times: list[float] = []

    async def play() -> None:
        async with AsyncExitStack() as stack:
            a, b = await two(stack)

            def misbehave(name: str) -> None:
                times.append(b.loop.time())
                b.loop.call_soon(lie)

            def lie() -> None:
                b.driver.node.links.send("a", [Unsubscribe(Filter.parse("x = 1"))], b.driver.now)
                b.driver.give(ports.Room(is_there=True))

            monkeypatch.setattr(b.peers, "up", misbehave)
            lie()
            await until(lambda: len(times) == 5)
            assert "b" in a.driver.node.links.wishes

    run(play())
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(gap >= least for gap, least in zip(gaps, (2 * first, 4 * first, 8 * first, 16 * first), strict=True))


def test_neighbours_that_come_and_go_leave_nothing_behind() -> None:
    """A server of any name may connect where there are no tokens."""

    async def play() -> None:
        async with serving(links={"lost_seconds": 0.01}) as server:
            for number in range(5):
                peer = await Raw.connect(server)
                await peer.hello(f"peer-{number}", role="server")
                server.peers.up(f"peer-{number}")
                await peer.close()
            await until(lambda: not server.driver.peers and not server.peers._absent)
            assert server.peers._up_since == {}

    run(play())


def test_limits_of_a_server_with_another_name_are_not_noted() -> None:
    async def play() -> None:
        async def welcome(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(control.encode(Welcome(1, "c", 1, 1000, {"literal_bytes": 10})))
            await writer.drain()
            writer.close()

        listener = await asyncio.start_server(welcome, "127.0.0.1", 0)
        url = f"palio://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with serving(server="a", peers=[{"name": "b", "url": url}]) as a:
            await until(lambda: "'c' is there instead" in a.peers.reasons.get("b", ""))
            assert a.peers._limits == {}
        listener.close()

    run(play())


# -- two connections of one name ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_connection_that_loses_against_another_one_of_the_same_process_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process of b has died. Its successor connects while a dials it, so two connections wait for the verdict."""
    monkeypatch.setattr(module, "_CHALLENGE_SECONDS", 1.0)

    async def play() -> None:
        may_welcome, opened = asyncio.Event(), asyncio.Event()
        writers: list[asyncio.StreamWriter] = []

        async def welcome(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            opened.set()
            await may_welcome.wait()
            writer.write(control.encode(Welcome(control.VERSION, "b", 2, 1000)))

        listener = await asyncio.start_server(welcome, "127.0.0.1", 0)
        url = f"palio://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with serving(server="a", peers=[{"name": "b", "url": url}]) as a:
            await opened.wait()
            await (await server_named(a, 1)).until(Welcome)
            may_welcome.set()
            await until(lambda: len(a.peers._contests) == 1)
            loser = await server_named(a, 2)
            goodbye = await loser.until(Goodbye)
            assert (goodbye.code, goodbye.text) == ("replaced", "there is another connection between the two servers")
            assert a.counts.faults == 0
        listener.close()
        for writer in writers:
            writer.close()

    run(play(), deadline=10)


async def server_named(server: Server, start: int) -> Raw:
    """A connection of a process of b that has said hello."""
    made = await Raw.connect(server)
    made.send(control.encode(Hello((control.VERSION,), "server", "b", "", agent_of(start))))
    return made


# -- a configuration that changes --------------------------------------------------------------------------------------


def dials(server: Server, **more: Any) -> dict[str, Any]:
    return {"name": server.config.server, "url": f"palio://127.0.0.1:{server.port}", **more}


async def two(stack: AsyncExitStack, architecture: str = "as", **more: Any) -> tuple[Server, Server]:
    """The servers a and b, with a link that a has opened."""
    b = await stack.enter_async_context(serving(server="b", architecture=architecture))
    peers = [dials(b, **more)]
    a = await stack.enter_async_context(serving(server="a", architecture=architecture, peers=peers))
    await until(lambda: is_linked(a, b))
    return a, b


def is_linked(a: Server, b: Server) -> bool:
    return a.peers.is_up("b") and b.peers.is_up("a")


def reload(server: Server, *peers: dict[str, Any]) -> None:
    more = {"architecture": server.config.architecture, "connections": {"drain_seconds": 0.5}}
    assert server.reload(configured(server.config.server, peers=list(peers), **more)) == []


class Events:
    """The reasons for which a server has lost its link, in their order."""

    def __init__(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reasons: list[str] = []
        right = server.driver._events

        def note(event: Any) -> None:
            if isinstance(event, ports.LinkDown):
                self.reasons.append(event.reason)
            right(event)

        monkeypatch.setattr(server.driver, "_events", note)


@pytest.mark.parametrize("is_both_ways", [False, True], ids=["one dials", "both dial"])
def test_a_reload_with_another_latency_renews_the_link_with_a_true_reason(
    monkeypatch: pytest.MonkeyPatch, is_both_ways: bool
) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            a, b = await two(stack, "gs")
            if is_both_ways:
                reload(b, dials(a))
                await until(lambda: is_linked(a, b) and "a" in b.peers.known)
            events, connection = Events(b, monkeypatch), a.driver.peers["b"]
            reload(a, dials(b, latency=5))
            await until(lambda: events.reasons and is_linked(a, b))
            reason = "a renews the link, because its configuration has changed: the latency from 1 to 5"
            assert events.reasons == [reason]
            assert [a.driver.node.links.latency("b"), b.driver.node.links.latency("a")] == [5, 5]
            assert a.driver.peers["b"] is connection, "the connection stays"

    run(play())


@pytest.mark.slow
def test_a_reload_with_another_latency_keeps_the_link_where_latency_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            a, b = await two(stack, "as")
            publisher, reader = await Raw.party(a, "publisher"), await Raw.party(b, "reader")
            await reader.subscribe("x any", wait=True)
            events = Events(b, monkeypatch)
            reload(a, dials(b, latency=5))
            await until(lambda: a.driver.node.links.wishes["b"] == Wish("peer", 5))
            publisher.publish(x=1)
            assert (await reader.until(Notification))["x"] == 1
            assert events.reasons == []

    run(play())


def test_a_reload_with_another_role_renews_the_link_with_a_true_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            a, b = await two(stack, "hs", role="master")
            events = Events(b, monkeypatch)
            reload(a, dials(b, role="client"))
            await until(lambda: events.reasons and is_linked(a, b))
            reason = "a renews the link, because its configuration has changed: the role from master to client"
            assert events.reasons == [reason]
            assert b.driver.node.router.peers["a"].value == "master"
            assert a.peers._refusals == {}

    run(play())


@pytest.mark.slow
def test_a_reload_with_another_url_keeps_the_link_and_loses_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            a, b = await two(stack)
            publisher, reader = await Raw.party(a, "publisher"), await Raw.party(b, "reader")
            await reader.subscribe("x any", wait=True)
            here, there = Events(a, monkeypatch), Events(b, monkeypatch)
            before = a.driver.peers["b"]
            publisher.publish(x=0)
            reload(a, {"name": "b", "url": f"palio://localhost:{b.port}"})
            for x in range(1, 5):
                publisher.publish(x=x)
            assert [(await reader.until(Notification))["x"] for _ in range(5)] == list(range(5))
            await until(lambda: a.driver.peers.get("b", before) is not before and is_linked(a, b))
            assert here.reasons == there.reasons == []

    run(play())


@pytest.mark.slow
def test_a_peer_that_is_removed_from_the_configuration_and_added_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            a, b = await two(stack)
            events = Events(b, monkeypatch)
            reload(a)
            await until(lambda: "a" not in b.driver.node.links.peers)
            assert events.reasons == ["the operator of a has removed the link"]
            reload(a, dials(b))
            await until(lambda: is_linked(a, b))
            await until(lambda: not a.peers._parting)
            await until(lambda: is_linked(a, b))

    run(play())


def test_a_peer_without_a_url_is_waited_for_and_its_link_ends_with_a_true_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            a, b = await two(stack)
            events = Events(b, monkeypatch)
            reload(a, {"name": "b"})
            await until(lambda: "a" not in b.driver.node.links.peers)
            assert events.reasons == ["a does not open the link any more: its configuration has no url of b"]
            assert a.driver.node.links.wishes == {}
            reload(b, dials(a))
            await until(lambda: is_linked(a, b))

    run(play())


@pytest.mark.parametrize(
    ("architecture", "before", "after", "changes"),
    [
        ("gs", {"latency": 2}, {"latency": 7}, "the latency from 2 to 7"),
        ("hs", {"role": "master"}, {"role": "client"}, "the role from master to client"),
    ],
)
def test_a_configuration_that_changed_while_the_server_was_down_takes_effect(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    architecture: str,
    before: dict[str, Any],
    after: dict[str, Any],
    changes: str,
) -> None:
    store = {"path": str(tmp_path / "a.db")}

    async def play() -> None:
        async with serving(server="b", architecture=architecture) as b:
            async with serving(server="a", architecture=architecture, store=store, peers=[dials(b, **before)]) as a:
                await until(lambda: is_linked(a, b))
            events = Events(b, monkeypatch)
            async with serving(server="a", architecture=architecture, store=store, peers=[dials(b, **after)]) as a:
                await until(lambda: events.reasons and is_linked(a, b))
                assert events.reasons == [f"a renews the link, because its configuration has changed: {changes}"]
                latency = after.get("latency", 1)
                assert [a.driver.node.links.latency("b"), b.driver.node.links.latency("a")] == [latency, latency]

    run(play())


@pytest.mark.slow
@pytest.mark.parametrize("peers", [[], [{"name": "b"}]], ids=["no peer", "no url"])
def test_a_url_that_was_removed_while_the_server_was_down_ends_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peers: list[dict[str, Any]]
) -> None:
    store = {"path": str(tmp_path / "a.db")}

    async def play() -> None:
        async with AsyncExitStack() as stack:
            b = await stack.enter_async_context(serving(server="b"))
            async with serving(server="a", store=store, peers=[dials(b)]) as a:
                await until(lambda: is_linked(a, b))
            events = Events(b, monkeypatch)
            a = await stack.enter_async_context(serving(server="a", store=store, peers=peers))
            assert a.driver.node.links.wishes == {}
            reload(b, dials(a))
            await until(lambda: is_linked(a, b))
            assert events.reasons == ["a was restarted, and its configuration has no url of b"]

    run(play())
