"""Servers that come back with another configuration, with real stores: what waits for others stays, or is counted."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from palio.model import Notification
from palio.server.metrics import Metrics
from palio.server.server import Server
from palio.store import WrongStoreError
from tests.server.test_identity import is_sound, linked, milan, rome, written
from tests.serving import Raw, run, serving, until


def bari(folder: Path, port: int, **more: Any) -> dict[str, Any]:
    """Of another network."""
    peers = [{"name": "milan", "url": f"palio://127.0.0.1:{port}", "role": "gateway"}]
    return {"server": "bari", "architecture": "as", "store": {"path": str(folder / "bari.db")}, "peers": peers, **more}


GATEWAY = {"name": "bari", "role": "gateway", "imports": "x < 100"}


async def waiting(folder: Path) -> int:
    """Milan has accepted a publication for rome and bari, which are not there; the port of milan."""
    async with serving(**milan(folder, peers=[GATEWAY])) as here:
        async with serving(**rome(folder, here)) as there, serving(**bari(folder, here.port)) as beyond:
            await linked(here, there)
            await linked(here, beyond)
            for server in (there, beyond):
                await (await Raw.party(server, "eva")).subscribe("x > 5", wait=True)
                await written(server)
        publisher = await Raw.party(here, "adam")
        publisher.publish(1, x=7)
        assert await publisher.until(int) == 1
        await written(here)
        return here.port


async def gets(here: Server, folder: Path, value: int) -> None:
    """Eva comes back at rome, and gets what was published."""
    async with serving(**rome(folder, here)) as there:
        eva = await Raw.party(there, "eva")
        assert await eva.until(Notification) == Notification(x=value)


@pytest.mark.slow
def test_a_gateway_that_leaves_the_configuration_ends_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        port = await waiting(tmp_path)
        with caplog.at_level(logging.WARNING, "palio.server"):
            async with serving(**milan(tmp_path, port=port)) as here:
                await until(lambda: any("link-down" in each and "bari" in each for each in caplog.messages))
                (down,) = [each for each in caplog.messages if "link-down" in each]
                assert "bari is no gateway in the configuration of milan any more" in down
                assert "discarded=1" in down
                assert b'palio_link_discarded_publications_total{peer="bari"} 1.0' in Metrics(here).text()
                await gets(here, tmp_path, 7)
                await written(here)

    run(play())
    assert is_sound(tmp_path)


@pytest.mark.slow
def test_another_architecture_says_what_it_costs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        port = await waiting(tmp_path)
        with caplog.at_level(logging.WARNING, "palio.server"):
            async with serving(**milan(tmp_path, port=port, architecture="gs", peers=[GATEWAY])) as here:
                await until(lambda: sum("link-down" in each for each in caplog.messages) == 2)
                downs = [each for each in caplog.messages if "link-down" in each]
                assert all("the architecture of the server is gs, and was as" in each for each in downs)
                assert all("discarded=1" in each for each in downs)
                assert not here.driver.node.quarantined
                await written(here)

    run(play())
    assert is_sound(tmp_path)


@pytest.mark.slow
def test_a_server_of_another_name_does_not_touch_the_store(tmp_path: Path) -> None:
    async def play() -> None:
        port = await waiting(tmp_path)
        with pytest.raises(WrongStoreError, match="milan"):
            async with serving(**{**milan(tmp_path, port=port), "server": "turin"}):
                pass
        async with serving(**milan(tmp_path, port=port, peers=[GATEWAY])) as here:
            await gets(here, tmp_path, 7)

    run(play())
