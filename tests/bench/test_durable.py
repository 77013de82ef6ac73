"""The benchmark of servers with a store, with sizes that show that it works and nothing else."""

from __future__ import annotations

import socket

import pytest

from palio.bench import _load
from palio.bench.broker import durable
from palio.bench.report import Report
from palio.cli.bench_tables import DURABLE_TABLES, print_report
from palio.codec import frames
from palio.model import Mode, Notification

TINY = durable.Pace(1, 0.2, 3, 300, 300)


@pytest.mark.parametrize("flood", durable._floods(TINY)[2:4] + durable._floods(TINY)[6:7], ids=lambda flood: flood.name)
def test_publications_are_accepted_and_delivered(flood: durable._Flood) -> None:
    row = flood.run(TINY)
    assert row["failure"] is None
    assert row["mode"] == ("synced" if flood.is_durable else "memory")
    assert float(row["publications_per_second"] or 0) > 0
    assert 0 < float(row["p50_us"] or 0) <= float(row["p99_us"] or 0)


def test_replay_restart_and_disk() -> None:
    assert durable._replay(TINY)["stored"] == 300
    assert 0 < float(durable._restart(TINY)["seconds"] or 0) < 60
    assert float(durable._disk(TINY)["p50_us"] or 0) > 0


def test_all_of_it_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        durable._row("one by one", mode="synced", in_flight=1, p50_us=7.0),
        durable._row("restart", stored=300, seconds=0.5),
        durable._row("disk", p50_us=3.0, per_second=4.0),
    ]
    print_report(Report("durable", rows), False, DURABLE_TABLES)
    first, second = capsys.readouterr().out.split(" a second")
    assert [word in first for word in ("one by one", "restart", "disk")] == [True, False, True]
    assert [word in second for word in ("one by one", "restart", "disk")] == [False, True, True]


def test_the_generator_counts_acknowledges_and_times() -> None:
    """A server that accepts everything in one go, and delivers it to one party."""
    ours, publisher = socket.socketpair()
    theirs, party = socket.socketpair()
    made = frames.publish(Notification(x=1), 0)
    generator = _load.DurableGenerator([publisher.fileno(), party.fileno()], [0, 40], [made])
    ours.sendall(frames.accepted(3, Mode.SYNCED))
    theirs.sendall(frames.frame(frames.DELIVER, b"\0\0x") * 3)
    sent, accepted, received, *_, p50, _ = generator.flood(10.0, 3, 3, 1, 10.0)
    assert (sent, accepted, received) == (3, 3, 3)
    assert p50 > 0
    numbers = [number for number, _ in frames.publications_of(ours.recv(1 << 16))]
    assert numbers == [1, 2, 3]
    said = [frames.acknowledged(content) for _, content in frames.frames_of(theirs.recv(1 << 16))]
    assert said[-1] == 42
    for each in (ours, publisher, theirs, party):
        each.close()


def test_the_generator_fails_when_the_server_refuses() -> None:
    ours, publisher = socket.socketpair()
    generator = _load.DurableGenerator([publisher.fileno()], [0], [frames.publish(Notification(x=1), 0)])
    ours.sendall(frames.frame(0x03, b"\x92\xa4full\xa4no!!"))
    with pytest.raises(_load.LoadError, match="full"):
        generator.flood(10.0, 3, 3, 0, 10.0)
    ours.close()
    publisher.close()
