"""Random histories of servers with different limits, some of an earlier release, and of things at the edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import msgspec

from palio.sim.generators.networks import generate
from palio.sim.histories.history import History, ServerLimits, Step

LIMITED = ("hs", "as", "aa", "nf")
"""The architectures of these histories: trees, on which the way of a notification is known from the links."""
_OLDER = 0.4
"""The share of servers that are of an earlier release, and do not take everything."""


def generate_limits(seed: int, architecture: str, faults: str, operations: int) -> History:
    """The same histories, but each server has limits of its own, and what its parties say is as large as these allow.

    Everything is within the limits of the server where it enters, so nothing is refused there.
    """
    random = Random(f"{seed} {architecture} {faults} limits")
    history = generate(seed, architecture, faults, operations)
    limits = {server: _limits(random) for server in history.servers}
    return msgspec.structs.replace(history, steps=tuple(_large(history.steps, limits, random)), limits=limits)


def _limits(random: Random) -> ServerLimits:
    entry = {
        "constraints": random.choice((7, 8, 9)),
        "literal_bytes": random.choice((4, 12, 40)),
        "value_bytes": random.choice((4, 12, 40)),
        "attributes": random.choice((4, 5)),
    }
    accepted = {
        "constraints": random.choice((4, 5)),
        "literal_bytes": random.choice((8, 12)),  # names of parties are as long as that
        "value_bytes": random.choice((4, 12)),
        "attributes": random.choice((2, 3, 4)),
    }
    return ServerLimits(entry, accepted if random.random() < _OLDER else {})


def _large(steps: Iterable[Step], limits: dict[str, ServerLimits], random: Random) -> Iterator[Step]:
    """Many filters, advertisements and notifications have one attribute more, as long as the server lets in."""
    asked: dict[str, list[tuple[str, str]]] = {}
    for step in steps:
        do, text = step.do, step.text
        if step.do in ("subscribe", "advertise") and random.random() < 0.7:
            joint = " and " if step.do == "subscribe" else "; "
            operator = random.choice(("=", "!=", ">="))
            text += f'{joint}note {operator} "{_word(step, limits, "literal_bytes", random)}"'
            if step.do == "subscribe" and random.random() < 0.4:
                text += " and memo absent"  # holds always, and counts as a constraint
        elif step.do == "publish" and random.random() < 0.7:
            text += f'; note = "{_word(step, limits, "value_bytes", random)}"'
        elif step.do in ("unsubscribe", "unadvertise") and asked.get(step.party) and random.random() < 0.7:
            begun, text = random.choice(asked[step.party])
            do = "unsubscribe" if begun == "subscribe" else "unadvertise"
        if step.do in ("subscribe", "advertise"):
            asked.setdefault(step.party, []).append((step.do, text))
        yield msgspec.structs.replace(step, do=do, text=text)


def _word(step: Step, limits: dict[str, ServerLimits], limit: str, random: Random) -> str:
    """A few words that filters have in common with notifications, of all lengths up to the limit."""
    most = limits[step.server].entry[limit]
    return random.choice("ab") * random.choice([each for each in (1, 4, 9, 12, 40) if each <= most])
