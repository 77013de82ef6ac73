"""When a driver hands over to its node what has come in: at once, or together with what else comes."""

from __future__ import annotations

import asyncio

from palio.codec import frames
from palio.model import Filter, Notification, Pattern
from palio.node.node import Node, NodeSettings
from palio.node.ports import Fault, PublishBlock, Subscribe
from palio.server.driver import Driver
from palio.server.metrics import Counts
from tests.serving import run, until


class Party:
    """Keeps what is written to it: for each turn the kinds of frames."""

    is_slow = is_closing = False
    version = 2

    def __init__(self, name: str, serial: int) -> None:
        self.name, self.serial = name, serial
        self.turns: list[list[int]] = []
        self.next_number = -1
        self._out = b""

    def put(self, data: bytes) -> None:
        self._out += data

    def deliver(self, data: bytes, count: int) -> bool:
        self._out += data
        return True

    def fall_behind(self) -> None:
        raise AssertionError("nothing here is so much")

    catch_up = fail = fall_behind

    def flush(self) -> None:
        self.turns.append([kind for kind, _ in frames.frames_of(self._out)])
        self._out = b""


def _failed(fault: Fault) -> None:
    raise AssertionError(fault)


class Driven:
    """A node with two parties, of whom eva wants everything."""

    def __init__(self, wanted: Filter | Pattern, window: int = 0) -> None:
        node = Node(NodeSettings("milan", "ce", window=window))
        self.driver = Driver(node, Counts(), lambda event: None, _failed)
        self.parties = {name: Party(name, serial) for serial, name in enumerate(("eva", "adam", "bert", "carl"), 1)}
        self.eva, self.adam = self.parties["eva"], self.parties["adam"]
        self.driver.parties.update(self.parties)
        self.driver.ask(self.eva, 1, Subscribe(wanted))

    async def ready(self) -> None:
        await until(lambda: self.eva.turns == [[0x13]])
        self.eva.turns.clear()

    def publish(self, party: str, *numbers: int) -> None:
        block = b"".join(frames.publish(Notification(x=number), number) for number in numbers)
        source = self.parties[party]
        self.driver.give(PublishBlock(party, block, source=source.serial), source)


async def _turn() -> None:
    """Let the loop go round once."""
    await asyncio.sleep(0)


def test_publications_that_come_alone_are_handled_at_once() -> None:
    async def story() -> None:
        driven = Driven(Filter.parse("x any"))
        await driven.ready()
        for turn in range(3):
            driven.publish("adam", 1, 2)
            assert driven.eva.turns == [[0x20, 0x20]] * (turn + 1)
            assert driven.adam.turns == [[0x11]] * (turn + 1)
            await _turn()

    run(story())


def test_what_comes_together_is_handled_together() -> None:
    async def story() -> None:
        driven = Driven(Filter.parse("x any"))
        await driven.ready()
        for party in ("adam", "bert", "carl"):
            driven.publish(party, 1)
        assert driven.eva.turns == [[0x20]]
        await _turn()
        assert driven.eva.turns == [[0x20], [0x20, 0x20]]
        for party in ("adam", "bert", "carl"):  # now it is known that several are at it
            driven.publish(party, 2)
        assert len(driven.eva.turns) == 2
        await _turn()
        assert driven.eva.turns[2:] == [[0x20] * 3]
        driven.publish("adam", 3)  # the last that waits in vain
        assert len(driven.eva.turns) == 3
        await _turn()
        driven.publish("adam", 4)
        assert driven.eva.turns[3:] == [[0x20], [0x20]]

    run(story())


def test_what_a_party_says_stays_in_order() -> None:
    async def story() -> None:
        driven = Driven(Filter.parse("x any"))
        await driven.ready()
        driven.publish("adam", 1)
        driven.driver.ask(driven.adam, 2, Subscribe(Filter.parse("x > 0")))
        driven.publish("adam", 3)
        await until(lambda: [kind for turn in driven.adam.turns for kind in turn] == [0x11, 0x13, 0x20, 0x11])
        assert [kind for turn in driven.eva.turns for kind in turn] == [0x20, 0x20]

    run(story())


def test_a_deadline_that_comes_between_is_not_forgotten() -> None:
    async def story() -> None:
        driven = Driven(Pattern.parse("x = 1 then x = 2"), window=1000)
        await driven.ready()
        driven.publish("adam", 1, 2)
        driver = driven.driver
        assert driver.node.deadline is not None
        while driver.now <= driver.node.deadline:  # the loop cannot go round meanwhile
            pass
        driver._ring()
        assert driven.eva.turns == [[0x21]]

    run(story())
