"""One connection: frames in, frames out, and what happens when it breaks the rules or cannot keep up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, cast

from palio import _core
from palio.codec import control, frames
from palio.codec.control import VERSION, Ask, Goodbye, Hello, Ping, Pong
from palio.errors import PeerError
from palio.link import wire
from palio.link.session import PEER_FRAME_BYTES
from palio.model import PROTOCOL_LIMITS, Mode
from palio.model.limits import WIRE_FIELDS
from palio.node import ports
from palio.server.errors import Code, RefusedError
from palio.server.operations import Decoding, RequestError, decode, log_operation_of
from palio.server.outgoing import Outgoing
from palio.server.postponed import Postponed

if TYPE_CHECKING:
    from palio.server.server import Server

_QUICK = (frames.PUBLISH, frames.PUBLISH_WITH, frames.ACKNOWLEDGE, frames.LINK)
"""Frames that are no requests of parties."""
_TLS_HANDSHAKE = b"\x16\x03"
"""How a TLS connection begins; no frame is as long as it would say."""
_serials = count(1)
_TOLD_TO_VERSION_1 = {
    name: getattr(PROTOCOL_LIMITS, name)
    for name in WIRE_FIELDS
    if name != "key_bytes"  # version 1 bounds keys by literal_bytes
}
"""What a client of version 1 has to accept: the maxima of the protocol."""


class Connection(asyncio.Protocol):
    """A party, an observer of one, or another server; which, its first frame says."""

    is_dialed = False
    """Whether this server has opened it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.serial = next(_serials)
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._rest, self._postponed = bytearray(), Postponed(server, self._go_on)
        """The beginning of a frame; and what is taken when the loop comes round again."""
        self._missing = 0
        """So many bytes are missing until there is something to look at."""
        self._outgoing: Outgoing = None  # type: ignore[assignment]
        self._out, self._counts = list[bytes](), list[int]()
        """Frames that are written when this turn ends, and how many deliveries each has."""
        self.role = self.name = self.agent = ""
        self.version = VERSION
        """Of the protocol; it may be lower, as soon as the first exchange has shown that."""
        self.limits: tuple[int, ...] = ()
        """Of a server: what it takes, if it cannot say so when links are opened."""
        self.address = ""
        """The host at the other end."""
        self.credential: str | None = None
        """The hash of the token by which it was let in."""
        self.is_open = False
        """Whether it has been welcomed."""
        self.is_closing = False
        self.is_slow = False
        self.slow_at = self.room = 0
        """Bytes that waited when it became slow; and that may wait meanwhile before deliveries are dropped."""
        self.is_paused = False
        """Whether nothing is read from it, because too much waits to be written to others."""
        self._is_behind = False
        """Whether nothing is read from it, because what was read is not handled yet."""
        self._timer: asyncio.TimerHandle | None = None
        """Ends it when it does not say who it is, or does not end."""
        self.heard = 0.0
        """When something came in."""
        self.asked = 0.0
        """When it was asked whether it is there."""
        self.began = 0.0
        """When the frame began that is not whole yet; zero if there is none."""
        self.written = 0
        self.received = 0
        self.delivered = 0
        """Bytes and deliveries, for those who look at what goes on."""
        self.durable: control.Durable | None = None
        """What it said of its log, if it is a durable party."""
        self.mode: Mode | None = None
        """What acceptance of its publications is to promise."""
        self.next_number = self.highest_number = -1
        self.start: int | None = None
        """Of a server: which process it is, if it says so."""
        self.reason = ""
        """Why the connection was closed, if one of its ends has said so."""

    # -- the transport's -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected, and is to say who it is."""
        self._transport = cast("asyncio.Transport", transport)
        self._outgoing = Outgoing(self._transport, self._server.loop)
        peer = transport.get_extra_info("peername")  # a closed transport with TLS raises
        self.address = str(peer[0]) if peer else ""
        self.heard = self._server.loop.time()
        self._timer = self._server.loop.call_later(self._server.config.connections.hello_seconds, self._too_late)
        self._server.connected(self)
        self._begin()

    def _begin(self) -> None:
        """The other side begins."""

    def _too_late(self) -> None:
        self.close(Code.HELLO, "no hello came")

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 (whatever it was, it is over)
        """It is gone."""
        self.is_closing = True
        self._stop_timer()
        self._drop_rest()
        self._server.backlog.forget(self)
        self._server.lost(self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pause_writing(self) -> None:
        """The other end does not take everything at once."""
        self._outgoing.blocked()

    def resume_writing(self) -> None:
        """The other end has taken all that the transport had."""
        if self._outgoing.taken():
            self.is_slow = False
            self._server.backlog.note(self, 0)

    @property
    def waiting(self) -> int:
        """Bytes that wait to be written."""
        return self._outgoing.waiting

    @property
    def outgoing(self) -> Outgoing:
        """The bytes that wait to be written, and how fast the other end takes them."""
        return self._outgoing

    # -- frames --------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Something was read."""
        if self.is_closing:
            return  # it is only read so that what was said last gets through
        server = self._server
        server.counts.bytes_in += len(data)
        self.received += len(data)
        self.heard = server.loop.time()
        if self._postponed:
            self._postponed.frames += data
            return
        if self._rest:
            self._rest += data
            if len(data) < self._missing:  # a long frame that comes in small pieces is not looked at for each
                self._missing -= len(data)
                self._count_unfinished()
                return
            data = bytes(self._rest)
        self._read(data)

    def _read(self, data: bytes) -> None:
        """Take the frames that are whole."""
        most = self._most_bytes()
        runs, consumed, is_bad = _core.scan_frames(data, most)
        waiting = None
        self._postponed.begin_turn()
        try:
            waiting = self._take_frames(data, runs, consumed)
        except Exception as error:  # noqa: BLE001 (a fault of ours concerns this connection, and no other one)
            self._end_because_of(error)
        if waiting is not None:
            self._put_off(data[waiting:])
            return
        if is_bad and self._most_bytes() > most and not self.is_closing:
            self._read(data[consumed:])  # it has come together with the welcome, after which frames may be longer
            return
        if is_bad and not self.is_open and data.startswith(_TLS_HANDSHAKE):
            self.close(Code.TLS, "this port does not speak TLS; connect with palio://, or configure tls at the server")
        elif is_bad:
            self.close(Code.FRAME_TOO_LONG, f"a frame that is empty, or longer than {most:,} bytes")
        self._keep(data, consumed)

    def _take_frames(self, data: bytes, runs: Iterable[tuple[int, int, int]], end: int) -> int | None:
        """Take frames until this turn's share is used up; return where the first one begins that has to wait."""
        postponed = self._postponed
        for kind, begin, behind in runs:
            if self.is_closing:
                return None
            if postponed.is_used_up:
                return begin
            self._received(kind, data, begin, behind)
            if kind not in _QUICK:
                postponed.count(behind - begin)
        return None if postponed.request is None else end

    def _end_because_of(self, error: Exception) -> None:
        """Something went wrong with what has come: end this connection, and no other one."""
        if isinstance(error, RefusedError):
            self.close(error.code, str(error))
        elif isinstance(error, PeerError):
            self.close(Code.FRAME, str(error))
        else:
            self._server.fault("connection", error)
            self.fail()

    def _put_off(self, data: bytes) -> None:
        """Take the rest when the loop comes round again: to decode all requests at once would keep others waiting."""
        self._postponed.frames = bytearray(data)
        self._transport.pause_reading()
        self._postponed.plan()

    def _go_on(self) -> None:
        """Take what was put off, unless what was taken before has to be handled first."""
        postponed = self._postponed
        if not postponed or self.is_closing or self.is_paused or self._is_behind:
            return
        if postponed.request is not None:
            postponed.begin_turn()
            try:
                self._decode(*postponed.request)
            except Exception as error:  # noqa: BLE001 (it concerns this connection, and no other one)
                self._end_because_of(error)
            if postponed:
                postponed.plan()
        else:
            data, postponed.frames = bytes(postponed.frames), bytearray()
            self._read(data)
        if not postponed:
            self._read_on()

    def _most_bytes(self) -> int:
        settings = self._server.config.connections
        if not self.is_open:
            return settings.first_frame_bytes
        return PEER_FRAME_BYTES if self.role == "server" else settings.frame_bytes

    def _keep(self, data: bytes, consumed: int) -> None:
        """Keep what is no whole frame yet."""
        if self.is_closing or consumed == len(data):
            self._drop_rest()
            return
        if consumed or not self.began:
            self.began = self.heard
        self._rest = bytearray(data[consumed:])
        has_length = len(self._rest) >= frames.HEADER
        self._missing = int.from_bytes(self._rest[:4], "big") + 4 - len(self._rest) if has_length else 1
        self._count_unfinished()

    def _drop_rest(self) -> None:
        if self._rest:
            self._rest = bytearray()
            self._count_unfinished()
        self._missing, self.began = 0, 0.0

    def _count_unfinished(self) -> None:
        self._server.unfinished.note(self, len(self._rest), self._server.loop.time())

    def _received(self, kind: int, data: bytes, begin: int, end: int) -> None:
        if not self.is_open:
            self._before_welcome(kind, data[begin + frames.HEADER : end])
        elif kind == frames.PUBLISH and self.role == "party":
            if end - begin < frames.SHORTEST_PUBLISH:  # such a frame comes alone, never among others
                raise RefusedError(Code.FRAME, "a publication that ends before its notification begins")
            self._publish(ports.PublishBlock(self.name, data[begin:end], self.mode, self.serial))
        elif kind == frames.PUBLISH_WITH and self.role == "party":
            content = data[begin + frames.HEADER : end]
            frames.published_with(content)  # what does not end is no publication that could be refused
            self._publish(ports.PublishWith(self.name, content, self.mode, self.serial))
        elif kind == frames.ACKNOWLEDGE and self.durable is not None:
            self._acknowledged(frames.acknowledged(data[begin + frames.HEADER : end]))
        elif kind == frames.LINK and self.role == "server":
            frame = wire.decode(data[begin + frames.HEADER : end])
            self._server.driver.link_bytes += end - begin
            self._server.driver.give(ports.FromPeer(self.name, frame))
        else:
            self._controlled(control.decode(kind, data[begin + frames.HEADER : end]))

    def _acknowledged(self, number: int) -> None:
        if number >= self.highest_number:
            raise RefusedError(Code.FRAME, f"delivery {number} is acknowledged, and was never sent")
        self._server.driver.give(ports.Acknowledge(self.name, number, self.serial))

    def _publish(self, given: ports.PublishBlock | ports.PublishWith) -> None:
        self._server.driver.give(given, self)
        if self._server.backlog.is_full:
            self._pause()

    def _before_welcome(self, kind: int, content: bytes) -> None:
        if kind != control.KINDS[Hello] or self.role:
            raise RefusedError(Code.HELLO, "the first frame is a hello; the next one comes after the welcome")
        hello = control.decode(kind, content)
        assert isinstance(hello, Hello)
        self.role, self.name = hello.role, hello.name
        self.durable, self.mode = hello.durable, hello.mode
        self.agent = hello.agent
        self._stop_timer()
        self._server.admit(self, hello)

    def let_in(self) -> None:
        """A server may be here, and no other connection has to be kept instead."""
        self.welcome()

    def welcome(self) -> None:
        """Whoever it is, it may be here."""
        self.is_open = True
        node = self._server.driver.node.settings
        limits = self._server.config.limits
        if self.version == 1 and self.role == "party":
            limits = _TOLD_TO_VERSION_1  # such a client applies them to what it receives
        elif self.version == 1:
            self.limits = self._server.peers.limits_of(self.name)  # it has dialed this server, and does not say it
        self.say(control.Welcome(self.version, node.server, node.start, self._most_bytes(), limits))

    def _controlled(self, frame: control.Control) -> None:
        match frame:
            case Ask() | control.Replay() | control.Reject() if self.role == "party":
                self._ask(frame)
            case control.Letters() if self.role in ("party", "observer"):
                self._ask(frame)
            case Ping(number):
                self.say(Pong(number))
            case Pong():
                pass
            case Goodbye(code, text):
                self.reason = f"{code}: {text}"
                if code == control.LEFT and self.role == "party":
                    self._server.left(self)
                self._outgoing.finish()
                self._transport.close()
            case control.Query() if self.role in ("party", "observer"):
                self._server.queries.asked(self, frame)
            case control.Query():
                self._server.queries.passed(self, frame)
            case control.Result() if self.role == "server":
                self._server.queries.answered(self, frame)
            case _:
                raise RefusedError(Code.FRAME, f"a {type(frame).__name__} does not belong here")

    def _ask(self, asked: Ask | control.Replay | control.Reject | control.Letters) -> None:
        if isinstance(asked, Ask):
            self._decode(asked, decode(asked, self.name, self._server.config.model_limits))
            return
        try:
            operation = log_operation_of(asked)
        except RequestError as error:
            self.refuse(asked.number, error.code, str(error))
        else:
            self._server.driver.ask(self, asked.number, operation)

    def _decode(self, asked: Ask, decoding: Decoding) -> None:
        """Decode a request as far as this turn permits, and hand it on when it is decoded to its end."""
        try:
            operation = self._postponed.decode(asked, decoding)
        except RequestError as error:
            self.refuse(asked.number, error.code, str(error))
            return
        if operation is not None:
            self._server.driver.ask(self, asked.number, operation)

    def refuse(self, number: int, code: Code, text: str) -> None:
        """A request cannot be; the connection goes on."""
        self._server.counts.refused(code.value)
        self.say(control.Answer(number, code.value, text))

    # -- what goes out -------------------------------------------------------------------------------------------------

    def say(self, frame: control.Control) -> None:
        """Write a frame at once."""
        self.put(control.encode(frame))
        self.flush()

    def put(self, data: bytes) -> None:
        """Write something when this turn ends."""
        self._out.append(data)
        self._counts.append(0)

    def deliver(self, data: bytes, count: int) -> bool:
        """Write deliveries when this turn ends; not if too much waits already, and they may be dropped."""
        if self.is_slow and self.waiting > self.room:
            self._server.consumers.dropped(self, count)
            return False
        self.is_slow = False
        self.delivered += count
        self._out.append(data)
        self._counts.append(count)
        return True

    def drop_deliveries(self) -> int:
        """Drop all deliveries that wait behind what the transport has, and return how many there were."""
        dropped = self._outgoing.drop_deliveries()
        self.delivered -= dropped
        return dropped

    def flush(self) -> None:
        """Write all that was put."""
        out, counts, self._out, self._counts = self._out, self._counts, [], []
        if self.is_closing or not out:
            return
        size = self._outgoing.write(out, counts)
        self.written += size
        self._server.counts.bytes_out += size
        waiting = self.waiting
        if waiting:
            if waiting > self._server.config.slow.bytes:
                self._server.consumers.too_slow(self, waiting)
            self._server.backlog.note(self, self.waiting)

    # -- how it is held back, and how it ends --------------------------------------------------------------------------

    def _pause(self) -> None:
        if not self.is_paused:
            self.is_paused = True
            self._transport.pause_reading()
            self._server.backlog.paused(self)

    def resume(self) -> None:
        """There is room again to write to others."""
        self.is_paused = False
        self._read_on()

    def fall_behind(self) -> None:
        """Read nothing more: what came before is not handled yet."""
        self._is_behind = True
        if not self.is_closing:
            self._transport.pause_reading()

    def catch_up(self) -> None:
        """All that came is handled."""
        self._is_behind = False
        self._read_on()

    def _read_on(self) -> None:
        self.heard = self._server.loop.time()
        if self._postponed:
            self._postponed.plan()
        elif not self.is_closing and not self.is_held_up:
            self._transport.resume_reading()

    @property
    def is_held_up(self) -> bool:
        """Whether nothing is read from it, and its silence means nothing."""
        return self.is_paused or self._is_behind or bool(self._postponed)

    def close(self, code: Code, text: str) -> None:
        """Say why, and end it; nobody else is concerned.

        What the other end still sends is read and thrown away for a while: the network would otherwise not deliver
        what was said last.
        """
        if self.is_closing:
            return
        self.is_closing = True
        self.reason = self.reason or f"{code.value}: {text}"
        self._stop_timer()
        self._drop_rest()
        self._postponed.clear()
        if code is Code.SLOW:
            self._outgoing.clear()  # it would not take it
            self._out.clear()
        self._outgoing.finish(b"".join([*self._out, control.encode(Goodbye(code.value, text))]))
        self._out.clear()
        self._counts.clear()
        self._timer = self._server.loop.call_later(self._server.config.connections.drain_seconds, self.abort)
        self._end_output()
        self._server.closed(self, code, text)

    def _end_output(self) -> None:
        if not self._transport.can_write_eof():
            self._transport.close()
            return
        try:
            self._transport.write_eof()
        except OSError:  # the other end is gone already
            self._transport.abort()
            return
        if not self._transport.is_reading():
            self._transport.resume_reading()

    def fail(self) -> None:
        """End it because of a fault of the server."""
        try:
            self.close(Code.INTERNAL, "a fault of the server, which is described in its log")
        except Exception as error:  # noqa: BLE001 (not even that can be said)
            self._server.fault("closing", error)
            self.abort()

    def abort(self) -> None:
        """End it without a word: it does not take any."""
        self.is_closing = True
        self._outgoing.clear()
        self._transport.abort()
