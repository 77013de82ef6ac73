"""Random histories of all architectures under all faults, judged by the law."""

from __future__ import annotations

import pytest

from palio.routing.architectures import ARCHITECTURES
from palio.sim.generate import FAULTS, generate
from palio.sim.history import History
from palio.sim.oracle import Oracle
from palio.sim.player import Player


def violations(history: History) -> list[str]:
    player = Player(history)
    oracle = Oracle(player)
    for step in history.steps:
        player.do(step)
        if step.do == "settle" and (problems := oracle.judge()):
            return problems
    return []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("faults", FAULTS)
def test_nothing_is_violated(architecture: str, faults: str) -> None:
    for seed in range(10):
        history = generate(seed, architecture, faults)
        assert violations(history) == [], seed


def test_a_history_survives_its_file() -> None:
    history = generate(3, "aa", "all")
    assert History.from_json(history.to_json()) == history
