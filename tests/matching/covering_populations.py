"""Filters and advertisements that often cover each other, drawn by hypothesis or by a seeded generator."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from palio import Advertisement, Constraint, Filter
from tests.model.strategies import FLOATS, INTEGERS, ORDER, ordered_constraints, string_constraints

NAMES = ("x", "y", "z")
NEVER = Filter.parse("x > 3 and x < 2")


def constraints_on(name: str) -> st.SearchStrategy[Constraint]:
    """Any constraint on the name, of any type, with literals from the small pools of the model's tests."""
    near = st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2.0**53, 2.0**53 + 2])
    types = st.sampled_from([None, "integer", "float"])
    numbers = st.builds(Constraint, st.just(name), st.sampled_from(ORDER), near, types)
    return st.one_of(ordered_constraints(name), string_constraints(name=name), numbers)


@st.composite
def families(draw: st.DrawFn, kind: type, most: int = 8) -> list[Filter] | list[Advertisement]:
    """Elements made of one pool of constraints; often one of them is another with a constraint more or less."""
    name = st.sampled_from(NAMES)
    pool = draw(st.lists(name.flatmap(constraints_on), min_size=1, max_size=8))
    if kind is Advertisement:
        pool = [each for each in pool if each.operator != "absent"] or [Constraint("x", ">", 3)]
    elements: list[list[Constraint]] = []
    for _ in range(draw(st.integers(2, most))):
        chosen = draw(st.lists(st.sampled_from(pool), max_size=4))
        extends: Any = draw(st.booleans())
        if elements and extends:
            chosen += draw(st.sampled_from(elements))
        elements.append(chosen)
    return [kind(each) for each in elements]


# -- larger populations ------------------------------------------------------------------------------------------------

WORDS = ("a", "b", "ab", "ba", "abc", "bab", "b\0", "\U0010ffff")
DAY = datetime(2026, 7, 2, tzinfo=UTC)


def _ranges(rng: random.Random) -> list[Constraint]:
    found = []
    for name in NAMES[: rng.randint(1, 2)]:
        low = rng.randrange(100)
        found += [Constraint(name, ">=", low), Constraint(name, "<", low + rng.randint(1, 40))]
    return found


def _stock(rng: random.Random) -> list[Constraint]:
    return [Constraint("symbol", "=", rng.choice("ABCDE")), *_ranges(rng)]


def _prefixes(rng: random.Random) -> list[Constraint]:
    path = "/".join(rng.choice(("a", "b", "ab")) for _ in range(rng.randint(1, 6)))
    operator = rng.choice((">*", ">*", ">*", "=", "*<", "*"))
    return [Constraint("path", operator, path)]


def _values(rng: random.Random) -> list[Constraint]:
    names = rng.sample([f"n{i}" for i in range(4)], rng.randint(1, 3))
    return [Constraint(name, "=", rng.choice((0, 1, 1.0, "a", True, b"a", DAY))) for name in names]


def _times(rng: random.Random) -> list[Constraint]:
    start = DAY + timedelta(seconds=rng.randrange(100))
    return [Constraint("t", ">=", start), Constraint("t", "<=", start + timedelta(seconds=rng.randrange(30)))]


def _anything(rng: random.Random) -> list[Constraint]:
    found = []
    for name in rng.sample(NAMES, rng.randint(1, 2)):
        for _ in range(rng.randint(1, 2)):
            operator = rng.choice(("=", "!=", "<", ">=", "any"))
            value: Any = rng.choice((*INTEGERS, *FLOATS, *WORDS, b"a", b"a\0", DAY))
            if operator == "any":
                found.append(Constraint(name, "any", type=rng.choice((None, "string", "number", "integer"))))
            elif isinstance(value, str):
                operator = rng.choice((operator, ">*", "*<", "*", "!>*", "!*<", "!*"))
                found.append(Constraint(name, operator, value))
            else:
                found.append(Constraint(name, operator, value))
    return found


KINDS = {
    "ranges": _ranges,
    "stock": _stock,
    "prefixes": _prefixes,
    "values": _values,
    "times": _times,
    "anything": _anything,
}


def population(kind: type, of: str, count: int, seed: int = 0) -> list[Filter] | list[Advertisement]:
    """So many filters or advertisements of a kind, or of all kinds together; equal ones may be among them."""
    rng = random.Random(f"{of}/{seed}")
    made = []
    for _ in range(count):
        choose = KINDS[of] if of != "mixed" else rng.choice(list(KINDS.values()))
        constraints = choose(rng)
        if kind is Advertisement:
            for _ in range(rng.choice((0, 0, 1, 2))):
                constraints += choose(rng)
            # Constraints on one name are alternatives here: both ends of an interval together would be everything.
            left_out = rng.choice((("<", "<="), (">", ">=")))
            constraints = [each for each in constraints if each.operator.value not in left_out]
        made.append(kind(constraints))
    return made
