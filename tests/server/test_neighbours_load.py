"""Servers as processes: what clients of one server ask for keeps another one busy, and its clients are served."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from palio import Filter, Notification
from palio.codec import msgpack
from tests.routing.test_preparation import hostile
from tests.server.test_process import Running, running
from tests.serving import Raw, run

PER_TURN = 200
LARGEST = 16 * 6
"""To enter one filter of twenty constraints is one step."""
FILTERS = 60
ROME = 'server = "rome"\ncomparisons_per_turn = 100_000\n[[peers]]\nname = "milan"\n'
MILAN = """
server = "milan"
comparisons_per_turn = {per_turn}
[http]
port = 0
[[peers]]
name = "rome"
url = "palio://127.0.0.1:{port}"
"""
STORE = '[store]\npath = "{name}.db"\n'


class Milan:
    """The server that is attacked over its link, and its figures."""

    def __init__(self, process: Running, line: dict[str, Any]) -> None:
        self.process, self.port, self._http = process, line["port"], line["http_port"]

    async def figure(self, name: str) -> float:
        return await asyncio.to_thread(self._figure, name)

    def _figure(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._http}/metrics", timeout=20) as answer:
            lines: list[str] = answer.read().decode().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))

    async def until_it_knows(self, least: int) -> int:
        while (known := await self.figure("palio_subscriptions")) < least:
            await asyncio.sleep(0.002)
        return int(known)


async def attack(mallory: Raw, filters: list[Filter]) -> None:
    for each in filters:
        assert (await mallory.ask_raw("subscribe", "filter", msgpack.encode(each))).code == ""


@pytest.mark.slow
def test_clients_of_a_server_are_served_while_clients_of_another_one_keep_it_busy(tmp_path: Path) -> None:
    """What neighbours say is compared in slices, and other clients have answers in between."""
    (tmp_path / "rome.toml").write_text(ROME)

    async def play() -> None:
        async with running(tmp_path / "rome.toml") as other:
            port = (await other.log("listening"))["port"]
            (tmp_path / "milan.toml").write_text(MILAN.format(per_turn=PER_TURN, port=port))
            async with running(tmp_path / "milan.toml") as process:
                milan = Milan(process, await process.log("listening"))
                await process.log("link-up")
                eva, mallory = await Raw.party(milan.port, "eva"), await Raw.party(port, "mallory")
                work = asyncio.create_task(attack(mallory, hostile(FILTERS)))
                answers = 0
                while await milan.figure("palio_subscriptions") < FILTERS:
                    assert (await eva.ask("subscribe", f"z = {answers}")).code == ""
                    assert (await eva.ask("unsubscribe", f"z = {answers}")).code == ""
                    answers += 1
                await work
                assert answers > 3, "a client had answers while the filters came"
                await attack(mallory, [Filter.parse("x any")])
                await mallory.ask("unsubscribe", "x any")
                assert await milan.figure("palio_comparisons_total") > FILTERS * FILTERS
                assert await milan.figure("palio_turn_comparisons_max") <= PER_TURN + 2 * LARGEST

    run(play(), 120)


@pytest.mark.slow
def test_a_server_that_is_killed_while_it_compares_loses_nothing(tmp_path: Path) -> None:
    """The neighbour sends again what was not handled, and what was handled is in the store."""
    (tmp_path / "rome.toml").write_text(ROME + STORE.format(name="rome"))

    async def play() -> None:
        async with running(tmp_path / "rome.toml") as other:
            port = (await other.log("listening"))["port"]
            text = MILAN.format(per_turn=PER_TURN, port=port) + STORE.format(name="milan")
            (tmp_path / "milan.toml").write_text(text)
            mallory = await Raw.party(port, "mallory")
            async with running(tmp_path / "milan.toml") as process:
                milan = Milan(process, await process.log("listening"))
                await process.log("link-up")
                work = asyncio.create_task(attack(mallory, hostile(FILTERS)))
                assert await milan.until_it_knows(5) < FILTERS
                process.process.kill()
                await process.process.wait()
                await work
            async with running(tmp_path / "milan.toml") as restarted:
                again = Milan(restarted, await restarted.log("listening"))
                assert await again.until_it_knows(FILTERS) == FILTERS
                adam = await Raw.party(again.port, "adam")
                adam.publish(x="abc")
                assert await mallory.until(Notification) == Notification(x="abc")
                assert not [each for each in restarted.lines if each["event"] == "record-quarantined"]

    run(play(), 120)
