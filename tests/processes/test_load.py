"""A server as a process under hostile load: others are served, and what it keeps and logs is bounded."""

from __future__ import annotations

import asyncio
import json
import resource
from contextlib import suppress
from pathlib import Path

from palio.codec import control, frames
from palio.codec.control import Hello
from palio.link import wire
from palio.link.frames import Open
from palio.model import Notification
from palio.node import records
from palio.store.reading import records as stored
from tests.server.test_process import Running, get, running
from tests.serving import DEADLINE, Raw, run

CONFIG = """
server = "milan"
[http]
port = 0
[store]
path = "milan.db"
[connections]
waiting_bytes = 8_000_000
[slow]
seconds = 1_000.0
[links]
neighbours = 20
"""


def _memory(server: Running) -> int:
    """Its resident memory in MiB."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


async def _started(server: Running) -> tuple[int, int]:
    line = await server.log("listening")
    return line["port"], line["http_port"]


async def _rest(server: Running) -> list[dict[str, object]]:
    """End it, and return the rest of its log."""
    server.process.terminate()
    assert server.process.stderr is not None
    async with asyncio.timeout(DEADLINE):
        rest = await server.process.stderr.read()
        assert await server.process.wait() == 0
    return [json.loads(line) for line in rest.splitlines()]


def test_publishers_and_readers_go_on_beside_subscribers_that_do_not_read(tmp_path: Path) -> None:
    """Also if these connect again: without the bound on each, publishers would wait for a thousand seconds."""
    (tmp_path / "milan.toml").write_text(CONFIG)

    async def deaf(port: int, name: str) -> Raw:
        made = await Raw.party(port, name)
        await made.subscribe("x any")
        made.writer.transport.pause_reading()  # type: ignore[attr-defined]
        return made

    async def play() -> None:
        async with running(tmp_path / "milan.toml") as server:
            port, _ = await _started(server)
            reader, publisher = await Raw.party(port, "reader"), await Raw.party(port, "publisher")
            await reader.subscribe("x any")
            for _ in range(2):
                stuck = [await deaf(port, f"deaf-{number}") for number in range(8)]
                ended = asyncio.create_task(server.log("slow-consumer"))
                number = 0
                while not ended.done():
                    for number in range(number + 1, number + 51):  # noqa: B020
                        publisher.publish(number, x=number, body="y" * 20_000)
                    while await publisher.until(int) < number:
                        pass
                    for _ in range(50):
                        await reader.until(Notification)
                assert (await ended)["policy"] == "disconnect"
                for each in stuck:
                    each.writer.transport.abort()
            assert _memory(server) < 150
            await _rest(server)

    run(play(), 120)


def test_health_is_answered_and_new_names_leave_little(tmp_path: Path) -> None:
    (tmp_path / "milan.toml").write_text(CONFIG)

    async def stranger(port: int, number: int) -> None:
        name = f"stranger-{number}"
        made = await Raw.connect(port)
        made.send(control.encode(Hello((control.VERSION,), "server", name, "", f"palio start={number + 1}")))
        await made.until(control.Welcome)
        opening = Open((1, name, number), "peer", "as", ((name, (0, "", 0)),))
        made.send(frames.frame(frames.LINK, wire.encode(opening, control.VERSION)))
        head = await made.reader.readexactly(frames.HEADER)
        assert head[4] == frames.LINK
        await made.close()

    async def play() -> None:
        async with running(tmp_path / "milan.toml") as server:
            port, http_port = await _started(server)
            silent = [await asyncio.open_connection("127.0.0.1", http_port) for _ in range(200)]
            for _, writer in silent[::2]:
                writer.write(b"GET /healthz HTTP/1.1\r\nX")
            assert [(await get(http_port, "/healthz"))[0] for _ in range(3)] == [200] * 3
            for _, writer in silent:
                writer.transport.abort()
            for number in range(200):
                await stranger(port, number)
            eva = await Raw.party(port, "eva")
            assert await eva.is_served()
            lines = await _rest(server)
            assert len(lines) < 60
        async with running(tmp_path / "milan.toml") as server:
            port, _ = await _started(server)
            eva = await Raw.party(port, "eva")
            assert await eva.is_served()
            await _rest(server)
        kinds = [records.decode(key, value)[0][0] for key, value in stored(tmp_path / "milan.db")]
        assert kinds.count("answer") == 20

    run(play(), 120)


def test_unfinished_frames_of_neighbours_do_not_fill_the_memory(tmp_path: Path) -> None:
    (tmp_path / "milan.toml").write_text('server = "milan"\n[connections]\nunfinished_bytes = 30_000_000\n')

    async def play() -> None:
        async with running(tmp_path / "milan.toml") as server:
            port, _ = await _started(server)
            eva = await Raw.party(port, "eva")
            before, beginning = _memory(server), (60_000_000).to_bytes(4, "big") + bytes([frames.LINK])
            peers = []
            for number in range(20):
                peer = await Raw.connect(port)
                peer.send(control.encode(Hello((control.VERSION,), "server", f"peer-{number}", "", "")))
                await peer.until(control.Welcome)
                with suppress(ConnectionError):
                    peer.send(beginning + bytes(10_000_000))
                    await peer.writer.drain()
                peers.append(peer)
                assert await eva.is_served()
            assert _memory(server) < before + 100
            for peer in peers:
                peer.writer.transport.abort()
            await _rest(server)

    run(play(), 120)


def test_a_server_without_file_descriptors_serves_on(tmp_path: Path) -> None:
    (tmp_path / "milan.toml").write_text('server = "milan"\n')

    async def play() -> None:
        async with running(tmp_path / "milan.toml") as server:
            port, _ = await _started(server)
            eva = await Raw.party(port, "eva")
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (20, 20_000))
            opened = []
            for _ in range(100):
                with suppress(ConnectionError):
                    opened.append(await asyncio.open_connection("127.0.0.1", port))
            line = await server.log("connections-refused")
            assert line["count"] > 0
            assert await eva.is_served()
            for _, writer in opened:
                writer.transport.abort()
            while True:
                adam = await Raw.connect(port)
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    assert isinstance(await adam.hello("adam"), control.Welcome)
                    break
            assert await adam.is_served()
            assert len(await _rest(server)) < 30

    run(play(), 60)
