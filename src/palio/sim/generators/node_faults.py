"""Random histories in which nodes themselves are faulty: some inputs make them fail, among many that do not."""

from __future__ import annotations

from random import Random

from palio.sim.faults.faulty_nodes import PLACES, POISON, REQUEST, hostile
from palio.sim.generators.networks import _HistoryBuilder, filter_text, notification_text
from palio.sim.histories.history import History

FAULTY = ("ce", "hs", "as", "nf", "gs")
"""The architectures: those in which a publication goes wherever it is wanted, advertised or not."""


def generate_faults(seed: int, architecture: str, faults: str = "all", operations: int = 60) -> History:
    """The history of a seed."""
    return _FaultHistoryBuilder(Random(f"{seed} {architecture} {faults} faulty"), seed, architecture, faults).tell(
        operations
    )


class _FaultHistoryBuilder(_HistoryBuilder):
    """A hostile party at each server sends what makes nodes fail, between what others send."""

    most_servers = 4

    def party(self) -> None:
        """What a party does; now and then a server handles much together, and something in it is marked."""
        if self.random.random() < 0.3:
            self.crowded()
        else:
            super().party()

    def crowded(self) -> None:
        """A server takes in one turn what several parties, and the hostile one, have sent meanwhile."""
        random, server = self.random, self.random.choice(self.servers)
        is_together = random.random() < 0.7
        if is_together:
            self.step("pause", server=server)
        for _ in range(random.randrange(2, 7)):
            draw = random.random()
            if draw < 0.5:
                party = f"{server}/p{random.randrange(3)}"
                self.step("publish", text=notification_text(random), server=server, party=party)
            else:
                self.attack(server, draw)
        if is_together:
            self.step("resume", server=server)

    def attack(self, server: str, draw: float) -> None:
        """The hostile party does something, mostly something marked."""
        random, who = self.random, {"server": server, "party": hostile(server)}
        if draw < 0.6:
            self.step("publish", text=notification_text(random), **who)
        elif draw < 0.7:
            self.step("subscribe", text=f'{filter_text(random)} and {POISON} = "{REQUEST}"', **who)
        else:
            place = random.choice(PLACES if draw > 0.95 else PLACES[:-1])
            self.step("publish", text=f'{notification_text(random)}; {POISON} = "{place}"', **who)
