"""Random histories in which monitors move: what they wait for is advertised here, then there, while it is published."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import msgspec

from palio.node.settings import Delegation
from palio.routing.telling import TellingSettings
from palio.sim.generators.networks import _HistoryBuilder
from palio.sim.histories.history import History, Step

_FIRST = 'x any; y any; symbol = "A"; symbol = "B"'
_SECOND = 'x any; y any; symbol = "C"'
_FILTERS = ('symbol = "A"', 'symbol = "B"', 'symbol = "A" and x >= 2', 'symbol = "B" and x <= 5')
_OTHER = 'symbol = "C"'
_WAITS = (0, 0, 1, 3, 8, 20)


def moving_story(random: Random, seed: int, architecture: str, faults: str, window: int) -> History:
    """The history of a seed."""
    return _MovingHistoryBuilder(random, seed, architecture, faults).move(window)


class _MovingHistoryBuilder(_HistoryBuilder):
    """One party publishes without a break, while others begin and cease to advertise the same."""

    def move(self, window: int) -> History:
        """The whole history."""
        random = self.random
        first, second = self.servers[-1], random.choice(self.servers)
        if self.architecture == "aa" or random.random() < 0.5:  # a row: monitors have the longest ways to go
            self.parents, self.more = dict(pairwise(self.servers[::-1])), []
        self.step("advertise", text=_FIRST, server=first, party=f"{first}/p0")
        self.step("advertise", text=_SECOND, server=second, party=f"{second}/p1")
        others = [server for server in self.servers if server not in (first, second)] or self.servers
        for server in random.sample(others, random.randrange(2) if len(others) > 1 else 0):
            self.step("advertise", text=_FIRST, server=server, party=f"{server}/p2")
        history = self.tell(0)
        self.steps = list(history.steps)
        for _ in range(4):
            for _ in range(3):
                self.subscribe()
            self.step("settle")
            for _ in range(18):
                self.go_on(first, second)
            self.step("settle")
            self.dead.clear()
        delegation = random.choice([Delegation.GROUPS, Delegation.WHOLE])
        telling = TellingSettings(delay=random.choice([0, 40, 250]))
        return msgspec.structs.replace(
            history, steps=tuple(self.steps), window=window, delegation=delegation, telling=telling
        )

    def subscribe(self) -> None:
        """Mostly for what one server publishes, sometimes for what two do."""
        random, server = self.random, self.random.choice(self.servers)
        filters = [random.choice(_FILTERS) for _ in range(random.choice([2, 3, 3]))]
        if random.random() < 0.5:
            filters.insert(random.randrange(len(filters) + 1), _OTHER)
        party = f"{server}/p{random.randrange(3)}"
        self.step("subscribe", text=" then ".join(filters), server=server, party=party)

    def go_on(self, first: str, second: str) -> None:
        """A publication; and now and then something that lets monitors move."""
        random, draw = self.random, self.random.random()
        server = random.choice(self.servers)
        if draw < 0.12:
            do = random.choice(["advertise", "unadvertise"])
            self.soon(do, server, f"{server}/p2", _FIRST)
        elif draw < 0.16:
            self.subscribe()
        elif draw < 0.18:
            self.soon("unsubscribe", server, f"{server}/p0", " then ".join([random.choice(_FILTERS)] * 2))
        elif draw < 0.22 and self.faults != "none":
            self.misfortune()
        source, party = (second, "p1") if random.random() < 0.15 else (first, "p0")
        symbol = random.choice("C" if source == second and source != first else "AB")
        self.soon("publish", source, f"{source}/{party}", f'symbol = "{symbol}"; x = {random.randrange(7)}')

    def soon(self, do: str, server: str, party: str, text: str) -> None:
        """Next to no time after what was before."""
        self.steps.append(Step(self.random.choice(_WAITS), do, server, party, text))  # type: ignore[arg-type]
