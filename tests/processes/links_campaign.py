"""The links campaign: servers whose links, stores and clocks are changed under load, and an end that is judged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.processes.kill_ledger import MOST_X, Book, Line, Wish
from tests.processes.links_fleet import NETWORKS, LinksFleet
from tests.processes.links_judge import LinksJudge, LinksVerdict, Subscriber
from tests.processes.links_mischief import LINK_SECONDS, Deed, Mischief
from tests.processes.links_operator import Operator
from tests.processes.links_programs import DurableSubscriber, PlainSubscriber, Publisher

_POLL = 0.05
_LATE_SECONDS = 60.0
"""A link that is down for a reason may come up so much later."""


class Plan(NamedTuple):
    """What a campaign is like."""

    seed: int
    network: str = "as"
    seconds: float = 180.0
    """No deed begins later than that."""
    kinds: tuple[str, ...] = ()
    """The kinds of deeds, in this order and each once; by default all, in an order by the seed, again and again."""
    without_store: tuple[str, ...] | None = None
    """Servers without a store; by default the seed says."""
    rate: float = 10.0
    """Publications a second of each publisher."""
    batch: int = 10
    """Publications of each publisher while the network is whole."""
    patience: float = 30.0
    """If nothing has come for so many seconds in a network that is whole, nothing will."""
    program: str = "palio"
    """What is run as a server."""

    def servers_without_store(self) -> tuple[str, ...]:
        """By the seed: three runs of four have one.

        >>> Plan(1).servers_without_store(), Plan(3).servers_without_store()
        (('a2',), ())
        """
        if self.without_store is not None:
            return self.without_store
        return () if self.seed % 4 == 3 else ("a2",)


class Stretch:
    """A part of a campaign: one network from its start until a link stays down or something is lost."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None], number: int) -> None:
        folder.mkdir()
        self._plan, self._folder, self._say = plan, folder, say
        self.fleet = LinksFleet(NETWORKS[plan.network], folder, plan.servers_without_store(), plan.program)
        self._operator = Operator(self.fleet, say)
        self._mischief = Mischief(self.fleet, self._operator, self, Random(f"{plan.seed} {number} mischief"))
        random = Random(f"{plan.seed} {number} programs")
        servers = [name for name in self.fleet.network.servers if self.fleet.stores[name] is not None]
        publishers = {f"p{i}": server for i, server in enumerate(servers)}
        subscribers = _subscribers(self.fleet, [*publishers], random)
        self.judge = LinksJudge(publishers, subscribers)
        self._publishers = [
            Publisher(
                name, server, partial(self.fleet.url, server), self._book(name), f"{plan.seed} {number}", plan.rate
            )
            for name, server in publishers.items()
        ]
        self._subscribers = [
            (DurableSubscriber if each.is_durable else PlainSubscriber)(
                name, each.server, partial(self.fleet.url, each.server), self._book(name), each.wish
            )
            for name, each in subscribers.items()
        ]
        self._disturbed: set[str] = set()
        """Servers whose plain subscribers may have missed something that was promised."""
        self._barrier = 0
        self.rounds = 0
        self.unexplained = self.explained = 0

    def _book(self, name: str) -> Callable[[Line], None]:
        """How a program writes down what it does."""
        book = Book(self._folder / f"{name}.ledger")

        def write(line: Line) -> None:
            book.write(line)
            self.judge.take(name, line)

        return write

    @property
    def _programs(self) -> list[Publisher | DurableSubscriber | PlainSubscriber]:
        return [*self._publishers, *self._subscribers]

    # -- the course of it ----------------------------------------------------------------------------------------------

    async def run(self, kinds: Sequence[str], is_over: Callable[[], bool]) -> int:
        """Do deeds of these kinds, one round for each; how many were done before the network was beyond repair."""
        async with self.fleet:
            try:
                for program in self._programs:
                    program.start()
                is_whole = await self._links_come_up() and await self._spread()
                while is_whole and self.rounds < len(kinds) and not is_over():
                    is_whole = await self._round(kinds[self.rounds])
                    self.rounds += 1
                if is_whole:
                    await self._calm(is_last=True)
                return self.rounds
            finally:
                await asyncio.gather(*(program.stop() for program in self._programs))

    async def _round(self, kind: str) -> bool:
        """One deed; whether the network is whole again and has lost nothing."""
        makers = self._mischief.deeds()
        if kind not in makers:
            return True
        deed = makers[kind]()
        self._say(f"round {self.rounds + 1}: {deed.name}" + ("" if deed.is_promised else " (may lose)"))
        self._operator.done.clear()
        if not await self._calm(is_last=not deed.is_promised):
            return False
        self.judge.is_promised = deed.is_promised
        self._disturbed |= deed.disturbed
        self._switch(is_on=True)
        await deed.do()
        self._report_unexplained(deed)
        if not await self._links_come_up():
            return False
        await self._settle()
        has_spread = await self._spread()
        return await self._delivered(deed) and has_spread and self._is_good_so_far()

    async def _calm(self, *, is_last: bool) -> bool:
        """Publish a batch while the network is whole; if it is the last of what is promised, wait until it has come."""
        self.judge.is_promised = True
        await asyncio.gather(*(self._publish_batch(each) for each in self._publishers))
        if not is_last:
            return True
        await self._settle()
        return await self._delivered(None)

    async def _publish_batch(self, publisher: Publisher) -> None:
        client = publisher.client
        if client is not None:
            await publisher.publish(client, self._plan.batch)

    def _switch(self, *, is_on: bool) -> None:
        for each in self._publishers:
            (each.is_on.set if is_on else each.is_on.clear)()

    async def _settle(self) -> None:
        """Publishers stop, and everything is acknowledged or refused."""
        self._switch(is_on=False)
        if not await self._wait(lambda: self.judge.is_settled):
            unsettled = [each.name for each in self.judge.publishers.values() if not each.is_settled]
            self.judge.problems.append(f"the network is whole, and {unsettled} wait for acknowledgements")

    async def _delivered(self, deed: Deed | None) -> bool:
        """Everything that was promised has come; whether it has."""
        self.judge.is_promised = False
        await self._wait(lambda: not self.judge.missing(self._disturbed))
        lost = self.judge.close_round(self._disturbed)
        self._disturbed.clear()
        if lost:
            self._say(f"LOST {lost}, {deed.name if deed else 'while the network was whole'}: {self.judge.problems[-1]}")
        return not lost

    async def _wait(self, condition: Callable[[], bool]) -> bool:
        """Wait until something is so; false if nothing has happened in the ledger for too long."""
        last, count = time.monotonic(), -1
        while not condition():
            verdict = self.judge.verdict()
            now = time.monotonic()
            if (verdict.delivered + verdict.acknowledged) != count:
                last, count = now, verdict.delivered + verdict.acknowledged
            elif now - last > self._plan.patience:
                return False
            await asyncio.sleep(_POLL)
        return True

    async def _spread(self) -> bool:
        """Wait until advertisements and then subscriptions have spread over all links: then delivery is promised."""
        self._barrier += 1
        groups: list[Sequence[Publisher | DurableSubscriber | PlainSubscriber]] = [self._publishers, self._subscribers]
        for group in groups:
            try:
                async with asyncio.timeout(self._plan.patience):
                    await asyncio.gather(*(each.has_spread(self._barrier) for each in group))
            except TimeoutError:
                self.judge.problems.append(f"subscriptions do not spread after {self._operator.done}")
                self._say(self.judge.problems[-1])
                return False
        return True

    # -- links ---------------------------------------------------------------------------------------------------------

    def _report_unexplained(self, deed: Deed) -> None:
        for text in self._mischief.unexplained:
            self.unexplained += 1
            self._say(f"UNEXPLAINED {text}; {deed.name}: {'; '.join(self._operator.done)}")
        self._mischief.unexplained.clear()

    async def _links_come_up(self) -> bool:
        """All links must be up in time; whether they are. Those that say why not get some more time."""
        places, dials = self._operator.places(), self.fleet.network.dials
        done = "; ".join(self._operator.done)
        late = await self._operator.not_up(dials, LINK_SECONDS, places)
        for link in late:
            self._say(f"{'DOWN' if link.is_explained else 'UNEXPLAINED'} {link}; before that: {done}")
        self.unexplained += sum(not link.is_explained for link in late)
        self.explained += sum(link.is_explained for link in late)
        if not all(link.is_explained for link in late):
            return False
        return not late or not await self._operator.not_up(dials, _LATE_SECONDS, places)

    def _is_good_so_far(self) -> bool:
        verdict = self.judge.verdict()
        return not (verdict.twice or verdict.disordered)

    # -- what deeds need of programs -----------------------------------------------------------------------------------

    async def settle_publishers(self, server: str) -> None:
        """Let the publishers of a server pause, and wait until nothing of theirs is under way."""
        for each in self._publishers:
            if each.server == server:
                each.is_on.clear()
        records = [self.judge.publishers[each.name] for each in self._publishers if each.server == server]
        await self._wait(lambda: all(each.is_settled for each in records))

    async def resume_publishers(self, server: str) -> None:
        """Let them go on."""
        for each in self._publishers:
            if each.server == server:
                each.is_on.set()

    async def restart_subscribers(self, server: str, *, is_restored: bool) -> None:
        """Restart the durable subscribers of a server, because its store is another one, or an old copy."""
        for each in self._subscribers:
            if each.server == server and isinstance(each, DurableSubscriber):
                await each.stop()
                if is_restored:
                    self.judge.subscribers[each.name].restored()
                each.start()

    def verdict(self) -> LinksVerdict:
        """The result."""
        errors = [text for each in self._programs for text in each.unexpected]
        said = self.judge.verdict()
        return said._replace(
            links_down_unexplained=self.unexplained,
            links_down_explained=self.explained,
            rounds=self.rounds,
            problems=(*said.problems, *self.judge.contradictions(), *errors, *self.fleet.faults()),
        )


def _subscribers(fleet: LinksFleet, publishers: Sequence[str], random: Random) -> dict[str, Subscriber]:
    """A durable subscriber at each server with a store, and a plain one at each server."""
    made = {}
    for place, server in enumerate(fleet.network.servers):
        low = random.randrange(MOST_X // 2)
        wishes = [Wish(), Wish(random.choice(publishers)), Wish(None, low, low + MOST_X // 2)]
        if fleet.stores[server] is not None:
            made[f"d{place}"] = Subscriber(server, wishes[place % 3], True)
        made[f"s{place}"] = Subscriber(server, wishes[(place + 1) % 3], False)
    return made


class LinksCampaign:
    """One campaign: as many networks as it takes."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None]) -> None:
        self._plan, self._folder, self._say = plan, folder, say

    async def run(self) -> LinksVerdict:
        """All of it; the result."""
        plan, began = self._plan, time.monotonic()
        random, verdict, kinds, number = Random(f"{plan.seed} order"), LinksVerdict(), [*plan.kinds], 0

        def is_over() -> bool:
            return not plan.kinds and time.monotonic() - began >= plan.seconds

        while (kinds or not plan.kinds) and not is_over():
            stretch = Stretch(plan, self._folder / str(number), self._say, number)
            if not plan.kinds and not kinds:
                kinds = random.sample(KINDS, len(KINDS))
            done = await stretch.run(kinds, is_over)
            kinds = kinds[max(done, 1) :]
            verdict, number = verdict.plus(stretch.verdict()), number + 1
            self._say(f"so far: {line(verdict)}")
        return verdict


KINDS = (
    "kill", "restart", "stop", "cut", "reload", "twin", "clock", "clock-without-store", "remove-at-dialer",
    "remove-at-acceptor", "remove-dead", "remove-stopped", "left-out", "url", "no-store", "empty-store",
    "snapshot", "backup", "cycle",
)  # fmt: skip
"""All kinds of deeds; a kind that a network has no use for does nothing."""


def line(verdict: LinksVerdict) -> dict[str, int]:
    """What the last line says."""
    return {name: value for name, value in verdict._asdict().items() if name != "problems"}
