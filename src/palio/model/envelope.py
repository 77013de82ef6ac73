"""What travels beside a notification's content and is never seen by filters: payload and envelope."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from palio.errors import InvalidValueError, brief
from palio.model.trace import Trace
from palio.model.value import MAX_INTEGER, Value, check_value


@dataclass(frozen=True, slots=True)
class Payload:
    """Opaque bytes with their content type.

    >>> Payload(b"{}", "application/json").content_type
    'application/json'
    """

    data: bytes
    content_type: str = "application/octet-stream"

    def __post_init__(self) -> None:
        _require("payload data", self.data, bytes)
        if not _require("payload content type", self.content_type, str):
            raise InvalidValueError("payload content type: empty; leave it out for application/octet-stream")


class NotificationId(msgspec.Struct, frozen=True, order=True, gc=False):
    """Who published a notification and as which: unique and, for one origin, ordered.

    >>> print(NotificationId("milan", 3, 41))
    milan/3/41
    """

    origin: str
    """The server where the notification entered the network."""
    incarnation: int
    """Which life of that server; a server that lost data comes back as a new incarnation."""
    sequence: int
    """The notification's number in that life."""

    def __post_init__(self) -> None:
        # every publication gets one: what is in order is found to be so at once
        if self.origin.__class__ is not str or not self.origin.isascii() or not self.origin:
            self._check_origin()
        if (
            self.incarnation.__class__ is not int
            or self.sequence.__class__ is not int
            or not 0 <= self.incarnation <= MAX_INTEGER
            or not 0 <= self.sequence <= MAX_INTEGER
        ):
            self._check_numbers()

    def _check_origin(self) -> None:
        if not _require("origin of a notification id", self.origin, str):
            raise InvalidValueError("origin of a notification id: empty; it names the server")

    def _check_numbers(self) -> None:
        for field in ("incarnation", "sequence"):
            number = getattr(self, field)
            if type(number) is not int or not 0 <= number <= MAX_INTEGER:
                raise InvalidValueError(
                    f"{field} of a notification id: {brief(number)} is no integer from 0 to 2**63 - 1"
                )

    def __str__(self) -> str:
        return f"{self.origin}/{self.incarnation}/{self.sequence}"


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """What the access point writes on a notification: identity, time, publisher; and wishes of the publisher.

    >>> from datetime import UTC
    >>> envelope = Envelope(NotificationId("milan", 1, 7), datetime(2026, 7, 2, tzinfo=UTC), "http://example.org/me")
    >>> envelope.expires is None
    True
    """

    id: NotificationId
    published: datetime
    publisher: str
    """The publisher's URI."""
    expires: datetime | None = None
    """When the notification is worth nothing any more."""
    key: str | None = None
    """Idempotency key: a publication repeated with the same key counts once."""
    trace: Trace | None = None
    """The publisher's span, if it said one."""

    def __post_init__(self) -> None:
        if (  # every publication gets one: what is in order is found to be so at once
            self.id.__class__ is not NotificationId
            or self.published.__class__ is not datetime
            or self.published.tzinfo is not UTC
            or self.publisher.__class__ is not str
            or not self.publisher.isascii()
            or self.expires is not None
            or self.key is not None
            or self.trace is not None
        ):
            self._check()

    def _check(self) -> None:
        if not isinstance(self.id, NotificationId):
            raise InvalidValueError(f"id of an envelope: {brief(self.id)} is no NotificationId")
        msgspec.structs.force_setattr(self, "published", _require("publication time", self.published, datetime))
        _require("publisher", self.publisher, str)
        if self.expires is not None:
            msgspec.structs.force_setattr(self, "expires", _require("expiry time", self.expires, datetime))
        if self.key is not None:
            _require("idempotency key", self.key, str)
        if self.trace is not None and not isinstance(self.trace, Trace):
            raise InvalidValueError(f"trace of an envelope: {brief(self.trace)} is no Trace")


def _require(what: str, value: object, cls: type) -> Value:
    if not isinstance(value, cls):
        raise InvalidValueError(f"{what}: {type(value).__name__} is no {cls.__name__}")
    return check_value(value, what)
