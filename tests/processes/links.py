"""Removes, adds and reloads links, changes stores and clocks under load, and judges links and deliveries.

Progress goes to the standard error; the last line of the standard output is the verdict, as JSON.
"""

from __future__ import annotations

import logging
import sys

from tests.processes.kill import Given, campaign_main
from tests.processes.links_campaign import LinksCampaign, Plan, line
from tests.processes.links_fleet import NETWORKS


def main() -> int:
    """Run a campaign; whether something was wrong."""
    logging.getLogger("palio.client").setLevel(logging.ERROR)  # that connections break is what it is about

    async def run(given: Given) -> tuple[bool, dict[str, int]]:
        plan = Plan(given.seed, given.network, 60 * given.minutes)
        verdict = await LinksCampaign(plan, given.folder, given.say).run()
        for problem in verdict.problems:
            print(problem, file=sys.stderr)
        return verdict.is_good, line(verdict)

    return campaign_main("links", str(__doc__), NETWORKS, 3.0, run)


if __name__ == "__main__":
    sys.exit(main())
