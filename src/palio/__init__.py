"""Palio: an event notification service. Say what you want, not which topic.

>>> from palio import Filter, Notification
>>> Filter.parse('event = "alarm" and level > 3').matches(Notification(event="alarm", level=5))
True
"""

from typing import TYPE_CHECKING, Any

from palio.errors import PalioError
from palio.model import (
    Advertisement,
    Constraint,
    Envelope,
    Filter,
    Limits,
    Notification,
    NotificationId,
    Operator,
    Pattern,
    Payload,
    Trace,
    Type,
)

if TYPE_CHECKING:
    from palio.client import connect
    from palio.client.sync import connect_sync

__version__ = "0.1.0"

__all__ = [
    "Advertisement",
    "Constraint",
    "Envelope",
    "Filter",
    "Limits",
    "Notification",
    "NotificationId",
    "Operator",
    "PalioError",
    "Pattern",
    "Payload",
    "Trace",
    "Type",
    "__version__",
    "connect",
    "connect_sync",
]

_LAZY = {"connect": "palio.client", "connect_sync": "palio.client.sync"}


def __getattr__(name: str) -> Any:
    """Who only uses the model does not wait for the client to be loaded."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_LAZY[name]), name)
