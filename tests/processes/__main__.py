"""A long campaign: ``python -m tests.processes --seeds 100 --rounds 3``; a seed that fails is named."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.processes.fleet import NETWORKS
from tests.processes.parties import LostError
from tests.processes.story import play


def main() -> int:
    """Play the stories of many seeds in all architectures; the number of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.processes", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="in each story (default: %(default)s)")
    parser.add_argument("--parties", type=int, default=200, help="in each network (default: %(default)s)")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="default: all")
    given = parser.parse_args()
    failures, sums = 0, Counter[str]()
    for seed in range(given.first, given.first + given.seeds):
        for name in given.networks:
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                try:
                    story = play(NETWORKS[name], Path(folder), seed, parties=given.parties, rounds=given.rounds)
                    counts = asyncio.run(story)
                except (AssertionError, TimeoutError, LostError) as error:
                    failures += 1
                    print(f"{name} seed {seed} failed: {error!r}", flush=True)
                    continue
            sums += counts
            seconds = time.monotonic() - began
            print(f"{name} seed {seed}: {seconds:.0f} s, {_listed(counts)}", flush=True)
    print(f"in all: {failures} failed; {_listed(sums)}")
    return min(failures, 1)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[key]:,} {key}" for key in sorted(counts))


if __name__ == "__main__":
    sys.exit(main())
