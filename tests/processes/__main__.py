"""Long campaigns against servers that are processes; a seed that fails is named.

``networks`` plays stories in every architecture, ``flood`` sends bad frames to one server, ``churn`` lets parties come
and go.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from tests.processes.campaign import CHURN_SETTINGS, FLOOD_SETTINGS, churn, flood
from tests.processes.fleet import NETWORKS, Fleet
from tests.processes.parties import LostError
from tests.processes.story import play

_CAMPAIGNS = ["networks", "flood", "churn"]
Campaign = Callable[[str, int, Path], Awaitable[dict[str, int]]]


def main() -> int:
    """Play the stories of many seeds; whether one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.processes", description=__doc__)
    parser.add_argument("campaign", nargs="*", choices=[*_CAMPAIGNS, "all"], default="all")
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="of each story (default: %(default)s)")
    parser.add_argument("--parties", type=int, default=200, help="of each network (default: %(default)s)")
    parser.add_argument("--frames", type=int, default=1_000_000, help="of each flood (default: %(default)s)")
    parser.add_argument("--visits", type=int, default=20_000, help="of each churn (default: %(default)s)")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="default: all")
    given = parser.parse_args()
    if "all" in given.campaign:  # a list cannot be the default: Python before 3.12 would look for it among the choices
        given.campaign = _CAMPAIGNS
    failures = 0
    for seed in range(given.first, given.first + given.seeds):
        for name, network, campaign in _campaigns(given):
            failures += not _ran(f"{name} {network}", network, campaign, seed)
    print(f"{failures} failed")
    return min(failures, 1)


def _campaigns(given: argparse.Namespace) -> Iterator[tuple[str, str, Campaign]]:
    async def story(network: str, seed: int, folder: Path) -> dict[str, int]:
        return await play(NETWORKS[network], folder, seed, parties=given.parties, rounds=given.rounds)

    async def bad_frames(network: str, seed: int, folder: Path) -> dict[str, int]:
        async with Fleet(NETWORKS[network], folder, FLOOD_SETTINGS) as fleet:
            return await flood(fleet, seed, given.frames)

    async def visits(network: str, seed: int, folder: Path) -> dict[str, int]:
        async with Fleet(NETWORKS[network], folder, CHURN_SETTINGS) as fleet:
            return await churn(fleet, seed, given.visits)

    if "networks" in given.campaign:
        yield from (("networks", network, story) for network in given.networks)
    if "flood" in given.campaign:
        yield "flood", "ce", bad_frames
    if "churn" in given.campaign:
        yield "churn", "as", visits


def _ran(name: str, network: str, campaign: Campaign, seed: int) -> bool:
    """Run one, and say what came of it; whether all was right."""

    async def run(folder: Path) -> Counter[str]:
        return Counter(await campaign(network, seed, folder))

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            counts = asyncio.run(run(Path(folder)))
        except (AssertionError, TimeoutError, LostError) as error:
            print(f"{name} seed {seed} failed: {error!r}", flush=True)
            return False
    figures = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
    print(f"{name} seed {seed}: {time.monotonic() - began:.0f} s, {figures}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
