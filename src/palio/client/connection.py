"""One connection to a server: frames out, frames in, and who waits for which answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple, Protocol, cast

from palio import _core
from palio.client.errors import ConnectionLostError, TooLargeError, refusal
from palio.client.publications import Acceptance, Publication, Waiting
from palio.codec import control, frames
from palio.codec.control import (
    Answer,
    Ask,
    Goodbye,
    Hello,
    LeaseEnded,
    Letters,
    Missed,
    Outlook,
    Ping,
    Pong,
    Position,
    Query,
    Reject,
    Replay,
    Result,
    Sequence,
    Welcome,
)
from palio.errors import DecodeError, PeerError
from palio.model import Mode, Notification

_MOST_NUMBER = 2**32 - 1
_LONGEST_FRAME = 2**29
_TLS_ALERT = b"\x15\x03"
"""How the answer of a port with TLS begins to what is not TLS."""
"""No server sends longer ones: a sequence is as many notifications as its pattern has filters."""
_NUMBERED = (frames.DELIVER, control.KINDS[Sequence])
"""Frames that count, to a durable party."""
_WRITTEN_AT_ONCE = 1 << 16
"""Bytes that do not wait for the end of a turn, because who sends them may not let it end."""


class Receiver(Protocol):
    """Who gets what comes in unasked."""

    def is_full(self) -> bool:
        """Whether it wants nothing more for now."""

    def delivered(self, notification: Notification) -> None:
        """A notification has come."""

    def found(self, sequence: Sequence) -> None:
        """A sequence of notifications has come."""

    def looked(self, outlook: Outlook) -> None:
        """There is, or is not, somebody for what is watched."""

    def refused(self, text: str) -> None:
        """A publication was refused whose publisher did not want to know."""

    def positioned(self, position: Position, connection: Connection) -> None:
        """Which delivery of a durable party comes next."""

    def lost(self, what: LeaseEnded | Missed) -> None:
        """A durable party lost deliveries while it was away, or its whole log; its position follows."""

    def acknowledged(self, number: int) -> None:
        """The server has noted that deliveries up to a number are done."""


class Settings(NamedTuple):
    """How a connection behaves."""

    window: int
    """Publications that may be under way at the same time."""
    ping_interval: float
    """Seconds of silence after which the server is asked whether it is there; so many more, and it is not."""


Follow = Callable[[Publication, asyncio.Future[Acceptance]], asyncio.Future[Acceptance]]


class Connection(asyncio.Protocol):
    """A connection from its hello to its end; there is no way back."""

    def __init__(self, receiver: Receiver, hello: Hello, settings: Settings, follow: Follow) -> None:
        self._receiver = receiver
        self._follow = follow
        """Who hears of each publication, as it is sent, and says when that has an outcome."""
        self._hello = hello
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._rest = bytearray()
        """What was read and not looked at yet."""
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._number = 0
        self._publications: deque[int] = deque()
        """The numbers of those that are under way, in order."""
        self._asked: dict[int, asyncio.Future[Any]] = {}
        """Who waits for answers, other than for acceptance of a publication."""
        self._refusable: dict[int, asyncio.Future[Acceptance]] = {}
        """Who waits for acceptance."""
        self._duplicates: set[int] = set()
        """Those of these publications whose keys were known."""
        self._backlog: deque[Waiting] = deque()
        """Publications that wait for room; when the connection is gone, they can go over another one."""
        self._is_writable = True
        self._is_paused = False
        self._has_heard = True
        self._alarm: asyncio.TimerHandle | None = None
        self._reason: ConnectionLostError | None = None
        self.welcomed: asyncio.Future[Welcome] = self._loop.create_future()
        self.positioned: asyncio.Future[Position] = self._loop.create_future()
        """Of a durable party: where its deliveries begin."""
        self.lost: asyncio.Future[ConnectionLostError] = self._loop.create_future()
        """Done when the connection is gone, with the reason."""

    # -- the transport's -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who we are."""
        self._transport = cast("asyncio.Transport", transport)
        self._put(control.encode(self._hello))

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone; whoever waits for an answer will not get it."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._is_paused = False
        self._reason = self._reason or ConnectionLostError(f"the connection was lost{f': {error}' if error else ''}")
        self._read(is_last=True)
        reason = self._reason
        for future in [*self._refusable.values(), *self._asked.values(), self.welcomed, self.positioned]:
            if not future.done():
                future.set_exception(ConnectionLostError(str(reason), reason.code))
                future.exception()  # who waits no longer need not hear of it
        self._publications.clear()
        self._refusable.clear()
        self._asked.clear()
        self.lost.set_result(reason)

    def pause_writing(self) -> None:
        """The server does not take what is written."""
        self._is_writable = False

    def resume_writing(self) -> None:
        """It does again."""
        self._is_writable = True
        self._send_backlog()

    def data_received(self, data: bytes) -> None:
        """Something was read."""
        self._has_heard = True
        self._rest += data
        if not self._is_paused:
            self._read()

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, *, is_last: bool = False) -> None:
        if not self.welcomed.done() and self._rest.startswith(_TLS_ALERT):
            self._rest.clear()
            self.abort(ConnectionLostError("it speaks TLS; connect with palios://", "tls"))
            return
        runs, consumed, is_bad = _core.scan_frames(self._rest, _LONGEST_FRAME)
        try:
            for kind, begin, end in runs:
                if not is_last and self._must_wait():
                    consumed = begin
                    self._is_paused = True
                    self._transport.pause_reading()
                    break
                self._received(kind, bytes(self._rest[begin + frames.HEADER : end]))
            else:
                if is_bad:
                    raise DecodeError("a frame that is empty or too long")
        except PeerError as error:
            self.abort(ConnectionLostError(f"the server sent what cannot be read: {error}", "frame"))
            consumed = len(self._rest)
        del self._rest[:consumed]

    def _must_wait(self) -> bool:
        """Answers come behind deliveries: while somebody waits for one, deliveries are taken even if they are many.

        Otherwise who publishes while it consumes would wait for itself.
        """
        begins = not (self.positioned if self._hello.durable is not None else self.welcomed).done()
        awaits = begins or self._refusable or self._asked or self._backlog
        return not awaits and self._receiver.is_full()

    def go_on(self) -> None:
        """Read again, if there is a reason to."""
        if self._is_paused and not self._must_wait():
            self._is_paused = False
            self._has_heard = True  # nobody has listened
            self._loop.call_soon(self._read_again)

    def _read_again(self) -> None:
        if self._is_paused or self._transport.is_closing():
            return
        self._read()
        if not self._is_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _received(self, kind: int, content: bytes) -> None:
        if kind in _NUMBERED and self._hello.durable is not None and not self.positioned.done():
            raise DecodeError("a delivery before it was said which one it is")
        if kind == frames.DELIVER:
            self._receiver.delivered(frames.delivered(content))
        elif kind == frames.ACCEPTED:
            self._accepted(*frames.accepted_up_to(content))
        elif kind == frames.DUPLICATE:
            self._note_duplicate(frames.duplicated(content))
        elif kind == frames.ACKNOWLEDGED:
            self._receiver.acknowledged(frames.acknowledged(content))
        else:
            self._controlled(control.decode(kind, content))

    def _controlled(self, frame: control.Control) -> None:
        match frame:
            case Answer():
                self._answered(frame)
            case Result(number, document):
                self._resolve(self._asked.pop(number, None), document)
            case Sequence():
                self._receiver.found(frame)
            case Outlook():
                self._receiver.looked(frame)
            case Position():
                self._receiver.positioned(frame, self)
                self._resolve(self.positioned, frame)
            case LeaseEnded() | Missed():
                self._receiver.lost(frame)
            case Ping(number):
                self._put(control.encode(Pong(number)))
            case Welcome():
                if frame.version not in control.VERSIONS:
                    raise DecodeError(f"a welcome of version {frame.version} of the protocol, which is not known here")
                self._resolve(self.welcomed, frame)
                self._alarm = self._loop.call_later(self._settings.ping_interval, self._look)
            case Goodbye(code, text):
                self._reason = ConnectionLostError(f"the server has closed the connection: {text}", code)
                self._transport.close()
            case Pong():
                pass
            case _:
                raise DecodeError(f"a {type(frame).__name__} does not belong here")

    def _accepted(self, last: int, mode: Mode) -> None:
        publications, accepted = self._publications, Acceptance(mode)
        while publications and publications[0] <= last:
            number = publications.popleft()
            answer = Acceptance(mode, is_duplicate=True) if number in self._duplicates else accepted
            self._duplicates.discard(number)
            self._resolve(self._refusable.pop(number), answer)
        self._send_backlog()

    def _note_duplicate(self, number: int) -> None:
        if number in self._refusable:
            self._duplicates.add(number)

    def _answered(self, answer: Answer) -> None:
        future: asyncio.Future[Any] | None = self._asked.pop(answer.number, None) or self._refusable.get(answer.number)
        if future is None:
            if answer.code:
                self._receiver.refused(answer.text)
        elif future.done():
            pass
        elif answer.code:
            future.set_exception(refusal(answer.code, answer.text))
        else:
            future.set_result(None)

    @staticmethod
    def _resolve(future: asyncio.Future[Any] | None, result: object) -> None:
        if future is not None and not future.done():
            future.set_result(result)

    # -- writing -------------------------------------------------------------------------------------------------------

    def _put(self, data: bytes) -> None:
        """Write something at the end of this turn of the loop, together with what else there is."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= _WRITTEN_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        out, self._out, self._out_bytes = self._out, [], 0
        if out and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def _next_number(self) -> int:
        """Publications and other requests are numbered together, because refusals name only the number."""
        while True:
            self._number = self._number % _MOST_NUMBER + 1
            if self._number not in self._asked:
                return self._number

    def ask(
        self,
        operation: str,
        subject: control.Subject,
        *,
        wait: bool = False,
        instead: Iterable[control.Subject] = (),
    ) -> asyncio.Future[None]:
        """Ask for something; the answer will come."""
        kind, document = control.document(subject)
        number, answer = self._expect()
        others = tuple(map(control.document, instead))
        self._put(control.encode(Ask(number, operation, kind, document, wait, instead=others)))
        return answer

    def query(self, subject: str, arguments: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        """Ask about the server or the network; the answer will come."""
        number, answer = self._expect()
        self._put(control.encode(Query(number, subject, arguments)))
        return answer

    def replay(self, first: int, since: datetime | None, last: int) -> asyncio.Future[None]:
        """Ask for deliveries once more."""
        number, answer = self._expect()
        self._put(control.encode(Replay(number, first, since, last)))
        return answer

    def reject(self, delivery: int, reason: str) -> asyncio.Future[None]:
        """Make a delivery a dead letter; all before it are acknowledged."""
        number, answer = self._expect()
        self._put(control.encode(Reject(number, delivery, reason)))
        return answer

    def letters(self, action: str, letters: tuple[int, ...]) -> asyncio.Future[None]:
        """Do something with dead letters."""
        number, answer = self._expect()
        self._put(control.encode(Letters(number, action, letters)))
        return answer

    def acknowledge(self, delivery: int) -> None:
        """Say that all deliveries up to a number are done."""
        if self._reason is None:
            self._put(frames.acknowledge(delivery))

    def _expect(self) -> tuple[int, asyncio.Future[Any]]:
        self._check_open()
        answer: asyncio.Future[Any] = self._loop.create_future()
        number = self._next_number()
        self._asked[number] = answer
        self.go_on()
        return number, answer

    async def send(self, publication: Publication, *, is_confirmed: bool) -> asyncio.Future[Acceptance]:
        """Publish when it is its turn and there is room; the future is done when the server has accepted it."""
        if not self._backlog and self._has_room():
            return self._follow(publication, self.publish(publication, is_confirmed=is_confirmed))
        turn: asyncio.Future[asyncio.Future[Acceptance]] = self._loop.create_future()
        self.put_in_line(Waiting(publication, is_confirmed, turn))
        return await turn

    def put_in_line(self, waiting: Waiting) -> None:
        """Publish when it is its turn and there is room."""
        self._backlog.append(waiting)
        self._send_backlog()
        self.go_on()

    def unsent(self) -> deque[Waiting]:
        """What was not published; it is not this connection's any more."""
        unsent, self._backlog = self._backlog, deque()
        return unsent

    def _has_room(self) -> bool:
        # Numbers begin anew only when none is under way, because acceptance speaks of all up to one.
        begins_anew = bool(self._publications) and self._number % _MOST_NUMBER < self._publications[-1]
        has_place = len(self._publications) < self._settings.window and not begins_anew
        return self._is_writable and has_place and self._reason is None

    def _send_backlog(self) -> None:
        while self._backlog and self._has_room():
            publication, is_confirmed, turn = self._backlog.popleft()
            if turn.done():
                continue  # nobody waits any more
            try:
                turn.set_result(self._follow(publication, self.publish(publication, is_confirmed=is_confirmed)))
            except TooLargeError as error:
                turn.set_exception(error)

    def publish(self, publication: Publication, *, is_confirmed: bool = True) -> asyncio.Future[Acceptance]:
        """Publish now; :meth:`send` waits for its turn. One that is not confirmed is done at once."""
        self._check_open()
        future: asyncio.Future[Acceptance] = self._loop.create_future()
        if not is_confirmed:
            self._put(self._frame(publication, 0))
            future.set_result(Acceptance(Mode.MEMORY))
            return future
        number = self._next_number()
        self._put(self._frame(publication, number))
        self._publications.append(number)
        self._refusable[number] = future
        self.go_on()
        return future

    def _frame(self, publication: Publication, number: int) -> bytes:
        frame = publication.frame(number)
        most = self.welcomed.result().frame_bytes
        if len(frame) - 4 > most:
            text = f"the notification takes {len(frame):,} bytes where the server allows {most:,}"
            raise TooLargeError(text, "frame-too-long")
        return frame

    def _check_open(self) -> None:
        if self._reason is not None:
            raise ConnectionLostError(str(self._reason), self._reason.code)

    @property
    def is_open(self) -> bool:
        """Whether anything can be asked for; if not, the connection is gone, or will be in a moment."""
        return self._reason is None

    async def settled(self) -> None:
        """Wait until all that was asked for and published has been answered."""
        while waiting := [future for future in self._awaited() if not future.done()]:
            await asyncio.wait(waiting)

    def _awaited(self) -> Iterator[asyncio.Future[Any]]:
        yield from self._refusable.values()
        yield from self._asked.values()
        yield from (waiting.turn for waiting in self._backlog)

    # -- being there, and the end --------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Look whether the server is still there. While nothing is read its silence means nothing."""
        if not self._has_heard and not self._is_paused:
            text = f"nothing came from the server for {self._settings.ping_interval * 2:g} seconds"
            self.abort(ConnectionLostError(text, "silent"))
            return
        self._has_heard = False
        self._put(control.encode(Ping(0)))
        self._alarm = self._loop.call_later(self._settings.ping_interval, self._look)

    def close(self, *, for_good: bool = False) -> None:
        """Say goodbye, and end the connection when all is written; the server forgets a party that goes for good."""
        if not self._transport.is_closing():
            self._reason = self._reason or ConnectionLostError("the client was closed", "closed")
            self._out.append(control.encode(Goodbye(control.LEFT if for_good else "", "")))
            self._flush()
            self._transport.close()

    def abort(self, reason: ConnectionLostError) -> None:
        """End the connection at once."""
        self._reason = self._reason or reason
        self._transport.abort()
