"""What servers say of themselves and of a notification, as documents; those of others are checked against this."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Time = str
"""As ``2026-07-02T19:30:00.000000Z``: earlier times are lesser texts."""


class Came(TypedDict):
    """How it came to a server."""

    origin: Literal["party", "server"]
    name: str | None
    """Who sent it; None if that is not known any more."""
    at: Time
    let_in: bool
    """Whether it passed the gateway over which it came."""


class Sent(TypedDict):
    """A neighbour that it was sent to."""

    to: str
    at: Time


class Delivery(TypedDict):
    """A party that it was for."""

    party: str
    at: Time
    form: Literal["notification", "sequence"]
    reason: str
    """Why it did not leave the server; empty if it did."""


class Reach(TypedDict):
    """How far back a server remembers."""

    is_on: bool
    is_whole: bool
    since: Time | None


class Link(TypedDict):
    """A link that there is."""

    to: str
    latency: int


class Change(TypedDict):
    """When somebody began or ceased to want such notifications."""

    at: Time
    did: Literal["subscribe", "unsubscribe"]
    filter: str


class LinkChange(TypedDict):
    """When a link came or went."""

    at: Time
    is_up: bool


class Neighbour(TypedDict):
    """What there is between a server and a neighbour, for such a notification."""

    name: str
    is_up: bool
    asked: list[Change]
    link: list[LinkChange]
    exports: str
    imports: str
    """The gateway's filters, if they do not match."""
    letter: NotRequired[str]
    """Why the neighbour cannot take it, if so; a server of an earlier release does not say that."""


class Failure(TypedDict):
    """A constraint that does not hold."""

    constraint: str
    remark: str


class Miss(TypedDict):
    """A filter that does not match."""

    filter: str
    failures: list[Failure]


class PartyAccount(TypedDict):
    """What a party holds at a server, as far as it concerns the notification."""

    is_connected: bool
    gone_seconds: float | None
    filters: int
    patterns: int
    changes: list[Change]
    matching: list[str]
    matching_patterns: list[str]
    missing: list[Miss]


class AccountDocument(TypedDict):
    """What a server knows of a notification."""

    server: str
    architecture: str
    history: Reach
    id_problem: str
    """Why it cannot be, if it is said to have begun there."""
    came: list[Came]
    sent: list[Sent]
    delivered: list[Delivery]
    delivered_left_out: int
    lost: list[Delivery]
    lost_left_out: int
    document: bytes | None
    """Its attributes, for servers that have not seen it."""
    links: list[Link]
    would_go_to: list[str]
    """The neighbours that would get it now."""
    neighbours: list[Neighbour]
    advertised: bool | None
    party: PartyAccount | None


class LinkForm(TypedDict):
    """What every status says of a link."""

    name: str
    state: str
    role: str
    latency: int
    url: str
    known_from: str
    unacknowledged: int
    reason: str


class CountsForm(TypedDict):
    """The figures that every status has."""

    publications: int
    deliveries: int
    dropped: int
    subscriptions: int
    parties: int
    waiting_bytes: int


class StatusDocument(TypedDict):
    """What every server says of itself, whatever its release says besides."""

    server: str
    uptime_seconds: float
    counts: CountsForm
    links: list[LinkForm]
