"""The benchmark of brokers, on small scales."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from palio.bench import broker
from palio.bench.broker import cases, kinds, processes
from palio.bench.broker.cases import Case
from palio.bench.broker.processes import BrokerError, running
from palio.cli.main import palio

TINY = broker.Pace(
    rounds=1, flood_seconds=0.1, paced_seconds=0.2, subscribe_seconds=20.0, parties=3, filters=300, idle=20
)


def _run(*options: str) -> dict[str, list[dict[str, object]]]:
    result = CliRunner().invoke(palio, ["bench", "broker", "--quick", "--json", *options])
    assert result.exit_code == 0, result.output
    report: dict[str, list[dict[str, object]]] = json.loads(result.stdout)
    return report


def _check(rows: list[dict[str, object]], installed: list[kinds.Broker]) -> None:
    expected = [
        (case, each.name)
        for each in installed
        for case in ("idle", "1:1", "1:3", "filters")
        if (case != "idle" or each.has_idle) and (case != "filters" or each.has_filters)
    ]
    assert [(row["case"], row["broker"]) for row in rows] == expected
    for row in rows:
        assert row.keys() == rows[0].keys()
        assert row["failure"] is None
        if row["case"] == "idle":
            assert row["connections"] == 20
            assert isinstance(row["bytes_per_connection"], float)
            continue
        rates = row["messages_per_second"], row["deliveries_per_second"], row["processor_us"]
        assert all(isinstance(rate, float) and rate >= 0 for rate in rates)
        assert row["filters"] == {"1:1": 1, "1:3": 3, "filters": 300}[str(row["case"])]
        if row["p50_us"] is not None:
            assert 0 < row["p50_us"] <= row["p99_us"]  # type: ignore[operator]


def test_all_brokers_that_are_here_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "QUICK", TINY)
    report = _run()
    assert report["benchmark"] == "broker"
    assert "machine" in report
    installed = [each for each in kinds.KINDS if each.missing() is None]
    assert {"palio", "copy"} <= {each.name for each in installed}
    _check(report["results"], installed)
    assert "copy, filters: left out, it knows topics and not contents" in report["notes"]


def test_brokers_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "QUICK", TINY)
    monkeypatch.setattr(kinds, "find", lambda *programs: None)
    report = _run("--part", "1:1")
    assert [row["broker"] for row in report["results"]] == ["palio", "copy"]
    assert [note for note in report.get("notes", []) if "left out" in note] == [
        "mosquitto: left out, mosquitto is not installed",
        "nats: left out, nats-server is not installed",
        "rabbitmq: left out, rabbitmq-server is not installed",
    ]
    alone = CliRunner().invoke(palio, ["bench", "broker", "--broker", "nats"])
    assert alone.exit_code == 1
    assert "nats-server is not installed" in alone.output


@pytest.mark.parametrize(("load", "is_said"), [(0.0, False), (99.0, True)])
def test_other_work_is_told_of(load: float, is_said: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    notes = broker.run([], [], TINY, lambda step: None).notes
    assert any("a load of 99.0" in note for note in notes) == is_said


def test_tables_fit_and_say_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "QUICK", TINY)
    result = CliRunner().invoke(palio, ["bench", "broker", "--quick", "--broker", "copy,palio", "--part", "1:100,idle"])
    assert result.exit_code == 0, result.output
    assert "1:3" in result.stdout
    assert "deliveries/s" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_what_is_lost_or_comes_twice_is_a_failure() -> None:
    case = cases.fan_out(1, 10)
    assert broker._complete((9, 9, 9, 1.0, True, 0.0, 0.0), kinds.KINDS[0], case).sent == 9
    for received in (8, 10):
        with pytest.raises(BrokerError, match=f"palio, 1:1: {received} of 9 deliveries came"):
            broker._complete((9, 9, received, 1.0, True, 0.0, 0.0), kinds.KINDS[0], case)


def test_cases_that_fail_are_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "QUICK", TINY)

    def refuse(*_given: object) -> int:
        raise BrokerError("no more filters")

    monkeypatch.setattr(kinds.Palio, "subscribe", refuse)
    result = CliRunner().invoke(
        palio, ["bench", "broker", "--quick", "--json", "--broker", "palio,copy", "--part", "idle,1:1"]
    )
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert [row["failure"] for row in report["results"]] == [None, "no more filters", None]
    assert report["results"][1]["messages_per_second"] is None
    assert report["notes"][-1] == "palio, 1:1: failed, no more filters"


def test_a_broker_that_does_not_start_has_failed_in_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "QUICK", TINY)

    def start(_kind: kinds.Broker, started: processes.Running) -> None:
        started.start([sys.executable, "-c", "import sys; sys.exit('no way')"])
        started.wait()

    monkeypatch.setattr(kinds.Copy, "start", start)
    report = _run("--broker", "copy", "--part", "1:1,1:100")
    assert [row["case"] for row in report["results"]] == ["1:1", "1:3"]
    assert all("no way" in str(row["failure"]) for row in report["results"])


def test_a_process_that_does_not_listen_is_an_error(tmp_path: Path) -> None:
    with running(tmp_path) as broken:
        broken.start([sys.executable, "-c", "import sys; sys.exit('no way')"])
        with pytest.raises(BrokerError, match="does not listen; it says: no way"):
            broken.wait()


def test_nothing_stays_behind_when_the_benchmark_is_told_to_end() -> None:
    command = [sys.executable, "-m", "palio", "bench", "broker", "--broker", "palio", "--part", "1:1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        servers: list[int] = []
        deadline = time.monotonic() + 60
        while not servers:
            assert time.monotonic() < deadline
            assert process.poll() is None
            servers = list(processes._family(process.pid))[1:]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    for server in servers:
        with pytest.raises(ProcessLookupError):
            os.kill(server, 0)


def test_filters_of_other_brokers_are_what_they_can_be_told() -> None:
    case: Case = cases.match_heavy(50, 5, 100)
    rabbitmq = next(each for each in kinds.KINDS if each.name == "rabbitmq")
    understood = [rabbitmq.understood(each) for each in case.filters]
    assert all(len(each) == 2 for each in understood)
    assert all(short.covers(long) for short, long in zip(understood, case.filters, strict=True))
    made = cases.traffic(case, rabbitmq, understood)
    by_hand = [
        len({i % 5 for i, each in enumerate(understood) if each.matches(event)})
        for event in case.publications[: len(made.deliveries)]
    ]
    assert made.deliveries == by_hand
    assert made.deliveries[-1] > 0
    assert made.ends[-1] == len(made.block)
