"""Records as bytes: keys and values of a node's journal, in MessagePack.

Keys are in canonical form (:func:`encode_key`): which record is meant does not depend on the words of a filter. Values
keep the words, where they are those of a party.

What is no plain value has a number of its own (an *extension* of MessagePack). These are part of the store's format:
numbers may be added, and never change.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, get_type_hints

import msgspec
from msgspec.msgpack import Ext

from palio.codec import msgpack
from palio.errors import CallerError, DecodeError, InternalError, brief
from palio.link import wire
from palio.link.frames import Frame
from palio.link.ports import Wish
from palio.model import Advertisement, Envelope, Filter, Limits, Notification, NotificationId, Pattern
from palio.node.journal import Key, Record
from palio.node.leases import EndedLease
from palio.node.link_letters import LinkLetter
from palio.node.party_log import Letter
from palio.node.watches import Commission, Place
from palio.node.waves import Asked, Passed
from palio.routing.messages import Message
from palio.routing.router import Profile

_UNLIMITED = Limits(**dict.fromkeys(get_type_hints(Limits), 1 << 40))
"""It was within limits when it came."""
_DOCUMENTS: dict[int, Any] = {1: Filter, 2: Advertisement, 3: Pattern}
_NUMBERS = {cls: number for number, cls in _DOCUMENTS.items()}
_NOTIFICATION, _MESSAGE, _FRAME, _MAP = 4, 5, 6, 7
_TUPLES: dict[int, Any] = {16: Profile, 17: Commission, 18: Asked, 19: Passed}
_STRUCTS: dict[int, Any] = {32: Wish, 33: Letter, 34: NotificationId, 35: LinkLetter, 36: EndedLease}
_ENUMS: dict[int, Any] = {48: Place}
_MADE = {cls: number for kinds in (_TUPLES, _STRUCTS, _ENUMS) for number, cls in kinds.items()}


def _pack(value: Any) -> Any:
    """What a value looks like to the encoder."""
    kind = type(value)
    if kind in (str, int, bool, bytes, float, type(None)):
        return value
    if kind is tuple:
        return [_pack(each) for each in value]
    if kind in _TUPLES.values():
        return Ext(_MADE[kind], _encode([_pack(each) for each in value]))
    return _pack_object(value, kind)


def _pack_object(value: Any, kind: type) -> Any:
    if kind in _NUMBERS:
        return Ext(_NUMBERS[kind], msgpack.encode(value))
    if kind is Notification:
        assert value.envelope is not None
        pair = [msgpack.encode(value.envelope), msgpack.encode(value)]
        return Ext(_NOTIFICATION, _encode(pair))
    if isinstance(value, Message):
        return Ext(_MESSAGE, wire.encode_message(value))
    if isinstance(value, Frame):
        return Ext(_FRAME, wire.encode(value))
    if isinstance(value, dict):
        return Ext(_MAP, _encode([[_pack(key), _pack(each)] for key, each in value.items()]))
    if isinstance(value, Enum):
        return Ext(_MADE[kind], value.name.encode())
    if kind in _STRUCTS.values():
        return Ext(_MADE[kind], _encode([_pack(each) for each in msgspec.structs.astuple(value)]))
    if isinstance(value, tuple):
        raise InternalError(f"a record with {kind.__name__}, which would be read as a plain tuple")
    return value  # a time; what else there may be, the encoder refuses


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_unpack(each) for each in value])
    if not isinstance(value, Ext):
        return value
    code, data = value.code, bytes(value.data)
    if code in _DOCUMENTS:
        return msgpack.decode(_DOCUMENTS[code], data, _UNLIMITED)
    if code == _NOTIFICATION:
        envelope, body = _decode(data)
        notification = msgpack.decode(Notification, body, _UNLIMITED)
        return notification.with_envelope(msgpack.decode(Envelope, envelope, _UNLIMITED))
    if code == _MESSAGE:
        return wire.decode_message(data, _UNLIMITED)
    if code == _FRAME:
        return wire.decode(data, _UNLIMITED)
    if code == _MAP:
        return dict(_unpack(_decode(data)))
    if code in _ENUMS:
        return _ENUMS[code][data.decode()]
    made = _TUPLES.get(code) or _STRUCTS.get(code)
    if made is None:
        raise DecodeError(f"a record with something of kind {code}, which is not known here")
    return made(*_unpack(_decode(data)))


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()
_encode, _decode = _encoder.encode, _decoder.decode


def encode_value(value: Any) -> bytes:
    """The bytes of a key, or a value.

    >>> decode_value(encode_value(("held", "rome", Filter.parse("x > 3"))))
    ('held', 'rome', Filter.parse('x > 3'))
    """
    return _encode(_pack(value))


def decode_value(data: bytes) -> Any:
    """Read what :func:`encode_value` has written; :class:`~palio.errors.DecodeError` if it is nothing like that."""
    try:
        return _unpack(_decode(data))
    except (msgspec.MsgspecError, CallerError, TypeError, ValueError, KeyError, RecursionError) as error:
        if isinstance(error, DecodeError):
            raise
        raise DecodeError(f"no record: {brief(str(error))}") from error


def encode_key(key: Key) -> bytes:
    """The bytes of a key: the same for all keys that mean the same, because documents are in canonical form.

    >>> encode_key(("a", Pattern.parse("x > 3 and x > 1"))) == encode_key(("a", Pattern.parse("x > 3")))
    True
    """
    return encode_value(_canonical(key))


def _canonical(value: Any) -> Any:
    if type(value) is tuple:
        return tuple([_canonical(each) for each in value])
    return value.canonical() if isinstance(value, Filter | Advertisement | Pattern) else value


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """A record as bytes; without a value, if there is none any more."""
    key, value = record
    return encode_key(key), None if value is None else encode_value(value)


def decode(key: bytes, value: bytes) -> Record:
    """A record that was read; documents of the key are in canonical form, those of the value as they were written."""
    found: Key = _canonical(decode_value(key))
    return found, decode_value(value)


def describe(key: bytes) -> str:
    """What a record is about, for people; also if it cannot be read.

    >>> describe(encode_value(("cursor", "urn:eva")))
    "('cursor', 'urn:eva')"
    """
    try:
        return brief(str(decode_value(key))).strip('"')
    except DecodeError:
        return f"a key that cannot be read: {brief(key)}"
