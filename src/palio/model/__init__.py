"""What notifications, filters, advertisements and patterns are, and how they relate.

Everything here is an immutable value; nothing does input or output. ``docs/semantics.md`` gives the rules.
"""

from palio.model.advertisement import Advertisement
from palio.model.constraint import Constraint
from palio.model.envelope import Envelope, NotificationId, Payload
from palio.model.exactness import INEXACT, InexactCase, inexact_cases
from palio.model.explanation import Explanation, Reason, Verdict
from palio.model.filter import NOTHING, Filter
from palio.model.limits import DEFAULT_LIMITS, PROTOCOL_LIMITS, Limits
from palio.model.mode import Mode
from palio.model.notification import Notification
from palio.model.operator import Operator
from palio.model.pattern import Pattern
from palio.model.trace import Trace
from palio.model.value import Type, Value

__all__ = [
    "DEFAULT_LIMITS",
    "INEXACT",
    "NOTHING",
    "PROTOCOL_LIMITS",
    "Advertisement",
    "Constraint",
    "Envelope",
    "Explanation",
    "Filter",
    "InexactCase",
    "Limits",
    "Mode",
    "Notification",
    "NotificationId",
    "Operator",
    "Pattern",
    "Payload",
    "Reason",
    "Trace",
    "Type",
    "Value",
    "Verdict",
    "inexact_cases",
]
