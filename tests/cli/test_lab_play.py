"""Scenario files played from the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio
from palio.lab.scenario_text import read_scenario
from palio.lab.work import TRACE

SPECIFICATION = """#define OBJECTS 2
servers = acyclic sub_fwd;
objects { event = "A"; number = OBJECTS; pub/adv = 3; time/pub = 2000~2500; cycles = 2; };
parties { pattern = "A"; number = PARTIES; notif/sub = 2; cycles = 1; init_delay = 2000~2500; };
"""


def play(*arguments: str | Path) -> Result:
    return CliRunner().invoke(palio, ["lab", "play", *map(str, arguments)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.scenario"
    path.write_text(SPECIFICATION)
    return path


def test_a_specification_and_what_it_is_expanded_to_cost_the_same(file: Path, tmp_path: Path) -> None:
    macros = ("-D", "PARTIES=5", "--network", "waxman:3", "--seed", "7")
    figures = json.loads(play(file, *macros, "--json").stdout)
    assert figures["services"] == 2 * 2 * 5 + 5 * 2
    expanded = tmp_path / "expanded.scenario"
    assert play(file, *macros, "--expand", expanded).exit_code == 0
    assert len(read_scenario(expanded.read_text()).servers) == 100
    assert json.loads(play(expanded, "--seed", "7", "--json").stdout) == figures
    assert json.loads(play(file, *macros[:-1], "8", "--json").stdout) != figures
    assert f"{figures['cost']:,.2f}" in play(file, *macros).stdout


def test_a_trace_is_kept_when_asked_for(file: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.parquet"
    figures = json.loads(play(file, "-D", "PARTIES=5", "--trace", trace, "--json").stdout)
    table = pq.read_table(trace)
    assert table.schema.equals(TRACE)
    assert len(table) == figures["messages"]
    assert sum(table["cost"].to_pylist()) == figures["cost"]


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        (SPECIFICATION, [], "some.scenario: line 4: number: 'PARTIES' is no number; is a macro missing?"),
        (SPECIFICATION, ["-D", "PARTIES"], "'PARTIES' is not NAME=VALUE"),
        (SPECIFICATION, ["-D", "PARTIES=1", "--network", "ring"], "network: 'ring' is none"),
        ("sites:\n    s0 - s1 = x;", [], "some.scenario: line 2"),
        ("\0\udcff", [], "it is no text"),
    ],
)
def test_what_cannot_be_played_is_refused(file: Path, text: str, options: list[str], told: str) -> None:
    file.write_text(text, errors="surrogateescape")
    refused = play(file, *options)
    assert refused.exit_code != 0
    assert told in refused.output
