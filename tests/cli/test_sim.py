"""``palio sim`` as its users run it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from palio.cli import sim_report
from palio.cli.main import palio
from palio.sim.check import Case
from palio.sim.generators.networks import FAULTS
from palio.sim.histories.history import History, Step
from palio.sim.histories.stored import read, write
from palio.sim.run import run
from tests.planted import catalogue as planted
from tests.planted.catalogue import PLANTED


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(palio, ["sim", *map(str, arguments)], catch_exceptions=False)


def check(*arguments: str | Path) -> Result:
    return invoke("check", "--processes", "1", *arguments)


def test_help_does_not_wait_for_the_simulator() -> None:
    code = (
        "import sys; from palio.cli.main import palio\n"
        "palio(['sim', 'check', '--help'], standalone_mode=False)\n"
        "sys.exit(bool({'rich', 'palio.sim', 'palio.node'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_table_by_architecture(tmp_path: Path) -> None:
    result = check("--seeds", "3", "--arch", "hs,as", "--faults", "none,weather", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert lines[0] == ["hs", "as", "all"]
    assert ["runs", "3", "3", "6"] in lines
    assert ["violations", "0", "0", "0"] in lines
    assert any(line[:2] == ["faults:", "drop"] for line in lines)
    assert "…" not in result.stdout
    assert result.stderr == ""
    assert not (tmp_path / "out").exists()


def test_figures_as_json(tmp_path: Path) -> None:
    result = check("--seeds", "2", "--arch", "ce,nf", "--ops", "20", "--json", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    figures = {"runs", "operations", "messages", "faults", "deliveries", "violations"}
    assert set(found) == figures | {"by_architecture", "planted", "violating", "stored"}
    assert [each["architecture"] for each in found["by_architecture"]] == ["ce", "nf"]
    assert [set(each) for each in found["by_architecture"]] == [figures | {"architecture"}] * 2
    for name in figures - {"faults"}:
        assert found[name] == sum(each[name] for each in found["by_architecture"])
    assert (found["runs"], found["violations"], found["planted"]) == (4, 0, None)
    assert found["violating"] == found["stored"] == []


def test_violations_are_stored_small_and_replayed(tmp_path: Path) -> None:
    with PLANTED["copy-for-each-filter"].planted():
        result = check("--seeds", "9", "--arch", "ce", "--faults", "none", "--out", tmp_path / "a folder")
        stored = sorted((tmp_path / "a folder").iterdir())
        assert [path.name for path in stored] == ["ce-none-0.json", "ce-none-1.json", "ce-none-2.json"]
        assert len(read(stored[0]).steps) == 4
        replayed = invoke("replay", stored[0])
        as_json = invoke("replay", stored[0], "--json")
    assert result.exit_code == 1
    assert f"palio sim replay '{stored[0]}'" in result.stdout
    assert "twice" in result.stdout
    assert replayed.exit_code == as_json.exit_code == 1
    assert "Violated, as found at step 3:" in replayed.stdout
    assert json.loads(as_json.stdout)["violations"]


def test_many_violations_are_told_briefly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sim_report, "_MOST_FAILURES", 1)
    with PLANTED["copy-for-each-filter"].planted():
        result = check("--seeds", "9", "--arch", "ce", "--faults", "none", "--out", tmp_path)
    assert re.search(r"^and [1-8] more histories; --json has all$", result.stdout, re.MULTILINE)
    assert "ce-none-2:" not in result.stdout


def test_planted_bugs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    few = {name: PLANTED[name] for name in ("copy-for-each-filter", "not-sent-up")}
    monkeypatch.setattr(planted, "PLANTED", few)
    arguments = ["--seeds", "1", "--arch", "ce", "--planted", "--out", tmp_path]
    result = check(*arguments)
    assert result.exit_code == 0, result.output
    assert "2 of 2 planted bugs were found." in result.stdout
    found = json.loads(check(*arguments, "--json").stdout)["planted"]
    assert (found["total"], found["caught"]) == (2, 2)
    assert found["bugs"][1] == {"name": "not-sent-up", "seed": 0, "case": "hs-none-0"}


def test_a_planted_bug_that_is_not_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    harmless = PLANTED["copy-for-each-filter"]._replace(name="harmless", make=lambda right: right, faults=("none",))
    monkeypatch.setattr(planted, "PLANTED", {"harmless": harmless})
    result = check("--seeds", "1", "--arch", "ce", "--ops", "1", "--planted", "--out", tmp_path)
    assert result.exit_code == 1
    assert "not found" in result.stdout
    assert "0 of 1 planted bugs were found." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--arch", "hs,xx"], "architecture: 'xx' is none of ce, hs, as, aa, nf"),
        (["--faults", "hail"], f"faults: 'hail' is none of {', '.join(FAULTS)}"),
        (["--arch", ","], "architecture: name at least one of ce, hs, as, aa, nf"),
    ],
)
def test_nonsense_is_refused_in_a_line(arguments: list[str], problem: str) -> None:
    result = check(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: {problem}\n"


def test_numbers_that_are_none_are_refused() -> None:
    assert check("--seeds", "0").exit_code == 2
    assert check("--ops", "many").exit_code == 2


def test_a_story_step_by_step(tmp_path: Path) -> None:
    steps = (
        Step(0, "connect", "rome", peer="bari"),
        Step(0, "settle"),
        Step(0, "subscribe", "rome", "rome/me", "x > 3", spread=True),
        Step(200, "publish", "bari", "bari/you", "x = 4"),
        Step(0, "weather"),
        Step(0, "subscribe", "rome", "rome/me", "x > 3 and x < 2"),
        Step(0, "settle"),
    )
    path = write(History("as", 0, ("rome", "bari"), steps), tmp_path, "story")
    result = invoke("replay", path)
    assert result.exit_code == 0, result.output
    shown = [line.strip() for line in result.stdout.splitlines()]
    for line in (
        "as, servers rome, bari, seed 0",
        "rome has a link to bari",
        "bari learns from rome: filter x > 3",
        "answer to rome/me: done",
        "rome/me gets bari/0/0: x = 4",
        "answer to rome/me: nothing can match 'x > 3 and x < 2'",
        "Nothing is violated.",
    ):
        assert line in shown
    assert any(line.endswith("subscribe rome rome/me x > 3 and wait until it has spread") for line in shown)
    told = json.loads(invoke("replay", path, "--json").stdout)
    assert [step["step"] for step in told["steps"]][4] == "weather fair"
    assert set(told["steps"][0]) == {"number", "time", "step", "followed"}
    assert told["digest"] == run(read(path)).digest
    assert (told["violations"], told["found_at"]) == ([], None)


def test_troubles_are_told(tmp_path: Path) -> None:
    steps = (
        Step(0, "part", servers=("rome", "bari")),
        Step(0, "slow", "rome", time=30),
        Step(0, "clock", "rome", time=-5, rate=90),
        Step(0, "crash-at", "rome", effect="replied", nth=2),
        Step(0, "crash-at", "bari", effect="write"),
        Step(0, "fail", "rome"),
        Step(0, "subscribe", "bari", "bari/me", "x > 3"),
    )
    path = write(History("as", 0, ("rome", "bari"), steps, durable=True), tmp_path, "troubles")
    told = json.loads(invoke("replay", path, "--json").stdout)
    assert [each["step"] for each in told["steps"]] == [
        "part rome, bari from the others",
        "slow rome by 30 for all that it handles",
        "clock rome is off by -5 and runs at 90%",
        "crash-at rome at number 2 of replied",
        "crash-at bari at write",
        "fail rome",
        "subscribe bari bari/me x > 3",
    ]
    assert told["steps"][-1]["followed"] == ["bari dies"]


def test_the_help_names_all_faults() -> None:
    assert ", ".join(FAULTS) in " ".join(check("--help").stdout.split())


@pytest.mark.parametrize("faults", FAULTS)
def test_generated_histories_can_be_told(faults: str, tmp_path: Path) -> None:
    path = write(Case("aa", faults, 1, 60).history(), tmp_path, "whole")
    assert invoke("replay", path).exit_code == 0


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b"\xff", "holds no history"),
        (b'{"architecture":"xx","seed":0,"servers":["a"],"steps":[]}', "architecture: 'xx' is none of"),
    ],
)
def test_bad_files_are_refused_in_a_line(document: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(document)
    result = invoke("replay", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr
    assert result.stderr.count("\n") == 1


def test_missing_files_are_refused_in_a_line(tmp_path: Path) -> None:
    result = invoke("replay", tmp_path / "gone.json")
    assert result.exit_code == 2
    assert result.stderr == f"Error: '{tmp_path / 'gone.json'}' cannot be read: No such file or directory\n"
