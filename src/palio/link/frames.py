"""The frames that two servers exchange for a link. The network may lose, duplicate or reorder them."""

from __future__ import annotations

from enum import Enum

import msgspec

from palio.routing.messages import Message, Stamp


class Frame(msgspec.Struct, frozen=True, gc=False):
    """Base of all frames. The stamp of the link identifies the session that a frame belongs to."""

    session: Stamp


class Open(Frame, frozen=True, gc=False):
    """A server asks for a link. It repeats the frame until it has an answer."""

    role: str
    """The role that the other server is to have."""
    architecture: str
    members: tuple[tuple[str, Stamp], ...]
    """The servers in the tree of the asking server."""
    latency: int = 1
    """The weight of the link where routing chooses among several paths. The asking server sets it for both."""
    limits: tuple[int, ...] = ()
    """The limits of the asking server (:data:`palio.model.limits.WIRE_FIELDS`); empty in version 1 of the protocol."""


class Accept(Frame, frozen=True, gc=False):
    """A server accepts a link. It repeats the frame until the other server confirms the session."""

    members: tuple[tuple[str, Stamp], ...]
    limits: tuple[int, ...] = ()
    """The limits of the accepting server; empty in version 1 of the protocol."""


class Refuse(Frame, frozen=True, gc=False):
    """A server refuses a link."""

    reason: str


class Why(Enum):
    """Why a link ends."""

    ENDED = "ended"
    """The operator ended or changed it, the other end violated the protocol, or it closed a cycle."""
    UNKNOWN = "unknown"
    """The server does not know the session: it was restarted and has lost its state, or it gave the session up."""


class Close(Frame, frozen=True, gc=False):
    """A session has ended. Repeated until there is an answer. Also the answer to frames of an unknown session."""

    why: Why
    reason: str = ""
    """For the operator of the other server; since version 2 of the protocol."""


class Closed(Frame, frozen=True, gc=False):
    """The answer to :class:`Close`."""


class Probe(Frame, frozen=True, gc=False):
    """A server asks whether the other one still knows a session. Repeated until ``Known`` or ``Close`` arrives."""

    number: int
    """Distinguishes the answer from the answer to an earlier question."""


class Known(Frame, frozen=True, gc=False):
    """The session of a :class:`Probe` is known. Since version 2 of the protocol it carries sequence numbers."""

    number: int
    base: int = -1
    """The number of the first message of the sender of this frame that is not acknowledged."""
    end: int = -1
    """The number after the last message that the sender of this frame may have sent."""
    expected: int = -1
    """The number of the next message that the sender of this frame expects."""


class Data(Frame, frozen=True, gc=False):
    """Messages of the sequence; without messages it is an acknowledgement."""

    first: int
    """The number of the first message."""
    messages: tuple[Message, ...]
    expected: int
    """The number of the next expected message of the other direction; it acknowledges all lower ones."""
    has_room: bool = True
    """Whether the other end may send more. If not, it waits for a frame that permits it."""
