"""Notifications as lines of JSON, out and in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from palio import codec
from palio.cli.output import json_text
from palio.errors import DecodeError
from palio.model import Notification

if TYPE_CHECKING:
    from palio.client.sync import SyncDelivery


def write(element: Notification | tuple[Notification, ...], delivery: SyncDelivery | None = None) -> str:
    """A notification's JSON form with its envelope beside it; a sequence is an array of them.

    Of a durable party it says which delivery it is.

    >>> write(Notification(level=5))
    '{"palio":1,"notification":{"level":5}}'
    >>> write((Notification(level=5), Notification(level=3)))
    '{"sequence":[{"palio":1,"notification":{"level":5}},{"palio":1,"notification":{"level":3}}]}'
    """
    written = form(element)
    if delivery is not None:
        written["delivery"] = {
            "number": delivery.number,
            "cursor": str(delivery.cursor),
            "repeated": delivery.is_repeated,
        }
    return json_text(written)


def form(element: Notification | tuple[Notification, ...]) -> dict[str, Any]:
    """What :func:`write` writes, as an object.

    >>> form(Notification(level=5))
    {'palio': 1, 'notification': {'level': 5}}
    """
    return _form(element) if isinstance(element, Notification) else {"sequence": [_form(each) for each in element]}


def _form(notification: Notification) -> dict[str, Any]:
    form: dict[str, Any] = msgspec.json.decode(codec.json.encode(notification))
    if notification.envelope is not None:
        form["envelope"] = msgspec.json.decode(codec.json.encode(notification.envelope))["envelope"]
    return form


def read(line: str) -> Notification:
    """A notification from what :func:`write` has written, or from a plain object of attributes.

    >>> read('{"level": 5, "event": "alarm"}')
    Notification(event='alarm', level=5)
    >>> read('{"palio": 1, "notification": {"level": 5}, "envelope": {}}')
    Notification(level=5)
    """
    try:
        form = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from None
    if not isinstance(form, dict):
        raise DecodeError("expected an object of attributes")
    if "notification" in form and "palio" in form:
        form.pop("envelope", None)  # the publication will have another one
        form.pop("delivery", None)
    else:
        form = {"palio": 1, "notification": dict(sorted(form.items()))}
    return codec.json.decode(Notification, json.dumps(form))
