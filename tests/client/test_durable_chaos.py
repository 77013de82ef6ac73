"""Connections of a durable client that break at any byte, servers that forget acknowledgements, slow consumers."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from random import Random
from typing import Any

import pytest

from palio.client import Client, Delivery, Durable, Subscription, connect
from palio.codec.control import Reject
from tests.client.log_puppet import LogPuppet
from tests.client.puppet import QUICK
from tests.serving import run, until

WANTED = ("n any", "n > 40", "m = 1", "n > 20 and m = 2")
COUNT = 120


class BreakingPuppet(LogPuppet):
    """It hangs up in the middle of what it says, dies before it has noted acknowledgements, and sees who cheats."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.left = 0
        """How many bytes it says before it hangs up; none: it does not."""
        self.done: set[int] = set()
        """What its client has done with."""
        self.faults: list[str] = []

    def say(self, data: bytes) -> None:
        if self.left and len(data) >= self.left:
            super().say(data[: self.left])
            self.left = 0
            self._writers.pop().close()
            self.acknowledged = self.random.randint(-1, self.acknowledged)
        elif self._writers:
            self.left = max(0, self.left - len(data))
            super().say(data)

    def _noted(self, number: int) -> None:
        if not set(range(number + 1)) <= self.done:
            self.faults.append(f"{number} was acknowledged before it was done")
        super()._noted(number)

    def _asked(self, request: Any) -> None:
        if isinstance(request, Reject):
            if not set(range(request.delivery)) <= self.done:
                self.faults.append(f"{request.delivery} was rejected before others were done")
            self.done.add(request.delivery)
        super()._asked(request)


class Consumer:
    """It takes deliveries in order, and is done with them in any order."""

    def __init__(self, puppet: BreakingPuppet, holders: dict[int, int], random: Random) -> None:
        self.puppet, self.holders, self.random = puppet, holders, random
        self.numbers: list[int] = []

    async def consume(self, events: Subscription) -> None:
        held: list[Delivery] = []
        async for delivery in events:
            assert not delivery.is_repeated
            self.numbers.append(delivery.number)
            held.append(delivery)
            while held and (len(held) > 5 or self.random.random() < 0.5 or delivery.number == COUNT - 1):
                await self._settle(held.pop(self.random.randrange(len(held))))
            if self.random.random() < 0.2:
                await asyncio.sleep(self.random.choice([0, 0.001]))

    async def _settle(self, delivery: Delivery) -> None:
        self.holders[delivery.number] -= 1
        is_rejected = self.random.random() < 0.05
        if not self.holders[delivery.number] and not is_rejected:
            self.puppet.done.add(delivery.number)
        await (delivery.reject("why") if is_rejected else delivery.ack())


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_nor_comes_twice_nor_is_acknowledged_early(seed: int) -> None:
    random = Random(seed)

    async def story() -> None:
        async with BreakingPuppet(random) as puppet:
            durable = Durable(settle=0, window=random.choice([0, 2, 16]))
            async with connect(puppet.url, name="urn:eva", durable=durable, **QUICK) as eva:
                await _play(eva, puppet)

    async def _play(eva: Client, puppet: BreakingPuppet) -> None:
        holders: dict[int, int] = {}
        chosen = WANTED[: random.randint(1, len(WANTED))]
        streams = [await eva.subscribe(each, queue=random.choice([1, 3, 1000])) for each in chosen]
        await until(lambda: eva._inbox._is_settled)  # type: ignore[attr-defined]
        consumers = [Consumer(puppet, holders, random) for _ in streams]
        tasks = [asyncio.create_task(one.consume(stream)) for one, stream in zip(consumers, streams, strict=True)]
        expected: list[list[int]] = [[] for _ in streams]
        for number in range(COUNT):
            m = 1 if number == COUNT - 1 else random.randrange(4)
            takers = [index for index, each in enumerate(chosen) if _matches(each, number, m)]
            for index in takers:
                expected[index].append(number)
            holders[number] = len(takers)
            if not takers:
                puppet.done.add(number)
            puppet.deliver(n=number, m=m)
            if random.random() < 0.1 and not puppet.left:
                puppet.left = random.randint(1, 400)
            if random.random() < 0.3:
                await asyncio.sleep(random.choice([0, 0, 0.002]))
        puppet.left = 0
        is_over = asyncio.create_task(until(lambda: [each.numbers for each in consumers] == expected))
        await asyncio.wait(
            [is_over, *tasks], return_when=asyncio.FIRST_COMPLETED
        )  # a consumer ends if it finds a fault
        for task in tasks:
            task.cancel()
        assert {type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)} == {CancelledError}
        await is_over
        assert not puppet.faults

    run(story())


def _matches(wanted: str, n: int, m: int) -> bool:
    return {WANTED[0]: True, WANTED[1]: n > 40, WANTED[2]: m == 1, WANTED[3]: n > 20 and m == 2}[wanted]
