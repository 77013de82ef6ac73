"""Random histories, by seed: networks, filters with real covering among them, and all that may happen."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any, get_args

from palio.sim.engine.network import Weather
from palio.sim.faults.crash_points import Effect
from palio.sim.generators.wordings import reword
from palio.sim.histories.federation import NETWORKS, architecture_of
from palio.sim.histories.history import History, Step

FAULTS = ("none", "weather", "partitions", "slow", "links", "races", "crashes", "disks", "all")
"""What may go wrong: nothing; frames below the links; servers that cannot reach each other; servers that are paused,
slow or wrong about the time; links that come and go; things that happen at the same time as others that they should
wait for; servers that die; disks that are full, fail or tear writes, and servers that die between two effects;
everything but such races."""

_IN_SERVERS = ("slow", "crashes", "disks", "all")
"""What can inject a server that is alone."""
_DURABLE = {"crashes": 0.5, "disks": 1.0, "all": 0.5}
"""The share of histories whose servers have disks; of others it is small."""
_EFFECTS: tuple[Effect, ...] = get_args(Effect)[:8]
"""Those of all servers; some have others, with durable parties."""
_SYMBOLS = ("A", "B", "C")
_WORDED = ("subscribe", "unsubscribe", "replace", "advertise", "unadvertise")
"""Steps whose texts are said in other words now and then."""

GRAPHS = ("gs", "ga")
"""The architectures whose networks may have any shape."""


def filter_text(random: Random) -> str:
    """Ranges within ranges, with or without a symbol."""
    parts = []
    if random.random() < 0.6:
        parts.append(f'symbol = "{random.choice(_SYMBOLS)}"')
    if random.random() < 0.7:
        low = random.randrange(6)
        parts.append(f"x >= {low}")
        if random.random() < 0.5:
            parts.append(f"x <= {low + random.randrange(4)}")
    if random.random() < 0.2:
        parts.append("y any")
    return " and ".join(parts) or "x any"


def advertisement_text(random: Random) -> str:
    """What publishers of such notifications may announce."""
    parts = [f"x >= {random.randrange(5)}", "y any"]
    parts += [f'symbol = "{symbol}"' for symbol in random.sample(_SYMBOLS, random.randrange(1, 4))]
    return "; ".join(parts[random.randrange(2) :])


def notification_text(random: Random) -> str:
    """One that such filters may match; never empty."""
    parts = [f"x = {random.randrange(8)}"]
    if random.random() < 0.8:
        parts.append(f'symbol = "{random.choice(_SYMBOLS)}"')
    if random.random() < 0.2:
        parts.append("y = 1")
    return "; ".join(parts[random.random() < 0.1 and len(parts) > 1 :])


def generate(seed: int, architecture: str, faults: str = "all", operations: int = 60) -> History:
    """The history of a seed."""
    return _HistoryBuilder(Random(f"{seed} {architecture} {faults}"), seed, architecture, faults).tell(operations)


class _HistoryBuilder:
    most_servers = 7
    """Of one network; of each of several that are joined about half as many."""

    def __init__(self, random: Random, seed: int, architecture: str, faults: str) -> None:
        self.random, self.seed, self.architecture, self.faults = random, seed, architecture, faults
        self.servers: list[str] = []
        self.parents: dict[str, str] = {}
        self.more: list[tuple[str, str]] = []
        """Links that close cycles, where they may."""
        if "+" in architecture:
            for letter, kind in zip(NETWORKS, architecture.split("+"), strict=False):
                self.found(letter, kind, most=(self.most_servers + 1) // 2)
        else:
            self.found("s", architecture, most=self.most_servers)
        self.linked: dict[str, str] = {}
        """The links that were asked for, by the server that opens them."""
        self.dead: list[str] = []
        self.steps: list[Step] = []

    def found(self, letter: str, architecture: str, most: int) -> None:
        """A network; it is joined with those that are there, by its first server, which is the root of a hierarchy."""
        random, known = self.random, self.servers
        count = 1 if architecture == "ce" else random.randrange(2, most + 1)
        servers = [f"{letter}{number}" for number in range(count)]
        parents = {name: servers[random.randrange(i)] for i, name in enumerate(servers) if i}
        if architecture in GRAPHS:
            others = [pair for pair in combinations(servers, 2) if parents[pair[1]] != pair[0]]
            self.more += random.sample(others, random.randrange(len(others) + 1))
        if known:
            parents[servers[0]] = random.choice([each for each in known if self.may_join(each)])
        self.servers = [*known, *servers]
        self.parents |= parents

    def may_join(self, server: str) -> bool:
        return architecture_of(self.architecture, server) != "hs" or server[1:] == "0"

    def tell(self, operations: int) -> History:
        for child in self.parents:
            self.connect(child)
        for one, other in self.more:
            self.step("connect", server=one, peer=other)
        self.step("settle")
        for _ in range(operations):
            self.operate()
        self.step("settle")
        durable = self.random.random() < _DURABLE.get(self.faults, 0.1)
        servers, steps = tuple(self.servers), tuple(self.steps)
        is_changing = durable and "+" in self.architecture and self.seed % 2 == 0
        return History(self.architecture, self.seed, servers, steps, durable, reconfigured=is_changing)

    def step(self, do: str, **what: object) -> None:
        wait = self.random.choice([0, 0, 5, 30, 200])
        words = Random(f"{self.seed} {self.architecture} {self.faults} {len(self.steps)} words")
        for key in ("text", "instead"):
            if do in _WORDED and what.get(key):
                what[key] = reword(str(what[key]), words, alternatives=do.endswith("advertise"))
        self.steps.append(Step(wait, do, **what))  # type: ignore[arg-type]
        if do in ("subscribe", "advertise") and words.random() < 0.15:
            self.say_again(do, str(what["server"]), str(what["text"]), words)

    def say_again(self, do: str, server: str, text: str, words: Random) -> None:
        """Two parties of the server want, or offer, the same in other words; soon one of them does not any more, and
        later the other. Where servers die, this one does in between, and afterwards one that has heard of it.
        """
        parties = [f"{server}/p{number}" for number in words.sample(range(3), 2)]
        said = [reword(text, words, alternatives=do == "advertise") for _ in parties]
        steps: list[Any] = [(do, server, who, each) for who, each in zip(parties, said, strict=True)]
        if words.random() < 0.6:
            steps.append((f"un{do}", server, parties[0], said[0]))
        if self.faults in ("crashes", "all") and words.random() < 0.4 and not self.dead and len(self.servers) > 1:
            other = words.choice([each for each in self.servers if each != server])
            steps += [("settle",), ("crash", server), ("restart", server), ("settle",)]
            steps += [(f"un{do}", server, parties[1], said[1]), ("settle",), ("crash", other), ("restart", other)]
        self.steps += [Step(words.choice([0, 30]), *each) for each in steps]

    def operate(self) -> None:
        draw = self.random.random()
        if draw < 0.08:
            self.step("settle")
            self.dead.clear()
        elif draw < 0.22:
            self.misfortune()
        else:
            self.party()

    def party(self) -> None:
        random = self.random
        server = random.choice(self.servers)
        who = {"server": server, "party": f"{server}/p{random.randrange(3)}"}
        draw = random.random()
        if draw < 0.35:
            self.step("subscribe", text=filter_text(random), spread=random.random() < 0.3, **who)
        elif draw < 0.5:
            self.unsubscribe(filter_text(random), who)
        elif draw < 0.6:
            self.step("advertise", text=advertisement_text(random), spread=random.random() < 0.3, **who)
        elif draw < 0.65:
            self.step("unadvertise", text=advertisement_text(random), **who)
        else:
            for _ in range(random.choice([1, 1, 3])):
                self.step("publish", text=notification_text(random), **who)

    def unsubscribe(self, text: str, who: dict[str, str]) -> None:
        """Now and then at once with another subscription, or with all that the party holds."""
        random = self.aside()
        draw = random.random()
        if draw < 0.1:
            self.step("leave", **who)
        elif draw < 0.3:
            self.step("replace", text=text, instead=filter_text(random), **who)
        else:
            self.step("unsubscribe", text=text, **who)

    def aside(self) -> Random:
        """Luck that takes nothing from that of the rest of the story."""
        return Random(f"{self.seed} {self.architecture} {self.faults} {len(self.steps)}")

    def misfortune(self) -> None:
        if self.architecture == "ce" and self.faults not in _IN_SERVERS:
            return
        kinds = {
            "weather": self.bad_weather,
            "partitions": self.part,
            "slow": self.slow_down,
            "links": self.relink,
            "crashes": self.crash,
            "disks": self.spoil_disk,
        }
        if self.faults == "races":
            self.random.choice([self.close_cycle, self.reopen, self.probe])()
        elif self.faults in kinds:
            kinds[self.faults]()
        elif self.faults == "all":
            self.random.choice(list(kinds.values()))()

    def bad_weather(self) -> None:
        if self.random.random() < 0.7 or len(self.servers) < 2:
            shares = [self.random.choice([0.0, 0.1, 0.3]) for _ in range(4)]
            self.step("weather", weather=Weather(*shares))
        else:
            one, other = self.random.sample(self.servers, 2)
            self.step("cut", server=one, peer=other)

    def part(self) -> None:
        if len(self.servers) < 2 or self.random.random() < 0.3:
            self.step("join")
        else:
            group = self.random.sample(self.servers, self.random.randrange(1, len(self.servers)))
            self.step("part", servers=tuple(group))

    def give_up(self, random: Random) -> None:
        """A server does not wait any longer for a neighbour, whether that can be reached or not."""
        if self.linked and random.random() < 0.3:
            ends = list(random.choice(list(self.linked.items())))
            random.shuffle(ends)
            self.steps.append(Step(random.choice([0, 30, 200]), "give-up", ends[0], peer=ends[1]))

    def slow_down(self) -> None:
        server, draw = self.random.choice(self.servers), self.random.random()
        aside = self.aside()
        if aside.random() < 0.4:
            self.steps.append(Step(aside.choice([0, 30]), aside.choice(["crowd", "crowd", "thin"]), server))
        if draw < 0.4:
            self.step("pause", server=server)
        elif draw < 0.6:
            self.step("resume", server=server)
        elif draw < 0.8:
            self.step("slow", server=server, time=self.random.choice([0, 5, 30, 150]))
        else:
            self.wrong_clock(server)

    def wrong_clock(self, server: str) -> None:
        offset, rate = self.random.randrange(-5_000, 5_000), self.random.choice([50, 90, 100, 110, 200])
        self.step("clock", server=server, time=offset, rate=rate)

    def relink(self) -> None:
        self.give_up(self.aside())
        draw = self.random.random()
        if self.more and self.random.random() < 0.5:
            one, other = self.random.choice(self.more)
            self.step("disconnect" if draw < 0.5 else "connect", server=one, peer=other)
            return
        if draw < 0.5 and self.linked:
            child = self.random.choice(list(self.linked))
            parent = self.linked.pop(child)
            ends = [child, parent]
            self.random.shuffle(ends)
            self.step("disconnect", server=ends[0], peer=ends[1])
        elif draw < 0.9:
            for child in self.parents:
                if child not in self.linked:
                    self.connect(child)
                    break
        elif len(self.servers) > 2:  # perhaps one that would close a cycle
            one, other = self.random.sample(self.servers, 2)
            self.step("connect", server=one, peer=other)

    def close_cycle(self) -> None:
        """Two links at the same time, of which neither end knows the other: they may close a cycle together."""
        if len(self.servers) < 3:
            return
        child, subscriber, *pair = self.random.choice(list(self.linked)), *self.random.sample(self.servers, 3)
        self.step("subscribe", text="x any", server=subscriber, party=f"{subscriber}/p0")
        self.step("disconnect", server=child, peer=self.linked[child])
        self.step("settle")
        for one, other in ((child, self.linked[child]), pair):
            self.steps.append(Step(self.random.choice([0, 5]), "connect", one, peer=other))
        self.publish_everywhere(8)

    def reopen(self) -> None:
        """A link ends and begins again while frames of it are still under way."""
        child = self.random.choice(list(self.linked))
        self.step("weather", weather=Weather(duplicate=0.3, reorder=0.3))
        self.party()
        for do in ("disconnect", "connect"):
            self.steps.append(Step(self.random.choice([0, 5]), do, child, peer=self.linked[child]))

    def probe(self) -> None:
        """A subscription of which its party waits to hear that it has spread, and publications just after that."""
        self.step("settle")
        server = self.random.choice(self.servers)
        self.step("subscribe", text="x any", spread=True, server=server, party=f"{server}/p0")
        self.publish_everywhere(12)

    def publish_everywhere(self, times: int) -> None:
        for _ in range(times):
            server = self.random.choice(self.servers)
            self.steps.append(Step(self.random.choice([0, 5, 30]), "publish", server, f"{server}/p1", "x = 1"))

    def crash(self) -> None:
        alive = [name for name in self.servers if name not in self.dead]
        if self.dead and self.random.random() < 0.6:
            self.step("restart", server=self.dead.pop(0))
        elif alive:
            server = self.random.choice(alive)
            self.dead.append(server)
            self.step("lose" if self.random.random() < 0.2 else "crash", server=server)

    def spoil_disk(self) -> None:
        """A bad disk, or a death at a bad moment."""
        server, draw = self.random.choice(self.servers), self.random.random()
        if self.dead and draw < 0.3:
            back = self.dead.pop(0)
            if self.random.random() < 0.5:
                self.wrong_clock(back)
            self.step("restart", server=back)
        elif draw < 0.45:
            self.step("full", server=server)
        elif draw < 0.55:
            self.step("room", server=server)
        else:
            self.kill(server, draw)

    def kill(self, server: str, draw: float) -> None:
        """A death that leaves the disk, at once or soon; so that it comes back, it counts as dead from now on."""
        if draw < 0.65:
            self.step("fail", server=server)
        elif draw < 0.75:
            self.step("tear", server=server)
        else:
            self.step(
                "crash-at", server=server, effect=self.random.choice(_EFFECTS), nth=self.random.choice([1, 1, 2, 3])
            )
        if server not in self.dead:
            self.dead.append(server)

    def connect(self, child: str) -> None:
        self.linked[child] = self.parents[child]
        self.step("connect", server=child, peer=self.parents[child])
