"""A server with a store: publications that are on disk before they are acknowledged, durable parties, replay, restart.

The same load without a store is the baseline, in the same run; what the disk takes for a write is measured, too.
"""

from __future__ import annotations

import os
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from palio.bench import _load
from palio.bench.broker import cases
from palio.bench.broker.kinds import TOPIC, Palio
from palio.bench.broker.processes import HOST, BrokerError, Running, ended_by_signal, exactly, free_port, running
from palio.bench.report import Figure, Report
from palio.codec import control, frames
from palio.codec.control import VERSION, Durable, Hello, Position, Welcome
from palio.model import Filter, Mode, Notification

_PATIENCE = 60.0
_ANY = 1 << 62
_LOG_NUMBER = 0
_PUBLICATIONS = 1000
"""Different ones, which are sent again and again."""
_WRITES = 200
_WRITE_BYTES = 1 << 18
_NEVER = 7 * 86_400


class Pace(NamedTuple):
    """How long everything takes."""

    rounds: int
    seconds: float
    parties: int
    replayed: int
    stored: int
    """Messages that a server is started with."""


USUAL = Pace(3, 4.0, 100, 1_000_000, 10_000_000)
QUICK = Pace(1, 1.5, 100, 200_000, 500_000)


class Outcome(NamedTuple):
    """What the load generator says."""

    sent: int
    accepted: int
    received: int
    seconds: float
    all_seconds: float
    p50_us: float
    p99_us: float


def run(pace: Pace, progress: Callable[[str], None]) -> Report:
    """All cases; one in which something is lost has failed and has no figures."""
    chosen: list[tuple[str, Callable[[Pace], dict[str, Figure]]]] = [(each.name, each.run) for each in _floods(pace)]
    chosen += [("replay", _replay), ("restart", _restart), ("disk", _disk)]
    results: list[dict[str, Figure]] = []
    with ended_by_signal():
        for name, measure in chosen:
            progress(name)
            try:
                results.append(measure(pace))
            except (BrokerError, OSError) as error:
                results.append(_row(name, failure=str(error)))
    notes = [f"{row['case']}: failed, {row['failure']}" for row in results if row["failure"]]
    return Report("broker --durable", results, notes)


def _row(case: str, **figures: Figure) -> dict[str, Figure]:
    keys = (
        *("mode", "parties", "in_flight", "publications_per_second", "deliveries_per_second", "p50_us", "p99_us"),
        *("lag_ms", "stored", "seconds", "per_second", "failure"),
    )
    return {"case": case, **{key: figures.get(key) for key in keys}}


class _Server(Palio):
    """A server with or without a store, whose parties are durable or not."""

    def __init__(self, *, is_durable: bool) -> None:
        self.is_durable = is_durable
        self.http = free_port()

    def start(self, running: Running) -> None:
        """With a port for figures."""
        store = f'[store]\npath = "bench.db"\nkeep_seconds = {_NEVER}\n[durable]\ncount = 100_000_000\n'
        path = running.folder / "palio.toml"
        path.write_text(
            f'server = "bench"\nport = {running.port}\n[connections]\nping_seconds = 600.0\n'
            f"[http]\nport = {self.http}\n" + (store if self.is_durable else "")
        )
        running.start([sys.executable, "-m", "palio", "serve", "--config", str(path)])
        running.wait()

    def party(self, port: int, name: str) -> tuple[socket.socket, int]:
        """A party that is durable if the server can do that; and the number of its first delivery."""
        if not self.is_durable:
            return self.connect(port, name), 0
        stream = socket.create_connection((HOST, port), timeout=_PATIENCE)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.sendall(control.encode(Hello((VERSION,), "party", name, durable=Durable(window=1 << 20))))
        welcome, position = self._next(stream), self._next(stream)
        if not isinstance(welcome, Welcome) or not isinstance(position, Position):
            raise BrokerError(f"no welcome and position but {welcome}, {position}")
        return stream, position.first

    def lag_ms(self) -> float:
        """How late the server's loop was at worst since the last look."""
        with urllib.request.urlopen(f"http://{HOST}:{self.http}/metrics", timeout=_PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) * 1e3 for line in lines if line.startswith("palio_loop_lag_seconds "))


@contextmanager
def _serving(*, is_durable: bool) -> Iterator[tuple[_Server, Running]]:
    with tempfile.TemporaryDirectory(prefix="palio-bench-") as folder, running(Path(folder)) as processes:
        server = _Server(is_durable=is_durable)
        server.start(processes)
        yield server, processes


def _publications() -> list[bytes]:
    random = Random("payloads")  # noqa: S311 (no secrets)
    made = [Notification(topic=TOPIC).with_payload(random.randbytes(cases.PAYLOAD_BYTES)) for _ in range(_PUBLICATIONS)]
    return [frames.publish(each, _LOG_NUMBER) for each in made]


class _Flood(NamedTuple):
    """One publisher, who waits for so many acknowledgements at most."""

    name: str
    parties: int
    in_flight: int
    is_durable: bool

    def run(self, pace: Pace) -> dict[str, Figure]:
        """Several times, after a short one to become warm."""
        with _serving(is_durable=self.is_durable) as (server, processes), ExitStack() as stack:
            generator = _generator(server, processes, self.parties, stack)

            def flood(seconds: float) -> Outcome:
                told = Outcome(*generator.flood(seconds, _ANY, self.in_flight, self.parties, _PATIENCE))
                if told.accepted != told.sent or told.received != told.sent * self.parties:
                    raise BrokerError(f"of {told.sent:,} sent, {told.accepted:,} were accepted, {told.received:,} came")
                return told

            flood(pace.seconds / 4)
            server.lag_ms()
            floods = [flood(pace.seconds) for _ in range(pace.rounds)]
            lag = server.lag_ms()
        return _row(
            self.name,
            mode=(Mode.SYNCED if self.is_durable else Mode.MEMORY).value,
            parties=self.parties,
            in_flight=self.in_flight,
            publications_per_second=statistics.median(each.accepted / each.seconds for each in floods),
            deliveries_per_second=statistics.median(each.received / each.all_seconds for each in floods),
            p50_us=statistics.median(each.p50_us for each in floods),
            p99_us=statistics.median(each.p99_us for each in floods),
            lag_ms=lag,
        )


def _floods(pace: Pace) -> list[_Flood]:
    shapes = [
        ("one by one, 1:1", 1, 1),
        ("pipelined, 1:1", 1, 1000),
        (f"one by one, 1:{pace.parties}", pace.parties, 1),
    ]
    shapes.append((f"pipelined, 1:{pace.parties}", pace.parties, 300))
    return [_Flood(*shape, is_durable) for shape in shapes for is_durable in (True, False)]


def _generator(server: _Server, processes: Running, parties: int, stack: ExitStack) -> _load.DurableGenerator:
    """Parties that want everything, and a publisher."""
    sockets, first = [server.connect(processes.port, "publisher")], [0]
    for number in range(parties):
        stream, begin = server.party(processes.port, f"party-{number}")
        sockets.append(stream)
        first.append(begin)
    for each in sockets:
        stack.enter_context(closing(each))
    server.subscribe(sockets[1:], [Filter.parse(f'topic = "{TOPIC}"')] * parties, _PATIENCE)
    return _load.DurableGenerator([each.fileno() for each in sockets], first, _publications(), server.is_durable)


def _fill(server: _Server, processes: Running, count: int) -> None:
    """A durable party subscribes and goes; then so much is published."""
    party, _ = server.party(processes.port, "reader")
    server.subscribe([party], [Filter.parse(f'topic = "{TOPIC}"')], _PATIENCE)
    party.close()
    with closing(server.connect(processes.port, "publisher")) as publisher:
        generator = _load.DurableGenerator([publisher.fileno()], [0], _publications())
        told = Outcome(*generator.flood(_PATIENCE * 10, count, 10_000, 0, _PATIENCE))
    if told.accepted != count:
        raise BrokerError(f"{told.accepted:,} of {count:,} publications were accepted")


def _replay(pace: Pace) -> dict[str, Figure]:
    """How fast a party gets what waits for it."""
    with _serving(is_durable=True) as (server, processes):
        _fill(server, processes, pace.replayed)
        stream, first = server.party(processes.port, "reader")
        with closing(stream), closing(server.connect(processes.port, "publisher")) as publisher:
            generator = _load.DurableGenerator([publisher.fileno(), stream.fileno()], [0, first], _publications())
            told = Outcome(*generator.drain(pace.replayed, _PATIENCE))
    if told.received != pace.replayed:
        raise BrokerError(f"{told.received:,} of {pace.replayed:,} deliveries came")
    return _row("replay", stored=pace.replayed, seconds=told.all_seconds, per_second=told.received / told.all_seconds)


def _restart(pace: Pace) -> dict[str, Figure]:
    """How long a server that was killed takes until it delivers again, with so much in its store."""
    with _serving(is_durable=True) as (server, processes):
        _fill(server, processes, pace.stored)
        processes.kill()
        began = time.perf_counter()
        server.start(processes)
        stream, _ = server.party(processes.port, "reader")
        with closing(stream):
            _first_delivery(stream)
        seconds = time.perf_counter() - began
    return _row("restart", stored=pace.stored, seconds=seconds)


def _first_delivery(stream: socket.socket) -> None:
    head = exactly(stream, frames.HEADER)
    if head[4] != frames.DELIVER:
        raise BrokerError(f"a frame of kind {head[4]:#04x} came, and no delivery")


def _disk(_pace: Pace) -> dict[str, Figure]:
    """What the disk takes to write a quarter of a megabyte for certain: nothing can be acknowledged sooner."""
    with tempfile.NamedTemporaryFile() as file:
        taken = []
        for _ in range(_WRITES):
            began = time.perf_counter_ns()
            file.write(bytes(_WRITE_BYTES))
            file.flush()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter_ns() - began) / 1e3)
    taken.sort()
    return _row(
        "disk", p50_us=taken[_WRITES // 2], p99_us=taken[_WRITES * 99 // 100], per_second=1e6 / statistics.mean(taken)
    )
