"""Formats of ``palio sub -F``: attributes by name, and what the envelope says, in a text of one's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from palio.errors import CallerError, printable
from palio.model import Envelope, Notification, Value
from palio.model.syntax.printer import print_literal

if TYPE_CHECKING:
    from palio.client.sync import SyncDelivery

Part = Callable[[Notification, "SyncDelivery | None"], str]

_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}
_TOKEN = re.compile(r"""(?P<brace>\{\{|\}\})|\\(?P<escape>[nt\\])|\{(?P<name>"[^"]*"|[^{}"]*)\}|(?P<text>[^{}\\]+)""")


def read_format(text: str) -> Part:
    r"""How a notification is to be written, and its delivery; what it does not have is written as nothing.

    >>> show = read_format(r'{symbol}:\t{change} {{{"my name"}}} {volume}')
    >>> show(Notification({"my name": True}, symbol="DIS", change=1.5), None)
    'DIS:\t1.5 {true} '
    >>> read_format("{symbol} {@idd}")
    Traceback (most recent call last):
    palio.errors.CallerError: format, column 10: there is no @idd; there are @all, @cursor, ...
    """
    parts: list[Part] = []
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise CallerError(f"format, column {place + 1}: {_problem(text[place:])}")
        parts.append(_part(found))
        place = found.end()
    return lambda notification, delivery: "".join([part(notification, delivery) for part in parts])


def _problem(rest: str) -> str:
    if rest[0] == "\\":
        return r"after \ comes n (a new line), t (a tab) or \ itself"
    closing = "begins and does not end" if rest[0] == "{" else "ends and did not begin"
    return f"a name {closing}; attributes are written {{name}}, and a brace {rest[0] * 2}"


def _part(found: re.Match[str]) -> Part:
    name = found["name"]
    if name is None:
        fixed = found["brace"][0] if found["brace"] else _ESCAPES[found["escape"]] if found["escape"] else found["text"]
        return lambda *_: fixed
    if not name.strip('"'):
        raise CallerError(f"format, column {found.start() + 2}: a name is missing; attributes are written {{name}}")
    if name.startswith("@"):
        if name not in _BESIDE:
            known = ", ".join(sorted(_BESIDE))
            raise CallerError(f"format, column {found.start() + 2}: there is no {name}; there are {known}")
        return _BESIDE[name]
    attribute = name.strip('"')
    return lambda notification, _: _shown(notification[attribute]) if attribute in notification else ""


def _shown(value: Value) -> str:
    return printable(value) if isinstance(value, str) else print_literal(value)


def _of_envelope(show: Callable[[Envelope], str]) -> Part:
    return lambda notification, _: show(notification.envelope) if notification.envelope is not None else ""


def _of_delivery(show: Callable[[SyncDelivery], str]) -> Part:
    return lambda _, delivery: show(delivery) if delivery is not None else ""


def _payload(notification: Notification, _: object) -> str:
    payload = notification.payload
    return printable(payload.data.decode(errors="backslashreplace")) if payload is not None else ""


_BESIDE: dict[str, Part] = {
    "@all": lambda notification, _: str(notification),
    "@cursor": _of_delivery(lambda delivery: str(delivery.cursor)),
    "@id": _of_envelope(lambda envelope: printable(str(envelope.id))),
    "@number": _of_delivery(lambda delivery: str(delivery.number)),
    "@payload": _payload,
    "@publisher": _of_envelope(lambda envelope: printable(envelope.publisher)),
    "@repeated": _of_delivery(lambda delivery: "repeated" if delivery.is_repeated else ""),
    "@time": _of_envelope(lambda envelope: print_literal(envelope.published)),
}
"""What is no attribute: names of attributes cannot begin with @ unless they are in quotes."""
