"""Where the relations are exact, and the list of cases in which they are only safe.

Covering, satisfiability, relevance and merging are exact for numbers, booleans, times and bytes, and for strings under
equality, order and prefixes. With the *atoms* (``*<``, ``*``, ``!*<``, ``!*``) on a string attribute they are safe:
``covers`` may miss but never invents, ``is_satisfiable`` and ``relevant_to`` may say yes too often but never no too
often, ``merge`` may miss. :data:`INEXACT` lists when that can happen; :func:`inexact_cases` finds the entries that
apply. No entry, exact answer: the tests check that, and check safety where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

from palio.model.conditions import ConstraintSet
from palio.model.constraint import Constraint
from palio.model.operator import Operator
from palio.model.value import Type

ATOMS = frozenset({Operator.SUFFIX, Operator.CONTAINS, Operator.NOT_SUFFIX, Operator.NOT_CONTAINS})
"""The string operators that select no intervals of the code-point order."""

INTERVALS = frozenset({Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.PREFIX, Operator.NOT_PREFIX})
"""The operators that bound or cut intervals of the code-point order."""

_ANYTHING: frozenset[Operator] = frozenset()


@dataclass(frozen=True, slots=True)
class InexactCase:
    """A mix of operators on one string attribute that a relation does not decide exactly.

    It applies to ``left.relation(right)`` when, on one string attribute, each side uses an operator of its set (an
    empty set stands for any operator, or for none where the relation has no right side) and, if so marked, several
    constraints. In the example the relation does hold (or nothing satisfies the filter), and Palio does not see it.
    """

    relation: str
    because: str
    left: frozenset[Operator]
    right: frozenset[Operator]
    example: tuple[str, str]
    left_several: bool = False
    right_several: bool = False

    def applies(self, left: list[Constraint], right: list[Constraint]) -> bool:
        """Whether the constraints of the two sides on one string attribute make up this case."""
        return (
            _uses(left, self.left)
            and _uses(right, self.right)
            and (len(left) > 1 or not self.left_several)
            and (len(right) > 1 or not self.right_several)
        )


INEXACT: tuple[InexactCase, ...] = (
    InexactCase(
        relation="Filter.covers",
        because="a substring may follow from the order of the strings without being a common prefix",
        left=frozenset({Operator.CONTAINS}),
        right=INTERVALS,
        example=(r'x * "\u0000"', r'x >= "\u0000\udbff\udfff" and x < "\u0001\u0001" and x != "\u0001"'),
    ),
    InexactCase(
        relation="Filter.covers",
        because="excluding a substring excludes every prefix that contains it",
        left=INTERVALS,
        right=frozenset({Operator.NOT_CONTAINS}),
        example=('x !>* "ab"', 'x !* "b"'),
    ),
    InexactCase(
        relation="Filter.covers",
        because="several conditions may imply together what none of them implies",
        left=_ANYTHING,
        right=ATOMS,
        right_several=True,
        example=('x * "b"', 'x >= "a" and x < "c" and x !* "a"'),
    ),
    InexactCase(
        relation="Filter.is_satisfiable",
        because="several conditions may contradict each other only together",
        left=ATOMS,
        left_several=True,
        right=_ANYTHING,
        example=('x >= "a" and x < "c" and x !* "a" and x !* "b"', ""),
    ),
    InexactCase(
        relation="Filter.merge",
        because="one filter may say the union of the two only in other words",
        left=ATOMS,
        right=_ANYTHING,
        example=('x *< "ab"', 'x *< "b" and x !*< "ab"'),
    ),
    InexactCase(
        relation="Filter.merge",
        because="one filter may say the union of the two only in other words",
        left=_ANYTHING,
        right=ATOMS,
        example=('x *< "b" and x !*< "ab"', 'x *< "ab"'),
    ),
    InexactCase(
        relation="Advertisement.covers",
        because="several alternatives may be needed to cover one of the other side",
        left=ATOMS,
        left_several=True,
        right=_ANYTHING,
        example=('x * "a" and x !* "a"', "string x any"),
    ),
    InexactCase(
        relation="Advertisement.covers",
        because="a substring may follow from each of several intervals, without a common prefix",
        left=frozenset({Operator.CONTAINS}),
        right=INTERVALS,
        example=('x * "b"', 'x >* "ab" and x >* "cb"'),
    ),
    InexactCase(
        relation="Advertisement.covers",
        because="excluding a substring excludes every prefix that contains it",
        left=INTERVALS,
        right=frozenset({Operator.NOT_CONTAINS}),
        example=('x !>* "ab"', 'x !* "b"'),
    ),
    InexactCase(
        relation="Advertisement.relevant_to",
        because="every one of several intervals may contain what is excluded, without a common prefix",
        left=INTERVALS,
        left_several=True,
        right=frozenset({Operator.NOT_CONTAINS}),
        example=('x >* "ab" and x >* "cb"', 'x !* "b"'),
    ),
    InexactCase(
        relation="Advertisement.relevant_to",
        because="several conditions may contradict each other only together",
        left=ATOMS,
        right=_ANYTHING,
        right_several=True,
        example=('x !* "a"', 'x >= "a" and x < "c" and x !* "b"'),
    ),
    InexactCase(
        relation="Advertisement.relevant_to",
        because="several conditions may contradict each other only together",
        left=_ANYTHING,
        right=ATOMS,
        right_several=True,
        example=("string x any", 'x >= "a" and x < "c" and x !* "a" and x !* "b"'),
    ),
)


def inexact_cases(relation: str, left: ConstraintSet, right: ConstraintSet | None = None) -> tuple[InexactCase, ...]:
    """The listed cases that apply; an empty answer means that the relation is decided exactly.

    >>> from palio import Filter
    >>> inexact_cases("Filter.covers", Filter.parse("x > 3"), Filter.parse("x > 4"))
    ()
    >>> len(inexact_cases("Filter.covers", Filter.parse('x !>* "ab"'), Filter.parse('x !* "b"')))
    1
    """
    mine, theirs = _on_strings(left), _on_strings(right) if right is not None else {}
    names = sorted({*mine, *theirs})
    return tuple(
        case
        for case in INEXACT
        if case.relation == relation and any(case.applies(mine.get(name, []), theirs.get(name, [])) for name in names)
    )


def _on_strings(conditions: ConstraintSet) -> dict[str, list[Constraint]]:
    """The constraints on each name that speak of strings."""
    return {
        name: [constraint for constraint in group if constraint.type is Type.STRING]
        for name, group in conditions.by_name().items()
    }


def _uses(constraints: list[Constraint], operators: frozenset[Operator]) -> bool:
    return not operators or any(constraint.operator in operators for constraint in constraints)
