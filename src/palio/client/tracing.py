"""The trace in which a program publishes, if it is traced: that of OpenTelemetry, where its API is installed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from palio.errors import CallerError
from palio.model import Trace

_inject: Any = None
"""Writes the headers of the current span; if that cannot be, nobody asks again."""
try:
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    pass
else:
    _inject = TraceContextTextMapPropagator().inject


def current_trace() -> Trace | None:
    """The current span, if there is one; a ``tracestate`` that is too long stays behind, as W3C allows."""
    if _inject is None or not get_current_span().get_span_context().is_valid:
        return None
    headers: dict[str, str] = {}
    _inject(headers)
    parent = headers.get("traceparent", "")
    with suppress(CallerError):
        return Trace(parent, headers.get("tracestate", ""))
    with suppress(CallerError):
        return Trace(parent)
    return None
