"""The operators of constraints: their spellings, what they apply to, and when they hold."""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from enum import StrEnum
from typing import Any


class Operator(StrEnum):
    """An operator, spelled as in the text form.

    >>> Operator(">*").name, Operator(">*").negation.value
    ('PREFIX', '!>*')
    """

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    PREFIX = ">*"
    SUFFIX = "*<"
    CONTAINS = "*"
    NOT_PREFIX = "!>*"
    NOT_SUFFIX = "!*<"
    NOT_CONTAINS = "!*"
    ANY = "any"
    ABSENT = "absent"

    @property
    def takes_value(self) -> bool:
        """Whether a constraint with this operator has a value to compare with."""
        return self not in (Operator.ANY, Operator.ABSENT)

    @property
    def strings_only(self) -> bool:
        """Whether the operator is defined for strings alone."""
        return self in STRING_OPERATORS

    @property
    def negation(self) -> Operator:
        """The operator that holds on a present value of fitting type exactly when this one does not."""
        return _NEGATIONS[self]


STRING_OPERATORS = frozenset(
    {
        Operator.PREFIX,
        Operator.SUFFIX,
        Operator.CONTAINS,
        Operator.NOT_PREFIX,
        Operator.NOT_SUFFIX,
        Operator.NOT_CONTAINS,
    }
)

_PAIRS = [
    (Operator.EQ, Operator.NE),
    (Operator.LT, Operator.GE),
    (Operator.GT, Operator.LE),
    (Operator.PREFIX, Operator.NOT_PREFIX),
    (Operator.SUFFIX, Operator.NOT_SUFFIX),
    (Operator.CONTAINS, Operator.NOT_CONTAINS),
    (Operator.ANY, Operator.ABSENT),
]
_NEGATIONS = {**dict(_PAIRS), **{right: left for left, right in _PAIRS}}


def _always(_value: object, _literal: object) -> bool:
    return True


HOLDS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: python.eq,
    Operator.NE: python.ne,
    Operator.LT: python.lt,
    Operator.LE: python.le,
    Operator.GT: python.gt,
    Operator.GE: python.ge,
    Operator.PREFIX: str.startswith,
    Operator.SUFFIX: str.endswith,
    Operator.CONTAINS: python.contains,
    Operator.NOT_PREFIX: lambda value, literal: not value.startswith(literal),
    Operator.NOT_SUFFIX: lambda value, literal: not value.endswith(literal),
    Operator.NOT_CONTAINS: lambda value, literal: literal not in value,
    Operator.ANY: _always,
    Operator.ABSENT: _always,
}
"""Whether a value stands in the operator's relation to a literal of the same family.

Python compares int with float exactly and strings by code point, which is what the semantics demand.
"""
