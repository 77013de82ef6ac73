"""Lets clients and peers misbehave beside innocent load, and judges deliveries, latency and memory.

Progress goes to the standard error; the last line of the standard output is the verdict, as JSON.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tests.processes.hostile_campaign import HostileCampaign, Plan
from tests.processes.hostile_fleet import NETWORKS
from tests.processes.hostile_judge import Figures
from tests.processes.hostile_worker import ATTACKS
from tests.processes.kill import Given, campaign_main


def main() -> int:
    """Run a campaign; whether something was wrong."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=tuple(ATTACKS), metavar="ATTACK",
                            help=f"only these, of {', '.join(ATTACKS)}")  # fmt: skip
        parser.add_argument("--at-once", type=int, default=Plan(0).at_once, help="attackers (default: %(default)s)")

    async def run(given: Given) -> tuple[bool, dict[str, Any]]:
        kinds, at_once = tuple(given.options.attacks), given.options.at_once
        plan = Plan(given.seed, given.network, 60 * given.minutes, kinds, at_once)
        figures, problems = await HostileCampaign(plan, given.folder, given.say).run()
        for problem in problems:
            print(f"BROKEN {problem}", file=sys.stderr)
        return not problems, line(figures, problems)

    return campaign_main("hostile", str(__doc__), NETWORKS, 3.0, run, configure)


def line(figures: Figures, problems: list[str]) -> dict[str, Any]:
    """The last line of the output."""
    return {**figures._asdict(), "broken": problems}


if __name__ == "__main__":
    sys.exit(main())
