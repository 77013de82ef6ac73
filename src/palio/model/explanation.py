"""Why a filter does or does not match a notification, as data and as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from palio.model.constraint import Constraint
from palio.model.notification import Notification
from palio.model.operator import Operator
from palio.model.syntax.printer import print_literal, print_name
from palio.model.value import Type, Value


class Reason(StrEnum):
    """Why a constraint holds or fails."""

    HOLDS = "holds"
    MISSING = "missing"
    """The attribute is not there."""
    PRESENT = "present"
    """The attribute is there and should not be."""
    WRONG_TYPE = "wrong type"
    """The attribute is of a type that the constraint does not admit."""
    WRONG_VALUE = "wrong value"
    """The operator does not hold between the attribute's value and the constraint's."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one constraint; ``value`` and ``type`` are the attribute's, ``None`` if it is missing."""

    constraint: Constraint
    reason: Reason
    value: Value | None = None
    type: Type | None = None

    @property
    def holds(self) -> bool:
        """Whether the constraint is met."""
        return self.reason is Reason.HOLDS

    @property
    def remark(self) -> str:
        """Why it fails, in words; empty if it holds."""
        name = print_name(self.constraint.name)
        match self.reason:
            case Reason.MISSING:
                return f"{name} is missing"
            case Reason.WRONG_TYPE:
                assert self.type is not None
                return f"{name} is a value of type {self.type.value}, not {self.constraint.type.value}"
            case Reason.PRESENT | Reason.WRONG_VALUE:
                assert self.value is not None
                return f"{name} is {print_literal(self.value)}"
        return ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdicts on all constraints of a filter, in the filter's order."""

    verdicts: tuple[Verdict, ...]

    @property
    def matches(self) -> bool:
        """Whether every constraint holds."""
        return not self.failures

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """The verdicts on the constraints that do not hold."""
        return tuple(verdict for verdict in self.verdicts if not verdict.holds)

    def __str__(self) -> str:
        failed, count = len(self.failures), len(self.verdicts)
        constraints = "constraint" if count == 1 else "constraints"
        head = (
            f"does not match: {failed} of {count} {constraints} {'fails' if failed == 1 else 'fail'}"
            if failed
            else f"matches: {count} of {count} {constraints} {'holds' if count == 1 else 'hold'}"
        )
        texts = [str(verdict.constraint) for verdict in self.verdicts]
        width = max(map(len, texts), default=0)
        lines = [
            f"  {'holds' if verdict.holds else 'fails'}  {text:{width}}  {verdict.remark}".rstrip()
            for verdict, text in zip(self.verdicts, texts, strict=True)
        ]
        return "\n".join([head, *lines])


def explain(constraints: Iterable[Constraint], notification: Notification) -> Explanation:
    """Judge each constraint on its own."""
    return Explanation(tuple(_judge(constraint, notification) for constraint in constraints))


def _judge(constraint: Constraint, notification: Notification) -> Verdict:
    value = notification.get(constraint.name)
    type = None if value is None else notification.type_of(constraint.name)
    if constraint.matches_value(value):
        reason = Reason.HOLDS
    elif constraint.operator is Operator.ABSENT:
        reason = Reason.PRESENT
    elif value is None:
        reason = Reason.MISSING
    elif value.__class__ not in constraint.classes:
        reason = Reason.WRONG_TYPE
    else:
        reason = Reason.WRONG_VALUE
    return Verdict(constraint, reason, value, type)
