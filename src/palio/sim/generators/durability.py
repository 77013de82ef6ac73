"""Random histories with durable parties: they come and go, acknowledge late, read again; disks fail in all ways."""

from __future__ import annotations

from random import Random
from typing import get_args

import msgspec

from palio.model import Mode
from palio.node.keys import KeyLimits
from palio.node.logs import LogSettings, Retention
from palio.node.party_log import Keep, MarkSettings
from palio.sim.faults.crash_points import Effect
from palio.sim.generators.networks import FAULTS, _HistoryBuilder, advertisement_text, filter_text, notification_text
from palio.sim.histories.history import History, Step

DURABLE_FAULTS = tuple(faults for faults in FAULTS if faults != "races")
_EVERYTHING = "x any; y any; symbol any"
_EFFECTS: tuple[Effect, ...] = get_args(Effect)
_USUAL = Keep(age=10**12, lease=10**7)
"""Nothing is too old, unless a party says so."""


def generate_durability(seed: int, architecture: str, faults: str = "all", operations: int = 60) -> History:
    """The history of a seed."""
    random = Random(f"{seed} {architecture} {faults} durability")
    return _DurabilityHistoryBuilder(random, seed, architecture, faults).tell(operations)


def _settings(random: Random, aside: Random) -> LogSettings:
    """Small enough for everything to happen: little memory, few marks, short retention."""
    long = 10**12
    retention = random.choice(
        [Retention(), Retention(age=3_000), Retention(age=long, count=10), Retention(age=long, bytes=1_500)]
    )
    return LogSettings(
        keep=msgspec.structs.replace(_USUAL, window=random.choice([1, 3, 1_000])),
        retention=retention,
        recent_bytes=random.choice([0, 500, 1 << 20]),
        flight_bytes=random.choice([200, 4 << 20]),
        letters=random.choice([2, 1_000]),
        letters_bytes=aside.choice([200, 16 << 20]),
        keys=KeyLimits(age=random.choice([1_500, 10**9])),
        marks=MarkSettings(random.choice([1, 3, 4_096]), random.choice([300, 1 << 20]), random.choice([1, 5, 1_024])),
        sweep=random.choice([1, 4, 16]),
    )


def _keep(random: Random) -> Keep:
    """Most logs have one bound that matters; zero is what is usual."""
    nothing = Keep(0, 0, 0, 0, 0, 0)
    kinds = {
        "count": random.randrange(1, 7),
        "bytes": random.randrange(200, 900),
        "age": random.randrange(200, 2_000),
        "lease": random.randrange(800, 4_000),
        "attempts": random.randrange(1, 4),
        "window": random.randrange(1, 4),
    }
    chosen = random.choice(
        [[], ["count"], ["bytes"], ["age"], ["lease"], ["attempts"], ["window"], ["count", "window"]]
    )
    return msgspec.structs.replace(nothing, **{name: kinds[name] for name in chosen})


class _DurabilityHistoryBuilder(_HistoryBuilder):
    """Publications with options, and durable parties that do everything that they may."""

    most_servers = 4

    def tell(self, operations: int) -> History:
        """The whole history: some parties are durable, and some of them are there from the beginning."""
        random = self.random
        names = [(server, f"{server}/p{number}") for server in self.servers for number in range(3)]
        durable = [who for who in names if random.random() < 0.6] or names[:1]
        self.keeps = {party: _keep(random) for _, party in durable}
        self.where = {party: server for server, party in durable}
        self.published: list[Step] = []
        self.ahead: dict[str, int] = {}
        """How far the clocks of servers are ahead."""
        self.copied: list[str] = []
        """Servers whose disks were copied."""
        for server, party in names if any(each in ("aa", "ga") for each in self.architecture.split("+")) else ():
            self.step("advertise", text=_EVERYTHING, server=server, party=party)
        for party in self.keeps:
            if random.random() < 0.7:
                self.attach(party)
                self.step("subscribe", text=filter_text(random), server=self.where[party], party=party)
        settings = _settings(random, self.aside())
        if self.faults not in ("none", "slow"):  # where servers die, they write often how long they have run
            settings = msgspec.structs.replace(settings, running_step=self.aside().choice([50, settings.running_step]))
        return msgspec.structs.replace(super().tell(operations), durable=True, logs=settings)

    def party(self) -> None:
        """What a party does."""
        random = self.random
        server = random.choice(self.servers)
        who = {"server": server, "party": f"{server}/p{random.randrange(3)}"}
        draw = random.random()
        if draw < 0.08:
            self.step("subscribe", text=filter_text(random), spread=random.random() < 0.3, **who)
        elif draw < 0.12:
            self.unsubscribe(filter_text(random), who)
        elif draw < 0.14:
            self.step("unadvertise", text=advertisement_text(random), **who)
        elif draw < 0.17:
            self.step("advertise", text=_EVERYTHING, **who)
        elif draw < 0.62:
            self.read(random.choice(list(self.keeps)))
        elif draw < 0.67 and self.published:
            self.steps.append(msgspec.structs.replace(random.choice(self.published[-4:]), wait=random.choice([0, 30])))
        else:
            for _ in range(random.choice([1, 2, 5])):
                self.publish(who)

    def publish(self, who: dict[str, str]) -> None:
        """Some with options."""
        random = self.random
        mode = random.choice([None, None, *Mode])
        expires = random.choice([0, 0, 0, 0, 20, 100, 500, 2_000])
        key = f"k{len(self.steps)}" if random.random() < 0.2 else ""
        self.step("publish", text=notification_text(random), mode=mode, expires=expires, key=key, **who)
        if key:
            self.published.append(self.steps[-1])

    def attach(self, party: str) -> None:
        """A party connects, soon or late, for the first time, again, or instead of an older connection."""
        random = self.random
        what = {"keep": self.keeps[party], "pace": random.choice([0, 1, 1, 3]), "remembers": random.random() < 0.5}
        wait = random.choice([0, 5, 30, 200, 3_000]) if self.steps else 0
        self.steps.append(Step(wait, "attach", self.where[party], party, **what))  # type: ignore[arg-type]

    def read(self, party: str) -> None:
        """A durable party does something with its log."""
        random = self.random
        who = {"server": self.where[party], "party": party}
        draw = random.random()
        if draw < 0.3:
            self.attach(party)
        elif draw < 0.45:
            self.step("detach", **who)
        elif draw < 0.65:
            self.step("acknowledge", number=random.choice([0, 0, 1, 3]), **who)
        elif draw < 0.8:
            wish = random.choice(["first", "first", "since", "last"])
            number = random.randrange(3_000) if wish == "since" else random.randrange(12)
            self.step("replay", wish=wish, number=number, **who)
        elif draw < 0.9:
            self.step("reject", **who)
        else:
            self.step(random.choice(["requeue", "requeue", "discard"]), nth=random.randrange(1, 3), **who)

    # -- faults --------------------------------------------------------------------------------------------------------

    def wrong_clock(self, server: str) -> None:
        """Times are promised by the clocks of servers, so these go right; a server is slow instead."""
        self.step("slow", server=server, time=self.random.choice([0, 5, 30]))

    def restart(self, server: str) -> None:
        """A server comes back, perhaps with a clock that was put forward meanwhile: that ends no lease."""
        aside = self.aside()
        if aside.random() < 0.4:
            self.ahead[server] = self.ahead.get(server, 0) + aside.choice([1_000, 10**5, 2 * 10**7])
            self.steps.append(Step(0, "clock", server, time=self.ahead[server]))
        self.step("restart", server=server)

    def crash(self) -> None:
        """A process or a machine dies; or the disk with it."""
        alive = [name for name in self.servers if name not in self.dead]
        if self.dead and self.random.random() < 0.6:
            self.restart(self.dead.pop(0))
        elif alive:
            server = self.random.choice(alive)
            self.dead.append(server)
            self.step(self.random.choice(["crash", "crash", "power", "power", "power", "lose"]), server=server)

    def spoil_disk(self) -> None:
        """A bad disk, or a death at a bad moment."""
        random = self.random
        server = random.choice(self.servers)
        draw = random.random()
        if self.dead and draw < 0.25:
            self.restart(self.dead.pop(0))
        elif draw < 0.4:
            self.step(random.choice(["full", "scarce", "room"]), server=server)
        elif draw < 0.5:
            self.step("flip", server=server, nth=random.randrange(1, 8))
        elif draw < 0.62:
            self.step("copy", server=server)
            self.copied.append(server)
        elif draw < 0.74 and self.copied:
            self.die("put-back", random.choice(self.copied))
        elif draw < 0.78:
            self.die("spoil", server, nth=random.randrange(1, 30))
        elif draw < 0.84:
            self.die(random.choice(["fail", "tear"]), server)
        else:
            self.die("crash-at", server, effect=random.choice(_EFFECTS), nth=random.choice([1, 1, 2, 3, 8]))

    def die(self, do: str, server: str, **what: object) -> None:
        """A death that leaves a disk; so that it comes back, the server counts as dead from now on."""
        self.step(do, server=server, **what)
        if server not in self.dead:
            self.dead.append(server)
