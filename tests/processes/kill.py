"""Kills servers with stores again and again, and judges by a ledger whether what was acknowledged was delivered.

Progress goes to the standard error; the last line of the standard output is the verdict, as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple

from tests.processes.fleet import NETWORKS
from tests.processes.kill_campaign import Campaign, Plan
from tests.processes.kill_judge import Verdict


class Given(NamedTuple):
    """What a campaign was asked to do, and where."""

    seed: int
    network: str
    minutes: float
    folder: Path
    say: Callable[[str], None]
    options: argparse.Namespace
    """All options, also those that only one campaign has."""


Configure = Callable[[argparse.ArgumentParser], object]
"""Adds the options that only one campaign has."""


def main() -> int:
    """Run a campaign; whether something was wrong."""

    async def run(given: Given) -> tuple[bool, dict[str, int]]:
        campaign = Campaign(Plan(given.seed, given.network, 60 * given.minutes), given.folder, given.say)
        verdict = await campaign.run()
        _tell(campaign, verdict)
        return verdict.is_good, line(campaign, verdict)

    return campaign_main("kill", str(__doc__), NETWORKS, 5.0, run)


def campaign_main(
    name: str,
    about: str,
    networks: Collection[str],
    minutes: float,
    run: Callable[[Given], Coroutine[Any, Any, tuple[bool, dict[str, Any]]]],
    configure: Configure = lambda _: None,
) -> int:
    """Read the arguments of a campaign, run it in a folder that is kept if something was wrong; whether it was."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.processes.{name}", description=about)
    parser.add_argument("--minutes", type=float, default=minutes, help="for how long (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="of the schedule (default: any)")
    parser.add_argument("--network", choices=networks, default="as", help="default: %(default)s")
    configure(parser)
    given = parser.parse_args()
    seed = SystemRandom().randrange(10**6) if given.seed is None else given.seed
    folder = Path(tempfile.mkdtemp(prefix=f"palio-{name}-"))
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f}] {text}", file=sys.stderr, flush=True)

    say(f"seed {seed}, network {given.network}, {given.minutes:g} minutes; files in {folder}")
    is_good, said = asyncio.run(_run(run(Given(seed, given.network, given.minutes, folder, say, given))))
    if is_good:
        shutil.rmtree(folder)
    else:
        say(f"failed with seed {seed}; the ledger, the stores and the logs are in {folder}")
    print(json.dumps(said), flush=True)
    return int(not is_good)


async def _run(campaign: Coroutine[Any, Any, tuple[bool, dict[str, Any]]]) -> tuple[bool, dict[str, Any]]:
    """Run it; who is asked to end leaves no servers behind."""
    running = asyncio.ensure_future(campaign)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await running


def line(campaign: Campaign, verdict: Verdict) -> dict[str, int]:
    """What the last line says."""
    names = ("acknowledged", "delivered", "expired", "dropped_by_bound", "lost", "twice", "disordered")
    return {**{name: getattr(verdict, name) for name in names}, "kills": campaign.havoc.kills}


def _tell(campaign: Campaign, verdict: Verdict) -> None:
    """What happened, for people."""
    for problem in verdict.problems:
        print(problem, file=sys.stderr)
    print("party  kind           acknowledged = delivered + dropped + lost; redelivered, lives", file=sys.stderr)
    for each in verdict.accounts:
        print(
            f"{each.party:6} {each.kind:14} {each.acknowledged:12,} = {each.delivered:9,} + {each.dropped:7,} + "
            f"{each.lost:4,}; {each.redelivered:11,}, {each.lives:5,}",
            file=sys.stderr,
        )
    print(*campaign.happened(), sep="\n", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
