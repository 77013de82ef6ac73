"""What the tests of the codecs share: every kind of document at random, and a comparison that forgives nothing."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from palio import Advertisement, Constraint, Envelope, Filter, Notification, NotificationId, Operator, Pattern, Trace
from palio.codec import json, msgpack
from palio.model.value import MAX_INTEGER, MAX_MICROSECONDS, MIN_INTEGER, MIN_MICROSECONDS, Value

FORMS: dict[str, ModuleType] = {"msgpack": msgpack, "json": json}

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def exact(value: object) -> object:
    """Everything about a value that an encoding must keep: types, signs of zeros, wording and order of constraints.

    Equality of the model is no help here: equal filters may be worded differently, and 0.0 equals -0.0.
    """
    match value:
        case Notification():
            attributes = [(name, exact(value)) for name, value in value.items()]
            return "notification", attributes, exact(value.payload)
        case Constraint():
            return "constraint", value.name, value.type.value, value.operator.value, exact(value.value)
        case Filter() | Advertisement():
            return type(value).__name__, [exact(constraint) for constraint in value]
        case Pattern():
            return "pattern", [exact(filter) for filter in value]
        case Envelope():
            id = value.id
            fields = (
                id.origin,
                id.incarnation,
                id.sequence,
                value.published,
                value.publisher,
                value.expires,
                value.key,
                value.trace and str(value.trace),
            )
            return "envelope", [exact(field) for field in fields]
        case datetime():
            return datetime, value.utcoffset(), (value - EPOCH) // timedelta(microseconds=1)
        case _:
            return type(value), repr(value)


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)  # 240 bytes of 256
INTEGERS = st.one_of(
    st.integers(MIN_INTEGER, MAX_INTEGER),
    st.sampled_from([s * 2**n + d for n in (0, 5, 7, 8, 15, 16, 31, 32, 53) for s in (-1, 1) for d in (-1, 0, 1)]),
    st.sampled_from([MIN_INTEGER, MAX_INTEGER]),
)
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True),
    st.sampled_from([-0.0, 0.0, 5.0, 5e-324, -5e-324, sys.float_info.min, sys.float_info.max, -sys.float_info.max]),
    st.integers(-(10**18), 10**18).map(float),
)


def instant(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


_SECONDS = [MIN_MICROSECONDS // 10**6, -1, 0, 2**32 - 1, 2**32, 2**34 - 1, 2**34, MAX_MICROSECONDS // 10**6]
TIMES = st.one_of(
    st.integers(MIN_MICROSECONDS, MAX_MICROSECONDS),
    st.integers(MIN_MICROSECONDS // 10**6, MAX_MICROSECONDS // 10**6).map(lambda seconds: seconds * 10**6),
    st.builds(
        lambda seconds, rest: seconds * 10**6 + rest,
        st.sampled_from(_SECONDS),
        st.sampled_from([0, 1, 500_000, 999_999]),
    ),
).map(instant)
VALUES: st.SearchStrategy[Value] = st.one_of(TEXT, INTEGERS, FLOATS, st.booleans(), TIMES, st.binary())

_ORDER = [operator for operator in Operator if operator.takes_value and not operator.strings_only]
_STRING = [operator for operator in Operator if operator.strings_only]
_TYPES = [None, "any", "string", "integer", "float", "boolean", "time", "bytes", "number"]


def _compared(value: Value) -> st.SearchStrategy[Constraint]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    types = st.sampled_from([None, "integer", "float", "number"]) if number else st.none()
    return st.builds(Constraint, NAMES, st.sampled_from(_ORDER), st.just(value), types)


ANNOUNCED = st.one_of(
    VALUES.flatmap(_compared),
    st.builds(Constraint, NAMES, st.sampled_from([*_ORDER, *_STRING]), TEXT),
    st.builds(Constraint, NAMES, st.just("any"), st.none(), st.sampled_from(_TYPES)),
)
"""Constraints of every operator but ``absent``, which advertisements do not have."""
CONSTRAINTS = st.one_of(ANNOUNCED, st.builds(Constraint, NAMES, st.just("absent")))
FILTERS = st.lists(CONSTRAINTS, max_size=4).map(Filter)
BARE_NOTIFICATIONS = st.dictionaries(NAMES, VALUES, max_size=6).map(Notification)
NOTIFICATIONS = st.one_of(
    BARE_NOTIFICATIONS,
    st.builds(Notification.with_payload, BARE_NOTIFICATIONS, st.binary(), NAMES),
)
_COUNTS = st.one_of(st.integers(0, MAX_INTEGER), st.sampled_from([0, MAX_INTEGER]))

_TRACES = st.builds(
    lambda trace, span, flags, state: Trace(f"00-{trace:032x}-{span:016x}-{flags:02x}", state),
    st.integers(1, 2**128 - 1),
    st.integers(1, 2**64 - 1),
    st.integers(0, 255),
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40),
)

DOCUMENTS: dict[type, st.SearchStrategy[Any]] = {
    Notification: NOTIFICATIONS,
    Constraint: CONSTRAINTS,
    Filter: FILTERS,
    Advertisement: st.lists(ANNOUNCED, max_size=4).map(Advertisement),
    Pattern: st.lists(FILTERS, min_size=1, max_size=3).map(Pattern),
    Envelope: st.builds(
        Envelope,
        st.builds(NotificationId, NAMES, _COUNTS, _COUNTS),
        TIMES,
        TEXT,
        st.none() | TIMES,
        st.none() | TEXT,
        st.none() | _TRACES,
    ),
}
