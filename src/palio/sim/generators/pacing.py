"""Random histories in which many filters begin and end at once, and few changes may be on their way to a neighbour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import msgspec

from palio.routing.telling import TellingSettings
from palio.sim.generators.networks import GRAPHS, generate
from palio.sim.histories.history import History, Step

PACED = ("hs", "as", "aa", *GRAPHS, "gs+hs", "gs+as", "as+hs+gs", "ga+aa")
"""The architectures in which servers tell each other of subscriptions, and some networks of such servers, joined."""


def generate_pacing(seed: int, architecture: str, faults: str, operations: int) -> History:
    """The same histories with fewer operations, but most subscriptions come in bursts, and often end together."""
    random = Random(f"{seed} {architecture} {faults} pacing")
    history = generate(seed, architecture, faults, operations // 2)
    telling = TellingSettings(in_flight=random.choice((1, 2, 3)))
    return msgspec.structs.replace(history, steps=tuple(_in_bursts(history.steps, random)), telling=telling)


def _in_bursts(steps: Iterable[Step], random: Random) -> Iterator[Step]:
    servers: dict[str, None] = {}
    for step in steps:
        servers |= {step.server: None} if step.party else {}
        draw = random.random()
        if step.do == "subscribe" and draw < 0.7:
            yield from _burst(step.server, random.randrange(4, 12), random)
            text = "x = 1" if step.spread else random.choice((step.text, _filter(random)))
            yield msgspec.structs.replace(step, wait=random.choice((0, 0, 5, 30)), text=text)
        elif step.do in ("unsubscribe", "replace") and draw < 0.7:
            for number in range(random.randrange(1, 4)):
                text = random.choice(("x any", "y any", _filter(random)))
                changes = {"text": text, "wait": 0 if number else step.wait, "instead": _filter(random)}
                do = random.choice(("unsubscribe", "replace"))
                yield msgspec.structs.replace(step, do=do, party=_party(step.server, random), **changes)
        elif step.do == "settle" and servers and draw < 0.5:
            yield from _burst(random.choice(list(servers)), 20, random)
            yield step
        elif step.do == "publish" and draw < 0.7:
            yield msgspec.structs.replace(step, text=_notification(random))
        else:
            yield step


def _burst(server: str, length: int, random: Random) -> Iterator[Step]:
    """Subscriptions of several parties of a server, one after the other, or, when a broad one ends, all at once. Often
    all but the last are about the same, so that a gateway lets all of them out or none.
    """
    is_hidden, x = random.random() < 0.5, random.choice((None, 0, 7))
    cover = Step(0, "subscribe", server, f"{server}/p3", "x any")
    if is_hidden:
        yield cover
    for number in range(length):
        yield Step(0, "subscribe", server, _party(server, random), _filter(random, x if number < length - 1 else None))
    if is_hidden:
        yield msgspec.structs.replace(cover, do="unsubscribe")


def _party(server: str, random: Random) -> str:
    return f"{server}/p{random.randrange(3)}"


def _filter(random: Random, x: int | None = None) -> str:
    """Most do not cover each other."""
    if x is not None:
        return f"x = {x} and y = {random.randrange(40)}"
    x, y = random.randrange(8), random.randrange(4)
    exact = f"x = {x} and y = {y}"
    return random.choice((exact, exact, exact, f"x = {x} and y any", f"y = {y} and x any", "x any"))


def _notification(random: Random) -> str:
    return f"x = {random.randrange(8)}; y = {random.randrange(4)}" + random.choice(("", '; symbol = "A"'))
