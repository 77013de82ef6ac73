"""As much of AMQP 0-9-1 as a benchmark needs: one channel, a headers exchange, queues with a consumer."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from struct import Struct

from palio.bench.broker.processes import BrokerError, exactly

EXCHANGE = "amq.headers"
"""RabbitMQ has it from the start."""
_HEAD = Struct(">BHI")
_METHOD = Struct(">HH")
_END = b"\xce"
_HEADERS_FLAG = b"\x20\x00"
_CHANNEL = 1


def _frame(kind: int, channel: int, content: bytes) -> bytes:
    return _HEAD.pack(kind, channel, len(content)) + content + _END


def _method(channel: int, major: int, minor: int, arguments: bytes = b"") -> bytes:
    return _frame(1, channel, _METHOD.pack(major, minor) + arguments)


def _short(text: str) -> bytes:
    data = text.encode()
    return bytes([len(data)]) + data


def _long(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _table(entries: Mapping[str, str]) -> bytes:
    return _long(b"".join(_short(name) + b"S" + _long(value.encode()) for name, value in entries.items()))


def _expect(stream: socket.socket, major: int, minor: int) -> bytes:
    """The arguments of the method that comes next."""
    kind, _, size = _HEAD.unpack(exactly(stream, _HEAD.size))
    content = exactly(stream, size + 1)[:-1]
    if kind != 1 or _METHOD.unpack_from(content) != (major, minor):
        raise BrokerError(f"RabbitMQ says something else than {major}.{minor}: {content!r:.200}")
    return content[_METHOD.size :]


def open_channel(stream: socket.socket, name: str) -> None:
    """The first exchange, as the guest, without heartbeats."""
    stream.sendall(b"AMQP\x00\x00\x09\x01")
    _expect(stream, 10, 10)
    answer = _table({"connection_name": name}) + _short("PLAIN") + _long(b"\x00guest\x00guest") + _short("en_US")
    stream.sendall(_method(0, 10, 11, answer))
    channels, frame_bytes, _ = Struct(">HIH").unpack(_expect(stream, 10, 30))
    stream.sendall(_method(0, 10, 31, Struct(">HIH").pack(channels, frame_bytes, 0)))
    stream.sendall(_method(0, 10, 40, _short("/") + _short("") + b"\x00"))
    _expect(stream, 10, 41)
    stream.sendall(_method(_CHANNEL, 20, 10, _short("")))
    _expect(stream, 20, 11)


def consume(stream: socket.socket) -> str:
    """A queue that is this connection's own, with a consumer that acknowledges nothing; its name."""
    exclusive, no_ack = b"\x04", b"\x02"
    stream.sendall(_method(_CHANNEL, 50, 10, b"\x00\x00" + _short("") + exclusive + _table({})))
    declared = _expect(stream, 50, 11)
    queue = declared[1 : 1 + declared[0]].decode()
    stream.sendall(_method(_CHANNEL, 60, 20, b"\x00\x00" + _short(queue) + _short("") + no_ack + _table({})))
    _expect(stream, 60, 21)
    return queue


def bind(stream: socket.socket, queue: str, headers: Mapping[str, str]) -> None:
    """The queue gets what has all of these headers; :func:`bound` waits until that is so."""
    wanted = _table({"x-match": "all", **headers})
    stream.sendall(
        _method(_CHANNEL, 50, 20, b"\x00\x00" + _short(queue) + _short(EXCHANGE) + _short("") + b"\x00" + wanted)
    )


def bound(stream: socket.socket) -> None:
    """One binding is there."""
    _expect(stream, 50, 21)


def publication(headers: Mapping[str, str], payload: bytes) -> bytes:
    """A message that is not kept on disk: method, header and content."""
    header = _METHOD.pack(60, 0) + len(payload).to_bytes(8, "big") + _HEADERS_FLAG + _table(headers)
    return (
        _method(_CHANNEL, 60, 40, b"\x00\x00" + _short(EXCHANGE) + _short("") + b"\x00")
        + _frame(2, _CHANNEL, header)
        + _frame(3, _CHANNEL, payload)
    )
