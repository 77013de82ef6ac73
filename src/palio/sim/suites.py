"""What is checked together: architectures, and how the histories of a seed are made for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple

import msgspec

from palio.routing.telling import TellingSettings
from palio.routing.unions import Merging
from palio.sim.generate import GRAPHS, generate
from palio.sim.history import History, Step

TREES = "trees"
MERGING = "merging"

SLACK = 40
"""The budget of imperfect merging, in percent: so much that it shows with few filters."""


class Suite(NamedTuple):
    """A name for ``palio sim check --suite``."""

    architectures: tuple[str, ...]
    history: Callable[[int, str, str, int], History] = generate
    """From seed, architecture, kind of faults, and number of operations."""


def _merging(seed: int, architecture: str, faults: str, operations: int) -> History:
    """The same histories, but servers merge, perfectly or not, and changes wait for each other, or not, by seed."""
    random = Random(f"{seed} {architecture} {faults} telling")
    merging = random.choice([None, Merging(), Merging(), Merging(parts=3), Merging(slack=SLACK), Merging(slack=SLACK)])
    delay = random.choice([0, 40, 250] if merging else [40, 250])
    history = generate(seed, architecture, faults, operations)
    steps = tuple(_in_ranges(history.steps, random))
    return msgspec.structs.replace(history, steps=steps, telling=TellingSettings(merging, delay))


def _in_ranges(steps: Iterable[Step], random: Random) -> Iterator[Step]:
    """Most filters are ranges that overlap, or leave gaps; parties often cancel what they have asked for."""
    asked: dict[str, list[str]] = {}
    for step in steps:
        text = step.text
        if step.do == "subscribe" and random.random() < 0.8:
            low, symbol = random.randrange(7), random.choice(["", 'symbol = "A" and ', 'symbol = "B" and '])
            text = f"{symbol}x >= {low} and x <= {low + random.randrange(3)}"
            asked.setdefault(step.party, []).append(text)
        elif step.do == "unsubscribe" and asked.get(step.party) and random.random() < 0.8:
            text = random.choice(asked[step.party])
        yield msgspec.structs.replace(step, text=text)


SUITES: dict[str, Suite] = {
    TREES: Suite(("ce", "hs", "as", "aa", "nf")),
    "graphs": Suite(GRAPHS),
    MERGING: Suite(("hs", "as", "aa", *GRAPHS), _merging),
}
"""By name."""
