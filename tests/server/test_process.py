"""A server as its operators run it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from palio.codec import control
from palio.model import Notification
from palio.server.config_tables import Http
from palio.server.credentials import hash_of
from palio.server.http import HttpPort
from tests.processes.shifted import VARIABLE as SHIFT
from tests.processes.small_disk import VARIABLE as SMALL_DISK
from tests.serving import DEADLINE, Raw, configured, serving, until


class Running:
    """A process with its logs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []

    async def log(self, event: str) -> dict[str, Any]:
        """The next line of the log that tells of something."""
        assert self.process.stderr is not None
        async with asyncio.timeout(DEADLINE):
            while line := await self.process.stderr.readline():
                self.lines.append(json.loads(line))
                if self.lines[-1]["event"] == event:
                    return self.lines[-1]
        raise AssertionError(f"no {event} in {self.lines}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


@asynccontextmanager
async def running(path: Path, shifted: int = 0, disk: int = 0) -> AsyncIterator[Running]:
    """A server as a process; its clock may be off by some seconds, or its disk may have so many bytes."""
    module, changes = "palio", {}
    if shifted:
        module, changes = "tests.processes.shifted", {SHIFT: str(shifted)}
    elif disk:
        module, changes = "tests.processes.small_disk", {SMALL_DISK: str(disk)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, "serve", "--config", str(path), "--json",
        stderr=asyncio.subprocess.PIPE, env={**os.environ, "PALIO_PORT": "0", **changes},
    )  # fmt: skip
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


HASHES = {token: hash_of(token) for token in "ea"}


def config_text(**tokens: str) -> str:
    lines = "\n".join(f'{name} = "{HASHES[token]}"' for name, token in tokens.items())
    return f'server = "milan"\n[http]\nport = 0\n[tokens]\n{lines}\n'


def test_signals(tmp_path: Path) -> None:
    path = tmp_path / "palio.toml"

    async def play() -> None:
        path.write_text(config_text(eva="e"))
        async with running(path) as server:
            port = (await server.log("listening"))["port"]
            eva = await Raw.party(port, "eva", "e")
            path.write_text(
                config_text(eva="e", adam="a").replace('"milan"', '"milan"\nguard = true\narchitecture = "hs"')
            )
            server.signal(signal.SIGHUP)
            await server.log("reloaded")
            assert (await server.log("needs-restart"))["keys"] == ["architecture"]
            adam = await Raw.party(port, "adam", "a")
            path.write_text("nonsense")
            server.signal(signal.SIGHUP)
            assert "no TOML" in (await server.log("not-reloaded"))["reason"]
            assert await eva.is_served()
            server.signal(signal.SIGTERM)
            assert [await each.goodbye() for each in (eva, adam)] == ["stopping", "stopping"]
            await server.log("stopped")
            assert await server.process.wait() == 0

    asyncio.run(play())


def test_an_open_server_says_that_it_is(tmp_path: Path) -> None:
    path = tmp_path / "palio.toml"
    path.write_text('server = "milan"')

    async def play() -> None:
        async with running(path) as server:
            assert (await server.log("listening"))["host"] == "127.0.0.1"
            assert "only this machine can connect" in (await server.log("open"))["advice"]
            server.signal(signal.SIGINT)
            await server.log("stopped")

    asyncio.run(play())


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "palio.toml"

    async def play() -> None:
        async with serving() as other:
            path.write_text(f'server = "milan"\n[http]\nport = {other.port}')
            async with running(path) as server:
                _, said = await server.process.communicate()
                assert server.process.returncode == 2
                assert b"cannot listen" in said
                assert b"stop the process that uses the port, or configure another one" in said

    asyncio.run(play())


# -- the small port ----------------------------------------------------------------------------------------------------


async def get(port: int, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(DEADLINE):
        said = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = said.partition("\r\n\r\n")
    return int(head.split()[1]), body


def test_health_and_figures() -> None:
    async def play() -> None:
        async with serving() as server:
            port = HttpPort(server, Http(port=0))
            port.start()
            party = await Raw.party(server, "eva")
            await party.subscribe("x any")
            party.publish(1, x=1)
            await party.until(Notification)
            status, body = await get(port.port, "/healthz")
            assert (status, json.loads(body)) == (200, {"live": True, "ready": True})
            status, body = await get(port.port, "/metrics")
            assert status == 200
            figures = dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
            assert figures["palio_publications_total"] == figures["palio_deliveries_total"] == "1.0"
            assert figures["palio_subscriptions"] == figures['palio_connections{role="party"}'] == "1.0"
            assert float(figures["palio_received_bytes_total"]) > 30
            assert (await get(port.port, "/elsewhere"))[0] == 404
            server.is_ready = False
            assert (await get(port.port, "/healthz"))[0] == 503
            await party.close()
            await port.stop()

    asyncio.run(play())


# -- encryption --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("certificates")
    authority, stranger = trustme.CA(), trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "certificate.pem"))
    tls = {"certificate": str(folder / "certificate.pem"), "key": str(folder / "key.pem")}
    return {"tls": tls, "ca": str(folder / "ca.pem"), "authority": authority, "stranger": stranger}


def test_parties_over_tls(certificates: dict[str, Any]) -> None:
    async def play() -> None:
        async with serving(tls=certificates["tls"], connections={"hello_seconds": 0.5}) as server:
            trusting = ssl.create_default_context(cafile=certificates["ca"])
            party = await Raw.party(server, "eva", context=trusting)
            await party.subscribe("x any")
            party.publish(x=BIG)
            assert (await party.until(Notification))["x"] == BIG
            plain = await Raw.connect(server)
            plain.send(control.encode(control.Hello((1,), "party", "adam")))
            assert await plain.goodbye() == "tls"
            with pytest.raises(ssl.SSLError):
                await Raw.connect(server, ssl.create_default_context())
            assert await party.is_served()
            party.send(bytes(10))
            assert await party.goodbye() == "frame-too-long"

    asyncio.run(play())


BIG = "y" * 200_000


def test_only_those_with_a_certificate(certificates: dict[str, Any]) -> None:
    async def play() -> None:
        welcomed = 0
        async with serving(tls={**certificates["tls"], "client_ca": certificates["ca"]}) as server:
            for authority, is_welcome in (
                (certificates["authority"], True),
                (certificates["stranger"], False),
                (None, False),
            ):
                context = ssl.create_default_context(cafile=certificates["ca"])
                if authority is not None:
                    authority.issue_cert("eva@example.org").configure_cert(context)
                with suppress(OSError):  # the handshake is over for clients before servers have seen the certificate
                    party = await Raw.connect(server, context)
                    with suppress(OSError, asyncio.IncompleteReadError):
                        assert isinstance(await party.hello("eva"), control.Welcome)
                        assert is_welcome
                        welcomed += 1
                    await party.close()
            assert welcomed == 1

    asyncio.run(play())


def test_servers_over_tls_with_tokens(certificates: dict[str, Any]) -> None:
    async def play() -> None:
        tls = {**certificates["tls"], "client_ca": certificates["ca"]}
        async with serving(tls=tls, server_tokens={"rome": hash_of("r")}) as milan:
            peer = {"name": "milan", "url": f"palios://localhost:{milan.port}", "ca": certificates["ca"], "token": "r"}
            async with serving(server="rome", tls=certificates["tls"], peers=[peer]) as rome:
                await until(lambda: "milan" in rome.driver.node.links.peers)
            wrong = {**peer, "token": "x"}
            async with serving(server="rome", tls=certificates["tls"], peers=[wrong]) as rome:
                await until(lambda: milan.counts.refusals["token"] >= 2)
                assert "milan" not in rome.driver.node.links.peers
                rome.reload(configured("rome", tls=certificates["tls"], peers=[peer]))
                await until(lambda: "milan" in rome.driver.node.links.peers)
                rome.reload(configured("rome", tls=certificates["tls"]))
                await until(lambda: "milan" not in rome.driver.node.links.peers)

    asyncio.run(play())
