"""Brokers side by side: messages a second, latencies, and what an idle connection costs.

Every broker runs as a process of its own; the load comes from compiled code in this one, over sockets of the loopback
interface, with the same payloads and as many messages in flight for all.
"""

from __future__ import annotations

import os
import resource
import socket
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from palio.bench import _load
from palio.bench.broker import cases
from palio.bench.broker.cases import Case
from palio.bench.broker.kinds import KINDS, Broker
from palio.bench.broker.processes import BrokerError, Running, ended_by_signal, running
from palio.bench.report import Figure, Report

_IDLE = Case("idle", 0, [], [], 0)
PACE_PER_SECOND = 1000
_MOST_BEHIND = 500
"""Paced messages that may be on their way; a broker for which there are more does not keep up."""
_PATIENCE = 20.0
"""Seconds without a delivery after which the rest counts as lost."""


class Pace(NamedTuple):
    """How long everything takes."""

    rounds: int
    flood_seconds: float
    paced_seconds: float
    subscribe_seconds: float
    """At most, for one case."""
    parties: int
    filters: int
    idle: int


USUAL = Pace(3, 3.0, 5.0, 60.0, 100, 10_000, 10_000)
QUICK = Pace(1, 1.0, 1.0, 10.0, 100, 10_000, 2000)


class Outcome(NamedTuple):
    """What the load generator says."""

    sent: int
    expected: int
    received: int
    seconds: float
    kept_up: bool
    p50_us: float
    p99_us: float


def run(brokers: Sequence[str], parts: Sequence[str], pace: Pace, progress: Callable[[str], None]) -> Report:
    """Measure those of the brokers that are there.

    A case that fails, because something was lost or the broker does not answer, has a row with the failure and no
    figures; the others go on.
    """
    chosen = [case for part, case in _cases(pace).items() if part in parts]
    results: list[dict[str, Figure]] = []
    notes = _company()
    for kind in [kind for kind in KINDS if kind.name in brokers]:
        reason = kind.missing()
        if reason is not None:
            notes.append(f"{kind.name}: left out, {reason}")
            continue
        groups = [_IDLE] if "idle" in parts and kind.has_idle else [], [case for case in chosen if _suits(case, kind)]
        with ended_by_signal():
            for group in filter(None, groups):  # idle connections have a process of their own, which is fresh
                results += _rows(kind, group, pace, notes, progress)
        notes += [
            f"{kind.name}, {case.name}: left out, it knows topics and not contents"
            for case in chosen
            if not _suits(case, kind)
        ]
    notes += [f"{row['broker']}, {row['case']}: failed, {row['failure']}" for row in results if row["failure"]]
    return Report("broker", results, notes)


def _company() -> list[str]:
    """Whether something else is at work: then latencies say more about that than about brokers."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return (
        [f"measured beside other work: a load of {load:.1f} on {cores} cores at the start"] if load > cores / 4 else []
    )


def _suits(case: Case, kind: Broker) -> bool:
    return kind.has_filters or not case.looks_at_content


def _rows(
    kind: Broker, group: Sequence[Case], pace: Pace, notes: list[str], progress: Callable[[str], None]
) -> Iterator[dict[str, Figure]]:
    """Cases at one process of a broker."""
    try:
        with _started(kind) as processes:
            for case in group:
                progress(f"{kind.name}, {case.name}")
                try:
                    if case is _IDLE:
                        yield _idle(kind, processes, pace.idle)
                    else:
                        yield _load_of(kind, processes, case, pace, notes)
                except (BrokerError, OSError) as error:
                    yield _row(case.name, kind, failure=str(error))
    except BrokerError as error:  # it does not start
        yield from (_row(case.name, kind, failure=str(error)) for case in group)


def _cases(pace: Pace) -> dict[str, Case]:
    return {
        "1:1": cases.fan_out(1, 10_000),
        "1:100": cases.fan_out(pace.parties, 1000),
        "filters": cases.match_heavy(pace.filters, pace.parties, 10_000),
    }


def _row(case: str, kind: Broker, **figures: Figure) -> dict[str, Figure]:
    keys = (
        *("parties", "filters", "payload_bytes", "in_flight", "messages_per_second", "deliveries_per_second"),
        *("processor_us", "p50_us", "p99_us", "connections", "bytes_per_connection", "failure"),
    )
    return {"case": case, "broker": kind.name, "version": kind.version(), **{key: figures.get(key) for key in keys}}


@contextmanager
def _started(kind: Broker) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="palio-bench-") as folder:
        Path(folder).chmod(0o755)  # some brokers change their user
        with running(Path(folder)) as processes:
            kind.start(processes)
            yield processes


def _load_of(kind: Broker, processes: Running, case: Case, pace: Pace, notes: list[str]) -> dict[str, Figure]:
    """Floods, and then a pace."""
    with ExitStack() as stack:

        def connect(name: str) -> socket.socket:
            return stack.enter_context(closing(kind.connect(processes.port, name)))

        parties = [connect(f"party-{i}") for i in range(case.parties)]
        understood = [kind.understood(each) for each in case.filters]
        known = kind.subscribe(parties, understood, pace.subscribe_seconds)
        if known < len(understood):
            notes.append(f"{kind.name}, {case.name}: only {known:,} of them, in {pace.subscribe_seconds:g} s")
        if understood != case.filters:
            notes.append(f"{kind.name}, {case.name}: without ranges, which it cannot be told; so more of them match")
        sockets = [connect("publisher"), *parties]
        made = cases.traffic(case, kind, understood[:known])
        generator = _load.Generator(kind.protocol, [each.fileno() for each in sockets], *made)
        row = _figures(generator, kind, case, pace, processes)
        kind.leave(parties)
    if row["p50_us"] is None:
        notes.append(f"{kind.name}, {case.name}: does not keep up with {PACE_PER_SECOND:,} messages a second")
    return row | {"filters": known}


def _figures(generator: _load.Generator, kind: Broker, case: Case, pace: Pace, processes: Running) -> dict[str, Figure]:
    def flood(seconds: float) -> Outcome:
        return _complete(generator.flood(seconds, case.in_flight, _PATIENCE), kind, case)

    flood(pace.flood_seconds / 4)  # to become warm
    spent = processes.processor_seconds()
    floods = [flood(pace.flood_seconds) for _ in range(pace.rounds)]
    spent = processes.processor_seconds() - spent
    paced = _complete(generator.pace(PACE_PER_SECOND, pace.paced_seconds, _MOST_BEHIND, _PATIENCE), kind, case)
    return _row(
        case.name,
        kind,
        parties=case.parties,
        payload_bytes=cases.PAYLOAD_BYTES,
        in_flight=case.in_flight,
        messages_per_second=statistics.median(each.sent / each.seconds for each in floods),
        deliveries_per_second=statistics.median(each.received / each.seconds for each in floods),
        processor_us=spent * 1e6 / sum(each.sent for each in floods),
        p50_us=paced.p50_us if paced.kept_up else None,
        p99_us=paced.p99_us if paced.kept_up else None,
    )


def _complete(told: tuple[int, int, int, float, bool, float, float], kind: Broker, case: Case) -> Outcome:
    """Nothing may be lost, and nothing may come twice."""
    outcome = Outcome(*told)
    if outcome.received != outcome.expected:
        raise BrokerError(
            f"{kind.name}, {case.name}: {outcome.received:,} of {outcome.expected:,} deliveries came, "
            f"of {outcome.sent:,} messages"
        )
    return outcome


def _idle(kind: Broker, processes: Running, connections: int) -> dict[str, Figure]:
    """What the processes of a broker grow by with so many connections that say nothing."""
    _allow_files(connections + 200)
    with ExitStack() as stack:
        kind.connect(processes.port, "first").close()
        before = processes.settled_memory()
        for i in range(connections):
            stack.enter_context(closing(kind.connect(processes.port, f"idle-{i}")))
        grown = processes.settled_memory() - before
    return _row("idle", kind, connections=connections, bytes_per_connection=grown / connections)


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise BrokerError(f"idle connections need {wanted:,} open files, the limit is {hard:,}; see ulimit -Hn")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
