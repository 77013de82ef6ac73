"""Control frames: what parties and servers say to each other besides notifications.

Each is an array in MessagePack in a frame of its kind (:mod:`palio.codec.frames`); ``docs/protocol.md`` specifies them.
Documents of the model go in their own form.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from palio.codec import frames, msgpack, parts
from palio.errors import DecodeError, brief
from palio.model import PROTOCOL_LIMITS, Advertisement, Envelope, Filter, Limits, Mode, Notification, Pattern

VERSION = 4
"""Of the protocol."""
VERSIONS = (VERSION, 3, 2, 1)
"""All that this release speaks, the best one first."""
LEFT = "left"
"""The code of a goodbye by which a party says that it will not come back, and all that it holds ends."""
Subject = Filter | Pattern | Advertisement
_SUBJECTS: dict[str, type[Filter] | type[Pattern] | type[Advertisement]] = {
    "filter": Filter,
    "pattern": Pattern,
    "advertisement": Advertisement,
}
_NAMES = {cls: name for name, cls in _SUBJECTS.items()}


class Control(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of all control frames."""


class Durable(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A party wants a log: what is delivered to it waits until it is acknowledged. Zero means what is usual there."""

    count: int = 0
    """So many deliveries may wait; with more the oldest fall out."""
    bytes: int = 0
    """The same, by their size."""
    age: int = 0
    """And so old may they be, in microseconds."""
    lease: int = 0
    """If the party stays away for so long, in microseconds, its log ends, with all that it holds."""
    attempts: int = 0
    """What was sent in so many connections and never acknowledged becomes a dead letter; zero: never."""
    window: int = 0
    """So many deliveries may be sent and not acknowledged."""
    log: int = 0
    """Which log the party knows, if it does."""
    after: int = -1
    """The number of the last delivery in it that the party has got; less than zero: it does not know."""


class Hello(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The first frame of whoever has opened the connection."""

    versions: tuple[int, ...]
    """Of the protocol, that it speaks."""
    role: str
    """``party``, ``server`` or, since version 3, ``observer``: it may ask what the party of that name may ask, and do
    things with its dead letters, and takes the place of no other connection."""
    name: str
    token: str = ""
    agent: str = ""
    """What program it is, for people."""
    durable: Durable | None = None
    """Of a party: what is for it waits for it."""
    mode: Mode | None = None
    """Of a party: what acceptance of its publications is to promise at least."""


class Welcome(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The answer: the connection can be used."""

    version: int
    server: str
    incarnation: int
    frame_bytes: int
    """Frames that are longer are refused."""
    limits: dict[str, int] = {}
    """The limits of documents, where they are not the defaults: those of what the server takes from whom it welcomes.
    In version 1 a client also applies them to what it receives, so a client of version 1 is told the protocol's maxima.
    """


class Goodbye(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The connection is closed, and why."""

    code: str
    text: str


class Ping(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """To see whether the other end is there."""

    number: int


class Pong(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """It is; with the number of the question."""

    number: int


class Ask(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A party subscribes, unsubscribes, advertises, unadvertises, watches, or does not any more."""

    number: int
    operation: str
    kind: str
    """What the document is: ``filter``, ``pattern`` or ``advertisement``."""
    document: Raw
    wait: bool = False
    """Answer only when it has spread through the network."""
    party: str = ""
    """For whom, if it is another one."""
    instead: tuple[tuple[str, Raw], ...] = ()
    """Where something is cancelled: what is subscribed to in the same step; kind and document of each."""


class Answer(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """It was done; or why not."""

    number: int
    code: str = ""
    """Empty if it was done."""
    text: str = ""


class Sequence(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A sequence of notifications that matches a pattern."""

    pattern: Raw
    notifications: tuple[tuple[Raw, Raw], ...]
    """Envelope and body of each."""


class Position(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """To a durable party: from which number on deliveries follow on this connection, one by one."""

    log: int
    """Which log it is: after loss of data another one begins, with numbers of its own."""
    first: int
    """The number of the next delivery."""
    repeated: int
    """Deliveries with lower numbers may have come before."""
    dropped: int
    """How many have fallen out of the log's bounds of count and size, ever."""
    expired: int
    """How many were too old."""


class LeaseEnded(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """To a durable party, before its position: it had stayed away for longer than its lease. Since version 3.

    With the log, all that the party held has ended. This is said until the party acknowledges a delivery of its new log
    or says that it knows that log.
    """

    log: int
    """The log that has ended."""
    done: int
    """Deliveries of it with lower numbers were acknowledged, or had fallen out before."""
    lost: int
    """How many deliveries were dropped with it."""
    time: datetime


class Missed(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """To a durable party that does not say what it has received, before its position: deliveries have fallen out of its
    log since it last acknowledged one. Since version 4.

    The server repeats this in each connection until the party acknowledges a later delivery.
    """

    first: int
    """The number of the first of them. The position says which delivery comes after the last one."""


class Replay(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A durable party wants earlier deliveries once more: from a number, or a time, or the last ones."""

    number: int
    """Of the request."""
    first: int = -1
    since: datetime | None = None
    last: int = -1


class Reject(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A durable party cannot do anything with a delivery: it becomes a dead letter, and counts as acknowledged."""

    number: int
    """Of the request."""
    delivery: int
    reason: str


class Letters(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is to be done with dead letters: ``requeue`` delivers them again, ``discard`` forgets them."""

    number: int
    """Of the request."""
    action: str
    letters: tuple[int, ...]


class Outlook(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Whether there is somebody for what a party watches."""

    kind: str
    document: Raw
    is_good: bool


class Query(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A question about the server or the network."""

    number: int
    subject: str
    arguments: dict[str, Any] = {}


class Result(Control, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The answer to a :class:`Query`."""

    number: int
    document: dict[str, Any]


KINDS: dict[type[Control], int] = {
    Hello: 0x01,
    Welcome: 0x02,
    Goodbye: 0x03,
    Ping: 0x04,
    Pong: 0x05,
    Ask: 0x12,
    Answer: 0x13,
    Replay: 0x17,
    Reject: 0x18,
    Letters: 0x19,
    Sequence: 0x21,
    Outlook: 0x22,
    Position: 0x23,
    LeaseEnded: 0x24,
    Missed: 0x25,
    Query: 0x40,
    Result: 0x41,
}
_DECODERS = {kind: msgspec.msgpack.Decoder(cls) for cls, kind in KINDS.items()}
_encoder = msgspec.msgpack.Encoder()
C = TypeVar("C", bound=Control)


def encode(control: Control) -> bytes:
    """The whole frame.

    >>> encode(Ping(7)).hex(" ")
    '00 00 00 03 04 91 07'
    """
    return frames.frame(KINDS[type(control)], _encoder.encode(control))


def decode(kind: int, content: bytes) -> Control:
    """Read the content of a frame of a kind.

    >>> decode(0x04, bytes.fromhex("91 07"))
    Ping(number=7)
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise DecodeError(f"a frame of kind {kind:#04x}, which is not known here")
    try:
        control: Control = decoder.decode(content)
    except parts.UNREADABLE as error:
        raise DecodeError(f"a frame of kind {kind:#04x}: {brief(str(error))}") from error
    return control


def document(subject: Subject) -> tuple[str, Raw]:
    """A filter, a pattern or an advertisement, and which of them it is."""
    return _NAMES[type(subject)], Raw(msgpack.encode(subject))


def subject(kind: str, raw: Raw, limits: Limits = PROTOCOL_LIMITS) -> Subject:
    """Read what :func:`document` has written."""
    return parts.finished(subject_steps(kind, raw, limits))


def subject_steps(kind: str, raw: Raw, limits: Limits = PROTOCOL_LIMITS) -> Generator[int, None, Subject]:
    """The same filter by filter; each step says how many constraints it has read, and at least one."""
    cls = _SUBJECTS.get(kind)
    if cls is None:
        raise DecodeError(f"{brief(kind)} is none of {', '.join(_SUBJECTS)}")
    found = yield from msgpack.decode_steps(cls, bytes(raw), limits)
    return found


def enveloped(notification: Notification) -> tuple[Raw, Raw]:
    """A notification with its envelope."""
    assert notification.envelope is not None
    return Raw(msgpack.encode(notification.envelope)), Raw(msgpack.encode(notification))


def notification(envelope: Raw, body: Raw, limits: Limits = PROTOCOL_LIMITS) -> Notification:
    """Read what :func:`enveloped` has written."""
    return msgpack.decode(Notification, bytes(body), limits).with_envelope(
        msgpack.decode(Envelope, bytes(envelope), limits)
    )
