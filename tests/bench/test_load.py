"""The load for brokers: its counters against bytes of each protocol, and its generator on real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.bench import _load

PAYLOADS = [b"abcdefgh", b"0123456789ABCDEF", b"\r\n\xce\x00MSG " * 40, b"ijklmnop"]
ENDS = [payload[-8:] for payload in PAYLOADS]


def _palio(kind: int, content: bytes) -> bytes:
    return (len(content) + 1).to_bytes(4, "big") + bytes([kind]) + content


def _mqtt(kind: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([size % 128 | 128, size // 128])
    return bytes([kind]) + length + content


def _amqp(kind: int, content: bytes) -> bytes:
    return bytes([kind, 0, 1]) + len(content).to_bytes(4, "big") + content + b"\xce"


def _amqp_content(method: str, payload: bytes, cut: int) -> bytes:
    header = bytes.fromhex("003c 0000") + len(payload).to_bytes(8, "big") + b"\x00\x00"
    parts = [each for each in (payload[:cut], payload[cut:]) if each]
    return _amqp(1, bytes.fromhex(method)) + _amqp(2, header) + b"".join(_amqp(3, part) for part in parts)


STREAMS = {
    "palio": b"".join(
        [
            _palio(0x11, b"\x00\x00\x00\x07"),
            *(_palio(0x20, b"\x00\x02\x91\x01" + payload) + _palio(0x13, b"\x91\x07") for payload in PAYLOADS),
            _palio(0x04, b"\x91\x00"),
            _palio(0x10, b"\x00\x00\x00\x00 is no delivery"),
        ]
    ),
    "copy": b"".join(
        _palio(0x10, b"\x00\x00\x00\x00" + payload) + _palio(0x20, b"\x00\x00not that") for payload in PAYLOADS
    ),
    "mqtt": b"".join(
        [b"\x20\x02\x00\x00", b"\x90\x03\x00\x01\x00"]
        + [_mqtt(0x30, b"\x00\x05bench" + payload) + b"\xd0\x00" for payload in PAYLOADS]
    ),
    "nats": b"".join(
        [b'INFO {"server_id":"MSG bench 1 8"}\r\n', b"PONG\r\n"]
        + [b"MSG bench 1 %d\r\n%s\r\n+OK\r\n" % (len(payload), payload) for payload in PAYLOADS[:2]]
        + [b"MSG bench 1 answer.here %d\r\n%s\r\nPING\r\n" % (len(payload), payload) for payload in PAYLOADS[2:]]
    ),
    "amqp": b"".join(
        [_amqp(1, bytes.fromhex("003c 0015") + b"\x01t"), _amqp(8, b"")]
        + [
            _amqp_content("003c 003c", payload, cut) + _amqp_content("003c 0032", b"returned", 3)
            for payload, cut in zip(PAYLOADS, (0, 5, 100, 8), strict=True)
        ]
    ),
}


@pytest.mark.parametrize("protocol", STREAMS)
@given(data=st.data())
def test_messages_are_counted_wherever_they_are_cut(protocol: str, data: st.DataObject) -> None:
    stream = STREAMS[protocol]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    counter = _load.Counter(protocol)
    found = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += counter.feed(stream[begin:end])
    assert found == ENDS


@pytest.mark.parametrize("protocol", STREAMS)
def test_messages_are_counted_byte_by_byte(protocol: str) -> None:
    counter = _load.Counter(protocol)
    assert [end for byte in STREAMS[protocol] for end in counter.feed(bytes([byte]))] == ENDS


@pytest.mark.parametrize(
    ("protocol", "stream", "said"),
    [
        ("palio", _palio(0x03, b"\x92\xa4slow\xa0"), "slow"),
        ("palio", bytes(5), "empty frame"),
        ("mqtt", b"\x30\xff\xff\xff\xff\x01", "length does not end"),
        ("nats", b"-ERR 'Slow Consumer'\r\n", "Slow Consumer"),
        ("amqp", _amqp(1, bytes.fromhex("000a 0032 0140 06") + b"FORCED"), "FORCED"),
        ("amqp", _amqp(1, bytes.fromhex("0014 0028 0194 04") + b"NONE"), "NONE"),
        ("amqp", _amqp(8, b"")[:-1] + b"\x00", "does not end as it should"),
        ("palio", _palio(0x20, bytes(1 << 17))[:-1], "more than 64 KiB"),
        ("amqp", _amqp_content("003c 003c", b"4444", 4).replace(b"\x04\x00\x00\xce", b"\x03\x00\x00\xce"), "more con"),
    ],
)  # fmt: skip
def test_what_ends_a_connection_is_an_error(protocol: str, stream: bytes, said: str) -> None:
    with pytest.raises(_load.LoadError, match=said):
        _load.Counter(protocol).feed(stream)


def test_unknown_protocols_are_refused() -> None:
    with pytest.raises(ValueError, match="amqp, not smtp"):
        _load.Counter("smtp")


# -- the generator -----------------------------------------------------------------------------------------------------


@contextmanager
def _copied(parties: int) -> Iterator[list[socket.socket]]:
    """A publisher and parties, between whom everything is copied."""
    pairs = [socket.socketpair() for _ in range(parties + 1)]
    inner = [pair[1].fileno() for pair in pairs]
    thread = threading.Thread(target=_load.copy_to_all, args=(inner[0], inner[1:]))
    thread.start()
    try:
        yield [pair[0] for pair in pairs]
    finally:
        for pair in pairs:
            pair[0].close()
        thread.join()
        for pair in pairs:
            pair[1].close()


def _generator(sockets: list[socket.socket], deliveries: list[int], bytes_each: int = 100) -> _load.Generator:
    message = _palio(0x10, bytes(4) + bytes(bytes_each))
    ends = [len(message) * (i + 1) for i in range(len(deliveries))]
    numbers = [each.fileno() for each in sockets]
    return _load.Generator("copy", numbers, message * len(deliveries), ends, deliveries)


@pytest.mark.parametrize("parties", [1, 7])
@pytest.mark.parametrize("in_flight", [1, 3, 10_000])
def test_floods_are_complete(parties: int, in_flight: int) -> None:
    with _copied(parties) as sockets:
        generator = _generator(sockets, [parties] * 333)
        for _ in range(2):
            sent, expected, received, seconds, kept_up, _, _ = generator.flood(0.05, in_flight, 10.0)
            assert sent > 0
            assert kept_up
            assert expected == received == sent * parties
            assert seconds > 0


def test_messages_are_paced_and_timed() -> None:
    with _copied(3) as sockets:
        began = time.monotonic()
        sent, expected, received, _, kept_up, p50, p99 = _generator(sockets, [3, 3]).pace(1000, 0.2, 10_000, 10.0)
        took = time.monotonic() - began
    assert (sent, expected, received, kept_up) == (200, 600, 600, True)
    assert took > 0.19
    assert 0 < p50 <= p99 < took * 1e6


def test_whoever_does_not_keep_up_is_not_waited_for() -> None:
    publisher, nobody = socket.socketpair()
    with publisher, nobody:
        outcome = _generator([publisher], [1]).pace(10_000, 100.0, 50, 0.05)
    assert outcome[0] == 51
    assert (outcome[2], outcome[4]) == (0, False)


def test_losses_are_seen() -> None:
    """A message that is said to have two receivers has one."""
    with _copied(1) as sockets:
        sent, expected, received, *_ = _generator(sockets, [1, 2]).flood(0.01, 100, 0.5)
    assert 0 < received <= sent < expected


def test_connections_that_close_are_errors() -> None:
    publisher, broker_side = socket.socketpair()
    broker_side.close()
    with publisher, pytest.raises(_load.LoadError, match="closed the connection that publishes"):
        _generator([publisher], [1]).flood(10.0, 10, 10.0)
    publisher, reader = socket.socketpair()
    party, broker_side = socket.socketpair()
    broker_side.close()
    with publisher, reader, party, pytest.raises(_load.LoadError, match="closed a connection"):
        _generator([publisher, party], [1]).flood(10.0, 10, 10.0)


@pytest.mark.parametrize(
    ("ends", "deliveries"), [([], []), ([116], [0]), ([115], [1]), ([116, 232], [1]), ([3, 116], [1, 1]), ([116], [])]
)
def test_senseless_traffic_is_refused(ends: list[int], deliveries: list[int]) -> None:
    with socket.socket() as publisher, pytest.raises(ValueError):
        _load.Generator("copy", [publisher.fileno()], bytes(116), ends, deliveries)
    with pytest.raises(ValueError):
        _load.Generator("copy", [], bytes(116), [116], [1])
