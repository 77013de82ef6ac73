"""Trace context: what of a distributed trace travels with a notification, as the W3C recommendation has it."""

from __future__ import annotations

import re

import msgspec

from palio.errors import InvalidValueError, brief

MOST_BYTES = 512
"""Of the text of a trace context."""
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")
_STATE = re.compile(r"[ -~]*")
_FIRST_VERSION = 55
"""Characters of a ``traceparent`` of version 00; later versions may have more."""


class Trace(msgspec.Struct, frozen=True, gc=False):
    """The span in which a notification was published; filters never see it.

    >>> trace = Trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1")
    >>> trace.headers
    {'traceparent': '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'tracestate': 'vendor=1'}
    >>> Trace.parse(str(trace)) == trace
    True
    """

    parent: str
    """The value of the header ``traceparent``."""
    state: str = ""
    """That of ``tracestate``; vendors know what it means."""

    def __post_init__(self) -> None:
        parent, state = self.parent, self.state
        is_parent = isinstance(parent, str) and _PARENT.fullmatch(parent) is not None
        if not is_parent or (parent.startswith("00") and len(parent) != _FIRST_VERSION):
            raise InvalidValueError(
                f"trace: {brief(parent)} is no traceparent; one looks like "
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            )
        if not isinstance(state, str) or _STATE.fullmatch(state) is None:
            raise InvalidValueError(f"trace: {brief(state)} is no tracestate; it has printable ASCII characters only")
        if len(str(self)) > MOST_BYTES:
            raise InvalidValueError(f"trace: longer than {MOST_BYTES} bytes; leave out the tracestate, or a part of it")

    @classmethod
    def parse(cls, text: str) -> Trace:
        """Read the text of a trace: ``traceparent``, and ``tracestate`` after a space if there is one."""
        if not isinstance(text, str):
            raise InvalidValueError(f"trace: {type(text).__name__} is no text")
        parent, _, state = text.partition(" ")
        return cls(parent, state)

    def __str__(self) -> str:
        return f"{self.parent} {self.state}" if self.state else self.parent

    @property
    def headers(self) -> dict[str, str]:
        """As the headers of HTTP: what propagators of tracing libraries read and write."""
        return {"traceparent": self.parent, **({"tracestate": self.state} if self.state else {})}
