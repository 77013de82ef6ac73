"""The interface of links to their server: events, questions to the host, and records for the store."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

import msgspec

from palio.routing.messages import Message, Stamp

Members = tuple[tuple[str, Stamp], ...]


class Wish(msgspec.Struct, frozen=True, gc=False):
    """A link that this server opens, and opens again after each loss."""

    role: str
    latency: int = 1


class Up(msgspec.Struct, frozen=True, gc=False):
    """A link is established and accepts messages."""

    peer: str
    role: str
    stamp: Stamp
    members: Members
    """The servers that are reached over the neighbour."""
    told: Members
    """The servers that the neighbour reaches over this server, as it was informed."""
    latency: int = 1
    limits: tuple[int, ...] = ()
    """The limits of the neighbour; empty if it has not sent any."""


class Down(msgspec.Struct, frozen=True, gc=False):
    """A link has ended. Messages that were not acknowledged are discarded."""

    peer: str
    reason: str = ""
    discarded: int = 0
    """Publications that waited for the neighbour and were not acknowledged; some of them may have arrived."""


class Refused(msgspec.Struct, frozen=True, gc=False):
    """A wanted link was refused, by the neighbour or by this server."""

    peer: str
    reason: str


class Received(msgspec.Struct, frozen=True, gc=False):
    """Messages have arrived, in the order in which they were sent."""

    peer: str
    messages: Sequence[Message]


LinkEvent = Up | Down | Refused | Received


class Host(Protocol):
    """Questions of links to their server."""

    def next_stamp(self) -> Stamp:
        """The stamp of a new session."""

    def introduction(self) -> tuple[str, Members, tuple[int, ...]]:
        """The architecture, the servers of the tree, and the limits of this server."""

    def obstacle(self, peer: str, wish: Wish, *, only_cycles: bool = False) -> str | None:
        """The reason why asking for a wanted link would be in vain now, or ``None``."""

    def refusal(self, peer: str, role: str, architecture: str | None, members: Members) -> str | None:
        """The reason to refuse a link to such a neighbour, or ``None``.

        The architecture is ``None`` when the neighbour has accepted the link.
        """


class Keeper(Protocol):
    """Receives the records of links that must survive a restart."""

    def put(self, key: tuple[Hashable, ...], value: object) -> None:
        """Write the record of a key, or replace it."""

    def delete(self, key: tuple[Hashable, ...]) -> None:
        """Delete the record of a key."""


class Nothing:
    """A keeper for servers without a store: it discards all records."""

    def put(self, key: tuple[Hashable, ...], value: object) -> None:
        """Do nothing."""

    def delete(self, key: tuple[Hashable, ...]) -> None:
        """Do nothing."""
