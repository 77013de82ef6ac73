"""docs/simulator.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from palio.sim.generate import FAULTS, generate
from palio.sim.history import History, Step
from palio.sim.planted import PLANTED

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


def kinds_with(*deeds: str) -> list[str]:
    """The kinds of faults under which such steps are taken, apart from those that build the network."""
    found = []
    for faults in FAULTS:
        steps = [step for seed in range(20) for step in later(generate(seed, "as", faults))]
        if any(step.do in deeds for step in steps):
            found.append(faults)
    return found


def later(history: History) -> tuple[Step, ...]:
    first = next(place for place, step in enumerate(history.steps) if step.do == "settle")
    return history.steps[first:]


def test_the_matrix_has_what_may_disturb() -> None:
    """A promise that is made for times of rest is marked exactly where generated histories disturb it."""
    head, *rows = table("check")
    assert head[1:] == [*FAULTS]
    by_crashes, by_anything = kinds_with("crash", "lose"), kinds_with("crash", "lose", "connect", "disconnect")
    assert by_crashes == ["crashes", "all"]
    assert by_anything == ["links", "races", "crashes", "all"]
    for check, *marks in rows:
        assert set(marks) <= {"yes", "rests"}
        rests = [faults for faults, mark in zip(FAULTS, marks, strict=True) if mark == "rests"]
        assert rests in ([], by_crashes, by_anything), check


def test_all_planted_bugs_are_told() -> None:
    told = table("bug")[1:]
    assert told == [
        [f"`{bug.name}`", bug.description, ", ".join(bug.architectures), ", ".join(bug.faults)]
        for bug in PLANTED.values()
    ]
