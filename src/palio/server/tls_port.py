"""A port with TLS: clients that do not speak TLS are told so, in the protocol that they speak, and logged."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, cast

from palio.server.connection import Connection
from palio.server.errors import Code

if TYPE_CHECKING:
    from palio.server.server import Server

_HANDSHAKE = b"\x16"
"""The first byte of a TLS connection; the first frame of the protocol begins with a zero."""


class _PlainConnection(Connection):
    """A connection without TLS, which is told why it ends."""

    def _begin(self) -> None:
        self.close(Code.TLS, "this port speaks TLS; connect with palios://")


class TlsDoor(asyncio.Protocol):
    """Looks at the first byte of a connection before TLS begins.

    asyncio tells neither side why a handshake fails. So a connection is accepted without TLS, and its socket goes on to
    TLS when a handshake has begun.
    """

    def __init__(self, server: Server, encryption: ssl.SSLContext) -> None:
        self._server = server
        self._encryption = encryption

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket over; nothing was read from it."""
        if self._server.is_overrun:
            cast("asyncio.Transport", transport).abort()
            return
        accepted: socket.socket = transport.get_extra_info("socket").dup()
        cast("asyncio.Transport", transport).abort()
        self._server.run(self._admit(accepted))

    async def _admit(self, accepted: socket.socket) -> None:
        seconds = self._server.config.connections.hello_seconds
        try:
            async with asyncio.timeout(seconds):
                first = await _first_byte(self._server.loop, accepted)
            address = str(accepted.getpeername()[0])
        except (OSError, TimeoutError):  # it is gone, or says nothing
            first = b""
        except BaseException:
            accepted.close()
            raise
        if not first:
            accepted.close()
            return
        try:
            await self._hand_over(accepted, seconds, is_plain=first != _HANDSHAKE)
        except OSError as error:  # errors of TLS are among them
            reason = getattr(error, "reason", "") or str(error) or "the other end has hung up"
            self._server.turned_away(address, f"no TLS came about: {reason}")

    async def _hand_over(self, accepted: socket.socket, seconds: float, *, is_plain: bool) -> None:
        server = self._server
        if is_plain:
            await server.loop.connect_accepted_socket(lambda: _PlainConnection(server), accepted)
        else:
            await server.loop.connect_accepted_socket(
                lambda: Connection(server), accepted, ssl=self._encryption, ssl_handshake_timeout=seconds
            )


async def _first_byte(loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> bytes:
    """What a connection begins with, which stays to be read; nothing if it has ended."""
    there: asyncio.Future[None] = loop.create_future()
    loop.add_reader(accepted, lambda: None if there.done() else there.set_result(None))
    try:
        await there
    finally:
        loop.remove_reader(accepted)
    return accepted.recv(1, socket.MSG_PEEK)
