"""Brute force: what the relations mean, decided without any of the code under test but ``Constraint.matches_value``.

Strings are decided exactly. All string operators select regular languages, so a conjunction is empty exactly when
no state of the product of their automata accepts; ``find_string`` walks that product breadth first. Characters that
no literal mentions behave alike between two mentioned neighbours, so one stands for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise

from palio import Constraint, Operator

LAST = "\U0010ffff"


def alphabet(literals: Iterable[str]) -> list[str]:
    """The characters of the literals, one from each gap between them, the lowest and the highest."""
    used = sorted({"\0", LAST, *"".join(literals)})
    result = []
    for low, high in pairwise(used):
        result.append(low)
        between = ord(low) + 1 if low != "\ud7ff" else 0xE000
        if chr(between) != high:
            result.append(chr(between))
    return [*result, used[-1]]


Automaton = tuple[object, Callable[[object, str], object], Callable[[object], bool]]
"""A start state, a step, and which states accept."""


def automaton(constraint: Constraint) -> Automaton:
    """A deterministic automaton of the strings that meet the constraint."""
    literal, operator = constraint.value, constraint.operator
    if literal is None:
        return 0, lambda state, character: 0, lambda state: True
    assert isinstance(literal, str)
    if operator in (Operator.SUFFIX, Operator.NOT_SUFFIX):
        return _suffix(literal, operator is Operator.SUFFIX)
    if operator in (Operator.CONTAINS, Operator.NOT_CONTAINS):
        return _contains(literal, operator is Operator.CONTAINS)
    return _order(literal, operator)


def _overlap(text: str, literal: str) -> int:
    """The length of the longest prefix of the literal that the text ends with."""
    return next(n for n in range(min(len(text), len(literal)), -1, -1) if text.endswith(literal[:n]))


def _suffix(literal: str, wanted: bool) -> Automaton:
    @cache
    def step(state: object, character: str) -> object:
        assert isinstance(state, int)
        return _overlap(literal[:state] + character, literal)

    return 0, step, lambda state: (state == len(literal)) is wanted


def _contains(literal: str, wanted: bool) -> Automaton:
    @cache
    def step(state: object, character: str) -> object:
        assert isinstance(state, int)
        return state if state == len(literal) else _overlap(literal[:state] + character, literal)

    return 0, step, lambda state: (state == len(literal)) is wanted


def _order(literal: str, operator: Operator) -> Automaton:
    """States: how many characters agree so far; or where the string left the literal, and to which side."""

    def step(state: object, character: str) -> object:
        if not isinstance(state, int):
            return state
        if state == len(literal):
            return "extends"
        if character == literal[state]:
            return state + 1
        return "less" if character < literal[state] else "greater"

    def accept(state: object) -> bool:
        equal = state == len(literal)
        prefixed = equal or state == "extends"
        less = (isinstance(state, int) and state < len(literal)) or state == "less"
        return {
            Operator.EQ: equal,
            Operator.NE: not equal,
            Operator.LT: less,
            Operator.LE: less or equal,
            Operator.GT: not less and not equal,
            Operator.GE: not less,
            Operator.PREFIX: prefixed,
            Operator.NOT_PREFIX: not prefixed,
        }[operator]

    return 0, step, accept


def find_string(constraints: Sequence[Constraint], accepts: Callable[[list[bool]], bool] = all) -> str | None:
    """A shortest string for which ``accepts`` says yes to which of the constraints hold; None if there is none."""
    machines = [automaton(constraint) for constraint in constraints]
    letters = alphabet([c.value for c in constraints if isinstance(c.value, str)])
    start = tuple(machine[0] for machine in machines)
    seen = {start}
    queue = deque([(start, "")])
    while queue:
        states, text = queue.popleft()
        if accepts([machine[2](state) for machine, state in zip(machines, states, strict=True)]):
            return text
        for letter in letters:
            following = tuple(machine[1](state, letter) for machine, state in zip(machines, states, strict=True))
            if following not in seen:
                seen.add(following)
                queue.append((following, text + letter))
    return None


def string_counterexample(covering: Sequence[Constraint], covered: Sequence[Constraint]) -> str | None:
    """A string that meets all of the covered constraints and not all of the covering ones, if there is one."""
    split = len(covering)
    return find_string([*covering, *covered], lambda holds: all(holds[split:]) and not all(holds[:split]))
