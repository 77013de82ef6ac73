"""From the requests of clients to the operations of the node."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from msgspec import Raw

from palio.codec import control
from palio.codec.parts import instant
from palio.errors import DecodeError, PeerError
from palio.model import Advertisement, Filter, Pattern
from palio.model.limits import Limits
from palio.node import ports
from palio.server.errors import Code, RefusedError, code_of

_OPERATIONS: dict[str, tuple[Any, tuple[type, ...]]] = {
    "subscribe": (ports.Subscribe, (Filter, Pattern)),
    "unsubscribe": (ports.Unsubscribe, (Filter, Pattern)),
    "advertise": (ports.Advertise, (Advertisement,)),
    "unadvertise": (ports.Unadvertise, (Advertisement,)),
    "watch": (ports.Watch, (Filter, Advertisement)),
    "unwatch": (ports.Unwatch, (Filter, Advertisement)),
}
"""The operations, and the types of their subjects."""
_WAITING = ("subscribe", "advertise")
_MOST_NUMBER = 2**32 - 1
_MOST_REASON = 1_024
"""Characters of the reason for which a delivery is rejected that are kept."""


class RequestError(PeerError):
    """A request is refused; the connection goes on."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


def check_number(number: int) -> None:
    """Refuse a connection that uses a number of a request out of range."""
    if not 0 <= number <= _MOST_NUMBER:
        raise RefusedError(Code.FRAME, f"numbers of requests are from 0 to {_MOST_NUMBER:,}")


Decoding = Generator[int, None, ports.Operation]
"""A request that is decoded filter by filter. Each step says how many constraints it has decoded, and at least one."""


def decode(ask: control.Ask, party: str, limits: Limits) -> Decoding:
    """Decode the operation that a party asks for, step by step."""
    if ask.operation not in _OPERATIONS:
        raise RefusedError(Code.FRAME, f"there is no operation {ask.operation!r:.40}")
    check_number(ask.number)
    operation, subjects = _OPERATIONS[ask.operation]
    if ask.party not in ("", party):
        raise RequestError(Code.NOT_ALLOWED, "nobody may act for another party here")
    subject = yield from _subject(ask.kind, ask.document, limits)
    instead: list[Any] = []
    for index, (kind, document) in enumerate(ask.instead):
        instead.append((yield from _subject(kind, document, limits, f"instead[{index}]: ")))
    if not isinstance(subject, subjects):
        raise RequestError(Code.INVALID, f"one cannot {ask.operation} {ask.kind}s")
    if instead and (operation is not ports.Unsubscribe or not all(isinstance(each, subjects) for each in instead)):
        raise RequestError(Code.INVALID, "only filters and patterns can take the place of what is cancelled")
    made: ports.Operation
    if ask.operation in _WAITING:
        made = operation(subject, ask.wait)
    else:
        made = operation(subject, tuple(instead)) if instead else operation(subject)
    return made


def _subject(kind: str, document: Raw, limits: Limits, place: str = "") -> Generator[int, None, Any]:
    try:
        return (yield from control.subject_steps(kind, document, limits))
    except DecodeError as error:
        raise RequestError(code_of(error), f"{place}{error}") from error


def log_operation_of(asked: control.Replay | control.Reject | control.Letters) -> ports.Operation:
    """The operation on its log that a durable party asks for."""
    check_number(asked.number)
    match asked:
        case control.Replay(_, first, since, last):
            try:
                begin = None if since is None else instant(since, "since")
            except DecodeError as error:
                raise RequestError(Code.INVALID, str(error)) from error
            return ports.Replay(first, begin, last)
        case control.Reject(_, delivery, reason):
            return ports.Reject(delivery, reason[:_MOST_REASON])
        case control.Letters(_, action, letters):
            return ports.Letters(action, letters)
