"""Dead letters, and what else a durable party asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from palio import codec
from palio.client.durable import microseconds
from palio.errors import CallerError, DecodeError, brief
from palio.model import PROTOCOL_LIMITS, Envelope, Notification

_LIMITS = replace(PROTOCOL_LIMITS, document_bytes=2**29)
"""A document takes more bytes in JSON than the maximum says, which counts those of MessagePack."""

_MOST = 2**63 - 1


class Letter(NamedTuple):
    """A delivery with which nothing could be done."""

    number: int
    """Among the party's dead letters."""
    delivery: int
    """Its number in the party's log."""
    reason: str
    time: datetime
    """When it became one."""
    notifications: tuple[Notification, ...]
    """The only one, or those of a sequence."""


class DeadLetters(NamedTuple):
    """The dead letters of a party."""

    letters: tuple[Letter, ...]
    forgotten: int
    """How many more there were, which the server did not keep."""


def read_letters(document: dict[str, Any]) -> DeadLetters:
    """What the server says of them.

    >>> form = {"letter": 4, "delivery": 41, "reason": "no such customer", "time": "2026-11-16T09:30:00Z",
    ...         "notifications": [{"palio": 1, "notification": {"customer": 7}}]}
    >>> read_letters({"letters": [form], "forgotten": 0}).letters[0].notifications
    (Notification(customer=7),)
    """
    try:
        return DeadLetters(tuple(map(_letter, document["letters"])), int(document["forgotten"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DecodeError(f"what the server says of dead letters cannot be read: {brief(str(error))}") from error


def _letter(form: dict[str, Any]) -> Letter:
    notifications = tuple(map(_notification, form["notifications"]))
    time = datetime.fromisoformat(form["time"])
    return Letter(int(form["letter"]), int(form["delivery"]), str(form["reason"]), time, notifications)


def _notification(form: dict[str, Any]) -> Notification:
    rest = {key: value for key, value in form.items() if key != "envelope"}
    notification = codec.json.decode(Notification, json.dumps(rest), _LIMITS)
    if "envelope" not in form:
        return notification
    document = json.dumps({"palio": form.get("palio"), "envelope": form["envelope"]})
    return notification.with_envelope(codec.json.decode(Envelope, document, _LIMITS))


def read_numbers(letters: Iterable[int]) -> tuple[int, ...]:
    """The numbers of dead letters."""
    numbers = tuple(letters)
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MOST:
            raise CallerError(
                f"letters: {brief(number)} is no number of a dead letter; it is an integer, and not negative"
            )
    if not numbers:
        raise CallerError("letters: none is named")
    return numbers


def read_replay(
    first: int | None, since: datetime | timedelta | None, last: int | None
) -> tuple[int, datetime | None, int]:
    """What of the log is wanted once more, as it is said to the server.

    >>> read_replay(None, None, 10)
    (-1, None, 10)
    """
    if sum(each is not None for each in (first, since, last)) != 1:
        raise CallerError("replay: say one of first, since and last")
    for name, number in (("first", first), ("last", last)):
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if number is not None and not (is_number and 0 <= number <= _MOST):
            raise CallerError(f"replay: {name}: {brief(number)} is no count; it is an integer, and not negative")
    return -1 if first is None else first, _since(since), -1 if last is None else last


def _since(since: datetime | timedelta | None) -> datetime | None:
    if isinstance(since, timedelta):
        try:
            return datetime.now(UTC) - timedelta(microseconds=microseconds(since, "replay: since"))
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    if since is not None and (not isinstance(since, datetime) or since.tzinfo is None):
        raise CallerError(f"replay: since: {brief(since)} is no time with a time zone, nor a timedelta")
    return None if since is None else since.astimezone(UTC)
