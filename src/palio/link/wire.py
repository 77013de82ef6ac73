"""The wire form of link frames: an array of the number of the kind and the fields.

Filters, advertisements and patterns are sent in their canonical form, and converted to it on receipt. So servers agree
on which of them are equal, whatever wording a client or another implementation has used.

The forms are derived from the classes of frames and messages. The numbers of the kinds are part of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw

from palio.codec import msgpack
from palio.codec.frames import MOST_ENVELOPE
from palio.codec.parts import UNREADABLE, instant
from palio.errors import CallerError, DecodeError, brief
from palio.link import frames
from palio.link.frames import Frame
from palio.model import PROTOCOL_LIMITS, Advertisement, Envelope, Filter, Limits, Notification, Pattern
from palio.model.envelope import NotificationId
from palio.model.value import MAX_INTEGER, MIN_INTEGER
from palio.routing import messages
from palio.routing.messages import Message

SINCE_2: dict[type[Frame], tuple[str, ...]] = {
    frames.Open: ("limits",),
    frames.Accept: ("limits",),
    frames.Close: ("reason",),
    frames.Known: ("base", "end", "expected"),
}
"""The fields that version 2 of the protocol has added. They are the last ones of their frames and have defaults.
Version 1 is written without them; a frame without them is read with the defaults.
"""
FRAME_KINDS: dict[type[Frame], int] = {
    frames.Open: 1,
    frames.Accept: 2,
    frames.Refuse: 3,
    frames.Close: 4,
    frames.Closed: 5,
    frames.Probe: 6,
    frames.Known: 7,
    frames.Data: 8,
}
MESSAGE_KINDS: dict[type[Message], int] = {
    messages.Publish: 1,
    messages.Subscribe: 2,
    messages.Unsubscribe: 3,
    messages.Advertise: 4,
    messages.Unadvertise: 5,
    messages.Members: 6,
    messages.Account: 7,
    messages.Spread: 8,
    messages.Spreaded: 9,
    messages.Delegate: 10,
    messages.Accepted: 11,
    messages.Continue: 12,
    messages.Element: 13,
    messages.Recall: 14,
    messages.Returned: 15,
    messages.Release: 16,
}


_Integer = Annotated[int, msgspec.Meta(ge=MIN_INTEGER, le=MAX_INTEGER)]
"""Larger integers could not be encoded after an addition."""


class _Form(NamedTuple):
    """The wire form of a type."""

    wire: Any
    """The type that msgspec decodes."""
    pack: Callable[[Any], Any] | None = None
    """``None`` if values need no conversion."""
    unpack: Callable[[Any, Limits], Any] | None = None


def _form(hint: Any) -> _Form:
    if hint in (str, bool):
        return _Form(hint)
    if hint is int:
        return _Form(_Integer)
    if hint is datetime:
        return _Form(datetime, lambda time: time, lambda time, _: instant(time, "time"))
    if hint in (Filter, Advertisement, Pattern):
        return _Form(Raw, _pack_document, lambda raw, limits: _document(hint, raw, limits))
    if hint is Notification:
        return _Form(tuple[Raw, Raw], _pack_notification, _unpack_notification)
    if hint is NotificationId:
        return _Form(tuple[str, int, int], msgspec.structs.astuple, lambda fields, _: NotificationId(*fields))
    if hint is Message:
        return _union(_MESSAGES)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Form(str, lambda value: value.value, lambda text, _: hint(text))
    if isinstance(hint, type) and issubclass(hint, Message):
        return _MESSAGES[hint]
    if get_origin(hint) in (Union, UnionType):
        return _optional(hint)
    if get_origin(hint) is tuple:
        return _sequence(get_args(hint))
    raise TypeError(f"{hint} has no form on the wire")


def _pack_document(document: Filter | Advertisement | Pattern) -> Raw:
    return Raw(msgpack.encode(document.canonical()))


def _document(cls: Any, raw: Raw, limits: Limits) -> Any:
    return msgpack.decode(cls, bytes(raw), limits).canonical()


def _pack_notification(notification: Notification) -> tuple[Raw, Raw]:
    if notification.envelope is None:
        raise CallerError(f"{brief(str(notification))} has no envelope")
    return Raw(msgpack.encode(notification.envelope)), Raw(msgpack.encode(notification))


def _unpack_notification(pair: tuple[Raw, Raw], limits: Limits) -> Notification:
    envelope, body = pair
    if len(bytes(envelope)) > MOST_ENVELOPE:
        raise DecodeError(f"the envelope is longer than {MOST_ENVELOPE:,} bytes")
    return msgpack.decode(Notification, bytes(body), limits).with_envelope(
        msgpack.decode(Envelope, bytes(envelope), limits)
    )


def _optional(hint: Any) -> _Form:
    (inner,) = (_form(each) for each in get_args(hint) if each is not NoneType)
    pack, unpack = inner.pack, inner.unpack
    return _Form(
        inner.wire | None,
        pack and (lambda value: None if value is None else pack(value)),
        unpack and (lambda value, limits: None if value is None else unpack(value, limits)),
    )


def _tuple_of(*types: Any) -> Any:
    return tuple.__class_getitem__(types)


def _sequence(hints: tuple[Any, ...]) -> _Form:
    if hints[-1] is Ellipsis:
        form = _form(hints[0])
        pack, unpack = form.pack, form.unpack
        return _Form(
            _tuple_of(form.wire, ...),
            pack and (lambda values: [pack(value) for value in values]),
            unpack and (lambda values, limits: tuple([unpack(value, limits) for value in values])),
        )
    forms = [_form(hint) for hint in hints]
    wire = _tuple_of(*(form.wire for form in forms))
    if not any(form.pack for form in forms):
        return _Form(wire)
    return _Form(
        wire,
        lambda values: [form.pack(value) if form.pack else value for form, value in zip(forms, values, strict=True)],
        lambda values, limits: tuple(
            [form.unpack(value, limits) if form.unpack else value for form, value in zip(forms, values, strict=True)]
        ),
    )


def _struct(
    cls: type[msgspec.Struct], kind: int, optional: tuple[str, ...] = (), left_out: tuple[str, ...] = ()
) -> _Form:
    """The form of a struct: a tagged array of its fields. Optional fields may be missing on receipt."""
    hints = get_type_hints(cls)
    forms = [(name, _form(hints[name])) for name in cls.__struct_fields__ if name not in left_out]
    defaults = dict(zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False))
    made: Any = msgspec.defstruct(
        f"Wire{cls.__name__}",
        [(name, form.wire, defaults[name]) if name in optional else (name, form.wire) for name, form in forms],
        tag=kind,
        array_like=True,
        forbid_unknown_fields=True,
        frozen=True,
        gc=False,
    )

    def pack(value: Any) -> Any:
        given = [form.pack(getattr(value, name)) if form.pack else getattr(value, name) for name, form in forms]
        return made(*given)

    def unpack(value: Any, limits: Limits) -> Any:
        given = [
            form.unpack(getattr(value, name), limits) if form.unpack else getattr(value, name) for name, form in forms
        ]
        return cls(*given)

    return _Form(made, pack, unpack)


def _union(forms: dict[Any, _Form]) -> _Form:
    """The form of one of several structs."""
    by_class = {cls: form.pack for cls, form in forms.items()}
    by_wire = {form.wire: form.unpack for form in forms.values()}
    return _Form(
        reduce(or_, by_wire),
        lambda value: by_class[type(value)](value),  # type: ignore[misc]
        lambda value, limits: by_wire[type(value)](value, limits),  # type: ignore[misc]
    )


_MESSAGES: dict[Any, _Form] = {}
# a message that contains others comes after them
for _cls in sorted(MESSAGE_KINDS, key=lambda cls: cls is messages.Delegate):
    _MESSAGES[_cls] = _struct(_cls, MESSAGE_KINDS[_cls])
_FRAMES = _union({cls: _struct(cls, kind, optional=SINCE_2.get(cls, ())) for cls, kind in FRAME_KINDS.items()})
_PACK_1 = _union({cls: _struct(cls, kind, left_out=SINCE_2.get(cls, ())) for cls, kind in FRAME_KINDS.items()}).pack
_MESSAGE = _union(_MESSAGES)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_FRAMES.wire)
_message_decoder = msgspec.msgpack.Decoder(_MESSAGE.wire)


def encode(frame: Frame, version: int = 2) -> bytes:
    """Encode a frame for a version of the protocol.

    >>> encode(frames.Probe((1, "milan", 3), 7)).hex(" ")
    '93 06 93 01 a5 6d 69 6c 61 6e 03 07'
    """
    pack = _FRAMES.pack if version > 1 else _PACK_1
    assert pack is not None
    return _encoder.encode(pack(frame))


def decode(data: bytes, limits: Limits = PROTOCOL_LIMITS) -> Frame:
    """Decode a frame of any version. A malformed frame raises :class:`~palio.errors.DecodeError`.

    Documents may be as large as the protocol permits; the configured limits apply where clients send them.

    >>> decode(bytes.fromhex("93 06 93 01 a5 6d 69 6c 61 6e 03 07"))
    Probe(session=(1, 'milan', 3), number=7)
    """
    frame: Frame = _decode(_FRAMES, _decoder, data, limits)
    return frame


def encode_message(message: Message) -> bytes:
    """Encode a single message, as it is within frames.

    >>> decode_message(encode_message(messages.Spreaded(7)))
    Spreaded(token=7)
    """
    assert _MESSAGE.pack is not None
    return _encoder.encode(_MESSAGE.pack(message))


def decode_message(data: bytes, limits: Limits = PROTOCOL_LIMITS) -> Message:
    """Decode the result of :func:`encode_message`."""
    message: Message = _decode(_MESSAGE, _message_decoder, data, limits)
    return message


def _decode(form: _Form, decoder: msgspec.msgpack.Decoder[Any], data: bytes, limits: Limits) -> Any:
    assert form.unpack is not None
    try:
        return form.unpack(decoder.decode(data), limits)
    except UNREADABLE as error:
        if isinstance(error, DecodeError):
            raise
        raise DecodeError(f"malformed link frame: {brief(str(error))}") from error
