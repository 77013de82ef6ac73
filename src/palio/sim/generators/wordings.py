"""Equal filters, advertisements and patterns in other words: servers must not take them for others."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

_BOUND = re.compile(r"(\w+) >= (\d+)")


def reword(text: str, random: Random, *, alternatives: bool = False) -> str:
    """The same in other words, more often than not; in an advertisement constraints on a name are alternatives.

    >>> reword("x >= 3 and y any", Random(2))
    'y any and x >= 3 and x > 2.5'
    >>> reword("x >= 3; y any", Random(2), alternatives=True)
    'y any; x >= 3; x > 3'
    """
    if random.random() < 0.4:
        return text
    if alternatives:
        return "; ".join(_reworded(text.split("; "), random, _superfluous_alternative))
    filters = text.split(" then ")
    return " then ".join(" and ".join(_reworded(each.split(" and "), random, _superfluous)) for each in filters)


def _reworded(constraints: list[str], random: Random, superfluous: Callable[[str, int, Random], str]) -> list[str]:
    found = list(constraints)
    random.shuffle(found)
    bounds = [match for each in constraints if (match := _BOUND.fullmatch(each))]
    if bounds and random.random() < 0.6:
        name, bound = random.choice(bounds).groups()
        found.append(superfluous(name, int(bound), random))
    return found


def _superfluous(name: str, bound: int, random: Random) -> str:
    """A constraint that follows from a lower bound."""
    return random.choice([f"{name} >= {bound - 1}", f"{name} > {bound - 0.5}", f"{name} any", f"{name} >= {bound}.0"])


def _superfluous_alternative(name: str, bound: int, random: Random) -> str:
    """A constraint from which a lower bound follows."""
    return random.choice([f"{name} > {bound}", f"{name} = {bound + 2}", f"{name} >= {bound}.0"])
