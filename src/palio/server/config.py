"""What a server is told: one TOML file."""

from __future__ import annotations

from typing import Any

import msgspec

from palio.errors import CallerError, brief
from palio.model.limits import DEFAULT_LIMITS, Limits


class ConfigError(CallerError):
    """A configuration that cannot be used; the message says what and where."""


class Connections(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How connections are treated."""

    most: int = 20_000
    """At the same time."""
    first_frame_bytes: int = 8_192
    """Before somebody has said who it is."""
    hello_seconds: float = 2.0
    """For how long that is waited for."""
    frame_bytes: int = 2_097_152 + 64
    """Longer frames are refused."""
    write_buffer: int = 1 << 20
    """Bytes that wait for one connection before it counts as slow."""
    most_waiting_bytes: int = 64 << 20
    """Bytes that wait for one connection at most; then it is closed."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server."""

    server: str
    """Its name, by which other servers know it."""
    architecture: str = "as"
    host: str = "127.0.0.1"
    port: int = 7400
    guard: bool = False
    connections: Connections = Connections()
    tokens: dict[str, str] = {}
    """The hashed token of each party and server; if there is none, everybody is believed."""

    @property
    def limits(self) -> Limits:
        """What a notification or a filter may be."""
        return DEFAULT_LIMITS


def read_config(text: str) -> Config:
    """Read the text of a configuration file.

    >>> read_config('server = "milan"').port
    7400
    """
    try:
        return msgspec.toml.decode(text, type=Config)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(f"configuration: {brief(str(error))}") from error


def document(config: Config) -> dict[str, Any]:
    """All of it, for people."""
    made: dict[str, Any] = msgspec.to_builtins(config)
    return made
