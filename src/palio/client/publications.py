"""Publications: what is said of them, and those that are said again after a break."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

import msgspec

from palio.client.durable import microseconds
from palio.client.errors import ConnectionLostError, ServiceError, TooLargeError
from palio.client.tracing import current_trace
from palio.codec import frames
from palio.errors import CallerError, brief
from palio.model import Mode, Notification, Trace, Value
from palio.model.limits import HIGHEST_LIMITS
from palio.model.value import check_value, is_scalar

_MOST_KEY = HIGHEST_LIMITS.key_bytes
"""No server takes more; most take less, and refuse a key that is too long for them."""


class Acceptance(NamedTuple):
    """The answer of a server that has accepted a publication."""

    mode: Mode
    """What that promises."""
    is_duplicate: bool = False
    """Whether the party had published with this key before, so that this publication had no effect. A publication that
    the client had to repeat, because the connection broke, may be a duplicate of itself."""


class PublishOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a publisher may say of a publication.

    >>> PublishOptions(key="order-17", mode="local", expires=timedelta(minutes=10)).key
    'order-17'
    """

    trace: Trace | None = None
    """The span in which it is published; by default the current one, where opentelemetry-api is installed."""
    expires: datetime | timedelta | float | None = None
    """When it is worth nothing any more: a time, or a duration from now on, as a number in seconds."""
    key: str | None = None
    """The server counts publications of a party with the same key once. So one with a key is published again when the
    connection breaks."""
    mode: Mode | str | None = None
    """What acceptance is to promise at least; by default what the client said when it connected."""

    def wire(self) -> frames.Options | None:
        """As it is said to the server; nothing, if nothing is said."""
        if self.trace is not None and not isinstance(self.trace, Trace):
            raise CallerError(f"{brief(self.trace)} is no Trace; Trace.parse makes one of text")
        if self.key is not None:
            check_key(self.key)
        trace = None if self.trace is None else str(self.trace)
        options = frames.Options(trace, _instant(self.expires), self.key, read_mode(self.mode))
        return None if options == frames.Options() else options


def read_mode(given: Mode | str | None) -> Mode | None:
    """A mode, or its name.

    >>> read_mode("synced")
    <Mode.SYNCED: 'synced'>
    """
    if given is None or isinstance(given, Mode):
        return given
    try:
        return Mode(given)
    except ValueError:
        known = ", ".join(mode.value for mode in Mode)
        raise CallerError(f"mode: {brief(given)} is none of {known}") from None


def check_key(key: str) -> None:
    """Refuse what is no key."""
    if not isinstance(key, str) or not is_scalar(key) or not 1 <= len(key.encode()) <= _MOST_KEY:
        raise CallerError(f"key: {brief(key)} is none; it is text of 1 to {_MOST_KEY:,} bytes")


def _instant(given: datetime | timedelta | float | None) -> datetime | None:
    if given is None:
        return None
    if not isinstance(given, datetime):
        try:
            return datetime.now(UTC) + timedelta(microseconds=microseconds(given, "expires"))
        except OverflowError:
            raise CallerError(f"expires: {brief(given)} is too far away") from None
    if given.tzinfo is None:
        raise CallerError(f"expires: {given} has no time zone; datetime.now(UTC) has one, for example")
    checked = check_value(given, "expires")
    assert isinstance(checked, datetime)
    return checked


class Publication(NamedTuple):
    """What is published, and what is said of it."""

    notification: Notification
    options: frames.Options | None

    def frame(self, number: int) -> bytes:
        """As it goes to the server."""
        if self.options is None:
            return frames.publish(self.notification, number)
        return frames.publish_with(self.notification, self.options, number)

    @property
    def is_repeatable(self) -> bool:
        """Whether the server counts it once, however often it comes."""
        return self.options is not None and self.options.key is not None


def read_publication(
    given: Mapping[str, Value] | None,
    options: PublishOptions | Trace | None,
    attributes: dict[str, Value],
    make_key: Callable[[], str] | None = None,
) -> Publication:
    """What a publisher has given; with a key of its own, if it should have one and none was said."""
    options = traced(options)
    if make_key is not None and options.key is None:
        options = msgspec.structs.replace(options, key=make_key())
    return Publication(_notification(given, attributes), options.wire())


def traced(options: PublishOptions | Trace | None) -> PublishOptions:
    """Options, with the current span where no trace is given. A trace alone may stand for them."""
    if isinstance(options, Trace):
        return PublishOptions(trace=options)
    if options is not None and not isinstance(options, PublishOptions):
        raise CallerError(f"{brief(options)} is neither PublishOptions nor a Trace; Trace.parse makes one of text")
    options = options or PublishOptions()
    trace = current_trace() if options.trace is None else None
    return options if trace is None else msgspec.structs.replace(options, trace=trace)


def _notification(given: Mapping[str, Value] | None, attributes: dict[str, Value]) -> Notification:
    if isinstance(given, Notification):
        if attributes:
            raise CallerError("give a notification or attributes, not both")
        return given
    return Notification(given or {}, **attributes)


class Waiting(NamedTuple):
    """A publication that waits to be sent."""

    publication: Publication
    is_confirmed: bool
    turn: asyncio.Future[asyncio.Future[Acceptance]]
    """Done when it was sent, with a future that is done when it was accepted."""


class Unaccepted:
    """Publications with keys that nobody knows to be accepted, in their order; each connection gets them again."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[Acceptance], Publication] = {}
        self._end: ServiceError | CallerError | None = None

    def follow(self, publication: Publication, attempt: asyncio.Future[Acceptance]) -> asyncio.Future[Acceptance]:
        """A publication was sent: the future is done when it was accepted or refused, perhaps by a later connection."""
        if not publication.is_repeatable:
            return attempt
        outcome: asyncio.Future[Acceptance] = asyncio.get_running_loop().create_future()
        self._waiting[outcome] = publication
        outcome.add_done_callback(self._forget)
        attempt.add_done_callback(partial(self._tried, outcome))
        return outcome

    def _forget(self, outcome: asyncio.Future[Acceptance]) -> None:
        del self._waiting[outcome]
        if not outcome.cancelled():
            outcome.exception()  # who waits no longer need not hear of it

    def _tried(self, outcome: asyncio.Future[Acceptance], attempt: asyncio.Future[Acceptance]) -> None:
        error = attempt.exception()
        if outcome.done():
            return
        if error is None:
            outcome.set_result(attempt.result())
        elif not isinstance(error, ConnectionLostError):
            outcome.set_exception(error)
        elif self._end is not None:
            outcome.set_exception(_ended(self._end))

    def repeat(self, publish: Callable[[Publication], asyncio.Future[Acceptance]]) -> None:
        """There is another connection."""
        for outcome, publication in self._waiting.items():
            if outcome.done():
                continue
            try:
                publish(publication).add_done_callback(partial(self._tried, outcome))
            except TooLargeError as error:  # for a server that came in place of another one
                outcome.set_exception(error)

    def give_up(self, reason: ServiceError | CallerError) -> None:
        """There will be no connection any more."""
        self._end = reason
        for outcome in self._waiting:
            if not outcome.done():
                outcome.set_exception(_ended(reason))

    async def settled(self) -> None:
        """Wait until all were accepted or refused."""
        if self._waiting:
            await asyncio.wait(list(self._waiting))


def _ended(reason: ServiceError | CallerError) -> Exception:
    """An error for each of those who wait."""
    return ConnectionLostError(str(reason), getattr(reason, "code", "closed"))
