"""Questions take turns, and have a share of the time only."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

from palio.server.question_queue import SHARE, QuestionQueue


class Loop:
    """An event loop with a clock of its own."""

    def __init__(self) -> None:
        self.now = 100.0
        self._numbers = count()
        self._timers: list[tuple[float, int, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, moment: float, call: Callable[[], object]) -> Any:
        timer = moment, next(self._numbers), call
        heapq.heappush(self._timers, timer)
        return SimpleNamespace(cancel=lambda: self._timers.remove(timer))

    def run(self) -> None:
        """Until there are no timers."""
        while self._timers:
            moment, _, call = heapq.heappop(self._timers)
            self.now = max(self.now, moment)
            call()


class Client:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_closing = False


class World:
    """A queue, its loop, and the questions in the order in which they were worked for."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.done: list[tuple[str, float]] = []
        self.dropped: list[object] = []
        self.queue = QuestionQueue(cast("asyncio.AbstractEventLoop", self.loop), self.dropped.append)

    def ask(self, client: Client, seconds: float = 1.0) -> None:
        def work() -> None:
            self.done.append((client.name, self.loop.now))
            self.loop.now += seconds

        self.queue.add(client, work)


def test_a_question_is_answered_at_once_if_no_other_waits() -> None:
    world = World()
    world.ask(Client("eva"))
    assert world.done == [("eva", 100.0)]


def test_questions_have_a_share_of_the_time() -> None:
    world, eva = World(), Client("eva")
    for _ in range(8):
        world.ask(eva)
    assert len(world.done) == 1
    world.loop.run()
    assert [moment for _, moment in world.done] == [100.0 + n / SHARE for n in range(8)]
    world.loop.now += 1 / SHARE - 1  # the pause after the last one
    world.ask(eva)
    assert len(world.done) == 9


def test_clients_take_turns() -> None:
    world, eva, adam = World(), Client("eva"), Client("adam")
    for _ in range(4):
        world.ask(eva)
    world.ask(adam)
    world.loop.run()
    assert [name for name, _ in world.done] == ["eva", "eva", "adam", "eva", "eva"]


def test_questions_of_a_closed_connection_are_dropped() -> None:
    world, eva, adam = World(), Client("eva"), Client("adam")
    for _ in range(4):
        world.ask(eva)
    world.ask(adam)
    eva.is_closing = True
    world.loop.run()
    assert [name for name, _ in world.done] == ["eva", "adam"]
    assert world.dropped == [eva]


def test_a_question_that_asks_for_more_waits_for_its_turn() -> None:
    world, eva, adam = World(), Client("eva"), Client("adam")
    world.queue.add(eva, lambda: (world.ask(adam), world.ask(eva)))
    world.loop.run()
    assert [name for name, _ in world.done] == ["adam", "eva"]


def test_a_queue_that_is_stopped_answers_no_more() -> None:
    world, eva = World(), Client("eva")
    for _ in range(4):
        world.ask(eva)
    world.queue.stop()
    world.loop.run()
    assert len(world.done) == 1
