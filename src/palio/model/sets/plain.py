"""Constraints that are in canonical form as they stand: most filters consist of them, and need no sets to be seen so.

The rules are narrow on purpose. Literals at the edge of their domain, or between which there is nothing, are left to
:mod:`palio.model.sets.express`, which is always right.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from palio.model.constraint import Constraint
from palio.model.operator import STRING_OPERATORS, Operator
from palio.model.value import Type

_LOWER, _UPPER = (Operator.GE, Operator.GT), (Operator.LE, Operator.LT)
_DISCRETE = (Operator.EQ, Operator.NE, Operator.GE, Operator.LE)
"""What is said of integers and times: there a bound can be named in two ways."""
_SMALL = 2**40
"""Below it, the floats beside an integer have many more digits."""
_EARLIEST, _LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)
_SHORT = 15
"""Characters of a float with so few digits that the floats beside it need more."""
_LAST = "\U0010ffff"


def is_plain(constraint: Constraint) -> bool:
    """Whether a constraint that stands alone on its name is its own canonical form, in filters and advertisements.

    >>> is_plain(Constraint("x", ">", 3)), is_plain(Constraint("x", ">", 3, "integer"))
    (True, False)
    """
    operator, value = constraint.operator, constraint.value
    if not operator.takes_value:
        return True
    match constraint.type:
        case Type.STRING:
            return is_plain_text(str(value), operator)
        case Type.NUMBER:
            return _is_small(value)
        case Type.INTEGER:
            return _is_small(value) and operator in _DISCRETE
        case Type.FLOAT:
            return _is_small(value) or _is_plain_float(value)
        case Type.TIME:
            return operator in _DISCRETE and isinstance(value, datetime) and _EARLIEST < value < _LATEST
        case Type.BOOLEAN:
            return operator is Operator.EQ
        case Type.BYTES:
            return operator is Operator.EQ
    return False


def is_plain_text(text: str, operator: Operator) -> bool:
    """Whether this can be said of a string in one way only."""
    if operator is Operator.EQ:
        return True
    if not text or _LAST in text:
        return False
    return operator in STRING_OPERATORS or operator is Operator.NE or not text.endswith("\0")


def _is_small(value: object) -> bool:
    return type(value) is int and -_SMALL < value < _SMALL


def _is_plain_float(value: object) -> bool:
    is_usual = isinstance(value, float) and not value.is_integer() and 1e-300 < abs(value) < 1e300
    return is_usual and len(repr(value)) <= _SHORT


def is_plain_range(constraints: Sequence[Constraint]) -> bool:
    """Whether two constraints on a name are the bounds of a range of numbers in canonical form, in a filter.

    >>> is_plain_range([Constraint("x", ">", 3), Constraint("x", "<=", 5)])
    True
    """
    if len(constraints) != 2:
        return False
    low, high = constraints
    return (
        low.type is high.type is Type.NUMBER
        and low.operator in _LOWER
        and high.operator in _UPPER
        and type(low.value) is type(high.value) is int
        and low.value > -_SMALL
        and low.value + 2 <= high.value < _SMALL
    )
