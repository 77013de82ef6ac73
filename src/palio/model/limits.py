"""The limits that guard text and encoded input.

The model itself has none: a filter built in Python may be as large as memory allows. Limits apply where
input comes from outside, in the parser and in the codecs, and every one of them can be set.

A server checks its configured limits once, where something enters: at the connection of a client. Everything behind
that door, other servers, receiving clients, stores and archives, checks the protocol's fixed maxima only. So what one
server took, all take.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

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
    payload_bytes: int = 1_048_576
    """Bytes in a payload."""
    document_bytes: int = 2_097_152
    """Bytes in one encoded document."""
    key_bytes: int = 1_024
    """Bytes (UTF-8) in the idempotency key of a publication."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise CallerError(f"limit {field.name!r} must be a positive integer, not {brief(value)}")


DEFAULT_LIMITS = Limits()
"""The limits at the entry of a server, where its configuration does not say otherwise."""

MOST_NAME_BYTES = 1_024
"""Bytes of the name of a party or a server."""

_UNBOUNDED = 2**63 - 1
"""For limits on text, which never travels: the protocol needs no maximum for them."""

VERSION_1_LIMITS = Limits(
    constraints=256,
    pattern_filters=64,
    attributes=1_024,
    name_bytes=256,
    literal_bytes=1_024,
    value_bytes=262_144,
    payload_bytes=1_048_576,
    document_bytes=2_097_152,
    key_bytes=1_024,
)
"""What a peer of protocol version 1 takes, if it does not say otherwise; its keys are bounded by ``literal_bytes``."""

HIGHEST_LIMITS = Limits(
    text_characters=_UNBOUNDED,
    nesting=_UNBOUNDED,
    union_filters=_UNBOUNDED,
    constraints=1_024,
    pattern_filters=64,
    attributes=16_384,
    name_bytes=4_096,
    literal_bytes=16_384,
    value_bytes=4_194_304,
    payload_bytes=4_194_304,
    document_bytes=4_194_304,
    key_bytes=16_384,
)
"""The highest limits that an operator may configure for the entry of a server.

Whatever enters within them passes every later door, because those are as wide as :data:`PROTOCOL_LIMITS`. A sequence of
``pattern_filters`` notifications of ``document_bytes`` each fits into one frame for a client.
"""

PROTOCOL_LIMITS = replace(
    HIGHEST_LIMITS,
    constraints=16_384,
    literal_bytes=65_536,
    document_bytes=16_777_216,
)
"""The fixed maxima of protocol version 2, between servers and towards clients; no configuration changes them.

They are wider than :data:`HIGHEST_LIMITS` where a document may grow on its way: the canonical form of a filter may have
more constraints, and longer ones, than its wording; a float of 32 bits is passed on with 64.
"""

READING_LIMITS = replace(
    DEFAULT_LIMITS,
    attributes=PROTOCOL_LIMITS.attributes,
    name_bytes=PROTOCOL_LIMITS.name_bytes,
    value_bytes=PROTOCOL_LIMITS.value_bytes,
    payload_bytes=PROTOCOL_LIMITS.payload_bytes,
    document_bytes=PROTOCOL_LIMITS.document_bytes,
)
"""For programs that read stored notifications, and filters that somebody has written: a notification may be whatever
some server took, a filter what the defaults allow.
"""

WIRE_FIELDS = (
    "constraints",
    "pattern_filters",
    "attributes",
    "name_bytes",
    "literal_bytes",
    "value_bytes",
    "payload_bytes",
    "document_bytes",
    "key_bytes",
)
"""The limits that concern documents, in the order in which servers send them to each other. New ones go to the end."""


def to_wire(limits: Limits) -> tuple[int, ...]:
    """The limits as servers send them to each other.

    >>> to_wire(DEFAULT_LIMITS)
    (256, 64, 1024, 256, 1024, 262144, 1048576, 2097152, 1024)
    """
    return tuple(getattr(limits, name) for name in WIRE_FIELDS)


def from_wire(values: tuple[int, ...]) -> Limits:
    """Read what :func:`to_wire` has written, but never more than the protocol's maxima.

    A limit that is missing is the protocol's maximum. Limits that a later release has added are ignored.

    >>> from_wire((8,)) == replace(PROTOCOL_LIMITS, constraints=8)
    True
    """
    pairs = zip(WIRE_FIELDS, values, strict=False)
    return replace(PROTOCOL_LIMITS, **{name: max(1, min(each, getattr(PROTOCOL_LIMITS, name))) for name, each in pairs})
