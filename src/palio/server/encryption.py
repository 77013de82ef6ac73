"""TLS: the contexts of connections, and why a connection to a peer failed."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

from palio.errors import no_tls

if TYPE_CHECKING:
    from palio.server.config import Peer
    from palio.server.config_tables import Tls


def encryption(tls: Tls) -> ssl.SSLContext:
    """The TLS context of accepted connections."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tls.client_ca or None)
    context.load_cert_chain(tls.certificate, tls.key)
    if tls.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def outgoing_encryption(peer: Peer, tls: Tls | None) -> ssl.SSLContext | None:
    """The TLS context of a connection to a peer, with the certificate of this server if it has one."""
    if not peer.is_encrypted:
        return None
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=peer.ca or None)
    if tls is not None:
        context.load_cert_chain(tls.certificate, tls.key)
    return context


def failure(error: OSError) -> str:
    """Describe why an attempt to connect failed."""
    if no_tls(error):
        return "it does not speak TLS; its address begins with palio://, or tls is to be configured there"
    if isinstance(error, ssl.SSLError) or not error.errno or error.errno < 0:
        return str(error) or "it does not answer"
    return os.strerror(error.errno)
