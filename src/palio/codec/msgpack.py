"""The MessagePack form.

>>> from palio import Notification
>>> encode(Notification(event="alarm", level=5)).hex(" ")
'92 01 82 a5 65 76 65 6e 74 a5 61 6c 61 72 6d a5 6c 65 76 65 6c 05'
>>> decode(Notification, encode(Notification(event="alarm", level=5)))
Notification(event='alarm', level=5)
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, cast

import msgspec.msgpack

from palio._core import decode_body, unpack
from palio.codec import parts
from palio.codec.parts import VERSION, Document, T
from palio.errors import DecodeError
from palio.model import (
    DEFAULT_LIMITS,
    Advertisement,
    Constraint,
    Envelope,
    Filter,
    Limits,
    Notification,
    Pattern,
    Payload,
)
from palio.model.value import MAX_INTEGER

_encode = msgspec.msgpack.Encoder().encode


def encode(value: Document) -> bytes:
    """The bytes of a notification (attributes and payload), filter, advertisement, pattern, constraint or envelope."""
    parts.check_class(value.__class__, _ROWS)
    return _encode((VERSION, *_ROWS[value.__class__](value)))


def decode(cls: type[T], data: bytes, limits: Limits = DEFAULT_LIMITS) -> T:
    """Read a document of the form; everything else is refused with :class:`~palio.errors.DecodeError`."""
    parts.check_class(cls, _ROWS)
    data = parts.document_bytes(data, limits)
    if cls is Notification:
        return cast("T", _notification(data, limits))
    fields = _fields(cls, data, limits)
    return cast("T", _READERS[cls][1](fields, limits))


def decode_steps(cls: type[T], data: bytes, limits: Limits = DEFAULT_LIMITS) -> Generator[int, None, T]:
    """The same for filters, advertisements and patterns; patterns filter by filter.

    Each step says how many constraints it has read, and at least one.
    """
    if cls is not Pattern:
        found = decode(cls, data, limits)
        yield max(1, len(cast("Filter | Advertisement", found)))
        return found
    pattern = yield from _pattern_steps(_fields(cls, parts.document_bytes(data, limits), limits), limits)
    return cast("T", pattern)


def _fields(cls: type[T], data: bytes, limits: Limits) -> list[Any]:
    """The content behind the version."""
    # The largest document within the limits is a pattern; a larger one need not be built to be refused.
    most = (limits.pattern_filters + 2) * (limits.constraints + 2) * 6
    fields = unpack(data, parts.DEPTH, min(most, MAX_INTEGER))
    if not isinstance(fields, list) or not fields:
        raise DecodeError("expected an array that begins with the version")
    parts.check_version(fields[0])
    count = _READERS[cls][0]
    if len(fields) != 1 + count and not (cls is Envelope and len(fields) == 2 + count):
        raise DecodeError(f"expected an array of {1 + count} fields, not {len(fields)}")
    return fields[1:]


def _notification(data: bytes, limits: Limits) -> Notification:
    attributes, content_type, payload = decode_body(
        data,
        attributes=min(limits.attributes, MAX_INTEGER),
        name_bytes=min(limits.name_bytes, MAX_INTEGER),
        value_bytes=min(limits.value_bytes, MAX_INTEGER),
        payload_bytes=min(limits.payload_bytes, MAX_INTEGER),
    )
    if payload is None or content_type is None:
        return Notification.of_checked(attributes)
    return Notification.of_checked(attributes, Payload(payload, content_type))


def _body_rows(notification: Notification) -> tuple[object, ...]:
    payload = notification.payload
    if payload is None:
        return (notification._attributes,)
    return notification._attributes, payload.content_type, payload.data


def _constraint_row(constraint: Constraint) -> tuple[object, ...]:
    head = (constraint.name, constraint.type.value, constraint.operator.value)
    return head if constraint.value is None else (*head, constraint.value)


def _constraint_rows(constraints: Filter | Advertisement) -> list[tuple[object, ...]]:
    return [_constraint_row(constraint) for constraint in constraints]


_ROWS: dict[type, Callable[[Any], tuple[object, ...]]] = {
    Notification: _body_rows,
    Constraint: lambda constraint: (_constraint_row(constraint),),
    Filter: lambda filter: (_constraint_rows(filter),),
    Advertisement: lambda advertisement: (_constraint_rows(advertisement),),
    Pattern: lambda pattern: ([_constraint_rows(filter) for filter in pattern],),
    Envelope: parts.envelope_fields,
}


def _constraint(row: object, limits: Limits, path: str) -> Constraint:
    if not isinstance(row, list) or len(row) not in (3, 4):
        raise DecodeError("expected an array of name, type, operator and, with most operators, value", path)
    value = row[3] if len(row) == 4 else None
    if isinstance(value, list) or (len(row) == 4 and value is None):
        raise DecodeError("expected a string, number, boolean, time or bytes", f"{path}.value")
    return parts.constraint_of((row[0], row[1], row[2], value), limits, path)


def _filter(rows: object, limits: Limits, path: str) -> Filter:
    return Filter(parts.constraints_of(rows, _constraint, limits, path))


def _advertisement(fields: list[Any], limits: Limits) -> Advertisement:
    return parts.advertisement_of(parts.constraints_of(fields[0], _constraint, limits, "constraints"), "constraints")


def _pattern(fields: list[Any], limits: Limits) -> Pattern:
    return parts.finished(_pattern_steps(fields, limits))


def _pattern_steps(fields: list[Any], limits: Limits) -> Generator[int, None, Pattern]:
    filters = []
    for index, row in enumerate(parts.items_of(fields[0], "pattern_filters", limits, "filters")):
        filters.append(_filter(row, limits, f"filters[{index}]"))
        yield max(1, len(filters[-1]))
    return parts.pattern_of(filters, "filters")


_READERS: dict[type, tuple[int, Callable[[list[Any], Limits], Document]]] = {
    Constraint: (1, lambda fields, limits: _constraint(fields[0], limits, "constraint")),
    Filter: (1, lambda fields, limits: _filter(fields[0], limits, "constraints")),
    Advertisement: (1, _advertisement),
    Pattern: (1, _pattern),
    Envelope: (7, lambda fields, limits: parts.envelope_of(fields, limits, "envelope")),
}
"""For each class: how many fields follow the version, and how they are read. An envelope has one more with a trace."""
