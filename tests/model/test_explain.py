"""Explanations, as data and as text."""

from __future__ import annotations

from palio import Filter, Notification
from palio.model import Reason


def test_every_reason() -> None:
    filter = Filter.parse('event = "alarm" and level > 3 and user any and room absent and "my name" *< "x"')
    notification = Notification(event=5, level=2, room="B12")
    explanation = filter.explain(notification)
    assert not explanation.matches
    assert [verdict.reason for verdict in explanation.verdicts] == [
        Reason.WRONG_TYPE,
        Reason.WRONG_VALUE,
        Reason.MISSING,
        Reason.PRESENT,
        Reason.MISSING,
    ]
    assert [verdict.value for verdict in explanation.verdicts] == [5, 2, None, "B12", None]
    assert str(explanation) == (
        "does not match: 5 of 5 constraints fail\n"
        '  fails  event = "alarm"   event is a value of type integer, not string\n'
        "  fails  level > 3         level is 2\n"
        "  fails  user any          user is missing\n"
        '  fails  room absent       room is "B12"\n'
        '  fails  "my name" *< "x"  "my name" is missing'
    )


def test_a_match() -> None:
    explanation = Filter.parse("level > 3").explain(Notification(level=5))
    assert explanation.matches
    assert explanation.failures == ()
    assert str(explanation) == "matches: 1 of 1 constraint holds\n  holds  level > 3"
    assert str(Filter().explain(Notification())) == "matches: 0 of 0 constraints hold"


def test_a_number_of_the_wrong_type() -> None:
    (verdict,) = Filter.parse("integer level > 3").explain(Notification(level=5.5)).failures
    assert verdict.remark == "level is a value of type float, not integer"
