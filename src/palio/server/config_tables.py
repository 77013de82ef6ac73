"""The tables of a configuration that concern connections, links, consumers, TLS, HTTP and logs."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from palio.link.session import LinkSettings
from palio.model.limits import DEFAULT_LIMITS

_MOST_CONNECTIONS = 20_000

Count = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class Connections(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How connections are treated."""

    most: Annotated[int, msgspec.Meta(ge=0)] = 0
    """At the same time; 0: as many as the limit of open files allows, and at most 20,000."""
    first_frame_bytes: Count = 8_192
    """Before somebody has said who it is."""
    hello_seconds: Seconds = 2.0
    """For how long that is waited for."""
    frame_bytes: Count = DEFAULT_LIMITS.document_bytes + 64
    """Longer frames of parties are refused."""
    ping_seconds: Seconds = 30.0
    """Who has said nothing for so long is asked whether it is there; after as long again it counts as gone."""
    waiting_bytes: Count = 256 << 20
    """Bytes that may wait for all connections together; with more, slow consumers pay, or else publishers wait."""
    unfinished_bytes: Count = 256 << 20
    """Of frames that are not whole, of all connections together; with more, those with the longest are closed."""
    failures_per_minute: Count = 30
    """Wrong tokens from one address; then it has to wait."""
    forget_seconds: Seconds = 300.0
    """What a party has subscribed to and advertised ends when it is gone for so long."""
    drain_seconds: Seconds = 5.0
    """For how long a server that stops waits until all is written."""

    @property
    def wanted(self) -> int:
        """How many connections there may be, if there are enough files."""
        return self.most or _MOST_CONNECTIONS


class Links(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What may wait for a neighbour, and how long it is waited for."""

    full: Count = 4_096
    """With so many messages waiting for a neighbour, whoever brings more has to wait, parties and other neighbours."""
    full_bytes: Count = 16 << 20
    """The same, by their size."""
    most: Count = 100_000
    """With more messages the link is given up, and begins anew; what waited is lost. A server with a store does not let
    it come to that: three quarters of it are what ``full`` is without one, and neighbours are waited for.
    """
    most_bytes: Count = 256 << 20
    """The same, by their size."""
    letters: Count = 1_000
    """Publications of each link that the neighbour cannot take and that are kept; with more the oldest are dropped."""
    letters_bytes: Count = 16 << 20
    """The same, by their size; the last one is kept in any case."""
    lost_seconds: Seconds = 60.0
    """A neighbour that cannot be reached for so long has no link any more until it is back: others may go around it.
    Not where there is a store.
    """
    neighbours: Count = 1_000
    """Neighbours that have opened a link or begun to, and that this server does not ask; more are refused."""

    def settings(self, *, is_durable: bool) -> LinkSettings:
        """As links take them."""
        full = (self.most * 3 // 4, self.most_bytes * 3 // 4) if is_durable else (self.full, self.full_bytes)
        return LinkSettings(
            full=full[0],
            full_bytes=full[1],
            outbox=self.most,
            outbox_bytes=self.most_bytes,
            letters=self.letters,
            letters_bytes=self.letters_bytes,
            neighbours=self.neighbours,
        )


class Slow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What becomes of those who do not take what there is for them."""

    policy: Literal["disconnect", "drop"] = "disconnect"
    """``drop``: deliveries for them are dropped and counted as long as too many wait."""
    bytes: Count = 64 << 20
    """That may wait for one connection."""
    seconds: Seconds = 5.0
    """A consumer that would need longer to take what waits for it pays when too much waits for all together."""


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Encryption of all connections to the port of parties and servers; paths begin at the configuration file."""

    certificate: Name
    key: Name
    client_ca: str = ""
    """Who connects must show a certificate that one of these has signed."""


class Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The small port for metrics and health."""

    host: Name = "127.0.0.1"
    port: Port = 7401


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is said while it runs."""

    format: Literal["console", "json"] = "console"
    level: Literal["debug", "info", "warning", "error"] = "info"
