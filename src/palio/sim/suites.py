"""Suites: kinds of random histories, each with the architectures and faults that it is made for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from palio.errors import CallerError, brief
from palio.routing.architectures import ARCHITECTURES
from palio.sim.generators.durability import DURABLE_FAULTS, generate_durability
from palio.sim.generators.limits import LIMITED, generate_limits
from palio.sim.generators.merging import TELLING, generate_merging
from palio.sim.generators.networks import FAULTS, GRAPHS, generate
from palio.sim.generators.node_faults import FAULTY, generate_faults
from palio.sim.generators.pacing import PACED, generate_pacing
from palio.sim.generators.patterns import generate_patterns
from palio.sim.histories.history import History

Generate = Callable[[int, str, str, int], History]
"""Makes a history of a seed, an architecture, a kind of faults and a number of operations."""


TREES = ("ce", "hs", "as", "aa", "nf")
JOINED = ("gs+hs", "gs+as", "gs+gs", "as+hs+gs", "as+aa", "ga+aa", "ce+ga", "hs+aa+gs")
"""The architectures of networks that are joined."""


class Suite(NamedTuple):
    """What histories are made from seeds."""

    name: str
    description: str
    generate: Generate
    architectures: tuple[str, ...]
    faults: tuple[str, ...] = FAULTS


USUAL = "trees"
"""The suite that is meant if none is named."""

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(USUAL, "trees of servers: filters and advertisements, links that come and go", generate, TREES),
        Suite("graphs", "networks of any shape", generate, GRAPHS),
        Suite("gateways", "two or three networks, joined by gateways", generate, JOINED),
        Suite(
            "patterns",
            "sequence patterns, with and without windows, watched here or upstream",
            generate_patterns,
            (*ARCHITECTURES, "as+aa", "ga+aa"),
        ),
        Suite(
            "merging",
            "filters that are merged by who tells or hears them, changes that wait, questions about demand",
            generate_merging,
            TELLING,
        ),
        Suite(
            "pacing",
            "many filters that begin and end at once, of which few may be on their way to a neighbour",
            generate_pacing,
            PACED,
        ),
        Suite(
            "limits",
            "servers with different limits, some of an earlier release; filters and notifications as large as allowed",
            generate_limits,
            LIMITED,
        ),
        Suite(
            "durability",
            "durable parties that come and go, read again and reject; promises of publications; disks that fail",
            generate_durability,
            (*TREES, "gs", "gs+as"),
            DURABLE_FAULTS,
        ),
        Suite(
            "faults",
            "nodes that fail at marked inputs, among others that must not be harmed",
            generate_faults,
            FAULTY,
            ("none", "weather", "slow", "crashes", "disks"),
        ),
    )
}
"""By name."""


def suite_of(name: str) -> Suite:
    """The suite of a name."""
    if name not in SUITES:
        raise CallerError(f"suite: {brief(name)} is none of {', '.join(SUITES)}")
    return SUITES[name]
