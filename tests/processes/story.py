"""What happens to a network of processes, by a seed: hundreds of parties, broken ways, and servers that are killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from palio.model import Advertisement, Filter, Notification, Pattern
from tests.processes.facts import Facts
from tests.processes.fleet import Fleet, Network, Proxy
from tests.processes.parties import PATIENCE, ClientParty, LostError, Party
from tests.serving import until

_FILTERS = (
    "x = {0}",
    "x > {0}",
    "x <= {0}",
    "x >= {0} and x < {1}",
    'y = "{2}"',
    'x > {0} and y = "{2}"',
    'y >* "{2}"',
    'y != "{2}" and x < {1}',
    "x >= {0} and z any",
)
_OFFERS = ("n any and x any and y any", "n any and x < {1} and y any", 'n any and x any and y = "{2}" and z any')
_TEXTS = ("p", "q", "pq", "r")
_MOST_NUMBERS = 1_000_000
"""Publications of one party."""
_LANE = 'lane = "{0}" and step = {1}'


class Numbered:
    """Notifications of one publisher, each with a number that nobody else uses."""

    def __init__(self, place: int) -> None:
        self._next = place * _MOST_NUMBERS

    def make(self, **attributes: int | str) -> Notification:
        self._next += 1
        return Notification(n=self._next, **attributes)


class Story:
    """A network, its parties, and what is known of them."""

    def __init__(self, fleet: Fleet, seed: int, parties: int) -> None:
        self._fleet = fleet
        self._seed = seed
        network = fleet.network
        is_causal = not {"gs", "ga"} & {*network.architecture.split("+")}
        self.facts = Facts(network.world(), is_causal=is_causal)
        self.random = Random(f"{seed} {network.architecture}")
        servers = network.servers
        self._parties = [Party(self.facts, f"party-{i}", servers[i % len(servers)]) for i in range(parties)]
        self._resting = {name: Party(self.facts, f"rest-{name}", name) for name in servers}
        """At each server one that tells whether all has come."""
        self._lanes = {name: Party(self.facts, f"lane-{name}", name) for name in servers}
        """Publishers of what patterns wait for."""
        self._watchers = [Party(self.facts, f"watcher-{i}", servers[i % len(servers)]) for i in range(2 * len(servers))]
        self._clients = [ClientParty(self.facts, f"client-{name}", name, fleet.doors[name].port) for name in servers]
        self.lines = [*self._parties, *self._resting.values(), *self._lanes.values(), *self._watchers]
        names = [*(each.name for each in self.lines), *(each.name for each in self._clients)]
        self._numbered = {name: Numbered(place) for place, name in enumerate(names)}
        self._rests = 0
        self._epochs = 0
        self.counts: Counter[str] = Counter()

    # -- beginning and end ---------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """All come, and say what they offer and want for good."""
        await self._links_are_up(connect=True)
        await asyncio.gather(*(self._connect(each) for each in self.lines if not each.is_connected))
        await asyncio.gather(*(each.client.connect() for each in self._clients))
        for party in (*self._resting.values(), *self._lanes.values()):
            offer = (
                "lane any and step any and n any and x any"
                if party in self._lanes.values()
                else "rest any and n any and x any"
            )
            await party.ask("advertise", Advertisement.parse(offer), wait=True)
        await asyncio.gather(
            *(party.ask("subscribe", Filter.parse("rest any"), wait=True) for party in self._resting.values())
        )
        for party in self._parties:
            random = Random(f"{self._seed} {party.name} offers")
            if random.random() < 0.7:
                await party.ask("advertise", Advertisement.parse(_OFFERS[0]))
        await self._watch_anew()
        await self.rest()

    async def end(self) -> None:
        for each in self.lines:
            each.close()
        await asyncio.gather(*(each.close() for each in self._clients))
        await until(lambda: not any(each.is_connected for each in self.lines))

    async def _connect(self, party: Party) -> None:
        await party.connect(self._fleet.servers[party.server].port)

    # -- rests ---------------------------------------------------------------------------------------------------------

    async def _links_are_up(self, *, connect: bool = False) -> None:
        """Wait until each server has the links that it should have."""
        for name, party in self._resting.items():
            if connect and not party.is_connected:
                await self._connect(party)
            expected = self._fleet.network.neighbours(name)
            async with asyncio.timeout(PATIENCE):
                while await party.links() != expected:
                    await asyncio.sleep(0.02)

    async def rest(self) -> None:
        """Wait until all has spread and come, and judge what happened.

        Behind all that was said before, waves go out from every server and come back; then a notification goes from
        every server to every other, behind all that were published before; then all parties read what was written.
        """
        await asyncio.gather(*(party.settled() for party in self.lines))
        await asyncio.gather(
            *(party.ask("subscribe", Filter.parse("rest any"), wait=True) for party in self._resting.values())
        )
        before = {name: party.received for name, party in self._resting.items()}
        self._rests += 1
        for party in self._resting.values():
            self._publish(party, [self._numbered[party.name].make(rest=self._rests, x=5)])
        count = len(self._resting)
        await until(
            lambda: all(each.received >= before[name] + count for name, each in self._resting.items()), PATIENCE
        )
        await asyncio.gather(*(each.catch_up() for each in self.lines), *(each.catch_up() for each in self._clients))
        problems = [*self.facts.rest(), *self._fleet.faults()]
        self.counts["rests"] += 1
        assert not problems, "\n".join(problems[:20])

    # -- what parties do -----------------------------------------------------------------------------------------------

    def _publish(self, party: Party, notifications: list[Notification]) -> None:
        party.publish(self._fleet.servers[party.server].lives, notifications)
        self.counts["publications"] += len(notifications)

    async def _act(self, party: Party, random: Random, count: int) -> None:
        """Some requests and publications of one party, one after the other."""
        with suppress(LostError):  # its server was killed
            for _ in range(count):
                match random.choices(
                    ["subscribe", "unsubscribe", "advertise", "unadvertise", "one", "block"], [5, 3, 1, 1, 6, 2]
                )[0]:
                    case "subscribe":
                        await party.ask("subscribe", _filter(random), wait=random.random() < 0.5)
                    case "unsubscribe":
                        held = [each for each in party.wishes if isinstance(each, Filter)]
                        await party.ask(
                            "unsubscribe", random.choice(held) if held and random.random() < 0.8 else _filter(random)
                        )
                    case "advertise" | "unadvertise" as operation:
                        await party.ask(operation, Advertisement.parse(_drawn(random.choice(_OFFERS), random)))
                    case "one":
                        self._publish(party, [self._drawn_notification(party.name, random)])
                        if random.random() < 0.5:
                            await party.settled()
                    case _:
                        self._publish(
                            party,
                            [self._drawn_notification(party.name, random) for _ in range(random.randrange(2, 12))],
                        )

    def _drawn_notification(self, name: str, random: Random) -> Notification:
        more = {"z": 1} if random.random() < 0.3 else {}
        return self._numbered[name].make(x=random.randrange(10), y=random.choice(_TEXTS), **more)

    async def _act_on_lane(self, party: Party, random: Random) -> None:
        with suppress(LostError):
            for _ in range(random.randrange(1, 5)):
                steps = [random.randrange(3) for _ in range(random.randrange(1, 12))]
                make = self._numbered[party.name].make
                self._publish(party, [make(lane=party.server, step=step, x=5) for step in steps])
                await party.settled()

    async def _act_as_client(self, client: ClientParty, random: Random) -> None:
        for _ in range(3):
            if random.random() < 0.5:
                await client.change(_filter(random))
            else:
                self.counts["publications"] += 1
                await client.publish(
                    self._fleet.servers[client.server].lives, self._drawn_notification(client.name, random)
                )

    async def _watch_anew(self) -> None:
        """Patterns that no publication has begun to meet, each of one lane."""
        servers = self._fleet.network.servers
        for i, party in enumerate(self._watchers):
            self.facts.unwatch(party.name)
            for each in [each for each in party.wishes if isinstance(each, Pattern)]:
                await party.ask("unsubscribe", each)
            lane = servers[(i + self._seed) % len(servers)]
            steps = self.random.choices(range(3), k=self.random.choice([2, 2, 3]))
            pattern = Pattern([Filter.parse(_LANE.format(lane, step)) for step in steps])
            await party.ask("subscribe", pattern, wait=True)
            self.facts.watch(party.name, pattern)

    async def serve(self) -> None:
        """Publications alone, of those who are there already: what parties hold stays as it is."""
        self._epochs += 1
        for party in (*self._parties, *self._lanes.values()):
            random = Random(f"{self._seed} {self._epochs} {party.name}")
            self._publish(party, [self._drawn_notification(party.name, random) for _ in range(3)])
        await self.rest()

    async def act(self, *, share: float = 0.25) -> None:
        """Many parties do something, all at the same time."""
        self._epochs += 1
        todo: list[Awaitable[None]] = []
        for party in self._parties:
            random = Random(f"{self._seed} {self._epochs} {party.name}")
            if random.random() < share:
                todo.append(self._act(party, random, random.randrange(1, 7)))
        todo += [
            self._act_on_lane(party, Random(f"{self._seed} {self._epochs} {party.name}"))
            for party in self._lanes.values()
        ]
        todo += [
            self._act_as_client(each, Random(f"{self._seed} {self._epochs} {each.name}")) for each in self._clients
        ]
        await asyncio.gather(*todo)

    # -- epochs --------------------------------------------------------------------------------------------------------

    async def calm(self) -> None:
        """Nothing is broken."""
        await self.act()
        await self.rest()

    async def cuts(self, times: int = 6) -> None:
        """Ways break and come back while all goes on: links say again what was lost, so nothing may be missing."""
        acting = asyncio.ensure_future(self.act())
        troubles: list[Callable[[Proxy], None]] = [Proxy.cut, Proxy.drop, Proxy.stall, Proxy.half_close]
        for _ in range(times):
            way = self.random.choice(list(self._fleet.ways.values()))
            self.random.choice(troubles)(way)
            self.counts["cuts"] += 1
            await asyncio.wait([acting], timeout=self.random.choice([0.01, 0.1, 0.3]))
            way.mend()
        await acting
        await self.rest()

    async def deaths(self, count: int = 1) -> None:
        """Servers are killed while all goes on, and start again; then nothing that was broken is broken any more."""
        acting = asyncio.ensure_future(self.act())
        await asyncio.wait([acting], timeout=self.random.choice([0.02, 0.1, 0.2]))
        victims = self.random.sample(sorted(self._fleet.servers), min(count, len(self._fleet.servers)))
        ways = self.random.sample(list(self._fleet.ways.values()), len(self._fleet.ways) // 3)
        for way in ways:
            self.random.choice([Proxy.cut, Proxy.stall])(way)
        for name in victims:
            self.facts.died(name)
            self.counts["kills"] += 1
            await self._fleet.servers[name].kill()
        await asyncio.wait([acting], timeout=0.2)
        for way in ways:
            way.mend()
        await asyncio.gather(*(self._fleet.servers[name].start() for name in victims))
        await acting
        await until(lambda: all(each.is_connected or each.server in victims for each in self.lines))
        back = [each for each in self.lines if each.server in victims]
        await until(lambda: not any(each.is_connected for each in back))
        await asyncio.gather(*(self._connect(each) for each in back))
        await asyncio.gather(
            *(each.say_again() for each in back),
            *(each.say_again() for each in self._clients if each.server in victims),
        )
        await self._links_are_up()
        await self._watch_anew()
        await self.rest()


def _drawn(text: str, random: Random) -> str:
    low = random.randrange(9)
    return text.format(low, random.randrange(low + 1, 10), random.choice(_TEXTS))


def _filter(random: Random) -> Filter:
    return Filter.parse(_drawn(random.choice(_FILTERS), random))


async def play(network: Network, folder: Path, seed: int, *, parties: int, rounds: int = 1) -> Counter[str]:
    """Calm, broken ways, killed servers, and calm again; so many times over."""
    async with Fleet(network, folder) as fleet:
        story = Story(fleet, seed, parties)
        try:
            await story.begin()
            for _ in range(rounds):
                await story.calm()
                if network.dials:
                    await story.cuts()
                await story.deaths(1 + seed % 2)
                await story.calm()
        finally:
            await story.end()
        story.counts["deliveries"] = len(story.facts.deliveries)
        story.counts["sequences"] = len(story.facts.sequences)
        return story.counts
