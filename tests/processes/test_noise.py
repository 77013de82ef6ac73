"""Bad bytes, against one server that is a process: its memory has a bound, and those who behave are served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from palio.codec import frames
from palio.model import Filter, Notification
from tests.processes.campaign import FLOOD_SETTINGS, flood
from tests.processes.fleet import NETWORKS, Fleet
from tests.processes.noise import Mixer, drip
from tests.processes.parties import Party
from tests.processes.story import Story
from tests.serving import run, until

Scene = Callable[[Fleet], Awaitable[None]]


def with_server(scene: Scene, folder: Path, settings: str = FLOOD_SETTINGS) -> None:
    async def play() -> None:
        async with Fleet(NETWORKS["ce"], folder, settings) as fleet:
            await scene(fleet)
            assert fleet.faults() == []

    run(play(), deadline=180)


def test_a_flood_of_bad_frames(tmp_path: Path) -> None:
    async def scene(fleet: Fleet) -> None:
        await flood(fleet, seed=1, frames=60_000)

    with_server(scene, tmp_path)


@pytest.mark.parametrize("seed", [1, 2])
def test_two_who_mix_good_and_bad(seed: int, tmp_path: Path) -> None:
    """What is good is delivered exactly, what is bad is refused exactly."""
    random = Random(seed)

    async def scene(fleet: Fleet) -> None:
        server = fleet.servers["a0"]
        story = Story(fleet, seed, 10)
        await story.begin()
        mixers = [Mixer(story.facts, name, "a0") for name in ("one", "two")]
        reader = Party(story.facts, "reader", "a0")
        for each in (*mixers, reader):
            await each.connect(server.port)
        await reader.ask("subscribe", Filter.parse("good any"))
        number = 10**12
        for _ in range(60):
            for mixer in mixers:
                good = [Notification(n=number + i, good=random.randrange(9)) for i in range(random.randrange(1, 60))]
                number += len(good)
                mixer.mix(server.lives, random, good)
            await asyncio.sleep(0)
        for mixer in mixers:
            await mixer.settled()
            await until(lambda mixer=mixer: not mixer.expected)  # type: ignore[misc]
            assert (
                min(mixer.refusals[code] for code in ("document", "limit", "unsatisfiable", "invalid", "not-allowed"))
                > 0
            )
        await reader.catch_up()
        await story.rest()
        assert reader.received == number - 10**12
        for each in (*mixers, reader):
            each.close()
        await story.end()

    with_server(scene, tmp_path)


def test_frames_that_come_byte_by_byte_over_many_connections(tmp_path: Path) -> None:
    async def scene(fleet: Fleet) -> None:
        port = fleet.servers["a0"].port
        story = Story(fleet, 1, 20)
        await story.begin()
        dripping = asyncio.gather(*(drip(port, f"slow-{i}", i, 3.0) for i in range(200)))
        while not dripping.done():
            await story.calm()
        assert {frames.accepted_up_to(each)[0] for each in await dripping} == {1}
        await story.end()

    with_server(scene, tmp_path)
