"""Histories: what happens to a network, step by step, as data that can be stored and told again."""

from __future__ import annotations

from typing import Literal

import msgspec

from palio.model import Mode
from palio.node.logs import LogSettings
from palio.node.party_log import Keep
from palio.node.settings import Delegation
from palio.routing.telling import TellingSettings
from palio.routing.unions import Merging
from palio.sim.engine.clock import RIGHT
from palio.sim.engine.network import Weather
from palio.sim.faults.crash_points import Effect

StepKind = Literal[
    "subscribe",
    "unsubscribe",
    "advertise",
    "unadvertise",
    "publish",
    "watch-demand",
    "watch-offers",
    "unwatch-demand",
    "unwatch-offers",
    "replace",
    "leave",
    "connect",
    "disconnect",
    "give-up",
    "crash",
    "lose",
    "tear",
    "crash-at",
    "restart",
    "weather",
    "cut",
    "part",
    "join",
    "pause",
    "resume",
    "slow",
    "clock",
    "full",
    "room",
    "fail",
    "crowd",
    "thin",
    "attach",
    "detach",
    "acknowledge",
    "replay",
    "reject",
    "requeue",
    "discard",
    "power",
    "scarce",
    "flip",
    "spoil",
    "copy",
    "put-back",
    "settle",
]

LARGE_WINDOW = 100_000
"""Longer than anything takes from rest to rest: with it, all publications come to monitors in order."""

Wish = Literal["first", "since", "last"]
"""From where on a party wants deliveries once more."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happens.

    *lose* is a crash that takes the disk along, *tear* one that leaves a part of what was being written; with
    *crash-at* a server dies at an effect of a kind, with *fail* at its next write. *part* cuts servers from all
    others, *join* ends all that was cut. *watch-demand* asks whether anybody wants what an advertisement announces,
    *watch-offers* whether anybody offers what a filter matches. *replace* cancels a subscription and makes another
    one in its place, *leave* takes all along that a party holds. With *give-up* a server waits for a neighbour no
    longer. While it is *crowded*, until it is *thin* again, a server asks its neighbours to hold back what they have
    for it.

    A durable party *attaches* and *detaches* itself, *acknowledges* what it has got, wants it once more (*replay*),
    *rejects* its first delivery, and wants dead letters delivered again (*requeue*) or forgotten (*discard*). A server
    whose machine loses its *power* loses what was not synced; one whose disk is *scarce* refuses publications. An entry
    of its log (*flip*) or another record (*spoil*) is damaged; its disk is *copied*, and the copy *put back*.

    *settle* lets everything heal and come to rest, and checks all.
    """

    wait: int
    """How long after the step before."""
    do: StepKind
    server: str = ""
    party: str = ""
    text: str = ""
    """The filter, advertisement or notification."""
    instead: str = ""
    """The filter that takes its place."""
    peer: str = ""
    """The other server: to be linked with, or no longer to be reached."""
    spread: bool = False
    """Whether the party waits until its subscription has spread."""
    weather: Weather | None = None
    servers: tuple[str, ...] = ()
    """Those that are cut from the others."""
    time: int = 0
    """How long all that a slow server handles keeps it busy; or how far a clock is off."""
    rate: int = RIGHT
    """How fast a clock runs, in percent."""
    effect: Effect | None = None
    """At which a server dies."""
    nth: int = 1
    """At which of those effects, counted from now on; which of the records is damaged, counted from the last one."""
    keep: Keep | None = None
    """What a durable party wants its log to be."""
    pace: int = 1
    """After how many deliveries a durable party acknowledges; zero: only when it is told to."""
    remembers: bool = False
    """Whether a durable party knows what it has got."""
    mode: Mode | None = None
    """What the acceptance of a publication is to promise at least."""
    expires: int = 0
    """After which time a publication is worth nothing any more; zero: it always is worth something."""
    key: str = ""
    """By which a publication is known as one that was there before."""
    number: int = 0
    """Of the first delivery that is wanted once more; or how many of the last are; or for how long they have been
    there. And how many of the last that it has got a party does not acknowledge yet."""
    wish: Wish = "first"

    def __str__(self) -> str:
        peer = f"-> {self.peer}" if self.peer else ""
        parts = [self.do, self.server, ", ".join(self.servers), self.party, peer, self.text, self.instead]
        parts += [self.key and f"with the key {self.key}", self.mode.value if self.mode else ""]
        parts += [f"{self.wish} {self.number}" if self.do == "replay" else ""]
        return " ".join(part for part in parts if part)


class ServerLimits(msgspec.Struct, frozen=True):
    """The limits of one server, by name, where they differ from what is usual."""

    entry: dict[str, int] = {}
    """Of what its parties say: the configured ones."""
    accepted: dict[str, int] = {}
    """Of what its peers say, if it is of an earlier release: later ones take all that the protocol allows."""


class History(msgspec.Struct, frozen=True):
    """A network and what happens to it."""

    architecture: str
    seed: int
    """Of the network's luck and latencies; all else is in the steps."""
    servers: tuple[str, ...]
    steps: tuple[Step, ...]
    durable: bool = False
    """Whether servers have disks, and come back as what they were; if not, they forget everything when they die."""
    window: int = 0
    """For how long monitors hold notifications back."""
    delegation: Delegation = Delegation.WHOLE
    """Which monitors run at neighbours, where advertisements spread."""
    telling: TellingSettings = TellingSettings()
    """How servers tell their neighbours of changes: whether they merge, and wait."""
    compression: Merging | None = None
    """Whether servers merge what one neighbour tells them."""
    logs: LogSettings | None = None
    """How servers keep what is for durable parties, which are those that attach as such. By default that follows from
    the seed; then all parties of durable servers are durable, and acknowledge by themselves."""
    reconfigured: bool = False
    """Whether gateways have other filters after each start of their server."""
    limits: dict[str, ServerLimits] = {}
    """Of each server, if they differ."""

    @property
    def merges(self) -> bool:
        """Whether anything is merged."""
        return self.telling.merging is not None or self.compression is not None

    @property
    def slack(self) -> int:
        """The larger one of the budgets of imperfect merging, in percent."""
        return max(each.slack for each in (self.telling.merging, self.compression, Merging()) if each is not None)

    def to_json(self) -> bytes:
        """For a file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @classmethod
    def from_json(cls, document: bytes) -> History:
        """Read what :meth:`to_json` has written."""
        return msgspec.json.decode(document, type=cls)
