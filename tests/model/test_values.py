"""Values, notifications and constraints: what is accepted, what is refused, and how they behave as values."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Advertisement, Constraint, Envelope, Filter, Notification, NotificationId, Pattern, Payload, errors
from palio.model.value import MAX_INTEGER, MIN_INTEGER, Value, check_value, from_microseconds, to_microseconds
from tests.model.strategies import NAMES, VALUES, any_constraints

NOON = datetime(2026, 7, 2, 12, tzinfo=UTC)


class PandasLike(datetime):
    """A subclass with a finer resolution, as data libraries have it."""

    nanosecond = 7


@pytest.mark.parametrize(
    ("value", "fragment"),
    [
        (float("nan"), "nan is not a finite float"),
        (float("inf"), "inf is not a finite float"),
        (float("-inf"), "-inf is not a finite float"),
        (2**63, "64-bit"),
        (-(2**63) - 1, "64-bit"),
        (datetime(2026, 7, 2), "naive datetime 2026-07-02T00:00:00"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "outside years 1 to 9999"),
        (PandasLike(2026, 7, 2, tzinfo=UTC), "finer than a microsecond"),
        ("\ud800", "lone surrogate"),
        (None, "NoneType is none of"),
        ([1], "list is none of"),
        (bytearray(b"x"), "bytearray is none of"),
        (1j, "complex is none of"),
    ],
)
def test_refused_values(value: object, fragment: str) -> None:
    with pytest.raises(errors.InvalidValueError, match=f"attribute 'x': .*{fragment}"):
        Notification({"x": value})  # type: ignore[dict-item]
    if value is not None:
        with pytest.raises(errors.InvalidValueError, match=f"constraint on 'x': .*{fragment}"):
            Constraint("x", "=", value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [MIN_INTEGER, MAX_INTEGER, -0.0, 5e-324, 1.7976931348623157e308, "", b"", True])
def test_values_at_the_edge(value: Value) -> None:
    assert Notification(x=value)["x"] == value


@pytest.mark.parametrize("name", ["", "\ud800", 5, None])
def test_refused_names(name: object) -> None:
    with pytest.raises(errors.InvalidNameError, match="attribute name"):
        Notification({name: 1})  # type: ignore[dict-item]
    with pytest.raises(errors.InvalidNameError, match="attribute name"):
        Constraint(name, "any")  # type: ignore[arg-type]


def test_subclasses_become_plain_values() -> None:
    class Level(IntEnum):
        HIGH = 3

    class Color(StrEnum):
        RED = "red"

    notification = Notification(level=Level.HIGH, color=Color.RED)
    assert [type(value) for value in notification.values()] == [str, int]
    assert notification == Notification(level=3, color="red")


def test_times_are_stored_in_utc() -> None:
    rome = timezone(timedelta(hours=2))
    notification = Notification(at=datetime(2026, 7, 2, 14, tzinfo=rome))
    assert notification == Notification(at=NOON)
    assert notification["at"].tzinfo is UTC  # type: ignore[union-attr]


@given(st.datetimes(timezones=st.just(UTC)))
def test_microseconds_are_exact(time: datetime) -> None:
    assert from_microseconds(to_microseconds(time)) == time
    assert check_value(time) == time


def test_duplicate_names_are_refused() -> None:
    with pytest.raises(errors.DuplicateNameError, match="'a' is given twice"):
        Notification([("a", 1), ("a", 2)])
    with pytest.raises(errors.DuplicateNameError, match="'a' is given twice"):
        Notification({"a": 1}, a=2)


def test_keywords_are_all_attributes() -> None:
    notification = Notification(self=1, attributes=2, payload="p", envelope="e")
    assert list(notification) == ["attributes", "envelope", "payload", "self"]
    assert notification.payload is None
    assert notification.envelope is None


def test_equality_knows_types() -> None:
    assert Notification(x=5) != Notification(x=5.0)
    assert Notification(x=1) != Notification(x=True)
    assert Notification(x=0.0) == Notification(x=-0.0)
    assert Notification(x="a") != Notification(x=b"a")
    assert Notification(x=1) != {"x": 1}


def test_payload_and_envelope_stand_beside_the_content() -> None:
    envelope = Envelope(NotificationId("milan", 1, 7), NOON, "http://example.org/me", expires=NOON, key="k")
    plain = Notification(x=1)
    full = plain.with_payload(b"data", "text/plain").with_envelope(envelope)
    assert list(full) == ["x"]
    assert full.payload == Payload(b"data", "text/plain")
    assert full.envelope is envelope
    assert full != plain
    assert full == plain.with_payload(b"data", "text/plain")
    assert Filter.parse("x = 1").matches(full)
    assert repr(full) == "Notification(x=1).with_payload(<4 bytes>)"


@pytest.mark.parametrize(
    "build",
    [
        lambda: Payload("text"),
        lambda: Payload(b"", ""),
        lambda: NotificationId("", 1, 1),
        lambda: NotificationId("m", -1, 1),
        lambda: NotificationId("m", 1, True),
        lambda: Envelope("id", NOON, "u"),
        lambda: Envelope(NotificationId("m", 1, 1), "now", "u"),
        lambda: Envelope(NotificationId("m", 1, 1), datetime(2026, 1, 1), "u"),
        lambda: Envelope(NotificationId("m", 1, 1), NOON, 5),
        lambda: Envelope(NotificationId("m", 1, 1), NOON, "u", key=5),
        lambda: Notification().with_envelope("e"),
    ],
)
def test_refused_payloads_and_envelopes(build: object) -> None:
    with pytest.raises(errors.InvalidValueError):
        build()  # type: ignore[operator]


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_notification_is_a_sorted_mapping(attributes: dict[str, Value]) -> None:
    notification = Notification(attributes)
    assert list(notification) == sorted(attributes)
    assert dict(notification) == attributes
    assert Notification(reversed(attributes.items())) == notification
    assert hash(Notification(attributes)) == hash(notification)
    assert Notification.parse(str(notification)) == notification
    assert pickle.loads(pickle.dumps(notification)) == notification


@pytest.mark.parametrize(
    "value",
    [
        Notification(x=1),
        Constraint("x", ">", 1),
        Filter.parse("x > 1"),
        Advertisement.parse("x any"),
        Pattern.parse("x=1"),
    ],
)
def test_values_are_immutable(value: object) -> None:
    attribute = next(name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()))
    with pytest.raises(AttributeError, match="is immutable"):
        setattr(value, attribute, None)
    with pytest.raises(AttributeError, match="is immutable"):
        delattr(value, attribute)
    with pytest.raises(AttributeError, match="is immutable"):
        value.anything = 1  # type: ignore[attr-defined]
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (("x", "~", 1), "unknown operator '~'"),
        (("x", "=", 1, "colour"), "unknown type 'colour'"),
        (("x", "="), "operator '=' needs a value"),
        (("x", "any", 1), "operator 'any' takes no value"),
        (("x", "absent", None, "integer"), "'absent' takes no type"),
        (("x", "=", "a", "integer"), "type string does not fit the type integer"),
        (("x", "=", 1, "string"), "type integer does not fit the type string"),
        (("x", "=", True, "number"), "type boolean does not fit the type number"),
        (("x", "=", 1, "any"), "type integer does not fit the type any"),
        (("x", ">*", 1), "'>\\*' is for strings, not for number"),
        (("x", "!*", b"a"), "'!\\*' is for strings, not for bytes"),
    ],
)
def test_misfits(arguments: tuple[object, ...], fragment: str) -> None:
    with pytest.raises(errors.InvalidConstraintError, match=f"constraint on 'x': .*{fragment}"):
        Constraint(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("type", ["integer", "float", "number"])
@pytest.mark.parametrize("literal", [3, 3.5])
def test_any_numeric_literal_fits_any_numeric_type(type: str, literal: float) -> None:
    assert Constraint("x", "<", literal, type).type == type


def test_constraints_are_values() -> None:
    assert Constraint("x", "=", 5) == Constraint("x", "=", 5.0)
    assert Constraint("x", "=", 5) != Constraint("x", "=", 5, "integer")
    assert len({Constraint("x", "=", 5), Constraint("x", "=", 5.0)}) == 1
    assert Filter([Constraint("x", "=", 5)] * 3).constraints == (Constraint("x", "=", 5),)


@given(any_constraints())
def test_repr_of_constraints_is_python(constraint: Constraint) -> None:
    assert eval(repr(constraint), {"Constraint": Constraint, "datetime": __import__("datetime")}) == constraint


def test_filters_take_constraints_only() -> None:
    with pytest.raises(errors.InvalidConstraintError, match=r"'x > 3' is no Constraint; Filter.parse"):
        Filter(["x > 3"])  # type: ignore[list-item]
    with pytest.raises(errors.InvalidConstraintError, match="'absent' means nothing in an advertisement"):
        Advertisement([Constraint("x", "absent")])
    with pytest.raises(errors.CallerError, match="at least one filter"):
        Pattern([])
    with pytest.raises(errors.CallerError, match="is no Filter"):
        Pattern(["x = 1"])  # type: ignore[list-item]


F, A, P, N = Filter.parse("x > 1"), Advertisement.parse("x any"), Pattern.parse("x = 1"), Notification(x=1)


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: Filter(5), "5 is no sequence of constraints"),
        (lambda: Filter(Constraint("x", "any")), "is no sequence of constraints"),
        (lambda: Filter([[1]]), "[1] is no Constraint"),
        (lambda: Pattern(5), "5 is no sequence of filters"),
        (lambda: Notification(5), "5 is neither a mapping nor pairs"),
        (lambda: Notification("abc"), "'abc' is neither a mapping nor pairs"),
        (lambda: Notification([("a",)]), "is neither a mapping nor pairs"),
        (lambda: NotificationId("a", 10**5000, 0), "an integer of 16610 bits is no integer"),
        (lambda: F.matches({"x": 1}), "{'x': 1} is no Notification"),
        (lambda: F.explain("x = 1"), "'x = 1' is no Notification"),
        (lambda: F.covers(A), "is no Filter"),
        (lambda: F.covers("x > 1"), "'x > 1' is no Filter; Filter.parse"),
        (lambda: F.merge(P), "is no Filter"),
        (lambda: A.announces({}), "is no Notification"),
        (lambda: A.covers(F), "is no Advertisement"),
        (lambda: A.relevant_to(N), "is no Filter"),
        (lambda: P.covers(F), "is no Pattern"),
        (lambda: Filter.parse(b"x = 1"), "text is a str, not bytes"),
        (lambda: Notification.parse(None), "text is a str, not NoneType"),
    ],
)
def test_operands_of_the_wrong_class(call: object, fragment: str) -> None:
    with pytest.raises(errors.CallerError) as caught:
        call()  # type: ignore[operator]
    assert fragment in str(caught.value)
