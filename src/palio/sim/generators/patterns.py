"""Random histories in which parties subscribe for patterns."""

from __future__ import annotations

from random import Random

import msgspec

from palio.node.settings import Delegation
from palio.routing.telling import TellingSettings
from palio.sim.generators.moving_monitors import moving_story
from palio.sim.generators.networks import _HistoryBuilder, advertisement_text, filter_text, notification_text
from palio.sim.histories.history import LARGE_WINDOW, History

_FILTERS = ("x any", 'symbol = "A"', 'symbol = "B"', "x >= 2", "x >= 4", "x <= 5", "x >= 2 and x <= 5")
"""Few and broad, so that patterns share filters, cover each other and are met often."""
_EVERYTHING = "x any; y any; symbol any"
_WINDOWS = (0, 0, 30, 300, LARGE_WINDOW, LARGE_WINDOW)


def pattern_text(random: Random) -> str:
    """Two or three filters, seldom one that parties could also hold alone."""
    filters = [random.choice(_FILTERS) if random.random() < 0.9 else filter_text(random) for _ in range(3)]
    return " then ".join(filters[random.random() < 0.6 :])


def generate_patterns(seed: int, architecture: str, faults: str = "all", operations: int = 60) -> History:
    """The history of a seed; where monitors can move, they do in about every other one."""
    random = Random(f"{seed} {architecture} {faults} patterns")
    if architecture in ("aa", "ga") and random.random() < 0.5:
        return moving_story(random, seed, architecture, faults, random.choice(_WINDOWS))
    return _PatternHistoryBuilder(random, seed, architecture, faults).tell(operations)


class _PatternHistoryBuilder(_HistoryBuilder):
    """Patterns, publications from everywhere, and some plain subscriptions, by which parties depend on each other."""

    def tell(self, operations: int) -> History:
        """The whole history: all servers are sources of everything, or some are, or nobody is at first."""
        random = self.random
        window = random.choice(_WINDOWS)
        self.sources = random.choice([list(self.servers), [], random.sample(self.servers, 1), self.some_servers()])
        for server in self.sources:
            for number in range(3):
                self.step("advertise", text=_EVERYTHING, server=server, party=f"{server}/p{number}")
        delegation = random.choice([*Delegation, Delegation.WHOLE, Delegation.WHOLE])
        telling = TellingSettings(delay=random.choice([0, 0, 0, 40, 250]))
        return msgspec.structs.replace(super().tell(operations), window=window, delegation=delegation, telling=telling)

    def some_servers(self) -> list[str]:
        """Two at most."""
        return self.random.sample(self.servers, min(2, len(self.servers)))

    def party(self) -> None:
        """What a party does."""
        random = self.random
        server = random.choice(self.servers)
        who = {"server": server, "party": f"{server}/p{random.randrange(3)}"}
        draw = random.random()
        if draw < 0.18:
            self.step("subscribe", text=pattern_text(random), spread=random.random() < 0.3, **who)
        elif draw < 0.24:
            self.step("unsubscribe", text=pattern_text(random), **who)
        elif draw < 0.3:
            self.step("subscribe", text=filter_text(random), **who)
        elif draw < 0.34:
            self.step("unsubscribe", text=filter_text(random), **who)
        elif draw < 0.4:
            self.step("advertise", text=advertisement_text(random), **who)
        elif draw < 0.42:
            self.step("unadvertise", text=advertisement_text(random), **who)
        elif draw < 0.46:
            self.change_sources()
        elif draw < 0.48:
            self.watch_quietly()
        else:
            self.publish(random.choice([1, 3, 6]))

    def change_sources(self) -> None:
        """While one server goes on publishing, another one becomes a source of everything, or ceases to be one."""
        server, other = self.random.choice(self.sources or self.servers), self.random.choice(self.servers)
        self.publish(3, server)
        do = "unadvertise" if other in self.sources and other != server else "advertise"
        for number in range(3):
            self.step(do, text=_EVERYTHING, server=other, party=f"{other}/p{number}")
        self.sources = [each for each in self.sources if each != other] + [other] * (do == "advertise")
        self.publish(5, server)

    def watch_quietly(self) -> None:
        """Patterns that have spread before anything is published for them: then it is certain what they must find."""
        self.step("settle")
        for _ in range(3):
            server = self.random.choice(self.servers)
            self.step("subscribe", text=pattern_text(self.random), server=server, party=f"{server}/p0")
        self.step("settle")
        self.publish(10, *self.random.choice([[], [self.random.choice(self.sources or self.servers)]]))
        if self.random.random() < 0.5:
            self.change_sources()
        self.step("settle")
        self.dead.clear()

    def publish(self, times: int, source: str | None = None) -> None:
        """Publications of one server, or here and there, soon after each other, so that they overtake each other."""
        for _ in range(times):
            server = self.random.choice(self.servers) if source is None else source
            party = f"{server}/p{self.random.randrange(3)}"
            self.step("publish", text=notification_text(self.random), server=server, party=party)
