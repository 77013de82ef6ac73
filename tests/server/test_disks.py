"""Servers as processes whose disks are killed, fail, are damaged or cannot be used."""

from __future__ import annotations

import asyncio
import resource
import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from palio.codec import frames
from palio.codec.control import Answer, Goodbye, Position
from palio.model import Notification
from palio.store import Store, schema
from palio.store.errors import FailedStoreError
from tests.server.test_durable import accepted, acknowledge, publish, reader, values
from tests.server.test_process import Running, running
from tests.serving import Raw, run, serving, until


def configuration(folder: Path, **store: Any) -> Path:
    lines = "\n".join(f"{key} = {value}" for key, value in store.items())
    path = folder / "milan.toml"
    path.write_text(f'server = "milan"\n[store]\npath = "milan.db"\n{lines}\n')
    return path


async def listening(server: Running) -> int:
    port: int = (await server.log("listening"))["port"]
    return port


@pytest.mark.slow
def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    async def story() -> None:
        path = configuration(tmp_path)
        for life in range(3):
            async with running(path) as server:
                port = await listening(server)
                eva, position = await reader(port)
                assert position.first == (0 if life == 0 else 3 * life - 1)
                if not life:
                    await eva.subscribe("x any")
                else:
                    assert await values(eva, 1) == [3 * life - 1]
                await publish(port, *range(3 * life, 3 * life + 3))
                assert await values(eva, 3) == list(range(3 * life, 3 * life + 3))
                await acknowledge(eva, 3 * life + 1)
                server.process.kill()
                await server.process.wait()
                await eva.close()

    run(story(), 60)


def test_a_full_disk_refuses_publications_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """A file that must not grow any further is a disk without room."""

    async def story() -> None:
        async with running(configuration(tmp_path)) as server:
            port = await listening(server)
            eva, _ = await reader(port, window=2)
            await eva.subscribe("x any")
            adam, bert = await Raw.party(port, "adam"), await Raw.party(port, "bert")
            adam.publish(1, x=1)
            assert (await accepted(adam))[0] == 1
            most = max(each.stat().st_size for each in tmp_path.iterdir()) + 200_000
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            for number in range(2, 1_000):  # the last of them are not accepted, and not refused: they wait
                adam.publish(number, x=number, text="y" * 1_000)
            refused, tries = asyncio.create_task(bert.until(Answer)), count(1)

            def is_refused() -> bool:
                bert.publish(next(tries), x=0)  # the first ones may wait, too
                return refused.done()

            await until(is_refused)
            assert refused.result().code == "full-disk"
            assert "make room on the disk" in (await server.log("store-full"))["advice"]
            assert await values(eva, 1) == [1]
            infinite = resource.RLIM_INFINITY, resource.RLIM_INFINITY
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, infinite)
            while (await accepted(adam))[0] < 999:
                pass
            await server.log("store-has-room")

    run(story(), 60)


def test_a_store_that_is_full_delivers_what_it_has_until_there_is_room(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(store={"path": str(tmp_path / "milan.db"), "most_bytes": 1_000_000}) as server:
            eva, _ = await reader(server, window=8)
            await eva.subscribe("x any")
            adam = await Raw.party(server, "adam")
            sent, refusal = 0, None
            while not isinstance(refusal, Answer):
                adam.publish(sent + 1, x=sent + 1, text="y" * 10_000)
                refusal = await adam.next()
                sent += refusal == sent + 1
            assert refusal.code == "full-disk"
            assert sent < 110, "it was noticed late"
            for number in range(sent):
                assert await values(eva, 1) == [number + 1]
                eva.send(frames.acknowledge(number))
            await until(lambda: server.storage is not None and not server.storage.is_full)
            adam.publish(sent + 2, x=sent + 2)
            assert await values(eva, 1) == [sent + 2]

    run(story(), 60)


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True])
def test_a_store_whose_messages_are_all_acknowledged_takes_more_though_the_disk_has_no_room(
    tmp_path: Path, restarts: bool
) -> None:
    """Its file does not shrink, so the disk stays as full as it was; but there is room within the file."""
    path, disk = configuration(tmp_path, reserve_bytes=4_000_000), 20_000_000

    async def fill(port: int) -> int:
        """Publish until there is no room; how many were accepted."""
        adam, sent, said = await Raw.party(port, "adam"), 0, None
        while not isinstance(said, Answer):
            adam.publish(sent + 1, x=sent + 1, text="y" * 100_000)
            said = await adam.next()
            sent += said == sent + 1
        assert said.code == "full-disk"
        await adam.close()
        return sent

    async def accepts(port: int) -> None:
        """Publish one more, as soon as there is room. A refusal is an answer, and then the number is accepted, too."""
        adam, is_refused = await Raw.party(port, "adam"), True
        while is_refused:
            adam.publish(1, x=0)
            is_refused = isinstance(await adam.next(), Answer)
            if is_refused:
                assert await adam.next() == 1
        await adam.close()

    async def story() -> None:
        async with running(path, disk=disk) as server:
            port = await listening(server)
            eva, _ = await reader(port)
            await eva.subscribe("x any")
            sent = await fill(port)
            assert 20 < sent < 200
            for number in range(sent):
                assert await values(eva, 1) == [number + 1]
                eva.send(frames.acknowledge(number))
            await acknowledge(eva, sent - 1)
            if not restarts:
                await accepts(port)
                assert await values(eva, 1) == [0]
                assert await fill(port) > sent // 2
        if restarts:
            async with running(path, disk=disk) as server:
                await accepts(await listening(server))

    run(story(), 60)


@pytest.mark.slow
def test_a_disk_that_fails_stops_the_server_and_nothing_more_is_acknowledged(tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FailedStoreError("the disk does not do what it should")

    async def story() -> None:
        async with serving(store={"path": str(tmp_path / "milan.db")}) as server:
            assert server.storage is not None
            eva, _ = await reader(server)
            await eva.subscribe("x any")
            adam = await Raw.party(server, "adam")
            adam.publish(1, x=1)
            assert (await accepted(adam))[0] == 1
            server.storage.store.commit = fail  # type: ignore[method-assign]
            adam.publish(2, x=2)
            await until(server.failed.is_set)
            assert not server.is_ready
        assert await adam.until(Goodbye)
        assert [each["x"] for each in await rest(eva)] == [1]
        async with serving(store={"path": str(tmp_path / "milan.db")}) as server:
            eva, _ = await reader(server)
            assert await values(eva, 1) == [1]
            await acknowledge(eva, 0)

    async def rest(raw: Raw) -> list[Notification]:
        found = []
        while not isinstance(each := await raw.next(), Goodbye):
            found += [each] if isinstance(each, Notification) else []
        return found

    run(story(), 60)


@pytest.mark.slow
def test_a_damaged_store_is_put_aside_and_told_of(tmp_path: Path) -> None:
    async def story() -> None:
        path = configuration(tmp_path)
        async with running(path) as server:
            port = await listening(server)
            eva, before = await reader(port)
            await eva.subscribe("x any")
            await publish(port, 1, 2)
            await eva.close()
            server.signal(signal.SIGTERM)
            assert await server.process.wait() == 0
        with Store.open(tmp_path / "milan.db", name="milan") as store:
            key, value = next(each for each in store.records() if b"eva" in each[0] and b"cursor" in each[0])
        data = (tmp_path / "milan.db").read_bytes()
        assert value in data
        place = data.index(value)
        (tmp_path / "milan.db").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        async with running(path) as server:
            damaged = await server.log("store-damaged")
            assert "eva" in damaged["lost"]
            assert list(tmp_path.glob("milan.db.damaged-*"))
            eva, after = await reader(await listening(server))
            assert after.log != before.log
            assert await values(eva, 2) == [1, 2]
            answer = await eva.ask("unsubscribe", "x any")
            assert isinstance(answer, Answer)
        assert key

    run(story(), 60)


@pytest.mark.slow
def test_an_entry_that_is_found_damaged_when_it_is_read_is_told_of(tmp_path: Path) -> None:
    async def story() -> None:
        path = configuration(tmp_path)
        async with running(path) as server:
            port = await listening(server)
            eva, _ = await reader(port)
            await eva.subscribe("x any")
            await eva.close()
            adam = await Raw.party(port, "adam")
            for number in range(1, 301):  # an entry each; those since the last sweep are read when the server starts
                adam.publish(number, x=number, text=f"<{number}>")
                await accepted(adam)
            await adam.close()
            server.signal(signal.SIGTERM)
            assert await server.process.wait() == 0
        data = (tmp_path / "milan.db").read_bytes()
        (tmp_path / "milan.db").write_bytes(data.replace(b"<7>", b"<8>"))
        async with running(path) as server:
            eva, _ = await reader(await listening(server))
            assert not [each for each in server.lines if each["event"] == "store-damaged"]
            assert await values(eva, 6) == [1, 2, 3, 4, 5, 6]
            eva.send(frames.acknowledge(5))
            assert (await eva.until(Position)).dropped == 1
            assert await values(eva, 293) == list(range(8, 301))
            assert (await server.log("store-damaged"))["lost"] == "entry 6 of the log"
            await eva.close()

    run(story(), 60)


@pytest.mark.parametrize("trouble", ["directory", "text", "newer", "another", "in use", "read-only"])
def test_a_store_that_cannot_be_used_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    path, file = configuration(tmp_path), tmp_path / "milan.db"
    holder = None
    match trouble:
        case "directory":
            file.mkdir()
        case "text":
            file.write_text("no database at all, but something that somebody wrote by hand\n" * 100)
        case "another":
            Store.open(file, name="rome").close()
        case "in use":
            holder = Store.open(file, name="milan")
        case "newer":
            with monkeypatch.context() as patch:
                patch.setattr(schema, "VERSION", schema.VERSION + 1)
                Store.open(file, name="milan").close()
        case "read-only":
            path.write_text('server = "milan"\n[store]\npath = "/proc/milan.db"\n')

    async def story() -> None:
        async with running(path) as server:
            _, said = await server.process.communicate()
            assert server.process.returncode == 2, said
            assert b"Traceback" not in said
            assert (b"/proc" if trouble == "read-only" else b"milan.db") in said

    run(story(), 60)
    if holder is not None:
        holder.close()
