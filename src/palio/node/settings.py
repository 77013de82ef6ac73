"""What a server is told about itself."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from palio.errors import CallerError, brief
from palio.link.session import LinkSettings
from palio.model import Mode
from palio.model.limits import DEFAULT_LIMITS, HIGHEST_LIMITS, MOST_NAME_BYTES, PROTOCOL_LIMITS, Limits
from palio.node.logs import LogSettings
from palio.routing.architectures import ARCHITECTURES
from palio.routing.border import Gateway
from palio.routing.router import Role
from palio.routing.telling import TellingSettings
from palio.routing.unions import Merging

DEFAULT_COMPARISONS = 512
"""About 2 milliseconds."""
MOST_WINDOW = 60_000_000
"""Microseconds: nobody waits longer for what the network has upset."""


class Delegation(Enum):
    """Which monitors of patterns run at the neighbours from which what they wait for comes."""

    NONE = "none"
    """None: all patterns are taken apart where their parties are."""
    WHOLE = "whole"
    """Those of patterns that are available from one neighbour only: they find exactly what they would find here."""
    GROUPS = "groups"
    """Those of parts of patterns, too. That spares traffic and misses sequences: a part may have begun too early."""


class NodeSettings(NamedTuple):
    """What a server is."""

    server: str
    architecture: str
    incarnation: int = 0
    """Which life of the server this is; a server that has lost its data begins another."""
    link: LinkSettings = LinkSettings()
    guard: bool = False
    """Whether a party may publish only what it has advertised."""
    may_act_for: Mapping[str, frozenset[str]] = {}
    """For whom else a party may subscribe and advertise."""
    filters_per_party: int = 10_000
    """Subscriptions (patterns count as one each), and advertisements, that one party may hold at the same time."""
    comparisons: int = DEFAULT_COMPARISONS
    """So many comparisons of small filters are made in one turn, about; requests that need more go on in the next."""
    limits: Limits = DEFAULT_LIMITS
    """What a filter, an advertisement or a notification of a party may be, where it enters."""
    accepted: Limits = PROTOCOL_LIMITS
    """What the same may be if a neighbour sends it; a server that is configured takes all that the protocol allows."""
    neighbours: frozenset[Role] = frozenset()
    """The roles of the configured neighbours. The tables of which they are told are ordered from the beginning;
    else that is done all at once when the first link comes up."""
    gateways: Mapping[str, Gateway] = {}
    """The servers of other networks with which this one may be joined."""
    window: int = 0
    """For how many microseconds monitors hold notifications back, to put right what the network upset."""
    held_back: int = 10_000
    """How many notifications are held back at most; of more than that within the window the earliest goes before its
    time. And how many wait at most for a neighbour that is to hand over a monitor; then the earliest is given up."""
    delegation: Delegation = Delegation.WHOLE
    """Where advertisements spread: what of patterns is watched by neighbours."""
    telling: TellingSettings = TellingSettings()
    """Whether what neighbours are told is merged, or waits for more; by default it is told at once as it is."""
    compression: Merging | None = None
    """Whether, and how far, several filters or advertisements that one neighbour has told count as one here."""
    durable: bool = False
    """Whether all survives that was acknowledged: nothing goes out before what it depends on is on disk."""
    log: LogSettings = LogSettings()
    """How what is for durable parties is kept."""
    mode: Mode = Mode.SYNCED
    """What acceptance of a publication promises if its publisher does not say; without a disk it is always memory."""
    reserve: int = 1_000_000
    """So many numbers of publications, and microseconds of their times, are written ahead: then not each is."""
    boot: int | None = None
    """Which start of the server this is; no other start has the same number. It is part of the ids of publications,
    links and waves, so that a server whose disk was restored from an older copy gives no id twice. By default it is the
    incarnation.
    """

    @property
    def start(self) -> int:
        """The number that tells this start of the server from all others."""
        return self.incarnation if self.boot is None else self.boot


def check_settings(settings: NodeSettings) -> None:
    """Refuse what makes no sense."""
    if settings.architecture not in ARCHITECTURES:
        names = ", ".join(ARCHITECTURES)
        raise CallerError(f"architecture: {brief(settings.architecture)} is none of {names}")
    if not 0 <= settings.window <= MOST_WINDOW:
        raise CallerError(f"window: {brief(settings.window)} is not between 0 and {MOST_WINDOW:,} microseconds")
    if settings.limits.key_bytes > HIGHEST_LIMITS.key_bytes:
        raise CallerError(
            f"limits: key_bytes is {settings.limits.key_bytes:,}; it is {HIGHEST_LIMITS.key_bytes:,} at most"
        )
    if not 0 < len(settings.server.encode("utf-8", "replace")) <= MOST_NAME_BYTES:
        raise CallerError(f"server: {brief(settings.server)} is no name of 1 to {MOST_NAME_BYTES:,} bytes")
    if settings.held_back < 1:
        raise CallerError(f"held_back: {brief(settings.held_back)}; it is 1 at least")
