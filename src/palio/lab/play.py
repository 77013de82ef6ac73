"""Plays a scenario in the simulator: objects advertise and publish, parties subscribe, and every message is traced."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from palio.lab.scenario import ObjectGroup, PartyGroup, Scenario, check_scenario
from palio.lab.tally import Tally
from palio.model import Advertisement, Filter, Notification
from palio.node import ports
from palio.node.node import NodeSettings
from palio.node.ports import Deliver, Output
from palio.routing.router import Role
from palio.sim.engine.trace import TracedCluster, TraceEntry

_KIND = "class"
"""The attribute that says of which class an event is."""


class _Object:
    """An object of interest: advertise, publish so many times, unadvertise; and so on."""

    def __init__(self, play: Play, name: str, group: ObjectGroup) -> None:
        self._play, self._name, self._group = play, name, group
        event = group.event
        self._cycle: list[ports.Operation] = [
            ports.Advertise(Advertisement.parse(f'{_KIND} = "{event}"')),
            *[ports.Publish(Notification({_KIND: event}))] * group.publications,
            ports.Unadvertise(Advertisement.parse(f'{_KIND} = "{event}"')),
        ]
        self._step = 0

    def act(self) -> None:
        """Do the next thing, and plan the one after it."""
        cycles, step = divmod(self._step, len(self._cycle))
        if cycles == self._group.cycles:
            return
        self._step += 1
        self._play.request(self._name, f"S@{self._group.server}", self._cycle[step])
        self._play.after(self._group.delay.draw(self._play.random), self.act)


class _Party:
    """An interested party: subscribe, wait for so many notifications or so long, unsubscribe; and so on."""

    def __init__(self, play: Play, name: str, group: PartyGroup) -> None:
        self._play, self._name, self._group = play, name, group
        made = Filter.parse(f'{_KIND} = "{group.pattern}"')
        self._filter = play.filters.setdefault(group.pattern, made)
        self._cycles = 0
        self._missing: int | None = None
        """How many notifications are still waited for."""

    def subscribe(self) -> None:
        """A cycle begins, unless there were enough."""
        if self._cycles == self._group.cycles:
            return
        self._cycles += 1
        self._missing = self._group.notifications
        self._play.request(self._name, f"S@{self._group.server}", ports.Subscribe(self._filter))
        if self._group.time is not None:
            self._play.after(self._group.time.draw(self._play.random), self._unsubscribe)

    def notice(self) -> None:
        """A notification has come; those that come after the last one that was waited for do not count."""
        if self._missing:
            self._missing -= 1
            if not self._missing:
                self._unsubscribe()

    def _unsubscribe(self) -> None:
        self._play.request(self._name, f"S@{self._group.server}", ports.Unsubscribe(self._filter))
        self.subscribe()


def _notice_all(parties: list[_Party]) -> None:
    for party in parties:
        party.notice()


class Play(TracedCluster):
    """A scenario that is being played. Time is in the units of the scenario's latencies.

    >>> from palio.lab.scenario import Delay, Objects, Parties, Specification, expand
    >>> from palio.lab.topology import Cable, Topology
    >>> line = Topology(("s0", "s1"), (Cable("s0", "s1", 3),))
    >>> specification = Specification("as", (Objects("A", 1, 2, Delay(100), 1),), (Parties("A", 1, 1, Delay(0), 2),))
    >>> trace = Play(expand(specification, line, Random(4)), 1).run()
    >>> [entry.type for entry in trace if entry.cost]
    ['subscribe', 'notification', 'notification', 'unsubscribe']
    """

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        record: Callable[[TraceEntry], object] | None = None,
        tally: Tally | None = None,
    ) -> None:
        """With a tally, and without anybody who records them, messages are only added up: that is much faster."""
        check_scenario(scenario)
        self.random = Random(f"play {seed}")
        self._tally = tally
        self._parties: dict[str, _Party] = {}
        self.filters: dict[str, Filter] = {}
        """By the class of events that they match: tables find the same one faster than an equal one."""
        places = {f"S@{site}": site for site in scenario.servers}
        super().__init__(scenario.topology.sites(), places, self.random, record)
        # what a run of millions of messages cannot keep; the trace has it all
        self.deliveries, self.hops, self.answers = deque(maxlen=0), deque(maxlen=0), deque(maxlen=0)
        self._connect(scenario)
        begin = self.scheduler.now
        parties = [group for group in scenario.parties for _ in range(group.number)]
        for number, party_group in enumerate(parties):
            self.place(f"p{number}", party_group.site)
            party = self._parties[f"p{number}"] = _Party(self, f"p{number}", party_group)
            self.scheduler.at(begin + party_group.initial, party.subscribe)
        objects = [group for group in scenario.objects for _ in range(group.number)]
        for number, object_group in enumerate(objects):
            self.place(f"o{number}", object_group.site)
            self.scheduler.at(begin, _Object(self, f"o{number}", object_group).act)

    def _connect(self, scenario: Scenario) -> None:
        role = Role.MASTER if scenario.architecture == "hs" else Role.PEER
        for site in scenario.servers:
            self.start(NodeSettings(f"S@{site}", scenario.architecture))
        for one, other in scenario.links:
            self.give(f"S@{one}", [ports.Connect(f"S@{other}", role)])
        self.settle(most=1 << 62)

    def run(self) -> list[TraceEntry]:
        """Play it to its end; all messages, unless somebody else records them."""
        self.settle(most=1 << 62)
        return self.trace

    def after(self, delay: int, what: Callable[[], None]) -> None:
        """Do something later."""
        self.scheduler.at(self.scheduler.now + delay, what)

    def _write(self, kind: str, service: int, source: str, target: str) -> int:
        tally = self._tally
        if tally is None:
            arrival = super()._write(kind, service, source, target)
            party = self._parties.get(target)
            if party is not None:
                self.scheduler.at(arrival, party.notice)
            return arrival
        here, there = self._places[source], self._places[target]
        way, now = self._sites.way(here, there), self.scheduler.now
        if self._messages == service:
            tally.begin(service, kind, now)
        self._messages += 1
        arrival = now + way.latency
        tally.follow(service, here, there, arrival, way.cost)
        return arrival

    def _take(self, server: str, output: Output) -> None:
        if self._tally is None or not isinstance(output, Deliver):
            super()._take(server, output)
            return
        here, now = self._places[server], self.scheduler.now
        by_site: dict[str, list[_Party]] = {}
        for name in output.parties:
            by_site.setdefault(self._places[name], []).append(self._parties[name])
        self._messages += len(output.parties)
        for there, parties in by_site.items():
            way = self._sites.way(here, there)
            self._tally.follow(self._service, here, there, now + way.latency, way.cost, len(parties))
        if len(by_site) == 1:
            ((there, parties),) = by_site.items()
            self.scheduler.at(now + self._sites.way(here, there).latency, _notice_all, parties)
            return
        for name in output.parties:  # in their order, also where they get it at the same time
            latency = self._sites.way(here, self._places[name]).latency
            self.scheduler.at(now + latency, self._parties[name].notice)
