"""Which parts of a configuration can change while a server runs."""

from __future__ import annotations

from palio.server.config import Config, Peer

LIVE = frozenset(
    {
        *("tokens", "server_tokens", "admins", "peers", "connections", "slow"),
        *("guard", "filters_per_party", "insecure", "log", "tls"),
    }
)
"""The keys that can change while a server runs."""


def merged(before: Config, config: Config) -> tuple[Config, list[str]]:
    """The configuration with which a running server continues, and the keys that differ and need a restart."""
    keys = Config.__struct_fields__
    fixed = [key for key in keys if key not in LIVE and getattr(config, key) != getattr(before, key)]
    if _trust(before) != _trust(config):
        fixed.append("tls")
    if _gateways(before) != _gateways(config):
        fixed.append("peers")  # those that are gateways
    return Config(**{key: getattr(before if key in fixed else config, key) for key in keys}), fixed


def _trust(config: Config) -> tuple[bool, str]:
    """The part of TLS that cannot change while a server listens; certificate and key can."""
    return config.tls is not None, config.tls.client_ca if config.tls is not None else ""


def _gateways(config: Config) -> list[Peer]:
    return [peer for peer in config.peers if peer.role == "gateway"]
