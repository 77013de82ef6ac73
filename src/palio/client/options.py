"""How a client behaves."""

from __future__ import annotations

from random import random
from ssl import SSLContext
from typing import TypedDict

import msgspec

from palio.client.durable import Durable, read_durable
from palio.client.publications import read_mode
from palio.errors import CallerError
from palio.model import Mode

_POSITIVE = ("connect_timeout", "reconnect_time_wait", "reconnect_time_max", "max_outstanding", "ping_interval")


class ConnectOptions(TypedDict, total=False):
    """The keywords of :func:`palio.connect` for type checkers, except ``durable``, which decides about the result."""

    name: str | None
    token: str
    ssl: SSLContext | None
    connect_timeout: float
    reconnect_time_wait: float
    reconnect_time_max: float
    max_attempts: int
    max_outstanding: int
    ping_interval: float
    mode: Mode | str | None
    retry: bool
    observe: bool


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The keywords of :func:`palio.connect`."""

    name: str | None = None
    """Of the party; subscriptions and advertisements belong to it. Without one, the client is a party of its own."""
    token: str = ""
    """What proves that it is that party, at servers that ask for a proof."""
    ssl: SSLContext | None = None
    """For addresses that begin with ``palios://``; by default the system's certificates are trusted."""
    connect_timeout: float = 5.0
    """Seconds that one attempt to connect may take."""
    reconnect_time_wait: float = 0.25
    """Seconds before the first attempt to connect again; they double with each, up to ``reconnect_time_max``."""
    reconnect_time_max: float = 15.0
    """Seconds between two attempts at most."""
    max_attempts: int = 60
    """How often it is tried to connect again before the client gives up; 0 means not at all."""
    max_outstanding: int = 4096
    """Publications that may be under way at the same time; more wait."""
    ping_interval: float = 20.0
    """Seconds after which the server is asked whether it is there; without an answer for twice that, it is not."""
    durable: Durable | bool | None = None
    """Whether what is for the party waits for it when it is away; and for how long. It needs a name."""
    mode: Mode | str | None = None
    """What acceptance of publications is to promise at least; by default, what the server is configured to do."""
    retry: bool = False
    """Whether publications get keys, so that they are published again when the connection breaks, and count once."""

    observe: bool = False
    """Whether the client only looks at the party of that name, and leaves the client connected that has that name: it
    may ask (``query``, ``letters``) and do something with dead letters, and nothing else."""

    def check(self) -> None:
        """Refuse what makes no sense."""
        if not isinstance(self.name, str | None) or not isinstance(self.token, str):
            raise CallerError("name and token: they are strings")
        if self.name is not None and not 1 <= len(self.name.encode("utf-8", "replace")) <= 1024:
            raise CallerError("name: it has 1 to 1,024 bytes")
        for option in _POSITIVE:
            value = getattr(self, option)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise CallerError(f"{option}: {value!r:.80} is not a number")
            if not value > 0:
                raise CallerError(f"{option}: {value} is not positive")
        for option in ("max_attempts", "max_outstanding"):
            value = getattr(self, option)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise CallerError(f"{option}: {value!r:.80} is not a whole number of 0 or more")
        for option in ("retry", "observe"):
            if not isinstance(getattr(self, option), bool):
                raise CallerError(f"{option}: {getattr(self, option)!r:.80} is neither True nor False")
        if read_durable(self.durable) is not None and self.name is None:
            raise CallerError("durable: it needs a name, by which the party is known when it comes back")
        if self.observe and read_durable(self.durable) is not None:
            raise CallerError("observe: an observer gets no deliveries; connect without durable")
        read_mode(self.mode)

    def pause(self, attempt: int) -> float:
        """Seconds before an attempt, counted from 0: longer each time, and never the same for all clients."""
        longest = min(self.reconnect_time_max, self.reconnect_time_wait * 2.0 ** min(attempt, 60))
        return longest * (0.5 + 0.5 * random())  # noqa: S311 (no secret)
