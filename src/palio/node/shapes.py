"""What records look like: for each kind the parts of its keys, and its values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from palio.errors import brief
from palio.link.frames import Accept, Close, Open
from palio.link.ports import Wish
from palio.model import Advertisement, Filter, Notification, NotificationId, Pattern
from palio.node.leases import EndedLease
from palio.node.link_letters import LinkLetter
from palio.node.party_log import Letter
from palio.node.watches import Commission, Place
from palio.node.waves import Asked, Passed
from palio.routing.messages import Account, Advertise, Message, Spread, Spreaded, Stamp, Subscribe
from palio.routing.router import Profile


class Count(int):
    """In a shape: an integer that is not negative."""


_Standing = Subscribe | Advertise
_Steps = tuple[Filter | Pattern, ...]
_Order = tuple[datetime, NotificationId]
_Place = tuple[Place, str, Count, bool, bool]
_State = tuple[tuple[str, ...], Count, Count, tuple[Notification, ...], _Order | None, Count, _Steps, _Place]
_Watch = tuple[str, str | Commission, Pattern]
_Cursor = tuple[Count, Count, Count, Count, Count, int, int | None, Count, Count]
_Merged = tuple[int | float, tuple[_Standing, ...]]

SHAPES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "life": ((), Count),
    "architecture": ((), str),
    "counters": ((), tuple[Count, Count, datetime]),
    "party": ((str,), Profile),
    "holds": ((str, Filter | Advertisement), bool | Filter | Advertisement),
    "watch": ((str,), tuple[Filter | Advertisement, ...]),
    "asks": ((str, Filter | Advertisement), bool | Filter | Advertisement),
    "held": ((str, _Standing), bool),
    "departed": ((_Standing,), bool),
    "told": ((str, _Standing), _Merged),
    "compressed": ((str, _Standing), _Merged),
    "untold": ((str, _Standing), bool),
    "behind": ((str, Count), Spread | Spreaded),
    "members": ((str,), tuple[Stamp, dict[str, Stamp]]),
    "account": ((str,), Account),
    "waiting": ((), tuple[str, ...]),
    "wave": ((Count,), tuple[Asked | Passed, tuple[str, ...]]),
    "seen": ((str, Count), Count),
    "wish": ((str,), Wish),
    "last": ((str,), Stamp),
    "ended": ((str,), Stamp),
    "closing": ((str, Stamp), Close),
    "link": ((str,), tuple[Stamp, str, Count, Accept | None]),
    "takes": ((str,), tuple[tuple[int, ...], tuple[int, ...]]),
    "widened": ((str, _Standing), tuple[_Standing, ...]),
    "link letters": ((str,), tuple[Count, Count]),
    "link letter": ((str, Count), LinkLetter),
    "gateway": ((str,), tuple[Filter | None, Filter | None, tuple[Advertisement, ...]]),
    "answer": ((str,), tuple[Open, Accept]),
    "base": ((str,), Count),
    "in": ((str,), Count),
    "out": ((str, Count), tuple[Message, ...]),
    "pattern": ((str | Commission, Pattern), _State | tuple[(*get_args(_State), Pattern)]),  # type: ignore[misc]
    "tag": ((), Count),
    "pending": ((Count, _Watch), Notification),
    "held back": ((Count,), tuple[int, Notification, _Watch | None]),
    "logs": ((), tuple[Count, Count]),
    "mail": ((str,), tuple[Count, Count, tuple[Count, Count, Count, Count, Count, Count]]),
    "owner": ((Count,), str),
    "cursor": ((str,), _Cursor | tuple[(*get_args(_Cursor), Count)]),  # type: ignore[misc]
    "end": ((str,), tuple[Count, Count]),
    "mark": ((Count, Count), tuple[Count, Count, int]),
    "letter": ((Count, Count), Letter),
    "sweep": ((Count,), tuple[int, Count, Count]),
    "key": ((str, str), int),
    "running": ((), int),
    "ended lease": ((str,), EndedLease),
}
"""Kinds that are not here are none of the node's business."""


def problem(key: tuple[Any, ...], value: Any) -> str | None:
    """Why a record is none of its kind, if so.

    >>> problem(("in", "rome"), 3), problem(("in", "rome"), "3")
    (None, "'3' is no value of a record of the kind in")
    """
    shape = SHAPES.get(key[0])
    if shape is None:
        return None
    parts, content = shape
    if len(key) != len(parts) + 1 or not all(map(fits, key[1:], parts)):
        return f"no key of a record of the kind {key[0]}"
    return None if fits(value, content) else f"{brief(value)} is no value of a record of the kind {key[0]}"


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, and so is all that it consists of."""
    return _check(hint)(value)


_Check = Callable[[Any], bool]


@cache
def _check(hint: Any) -> _Check:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Count:
        return lambda value: type(value) is int and value >= 0
    if hint is NoneType or hint is None:
        return lambda value: value is None
    if origin in (Union, UnionType):
        return _any_of([_check(each) for each in args])
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _all(_check(args[0]))
    if origin is tuple:
        return _each([_check(each) for each in args])
    if origin is dict:
        return _mapping(_check(args[0]), _check(args[1]))
    if issubclass(hint, Message):  # decoding has looked into them
        return lambda value: isinstance(value, hint)
    return (
        _made(hint)
        if hasattr(hint, "_fields") or issubclass(hint, msgspec.Struct)
        else lambda value: type(value) is hint
    )


def _any_of(checks: list[_Check]) -> _Check:
    return lambda value: any(check(value) for check in checks)


def _all(check: _Check) -> _Check:
    return lambda value: type(value) is tuple and all(map(check, value))


def _each(checks: list[_Check]) -> _Check:
    return lambda value: (
        type(value) is tuple
        and len(value) == len(checks)
        and all(check(each) for check, each in zip(checks, value, strict=True))
    )


def _mapping(keys: _Check, values: _Check) -> _Check:
    return lambda value: type(value) is dict and all(map(keys, value)) and all(map(values, value.values()))


def _made(cls: Any) -> _Check:
    """Tuples with names, and structures: their fields are not checked when they are made."""
    checks = [(name, _check(hint)) for name, hint in get_type_hints(cls).items()]
    return lambda value: type(value) is cls and all(check(getattr(value, name)) for name, check in checks)
