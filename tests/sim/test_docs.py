"""docs/simulator.md says what the code does."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from palio.sim.faults.crash_points import Effect
from palio.sim.generators.networks import FAULTS, generate
from palio.sim.histories.facts import Epoch
from palio.sim.histories.history import StepKind
from palio.sim.histories.player import OPERATIONS, WISHES, Player
from palio.sim.suites import USUAL
from tests.planted.catalogue import PLANTED

DOCUMENT = (Path(__file__).parents[2] / "docs/simulator.md").read_text()


def table(first: str) -> list[list[str]]:
    """The rows of the table whose first column has this head, the head included."""
    lines = DOCUMENT.splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


def test_all_kinds_of_faults_are_told() -> None:
    assert [row[0] for row in table("faults")[1:]] == [*FAULTS]


def test_all_that_may_befall_a_server_is_told() -> None:
    of_parties = {*OPERATIONS, *WISHES, "attach", "detach", "acknowledge"}
    of_the_network = {"connect", "disconnect", "weather", "cut", "part", "join", "settle"}
    assert {row[0] for row in table("step")[1:]} == {*get_args(StepKind)} - of_parties - of_the_network
    for effect in get_args(Effect):
        assert f"*{effect}*" in DOCUMENT


def epochs(faults: str) -> list[Epoch]:
    """From rest to rest in generated histories, apart from the first of each, which builds the network."""
    found = []
    for seed in range(10):
        player = Player(generate(seed, "as", faults))
        for step in player.history.steps:
            player.do(step)
        found += player.epochs[1:]
    return found


@pytest.mark.slow
def test_the_matrix_has_what_may_disturb() -> None:
    """A promise that is made for times of rest is marked exactly where generated histories disturb it."""
    head, *rows = table("check")
    assert head[1:] == [*FAULTS]
    found = {faults: epochs(faults) for faults in FAULTS}
    by_crashes = [faults for faults in FAULTS if any(epoch.died for epoch in found[faults])]
    by_anything = [faults for faults in FAULTS if any(epoch.is_disturbed for epoch in found[faults])]
    by_cycles = [faults for faults in FAULTS if any(epoch.had_cycle for epoch in found[faults])]
    assert by_cycles == ["links", "races"]
    assert by_crashes == ["crashes", "all"]
    assert by_anything == ["links", "races", "crashes", "all"]
    for check, *marks in rows:
        assert set(marks) <= {"yes", "rests"}
        rests = [faults for faults, mark in zip(FAULTS, marks, strict=True) if mark == "rests"]
        assert rests in ([], by_crashes, by_cycles, by_anything), check


@pytest.mark.parametrize(
    ("suite", "head"),
    [
        (USUAL, "bug"),
        ("merging", "bug of merging"),
        ("pacing", "bug of pacing"),
        ("durability", "bug of durable parties"),
        ("faults", "bug of containment"),
        ("limits", "bug of limits"),
    ],
)
def test_all_planted_bugs_are_told(suite: str, head: str) -> None:
    told = table(head)[1:]
    assert told == [
        [f"`{bug.name}`", bug.description, ", ".join(bug.architectures), ", ".join(bug.faults)]
        for bug in PLANTED.values()
        if bug.suite == suite
    ]


def test_planted_bugs_of_other_networks_are_told() -> None:
    for suite in ("graphs", "gateways"):
        assert table(f"bug in {suite}")[1:] == [
            [f"`{bug.name}`", bug.description, ", ".join(bug.architectures), ", ".join(bug.faults)]
            for bug in PLANTED.values()
            if bug.suite == suite
        ]
