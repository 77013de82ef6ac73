"""From values to text that parses back to equal values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from palio.model.operator import Operator
from palio.model.syntax.words import BARE_NAME, KEYWORDS
from palio.model.value import Type, Value

if TYPE_CHECKING:
    from palio.model.constraint import Constraint

EVERYTHING = "true"
"""The text of the filter without constraints."""


def print_name(name: str) -> str:
    """The name, in quotes where it would otherwise be misread.

    >>> print(print_name("event"), print_name("my event"), print_name("and"))
    event "my event" "and"
    """
    if BARE_NAME.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return _quote(name)


def print_literal(value: Value) -> str:
    r"""A literal of any type.

    >>> print(print_literal("a\n"), print_literal(5), print_literal(5.0), print_literal(b"a\xff"))
    "a\n" 5 5.0 b"a\xff"
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quote(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case bytes():
            return f'b"{"".join(_BYTE_TEXT[byte] for byte in value)}"'
        case _:
            return repr(value)


def print_constraint(constraint: Constraint) -> str:
    """``[type] name operator [value]``; the type only where the literal does not tell it."""
    parts = [print_name(constraint.name), constraint.operator.value]
    if constraint.value is not None:
        parts.append(print_literal(constraint.value))
    typed = constraint.type in (Type.INTEGER, Type.FLOAT)
    if constraint.operator is Operator.ANY:
        typed = constraint.type is not Type.ANY
    if typed:
        parts.insert(0, constraint.type.value)
    return " ".join(parts)


def print_constraints(constraints: Iterable[Constraint]) -> str:
    """The conjunction, joined by ``and``; empty for no constraints."""
    return " and ".join(map(print_constraint, constraints))


def _quote(text: str) -> str:
    # JSON escapes what must be escaped; the other characters stay readable. U+007F and the C1 controls,
    # which JSON lets through, would be invisible in a terminal.
    quoted = json.dumps(text, ensure_ascii=False)
    if quoted.isprintable():
        return quoted
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in quoted)


def _byte_text(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{byte:c}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"


_BYTE_TEXT = [_byte_text(byte) for byte in range(256)]
