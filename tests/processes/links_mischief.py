"""What operators, crashes and clocks do to links in the links campaign: one deed at a time, by a seed.

A deed includes its repair, by the means that the documentation gives to operators. After it all links of the network
have to come up by themselves.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import NamedTuple, Protocol

from tests.processes.fleet import Proxy
from tests.processes.links_fleet import LinksFleet
from tests.processes.links_operator import Operator, links_of, reason_in_log

LINK_SECONDS = 15.0
"""Within so many seconds a link must be up, or both ends must say why not."""
CYCLE_SECONDS = 10.0
"""Within so many seconds a link must be up that was refused for a cycle, after the cycle has gone."""


class Deed(NamedTuple):
    """Something that happens to a network."""

    name: str
    is_promised: bool
    """Whether publications that are under way must arrive all the same."""
    disturbed: frozenset[str]
    """Servers at which subscribers lose their connections, and servers whose stores change."""
    do: Callable[[], Awaitable[None]]


class Programs(Protocol):
    """The applications, as far as deeds concern them."""

    async def settle_publishers(self, server: str) -> None:
        """Let the publishers of a server pause, and wait until nothing of theirs is under way."""

    async def resume_publishers(self, server: str) -> None:
        """Let them go on."""

    async def restart_subscribers(self, server: str, *, is_restored: bool) -> None:
        """Restart the durable subscribers of a server, because its store is another one, or an old copy."""


class Mischief:
    """Chooses deeds: all kinds once, in any order, and then again."""

    def __init__(self, fleet: LinksFleet, operator: Operator, programs: Programs, random: Random) -> None:
        self._fleet = fleet
        self._operator = operator
        self._programs = programs
        self._random = random
        self.unexplained: list[str] = []
        """Links that were down while a deed went on, and nothing said why."""

    def deeds(self) -> dict[str, Callable[[], Deed]]:
        """All kinds."""
        return {
            "kill": self._kill,
            "restart": self._restart,
            "stop": self._stop,
            "cut": self._cut,
            "reload": self._reload,
            "twin": self._twin,
            "clock": lambda: self._clock(self._with_store()),
            "remove-at-dialer": lambda: self._remove(at_dialer=True),
            "remove-at-acceptor": lambda: self._remove(at_dialer=False),
            "remove-dead": lambda: self._remove_absent(signal.SIGKILL),
            "remove-stopped": lambda: self._remove_absent(signal.SIGSTOP),
            "left-out": self._leave_out,
            "url": self._change_url,
            "no-store": lambda: self._other_store(is_empty=False),
            "empty-store": lambda: self._other_store(is_empty=True),
            "snapshot": lambda: self._old_store(is_copied=True),
            "backup": lambda: self._old_store(is_copied=False),
            "cycle": self._cycle,
            **({"clock-without-store": lambda: self._clock(self._without_store())} if self._without_store() else {}),
        }

    # -- choices -------------------------------------------------------------------------------------------------------

    def _with_store(self) -> list[str]:
        return [name for name, store in self._fleet.stores.items() if store is not None]

    def _without_store(self) -> list[str]:
        return [name for name, store in self._fleet.stores.items() if store is None]

    def _server(self, among: Sequence[str] = ()) -> str:
        return self._random.choice(among or self._fleet.network.servers)

    def _pair(self) -> tuple[str, str]:
        return self._random.choice(self._fleet.network.dials)

    def _keeps(self, server: str) -> bool:
        return self._fleet.stores[server] is not None

    async def _linger(self, least: float = 0.3, most: float = 2.0) -> None:
        """Let load go on for a while."""
        await asyncio.sleep(self._random.uniform(least, most))

    # -- deeds that promise that nothing gets lost ---------------------------------------------------------------------

    async def _end(self, server: str, number: int) -> None:
        self._operator.note(f"{server}: {signal.Signals(number).name}")
        await self._fleet.end(server, number)

    async def _begin(self, server: str, *, shifted: int = 0) -> None:
        store = self._fleet.stores[server]
        clock = f", clock {shifted:+} s" if shifted else ""
        self._operator.note(f"{server}: started{f', store {store}' if store else ', without a store'}{clock}")
        await self._fleet.begin(server, shifted=shifted)

    async def _look_at_loss(self, server: str) -> None:
        """All neighbours of a server that is dead or stands still must show that in their metrics."""
        for neighbour in self._fleet.network.neighbours(server):
            shown = await self._operator.shows_down(neighbour, server)
            if shown:
                self.unexplained.append(shown)

    def _kill(self) -> Deed:
        server = self._server()

        async def do() -> None:
            await self._end(server, signal.SIGKILL)
            await self._look_at_loss(server)
            await self._begin(server)

        return Deed(f"kill {server}", self._keeps(server), frozenset({server}), do)

    def _restart(self) -> Deed:
        servers = self._random.sample(self._fleet.network.servers, self._random.choice([1, 2]))

        async def do() -> None:
            for server in servers:
                await self._end(server, signal.SIGTERM)
            for server in servers:
                await self._begin(server)

        return Deed(f"restart {' '.join(servers)}", all(map(self._keeps, servers)), frozenset(servers), do)

    def _stop(self) -> Deed:
        server = self._server()

        async def do() -> None:
            self._operator.note(f"{server}: SIGSTOP")
            self._fleet.servers[server].signal(signal.SIGSTOP)
            try:
                await self._look_at_loss(server)
            finally:
                self._fleet.servers[server].signal(signal.SIGCONT)
            self._operator.note(f"{server}: SIGCONT")

        return Deed(f"stop {server}", True, frozenset({server}), do)

    def _cut(self) -> Deed:
        pairs = self._random.sample(self._fleet.network.dials, 2)

        async def do() -> None:
            for pair in pairs:
                trouble = self._random.choice([Proxy.cut, Proxy.drop, Proxy.stall, Proxy.half_close])
                self._operator.note(f"connection {' - '.join(pair)}: {trouble.__name__}")
                trouble(self._fleet.way(*pair))
            await self._linger(0.3, 6.0)
            for pair in pairs:
                self._fleet.way(*pair).mend()
            self._operator.note("connections mended")

        return Deed(f"cut {' '.join(map('-'.join, pairs))}", True, frozenset(), do)

    def _reload(self) -> Deed:
        async def do() -> None:
            for server in self._fleet.network.servers:
                await self._operator.reload(server)
                await self._linger(0.1, 0.5)

        return Deed("reload all", True, frozenset(), do)

    def _clock(self, among: Sequence[str]) -> Deed:
        """Keys of publications are remembered for an hour, so the clock goes forward by less."""
        server, seconds = self._server(among), self._random.choice([-3600, -3600, 1800])

        async def do() -> None:
            await self._end(server, signal.SIGTERM)
            await self._begin(server, shifted=seconds)
            await self._expect_up(server)
            await self._linger()
            await self._end(server, signal.SIGTERM)
            await self._begin(server)

        return Deed(f"clock of {server} {seconds:+} s", self._keeps(server), frozenset({server}), do)

    async def _expect_up(self, server: str) -> None:
        """The links of a server must come up though it is not as it was."""
        pairs = [pair for pair in self._fleet.network.dials if server in pair]
        places = self._operator.places()
        for link in await self._operator.unexplained(pairs, LINK_SECONDS, places):
            self.unexplained.append(str(link))

    def _twin(self) -> Deed:
        server = self._server([who for who, _ in self._fleet.network.dials])

        async def do() -> None:
            self._operator.note(f"a second server {server} starts")
            twin = await self._fleet.begin_twin(server)
            end = time.monotonic() + LINK_SECONDS
            silent = self._fleet.dialed_by(server)
            while silent and time.monotonic() < end:
                links = await links_of(f"palio://127.0.0.1:{twin.port}") or {}
                silent = [
                    peer
                    for peer in silent
                    if "taken" not in links.get(peer, {"reason": ""})["reason"] + reason_in_log(twin, peer, 0)
                ]
                await asyncio.sleep(0.1)
            for peer in silent:
                self.unexplained.append(f"a second live {server} was not told by {peer} that its name is taken")
            await twin.kill(self._random.choice([signal.SIGTERM, signal.SIGKILL]))
            self._operator.note(f"the second server {server} has ended")

        return Deed(f"second {server}", True, frozenset(), do)

    # -- deeds of operators, while which publications may get lost -----------------------------------------------------

    def _remove(self, *, at_dialer: bool) -> Deed:
        pair = self._pair()
        server, neighbour = pair if at_dialer else pair[::-1]

        async def do() -> None:
            places = self._operator.places()
            await self._operator.remove(server, neighbour)
            await self._linger()
            if not at_dialer:
                for link in await self._operator.unexplained([pair], LINK_SECONDS, places):
                    self.unexplained.append(f"removed at the accepting side: {link}")
            await self._put_back(server, neighbour)

        return Deed(f"remove {neighbour} at {server}", False, frozenset(), do)

    async def _put_back(self, server: str, neighbour: str) -> None:
        """By one of the three documented means."""
        means = self._random.choice(["add", "add", "reload", "restart"])
        if means == "add":
            await self._operator.add(server, neighbour)
        elif means == "reload":
            await self._operator.reload(server)
        else:
            await self._end(server, signal.SIGTERM)
            await self._begin(server)

    def _remove_absent(self, number: int) -> Deed:
        """An operator removes a neighbour that is dead or stands still, and adds it again, before or after that."""
        pair = self._pair()
        server, neighbour = self._random.choice([pair, pair[::-1]])
        is_added_first = self._random.random() < 0.5

        async def come_back() -> None:
            if number == signal.SIGSTOP:
                self._fleet.servers[neighbour].signal(signal.SIGCONT)
                self._operator.note(f"{neighbour}: SIGCONT")
            else:
                await self._begin(neighbour)

        async def do() -> None:
            self._operator.note(f"{neighbour}: {signal.Signals(number).name}")
            if number == signal.SIGSTOP:
                self._fleet.servers[neighbour].signal(number)
            else:
                await self._fleet.end(neighbour, number)
            await self._operator.remove(server, neighbour)
            await self._linger()
            if is_added_first:
                await self._operator.add(server, neighbour)
                await come_back()
            else:
                await come_back()
                await self._linger()
                await self._operator.add(server, neighbour)

        return Deed(f"remove {neighbour} at {server} while it is away", False, frozenset({neighbour}), do)

    def _leave_out(self) -> Deed:
        pair = self._pair()

        async def do() -> None:
            self._operator.note(f"the file of {pair[0]} has no {pair[1]}")
            self._fleet.left_out.add(pair)
            await self._operator.reload(pair[0])
            await self._linger()
            self._fleet.left_out.discard(pair)
            self._operator.note(f"the file of {pair[0]} has {pair[1]} again")
            await self._operator.reload(pair[0])

        return Deed(f"leave {pair[1]} out of the file of {pair[0]}", False, frozenset(), do)

    def _change_url(self) -> Deed:
        pair = self._pair()

        async def do() -> None:
            self._fleet.is_detoured ^= {pair}
            self._operator.note(f"the file of {pair[0]} has another url of {pair[1]}")
            await self._operator.reload(pair[0])

        return Deed(f"url of {pair[1]} at {pair[0]}", False, frozenset(), do)

    def _cycle(self) -> Deed:
        """Add a link that would close a cycle, remove another one of the cycle; then the same the other way round.

        In networks with cycles the link comes up at once.
        """
        is_tree = self._fleet.network.architecture not in ("gs", "ga")
        who, whom = chord = ("a0", "a3") if is_tree else ("a1", "a3")
        other = ("a3", "a1") if is_tree else ("a2", "a1")
        role = "master" if self._fleet.network.architecture == "hs" else "peer"

        async def do() -> None:
            await self._operator.dial(who, whom, self._fleet.url(whom), role)
            if is_tree:
                await self._operator.refused_often(*chord)
            await self._operator.remove(*other)
            places = self._operator.places()
            for link in await self._operator.not_up([chord], CYCLE_SECONDS, places):
                self.unexplained.append(f"the link would not close a cycle any more: {link}")
            await self._linger()
            await self._operator.add(*other)
            await self._linger()
            await self._operator.remove(*chord)

        return Deed("cycle", False, frozenset(), do)

    # -- stores --------------------------------------------------------------------------------------------------------

    def _other_store(self, *, is_empty: bool) -> Deed:
        server = self._server(self._with_store())

        async def do() -> None:
            await self._programs.settle_publishers(server)
            await self._end(server, signal.SIGTERM)
            if is_empty:
                self._fleet.use_empty_store(server)
            else:
                self._fleet.stores[server] = None
            await self._begin(server)
            await self._programs.restart_subscribers(server, is_restored=False)
            await self._programs.resume_publishers(server)
            await self._expect_up(server)
            await self._linger()
            await self._programs.settle_publishers(server)
            await self._end(server, self._random.choice([signal.SIGTERM, signal.SIGKILL]))
            self._fleet.stores[server] = "own"
            await self._begin(server)
            await self._programs.restart_subscribers(server, is_restored=False)
            await self._programs.resume_publishers(server)

        name = f"{server} with an empty store" if is_empty else f"{server} without its store"
        return Deed(name, False, frozenset({server}), do)

    def _old_store(self, *, is_copied: bool) -> Deed:
        """Replace the store of a server by an older copy of its folder, or by a backup that Palio has made."""
        server = self._server(self._with_store())

        async def do() -> None:
            if is_copied:
                await self._end(server, signal.SIGTERM)
                self._fleet.take_snapshot(server)
                self._operator.note(f"{server}: its store is copied")
                await self._begin(server)
                await self._expect_up(server)
            else:
                backup = await self._operator.back_up(server)
            await self._linger(1.0, 3.0)
            await self._programs.settle_publishers(server)
            await self._end(server, signal.SIGTERM)
            if is_copied:
                self._fleet.restore_snapshot(server)
                self._operator.note(f"{server}: its store is the copy from before")
            else:
                await self._operator.restore(server, backup)
            await self._begin(server)
            await self._programs.restart_subscribers(server, is_restored=True)
            await self._programs.resume_publishers(server)

        name = f"{server} with a copy of its store" if is_copied else f"{server} with a backup of its store"
        return Deed(name, False, frozenset({server}), do)
