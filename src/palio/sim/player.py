"""Plays a history on a cluster, and keeps the facts."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

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
from palio.sim.record import Change, Epoch, PartyRecord, Publication

_MOST_EVENTS = 200_000
"""A history of some dozens of steps that needs more events to come to rest never will."""

_PACES = ((64, 256), (1, 1), (2, 4))
"""Messages in a frame and on their way, by seed: where all travels in one frame, nothing in it can be overtaken."""


class Asked(NamedTuple):
    """A request that has not been answered."""

    step: Step
    before: Change
    """What the party held before it."""
    id: NotificationId | None
    """Of a publication."""


class Player:
    """One run of a history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.cluster = Cluster(Random(history.seed), self._latency)
        self.parties: dict[str, PartyRecord] = {}
        self.epochs: list[Epoch] = [Epoch(0)]
        self.unanswered: dict[tuple[str, int], Asked] = {}
        self.uncertain: set[NotificationId] = set()
        """Publications whose server died before it could acknowledge them: they may or may not have been."""
        self.problems: list[str] = []
        """What was found wrong on the way."""
        self.operations = 0
        self._lives: dict[str, int] = {}
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
            case "crash" | "lose":
                self._crash(step.server, keeps_disk=self.history.durable and step.do == "crash")
            case "restart":
                self._restart(step.server)
            case "connect" | "disconnect":
                self._link(step)
            case _:
                self._request(step)
        self._look()

    def _start(self, server: str) -> None:
        life = self._lives.setdefault(server, 0)
        frame, window = Random(f"{self.history.seed} pace").choice(_PACES)
        links = LinkSettings(retransmit=100, most_patience=800, acknowledge=10, frame=frame, window=window)
        settings = NodeSettings(server, self.history.architecture, life, links, durable=self.history.durable)
        self.cluster.start(settings)

    def _crash(self, server: str, *, keeps_disk: bool) -> None:
        if server not in self.cluster.nodes:
            return
        self.cluster.crash(server)
        if keeps_disk:
            return
        self._lives[server] += 1
        self.epoch.is_disturbed = True
        self.epoch.died.add(server)
        mine = {name: party for name, party in self.parties.items() if party.server == server}
        self.cluster.lose_disk(server, mine)
        for party in mine.values():
            party.forget(self.moment)
        self.unanswered = {key: asked for key, asked in self.unanswered.items() if asked.step.server != server}

    def _restart(self, server: str) -> None:
        if server in self.cluster.nodes:
            return
        self._start(server)
        node = self.cluster.nodes[server]
        if self.history.durable:
            self._reconcile(server)
        else:
            self.epoch.is_disturbed = True
        known = {*node.links.wishes, *node.links.peers}
        missing = [(peer, role) for peer, role in self._wishes[server].items() if peer not in known]
        self.epoch.is_disturbed |= bool(missing)
        self.cluster.give(server, [ports.Connect(peer, role) for peer, role in missing])
        self.cluster.give(server, [ports.Attach(name) for name, p in self.parties.items() if p.server == server])
        for other in self.cluster.nodes:
            self.cluster.give(other, [ports.Doubt(server)])

    def _reconcile(self, server: str) -> None:
        """What a server that died had not acknowledged it may have forgotten, from some request on, but no other."""
        node = self.cluster.nodes[server]
        open_requests = {key: asked for key, asked in self.unanswered.items() if asked.step.server == server}
        for name, party in self.parties.items():
            if party.server != server:
                continue
            asked = [each for (who, _), each in open_requests.items() if who == name]
            profile = node.router.profile(name)
            held = set(profile.filters), set(profile.advertisements)
            allowed = [*(each.before for each in asked), party.changes[-1]]
            if not any(held == (set(each.filters), set(each.advertisements)) for each in allowed):
                self.problems.append(f"{name} comes back with {profile}, which it never held since it was acknowledged")
            party.reset(self.moment, profile.filters, profile.advertisements)
        for key, each in open_requests.items():
            if each.id is not None and each.id.sequence >= node.published:
                self.epoch.publications = [known for known in self.epoch.publications if known.id != each.id]
            elif each.id is not None:
                self.uncertain.add(each.id)
            del self.unanswered[key]

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
        before = party.changes[-1]
        operation = self._operation(step, party)
        id = self.epoch.publications[-1].id if step.do == "publish" else None
        self.unanswered[step.party, number] = Asked(step, before, id)
        self.cluster.give(step.server, [ports.Request(step.party, number, operation)])

    def _operation(self, step: Step, party: PartyRecord) -> ports.Operation:
        if step.do == "publish":
            notification = Notification.parse(step.text)
            published = self.cluster.nodes[step.server].published
            id = NotificationId(step.server, self._lives[step.server], published)
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
            asked = self.unanswered.pop((answer.reply.party, answer.reply.number), None)
            if asked is not None and asked.step.do == "subscribe" and asked.step.spread:
                self.parties[asked.step.party].spread.append((self.moment, Filter.parse(asked.step.text)))
        self._seen_answers = len(self.cluster.answers)
        for _, server, change in self.cluster.links[self._seen_links :]:
            node = self.cluster.nodes.get(server)
            if isinstance(change, ports.LinkRefused) and (node is None or change.peer not in node.router.peers):
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
        for server, node in self.cluster.nodes.items():  # links that were cut will not be asked for again
            self._wishes[server] = {peer: Role(role) for peer, role in node.links.wishes.items()}
        self.epoch.end = self.moment
        fresh = Epoch(self.moment)
        fresh.first_delivery, fresh.first_hop = len(self.cluster.deliveries), len(self.cluster.hops)
        self.epochs.append(fresh)
