"""Clients and neighbours that behave badly cost others little, and each thing that they can pile up has a bound."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from contextlib import suppress
from typing import Any

import pytest

from palio.codec import control, frames
from palio.codec.control import Hello
from palio.link import wire
from palio.link.frames import Accept, Data, Frame, Open, Refuse
from palio.model import Notification
from palio.node import records
from palio.server.config import Peer
from palio.server.config_tables import Http
from palio.server.http import HttpPort
from palio.server.http_connections import MOST_CONNECTIONS, MOST_HEADER_BYTES
from palio.server.listening import Spare, listeners
from palio.server.server import Server
from palio.store.reading import records as stored
from tests.client.puppet import client_of
from tests.server.test_process import get
from tests.server.test_slow import Deaf, collect, figure, publish
from tests.serving import DEADLINE, Raw, run, serving, until

# -- consumers that do not read ----------------------------------------------------------------------------------------

CROWDED: dict[str, Any] = {"waiting_bytes": 4_000_000, "drain_seconds": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["disconnect", "drop"])
def test_subscribers_that_do_not_read_hold_nobody_up(policy: str) -> None:
    """With so long a time for slow consumers, publishers would wait until the end of the test if they waited at all."""

    async def play() -> None:
        async with serving(slow={"seconds": 1_000.0, "policy": policy}, connections=CROWDED) as server:
            deaf = [await Deaf.subscribed(server, f"deaf-{number}") for number in range(8)]
            reader, publisher = await Raw.party(server, "reader"), await Raw.party(server, "publisher")
            await reader.subscribe("x any")
            counted = "palio_dropped_deliveries_total" if policy == "drop" else "palio_slow_disconnects_total"
            published = 0
            while not all(figure(server, f'{counted}{{party="{each}"}}') for each in (f"deaf-{n}" for n in range(8))):
                await publish(publisher, range(published + 1, published + 11))  # a block is small beside the bound
                assert await collect(reader, 10) == list(range(published + 1, published + 11))
                published += 10
            assert server.backlog.bytes <= 4_000_000
            if policy == "drop":
                deaf[0].listen()
                deaf[0].send(control.encode(control.Ping(5)))
                got = []
                while not isinstance(found := await deaf[0].next(), control.Pong):
                    assert isinstance(found, Notification)
                    got.append(found["x"])
                dropped = figure(server, 'palio_dropped_deliveries_total{party="deaf-0"}')
                assert len(got) + dropped == published
                assert got == sorted(set(got))
                await until(lambda: not server.driver.parties["deaf-0"].is_slow)
                publisher.publish(x=-1)
                assert (await deaf[0].until(Notification))["x"] == -1

    run(play(), 120)


def test_a_durable_party_that_does_not_read_loses_nothing(tmp_path: Any) -> None:
    async def play() -> None:
        settings = {"store": {"path": str(tmp_path / "milan.db")}, "connections": {**CROWDED, "waiting_bytes": 300_000}}
        async with serving(slow={"seconds": 1_000.0, "policy": "drop"}, **settings) as server:
            deaf = Deaf(*await asyncio.open_connection("127.0.0.1", server.port))
            durable = control.Durable(window=10_000)
            deaf.send(control.encode(Hello((control.VERSION,), "party", "deaf", "", durable=durable)))
            await deaf.until(control.Position)
            await deaf.subscribe("x any")
            deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
            publisher = await Raw.party(server, "publisher")
            count = 0
            while not server.counts.disconnected["deaf"]:
                await publish(publisher, range(count, count + 50))
                count += 50
                deaf.send(frames.acknowledge(max(0, count - 20)))  # it says that it has got what it does not read
            done = server.driver.node.logs.of("deaf").done
            assert figure(server, "palio_dropped_deliveries_total") == 0
            async with (
                client_of(server, name="deaf", durable=True) as client,
                client.subscribe("x any") as events,
            ):
                found = [(await anext(events)).notification["x"] for _ in range(count - done)]
                assert found == list(range(done, count))

    run(play(), 120)


# -- frames that are not whole -----------------------------------------------------------------------------------------


async def neighbour(server: Server, name: str, start: int = 1) -> Raw:
    """A connection of another server."""
    made = await Raw.connect(server)
    made.send(control.encode(Hello((control.VERSION,), "server", name, "", f"palio start={start}")))
    await made.until(control.Welcome)
    return made


def _beginning(size: int, sent: int) -> bytes:
    return (size - 4).to_bytes(4, "big") + bytes([frames.LINK]) + bytes(sent - 5)


@pytest.mark.slow
def test_unfinished_frames_of_neighbours_have_the_same_bound() -> None:
    async def play() -> None:
        async with serving(connections={"unfinished_bytes": 1_000_000}) as server:
            party = await Raw.party(server, "party")
            party.send((1_000_000).to_bytes(4, "big") + b"\x10" + bytes(50_000))
            peers = [await neighbour(server, f"peer-{number}") for number in range(4)]
            for peer in peers[:3]:
                peer.send(_beginning(2_000_000, 300_000))
                await until(lambda: server.unfinished.bytes % 300_000 < 60_000 <= server.unfinished.bytes)
            await until(lambda: server.unfinished.bytes > 940_000)
            assert len(server.driver.peers) == 4
            peers[3].send(_beginning(2_000_000, 300_000))
            assert await party.goodbye() == "full"  # parties go before neighbours
            assert [await each.goodbye() for each in peers[:1]] == ["full"]  # then what was held for the longest time
            assert 800_000 < server.unfinished.bytes <= 1_000_000
            await until(lambda: len(server.driver.peers) == 3)

    run(play())


def test_the_frame_of_the_only_neighbour_may_be_longer_than_the_bound() -> None:
    """And two neighbours with long frames both get them through, though one may have to send its own again."""

    async def play() -> None:
        async with serving(connections={"unfinished_bytes": 100_000}) as server:
            size = 500_000
            ping = control.encode(control.Query(1, "?" * size, {"wave": "w", "ms": 1}))
            for number in range(2):
                peer = await neighbour(server, f"peer-{number}")
                peer.send(ping[:-1])
                await until(lambda: server.unfinished.bytes > 400_000)
                other = await neighbour(server, "other")
                other.send(ping[:-1])
                ended, going_on = (peer, other) if await _ends_first(peer, other) else (other, peer)
                assert await ended.goodbye() == "full"
                going_on.send(ping[-1:])
                assert (await going_on.until(control.Result)).number == 1
                await going_on.close()
                await until(lambda: not server.driver.peers)
            assert server.unfinished.bytes == 0

    run(play())


async def _ends_first(one: Raw, other: Raw) -> bool:
    """Which of two connections the server closes."""
    waiting = [asyncio.ensure_future(each.reader.read(1)) for each in (one, other)]
    try:
        async with asyncio.timeout(DEADLINE):
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        ended = one if waiting[0] in done else other
        ended.reader._buffer[:0] = next(iter(done)).result()  # type: ignore[attr-defined]
        return ended is one
    finally:
        for each in waiting:
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each


@pytest.mark.parametrize("role", ["party", "server"])
def test_a_frame_that_is_too_long_for_its_sender_is_refused_at_its_length(role: str) -> None:
    async def play() -> None:
        async with serving() as server:
            made = await Raw.party(server, "adam") if role == "party" else await neighbour(server, "rome")
            most = server.config.connections.frame_bytes if role == "party" else 64 << 20
            made.send(most.to_bytes(4, "big") + b"\x30")
            await until(lambda: server.unfinished.bytes == 5)
            assert not server.counts.refusals
            await made.close()
            await until(lambda: server.unfinished.bytes == 0)
            made = await Raw.party(server, "adam") if role == "party" else await neighbour(server, "rome", 2)
            made.send((most + 1).to_bytes(4, "big") + b"\x30")
            assert await made.goodbye() == "frame-too-long"

    run(play())


# -- names that strangers choose ---------------------------------------------------------------------------------------


async def link_frame(raw: Raw) -> Frame:
    while True:
        head = await raw.reader.readexactly(frames.HEADER)
        content = await raw.reader.readexactly(int.from_bytes(head[:4], "big") - 1)
        if head[4] == frames.LINK:
            return wire.decode(content)


def _opening(name: str, number: int) -> bytes:
    opening = Open((1, name, number), "peer", "as", ((name, (0, "", 0)),))
    return frames.frame(frames.LINK, wire.encode(opening, control.VERSION))


def test_neighbours_under_new_names_leave_no_more_than_a_bound(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        store = {"path": str(tmp_path / "milan.db")}
        async with serving(store=store, links={"neighbours": 5}) as server:
            for number in range(60):
                stranger = await neighbour(server, f"stranger-{number}", number + 1)
                stranger.send(_opening(f"stranger-{number}", number))
                assert isinstance(await link_frame(stranger), Accept)
                await stranger.close()
            await until(lambda: not server.driver.peers)
            assert server.storage is not None
            links = server.driver.node.links
            assert len(links._ends) == 5
            assert sorted(links._ends) == [f"stranger-{number}" for number in range(55, 60)]
            assert not server.peers.reasons
            assert len(server.peers._absent) <= 60
        async with serving(store=store, links={"neighbours": 2}) as server:
            assert len(server.driver.node.links._ends) == 2  # a store with more is brought within the bound
        kinds = [records.decode(key, value)[0][0] for key, value in stored(tmp_path / "milan.db")]
        assert kinds.count("answer") == 2

    run(play())
    lines = [each.getMessage() for each in caplog.records]
    assert len([each for each in lines if "event='peer-lost'" in each]) == 10
    assert len(lines) < 40


def test_links_that_this_server_did_not_ask_for_are_refused_beyond_a_bound() -> None:
    async def play() -> None:
        async with serving(links={"neighbours": 2}) as server:
            peers = []
            for number in range(2):
                peer = await neighbour(server, f"peer-{number}")
                peer.send(_opening(f"peer-{number}", number))
                assert isinstance(await link_frame(peer), Accept)
                confirmation = Data((1, f"peer-{number}", number), 0, (), 0)
                peer.send(frames.frame(frames.LINK, wire.encode(confirmation, control.VERSION)))
                await until(lambda name=f"peer-{number}": name in server.driver.node.links.peers)  # type: ignore[misc]
                peers.append(peer)
            late = await neighbour(server, "late")
            late.send(_opening("late", 1))
            refusal = await link_frame(late)
            assert isinstance(refusal, Refuse)
            assert "raise links.neighbours" in refusal.reason
            own = {"name": "own", "url": "palio://127.0.0.1:1"}
            server.reload(type(server.config)(**{**_fields(server), "peers": (Peer(**own),)}))
            mine = await neighbour(server, "own")
            assert isinstance(await link_frame(mine), Open)  # what this server asks for does not count

    run(play())


def _fields(server: Server) -> dict[str, Any]:
    return {key: getattr(server.config, key) for key in type(server.config).__struct_fields__}


def test_absent_parties_are_forgotten_early_if_there_are_too_many() -> None:
    async def play() -> None:
        async with serving(connections={"most": 3, "drain_seconds": 0.5}) as server:
            for number in range(5):
                party = await Raw.party(server, f"party-{number}")
                await party.subscribe(f"x = {number}")
                await party.close()
                await until(lambda: not server.driver.parties)
            await until(lambda: len(server.driver.node.router.subscriptions) == 3)
            assert server.absences.since("party-1") is None
            assert server.absences.since("party-2") is not None

    run(play())


# -- the HTTP port -----------------------------------------------------------------------------------------------------


def test_health_is_answered_beside_hundreds_of_silent_connections() -> None:
    async def play() -> None:
        async with serving() as server:
            port = HttpPort(server, Http(port=0))
            port.start()
            beginnings = (b"", b"GET /healthz HTTP/1.1\r\nX", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            opened = []
            for number in range(300):
                reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
                writer.write(beginnings[number % 3])
                opened.append((reader, writer))
            for _ in range(5):
                assert (await get(port.port, "/healthz"))[0] == 200
            await until(lambda: len(port._uvicorn.server_state.connections) <= MOST_CONNECTIONS)
            assert opened[-1][0].at_eof() is False
            for _, writer in opened:
                writer.transport.abort()
            await port.stop()

    run(play())


def test_only_so_many_connections_stay_and_the_idle_ones_go_first() -> None:
    async def play() -> None:
        async with serving() as server:
            port = HttpPort(server, Http(port=0))
            port.start()
            opened = [await asyncio.open_connection("127.0.0.1", port.port) for _ in range(MOST_CONNECTIONS)]
            await until(lambda: len(port._uvicorn.server_state.connections) == MOST_CONNECTIONS)
            opened[0][1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")  # not idle any more
            assert b"200" in await opened[0][0].readline()
            opened.append(await asyncio.open_connection("127.0.0.1", port.port))
            with suppress(ConnectionError):
                assert await opened[1][0].read() == b""
            assert not opened[0][0].at_eof()
            assert len(port._uvicorn.server_state.connections) == MOST_CONNECTIONS
            for _, writer in opened:
                writer.transport.abort()
            await port.stop()

    run(play())


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /heal", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"],
)
def test_a_request_has_a_time_limit(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.server.http_connections.REQUEST_SECONDS", 0.2)

    async def play() -> None:
        async with serving() as server:
            port = HttpPort(server, Http(port=0))
            port.start()
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(said)
            with suppress(ConnectionError):
                await reader.read()
            assert not port._uvicorn.server_state.connections
            writer.transport.abort()
            await port.stop()

    run(play())


@pytest.mark.parametrize("excess", [0, 1])
def test_headers_have_a_bound(excess: int) -> None:
    async def play() -> None:
        async with serving() as server:
            port = HttpPort(server, Http(port=0))
            port.start()
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: "
            writer.write(head + b"x" * (MOST_HEADER_BYTES - len(head) + excess))
            if excess:
                assert b"400" in await reader.readline()
            else:
                await until(lambda: server.loop.time() > 0)
                writer.write(b"\r\n\r\n")
                assert b"200" in await reader.readline()
            writer.transport.abort()
            await port.stop()

    run(play())


# -- file descriptors --------------------------------------------------------------------------------------------------


def test_without_file_descriptors_connections_are_refused_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with serving() as server:
            eva = await Raw.party(server, "eva")
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            clients = [_unconnected() for _ in range(20)]
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (_lowest_free(), hard))
                for client in clients:
                    await server.loop.sock_connect(client, ("127.0.0.1", server.port))
                for client in clients:
                    with suppress(ConnectionError):
                        assert await server.loop.sock_recv(client, 1) == b""
                assert server.spare.refused == 20
                assert await eva.is_served()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for client in clients:
                    client.close()
            adam = await Raw.party(server, "adam")
            assert await adam.is_served()
            await until(lambda: any("connections-refused" in each.getMessage() for each in caplog.records))

    run(play())
    assert [each.levelname for each in caplog.records] == ["WARNING"]  # asyncio has nothing to say


def _unconnected() -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    return made


def _lowest_free() -> int:
    free = os.dup(0)
    os.close(free)
    return free


def test_the_refused_are_reported_once_in_a_while() -> None:
    spare = Spare()
    try:
        assert spare.to_report(0.0) == 0
        spare.refused = 7
        assert [spare.to_report(now) for now in (1.0, 2.0)] == [7, 0]
        spare.refused = 9
        assert [spare.to_report(now) for now in (10.9, 11.0, 30.0)] == [0, 2, 0]
    finally:
        spare.close()


def test_an_address_that_is_taken_is_named() -> None:
    spare = Spare()
    try:
        (first,) = listeners("127.0.0.1", 0, spare, 1)
        with pytest.raises(OSError, match="bind on address"):
            listeners("127.0.0.1", first.getsockname()[1], spare, 1)
        first.close()
    finally:
        spare.close()
