"""Addresses of servers."""

from __future__ import annotations

from ssl import SSLContext, create_default_context
from typing import NamedTuple
from urllib.parse import urlsplit

from palio.errors import CallerError, brief

DEFAULT_PORT = 7400


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int
    is_encrypted: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'palios' if self.is_encrypted else 'palio'}://{host}:{self.port}"

    def context(self, given: SSLContext | None) -> SSLContext | None:
        """How the connection is encrypted, if it is."""
        if not self.is_encrypted:
            if given is not None:
                raise CallerError(f"ssl: {self} is not encrypted; palios:// is")
            return None
        return given or create_default_context()


def read_address(url: str) -> Address:
    """Read a URL.

    >>> read_address("palio://127.0.0.1")
    Address(host='127.0.0.1', port=7400, is_encrypted=False)
    >>> print(read_address("palios://[::1]:7500"))
    palios://[::1]:7500
    """
    if not isinstance(url, str):
        raise _no_address(url)
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:  # also if DNS cannot have a host of this name
        raise _no_address(url) from None
    extra = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
    if parts.scheme not in ("palio", "palios") or not parts.hostname or extra or port == 0:
        raise _no_address(url)
    return Address(parts.hostname, DEFAULT_PORT if port is None else port, parts.scheme == "palios")


def _no_address(url: object) -> CallerError:
    return CallerError(
        f"{brief(url)} is no address of a server; palio://127.0.0.1:7400 and palios://host:7400 are some"
    )
