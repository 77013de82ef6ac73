"""Sweeps on Spark: every run once, whatever happens; metrics of traces as they are added up on the way."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from palio.cli.main import palio
from palio.lab import metrics, siena
from palio.lab.graph_files import write_dot
from palio.lab.play import Play
from palio.lab.study import Experiment, Setting
from palio.lab.sweep import Standing, Sweep, measured, pack, runs_table, traces_table
from palio.lab.tally import METRICS
from palio.lab.topology import TransitStub, transit_stub
from palio.lab.work import key_of, number_of, results_file

NETWORK = transit_stub(1, TransitStub(transit_nodes=2, stubs=1, stub_nodes=3))
SETTINGS = tuple(
    Setting(each, 2, 3, publications=2, notifications=2, object_cycles=1, party_cycles=1)
    for each in ("ce", "hs", "as", "aa")
)
SMALL = Experiment("small", SETTINGS, 2)


def test_every_run_is_done_once(session: SparkSession, tmp_path: Path) -> None:
    told: list[Standing] = []
    half = Sweep((SMALL._replace(settings=SETTINGS[:2]),), NETWORK, str(tmp_path)).run(session)
    assert (half.done, half.skipped, half.failed) == (4, 0, ())
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert len(files) == 4
    sweep = Sweep((SMALL,), NETWORK, str(tmp_path))
    whole = sweep.run(session, told.append)
    assert (whole.done, whole.skipped, whole.failed) == (4, 4, ())
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert (told[0], told[-1]) == (Standing(4, 8, 0.0), Standing(8, 8, 1.0))
    assert all(4 <= each.done <= each.runs == 8 and 0 <= each.share <= 1 for each in told)
    again = sweep.run(session)
    assert (again.done, again.skipped) == (0, 8)
    assert not [path for path in tmp_path.rglob(".*") if path.name.endswith("parquet")]


def test_an_interrupted_sweep_cancels_its_own_jobs_only(session: SparkSession, tmp_path: Path) -> None:
    """PySpark's own handler of the signal cancels all jobs."""
    handler = signal.getsignal(signal.SIGINT)
    assert getattr(handler, "__module__", "").startswith("pyspark.")

    def interrupt(standing: Standing) -> None:
        if standing.share < 1.0 and other.running():
            signal.raise_signal(signal.SIGINT)

    def wait(rows: Iterator[int]) -> Iterator[int]:
        time.sleep(3.0)
        return rows

    long = Experiment("long", (Setting("as", 40, 40, publications=50, notifications=50),), 40)
    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(session.sparkContext.parallelize(range(4), 4).mapPartitions(wait).collect)
        with pytest.raises(KeyboardInterrupt):
            Sweep((long,), NETWORK, str(tmp_path)).run(session, interrupt_later(interrupt))
        assert other.result(60) == [0, 1, 2, 3]
    assert not session.sparkContext.statusTracker().getActiveJobsIds()
    assert signal.getsignal(signal.SIGINT) is handler
    assert len([*tmp_path.rglob("*.parquet")]) < 40


def interrupt_later(then: Callable[[Standing], None]) -> Callable[[Standing], None]:
    """The first call comes before the sweep has begun."""
    calls: list[Standing] = []

    def told(standing: Standing) -> None:
        calls.append(standing)
        if len(calls) > 1:
            then(standing)

    return told


def test_results_do_not_depend_on_how_runs_are_spread(session: SparkSession, tmp_path: Path) -> None:
    for name in ("one", "other"):
        sweep = Sweep((SMALL,), NETWORK, str(tmp_path / name), longest_trace=1_000)
        if name == "other":  # one after the other
            for setting in SETTINGS:
                sweep._replace(experiments=(SMALL._replace(settings=(setting,)),)).run(session)
        sweep.run(session)
    one, other = (
        {row["run"]: row.asDict() | {"seconds": 0} for row in runs_table(session, tmp_path / name).collect()}
        for name in ("one", "other")
    )
    assert one == other
    results = measured(session, Sweep((SMALL,), NETWORK, str(tmp_path / "one")))
    assert (
        len(measured(session, Sweep((SMALL._replace(repetitions=1),), NETWORK, str(tmp_path / "one"))).select("small"))
        == 4
    )
    assert len(results.values("small", "cost", architecture="as")) == 2
    assert set(results.select("small")[0].sites) == set(NETWORK.names)


def test_what_goes_wrong_is_told_and_tried_again(session: SparkSession, tmp_path: Path) -> None:
    bad = Setting("as", -1, 3)
    sweep = Sweep((SMALL._replace(settings=(*SETTINGS[:1], bad)),), NETWORK, str(tmp_path))
    swept = sweep.run(session)
    assert swept.done == 2
    assert len(swept.failed) == 2
    assert all("objects, number: -1 is below 0" in str(outcome.problem) for outcome in swept.failed)
    assert "architecture=as" in swept.failed[0].run
    assert len(sweep.run(session).failed) == 2


def test_metrics_of_traces_are_those_that_are_added_up(session: SparkSession, tmp_path: Path) -> None:
    Sweep((SMALL,), NETWORK, str(tmp_path), longest_trace=1_000).run(session)
    traces, runs = traces_table(session, tmp_path), runs_table(session, tmp_path)
    figures = {row["run"]: row for row in metrics.figures(traces, len(NETWORK.names)).collect()}
    added = {row["run"]: row for row in runs.collect()}
    assert figures.keys() == added.keys()
    for name, row in added.items():
        assert {metric: figures[name][metric] for metric in METRICS} == pytest.approx(
            {metric: row[metric] for metric in METRICS}
        )
    run = next(SMALL.runs())
    entries = Play(run.scenario(NETWORK), run.seed).run()
    mine = traces.where(traces["run"] == number_of(run.name))
    assert mine.count() == len(entries)
    total = metrics.totals(mine).collect()[0]
    assert (total["messages"], total["cost"]) == (len(entries), sum(entry.cost for entry in entries))
    sites = {row["site"]: row["cost"] for row in metrics.per_site(mine).collect()}
    for site in NETWORK.names:
        assert sites.get(site, 0) == sum(e.cost for e in entries if site in (e.source_site, e.destination_site))
    links = {(row["one"], row["other"]): row["messages"] for row in metrics.per_link(mine).collect()}
    assert sum(links.values()) == sum(entry.source_site != entry.destination_site for entry in entries)
    types = {row["type"]: row["messages"] for row in metrics.per_type(mine).collect()}
    assert types["publish"] == 4
    services = {row["service_id"]: row for row in metrics.per_service(mine).collect()}
    assert {services[entry.service_id]["kind"] for entry in entries} <= {
        "advertise",
        "publish",
        "unadvertise",
        "subscribe",
        "unsubscribe",
    }


def test_a_trace_that_is_too_long_is_left_out_as_a_whole(session: SparkSession, tmp_path: Path) -> None:
    run = next(SMALL.runs())
    messages = len(Play(run.scenario(NETWORK), run.seed).run())
    one = (Experiment("small", SETTINGS[:1], 1),)
    for longest, kept in ((messages - 1, 0), (messages, messages)):
        sweep = Sweep(one, NETWORK, str(tmp_path / str(longest)), longest)
        assert sweep.run(session).done == 1
        assert traces_table(session, sweep.out).count() == kept
        assert runs_table(session, sweep.out).collect()[0]["messages"] == messages
        assert sweep.run(session).skipped == 1


def test_traces_that_are_wanted_later_are_made_later(session: SparkSession, tmp_path: Path) -> None:
    sweep = Sweep((SMALL,), NETWORK, str(tmp_path))
    assert sweep.run(session).done == 8
    assert sweep._replace(longest_trace=1_000).run(session).done == 8
    assert traces_table(session, tmp_path).select("run").distinct().count() == 8


def test_another_network_is_another_study(session: SparkSession, tmp_path: Path) -> None:
    usual = Sweep((SMALL,), NETWORK, str(tmp_path))
    poisson = Sweep((SMALL.under("other", is_poisson=True),), NETWORK, str(tmp_path))
    assert usual.run(session).done == poisson.run(session).done == 8
    costs = [measured(session, sweep).values("small", "cost", architecture="as") for sweep in (usual, poisson)]
    assert costs[0] != costs[1]
    assert {row["network"] for row in runs_table(session, tmp_path).collect()} == {"transit-stub:1", "other"}


def test_long_runs_come_first_and_alone() -> None:
    settings = [Setting("hs", 1_000, 10), Setting("as", 1, 1), Setting("ce", 1, 1), Setting("as", 1, 10_000)]
    tasks = pack(list(Experiment("x", tuple(settings), 1).runs()))
    assert [[run.setting.architecture for run in task] for task in tasks] == [["as"], ["hs"], ["as", "ce"]]


def test_files_are_named_by_what_a_run_is() -> None:
    one, other = list(SMALL.runs())[:2]
    assert key_of(one) != key_of(other)
    assert results_file("out", one).parts[:3] == ("out", "runs", "experiment=small")


FEW = tuple(
    Setting(each, objects, parties, publications=2, notifications=2, object_cycles=1, party_cycles=1)
    for each in siena.ARCHITECTURES
    for objects in (1, 100)
    for parties in (1, 200)
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid and a network that take seconds."""
    monkeypatch.setattr(siena, "experiments", lambda *, quick: (Experiment("siena", FEW, 1),))


@pytest.mark.usefixtures("session", "few")
def test_verify_and_run_from_the_shell(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path), "--master", "local[2]"]
    done = CliRunner().invoke(palio, ["lab", "run", "siena-site-load", *out, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["done"] == len(FEW)
    assert f"{len(FEW)} of {len(FEW)} runs, 100% of the work" in done.stderr
    shown = CliRunner().invoke(palio, ["lab", "verify", "siena-site-load", "siena-notification-cost", *out, "--json"])
    assert shown.exit_code == 0, shown.output
    claims = json.loads(shown.stdout)["claims"]
    assert {"study", "claim", "predicate", "figure", "holds"} <= claims[0].keys()
    assert [claim["claim"] for claim in claims[:3]] == ["hierarchy-even-at-few", "peers-even-at-many", "worst-site"]
    assert all(isinstance(claim["holds"], bool) and claim["figure"] for claim in claims[:3])
    assert claims[-1] == claims[-1] | {"claim": "one-notification", "figure": None, "holds": None}
    told = CliRunner().invoke(palio, ["lab", "verify", "siena-site-load", *out])
    assert "of 3 claims hold" in told.stdout
    assert told.stdout.count("predicate: ") == told.stdout.count("figure: ") == 3
    assert "\nsiena-site-load\n" in told.stdout
    again = CliRunner().invoke(palio, ["lab", "run", *out])
    assert f"0 runs done, {len(FEW)} were done before, 0 failed" in again.stdout


@pytest.mark.usefixtures("session", "few")
def test_report_from_the_shell(tmp_path: Path) -> None:
    runs, out = str(tmp_path / "runs"), tmp_path / "report"
    where = ["siena-site-load", "--master", "local[2]"]
    assert CliRunner().invoke(palio, ["lab", "verify", *where, "--out", runs]).exit_code == 0
    files = sorted((tmp_path / "runs").rglob("*.parquet"))
    assert len(files) == len(FEW)
    made = CliRunner().invoke(palio, ["lab", "report", *where, "--runs", runs, "--out", str(out), "--json"])
    assert made.exit_code == 0, made.output
    document = json.loads(made.stdout)
    assert sorted((tmp_path / "runs").rglob("*.parquet")) == files
    assert document["report"] == str(out / "index.html")
    names = ["site-deviation-1", "site-deviation-100", "worst-site-1", "worst-site-100"]
    assert document["figures"] == [str(out / "figures" / f"{name}.svg") for name in names]
    assert all(Path(path).is_file() for path in document["figures"])
    assert {"claims": document["claims"]} == json.loads((out / "claims.json").read_bytes())
    verified = CliRunner().invoke(palio, ["lab", "verify", *where, "--out", runs, "--json"])
    assert json.loads(verified.stdout)["claims"] == document["claims"]
    shown = CliRunner().invoke(palio, ["lab", "report", *where, "--runs", runs, "--out", str(out)])
    assert f"{out / 'index.html'}: 4 figures" in shown.stdout
    assert "of 3 claims hold" in shown.stdout


@pytest.mark.usefixtures("session", "few")
def test_a_report_without_matplotlib_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("palio.lab.drawing", "palio.lab.report"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    runs = tmp_path / "runs"
    refused = CliRunner().invoke(palio, ["lab", "report", "--runs", str(runs), "--out", str(tmp_path / "report")])
    assert refused.exit_code == 1
    assert "install Palio with the extra palio[lab]" in " ".join(refused.output.split())
    assert not runs.exists()


def test_what_is_no_study_is_refused(session: SparkSession) -> None:
    refused = CliRunner().invoke(palio, ["lab", "run", "sienna"])
    assert refused.exit_code == 1
    assert "'sienna' is none of siena-total-cost" in refused.output


def test_a_run_that_fails_is_told_in_the_shell(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siena, "experiments", lambda *, quick: (Experiment("siena", (Setting("as", -1, 1),), 1),))
    failed = CliRunner().invoke(palio, ["lab", "run", "--out", str(tmp_path)])
    assert failed.exit_code == 1
    assert "objects, number: -1 is below 0" in failed.stderr
    assert "0 runs done, 0 were done before, 1 failed" in failed.stdout
    unjudged = CliRunner().invoke(palio, ["lab", "verify", "--out", str(tmp_path)])
    assert unjudged.exit_code == 1
    assert "1 runs failed; claims are judged by all" in unjudged.stderr


def test_claims_are_not_judged_on_networks_of_another_size(session: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "small.dot"
    path.write_text(write_dot(NETWORK))
    refused = CliRunner().invoke(palio, ["lab", "verify", "--network", str(path), "--out", str(tmp_path)])
    assert refused.exit_code == 1
    assert "the claims are about 100 sites, and it has 8" in refused.stderr
