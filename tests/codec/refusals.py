"""What the tests of refusals share."""

from __future__ import annotations

from datetime import UTC, datetime
from types import ModuleType

import msgspec
import pytest

from palio import (
    Advertisement,
    Constraint,
    Envelope,
    Filter,
    Limits,
    Notification,
    NotificationId,
    Pattern,
)
from palio.errors import DecodeError
from tests.codec.documents import FORMS

CLASSES = [Notification, Constraint, Filter, Advertisement, Pattern, Envelope]
HUGE = 10_000_000
ROOMY = Limits(document_bytes=4 * HUGE)
NOON = datetime(2026, 7, 2, 12, tzinfo=UTC)

both_forms = pytest.mark.parametrize("codec", [pytest.param(codec, id=name) for name, codec in FORMS.items()])
every_class = pytest.mark.parametrize("cls", CLASSES)


def pack(*fields: object) -> bytes:
    return msgspec.msgpack.encode(fields)


def text(**document: object) -> bytes:
    return msgspec.json.encode({"palio": 1, **document})


def body(token: bytes) -> bytes:
    return b"\x92\x01\x81\xa1x" + token


def refuse(codec: ModuleType, cls: type, data: bytes | str, fragment: str = "", limits: Limits = ROOMY) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        codec.decode(cls, data, limits)
    assert fragment in str(caught.value)
    return caught.value


def enveloped(origin: str = "a", publisher: str = "p", key: str = "k") -> Envelope:
    return Envelope(NotificationId(origin, 0, 0), NOON, publisher, NOON, key)


SAMPLES = [
    Notification(a="ä", b=-5, c=1.5, d=True, e=NOON, f=b"\xff" * 40).with_payload(b"data", "text/plain"),
    Constraint("level", ">", 3, type="integer"),
    Filter.parse('event = "alarm" and level > 300 and user absent and note any'),
    Advertisement.parse('event in ("alarm", "login"); float level any'),
    Pattern.parse('a = "x" then b < 2026-07-02T12:00:00.5Z then true'),
    enveloped(),
]

every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
