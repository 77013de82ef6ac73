"""The commands as their users run them."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from palio.bench import covering, timing
from palio.cli.main import palio


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(palio, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command below a group, the group itself included."""
    found = [path]
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
        else:
            found.append((*path, name))
    return found


@pytest.mark.parametrize("path", commands(palio), ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...]) -> None:
    shown = invoke(*path, "--help")
    assert "Usage: palio" in shown.replace("Usage: palio palio", "Usage: palio")
    groups = {("archive",), ("bench",), ("lab",), ("letters",), ("net",), ("net", "link"), ("sim",), ("store",)}
    if path and path not in groups:
        assert "Example:  palio " + " ".join(path) in shown
        assert "--json" in shown


def test_unknown_commands_are_refused() -> None:
    result = CliRunner().invoke(palio, ["fly"])
    assert result.exit_code == 2
    assert "No such command 'fly'" in result.output


def test_tour_shows_the_model_at_work() -> None:
    shown = invoke("tour")
    assert ">>> f.matches(n)\n   True" in shown
    assert "fails  level > 3        level is a value of type string, not number" in shown
    assert "Filter.parse('x >* \"ab\"')" in shown
    assert "TextSyntaxError: line 1, column 28: unexpected '>'" in shown


def test_tour_as_json() -> None:
    steps = json.loads(invoke("tour", "--json"))
    assert [set(step) for step in steps] == [{"title", "remark", "lines"}] * len(steps)
    assert {"code": "f.matches(n)", "result": "True"} in steps[0]["lines"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure for a moment only: the figures mean nothing, their form is what is tested."""
    monkeypatch.setattr(timing, "_LEAST_SECONDS", 1e-5)
    monkeypatch.setattr(timing, "_ROUNDS", 1)


@pytest.mark.usefixtures("quick")
def test_bench_model_as_json() -> None:
    report = json.loads(invoke("bench", "model", "--json"))
    assert set(report) == {"benchmark", "machine", "results"}
    assert report["benchmark"] == "model"
    assert set(report["machine"]) == {"cores", "memory_gib", "cpu", "system", "python", "date"}
    assert {row["operation"] for row in report["results"]} == {"parse", "match", "covers"}
    assert {row["constraints"] for row in report["results"]} == {3, 4, 16, 64, 256}
    for row in report["results"]:
        assert row["operations_per_second"] > 0
        assert row["microseconds"] == pytest.approx(1e6 / row["operations_per_second"])
        assert row["times_baseline"] > 0


@pytest.mark.usefixtures("quick")
def test_bench_model_as_a_table() -> None:
    shown = invoke("bench", "model")
    assert "a second" in shown
    assert "not containing" in shown
    assert "…" not in shown


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covering, "_ROUNDS", 1)
    monkeypatch.setattr(covering, "_QUESTIONS", 20)


@pytest.mark.usefixtures("small")
def test_bench_covering_as_json() -> None:
    report = json.loads(invoke("bench", "covering", "--sizes", "200,100", "--json"))
    assert report["benchmark"] == "covering"
    assert [row["size"] for row in report["results"][::5]] == [100, 200] * len(covering.POPULATIONS)
    assert list(dict.fromkeys(row["population"] for row in report["results"])) == list(covering.POPULATIONS)
    operations = ["canonical form", "insert", "covering", "covered_by", "remove"]
    assert [row["operation"] for row in report["results"]] == operations * 2 * len(covering.POPULATIONS)
    for row in report["results"]:
        assert row["microseconds"] > 0
        assert row["times_walk"] > 0
        is_first = row["size"] == 100 or row["operation"] == "canonical form"
        assert row["times_half"] == "" if is_first else row["times_half"] > 0
    maximal = [row["answers"] for row in report["results"] if row["operation"] == "insert" and row["size"] == 200]
    assert all(0 < count <= 200 for count in maximal)


@pytest.mark.usefixtures("small")
def test_bench_covering_of_one_population_as_a_table() -> None:
    shown = invoke("bench", "covering", "--sizes", "100", "--population", "sites")
    assert "of a walk" in shown
    assert "covered_by" in shown
    assert "stock" not in shown
    assert "…" not in shown


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--sizes", "1000,many"], "give integers of at least 100"),
        (["--sizes", "99"], "give integers of at least 100"),
        (["--population", "martians"], "'martians' is none of stock, areas, sites, topics, mixed, advertisements"),
    ],
)
def test_bench_covering_refuses_nonsense(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(palio, ["bench", "covering", *arguments])
    assert result.exit_code == 2
    assert problem in " ".join(result.output.replace("│", "").split())


def test_the_studies_are_listed() -> None:
    listed = CliRunner().invoke(palio, ["lab", "list"])
    assert listed.exit_code == 0
    assert "siena-total-cost: What all messages cost" in listed.stdout
    document = json.loads(CliRunner().invoke(palio, ["lab", "list", "--json"]).stdout)
    assert sum(len(study["claims"]) for study in document["studies"]) == 21
    assert all(claim["predicate"] for study in document["studies"] for claim in study["claims"])
