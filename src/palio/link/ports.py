"""What links tell a server, what they ask it, and where they note what must survive."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

import msgspec

from palio.routing.messages import Message, Stamp

Members = tuple[tuple[str, Stamp], ...]


class Wish(msgspec.Struct, frozen=True, gc=False):
    """A link that this server opens, and opens again when it is lost."""

    role: str
    latency: int = 1


class Up(msgspec.Struct, frozen=True, gc=False):
    """A link is there; messages may be sent."""

    peer: str
    role: str
    stamp: Stamp
    members: Members
    """What the neighbour brings."""
    told: Members
    """What it was told."""
    latency: int = 1
    limits: tuple[int, ...] = ()
    """What it takes; empty if it did not say."""


class Down(msgspec.Struct, frozen=True, gc=False):
    """A link is gone, and what was on its way may be lost."""

    peer: str
    reason: str = ""


class Refused(msgspec.Struct, frozen=True, gc=False):
    """A link that is wanted cannot be now."""

    peer: str
    reason: str


class Received(msgspec.Struct, frozen=True, gc=False):
    """Messages have arrived, in their order."""

    peer: str
    messages: Sequence[Message]


LinkEvent = Up | Down | Refused | Received


class Host(Protocol):
    """What links ask the server."""

    def next_stamp(self) -> Stamp:
        """For a new link."""

    def introduction(self) -> tuple[str, Members, tuple[int, ...]]:
        """The architecture, the servers of the tree, and the limits of what this server takes from neighbours."""

    def obstacle(self, peer: str, wish: Wish) -> str | None:
        """Why it makes no sense to ask for a wanted link now, if so."""

    def refusal(self, peer: str, role: str, architecture: str | None, members: Members) -> str | None:
        """Why there cannot be a link to such a neighbour, if so.

        The architecture is not known when a neighbour has accepted.
        """


class Keeper(Protocol):
    """Where links note what must survive, if anything must."""

    def put(self, key: tuple[Hashable, ...], value: object) -> None:
        """The record of a key is this from now on."""

    def delete(self, key: tuple[Hashable, ...]) -> None:
        """There is no record of a key any more."""


class Nothing:
    """Keeps nothing."""

    def put(self, key: tuple[Hashable, ...], value: object) -> None:
        """Do nothing."""

    def delete(self, key: tuple[Hashable, ...]) -> None:
        """Do nothing."""
