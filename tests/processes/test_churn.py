"""Connections by the thousand that come and go, at servers that are processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from palio.model import Filter
from tests.processes.campaign import CHURN_SETTINGS, Footprint, churn
from tests.processes.fleet import NETWORKS, Fleet
from tests.processes.parties import Party
from tests.processes.story import Story
from tests.serving import run


def test_those_who_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    async def play() -> None:
        async with Fleet(NETWORKS["as"], tmp_path, CHURN_SETTINGS) as fleet:
            await churn(fleet, seed=1, visits=4_000)

    run(play(), deadline=180)


def test_a_thousand_at_the_same_time(tmp_path: Path) -> None:
    async def play() -> None:
        async with Fleet(NETWORKS["ce"], tmp_path, CHURN_SETTINGS) as fleet:
            server = fleet.servers["a0"]
            story = Story(fleet, 1, 20)
            await story.begin()
            before = await Footprint(server).take()
            parties = [Party(story.facts, f"idle-{i}", "a0") for i in range(1_000)]
            await asyncio.gather(*(each.connect(server.port) for each in parties))
            await asyncio.gather(*(each.ask("subscribe", Filter.parse("x = 3")) for each in parties))
            await story.serve()
            assert (await server.figures())['palio_connections{role="party"}'] >= 1_000
            for each in parties:
                each.close()
                story.facts.asked(each.name, "unsubscribe", Filter.parse("x = 3"))
            await before.comes_back()
            await story.serve()
            await story.end()

    run(play(), deadline=180)
