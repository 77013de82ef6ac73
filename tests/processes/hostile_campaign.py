"""The hostile campaign: an innocent load, measured alone and then beside attacks, and an end that is judged."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.processes.fleet import START_SECONDS
from tests.processes.hostile_fleet import NETWORKS, HostileFleet
from tests.processes.hostile_judge import (
    Figures,
    LedgerJudge,
    Samples,
    Span,
    Trouble,
    broken_bounds,
    by_attack,
    p99,
    read_breaks,
    read_visits,
    read_wakes,
    told,
    unserved,
    within,
)
from tests.processes.hostile_load import CLIENTS
from tests.processes.hostile_probes import Probes
from tests.processes.hostile_worker import ATTACKS

_POLL = 0.2
_PROGRESS_SECONDS = 10.0
_WARM_UP_SECONDS = 2.0
"""Before the load is measured: clients and servers have just begun."""
_GRACE_SECONDS = 30.0
"""An attacker that does not end so long after its time is killed."""
_LINE_BYTES = 1 << 20


class Plan(NamedTuple):
    """What a campaign is like."""

    seed: int
    network: str = "as"
    seconds: float = 180.0
    """For so long the load is measured: a part of it alone, the rest beside attacks."""
    kinds: tuple[str, ...] = tuple(ATTACKS)
    """The attacks, each once in an order by the seed, then again."""
    at_once: int = 3
    """So many attacks are made at the same time, each by a process of its own."""
    attack_seconds: float = 10.0
    alone: float = 0.25
    """The part of the time without attacks."""
    rate: float = 20.0
    """Publications a second of each publisher."""
    patience: float = 60.0
    """If nothing has come for so many seconds after the attacks, nothing will."""
    program: str = "palio"
    """What is run as a server."""


class Process:
    """A program of the campaign that takes commands and answers with JSON lines."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], folder: Path) -> None:
        self.name = name
        self._module, self._arguments = module, arguments
        self._errors = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it."""
        with self._errors.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", f"tests.processes.{self._module}", *self._arguments,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors, limit=_LINE_BYTES,
            )  # fmt: skip

    def tell(self, line: str) -> None:
        """Give it a command."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def answer(self, seconds: float) -> dict[str, Any] | None:
        """What it says next; none if it says nothing in time. An error if it has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
        except TimeoutError:
            return None
        if not line:
            raise RuntimeError(f"{self.name} has ended: {self._errors.read_text()[-1500:]}")
        said: dict[str, Any] = json.loads(line)
        return said

    async def kill(self) -> None:
        """End it."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


class HostileCampaign:
    """One campaign, from beginning to end."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None]) -> None:
        self._plan, self._folder, self._say = plan, folder, say
        self.fleet = HostileFleet(NETWORKS[plan.network], folder, [*CLIENTS], plan.program)
        self._judge = LedgerJudge(folder)
        self._probes = Probes(self.fleet, lambda: tuple(sorted(self._running)))
        self._samples = Samples(folder)
        self._wakes = Process("wakes", "hostile_wakes", [str(folder / "wakes.jsonl")], folder)
        self._workers = [Process(f"attacker-{i}", "hostile_worker", (), folder) for i in range(plan.at_once)]
        self._running: Counter[str] = Counter()
        self._random = Random(f"{plan.seed} order")
        self._kinds = self._order()
        self._spans: list[Span] = []
        self._attacks = self._commands = 0
        self._cpu: Counter[str] = Counter()
        """Seconds of processor that attackers used, by phase."""
        self._problems: list[str] = []

    # -- the course of it ----------------------------------------------------------------------------------------------

    async def run(self) -> tuple[Figures, list[str]]:
        """All of it: the figures, and everything that is wrong."""
        plan = self._plan
        urls = json.dumps(dict.fromkeys(self.fleet.network.servers, ""))
        async with self.fleet:
            urls = json.dumps({name: self.fleet.url(name) for name in self.fleet.servers})
            arguments = ["--folder", str(self._folder), "--seed", str(plan.seed), "--rate", str(plan.rate)]
            load = Process("load", "hostile_load", [*arguments, "--urls", urls], self._folder)
            try:
                return await self._run(load)
            finally:
                await asyncio.gather(*(each.kill() for each in (load, self._wakes, *self._workers)))

    async def _run(self, load: Process) -> tuple[Figures, list[str]]:
        plan = self._plan
        await asyncio.gather(*(each.start() for each in (load, self._wakes, *self._workers)))
        if await load.answer(START_SECONDS) is None:
            return Figures(), ["the subscriptions of the innocent load do not spread"]
        probing = asyncio.create_task(self._probes.run())
        progress = asyncio.create_task(self._tell_progress())
        try:
            await asyncio.sleep(_WARM_UP_SECONDS)
            alone = await self._phase("alone", plan.alone * plan.seconds, self._keep_busy)
            attacked = await self._phase("attacks", (1 - plan.alone) * plan.seconds, self._attack)
            await self._finish(load)
        finally:
            for task in (probing, progress):
                task.cancel()
            await asyncio.gather(probing, progress, return_exceptions=True)
        self._problems += await self._probes.links_down() if not self.fleet.dead() else []
        return self._judged(alone, attacked)

    async def _phase(
        self, name: str, seconds: float, work: Callable[[Process, float], Coroutine[Any, Any, None]]
    ) -> tuple[float, float]:
        """Let all attackers do something for a while; when it was."""
        self._say(f"{name}: {seconds:.0f} s")
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for worker in self._workers:
                tasks.create_task(work(worker, began + seconds))
        return began, time.monotonic()

    async def _keep_busy(self, worker: Process, end: float) -> None:
        said = await self._command(worker, "busy", end - time.monotonic())
        self._cpu["busy"] += said["cpu_seconds"]

    async def _attack(self, worker: Process, end: float) -> None:
        while (left := end - time.monotonic()) > 1 and not self.fleet.dead():
            name = self._kinds.pop()
            self._kinds = self._kinds or self._order()
            self._running[name] += 1
            self._running = +self._running
            said = await self._command(worker, name, min(left, self._plan.attack_seconds))
            self._running = self._running - Counter([name])
            self._attacks += bool(said["counts"])  # one that did not get through to a server was none
            self._commands += 1
            self._spans.append(Span(name, said["began"], said["ended"]))
            self._cpu["attacks"] += said["cpu_seconds"]
            self._problems += [f"{name}: {text}" for text in said["problems"]]
            counts = ", ".join(f"{count:,} {what}" for what, count in said["counts"].items())
            self._say(f"  {name}: {counts or 'nothing done'}; {said['error'] or 'done'}")

    async def _command(self, worker: Process, name: str, seconds: float) -> dict[str, Any]:
        """Let an attacker make an attack; one that does not end is replaced."""
        began = time.monotonic()
        targets = [
            (server.name, server.port, server.http_port, self.fleet.network.architecture)
            for server in self.fleet.servers.values()
        ]
        seed = f"{self._plan.seed} {self._commands} {worker.name}"
        worker.tell(json.dumps({"attack": name, "seed": seed, "targets": targets, "seconds": seconds}))
        said = await worker.answer(seconds + _GRACE_SECONDS)
        if said is None:
            await worker.kill()
            await worker.start()
            said = {"cpu_seconds": 0.0, "problems": [], "counts": {}, "error": "the attacker did not end in time"}
        return {"began": began, "ended": time.monotonic(), **said}

    def _order(self) -> list[str]:
        return self._random.sample(self._plan.kinds, len(self._plan.kinds))

    async def _finish(self, load: Process) -> None:
        """Publishing ends: wait until everything is acknowledged and has come."""
        self._say("attacks have ended; waiting until everything has come")
        load.tell("finish")
        finished = asyncio.create_task(load.answer(3600))
        last, has_come = time.monotonic(), False
        while not has_come and not self.fleet.dead() and time.monotonic() - last < self._plan.patience:
            await asyncio.sleep(_POLL)
            if self._judge.read():
                last = time.monotonic()
            has_come = finished.done() and self._judge.has_all_come()
        if not has_come:
            self._problems.append(f"nothing has come for {self._plan.patience:.0f} s, and not everything has come")
        if finished.done():
            self._problems += (finished.result() or {}).get("unexpected", [])
        else:
            finished.cancel()
        await asyncio.gather(finished, return_exceptions=True)
        await asyncio.sleep(2 * _POLL)  # the load writes its notebooks a moment later
        self._judge.read()

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            now = time.monotonic()
            latest = within(self._samples.read(), now - _PROGRESS_SECONDS, now)
            self._say(
                f"p99 of the last {_PROGRESS_SECONDS:.0f} s {p99(latest):,.0f} ms of {len(latest):,}; memory "
                + ", ".join(f"{name} {kib // 1024} MiB" for name, kib in self._probes.rss_kib.items())
                + f"; log {self._probes.log_mib} MiB; now {', '.join(self._running.elements()) or 'nothing'}"
            )

    # -- the end -------------------------------------------------------------------------------------------------------

    def _judged(self, alone: tuple[float, float], attacked: tuple[float, float]) -> tuple[Figures, list[str]]:
        samples, visits, wakes = self._samples.read(), read_visits(self._folder), read_wakes(self._folder)
        beside, breaks = within(samples, *attacked), read_breaks(self._folder)
        self._probes.look_at_memory()
        figures = Figures(
            attacks=self._attacks,
            p99_ms=round(p99(beside), 1),
            p99_ms_alone=round(p99(within(samples, *alone)), 1),
            most_ms=round(max(beside, default=0.0), 1),
            wake_ms=round(p99(within(wakes, *attacked)), 1),
            wake_ms_alone=round(p99(within(wakes, *alone)), 1),
            rss_mib=self._probes.rss_mib,
            log_mib=self._probes.log_mib,
            records=self.fleet.records(),
            visits=len(visits),
            turned_away=sum(bool(each.error) for each in visits),
            disconnected=len(breaks),
            unhealthy=len(self._probes.unhealthy),
            cpu_attackers=round(self._cpu["attacks"] / (attacked[1] - attacked[0]), 2),
            cpu_busy=round(self._cpu["busy"] / (alone[1] - alone[0]), 2),
        )
        figures, problems = self._judge.judge(figures)
        rows = by_attack(samples, self._spans)
        self._tell_attacks(rows)
        return figures, [
            *problems,
            *broken_bounds(figures, rows),
            *self.fleet.dead(),
            *told(
                [
                    *map(Trouble, [*self.fleet.fault_places(), *self.fleet.strange_lines()]),
                    *self._probes.unhealthy,
                    *unserved(visits, breaks, self._spans),
                    *map(Trouble, self._problems),
                ]
            ),
        ]

    def _tell_attacks(self, rows: Iterable[tuple[str, int, float]]) -> None:
        self._say("attack               times  p99 of the load while it was made, with others beside it")
        for name, count, milliseconds in rows:
            self._say(f"{name:20} {count:5}  {milliseconds:9,.1f} ms")
