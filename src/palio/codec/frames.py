"""Frames: how a stream of bytes is divided.

A frame is its length (four bytes, big-endian, of what follows), its kind (one byte) and its content. What the kinds
mean is said in ``docs/protocol.md``; the two that carry notifications are read and written by the compiled core.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from struct import Struct

import msgspec

from palio.codec import msgpack, parts
from palio.errors import CallerError, DecodeError, brief
from palio.model import Envelope, Mode, Notification, Trace
from palio.model.limits import DEFAULT_LIMITS, PROTOCOL_LIMITS, Limits

PUBLISH = 0x10
"""The number of the request, four bytes, zero if no answer is wanted; then the notification's document."""
ACCEPTED = 0x11
"""The number up to which all publications were accepted, but for those that were refused, four bytes; and the mode."""
PUBLISH_WITH = 0x14
"""Number and length of the options, four and two bytes; the options; then the notification's document."""
ACKNOWLEDGE = 0x15
"""A durable party has got all deliveries up to a number, eight bytes."""
ACKNOWLEDGED = 0x16
"""The server has noted that, for good."""
DUPLICATE = 0x1A
"""The number of a publication, four bytes, whose key was known already: it counts once. Since version 3."""
DELIVER = 0x20
"""The length of the envelope's document, two bytes; that document; then the notification's."""
LINK = 0x30
"""A frame of a link between servers."""
HEADER = 5
"""Bytes of length and kind."""
SHORTEST_PUBLISH = 9
"""Bytes of length, kind and number; a publication has more."""
_HEAD = Struct(">IB")
_PUBLISH = Struct(">IBI")
_WITH = Struct(">IH")
_LENGTH = Struct(">H")
_NUMBER = Struct(">I")
_ACCEPTED = Struct(">IB")
_LONG = Struct(">Q")
_LENGTH_BYTES = 4
MOST_ENVELOPE = 0xFFFF
"""Bytes of the largest envelope: its length has two bytes in the frame of a delivery."""
MOST_OPTIONS = 0xFFFF
"""Bytes of the options of a publication, likewise."""
_MODES = tuple(sorted(Mode, key=lambda mode: mode.strength))


class Options(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What a publisher may say of a publication."""

    trace: str | None = None
    """The text of its trace."""
    expires: datetime | None = None
    """When it is worth nothing any more."""
    key: str | None = None
    """A publication by the same party with a key that was there before counts as published."""
    mode: Mode | None = None
    """What the acknowledgement is to promise at least; if not said, what the party said when it connected."""


_options = msgspec.msgpack.Decoder(Options)
_encoder = msgspec.msgpack.Encoder()


def frame(kind: int, content: bytes) -> bytes:
    """A frame of a kind.

    >>> frame(0x04, b"1234").hex(" ")
    '00 00 00 05 04 31 32 33 34'
    """
    return _HEAD.pack(len(content) + 1, kind) + content


def publish(notification: Notification, number: int = 0) -> bytes:
    """The frame of a publication.

    >>> publish(Notification(x=1), 7).hex(" ")
    '00 00 00 0b 10 00 00 00 07 92 01 81 a1 78 01'
    """
    document = msgpack.encode(notification)
    return _PUBLISH.pack(len(document) + HEADER, PUBLISH, number) + document


def publish_with(notification: Notification, options: Options, number: int = 0) -> bytes:
    """The frame of a publication with options."""
    packed = _encoder.encode(options)
    if len(packed) > MOST_OPTIONS:
        raise CallerError(f"options of {len(packed):,} bytes; a publication has room for {MOST_OPTIONS:,}")
    return frame(PUBLISH_WITH, _WITH.pack(number, len(packed)) + packed + msgpack.encode(notification))


def published_with(content: bytes) -> tuple[int, bytes, bytes]:
    """Number, options and document of such a publication, from the content of its frame; as they are."""
    if len(content) < _WITH.size:
        raise DecodeError("a publication that ends before its options begin")
    number, length = _WITH.unpack_from(content)
    end = _WITH.size + length
    if end > len(content):
        raise DecodeError("a publication that ends in its options")
    return number, content[_WITH.size : end], content[end:]


def options_of(packed: bytes, limits: Limits = DEFAULT_LIMITS) -> Options:
    """The options of a publication; refused with :class:`~palio.errors.DecodeError` if they cannot be used.

    >>> options_of(_encoder.encode(Options(key="order-17"))).key
    'order-17'
    """
    try:
        options = _options.decode(packed)
    except parts.UNREADABLE as error:
        raise DecodeError(f"options: {brief(str(error))}") from error
    parts.check_size(options.key, "key_bytes", limits, "options.key")
    if options.expires is not None:
        options = msgspec.structs.replace(options, expires=parts.instant(options.expires, "options.expires"))
    return options


def trace_of(text: str) -> Trace:
    """The trace of a publication.

    >>> trace_of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").state
    ''
    """
    with parts.placed("trace"):
        return Trace.parse(text)


def accepted(number: int, mode: Mode = Mode.MEMORY) -> bytes:
    """The frame that says up to which number publications were accepted, and what that promises.

    >>> accepted(7, Mode.SYNCED).hex(" ")
    '00 00 00 06 11 00 00 00 07 02'
    """
    return frame(ACCEPTED, _ACCEPTED.pack(number, mode.strength))


def accepted_up_to(content: bytes) -> tuple[int, Mode]:
    """The number and the mode, from the content of such a frame."""
    if len(content) != _ACCEPTED.size or content[-1] >= len(_MODES):
        raise DecodeError("an acceptance that is none")
    number, mode = _ACCEPTED.unpack(content)
    return number, _MODES[mode]


def duplicate(number: int) -> bytes:
    """The frame that says that the key of a publication was known; its acceptance follows.

    >>> duplicate(7).hex(" ")
    '00 00 00 05 1a 00 00 00 07'
    """
    return frame(DUPLICATE, _NUMBER.pack(number))


def duplicated(content: bytes) -> int:
    """The number, from the content of such a frame."""
    if len(content) != _NUMBER.size:
        raise DecodeError("malformed DUPLICATE frame")
    number: int = _NUMBER.unpack(content)[0]
    return number


def acknowledge(number: int, kind: int = ACKNOWLEDGE) -> bytes:
    """The frame by which a party acknowledges deliveries, or a server that it has noted so.

    >>> acknowledge(7).hex(" ")
    '00 00 00 09 15 00 00 00 00 00 00 00 07'
    """
    return frame(kind, _LONG.pack(number))


def acknowledged(content: bytes) -> int:
    """The number, from the content of such a frame."""
    if len(content) != _LONG.size:
        raise DecodeError("an acknowledgement that is none")
    number: int = _LONG.unpack(content)[0]
    return number


def deliver(notification: Notification) -> bytes:
    """The frame of a delivery; the notification has an envelope."""
    assert notification.envelope is not None
    envelope = msgpack.encode(notification.envelope)
    if len(envelope) > MOST_ENVELOPE:
        raise CallerError(f"an envelope of {len(envelope):,} bytes; a delivery has room for {MOST_ENVELOPE:,}")
    return frame(DELIVER, _LENGTH.pack(len(envelope)) + envelope + msgpack.encode(notification))


def delivered(content: bytes, limits: Limits = PROTOCOL_LIMITS) -> Notification:
    """The notification of a delivery, from the content of its frame."""
    end = _LENGTH.size + _LENGTH.unpack_from(content)[0] if len(content) >= _LENGTH.size else 0
    if not end or end > len(content):
        raise DecodeError("a delivery that ends in its envelope")
    envelope = msgpack.decode(Envelope, content[_LENGTH.size : end], limits)
    return msgpack.decode(Notification, content[end:], limits).with_envelope(envelope)


def publications_of(stream: bytes) -> Iterator[tuple[int, bytes]]:
    r"""Number and document of each publication of some whole frames.

    >>> list(publications_of(publish(Notification(), 7)))
    [(7, b'\x92\x01\x80')]
    """
    for kind, content in frames_of(stream):
        if kind != PUBLISH or len(content) < _NUMBER.size:
            raise DecodeError("a frame that is no publication")
        yield _NUMBER.unpack_from(content)[0], content[_NUMBER.size :]


def number_before(stream: bytes, place: int) -> int:
    """The number of the publication whose document begins at a place.

    >>> number_before(publish(Notification(), 7), SHORTEST_PUBLISH)
    7
    """
    number: int = _NUMBER.unpack_from(stream, place - _NUMBER.size)[0]
    return number


def frames_of(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each of some whole frames.

    >>> list(frames_of(frame(4, b"ab") + frame(5, b"")))
    [(4, b'ab'), (5, b'')]
    """
    place = 0
    while place < len(stream):
        if len(stream) - place < HEADER:
            raise DecodeError("a frame that is not whole")
        length, kind = _HEAD.unpack_from(stream, place)
        end = place + _LENGTH_BYTES + length
        if length < 1 or end > len(stream):
            raise DecodeError("a frame that is not whole")
        yield kind, stream[place + HEADER : end]
        place = end
