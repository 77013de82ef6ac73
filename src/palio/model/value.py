"""Values: the six types, their Python classes, and what is refused.

A value is a ``str``, ``int``, ``float``, ``bool``, aware ``datetime`` or ``bytes``. ``check_value`` is the
only door: behind it strings hold Unicode scalar values only, integers fit 64 bits, floats are finite and
times are in UTC at microsecond resolution.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from palio.errors import InvalidNameError, InvalidValueError, brief

Value = str | int | float | bool | datetime | bytes

MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**63 - 1


class Type(StrEnum):
    """What a constraint says about the type of its attribute.

    ``NUMBER`` is the family of integer and float; ``ANY`` admits every type and goes with the operators
    ``any`` and ``absent`` only.
    """

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TIME = "time"
    BYTES = "bytes"
    NUMBER = "number"
    ANY = "any"


TYPE_OF: dict[type, Type] = {
    str: Type.STRING,
    int: Type.INTEGER,
    float: Type.FLOAT,
    bool: Type.BOOLEAN,
    datetime: Type.TIME,
    bytes: Type.BYTES,
}

CLASSES_OF: dict[Type, tuple[type, ...]] = {
    **{of: (cls,) for cls, of in TYPE_OF.items()},
    Type.NUMBER: (int, float),
    Type.ANY: tuple(TYPE_OF),
}
"""The Python classes that an attribute's value may have to fit a constraint of that type."""


def check_value(value: object, what: str = "value", name: str | None = None) -> Value:
    """Return the value in its normal form, or raise :class:`InvalidValueError` saying what it is (the value of).

    >>> check_value(5)
    5
    >>> check_value(float("nan"), "attribute", "level")
    Traceback (most recent call last):
    palio.errors.InvalidValueError: attribute 'level': nan is not a finite float; leave the attribute out instead
    """
    problem: str | None = None
    if isinstance(value, str):
        if is_scalar(value):
            return str.__str__(value)
        problem = "string holds a lone surrogate; strings are Unicode scalar values"
    elif isinstance(value, bool):
        return value
    elif isinstance(value, int):
        if MIN_INTEGER <= value <= MAX_INTEGER:
            return int(value)
        problem = "integer outside the signed 64-bit range; use a float or a string"
    elif isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        problem = f"{value} is not a finite float; leave the attribute out instead"
    elif isinstance(value, datetime):
        problem = _problem_of_time(value)
        if problem is None:
            return _plain_utc(value)
    elif isinstance(value, bytes):
        return bytes(value)
    else:
        problem = f"{type(value).__name__} is none of str, int, float, bool, datetime, bytes; convert it first"
    raise InvalidValueError(f"{what if name is None else f'{what} {brief(name)}'}: {problem}")


def check_name(name: object) -> str:
    """Return the attribute name, or raise :class:`InvalidNameError`."""
    if not isinstance(name, str):
        raise InvalidNameError(f"attribute name {brief(name)} is not a string")
    if not name:
        raise InvalidNameError("attribute name is empty; give it at least one character")
    if not is_scalar(name):
        raise InvalidNameError(f"attribute name {brief(name)} holds a lone surrogate; names are Unicode scalar values")
    return str.__str__(name)


def is_scalar(text: str) -> bool:
    """Whether the text holds Unicode scalar values only, that is no surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _problem_of_time(value: datetime) -> str | None:
    if value.tzinfo is None or value.utcoffset() is None:
        return f"naive datetime {value.isoformat()}; give it a time zone, such as UTC"
    if getattr(value, "nanosecond", 0):
        return f"time {value} is finer than a microsecond; round it first"
    try:
        value.astimezone(UTC)
    except OverflowError:
        return f"time {value.isoformat()} lies outside years 1 to 9999 in UTC"
    return None


def _plain_utc(value: datetime) -> datetime:
    """The same instant in UTC, as a plain ``datetime`` also when it was a subclass."""
    utc = value.astimezone(UTC)
    if type(utc) is datetime:
        return utc
    return datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, tzinfo=UTC)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_microseconds(time: datetime) -> int:
    """Microseconds since 1970 in UTC, exactly.

    >>> to_microseconds(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    return (time - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """The inverse of :func:`to_microseconds`."""
    return _EPOCH + timedelta(microseconds=microseconds)


MIN_MICROSECONDS = to_microseconds(datetime.min.replace(tzinfo=UTC))
MAX_MICROSECONDS = to_microseconds(datetime.max.replace(tzinfo=UTC))
