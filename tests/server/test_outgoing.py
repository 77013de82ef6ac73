"""The output of a connection, and the bound of what waits for all connections together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from palio.node.ports import Room
from palio.server.backlog import Backlog
from palio.server.outgoing import CHUNK, SPAN, Outgoing, Pace
from tests.serving import run, until


class Transport:
    """A transport whose other end takes bytes when a test says so."""

    def __init__(self) -> None:
        self.outgoing: Outgoing
        self.given: list[bytes] = []
        self.buffer = 0

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert (high, low) == (1, 0)

    def get_write_buffer_size(self) -> int:
        return self.buffer

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.given.append(bytes(data))
        self.buffer += len(data)
        self.outgoing.blocked()

    def take(self) -> bool:
        self.buffer = 0
        return self.outgoing.taken()


class Loop:
    """A clock that a test sets."""

    now = 0.0

    def time(self) -> float:
        return self.now


def _made() -> tuple[Transport, Loop, Outgoing]:
    transport, loop = Transport(), Loop()
    transport.outgoing = Outgoing(transport, loop)  # type: ignore[arg-type]
    return transport, loop, transport.outgoing


def test_everything_is_written_in_order_and_a_chunk_at_a_time() -> None:
    transport, _, outgoing = _made()
    frames = [bytes([number % 251]) * 1_000 for number in range(1_000)]
    assert outgoing.write(frames[:1], [1]) == 1_000
    for begin in range(1, 1_000, 3):
        outgoing.write(frames[begin : begin + 3], [1] * 3)
    assert outgoing.waiting == 1_000_000
    while not transport.take():
        assert transport.buffer <= CHUNK
    assert b"".join(transport.given) == b"".join(frames)
    assert outgoing.waiting == 0


def test_a_large_turn_is_divided_too() -> None:
    transport, _, outgoing = _made()
    outgoing.write([b"x" * 10_000] * 100, [1] * 100)
    assert transport.buffer <= CHUNK
    assert outgoing.waiting == 1_000_000
    assert outgoing.drop_deliveries() * 10_000 == 1_000_000 - transport.buffer


def test_deliveries_are_dropped_and_answers_stay() -> None:
    transport, _, outgoing = _made()
    outgoing.write([b"0"], [0])
    for number in range(10):
        outgoing.write([b"d%d" % number, b"a%d" % number], [3, 0])
    assert outgoing.drop_deliveries() == 30
    assert outgoing.waiting == 1 + 20
    outgoing.write([b"last"], [1])
    transport.take()
    assert b"".join(transport.given) == b"0" + b"".join(b"a%d" % number for number in range(10)) + b"last"


def test_what_waits_is_finished_or_cleared() -> None:
    transport, _, outgoing = _made()
    outgoing.write([b"0"], [0])
    outgoing.write([b"1"], [1])
    outgoing.finish(b"end")
    assert b"".join(transport.given) == b"01end"
    outgoing.write([b"2"], [1])
    outgoing.clear()
    outgoing.finish()
    assert b"".join(transport.given) == b"01end"


def test_the_pace_is_that_of_the_last_moments() -> None:
    transport, loop, outgoing = _made()
    for _ in range(100):
        outgoing.write([b"x" * CHUNK], [1])
    assert outgoing.seconds == 0.0  # too early to tell
    for _ in range(50):  # two chunks a second
        loop.now += 0.5
        transport.take()
    assert 20 < outgoing.seconds < 30
    loop.now += 2 * SPAN
    outgoing.note_pace()
    loop.now += 2 * SPAN
    outgoing.note_pace()
    loop.now += SPAN
    assert outgoing.seconds == float("inf")


def test_a_pace_at_its_edge() -> None:
    pace = Pace()
    pace.begin(10.0, 0)
    assert pace.seconds(10.0 + SPAN - 0.01, 0, 1) == 0.0
    assert pace.seconds(10.0 + SPAN, 0, 1) == float("inf")


class Reader:
    """A connection that needs some seconds to take what waits for it."""

    role = "party"
    is_closing = False

    def __init__(self, waiting: int, seconds: float) -> None:
        self.waiting, self.seconds = waiting, seconds
        self.written = waiting
        self.outgoing = self

    def note_pace(self) -> None:
        """It stays the same."""

    def resume(self) -> None:
        """Nobody is paused here."""


class Held:
    """What a driver is told."""

    def __init__(self) -> None:
        self.rooms: list[bool] = []
        self.is_held = False

    def give(self, room: Room) -> None:
        self.rooms.append(room.is_there)

    def hold(self) -> None:
        self.is_held = True

    def release(self) -> None:
        self.is_held = False


def _play(scene: Callable[[Backlog, Held, list[Reader]], Any], patience: float = 5.0) -> None:
    """A backlog of a thousand bytes at most; those that are relieved have nothing waiting any more."""

    async def play() -> None:
        driver, relieved = Held(), list[Reader]()

        def relieve(reader: Reader, *, is_stuck: bool = False) -> None:
            assert is_stuck == (reader.role == "server")
            relieved.append(reader)
            reader.waiting = 0

        backlog = Backlog(1_000, patience, driver, relieve)  # type: ignore[arg-type]
        await scene(backlog, driver, relieved)
        backlog.close()

    run(play())


def _note(backlog: Backlog, *readers: Reader) -> None:
    for reader in readers:
        backlog.note(reader, reader.waiting)  # type: ignore[arg-type]


def test_slow_consumers_pay_and_publishers_do_not_wait() -> None:
    async def scene(backlog: Backlog, driver: Held, relieved: list[Reader]) -> None:
        stuck, slow, good = Reader(400, float("inf")), Reader(300, 6.0), Reader(200, 4.0)
        small = Reader(101, float("inf"))
        _note(backlog, stuck, slow, good)
        assert not relieved
        _note(backlog, small)  # the first byte too many
        assert relieved == [stuck, slow]  # those for which most waits, until half is gone
        assert backlog.bytes == 301
        assert not backlog.pauses
        assert not driver.rooms

    _play(scene)


def test_exactly_so_much_may_wait() -> None:
    async def scene(backlog: Backlog, driver: Held, relieved: list[Reader]) -> None:
        _note(backlog, Reader(500, float("inf")), Reader(500, float("inf")))
        assert not relieved
        assert not driver.is_held

    _play(scene)


def test_publishers_wait_for_consumers_that_take_what_they_get() -> None:
    async def scene(backlog: Backlog, driver: Held, relieved: list[Reader]) -> None:
        good, better = Reader(600, 4.9), Reader(600, 0.1)
        _note(backlog, good, better)
        assert backlog.is_full
        assert driver.is_held
        good.waiting = 501
        better.waiting = 0
        await asyncio.sleep(0)
        assert backlog.is_full
        good.waiting = 500
        await until(lambda: not backlog.is_full)
        assert driver.rooms == [False, True]
        assert not relieved
        assert not driver.is_held

    _play(scene)


def test_a_consumer_that_stops_while_publishers_wait_is_relieved() -> None:
    async def scene(backlog: Backlog, driver: Held, relieved: list[Reader]) -> None:
        good = Reader(1_200, 0.0)
        _note(backlog, good)
        assert driver.is_held
        good.seconds = 1_000.0
        await until(lambda: not backlog.is_full)
        assert relieved == [good]

    _play(scene)


def test_a_neighbour_is_waited_for_and_one_that_takes_nothing_is_disconnected() -> None:
    async def scene(backlog: Backlog, driver: Held, relieved: list[Reader]) -> None:
        peer = Reader(1_200, float("inf"))
        peer.role = "server"
        _note(backlog, peer)
        assert driver.is_held
        assert not relieved
        await until(lambda: not backlog.is_full)
        assert relieved == [peer]

    _play(scene, patience=0.1)


def test_a_connection_that_is_being_closed_gives_up_what_waits_for_it() -> None:
    async def scene(backlog: Backlog, driver: Held, relieved: list[Reader]) -> None:
        closing = Reader(1_200, 0.0)
        closing.is_closing = True
        _note(backlog, closing)
        assert relieved == [closing]
        assert not driver.is_held

    _play(scene)
