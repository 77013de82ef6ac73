"""Servers as processes, with different limits in their files; and the command line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from palio import Durable, Filter, Notification, PublishOptions
from palio.client import connect
from palio.link.frames import Data
from palio.routing.messages import Publish, Subscribe
from tests.server.test_limits import OldPeer
from tests.server.test_process import running
from tests.serving import run

MILAN = 'server = "milan"\n[limits]\nkey_bytes = 2_000\nvalue_bytes = 1_000_000\nconstraints = 400\n'
ROME = """
server = "rome"
[limits]
key_bytes = 8
value_bytes = 8
constraints = 2
[store]
path = "rome.db"
[[peers]]
name = "milan"
url = "palio://127.0.0.1:{port}"
"""


async def palio(*arguments: str) -> tuple[int, str, str]:
    """Run a command; its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "palio", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()


@pytest.mark.slow
def test_a_key_at_the_limit_of_one_server_reaches_a_durable_client_of_another(tmp_path: Path) -> None:
    """Rome refused it, was killed and refused it again; the link never came past it, nor did the client."""
    (tmp_path / "milan.toml").write_text(MILAN)

    async def play() -> None:
        async with running(tmp_path / "milan.toml") as milan:
            port = (await milan.log("listening"))["port"]
            (tmp_path / "rome.toml").write_text(ROME.format(port=port))
            large = Notification(x=1, y="." * 1_000_000)
            async with connect(f"palio://127.0.0.1:{port}", name="adam") as adam:
                async with running(tmp_path / "rome.toml") as rome:
                    url = f"palio://127.0.0.1:{(await rome.log('listening'))['port']}"
                    async with connect(url, name="eva", durable=Durable(lease=600)) as eva:
                        await rome.log("link-up")
                        await eva.subscribe("x any", wait=True)
                        wide = Filter.parse(" and ".join(f"n{number} any" for number in range(2)))
                        await eva.subscribe(wide, wait=True)
                    await adam.publish(large, PublishOptions(key="k" * 2_000))
                    await adam.publish(x=2)
                    rome.process.kill()
                async with running(tmp_path / "rome.toml") as rome:
                    url = f"palio://127.0.0.1:{(await rome.log('listening'))['port']}"
                    async with (
                        connect(url, name="eva", durable=Durable(lease=600)) as eva,
                        eva.subscribe("x any") as events,
                    ):
                        found = [(await anext(events)).notification for _ in range(2)]
                        assert found == [large, Notification(x=2)]
                        assert not [line for line in rome.lines if line["event"] == "connection-closed"]

    run(play(), 60)


@pytest.mark.slow
def test_letters_of_a_link_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "milan.toml").write_text(MILAN)

    async def play() -> None:
        async with running(tmp_path / "milan.toml") as milan:
            port = (await milan.log("listening"))["port"]
            server = ("--server", f"palio://127.0.0.1:{port}")
            rome = await OldPeer.dialing(port)
            await rome.open()
            rome.say(Data((1, "rome", 7), 0, (Subscribe(Filter.parse("x any")),), 0))
            async with connect(server[1], name="adam") as adam:
                while not (await adam.query("status"))["counts"]["subscriptions"]:
                    await asyncio.sleep(0.01)
                for number, key in enumerate(("short", "k" * 2_000, "again", "l" * 2_000)):
                    await adam.publish(Notification(x=number), PublishOptions(key=key))
                await rome.until(lambda: len(rome.of(Publish)) == 2)
            said = await milan.log("link-letter")
            assert (said["peer"], said["letters"]) == ("rome", 1)
            assert "palio letters list --link rome" in said["advice"]
            code, out, _ = await palio("letters", "list", "--link", "rome", *server)
            lines = out.splitlines()
            assert (code, len(lines)) == (0, 2)
            assert lines[0].startswith("0  ")
            assert "/1  " in lines[0]
            assert "key_bytes" in lines[0]
            _, out, _ = await palio("letters", "list", "--link", "rome", "--json", *server)
            found: dict[str, Any] = json.loads(out)
            assert [each["notifications"][0]["notification"] for each in found["letters"]] == [{"x": 1}, {"x": 3}]
            _, out, _ = await palio("net", "status", "--seconds", "0.5", *server)
            assert "milan has 2 letters that rome cannot take: palio letters list --link rome" in out
            assert await palio("letters", "discard", "--link", "rome", "0", *server) == (0, "", "discarded: 0\n")
            _, out, _ = await palio("letters", "discard", "--link", "rome", "--all", "--json", *server)
            assert json.loads(out) == {"discarded": [1]}
            code, _, error = await palio("letters", "list", "--link", "paris", *server)
            assert code == 1
            assert "link: 'paris' is none of rome" in error
            code, _, error = await palio("letters", "discard", "--link", "rome", "7", *server)
            assert code == 1
            assert "not numbers of letters" in error
            code, _, error = await palio("letters", "list", *server)
            assert code == 2
            assert "Missing option '--name'" in error
            await rome.raw.close()

    run(play(), 60)
