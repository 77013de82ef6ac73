"""Palio: an event notification service. Say what you want, not which topic.

>>> from palio import Filter, Notification
>>> Filter.parse('event = "alarm" and level > 3').matches(Notification(event="alarm", level=5))
True
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palio.client import Cursor, Durable, PublishOptions, connect
    from palio.client.sync import connect_sync
    from palio.errors import PalioError
    from palio.model import (
        Advertisement,
        Constraint,
        Envelope,
        Filter,
        Limits,
        Mode,
        Notification,
        NotificationId,
        Operator,
        Pattern,
        Payload,
        Trace,
        Type,
    )

__version__ = "0.1.0"

__all__ = [
    "Advertisement",
    "Constraint",
    "Cursor",
    "Durable",
    "Envelope",
    "Filter",
    "Limits",
    "Mode",
    "Notification",
    "NotificationId",
    "Operator",
    "PalioError",
    "Pattern",
    "Payload",
    "PublishOptions",
    "Trace",
    "Type",
    "__version__",
    "connect",
    "connect_sync",
]

_ELSEWHERE = {
    **dict.fromkeys(("Cursor", "Durable", "PublishOptions", "connect"), "palio.client"),
    "connect_sync": "palio.client.sync",
    "PalioError": "palio.errors",
}
"""What is not in the model."""


def __getattr__(name: str) -> Any:
    """Nobody waits for what is not used: commands print their help before the model would be loaded."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value = globals()[name] = getattr(import_module(_ELSEWHERE.get(name, "palio.model")), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
