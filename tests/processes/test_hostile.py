"""The hostile campaign, short; and that its judge would notice what it is there for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes.hostile import line
from tests.processes.hostile_attack import Scene, Target
from tests.processes.hostile_campaign import HostileCampaign, Plan
from tests.processes.hostile_fleet import MEMORY_MIB
from tests.processes.hostile_judge import (
    Break,
    Figures,
    LedgerJudge,
    Sample,
    Span,
    Visit,
    broken_bounds,
    by_attack,
    told,
    unserved,
)
from tests.processes.hostile_worker import ATTACKS, attack
from tests.serving import run

_WANTED = {
    "attacks", "acknowledged", "delivered", "lost", "twice", "disordered", "p99_ms", "p99_ms_alone", "rss_mib",
}  # fmt: skip


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Figures]:
    """A short campaign with a few attacks: its ledgers, and its figures."""
    folder = tmp_path_factory.mktemp("hostile")
    found: list[Figures] = []

    async def story() -> None:
        kinds = ("wrong-tokens", "nonsense", "odd-options")
        plan = Plan(1, seconds=10, kinds=kinds, at_once=2, attack_seconds=4, patience=30, rate=10)
        figures, problems = await HostileCampaign(plan, folder, print).run()
        # a busy machine breaks bounds of time; they are judged by the campaign itself, on a quiet one
        print(*problems, sep="\n")
        found.append(figures)

    run(story(), deadline=240)
    return folder, found[0]


def test_nothing_is_lost_beside_attacks(campaign: tuple[Path, Figures]) -> None:
    _, figures = campaign
    said = json.loads(json.dumps(line(figures, [])))
    assert said.keys() >= _WANTED
    assert (said["lost"], said["twice"], said["disordered"]) == (0, 0, 0)
    assert said["attacks"] >= 2
    assert said["acknowledged"] > 50
    assert said["delivered"] == 6 * said["acknowledged"]
    assert 0 < said["rss_mib"] < MEMORY_MIB
    assert said["p99_ms"] > 0
    assert said["p99_ms_alone"] > 0


def _first_delivery(lines: list[str]) -> int:
    return next(i for i, each in enumerate(lines) if each.startswith('["delivered"'))


def _drop(lines: list[str]) -> None:
    del lines[_first_delivery(lines)]


def _repeat(lines: list[str]) -> None:
    lines.append(lines[_first_delivery(lines)])


def _swap(lines: list[str]) -> None:
    """Exchange the first delivery with a later one of the same publisher."""
    first = _first_delivery(lines)
    by = json.loads(lines[first])[4]
    other = next(i for i in range(first + 1, len(lines)) if '"delivered"' in lines[i] and json.loads(lines[i])[4] == by)
    lines[first], lines[other] = lines[other], lines[first]


@pytest.mark.parametrize(("plant", "what"), [(_drop, "lost"), (_repeat, "twice"), (_swap, "disordered")])
@pytest.mark.parametrize("subscriber", ["d0", "s1", "d2"])
def test_a_fault_in_the_ledger_is_found(
    campaign: tuple[Path, Figures], tmp_path: Path, plant: Callable[[list[str]], None], what: str, subscriber: str
) -> None:
    folder, _ = campaign
    for ledger in folder.glob("*.ledger"):
        lines = ledger.read_text().splitlines(keepends=True)
        if ledger.stem == subscriber:
            plant(lines)
        (tmp_path / ledger.name).write_text("".join(lines))
    judge = LedgerJudge(tmp_path)
    judge.read()
    figures, problems = judge.judge(Figures())
    assert getattr(figures, what) == 1
    assert any(subscriber in each for each in problems)


# -- bounds, with figures that are made up -----------------------------------------------------------------------------


def test_the_bounds_are_kept_up_to_their_edges() -> None:
    at_the_edge = Figures(p99_ms=50.0, p99_ms_alone=1.0, rss_mib=MEMORY_MIB)
    assert broken_bounds(at_the_edge) == []
    assert broken_bounds(at_the_edge._replace(p99_ms=60.0, p99_ms_alone=20.0)) == []
    assert len(broken_bounds(at_the_edge._replace(p99_ms=50.1))) == 1
    assert len(broken_bounds(at_the_edge._replace(p99_ms=60.1, p99_ms_alone=20.0))) == 1
    assert broken_bounds(at_the_edge._replace(rss_mib=MEMORY_MIB + 1)) == [
        f"memory: {MEMORY_MIB + 1} MiB; the bound is {MEMORY_MIB} MiB"
    ]


def test_the_worst_attacks_are_named() -> None:
    samples = [*(Sample(n / 10, 1.0, "d0") for n in range(100)), *(Sample(10 + n / 10, 80.0, "d0") for n in range(10))]
    rows = by_attack(samples, [Span("flood", 0.0, 10.0), Span("twins", 9.0, 11.0), Span("flood", 2.0, 3.0)])
    assert rows == [("twins", 1, 80.0), ("flood", 2, 1.0)]
    (said,) = broken_bounds(Figures(p99_ms=80.0, p99_ms_alone=1.0), rows)
    assert said.endswith("worst while these were made: twins 80 ms")


def test_clients_that_were_not_served_are_named_with_the_attacks() -> None:
    visits = [Visit(1.0, "a0", 5.0, ""), Visit(2.0, "a1", 5.0, "TimeoutError: ")]
    said = told(unserved(visits, [Break(2.5, "silent")], [Span("flood", 1.5, 3.0)]))
    assert said == [
        "an innocent client was turned away at a1: TimeoutError:  (during flood 1)",
        "an innocent client lost its connection: silent (during flood 1)",
    ]


# -- attackers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_when_there_is_no_server(name: str) -> None:
    async def story() -> None:
        targets = [Target(server, 1, 1, "as") for server in ("a0", "a1", "a2")]
        said = await attack(name, Scene(targets, "1", 0.1))
        assert said["problems"] == []

    run(story())
