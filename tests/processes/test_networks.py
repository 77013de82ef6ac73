"""Networks of real processes, in every architecture, judged by the laws of the simulator."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.processes.fleet import NETWORKS
from tests.processes.story import play
from tests.serving import run


@pytest.mark.parametrize("name", NETWORKS)
def test_what_should_come_comes_though_ways_break_and_servers_die(name: str, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()

    async def story() -> None:
        counts.update(await play(NETWORKS[name], tmp_path, 1, parties=200))

    run(story(), deadline=240)
    assert counts["publications"] > 500
    assert counts["deliveries"] > 5_000
    assert counts["sequences"] > 3
    assert counts["kills"] == min(2, len(NETWORKS[name].servers))
