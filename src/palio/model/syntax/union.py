"""Boolean combinations of constraints, spread out into unions of conjunctions.

A term is a conjunction, a tuple of constraints; a union is a list of terms. Growth is bounded: a product that
would give more terms than allowed is refused. Terms that contradict themselves are dropped as they arise, except
where a plain conjunction contradicts itself as written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from palio.errors import LimitError
from palio.model.constraint import Constraint
from palio.model.limits import Limits
from palio.model.operator import Operator
from palio.model.sets.valueset import conjunction
from palio.model.value import Type

Term = tuple[Constraint, ...]
Union = list[Term]

EVERYTHING: Union = [()]
NOTHING: Union = []
CONTRADICTION: Term = (Constraint("never", Operator.ABSENT), Constraint("never", Operator.ANY))
"""What nothing can meet, where a term is needed."""

_FAMILIES = (Type.STRING, Type.NUMBER, Type.BOOLEAN, Type.TIME, Type.BYTES)


def selection(alternatives: Sequence[Constraint]) -> Union:
    """What meets at least one of several constraints on one name."""
    return [(constraint,) for constraint in dict.fromkeys(alternatives)]


def complement(alternatives: Sequence[Constraint]) -> Union:
    """What meets none of several constraints on one name and of one type.

    The attribute may be missing, may be of another type, or may be there and fail: that is the whole complement.

    >>> [" and ".join(map(str, term)) for term in complement([Constraint("x", "=", 5)])]
    ['x absent', 'x != 5', 'string x any', 'boolean x any', 'time x any', 'bytes x any']
    """
    first = alternatives[0]
    name = first.name
    if not first.operator.takes_value and first.type is Type.ANY:
        return [(Constraint(name, first.operator.negation),)]
    union: Union = [(Constraint(name, Operator.ABSENT),)]
    if first.operator.takes_value:
        union.append(tuple(Constraint(name, each.operator.negation, each.value, each.type) for each in alternatives))
    return union + [(Constraint(name, Operator.ANY, type=other),) for other in _other_types(first.type)]


class Expansion:
    """Spreads out one text, within limits on what comes out and on the work it takes.

    Combinations that contradict themselves are dropped and so do not count as results, but they cost time: at most
    so many times the allowed results are tried.
    """

    _TRIES = 16

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tries_left = self._TRIES * limits.union_filters

    def any_of(self, operands: Sequence[Union]) -> Union:
        """What at least one of the operands selects."""
        if len(operands) == 1:
            return operands[0]
        return self._bounded(_distinct(term for operand in operands for term in operand))

    def all_of(self, operands: Sequence[Union]) -> Union:
        """What every one of the operands selects: one term of each, in all combinations."""
        result = EVERYTHING
        plain: list[Constraint] = []  # a run of operands with one term each, conjoined all at once
        for operand in operands:
            if len(operand) == 1:
                plain.extend(operand[0])
            else:
                result = self._product(self._product(result, [tuple(plain)]), operand)
                plain = []
        return self._product(result, [tuple(plain)])

    def _product(self, left: Union, right: Union) -> Union:
        if len(left) == len(right) == 1:
            return self._bounded([_conjoin(left[0], right[0])])
        self._tries_left -= len(left) * len(right)
        if self._tries_left < 0:
            allowed = self._limits.union_filters
            tried = self._TRIES * allowed - self._tries_left
            raise LimitError("union_filters", self._TRIES * allowed, tried, "combinations to try for or, in and not")
        distinct: dict[frozenset[Constraint], Term] = {}
        for first in left:
            for second in right:
                term = _conjoin(first, second)
                if _may_hold(term, first, second):
                    distinct.setdefault(frozenset(term), term)
        return self._bounded(list(distinct.values()))

    def _bounded(self, union: Union) -> Union:
        count, longest = len(union), max(map(len, union), default=0)
        if count > self._limits.union_filters:
            raise LimitError(
                "union_filters", self._limits.union_filters, count, "filters after expanding or, in and not"
            )
        if longest > self._limits.constraints:
            raise LimitError("constraints", self._limits.constraints, longest, "constraints in one filter")
        return union


def _other_types(type: Type) -> list[Type]:
    if type in (Type.INTEGER, Type.FLOAT):
        rest = [family for family in _FAMILIES if family is not Type.NUMBER]
        return [Type.FLOAT if type is Type.INTEGER else Type.INTEGER, *rest]
    return [family for family in _FAMILIES if family is not type]


def _conjoin(left: Term, right: Term) -> Term:
    return tuple(dict.fromkeys(left + right))


def _may_hold(term: Term, left: Term, right: Term) -> bool:
    """Whether the term does not contradict itself on a name that both its origins speak of."""
    shared = {constraint.name for constraint in left} & {constraint.name for constraint in right}
    return not any(
        conjunction(constraint for constraint in term if constraint.name == name).is_empty for name in sorted(shared)
    )


def _distinct(terms: Iterable[Term]) -> Union:
    return list({frozenset(term): term for term in terms}.values())
