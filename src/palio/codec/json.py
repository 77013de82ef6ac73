"""The JSON form.

>>> from palio import Notification
>>> encode(Notification(event="alarm", level=5))
b'{"palio":1,"notification":{"event":"alarm","level":5}}'
>>> decode(Notification, encode(Notification(event="alarm", level=5)))
Notification(event='alarm', level=5)

JSON has neither times nor bytes, and other languages' writers lose the difference between 5 and 5.0 and the last
digits of large integers. So a value may be an object with one key that names its type: ``{"time": "..."}``,
``{"bytes": "base64"}``, ``{"integer": "..."}``, ``{"float": 5}``. The first two are written, all four are read.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import Any, NoReturn, cast

import msgspec.json

from palio.codec import parts
from palio.codec.parts import VERSION, Document, T
from palio.errors import DecodeError, DecodeLimitError, brief
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
from palio.model.syntax.literals import read_instant
from palio.model.syntax.printer import print_literal
from palio.model.value import MAX_INTEGER, MIN_INTEGER, Value, check_value

_encode = msgspec.json.Encoder().encode


def encode(value: Document) -> bytes:
    """The JSON text of a notification, filter, advertisement, pattern, constraint or envelope, in UTF-8."""
    parts.check_class(value.__class__, _FORMS)
    kind, write, _ = _FORMS[value.__class__]
    document = {"palio": VERSION, kind: write(value)}
    if isinstance(value, Notification) and value.payload is not None:
        data = base64.b64encode(value.payload.data).decode()
        document["payload"] = {"content_type": value.payload.content_type, "data": data}
    return _encode(document)


def decode(cls: type[T], data: bytes | str, limits: Limits = DEFAULT_LIMITS) -> T:
    """Read a document of the form; everything else is refused with :class:`~palio.errors.DecodeError`."""
    parts.check_class(cls, _FORMS)
    kind, _, read = _FORMS[cls]
    document = _load(data, limits)
    if not isinstance(document, dict):
        raise DecodeError("expected an object")
    if "palio" not in document:
        raise DecodeError('the version is missing; expected {"palio": 1, ...}')
    parts.check_version(document["palio"])
    optional = ("payload",) if cls is Notification else ()
    _check_keys(document, ("palio", kind), optional, "")
    value = read(document[kind], limits, kind)
    if "payload" in document:
        payload = _payload(document["payload"], limits)
        return cast("T", value.with_payload(payload.data, payload.content_type))
    return cast("T", value)


# -- writing ----------------------------------------------------------------------------------------------------------


def _write_value(value: Value) -> object:
    if isinstance(value, datetime):
        return {"time": print_literal(value)}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    return value


def _write_constraint(constraint: Constraint) -> dict[str, object]:
    row: dict[str, object] = {
        "name": constraint.name,
        "type": constraint.type.value,
        "op": constraint.operator.value,
    }
    if constraint.value is not None:
        row["value"] = _write_value(constraint.value)
    return row


def _write_constraints(constraints: Filter | Advertisement) -> list[dict[str, object]]:
    return [_write_constraint(constraint) for constraint in constraints]


_ENVELOPE_KEYS = ("origin", "incarnation", "sequence", "published", "publisher", "expires", "key", "trace")


def _write_envelope(envelope: Envelope) -> dict[str, object]:
    fields = zip(_ENVELOPE_KEYS, parts.envelope_fields(envelope), strict=False)  # the last is a trace, if there is one
    return {
        key: print_literal(field) if isinstance(field, datetime) else field
        for key, field in fields
        if field is not None
    }


# -- reading ----------------------------------------------------------------------------------------------------------

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[{\]}]', re.DOTALL)
"""Strings (an open one to the end of the text, so that no place is looked at twice) and brackets."""


def _load(data: bytes | str, limits: Limits) -> object:
    """JSON text as Python objects: no duplicate keys, no NaN, no integers beyond 64 bits, no deep nesting."""
    data = parts.document_bytes(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data, limits)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"not UTF-8 at byte {error.start}") from None
    depth = 0
    for match in _BRACKETS.finditer(text):  # before the library looks, because it recurses
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > parts.DEPTH:
            raise DecodeError("nested deeper than any document of this kind", f"character {match.start()}")
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise DecodeError(f"not JSON: {error.msg}", f"line {error.lineno} column {error.colno}") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise DecodeError(f"key {brief(key)} given twice in one object")
        result[key] = value
    return result


def _integer(digits: str) -> int:
    number = int(digits) if len(digits) <= 20 else MAX_INTEGER + 1
    if not MIN_INTEGER <= number <= MAX_INTEGER:
        raise DecodeError(f"integer outside the signed 64-bit range: {digits[:24]}")
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise DecodeError(f"number too large for a float: {digits[:24]}")
    return number


def _constant(word: str) -> NoReturn:
    raise DecodeError(f"{word} is not JSON, and not a finite number")


def _check_keys(document: dict[str, object], required: tuple[str, ...], optional: tuple[str, ...], path: str) -> None:
    for key in required:
        if key not in document:
            raise DecodeError(f"key {key!r} is missing", path)
    for key in document:
        if key not in required and key not in optional:
            raise DecodeError(f"unknown key {brief(key)}; known are {', '.join((*required, *optional))}", path)


def _dictionary(value: object, required: tuple[str, ...], optional: tuple[str, ...], path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DecodeError("expected an object", path)
    _check_keys(value, required, optional, path)
    return value


def _value(value: object, path: str) -> Value:
    """A value of the model; checks beyond its form are the model's."""
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, dict) and len(value) == 1:
        ((tag, inner),) = value.items()
        if tag in _TAGGED:
            return _TAGGED[tag](inner, f"{path}.{tag}")
    raise DecodeError(
        'expected a string, number, boolean, {"time": ...}, {"bytes": ...}, {"integer": ...} or {"float": ...}', path
    )


def _time(text: object, path: str) -> datetime:
    if not isinstance(text, str) or not text[:1].isdigit():
        raise DecodeError("expected an instant as a string, such as 2026-07-02T19:30:00Z", path)
    with parts.placed(path):
        return read_instant(text, 0, len(text))


def _bytes(text: object, path: str) -> bytes:
    try:
        if isinstance(text, str) and text.isascii():
            data = base64.b64decode(text, validate=True)
            if base64.b64encode(data).decode() == text:  # one spelling only: no stray bits at the end
                return data
    except binascii.Error:
        pass
    raise DecodeError("expected bytes as a string in base64 with padding", path)


def _tagged_integer(value: object, path: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"0|-?[1-9]\d{0,18}", value, re.ASCII):
        with parts.placed(path):
            checked = check_value(int(value), "integer")
        assert isinstance(checked, int)
        return checked
    if type(value) is int:
        return value
    raise DecodeError("expected an integer, or its digits as a string", path)


def _tagged_float(value: object, path: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DecodeError("expected a number", path)
    if float(value) != value:
        raise DecodeError(f"{value} is no float; the nearest one is {float(value)}", path)
    return float(value)


_TAGGED: dict[str, Callable[[object, str], Value]] = {
    "time": _time,
    "bytes": _bytes,
    "integer": _tagged_integer,
    "float": _tagged_float,
}


def _notification(attributes: object, limits: Limits, path: str) -> Notification:
    if not isinstance(attributes, dict):
        raise DecodeError("expected an object", path)
    if len(attributes) > limits.attributes:
        raise DecodeLimitError("attributes", limits.attributes, "attributes", path)
    names = list(attributes)
    for previous, name in pairwise(names):
        if name < previous:
            raise DecodeError("names not in ascending order of code points", parts.place(path, name))
    values: dict[str, Value] = {}
    for name, value in attributes.items():
        place = parts.place(path, name)
        parts.check_size(name, "name_bytes", limits, place)
        values[name] = _value(value, place)
        parts.check_size(values[name], "value_bytes", limits, place)
    with parts.placed(path):
        return Notification(values)


def _payload(value: object, limits: Limits) -> Payload:
    fields = _dictionary(value, ("content_type", "data"), (), "payload")
    data = _bytes(fields["data"], "payload.data")
    parts.check_size(data, "payload_bytes", limits, "payload.data")
    parts.check_size(fields["content_type"], "name_bytes", limits, "payload.content_type")
    with parts.placed("payload"):
        return Payload(data, fields["content_type"])


def _constraint(row: object, limits: Limits, path: str) -> Constraint:
    fields = _dictionary(row, ("name", "type", "op"), ("value",), path)
    value = _value(fields["value"], f"{path}.value") if "value" in fields else None
    return parts.constraint_of((fields["name"], fields["type"], fields["op"], value), limits, path)


def _filter(rows: object, limits: Limits, path: str) -> Filter:
    return Filter(parts.constraints_of(rows, _constraint, limits, path))


def _advertisement(rows: object, limits: Limits, path: str) -> Advertisement:
    return parts.advertisement_of(parts.constraints_of(rows, _constraint, limits, path), path)


def _pattern(rows: object, limits: Limits, path: str) -> Pattern:
    items = parts.items_of(rows, "pattern_filters", limits, path)
    return parts.pattern_of([_filter(row, limits, f"{path}[{index}]") for index, row in enumerate(items)], path)


def _envelope(value: object, limits: Limits, path: str) -> Envelope:
    fields = _dictionary(value, _ENVELOPE_KEYS[:5], _ENVELOPE_KEYS[5:], path)
    if "key" in fields and fields["key"] is None:
        raise DecodeError("expected a string; leave the key out if there is none", f"{path}.key")
    for key in ("published", "expires"):
        if key in fields:
            fields[key] = _time(fields[key], f"{path}.{key}")
    keys = _ENVELOPE_KEYS if "trace" in fields else _ENVELOPE_KEYS[:-1]
    return parts.envelope_of([fields.get(key) for key in keys], limits, path)


_FORMS: dict[type, tuple[str, Callable[[Any], object], Callable[[object, Limits, str], Any]]] = {
    Notification: (
        "notification",
        lambda notification: {name: _write_value(value) for name, value in notification.items()},
        _notification,
    ),
    Constraint: ("constraint", _write_constraint, _constraint),
    Filter: ("filter", _write_constraints, _filter),
    Advertisement: ("advertisement", _write_constraints, _advertisement),
    Pattern: ("pattern", lambda pattern: [_write_constraints(filter) for filter in pattern], _pattern),
    Envelope: ("envelope", _write_envelope, _envelope),
}
"""For each class: the key of its content, how it is written, how it is read."""
