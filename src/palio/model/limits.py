"""The limits that guard text and encoded input.

The model itself has none: a filter built in Python may be as large as memory allows. Limits apply where
input comes from outside, in the parser and in the codecs, and every one of them can be set.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from palio.errors import CallerError, brief


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds on input; pass your own where the defaults do not fit.

    >>> Limits(constraints=8).constraints
    8
    """

    text_characters: int = 65_536
    """Characters in the text of one filter, advertisement, pattern or notification."""
    nesting: int = 64
    """Depth of parentheses in text."""
    union_filters: int = 1_024
    """Filters that ``or``, ``in`` and ``not`` may expand to."""
    constraints: int = 256
    """Constraints in one filter or advertisement."""
    pattern_filters: int = 64
    """Filters in one pattern."""
    attributes: int = 1_024
    """Attributes in one notification."""
    name_bytes: int = 256
    """Bytes (UTF-8) in an attribute's name."""
    literal_bytes: int = 1_024
    """Bytes (UTF-8) in a string or bytes literal of a constraint."""
    value_bytes: int = 262_144
    """Bytes (UTF-8) in a string or bytes value of a notification."""
    key_bytes: int = 1_024
    """Bytes (UTF-8) in the idempotency key of a publication."""
    payload_bytes: int = 1_048_576
    """Bytes in a payload."""
    document_bytes: int = 2_097_152
    """Bytes in one encoded document."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise CallerError(f"limit {field.name!r} must be a positive integer, not {brief(value)}")


DEFAULT_LIMITS = Limits()
MOST_NAME_BYTES = 1_024
"""Bytes of the name of a party or a server."""
MOST_KEY_BYTES = 32_768
"""The largest ``key_bytes`` that a server accepts: the length of an envelope has two bytes in frames."""
