"""TLS on one side only: both sides say so."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import trustme
from structlog.testing import capture_logs

import palio
from palio.client import CannotConnectError
from palio.codec import control
from tests.serving import DEADLINE, Raw, run, serving, until


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "certificate.pem"))
    return {"certificate": str(folder / "certificate.pem"), "key": str(folder / "key.pem")}


def authority_of(tls: dict[str, str]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(Path(tls["key"]).with_name("ca.pem")))


@pytest.fixture(autouse=True)
def _unconfigured() -> Iterator[None]:
    """Capturing logs configures them, and servers of other tests would print theirs."""
    yield
    structlog.reset_defaults()


def closed(logs: list[Any]) -> list[dict[str, Any]]:
    return [each for each in logs if each["event"] == "connection-closed"]


def test_a_plain_client_on_a_port_with_tls(tls: dict[str, str]) -> None:
    async def play() -> None:
        with capture_logs() as logs:
            async with serving(tls=tls) as server:
                with pytest.raises(CannotConnectError, match="speaks TLS; connect with palios://") as caught:
                    await palio.connect(f"palio://127.0.0.1:{server.port}").connect()
                assert caught.value.code == "tls"
                await until(lambda: closed(logs))
        (line,) = closed(logs)
        assert (line["code"], line["address"]) == ("tls", "127.0.0.1")
        assert "this port speaks TLS" in line["reason"]

    run(play())


def test_a_client_with_tls_on_a_plain_port() -> None:
    async def play() -> None:
        with capture_logs() as logs:
            async with serving() as server:
                with pytest.raises(
                    CannotConnectError, match=r"does not speak TLS; try palio://127\.0\.0\.1:"
                ) as caught:
                    await palio.connect(f"palios://127.0.0.1:{server.port}").connect()
                assert caught.value.code == "tls"
                await until(lambda: closed(logs))
        (line,) = closed(logs)
        assert (line["code"], line["address"]) == ("tls", "127.0.0.1")
        assert "this port does not speak TLS" in line["reason"]

    run(play())


def test_an_alert_of_any_server_with_tls_is_recognized() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"\x15\x03\x01\x00\x02\x02\x46")
        writer.close()

    async def play() -> None:
        other = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = other.sockets[0].getsockname()[1]
        async with other:
            with pytest.raises(CannotConnectError, match="it speaks TLS; connect with palios://"):
                await palio.connect(f"palio://127.0.0.1:{port}").connect()

    run(play())


def test_a_handshake_that_fails_is_logged(tls: dict[str, str]) -> None:
    async def play() -> None:
        with capture_logs() as logs:
            async with serving(tls=tls) as server:
                with pytest.raises(CannotConnectError, match="cannot be trusted"):
                    await palio.connect(f"palios://127.0.0.1:{server.port}").connect()
                await until(lambda: closed(logs))
                async with palio.connect(f"palios://127.0.0.1:{server.port}", ssl=authority_of(tls)) as client:
                    await client.publish(x=1)
        (line,) = closed(logs)
        assert line["reason"].startswith("no TLS came about: ")

    run(play())


def test_who_says_nothing_on_a_port_with_tls_has_to_go(tls: dict[str, str]) -> None:
    async def play() -> None:
        async with serving(tls=tls, connections={"hello_seconds": 0.2, "drain_seconds": 0.5}) as server:
            silent, gone = await Raw.connect(server), await Raw.connect(server)
            await gone.close()
            async with asyncio.timeout(DEADLINE):
                assert await silent.reader.read() == b""
            begun = await Raw.connect(server)
            begun.send(b"\x16\x03\x01")
            async with asyncio.timeout(DEADLINE):
                await begun.reader.read()
            party = await Raw.party(server, "eva", context=authority_of(tls))
            assert await party.is_served()
            await until(lambda: not server._admissions)

    run(play())


def test_a_server_stops_while_somebody_says_nothing(tls: dict[str, str]) -> None:
    async def play() -> None:
        async with serving(tls=tls, connections={"hello_seconds": 60.0, "drain_seconds": 0.5}) as server:
            silent = await Raw.connect(server)
            await until(lambda: server._admissions)
        async with asyncio.timeout(DEADLINE):
            assert await silent.reader.read() == b""

    run(play())


def test_peers_are_told_too(tls: dict[str, str]) -> None:
    async def play() -> None:
        async with serving(server="rome", tls=tls) as rome, serving(server="bari") as bari:
            peers = [
                {"name": "rome", "url": f"palio://127.0.0.1:{rome.port}"},
                {"name": "bari", "url": f"palios://127.0.0.1:{bari.port}"},
            ]
            async with serving(peers=peers) as milan:
                await until(lambda: len(milan.peers.reasons) == 2)
                assert "this port speaks TLS; connect with palios://" in milan.peers.reasons["rome"]
                assert "it does not speak TLS" in milan.peers.reasons["bari"]

    run(play())


def test_a_hello_without_tls_gets_an_answer_that_it_can_read(tls: dict[str, str]) -> None:
    async def play() -> None:
        async with serving(tls=tls) as server:
            plain = await Raw.connect(server)
            plain.send(control.encode(control.Hello((1,), "party", "adam")))
            assert await plain.goodbye() == "tls"

    run(play())
