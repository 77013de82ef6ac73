"""What happens in a demonstration, for whoever shows it."""

from __future__ import annotations

from typing import NamedTuple

from palio.model import Notification


class Site(NamedTuple):
    """A server of the network."""

    name: str
    above: str | None
    """Its neighbour on the way to the first server."""
    port: int

    @property
    def url(self) -> str:
        """Where it is."""
        return f"palio://127.0.0.1:{self.port}"


class Reader(NamedTuple):
    """A party who subscribes."""

    name: str
    server: str
    wanted: str
    """A filter, or a pattern."""


class Writer(NamedTuple):
    """A party who publishes a feed."""

    name: str
    server: str
    feed: str
    offers: tuple[str, ...]
    """Advertisements of all that it publishes."""


class Started(NamedTuple):
    """The network is whole and the feeds begin."""

    sites: tuple[Site, ...]
    pids: dict[str, int]
    """The process of each server."""
    writers: tuple[Writer, ...]
    readers: tuple[Reader, ...]
    metrics: str
    """Where the figures of the first server are."""


class Delivery(NamedTuple):
    """A party got what it wants: a notification, or a sequence of them."""

    reader: Reader
    element: Notification | tuple[Notification, ...]


class Died(NamedTuple):
    """A server has ended though nobody told it to."""

    server: str
    reason: str


class Back(NamedTuple):
    """It runs again."""

    server: str


class Ended(NamedTuple):
    """All is over."""

    published: int
    deliveries: dict[str, int]
    """By reader."""
    seconds: float


Happening = Started | Delivery | Died | Back | Ended
