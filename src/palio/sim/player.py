"""Plays a history on a cluster, and keeps the facts."""

from __future__ import annotations

from random import Random

from palio.errors import InternalError
from palio.link.session import LinkSettings
from palio.model import Advertisement, Filter, Notification
from palio.model.envelope import NotificationId
from palio.node import ports
from palio.node.node import NodeSettings
from palio.routing.router import Role
from palio.sim.cluster import Cluster
from palio.sim.history import History, Step
from palio.sim.network import FAIR
from palio.sim.record import Epoch, PartyRecord, Publication

_MOST_EVENTS = 200_000
"""A history of some dozens of steps that needs more events to come to rest never will."""

_PACES = ((64, 256), (1, 1), (2, 4))
"""Messages in a frame and on their way, by seed: where all travels in one frame, nothing in it can be overtaken."""


class Player:
    """One run of a history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.cluster = Cluster(Random(history.seed), self._latency)
        self.parties: dict[str, PartyRecord] = {}
        self.epochs: list[Epoch] = [Epoch(0)]
        self.unanswered: dict[tuple[str, int], Step] = {}
        self.operations = 0
        self._lives: dict[str, int] = {}
        self._published: dict[str, int] = {}
        self._wishes: dict[str, dict[str, Role]] = {server: {} for server in history.servers}
        """The links that each server is configured to open."""
        self._seen_answers = self._seen_links = 0
        for server in history.servers:
            self._start(server)

    def _latency(self, source: str, target: str) -> int:
        low, high = sorted((source, target))
        return Random(f"{self.history.seed} {low} {high}").randrange(1, 40)

    @property
    def epoch(self) -> Epoch:
        """Since the last rest."""
        return self.epochs[-1]

    @property
    def moment(self) -> int:
        """How many steps were taken."""
        return self.cluster.moment

    # -- steps ---------------------------------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """Let the time before a step pass, and do it."""
        self.cluster.scheduler.run(until=self.cluster.scheduler.now + step.wait)
        self._look()
        self.cluster.moment += 1
        match step.do:
            case "settle":
                self._settle()
            case "weather":
                self.cluster.network.weather = step.weather or FAIR
            case "cut":
                self.cluster.network.cut(step.server, step.peer)
            case "crash":
                self._crash(step.server)
            case "restart":
                self._restart(step.server)
            case "connect" | "disconnect":
                self._link(step)
            case _:
                self._request(step)
        self._look()

    def _start(self, server: str) -> None:
        life = self._lives[server] = self._lives.get(server, -1) + 1
        self._published[server] = 0
        frame, window = Random(f"{self.history.seed} pace").choice(_PACES)
        links = LinkSettings(retransmit=100, most_patience=800, acknowledge=10, frame=frame, window=window)
        self.cluster.start(NodeSettings(server, self.history.architecture, life, links))

    def _crash(self, server: str) -> None:
        if server not in self.cluster.nodes:
            return
        self.cluster.crash(server)
        self.epoch.is_disturbed = True
        self.epoch.died.add(server)
        for name, party in self.parties.items():
            if party.server == server:
                party.forget(self.moment)
                self.unanswered = {key: step for key, step in self.unanswered.items() if key[0] != name}

    def _restart(self, server: str) -> None:
        if server in self.cluster.nodes:
            return
        self.epoch.is_disturbed = True
        self._start(server)
        self.cluster.give(server, [ports.Connect(peer, role) for peer, role in self._wishes[server].items()])
        for other in self.cluster.nodes:
            self.cluster.give(other, [ports.Doubt(server)])

    def _link(self, step: Step) -> None:
        if step.server not in self.cluster.nodes:
            return
        self.epoch.is_disturbed = True
        self.operations += 1
        if step.do == "connect":
            role = Role.MASTER if self.history.architecture == "hs" else Role.PEER
            self._wishes[step.server][step.peer] = role
            self.cluster.give(step.server, [ports.Connect(step.peer, role)])
        else:
            self._wishes[step.server].pop(step.peer, None)
            self._wishes[step.peer].pop(step.server, None)
            self.cluster.give(step.server, [ports.Disconnect(step.peer)])

    def _request(self, step: Step) -> None:
        if step.server not in self.cluster.nodes:
            return
        party = self.parties.setdefault(step.party, PartyRecord(step.server))
        number = self.operations
        self.operations += 1
        self.unanswered[step.party, number] = step
        operation = self._operation(step, party)
        self.cluster.give(step.server, [ports.Request(step.party, number, operation)])

    def _operation(self, step: Step, party: PartyRecord) -> ports.Operation:
        if step.do == "publish":
            notification = Notification.parse(step.text)
            id = NotificationId(step.server, self._lives[step.server], self._published[step.server])
            self._published[step.server] += 1
            deliveries = len(self.cluster.deliveries)
            fact = Publication(id, self.moment, step.server, step.party, notification, deliveries)
            self.epoch.publications.append(fact)
            return ports.Publish(notification)
        self.epoch.is_busy = True
        if step.do in ("subscribe", "unsubscribe"):
            filter = Filter.parse(step.text)
            if step.do == "subscribe":
                party.subscribe(self.moment, filter)
                return ports.Subscribe(filter, step.spread)
            party.unsubscribe(self.moment, filter)
            return ports.Unsubscribe(filter)
        advertisement = Advertisement.parse(step.text)
        if step.do == "advertise":
            party.advertise(self.moment, advertisement)
            return ports.Advertise(advertisement, step.spread)
        party.unadvertise(self.moment, advertisement)
        return ports.Unadvertise(advertisement)

    # -- what comes of it ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Note answers, and forget links that were refused: nobody is going to ask for them again."""
        for answer in self.cluster.answers[self._seen_answers :]:
            step = self.unanswered.pop((answer.reply.party, answer.reply.number), None)
            if step is not None and step.do == "subscribe" and step.spread:
                self.parties[step.party].spread.append((self.moment, Filter.parse(step.text)))
        self._seen_answers = len(self.cluster.answers)
        for _, server, change in self.cluster.links[self._seen_links :]:
            if isinstance(change, ports.LinkRefused) and change.peer not in self.cluster.nodes[server].router.peers:
                self._wishes[server].pop(change.peer, None)
        self._seen_links = len(self.cluster.links)

    def _settle(self) -> None:
        """Everything heals and comes to rest."""
        self.cluster.network.mend()
        for server in self.history.servers:
            self._restart(server)
        if not self.cluster.settle(_MOST_EVENTS):
            raise InternalError("the network does not come to rest")
        self._look()
        self.epoch.end = self.moment
        fresh = Epoch(self.moment)
        fresh.first_delivery, fresh.first_hop = len(self.cluster.deliveries), len(self.cluster.hops)
        self.epochs.append(fresh)
