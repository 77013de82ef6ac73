"""The words of the text form, shared by the lexer and the printer."""

from __future__ import annotations

import re

from palio.model.operator import Operator
from palio.model.value import Type

TYPE_WORDS: dict[str, Type] = {
    **{type.value: type for type in Type if type is not Type.ANY},
    "date": Type.TIME,
    "byte-array": Type.BYTES,
    "char": Type.STRING,
}
"""Type names; the last three come from the papers."""

KEYWORDS = frozenset({"and", "or", "not", "in", "then", "any", "absent", "true", "false"})
"""Words with a meaning of their own, in any letter case."""

SYMBOLS: dict[str, Operator] = {
    **{operator.value: operator for operator in Operator if not operator.value.isalpha()},
    "==": Operator.EQ,
}
"""Operator symbols, ``==`` being the papers' spelling of equality."""

PAPERS_PREFIX = "*="
"""The first paper's prefix operator: its value ends with a star."""

BARE_NAME = re.compile(r"[^\W\d][\w./:@$-]*")
"""A name that needs no quotes: a letter or underscore, then letters, digits and ``_ . / : @ $ -``."""
