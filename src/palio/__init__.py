"""Palio: an event notification service. Say what you want, not which topic.

>>> from palio import Filter, Notification
>>> Filter.parse('event = "alarm" and level > 3').matches(Notification(event="alarm", level=5))
True
"""

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
    Type,
)

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
    "Type",
    "__version__",
]
