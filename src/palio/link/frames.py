"""What travels between two servers below the sequence: it may be lost, doubled or overtaken."""

from __future__ import annotations

from enum import Enum

import msgspec

from palio.routing.messages import Message, Stamp


class Frame(msgspec.Struct, frozen=True, gc=False):
    """Base of all frames; the session they belong to is the link's stamp."""

    session: Stamp


class Open(Frame, frozen=True, gc=False):
    """A server asks for a link. Repeated until there is an answer."""

    role: str
    """What the asking server wants the other one to be."""
    architecture: str
    members: tuple[tuple[str, Stamp], ...]
    """The servers in the tree of the asking one."""
    latency: int = 1
    """What the link counts for where there are several ways; the asking server says it for both."""
    limits: tuple[int, ...] = ()
    """What the asking server takes (:data:`palio.model.limits.WIRE_FIELDS`); empty in version 1 of the protocol."""


class Accept(Frame, frozen=True, gc=False):
    """The link is there. Repeated whenever the question is."""

    members: tuple[tuple[str, Stamp], ...]
    limits: tuple[int, ...] = ()
    """What the accepting server takes; empty in version 1 of the protocol."""


class Refuse(Frame, frozen=True, gc=False):
    """The link will not be."""

    reason: str


class Why(Enum):
    """Why a link ends."""

    ENDED = "ended"
    """The operator ended it, the other end broke the rules, or the link closed a cycle: open it again only later."""
    UNKNOWN = "unknown"
    """The server does not know the session, because it was restarted and has lost its data, or gave it up."""


class Close(Frame, frozen=True, gc=False):
    """The link is no more. Repeated until there is an answer; also the answer to frames of an unknown session."""

    why: Why
    reason: str = ""
    """For the operator of the other server; since version 2 of the protocol."""


class Closed(Frame, frozen=True, gc=False):
    """The other end knows that the link is no more."""


class Probe(Frame, frozen=True, gc=False):
    """Do you still know this link? Repeated until there is an answer: that it is known, or that it is no more."""

    number: int
    """Tells the answer from one to an earlier question."""


class Known(Frame, frozen=True, gc=False):
    """The link of a :class:`Probe` is known. Since version 2 of the protocol the answer says how far it is."""

    number: int
    base: int = -1
    """The number of the first message of this direction that is not acknowledged."""
    end: int = -1
    """The number behind the last message of this direction that may have been sent."""
    expected: int = -1
    """The number of the next message of the other direction."""


class Data(Frame, frozen=True, gc=False):
    """Messages of the sequence, none if it only acknowledges."""

    first: int
    """The number of the first message."""
    messages: tuple[Message, ...]
    expected: int
    """All messages of the other direction with lower numbers have arrived."""
    has_room: bool = True
    """Whether more of them may come; if not, the other end keeps them until it hears that they may."""
