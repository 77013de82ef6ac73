"""Whatever can be encoded comes back as it was, from both forms, and is written the same way again."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Constraint, Envelope, Filter, Notification, Operator, Type
from palio.codec import json, msgpack
from palio.errors import InvalidConstraintError
from palio.model.value import Value
from tests.codec.documents import CONSTRAINTS, DOCUMENTS, FLOATS, FORMS, INTEGERS, NOTIFICATIONS, TIMES, exact

both_forms = pytest.mark.parametrize("codec", [pytest.param(codec, id=name) for name, codec in FORMS.items()])
every_kind = pytest.mark.parametrize("cls", [pytest.param(cls, id=cls.__name__.lower()) for cls in DOCUMENTS])


@both_forms
@every_kind
@given(data=st.data())
def test_round_trip(codec, cls, data):
    value = data.draw(DOCUMENTS[cls])
    encoded = codec.encode(value)
    decoded = codec.decode(cls, encoded)
    assert type(decoded) is cls
    assert decoded == value
    assert hash(decoded) == hash(value)
    assert exact(decoded) == exact(value)
    assert codec.encode(decoded) == encoded


@every_kind
@given(data=st.data())
def test_forms_agree(cls, data):
    value = data.draw(DOCUMENTS[cls])
    through_json = json.decode(cls, json.encode(value).decode())
    through_msgpack = msgpack.decode(cls, msgpack.encode(value))
    assert exact(through_json) == exact(through_msgpack)
    assert msgpack.encode(through_json) == msgpack.encode(value)
    assert json.encode(through_msgpack) == json.encode(value)


@both_forms
@pytest.mark.parametrize("values", [INTEGERS, FLOATS, TIMES], ids=["integers", "floats", "times"])
@given(data=st.data())
def test_values_that_have_edges(codec, values, data):
    value: Value = data.draw(values)
    decoded = codec.decode(Notification, codec.encode(Notification(x=value)))
    assert exact(decoded["x"]) == exact(value)
    literal = codec.decode(Constraint, codec.encode(Constraint("x", "=", value))).value
    assert exact(literal) == exact(value)


@both_forms
def test_negative_zero_keeps_its_sign(codec):
    decoded = codec.decode(Notification, codec.encode(Notification(x=-0.0, y=0.0)))
    assert math.copysign(1, decoded["x"]) == -1
    assert math.copysign(1, decoded["y"]) == 1
    for constraint in (Constraint("x", "=", -0.0), Constraint("x", "<", -0.0, type="float")):
        literal = codec.decode(Constraint, codec.encode(constraint)).value
        assert type(literal) is float
        assert math.copysign(1, literal) == -1


@both_forms
def test_every_operator_with_every_type(codec):
    literals = ["", "é", 0, -(2**63), 1.5, True, False, datetime(1, 1, 1, tzinfo=UTC), b"", b"\xff"]
    made = set()
    for operator in Operator:
        for kind in Type:
            for literal in literals if operator.takes_value else [None]:
                try:
                    constraint = Constraint("x", operator, literal, kind)
                except InvalidConstraintError:
                    continue
                made.add((operator, kind))
                assert exact(codec.decode(Constraint, codec.encode(constraint))) == exact(constraint)
    ordered = {operator for operator in Operator if operator.takes_value and not operator.strings_only}
    strings = {operator for operator in Operator if operator.strings_only}
    assert made == {
        *product(ordered, set(Type) - {Type.ANY}),
        *product(strings, {Type.STRING}),
        *product({Operator.ANY}, Type),
        (Operator.ABSENT, Type.ANY),
    }


@both_forms
@given(notification=NOTIFICATIONS)
def test_decoded_notifications_are_whole(codec, notification):
    """The decoder builds notifications past the constructor's checks; what it builds must not show that."""
    decoded = codec.decode(Notification, codec.encode(notification))
    assert list(decoded) == sorted(decoded)
    assert decoded.envelope is None
    assert exact(pickle.loads(pickle.dumps(decoded))) == exact(notification)
    assert exact(Notification(decoded.attributes)) == exact(Notification(notification.attributes))


@both_forms
@given(constraints=st.lists(CONSTRAINTS, min_size=1, max_size=4))
def test_order_and_wording_are_kept(codec, constraints):
    """Equal filters may be worded differently; the encoding keeps the wording, not only the meaning."""
    for filter in (Filter(constraints), Filter(reversed(constraints)), Filter([*constraints, *constraints])):
        decoded = codec.decode(Filter, codec.encode(filter))
        assert exact(decoded) == exact(filter)
        assert str(decoded) == str(filter)


@both_forms
@given(notification=NOTIFICATIONS, envelope=DOCUMENTS[Envelope])
def test_an_envelope_is_a_document_of_its_own(codec, notification, envelope):
    assert codec.encode(notification.with_envelope(envelope)) == codec.encode(notification)
