"""Sockets that listen, also while the process has no file descriptors left.

asyncio tries to accept a thousand times when that happens, and reports each failure. Here one descriptor is kept for
this case: it is closed, the connection is accepted and closed, and the descriptor is taken again. So clients learn at
once that they cannot connect, and the loop does not spin.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from typing import Any

_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_MOST_AT_ONCE = 64
"""Connections that are refused in one turn of the loop."""
REPORT_SECONDS = 10.0
"""Between two lines of the log about refused connections."""


class Spare:
    """A file descriptor for the case that there is no other one, and the number of connections that it has refused."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self.refused = 0
        """The connections that were refused because there was no file descriptor."""
        self._reported = 0
        self._due = 0.0
        self._take()

    def _take(self) -> None:
        with suppress(OSError):
            self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def refuse(self, listener: socket.socket) -> None:
        """Accept connections and close them, as long as there are some that wait."""
        for _ in range(_MOST_AT_ONCE):
            self.close()
            try:
                connection, _address = socket.socket.accept(listener)
            except OSError:
                return  # there is none left, or another thread was faster
            finally:
                self._take()
            connection.close()
            self.refused += 1

    def to_report(self, now: float) -> int:
        """How many connections were refused since the last report, if it is time for another one."""
        more = self.refused - self._reported
        if not more or now < self._due:
            return 0
        self._reported, self._due = self.refused, now + REPORT_SECONDS
        return more

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Listener(socket.socket):
    """A socket that refuses connections if there is no file descriptor for them."""

    def __init__(self, family: int, spare: Spare) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._spare = spare

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; without a file descriptor for it, refuse all that wait."""
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in _NO_FILES:
                raise
        self._spare.refuse(self)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def listeners(host: str, port: int, spare: Spare, backlog: int) -> list[Listener]:
    """Sockets that listen at all addresses of a host; if the port is zero, at any free port."""
    found: list[Listener] = []
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, _, _, _, address in dict.fromkeys(infos):
            listener = Listener(family, spare)
            found.append(listener)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            _bind(listener, address)
            listener.listen(backlog)
    except OSError:
        for listener in found:
            listener.close()
        raise
    return found


def _bind(listener: Listener, address: Any) -> None:
    try:
        listener.bind(address)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OSError(error.errno, f"error while attempting to bind on address {address!r}: {reason}") from error
