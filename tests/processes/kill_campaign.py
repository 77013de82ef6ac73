"""The kill campaign: a network of servers with stores, programs that use it, and an end that is judged."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.processes.fleet import NETWORKS, START_SECONDS, Fleet
from tests.processes.kill_havoc import Havoc
from tests.processes.kill_judge import KINDS, Judge, Verdict
from tests.processes.kill_ledger import MOST_X, Follower, Wish
from tests.processes.kill_recovery import reconnections, spread_of

SETTINGS = """
history_bytes = 0
[store]
path = "{server}.db"
"""
_POLL = 0.2


class Plan(NamedTuple):
    """What a campaign is like."""

    seed: int
    network: str = "as"
    seconds: float | None = None
    """For so long servers are killed."""
    kills: int | None = None
    """Or until so many were."""
    pause: tuple[float, float] = (2.0, 4.0)
    """Seconds between two events."""
    publishers: int = 4
    parties: int = 8
    rate: float = 25.0
    """Publications a second of each publisher."""
    mean_life: int = 400
    """Deliveries after which a party dies, on the average."""
    with_bounded: bool = True
    """Whether one of the parties has tiny bounds."""
    patience: float = 60.0
    """If nothing has come for so many seconds after servers were killed, nothing will."""
    program: str = "palio"
    """What is run as a server."""


class Program:
    """A publisher or a durable party, started again whenever it was killed."""

    def __init__(self, name: str, arguments: Sequence[str], folder: Path, away: tuple[float, float]) -> None:
        self.name = name
        self._arguments = arguments
        self._errors = folder / f"{name}.log"
        self._away = away
        self._process: asyncio.subprocess.Process | None = None
        self._is_ending = False
        self.kills = 0
        self.failures: list[str] = []
        """How it ended, if neither it was killed nor asked to end."""

    async def run(self, random: Random) -> None:
        """Keep it running until it ends by itself."""
        while True:
            with self._errors.open("ab") as errors:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "tests.processes.kill_programs", *self._arguments,
                    stdin=asyncio.subprocess.PIPE, stderr=errors,
                )  # fmt: skip
            if self._is_ending:
                self._close_input()
            code = await self._process.wait()
            if code == 0 and self._is_ending:
                return
            if code != -signal.SIGKILL:
                tail = self._errors.read_text()[-1500:]
                self.failures.append(f"{self.name} ended with {code}: {tail}")
                return
            self.kills += 1
            if not self._is_ending:
                await asyncio.sleep(random.uniform(*self._away))

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def end(self) -> None:
        """Ask it to finish."""
        self._is_ending = True
        self._close_input()

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def gone(self) -> None:
        """Wait until there is no process."""
        if self._process is not None:
            await self._process.wait()


class Campaign:
    """One campaign, from beginning to end."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._folder = folder
        self._say = say
        self._random = Random(f"{plan.seed} campaign")
        network = NETWORKS[plan.network]
        self._fleet = Fleet(network, folder, SETTINGS, plan.program)
        self.havoc = Havoc(self._fleet, plan.seed, plan.pause)
        self._publishers = [f"p{i}" for i in range(plan.publishers)]
        self._parties = {f"d{i}": self._wish(i) for i in range(plan.parties)}
        self._judge = Judge(
            self._publishers, {name: (wish, KINDS[kind]) for name, (wish, kind) in self._parties.items()}
        )
        self._followers = {name: Follower(self._ledger(name)) for name in (*self._publishers, *self._parties)}
        self._programs: dict[str, Program] = {}
        self._runs: dict[str, asyncio.Task[None]] = {}

    def _wish(self, place: int) -> tuple[Wish, str]:
        """What a party wants, and how it behaves."""
        if place == 1 and self._plan.with_bounded:
            return Wish(), "bounded"
        low = self._random.randrange(MOST_X - 10)
        wishes = [
            Wish(),
            Wish(self._random.choice(self._publishers)),
            Wish(None, low, self._random.randrange(low + 5, MOST_X)),
            Wish(self._random.choice(self._publishers), 0, MOST_X // 2),
        ]
        return wishes[place % 4], "cursor" if place % 3 == 2 else "acknowledging"

    def _ledger(self, name: str) -> Path:
        return self._folder / f"{name}.ledger"

    # -- programs ------------------------------------------------------------------------------------------------------

    def _door(self, place: int) -> str:
        servers = self._fleet.network.servers
        return f"palio://127.0.0.1:{self._fleet.doors[servers[place % len(servers)]].port}"

    def _common(self, name: str, place: int) -> list[str]:
        return ["--name", name, "--url", self._door(place), "--ledger", str(self._ledger(name)), "--seed",
                str(self._plan.seed)]  # fmt: skip

    def _start_parties(self) -> None:
        for place, (name, (wish, kind)) in enumerate(self._parties.items()):
            arguments = ["party", *self._common(name, place), "--wanted", wish.text, "--kind", kind]
            away = (2.0, 6.0) if KINDS[kind].is_bounded else (0.0, 1.5)
            self._start(name, [*arguments, "--mean-life", str(self._plan.mean_life)], away)

    def _start_publishers(self, rate: float) -> None:
        for place, name in enumerate(self._publishers):
            self._start(name, ["publisher", *self._common(name, place + 2), "--rate", str(rate)], (0.0, 1.0))

    def _start(self, name: str, arguments: Sequence[str], away: tuple[float, float]) -> None:
        program = self._programs[name] = Program(name, arguments, self._folder, away)
        self._runs[name] = asyncio.create_task(program.run(Random(f"{self._plan.seed} {name}")))

    async def _stop_programs(self) -> None:
        for task in self._runs.values():
            task.cancel()
        await asyncio.gather(*self._runs.values(), return_exceptions=True)
        for program in self._programs.values():
            program.kill()
        await asyncio.gather(*(program.gone() for program in self._programs.values()))

    # -- the ledger ----------------------------------------------------------------------------------------------------

    def _read(self) -> int:
        """Read what is new in the ledger; how many lines."""
        return sum(self._judge.take(name, each.news()) for name, each in self._followers.items())

    async def _wait(self, condition: Callable[[], bool], what: str) -> bool:
        """Wait until something is so; false if nothing has happened in the ledger for too long."""
        last = said = time.monotonic()
        patience = self._plan.patience if self.havoc.kills else START_SECONDS
        while True:
            has_news, now = bool(self._read()), time.monotonic()
            if condition():
                return True
            if has_news:
                last = now
            if any(program.failures for program in self._programs.values()):
                return False
            if now - last > patience:
                self._say(f"nothing has come for {patience:.0f} s, while this was waited for: {what}")
                return False
            if now - said > 5:
                said = now
                self._progress(what)
            await asyncio.sleep(_POLL)

    def _progress(self, what: str) -> None:
        accepted = sum(len(each.accepted) for each in self._judge.publishers.values())
        got = sum(len(each.got) for each in self._judge.parties.values())
        dead = [name for name, server in self._fleet.servers.items() if not server.port]
        self._say(
            f"{what}: {self.havoc.kills} kills, {accepted:,} acknowledged, {got:,} delivered"
            + (f"; dead: {', '.join(dead)}" if dead else "")
        )

    # -- the course of it ----------------------------------------------------------------------------------------------

    async def run(self) -> Verdict:
        """All of it; what came of it."""
        async with self._fleet:
            try:
                return await self._run()
            finally:
                await self._stop_programs()

    async def _run(self) -> Verdict:
        judge, plan = self._judge, self._plan
        self._start_parties()
        is_ready = await self._wait(lambda: all(each.has_spread for each in judge.parties.values()), "subscriptions")
        if is_ready:
            self._start_publishers(plan.rate)
            await self._wait(lambda: all(each.accepted for each in judge.publishers.values()), "first publications")
            await self._havoc()
            if await self._rest():
                await self._look_again()
        verdict = judge.verdict()
        failures = [text for program in self._programs.values() for text in program.failures]
        return verdict._replace(problems=(*verdict.problems, *failures, *self._fleet.faults()))

    async def _havoc(self) -> None:
        plan, began = self._plan, time.monotonic()

        def is_over() -> bool:
            if plan.kills is not None:
                return self.havoc.kills >= plan.kills
            return time.monotonic() - began >= (plan.seconds or 0)

        running = asyncio.create_task(self.havoc.run(is_over))
        killing = asyncio.create_task(self._kill_programs())
        try:
            while not running.done() and not any(program.failures for program in self._programs.values()):
                await asyncio.wait([running], timeout=5)
                self._read()
                self._progress(f"{time.monotonic() - began:.0f} s")
            if running.done():
                running.result()
        finally:
            running.cancel()
            killing.cancel()
            await asyncio.gather(running, killing, return_exceptions=True)

    async def _kill_programs(self) -> None:
        """Publishers die, too; durable parties see to that by themselves."""
        while True:
            await asyncio.sleep(self._random.uniform(4, 12))
            self._programs[self._random.choice(self._publishers)].kill()

    async def _rest(self) -> bool:
        """No server dies any more, and publishers end: wait until all that they published is accepted, and has come."""
        is_accepted = await self._end_programs(self._publishers, "what publishers say last")
        return is_accepted and await self._wait(self._judge.has_all_come, "what is under way")

    async def _look_again(self) -> None:
        """All parties die once more and come back, and something more is published: nothing else may come to them."""
        for name in self._parties:
            self._programs[name].kill()
        self._start_publishers(self._plan.rate)
        if await self._rest():
            await self._end_programs(self._parties, "the end")

    async def _end_programs(self, names: Iterable[str], what: str) -> bool:
        """Ask programs to finish; whether they have."""
        for name in names:
            self._programs[name].end()
        ending = [self._runs[name] for name in names]
        return await self._wait(lambda: all(task.done() for task in ending), what)

    def happened(self) -> list[str]:
        """What was done, and how long servers took to come back, for people."""
        counts = {**self.havoc.counts, "programs killed": sum(each.kills for each in self._programs.values())}
        logs = {name: server.said() for name, server in self._fleet.servers.items()}
        return [
            ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items())),
            f"from start to listening: {spread_of(self.havoc.starts)}",
            f"from listening to connected, for each link: {spread_of(reconnections(logs))}",
        ]
