"""A client with as many subscriptions as it may have keeps them when it connects again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from palio import connect
from palio.model import Notification
from tests.processes.fleet import ServerProcess
from tests.server.test_network import free_ports
from tests.serving import run, serving, until


def test_after_a_break() -> None:
    async def play() -> None:
        async with serving(filters_per_party=2) as server:
            url = f"palio://127.0.0.1:{server.port}"
            async with connect(url, name="eva", reconnect_time_wait=0.01) as eva, connect(url) as adam:
                streams = [await eva.subscribe(f"x = {n}") for n in range(2)]
                before = server.driver.parties["eva"]
                before.abort()  # type: ignore[attr-defined]
                await until(lambda: server.driver.parties.get("eva", before) is not before)
                assert (await eva.query("status"))["server"] == "milan"  # what was asked for again is answered
                for n, stream in enumerate(streams):
                    await adam.publish(x=n)
                    assert await asyncio.wait_for(anext(stream), 10) == Notification(x=n)
                assert server.counts.refusals.total() == 0

    run(play())


@pytest.mark.slow
@pytest.mark.parametrize("durable", [False, True])
def test_after_a_restart_of_a_server_with_a_store(tmp_path: Path, durable: bool) -> None:
    async def play() -> None:
        (port,) = free_ports(1)
        config = (
            f'server = "milan"\nport = {port}\nfilters_per_party = 2\n[http]\nport = 0\n[store]\npath = "milan.db"\n'
        )
        server = ServerProcess(tmp_path, "milan", config)
        await server.start()
        url = f"palio://127.0.0.1:{port}"
        try:
            async with connect(url, name="eva", durable=durable, max_attempts=1_000, reconnect_time_wait=0.05) as eva:
                streams = [await eva.subscribe(f"x = {n}") for n in range(2)]
                await server.kill()
                await server.start()
                assert (await eva.query("status"))["counts"]["subscriptions"] == 2
                async with connect(url) as adam:
                    for n, stream in enumerate(streams):
                        await adam.publish(x=n)
                        await asyncio.wait_for(anext(stream), 10)
                assert not [line for line in server.said() if line.get("level") == "critical"]
                assert 'palio_refusals_total{code="limit"}' not in await server.figures()
        finally:
            await server.kill()

    run(play(), deadline=90)
