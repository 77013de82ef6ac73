"""Random histories of servers that merge what they tell, and let it wait, and of parties that ask for the outlook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import msgspec

from palio.routing.telling import TellingSettings
from palio.routing.unions import Merging
from palio.sim.generators.networks import GRAPHS, generate
from palio.sim.generators.wordings import reword
from palio.sim.histories.history import History, Step, StepKind

TELLING = ("hs", "as", "aa", *GRAPHS, "gs+hs", "as+hs+gs", "ga+aa")
"""The architectures in which servers tell each other of subscriptions, and some networks of such servers, joined."""
SLACK = 40
"""The budget of imperfect merging, in percent: so much that it shows with few filters."""
_MERGING = (None, Merging(), Merging(), Merging(parts=3), Merging(slack=SLACK), Merging(slack=SLACK))


def generate_merging(seed: int, architecture: str, faults: str, operations: int) -> History:
    """The same histories, but servers merge, perfectly or not, and changes wait for each other, or not, by seed."""
    random = Random(f"{seed} {architecture} {faults} telling")
    merging = random.choice(_MERGING)
    delay = random.choice([0, 40, 250, 250] if merging else [40, 250])
    compression = random.choice([None, *_MERGING])
    history = generate(seed, architecture, faults, operations)
    steps = tuple(_in_ranges(history.steps, random))
    if architecture in ("as", "aa", *GRAPHS):
        steps = tuple(_watched(steps, random, offers_too=architecture in ("aa", "ga")))
    telling = TellingSettings(merging, delay)
    return msgspec.structs.replace(history, steps=steps, telling=telling, compression=compression)


def _in_ranges(steps: Iterable[Step], random: Random) -> Iterator[Step]:
    """Most filters are ranges or boxes that overlap, or leave gaps, often of several parties at once; most are
    cancelled.
    """
    asked: dict[str, list[str]] = {}
    for step in steps:
        if step.do == "subscribe" and random.random() < 0.8:
            symbol = random.choice(["", 'symbol = "A" and ', 'symbol = "B" and '])
            has_boxes = random.random() < 0.3
            for number in range(random.choice([1, 1, 3, 4])):
                text = symbol + _range("x", 7, random) + (f" and {_range('y', 2, random)}" if has_boxes else "")
                text = reword(text, Random(f"{random.random()} words"))
                party = step.party if number == 0 else f"{step.server}/p{random.randrange(3)}"
                asked.setdefault(party, []).append(text)
                changes = {"text": text, "party": party, "wait": 0 if number else step.wait}
                yield msgspec.structs.replace(step, **changes, spread=step.spread and number == 0)
        elif step.do == "unsubscribe" and asked.get(step.party) and random.random() < 0.8:
            yield msgspec.structs.replace(step, text=random.choice(asked[step.party]))
        elif step.do == "publish" and random.random() < 0.3:
            yield msgspec.structs.replace(step, text=f"x = {random.randrange(8)}; y = {random.randrange(4)}")
        else:
            yield step


def _range(name: str, most: int, random: Random) -> str:
    low = random.randrange(most)
    return f"{name} >= {low} and {name} <= {low + random.randrange(3)}"


def _watched(steps: Iterable[Step], random: Random, *, offers_too: bool) -> Iterator[Step]:
    """Parties ask for the outlook of what they offer, and of what they want, and lose interest now and then."""
    asked: dict[str, list[Step]] = {}
    for step in steps:
        yield step
        if step.do not in ("subscribe", "advertise") or (step.do == "subscribe" and not offers_too):
            continue
        begin, end = _QUESTIONS[step.do]
        if random.random() < 0.5:
            asked.setdefault(step.party, []).append(Step(0, end, step.server, step.party, step.text))
            yield Step(0, begin, step.server, step.party, step.text)
        elif step.party in asked and random.random() < 0.3:
            yield random.choice(asked[step.party])


_QUESTIONS: dict[str, tuple[StepKind, StepKind]] = {
    "advertise": ("watch-demand", "unwatch-demand"),
    "subscribe": ("watch-offers", "unwatch-offers"),
}
