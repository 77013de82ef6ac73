"""Frames: how a stream of bytes is divided.

A frame is its length (four bytes, big-endian, of what follows), its kind (one byte) and its content. What the kinds
mean is said in ``docs/protocol.md``; the two that carry notifications are read and written by the compiled core.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from palio.codec import msgpack, parts
from palio.errors import DecodeError
from palio.model import Envelope, Notification, Trace
from palio.model.limits import DEFAULT_LIMITS, Limits

PUBLISH = 0x10
"""The number of the request, four bytes, zero if no answer is wanted; then the notification's document."""
ACCEPTED = 0x11
"""The number up to which all publications were accepted, but for those that were refused, four bytes."""
PUBLISH_TRACED = 0x14
"""Number and length of the trace, four and two bytes; its text; then the notification's document."""
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
_TRACED = Struct(">IH")
_LENGTH = Struct(">H")
_NUMBER = Struct(">I")
_LENGTH_BYTES = 4


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


def publish_traced(notification: Notification, trace: Trace, number: int = 0) -> bytes:
    """The frame of a publication with a trace."""
    text = str(trace).encode()
    return frame(PUBLISH_TRACED, _TRACED.pack(number, len(text)) + text + msgpack.encode(notification))


def traced(content: bytes) -> tuple[int, bytes, bytes]:
    """Number, trace and document of a publication with a trace, from the content of its frame; as they are."""
    if len(content) < _TRACED.size:
        raise DecodeError("a publication that ends before its trace begins")
    number, length = _TRACED.unpack_from(content)
    end = _TRACED.size + length
    if end > len(content):
        raise DecodeError("a publication that ends in its trace")
    return number, content[_TRACED.size : end], content[end:]


def trace_of(text: bytes) -> Trace:
    """The trace of a publication.

    >>> trace_of(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").state
    ''
    """
    with parts.placed("trace"):
        return Trace.parse(text.decode("ascii", "replace"))


def accepted(number: int) -> bytes:
    """The frame that says up to which number publications were accepted.

    >>> accepted(7).hex(" ")
    '00 00 00 05 11 00 00 00 07'
    """
    return frame(ACCEPTED, _NUMBER.pack(number))


def deliver(notification: Notification) -> bytes:
    """The frame of a delivery; the notification has an envelope."""
    assert notification.envelope is not None
    envelope = msgpack.encode(notification.envelope)
    return frame(DELIVER, _LENGTH.pack(len(envelope)) + envelope + msgpack.encode(notification))


def delivered(content: bytes, limits: Limits = DEFAULT_LIMITS) -> Notification:
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
