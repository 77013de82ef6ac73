"""Plays a history on a cluster, and keeps the facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple
from zlib import crc32

import msgspec

from palio.errors import InternalError
from palio.link.session import LinkSettings
from palio.link.states import State
from palio.model import PROTOCOL_LIMITS, Advertisement, Filter, Limits, Notification, Pattern, Trace
from palio.model.envelope import NotificationId
from palio.node import ports
from palio.node.containment import FaultError
from palio.node.logs import LogSettings
from palio.node.node import Node, NodeSettings
from palio.node.party_log import Keep, MarkSettings
from palio.routing.border import Gateway
from palio.routing.pacing import FIRST
from palio.routing.router import Role
from palio.routing.telling import TellingSettings
from palio.sim.engine.readers import KEEP
from palio.sim.faults.faulty_nodes import FaultyNode, hostile, is_poisoned
from palio.sim.histories.durable import Durable
from palio.sim.histories.facts import Change, Epoch, PartyRecord, Publication
from palio.sim.histories.federation import architecture_of, are_joined, gateway
from palio.sim.histories.history import History, ServerLimits, Step
from palio.sim.histories.troubled_cluster import TroubledCluster

_MOST_LIVES = 1_000
_MOST_EVENTS = 200_000
"""A history of some dozens of steps that needs more events to come to rest never will."""

_PACES = ((64, 256), (1, 1), (2, 4))
"""Messages in a frame and on their way, by seed: where all travels in one frame, nothing in it can be overtaken."""

_ROOMS = (1_000, 1_000, 2)
"""Messages that wait for a neighbour before others are held back, by seed."""

_COMPARISONS = (1, 20, 4_096)
"""Comparisons of filters in one turn, by seed: where there are few, requests take several turns."""

_Key = tuple[str, int]
"""A request: who has asked, and its number."""


class Asked(NamedTuple):
    """A request that a server has taken and not answered."""

    step: Step
    moment: int
    """When it was taken."""
    before: Change
    """What the party held before it."""
    id: NotificationId | None
    """Of a publication."""
    operation: ports.Operation


class Player:
    """One run of a history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.cluster = TroubledCluster(Random(history.seed), self._latency, self._died_by_itself)
        self.cluster.in_blocks = history.seed % 2 == 1
        self.cluster.has_doors = bool(history.limits)
        self.durable = Durable(self, history.logs) if history.logs is not None else None
        if any(is_poisoned(step.text) for step in history.steps):
            self.cluster.make_node = FaultyNode
        """Durable parties, if there are others besides."""
        self.parties: dict[str, PartyRecord] = {}
        self.epochs: list[Epoch] = [Epoch(0)]
        self.waiting: dict[_Key, Step] = {}
        """Requests that servers have not taken, because they are paused or busy."""
        self.unanswered: dict[_Key, Asked] = {}
        self.uncertain: set[NotificationId] = set()
        """Publications whose server died before it could acknowledge them: they may or may not have been."""
        self.relinked: list[Step] = []
        """The links that servers were asked to open, to end and to give up, as they took it."""
        self.problems: list[str] = []
        """What was found wrong on the way."""
        self.operations = 0
        self._lives: dict[str, int] = {}
        self._starts: dict[str, int] = {}
        """How often each server was started again."""
        self._published: dict[str, int] = {}
        """How many publications each server has taken, in its incarnation."""
        self._wishes: dict[str, dict[str, Role]] = {server: {} for server in history.servers}
        """The links that each server is configured to open."""
        self._linked: set[tuple[str, str]] = set()
        """The links that were there at the last rest."""
        self._seen_answers = self._seen_links = 0
        self._failed: list[NotificationId] = []
        """Publications that were refused because of a fault."""
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
        """How many things have happened: steps, requests that were taken, deaths and returns of servers."""
        return self.cluster.moment

    def _tick(self) -> None:
        """Something happens that has to be told from what happened before."""
        self.cluster.moment += 1

    # -- steps ---------------------------------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """Let the time before a step pass, and do it."""
        self.cluster.scheduler.run(until=self.cluster.scheduler.now + step.wait)
        self._look()
        self._tick()
        match step.do:
            case "settle":
                self._settle()
            case "crash" | "lose" | "tear" | "power":
                self._crash(step)
            case "restart":
                self._restart(step.server)
            case "connect" | "disconnect":
                self._link(step)
            case "give-up":
                self.cluster.give_up(step.server, step.peer, lambda: self._given_up(step))
            case name if name in OPERATIONS or (name in WISHES and self.durable is not None):
                self._request(step)
            case _ if self.durable is None or not self.durable.do(step):
                self.cluster.inject(step, self.history.servers)
        self._look()

    def _start(self, server: str) -> None:
        """The parties are back at once: else they would miss what comes before they are."""
        if self.durable is not None and self.durable.is_other(server):
            self._lives[server] += 1
        self._lives.setdefault(server, 0)
        self._starts[server] = self._starts.get(server, -1) + 1
        frame, window = Random(f"{self.history.seed} pace").choice(_PACES)
        full = Random(f"{self.history.seed} room").choice(_ROOMS)
        links = LinkSettings(retransmit=100, most_patience=800, acknowledge=10, frame=frame, window=window, full=full)
        history = self.history
        limits = history.limits.get(server, ServerLimits())
        settings = NodeSettings(
            server, architecture_of(history.architecture, server), self._life(server), links
        )._replace(
            gateways=self._gateways(server),
            durable=history.durable,
            log=self._log_settings(),
            reserve=self._reserve(),
            comparisons=self._comparisons(),
            neighbours=frozenset(Role) if history.seed % 2 else frozenset(),
            window=history.window,
            delegation=history.delegation,
            telling=self._telling(),
            compression=history.compression,
            limits=Limits(**limits.entry),
            accepted=replace(PROTOCOL_LIMITS, **limits.accepted),
        )
        here = [name for name, party in self.parties.items() if party.server == server]
        self.cluster.start(settings, [self._attach(name) for name in here if not self._is_durable(name)])
        self._published[server] = self.cluster.nodes[server].publishing.count

    def _life(self, server: str) -> int:
        """The incarnation of a server; the numbers between them are for what is named by them.

        A server without a disk takes it from its clock, which may have been put back between two lives.
        """
        is_put_back = not self.history.durable and self.history.seed % 3 == 2
        return (_MOST_LIVES - self._lives[server] if is_put_back else self._lives[server]) * 1_000

    def _is_durable(self, party: str) -> bool:
        """Whether a party comes and goes by itself."""
        return self.durable is not None and party in self.durable.parties

    def _log_settings(self) -> LogSettings:
        """Some have little memory, and see how they come by what they had; some send little at a time."""
        if self.history.logs is not None:
            return self.history.logs
        random = Random(f"{self.history.seed} log")
        keep = msgspec.structs.replace(KEEP, window=random.choice((1, 3, 1_000)))
        marks = MarkSettings(random.choice((1, 3, 4_096)), 1 << 20, random.choice((1, 5, 1_024)))
        return LogSettings(
            keep, recent_bytes=random.choice((0, 500, 1 << 20)), marks=marks, sweep=random.choice((1, 4, 256))
        )

    def _telling(self) -> TellingSettings:
        """Some servers let few changes of filters be in flight to a neighbour, at least at first."""
        if self.history.telling.in_flight != FIRST:
            return self.history.telling
        in_flight = Random(f"{self.history.seed} changes in flight").choice((1, 3, FIRST))
        return self.history.telling._replace(in_flight=in_flight)

    def _comparisons(self) -> int:
        """How many comparisons of filters a turn makes.

        Where several inputs come to a server together, a request that takes several turns is done after what came
        behind it; the law for deliveries takes them to be done in their order. Histories of durable parties are about
        turns and what is written in each.
        """
        are_together = any(step.do in ("pause", "slow") for step in self.history.steps)
        return (
            _COMPARISONS[-1]
            if are_together or self.history.logs is not None
            else Random(f"{self.history.seed} comparisons").choice(_COMPARISONS)
        )

    def _reserve(self) -> int:
        """Where there are patterns all that reaches a server has to be written, because the law for them is computed
        from that.
        """
        has_patterns = any(" then " in step.text for step in self.history.steps)
        return 0 if has_patterns else Random(f"{self.history.seed} reserve").choice((0, 50))

    def _attach(self, party: str) -> ports.Attach:
        if not self.history.durable or self.durable is not None:
            return ports.Attach(party)
        remembers = Random(f"{self.history.seed} {party} {self.moment}").random() < 0.5
        return self.cluster.readers.attach(party, Keep(0, 0, 0, 0, 0, 0), remembers=remembers)

    def _gateways(self, server: str) -> dict[str, Gateway]:
        mixed, seed = self.history.architecture, self.history.seed
        others = [other for other in self.history.servers if are_joined(mixed, server, other)]
        start = self._starts[server] if self.history.reconfigured else 0
        return {other: gateway(mixed, seed, server, other, start) for other in others}

    def _crash(self, step: Step) -> None:
        if step.server not in self.cluster.nodes:
            return
        self.cluster.faults[step.do] += 1
        is_power = self.durable is None or step.do != "crash"
        self.cluster.crash(step.server, torn=step.do in ("tear", "power"), is_power=is_power)
        self._died(step.server, is_lost=step.do == "lose", is_power=is_power)

    def kill(self, server: str) -> None:
        """A server dies, and leaves what it has written, if it runs."""
        if server in self.cluster.nodes:
            self.cluster.crash(server, is_power=False)
            self._died(server, is_power=False)

    def _died_by_itself(self, server: str, is_power: bool) -> None:
        self._died(server, is_power=is_power)

    def _died(self, server: str, *, is_power: bool, is_lost: bool = False) -> None:
        """A server has died; with its disk, if it had one, or without."""
        self._tick()
        self.waiting = {key: step for key, step in self.waiting.items() if step.server != server}
        if self.durable is not None:
            self.durable.died(server, is_power=is_power)
        if self.history.durable and not is_lost:
            self.epoch.crashed.add(server)
            return
        self._lives[server] += 1
        self.epoch.is_disturbed = True
        self.epoch.died.add(server)
        mine = {name: party for name, party in self.parties.items() if party.server == server}
        self.cluster.lose_disk(server, mine)
        if self.durable is not None:
            self.durable.lost(server)
        for party in mine.values():
            party.forget(self.moment)
        self.unanswered = {key: asked for key, asked in self.unanswered.items() if asked.step.server != server}

    def _restart(self, server: str) -> None:
        if server in self.cluster.nodes:
            return
        self._tick()
        lives = self._lives[server]
        self._start(server)
        node = self.cluster.nodes[server]
        is_other = self._lives[server] > lives
        if is_other:
            self.epoch.died.add(server)
        if self.durable is not None:
            self.durable.look()  # leases may be over
        if self.history.durable:
            self._reconcile(server, is_other=is_other)
        self.epoch.is_disturbed |= is_other or not self.history.durable
        self.epoch.is_disturbed |= self.history.reconfigured and bool(node.settings.gateways)
        if self.durable is not None:
            self.durable.started(server, is_other=is_other)
        known = {*node.links.wishes, *node.links.peers}
        missing = [(peer, role) for peer, role in self._wishes[server].items() if peer not in known]
        self.epoch.is_disturbed |= bool(missing)
        self.cluster.give(server, [self._wish(server, peer, role) for peer, role in missing])
        for other in list(self.cluster.nodes):  # one of them may die of it
            self.cluster.give(other, [ports.Doubt(server)])

    def _reconcile(self, server: str, *, is_other: bool) -> None:
        """What a server that died had not acknowledged it may have forgotten, from some request on, but no other.

        One that is another now, because its disk was damaged or is an old one, may have forgotten more.
        """
        node = self.cluster.nodes[server]
        open_requests = {key: asked for key, asked in self.unanswered.items() if asked.step.server == server}
        for name, party in self.parties.items():
            if party.server != server:
                continue
            asked = [each for (who, _), each in open_requests.items() if who == name]
            profile = node.router.profile(name)
            held = Change(self.moment, *profile, node.monitors.patterns(name))
            allowed = [*(each.before for each in asked), party.changes[-1]]
            allowed += [] if self.durable is None else self.durable.lent(name)
            if not any(held.is_like(each) for each in allowed) and not is_other:
                self.problems.append(f"{name} comes back with {held}, which it never held since it was acknowledged")
            party.reset(held)
            self._reconcile_watches(name, party, node, asked)
        for key, each in open_requests.items():
            if each.id is not None:
                self.give_up_on(each.id, node.publishing.count)
            del self.unanswered[key]
        for id in [id for id in self._failed if id.origin == server]:  # refused at once, and perhaps never written
            self._failed.remove(id)
            self.uncertain.discard(id)
            self.give_up_on(id, node.publishing.count)

    def give_up_on(self, id: NotificationId, count: int) -> None:
        """A publication may have been lost with its server, which goes on with a number, perhaps with this one."""
        if id.incarnation == self._life(id.origin) and id.sequence >= count:
            self.epoch.publications = [known for known in self.epoch.publications if known.id != id]
        else:
            self.uncertain.add(id)

    def _reconcile_watches(self, name: str, party: PartyRecord, node: Node, asked: list[Asked]) -> None:
        kept = dict.fromkeys(node.outlooks.of(name))
        uncertain = [each.operation for each in asked]
        unsure = {each.subject for each in uncertain if isinstance(each, ports.Watch | ports.Unwatch)}
        has_left = any(isinstance(each, ports.Leave) for each in uncertain)
        if (kept.keys() ^ party.watched.keys()) - unsure and not has_left:
            self.problems.append(f"{name} comes back and watches {list(kept)}, and had asked for {list(party.watched)}")
        party.watched = kept

    def _link(self, step: Step) -> None:
        if step.server not in self.cluster.nodes:
            return
        self.operations += 1
        role = self._role(step)
        opens = step.do == "connect"
        wish: ports.Input = self._wish(step.server, step.peer, role) if opens else ports.Disconnect(step.peer)
        self.cluster.give(step.server, [wish], lambda: self._relinked(step, role))
        if opens and step.peer in self.cluster.nodes:  # the operators of both servers agree
            self.cluster.give(step.peer, [ports.Allow(step.server)])

    def _role(self, step: Step) -> Role:
        """What the other server is to be."""
        if are_joined(self.history.architecture, step.server, step.peer):
            return Role.GATEWAY
        return Role.MASTER if architecture_of(self.history.architecture, step.server) == "hs" else Role.PEER

    def _wish(self, server: str, peer: str, role: Role) -> ports.Connect:
        """Where there are several ways, links count for different latencies, and some for the same."""
        low, high = sorted((server, peer))
        return ports.Connect(peer, role, Random(f"{self.history.seed} {low} {high} counts").choice([1, 1, 2, 3]))

    def _relinked(self, step: Step, role: Role) -> None:
        """A server takes the wish to open or to end a link."""
        self.epoch.is_disturbed = True
        self.relinked.append(step)
        if step.do == "connect":
            self._wishes[step.server][step.peer] = role
        else:
            self.cluster.faults["disconnect"] += 1
            self._wishes[step.server].pop(step.peer, None)

    def _given_up(self, step: Step) -> None:
        self.epoch.is_disturbed = True
        self.relinked.append(step)

    def _request(self, step: Step) -> None:
        if step.server not in self.cluster.nodes:
            return
        self.arrive(step.party, step.server)
        key = step.party, self.operations
        self.operations += 1
        self.waiting[key] = step
        durable = self.durable
        operation = durable.wish(step) if durable is not None and step.do in WISHES else OPERATIONS[step.do](step)
        if isinstance(operation, ports.Publish):
            if durable is not None:
                self.cluster.options[key] = durable.options(step)
            operation = msgspec.structs.replace(operation, trace=trace_of(step.text, self.operations))
        request = ports.Request(*key, operation)
        given: list[ports.Input] = [request]
        if self.history.durable and durable is None and step.party not in self.cluster.readers:
            given = [self._attach(step.party), request]
        self.cluster.give(step.server, given, lambda: self._taken(key, step, operation))

    def arrive(self, party: str, server: str) -> None:
        """A party is at a server, perhaps for the first time."""
        self.parties.setdefault(party, PartyRecord(server))

    def _taken(self, key: _Key, step: Step, operation: ports.Operation) -> None:
        """A server takes a request: that, and not when it was asked, is when it happens."""
        self._tick()
        moment = self.moment
        self._judge_order(key, step)
        party, id = self.parties[step.party], None
        before = party.changes[-1]
        self.epoch.is_busy |= step.do in OPERATIONS and step.do != "publish"
        match operation:
            case ports.Subscribe() if is_poisoned(step.text):
                pass  # it will fail
            case ports.Publish():
                id = self._published_by(key, step, operation)
            case ports.Subscribe(filter):
                party.subscribe(moment, filter)
            case ports.Unsubscribe(filter, instead):
                party.unsubscribe(moment, filter)
                for each in instead:
                    party.subscribe(moment, each)
            case ports.Advertise(advertisement):
                party.advertise(moment, advertisement)
            case ports.Unadvertise(advertisement):
                party.unadvertise(moment, advertisement)
            case ports.Watch(subject):
                party.watched[subject] = None
            case ports.Unwatch(subject):
                party.watched.pop(subject, None)
            case ports.Leave():
                party.forget(moment)
                self.cluster.readers.leave(step.party)
        if self.durable is not None:
            self.durable.asked(key, step, operation, id)
        self.unanswered[key] = Asked(step, moment, before, id, operation)

    def _judge_order(self, key: _Key, step: Step) -> None:
        if self.waiting.pop(key, None) is None:
            self.problems.append(f"taken though the server has died since: {step}")
        if any(party == step.party and number < key[1] for party, number in self.waiting):
            self.problems.append(f"taken before what the party had asked for earlier: {step}")

    def _published_by(self, key: _Key, step: Step, published: ports.Publish) -> NotificationId | None:
        """A server takes a publication; nothing if it does not count."""
        if self.durable is not None and not self.durable.counts(key, step):
            return None
        id, options = self._number(step.server), self.cluster.options.get(key)
        fact = Publication(
            id,
            self.moment,
            step.server,
            step.party,
            published.notification,
            len(self.cluster.deliveries),
            published.trace,
            None if options is None else options.expires,
        )
        self.epoch.publications.append(fact)
        return id

    def _number(self, server: str) -> NotificationId:
        """Of the next publication; the server may take several together."""
        published = self._published[server]
        self._published[server] += 1
        return NotificationId(server, self._life(server), published)

    # -- what comes of it ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Note answers."""
        for answer in self.cluster.answers[self._seen_answers :]:
            asked = self.unanswered.pop((answer.reply.party, answer.reply.number), None)
            if asked is not None:
                self._judge_fault(asked, answer.reply.problem)
            if asked is not None and self.durable is not None:
                self.durable.answered((answer.reply.party, answer.reply.number), asked.step, answer.reply.problem)
            if asked is not None and asked.step.do == "subscribe" and asked.step.spread:
                self.parties[asked.step.party].spread.append((self.moment, asked.moment))
        self._seen_answers = len(self.cluster.answers)
        while self.cluster.failed_links:  # the server may have died before it could say so
            self._given_up(Step(0, "give-up", self.cluster.failed_links.pop()))
        if self.durable is not None:
            self.durable.look()

    def _judge_fault(self, asked: Asked, problem: Exception | None) -> None:
        """Only a party that makes its server fail hears of a fault, and what fails is never accepted.

        What was refused because of a fault may have been delivered to some.
        """
        step, is_fault = asked.step, isinstance(problem, FaultError)
        if is_fault and asked.id is not None:
            self.uncertain.add(asked.id)
            self._failed.append(asked.id)
        if is_fault and step.party != hostile(step.server):
            self.problems.append(f"{step} was refused because of a fault that concerns another party")
        must_fail = is_poisoned(step.text) and (step.do == "subscribe" or '"accept"' in step.text)
        if must_fail and not is_fault:
            self.problems.append(f"{step} was accepted though it failed")

    def _retry_links(self) -> None:
        """As drivers do after a while, ask once more for links that were refused."""
        for server, node in list(self.cluster.nodes.items()):
            for peer, wish in node.links.wishes.items():
                if node.links.status(peer).state is State.REFUSED:
                    self.cluster.give(server, [ports.Connect(peer, Role(wish.role), wish.latency)])

    def _come_to_rest(self) -> None:
        """All servers are there, and handle all that there is."""
        for server in self.history.servers:
            self._restart(server)
        if self.durable is not None:
            self.durable.gather()
        for is_last in (False, True):
            if not self.cluster.settle(_MOST_EVENTS):
                raise InternalError("the network does not come to rest")
            if not is_last:
                self._retry_links()

    def _settle(self) -> None:
        """Everything heals and comes to rest."""
        self.cluster.heal()
        self._come_to_rest()
        while len(self.cluster.nodes) < len(self.history.servers):  # one has died of what had waited for it
            self._come_to_rest()
        self._look()
        for server, node in self.cluster.nodes.items():  # a server that died may have forgotten its last wish
            self._wishes[server] = {peer: Role(wish.role) for peer, wish in node.links.wishes.items()}
        before, self._linked = (
            self._linked,
            {(server, peer) for server, node in self.cluster.nodes.items() for peer in node.links.peers},
        )
        self.epoch.is_disturbed |= not self._linked <= before  # a restart may have allowed a link again, for example
        changes = [change for _, _, change in self.cluster.links[self._seen_links :]]
        self._seen_links = len(self.cluster.links)
        self.epoch.had_cycle = any(isinstance(each, ports.LinkDown) and "a cycle" in each.reason for each in changes)
        self.epoch.end = self.moment
        fresh = Epoch(self.moment)
        fresh.first_delivery, fresh.first_hop = len(self.cluster.deliveries), len(self.cluster.hops)
        self.epochs.append(fresh)


OPERATIONS: dict[str, Callable[[Step], ports.Operation]] = {
    "publish": lambda step: ports.Publish(Notification.parse(step.text)),
    "subscribe": lambda step: ports.Subscribe(_wanted(step.text), step.spread),
    "unsubscribe": lambda step: ports.Unsubscribe(_wanted(step.text)),
    "replace": lambda step: ports.Unsubscribe(_wanted(step.text), (_wanted(step.instead),)),
    "advertise": lambda step: ports.Advertise(Advertisement.parse(step.text), step.spread),
    "unadvertise": lambda step: ports.Unadvertise(Advertisement.parse(step.text)),
    "watch-demand": lambda step: ports.Watch(Advertisement.parse(step.text)),
    "watch-offers": lambda step: ports.Watch(Filter.parse(step.text)),
    "unwatch-demand": lambda step: ports.Unwatch(Advertisement.parse(step.text)),
    "unwatch-offers": lambda step: ports.Unwatch(Filter.parse(step.text)),
    "leave": lambda _: ports.Leave(),
}
"""What parties ask for, by the step that says so."""
WISHES = ("replay", "reject", "requeue", "discard")
"""What durable ones ask for besides."""


def trace_of(text: str, operation: int) -> Trace | None:
    """The trace of a publication: about every third has one, and the same in all parts of a history.

    >>> print(trace_of("x = 3", 3), trace_of("x = 1", 4))
    None 00-00000000000000000000000000000005-0000000000000005-01
    """
    return None if crc32(text.encode()) % 3 else Trace(f"00-{operation + 1:032x}-{operation + 1:016x}-01")


def _wanted(text: str) -> Filter | Pattern:
    pattern = Pattern.parse(text)
    return pattern if len(pattern) > 1 else pattern.filters[0]
