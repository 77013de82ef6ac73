"""One connection: frames in, frames out, and what happens when it breaks the rules or cannot keep up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from palio import _core
from palio.codec import control, frames
from palio.codec.control import Ask, Goodbye, Hello, Ping, Pong
from palio.errors import DecodeError, PeerError
from palio.link import wire
from palio.model import Advertisement, Filter, Limits, Pattern
from palio.node import ports
from palio.server.driver import LINK
from palio.server.errors import Code, RefusedError

if TYPE_CHECKING:
    from palio.server.server import Server

_OPERATIONS: dict[str, Any] = {
    "subscribe": ports.Subscribe,
    "unsubscribe": ports.Unsubscribe,
    "advertise": ports.Advertise,
    "unadvertise": ports.Unadvertise,
    "watch": ports.Watch,
    "unwatch": ports.Unwatch,
}
_SUBJECTS: dict[str, tuple[type, ...]] = {
    "subscribe": (Filter, Pattern),
    "unsubscribe": (Filter, Pattern),
    "advertise": (Advertisement,),
    "unadvertise": (Advertisement,),
    "watch": (Filter, Advertisement),
    "unwatch": (Filter, Advertisement),
}
"""What each operation is about; the node believes that."""


class Connection(asyncio.Protocol):
    """A party, or another server; which, its first frame says."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._rest = b""
        """The beginning of a frame."""
        self._out: list[bytes] = []
        self.role = ""
        self.name = ""
        self.is_open = False
        """Whether it has been welcomed."""
        self._is_closing = False
        self._waiting_for_hello: asyncio.TimerHandle | None = None
        self._held: list[tuple[int, bytes]] = []
        """Frames that came while the hello was looked at."""

    # -- the transport's -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected, and is to say who it is."""
        self._transport = cast("asyncio.Transport", transport)
        settings = self._server.config.connections
        self._transport.set_write_buffer_limits(high=settings.write_buffer)
        self._waiting_for_hello = self._server.loop.call_later(settings.hello_seconds, self._too_late)

    def _too_late(self) -> None:
        self.close(Code.HELLO, "no hello came")

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 (whatever it was, it is over)
        """It is gone."""
        self._is_closing = True
        if self._waiting_for_hello is not None:
            self._waiting_for_hello.cancel()
        self._server.lost(self)

    def data_received(self, data: bytes) -> None:
        """Something was read."""
        if self._is_closing:
            return
        if self._rest:
            data = self._rest + data
        limits = self._server.config.connections
        most = limits.frame_bytes if self.is_open else limits.first_frame_bytes
        runs, consumed, is_bad = _core.scan_frames(data, most)
        self._rest = data[consumed:]
        try:
            for kind, begin, end in runs:
                self._received(kind, data, begin, end)
        except RefusedError as error:
            self.close(error.code, str(error))
        except PeerError as error:
            self.close(Code.FRAME, str(error))
        if is_bad:
            self.close(Code.FRAME_TOO_LONG, f"a frame that is empty, or longer than {most:,} bytes")

    # -- frames --------------------------------------------------------------------------------------------------------

    def _received(self, kind: int, data: bytes, begin: int, end: int) -> None:
        if not self.is_open:
            self._before_welcome(kind, data[begin + frames.HEADER : end])
        elif kind == frames.PUBLISH and self.role == "party":
            self._server.driver.give(ports.PublishBlock(self.name, data[begin:end]))
        elif kind == LINK and self.role == "server":
            frame = wire.decode(data[begin + frames.HEADER : end], self._server.config.limits)
            self._server.driver.give(ports.FromPeer(self.name, frame))
        else:
            self._controlled(control.decode(kind, data[begin + frames.HEADER : end]))

    def _before_welcome(self, kind: int, content: bytes) -> None:
        if kind != control.KINDS[Hello] or self.role:
            raise RefusedError(Code.HELLO, "the first frame is a hello; the next one comes after the welcome")
        hello = control.decode(kind, content)
        assert isinstance(hello, Hello)
        self.role, self.name = hello.role, hello.name
        self._server.admit(self, hello)

    def welcome(self, version: int) -> None:
        """Whoever it is, it may be here."""
        if self._is_closing:
            return
        assert self._waiting_for_hello is not None
        self._waiting_for_hello.cancel()
        self.is_open = True
        node = self._server.driver.node.settings
        most = self._server.config.connections.frame_bytes
        self.put(control.encode(control.Welcome(version, node.server, node.incarnation, most)))
        self.flush()

    def _controlled(self, frame: control.Control) -> None:
        match frame:
            case Ask() if self.role == "party":
                self._asked(frame)
            case Ping(number):
                self.put(control.encode(Pong(number)))
                self.flush()
            case Pong():
                pass
            case Goodbye():
                self._transport.close()
            case control.Query() if self.role == "party":
                self._server.query(self, frame)
            case _:
                raise RefusedError(Code.FRAME, f"a {type(frame).__name__} does not belong here")

    def _asked(self, ask: Ask) -> None:
        operation = _OPERATIONS.get(ask.operation)
        if operation is None:
            raise RefusedError(Code.FRAME, f"there is no operation {ask.operation!r}")
        try:
            subject = _subject(ask, self._server.config.limits)
            made = operation(subject, ask.wait) if ask.operation in ("subscribe", "advertise") else operation(subject)
        except DecodeError as error:
            self.put(control.encode(control.Answer(ask.number, Code.DOCUMENT.value, str(error))))
            self.flush()
            return
        party = ask.party or self.name
        self._server.driver.give(ports.Request(party, ask.number, made, self.name if party != self.name else None))

    # -- what goes out -------------------------------------------------------------------------------------------------

    def put(self, data: bytes) -> None:
        """Write something when this turn ends."""
        self._out.append(data)

    def flush(self) -> None:
        """Write all that was put."""
        out, self._out = self._out, []
        if self._is_closing:
            return
        self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        waiting = self._transport.get_write_buffer_size()
        if waiting > self._server.config.connections.most_waiting_bytes:
            self._server.slow(self, waiting)

    def close(self, code: Code, text: str) -> None:
        """Say why, and end it; nobody else is concerned."""
        if self._is_closing:
            return
        self._is_closing = True
        self._transport.write(control.encode(Goodbye(code.value, text)))
        self._transport.close()
        self._server.closed(self, code, text)

    def abort(self) -> None:
        """End it without a word: it does not take any."""
        self._is_closing = True
        self._transport.abort()


def _subject(ask: Ask, limits: Limits) -> control.Subject:
    subject = control.subject(ask.kind, ask.document, limits)
    if not isinstance(subject, _SUBJECTS[ask.operation]):
        raise DecodeError(f"one cannot {ask.operation} {ask.kind}s")
    return subject
