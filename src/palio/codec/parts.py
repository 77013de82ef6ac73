"""What both forms share: the version, the documents there are, and how their parts become values of the model."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from palio.errors import CallerError, DecodeError, DecodeLimitError, TextSyntaxError, brief
from palio.model import (
    Advertisement,
    Constraint,
    Envelope,
    Filter,
    Limits,
    Notification,
    NotificationId,
    Pattern,
    Trace,
)
from palio.model.value import check_value

UNREADABLE = (msgspec.MsgspecError, CallerError, ValueError, ArithmeticError, RecursionError)
"""What decoders raise when bytes cannot be read: msgspec lets some errors of Python through, such as those of invalid
UTF-8, of times that do not exist in UTC and of deep nesting.
"""

VERSION = 1
"""The version of the forms; a reader refuses documents of another one."""

DEPTH = 8
"""Levels of nesting that a reader follows; the deepest document has five."""

Document = Notification | Constraint | Filter | Advertisement | Pattern | Envelope
T = TypeVar("T", bound=Document)
R = TypeVar("R")


def check_class(cls: object, known: Container[object]) -> None:
    """Refuse a class that has no encoded form."""
    if not isinstance(cls, type) or cls not in known:
        raise CallerError(f"{cls.__name__ if isinstance(cls, type) else brief(cls)} has no encoded form")


def document_bytes(data: object, limits: Limits) -> bytes:
    """The bytes of a document, which are refused beyond the limit before anything is done with them."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CallerError(f"a document is bytes, not {type(data).__name__}")
    size = data.nbytes if isinstance(data, memoryview) else len(data)
    if size > limits.document_bytes:
        raise DecodeLimitError("document_bytes", limits.document_bytes, "bytes in one document")
    return bytes(data)


def check_version(version: object) -> None:
    """Refuse a document of a version that this release does not know."""
    if type(version) is not int or version != VERSION:
        raise DecodeError(f"version {brief(version)} is not known here; this release reads version {VERSION}")


def finished(steps: Generator[object, None, R]) -> R:
    """The result of work that is done in steps, when all are made."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast("R", done.value)


def place(path: str, name: str) -> str:
    """The path of something by name; a peer's name is quoted, and cut if it is long."""
    return f"{path}[{name if name.isprintable() and len(name) <= _SHOWN else brief(name)}]"


_SHOWN = 60


@contextmanager
def placed(path: str) -> Iterator[None]:
    """Report what the model refuses as a fault of the document, at its place."""
    try:
        yield
    except CallerError as error:
        raise _at(path, error) from error


def _at(path: str, error: CallerError) -> DecodeError:
    return DecodeError(error.problem if isinstance(error, TextSyntaxError) else str(error), path)


def constraint_of(row: tuple[Any, Any, Any, Any], limits: Limits, path: str) -> Constraint:
    """A constraint from name, type, operator and value, as they were decoded; ``None`` stands for no value."""
    name, type, operator, value = row
    for part, what in ((name, "name"), (type, "type"), (operator, "op")):
        if not isinstance(part, str):
            raise DecodeError("expected a string", f"{path}.{what}")
    check_size(name, "name_bytes", limits, f"{path}.name")
    check_size(value, "literal_bytes", limits, f"{path}.value")
    try:
        return Constraint(name, operator, value, type)
    except CallerError as error:
        raise _at(path, error) from error


def constraints_of(
    rows: object, read: Callable[[object, Limits, str], Constraint], limits: Limits, path: str
) -> list[Constraint]:
    """The constraints of a filter or an advertisement, each read from its row."""
    rows = items_of(rows, "constraints", limits, path)
    return [read(row, limits, f"{path}[{index}]") for index, row in enumerate(rows)]


def items_of(items: object, limit: str, limits: Limits, path: str) -> Sequence[object]:
    """A list of at most so many items."""
    if not isinstance(items, list):
        raise DecodeError("expected an array", path)
    allowed = getattr(limits, limit)
    if len(items) > allowed:
        raise DecodeLimitError(limit, allowed, limit.replace("_", " "), path)
    return items


def advertisement_of(constraints: list[Constraint], path: str) -> Advertisement:
    """An advertisement from its constraints; the model refuses ``absent``."""
    with placed(path):
        return Advertisement(constraints)


def pattern_of(filters: list[Filter], path: str) -> Pattern:
    """A pattern from its filters; the model refuses an empty one."""
    with placed(path):
        return Pattern(filters)


def envelope_of(fields: Sequence[Any], limits: Limits, path: str) -> Envelope:
    """An envelope from origin, incarnation, sequence, publication time, publisher, expiry time, key and trace.

    There need not be a trace.
    """
    origin, incarnation, sequence, published, publisher, expires, key, *rest = fields
    for text in (origin, publisher):
        check_size(text, "literal_bytes", limits, path)
    check_size(key, "key_bytes", limits, path)
    with placed(path):
        id = NotificationId(origin, incarnation, sequence)
        if not rest:
            return Envelope(id, published, publisher, expires, key)
        return Envelope(id, published, publisher, expires, key, Trace.parse(rest[0]))


def envelope_fields(envelope: Envelope) -> tuple[str | int | datetime | None, ...]:
    """The fields of an envelope in the order of :func:`envelope_of`."""
    id, trace = envelope.id, envelope.trace
    fields = (
        id.origin, id.incarnation, id.sequence, envelope.published, envelope.publisher, envelope.expires, envelope.key
    )  # fmt: skip
    return fields if trace is None else (*fields, str(trace))


def instant(time: datetime, path: str) -> datetime:
    """A time from outside in UTC; refused if it has no time zone, or lies outside years 1 to 9999 in UTC."""
    with placed(path):
        checked = check_value(time, "time")
    assert isinstance(checked, datetime)
    return checked


_MOST_BYTES = 4
"""Bytes of one character in UTF-8, at most."""


def check_size(value: object, limit: str, limits: Limits, path: str) -> None:
    """Refuse a string or bytes beyond a limit in bytes."""
    if isinstance(value, str | bytes):
        allowed = getattr(limits, limit)
        if len(value) * _MOST_BYTES <= allowed:
            return
        size = len(value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value)
        if size > allowed:
            raise DecodeLimitError(limit, allowed, "bytes", path)
