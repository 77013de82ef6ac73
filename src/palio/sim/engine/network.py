"""The network between servers: latencies, and what goes wrong below the links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

import msgspec

from palio.link.frames import Frame
from palio.sim.engine.scheduler import Scheduler


class Weather(msgspec.Struct, frozen=True):
    """How often frames have bad luck: shares of all frames."""

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """May be overtaken by frames that were sent later."""
    delay: float = 0.0
    """Takes ten times as long, and those behind it wait."""


FAIR = Weather()


class Network:
    """Carries frames from server to server.

    A frame never arrives before an earlier one of the same direction, whatever its length, unless it has bad luck.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        latency: Callable[[str, str], int],
        arrive: Callable[[str, str, Frame], None],
    ) -> None:
        self._scheduler = scheduler
        self._random = random
        self._latency = latency
        self._arrive = arrive
        self._last: dict[tuple[str, str], int] = {}
        self._cut: dict[tuple[str, str], str] = {}
        """Directions in which nothing gets through, and by which kind of fault."""
        self.weather = FAIR
        self.in_flight = 0
        self.faults: Counter[str] = Counter()

    def cut(self, source: str, target: str) -> None:
        """From now on nothing gets through in this direction."""
        self._cut[source, target] = "cut"

    def part(self, servers: Iterable[str], others: Iterable[str]) -> None:
        """From now on nothing gets through between some servers and others."""
        rest = list(others)
        for one in servers:
            for other in rest:
                self._cut[one, other] = self._cut[other, one] = "partition"

    def mend(self) -> None:
        """Everything gets through again, in all directions, and the weather is fair."""
        self.join()
        self.weather = FAIR

    def join(self) -> None:
        """What was cut or parted is no longer."""
        self._cut.clear()

    def send(self, source: str, target: str, frame: Frame) -> None:
        """A frame sets out."""
        weather = self.weather
        if self._cut and (source, target) in self._cut:
            self.faults[self._cut[source, target]] += 1
            return
        latency = self._latency(source, target)
        if weather is FAIR:
            self._carry(source, target, frame, latency)
            return
        draw = self._random.random
        if draw() < weather.drop:
            self.faults["drop"] += 1
            return
        if draw() < weather.duplicate:
            self.faults["duplicate"] += 1
            self._carry(source, target, frame, int(latency * (1 + 3 * draw())), in_order=False)
        if draw() < weather.reorder:
            self.faults["reorder"] += 1
            self._carry(source, target, frame, int(latency * (1 + 3 * draw())), in_order=False)
        elif draw() < weather.delay:
            self.faults["delay"] += 1
            self._carry(source, target, frame, 10 * latency)
        else:
            self._carry(source, target, frame, latency)

    def _carry(self, source: str, target: str, frame: Frame, duration: int, *, in_order: bool = True) -> None:
        arrival = self._scheduler.now + duration
        if in_order:
            way = source, target
            last = self._last.get(way, 0)
            if last > arrival:
                arrival = last
            else:
                self._last[way] = arrival
        self.in_flight += 1
        self._scheduler.at(arrival, self._land, source, target, frame)

    def _land(self, source: str, target: str, frame: Frame) -> None:
        self.in_flight -= 1
        self._arrive(source, target, frame)
