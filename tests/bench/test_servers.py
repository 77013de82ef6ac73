"""The benchmarks of routing and of the simulator, on small scales."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from palio.bench import delegation, graphs, merging, routing, simulation
from palio.cli.main import palio


def test_routing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "_EVENTS", 50)
    for name, few in (("_SERVERS", 6), ("_PARTIES", 10), ("_PUBLICATIONS", 60)):
        monkeypatch.setattr(delegation, name, few)
    parts = ["--part", "tables,notifications", "--part", "patterns,merging"]
    result = CliRunner().invoke(palio, ["bench", "routing", *parts, "--sizes", "100,200", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["benchmark"] == "routing"
    rows = [row for row in report["results"] if row["told_share"] is None and row["delegation"] is None]
    tables = ["subscribe", "connect", "unsubscribe"] * 2 + ["subscribe", "hear"]
    assert [row["operation"] for row in rows if row["neighbours"]] == tables * len(routing.POPULATIONS)
    assert [row["neighbours"] for row in rows[: len(tables)]] == [2, 3, 3] * 2 + [16, 16]
    assert all(row["seconds"] > 0 for row in rows[: len(tables)])
    subscribed = [row for row in rows if row["operation"] == "subscribe" and row["neighbours"] == 2]
    assert [row["size"] for row in subscribed] == [100, 200] * len(routing.POPULATIONS)
    assert all(row["told"] > 0 and row["per_second"] > 0 for row in subscribed)
    assert all((row["times_half"] is None) == (row["size"] == 100) for row in subscribed)
    connected = [row for row in rows if row["operation"] == "connect"]
    assert all(0 < row["told"] <= before["told"] for row, before in zip(connected, subscribed, strict=True))
    monitored = [row for row in rows if row["operation"].startswith("publish,")]
    assert [row["operation"] for row in monitored] == ["publish, plain filters", "publish, patterns"] * 2
    assert all(row["per_second"] > 0 for row in monitored)
    published = [row for row in rows if not row["neighbours"] and row not in monitored]
    assert [row["operation"] for row in published] == ["match alone", "route", "publish at a node"] * 8
    assert all(row["of_matcher"] == 1 for row in published[::3])
    delegated = [row for row in report["results"] if row["delegation"] is not None]
    assert [row["delegation"] for row in delegated] == ["none", "whole", "groups"] * 3
    assert all(row["found_share"] == 1 for row in delegated if row["delegation"] != "groups")
    assert all(0 < row["carried_share"] <= 1 for row in delegated)
    assert delegated[1]["carried_share"] < 1


def test_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "FILTERED", (("gs", 6, 30), ("ga", 6, 30)))
    command = ["bench", "routing", "--part", "graphs", "--servers", "12,6"]
    result = CliRunner().invoke(palio, [*command, "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["results"]
    things = ["start", "link fails", "server dies"]
    assert [row["operation"] for row in rows] == [*things, *things, "link fails, gs", "link fails, ga"]
    assert [row["servers"] for row in rows] == [6, 6, 5, 12, 12, 11, 6, 6]
    assert [row["links"] for row in rows[:2]] == [12, 11]
    for row in rows:
        assert row["accounts"] > 0
        assert 0 < row["milliseconds"] < 1000
        assert row["processor_seconds"] > 0
    for row in rows[:6]:
        assert row["of_least"] >= 1
        assert row["accounts_per_link"] == row["accounts"] / row["links"]
    assert all(row["filters_told"] > 0 for row in rows[6:])
    table = CliRunner().invoke(palio, command)
    assert "server dies" in table.stdout
    wrong = CliRunner().invoke(palio, ["bench", "routing", "--servers", "3"])
    assert "no list of numbers from 5" in wrong.output
    wrong = CliRunner().invoke(palio, ["bench", "routing", "--part", "nothing"])
    assert "is none of tables, notifications" in wrong.output.replace("\n", " ")


def test_merging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_EVENTS", 200)
    rows = list(merging.rows(400, merging.POPULATIONS, lambda _: None))
    arrivals = ("connect", "one by one", "in batches")
    assert len(rows) == len(merging.POPULATIONS) * len(merging.MODES) * len(arrivals)
    figures = {(row["population"], row["operation"]): row for row in rows}
    for population in merging.POPULATIONS:
        for arrival in arrivals:
            modes = {mode: figures[population, f"{arrival}, {mode}"] for mode in merging.MODES}
            alone, perfect, compressed = (modes[mode] for mode in ("covering", "perfect", "compressed"))
            assert alone["in_vain"] == perfect["in_vain"] == compressed["in_vain"] == 0
            assert all(0 < row["held_share"] <= alone["held_share"] <= 1 for row in modes.values())
            assert compressed["told"] == alone["told"]
    assert figures["stock", "connect, perfect"]["told"] < figures["stock", "connect, covering"]["told"]
    for arrival in arrivals:
        assert (
            figures["stock", f"{arrival}, perfect"]["held_share"]
            < figures["stock", f"{arrival}, covering"]["held_share"]
        )


def test_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "SCENARIOS", (simulation.Scenario(4, 20, 30),))
    result = CliRunner().invoke(palio, ["bench", "sim", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["results"]
    assert [row["phase"] for row in rows] == ["connect", "subscribe", "publish"] * 5
    delivered = {row["architecture"]: row["deliveries"] for row in rows if row["phase"] == "publish"}
    assert all(count > 0 for count in delivered.values())
    between = {row["architecture"]: row["server_messages"] for row in rows if row["phase"] == "publish"}
    assert between["ce"] == 0
    assert between["nf"] == 30 * 3
    table = CliRunner().invoke(palio, ["bench", "sim"])
    assert "messages/s" in table.stdout
