"""Durable parties and servers with disks in a run: who is there, what was promised, what is damaged or left."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from palio.codec.frames import Options
from palio.model import Mode
from palio.model.envelope import NotificationId
from palio.node import ports
from palio.node.admission import FullDiskError
from palio.node.hybrid import date_of
from palio.node.journal import Record
from palio.node.logs import LogSettings
from palio.node.node import Node, NodeSettings
from palio.node.party_log import Keep
from palio.node.reading import GoneError
from palio.sim.histories.facts import Change
from palio.sim.histories.history import Step
from palio.sim.histories.ledger import TURN, Book
from palio.sim.histories.watched_nodes import LedgerNode

if TYPE_CHECKING:
    from palio.sim.histories.player import Player

_Key = tuple[str, int]
"""A request: who has asked, and its number."""


class Promise(NamedTuple):
    """A publication that a server has taken."""

    server: str
    turn: int
    """Of the server, in which it was taken."""
    key: _Key


class Durable:
    """What a run with durable parties has besides."""

    def __init__(self, player: Player, settings: LogSettings) -> None:
        self._player = player
        self._settings = settings
        self._cluster = player.cluster
        self._random = Random(f"{player.history.seed} durable")
        self.books: dict[str, Book] = {server: Book(server, settings) for server in player.history.servers}
        self.parties: dict[str, tuple[str, Keep]] = {}
        """The durable ones: where each is, and what it wants its log to be."""
        self._full: dict[str, bool] = dict.fromkeys(player.history.servers, False)
        """Servers that know that there is no room on their disks."""
        self.promises: dict[NotificationId, Promise] = {}
        self._refused: set[_Key] = set()
        """Publications that have to be refused."""
        self._lent: dict[str, Change] = {}
        """What a party held when its lease ended, until that is written."""
        self._power_lost: set[str] = set()
        self._asked_in: dict[_Key, tuple[int | None, int]] = {}
        """In which connections parties have asked for deliveries once more, and the last that they had got."""
        self._wanted_again: dict[tuple[str, int | None], list[int]] = {}
        self.passing_over: set[tuple[str, int | None]] = set()
        """Connections in which parties wanted only what is not older than a time, or several things in turn."""
        self._known: dict[str, set[str]] = {server: set() for server in player.history.servers}
        """Who had a log at a server when it was looked at."""
        self._left: set[str] = set()
        """Parties that have ended their logs themselves."""
        self._cluster.make_node = self._make_node
        self._cluster.syncing = Random(f"{player.history.seed} syncs")
        self._cluster.readers.may_skip = True
        self._cluster.in_blocks = True

    # -- servers -------------------------------------------------------------------------------------------------------

    def _make_node(
        self, settings: NodeSettings, records: list[Record], now: int, tail: list[tuple[int, bytes]], first: int
    ) -> Node:
        book, disk = self.books[settings.server], self._cluster.disks[settings.server]
        turn: Any = next((value for key, value in records if key == TURN), -1)
        book.begin(turn, now, is_other=disk.is_other)
        damaged: list[Any] = [key[1] for key, data in disk.records.items() if key[0] == "entry" and not data]
        book.damaged = set(damaged)
        book.is_spoiled &= disk.is_other
        node = LedgerNode(book, settings, records, now, tail, first)
        book.compare(node.logs, set(node.keys), is_other=disk.is_other)
        self._known[settings.server] = set(book.logs)
        return node

    def is_other(self, server: str) -> bool:
        """Whether a server that starts has to be another incarnation."""
        disk = self._cluster.disks.get(server)
        return disk is not None and disk.is_other

    def died(self, server: str, *, is_power: bool) -> None:
        """A server has died; nobody is connected with it any more."""
        self._full[server] = False
        if is_power:
            self._power_lost.add(server)
        for party, (where, _) in self.parties.items():
            if where == server:
                self._cluster.readers.detach(party)

    def lost(self, server: str) -> None:
        """The disk of a server is gone, with all that was promised."""
        self.books[server].lose()
        self.parties = {party: known for party, known in self.parties.items() if known[0] != server}
        self.promises = {id: promise for id, promise in self.promises.items() if promise.server != server}

    def started(self, server: str, *, is_other: bool) -> None:
        """A server is back: what it had promised is there, and some of its parties are."""
        disk, node = self._cluster.disks[server], self._cluster.nodes[server]
        survived = disk.records.get(TURN, -1)
        for id, promise in list(self.promises.items()):
            if promise.server == server:
                self._judge_promise(id, promise, survived, is_other=is_other)
                if is_other or self._is_lost(promise, survived) or promise.turn not in self.books[server].written:
                    del self.promises[id]
                    self._player.give_up_on(id, node.publishing.count)
        self._power_lost.discard(server)
        self._judge_noted(server, node, is_other=is_other)
        self._cluster.give(server, [ports.Space(is_there=False)] if disk.is_full else [])
        self._full[server] = disk.is_full
        for party, (where, keep) in self.parties.items():
            if where == server and self._random.random() < 0.5:
                self._attach(party, keep, remembers=self._random.random() < 0.5, pace=self._random.choice([0, 1, 3]))

    def _is_lost(self, promise: Promise, survived: int) -> bool:
        return promise.turn in self.books[promise.server].written and promise.turn > survived

    def _judge_promise(self, id: NotificationId, promise: Promise, survived: int, *, is_other: bool) -> None:
        mode = self._cluster.promised.get(promise.key)
        is_safe = mode is Mode.SYNCED or (mode is Mode.LOCAL and promise.server not in self._power_lost)
        if is_safe and mode is not None and self._is_lost(promise, survived) and not is_other:
            self._player.problems.append(f"{id} was acknowledged as {mode.value}, and is lost")

    def _judge_noted(self, server: str, node: Node, *, is_other: bool) -> None:
        """That a delivery was acknowledged is not forgotten once that was promised."""
        for log in node.logs:
            noted = self._cluster.readers.noted.get((log.name, log.identity), -1)
            if noted >= log.done and not is_other and log.name in self.parties:
                self._player.problems.append(f"{server} has forgotten that {log.name} has got delivery {noted}")

    # -- publications --------------------------------------------------------------------------------------------------

    def options(self, step: Step) -> Options:
        """What a publisher says of a publication."""
        expires = None
        if step.expires:
            expires = date_of(self._cluster.time(step.server) + step.expires)
        return Options(None, expires, step.key or None, step.mode)

    def counts(self, key: _Key, step: Step) -> bool:
        """Whether a publication that a server takes is a new one, and is not refused."""
        if self._full[step.server]:
            self._refused.add(key)
            return False
        if not step.key:
            return True
        return self.books[step.server].is_new_key(step.party, step.key, self._cluster.time(step.server))

    def answered(self, key: _Key, step: Step, problem: Exception | None) -> None:
        """A party hears what has become of what it has asked for."""
        book = self.books[step.server]
        if step.do == "publish" and isinstance(problem, FullDiskError) != (key in self._refused):
            self._player.problems.append(f"{step} is answered by {problem or 'yes'}, and there is room, or is not")
        if step.do == "replay":
            must = book.gone.get(key)
            is_gone = isinstance(problem, GoneError)
            reading, last = self._asked_in.get(key, (None, -1))
            if problem is None and book.starts.get(key, last + 1) <= last:
                self._wanted_again.setdefault((step.party, reading), []).append(book.starts[key])
            if must is not None and is_gone != must:
                self._player.problems.append(f"{step} is answered by {problem or 'yes'}, and what is gone, or is not")

    # -- parties -------------------------------------------------------------------------------------------------------

    def do(self, step: Step) -> bool:
        """Do what a step says of durable parties and disks, if it does."""
        cluster, server = self._cluster, step.server
        match step.do:
            case "attach":
                if server in cluster.nodes:
                    self._attach(
                        step.party, step.keep or Keep(), remembers=step.remembers, pace=step.pace, where=server
                    )
            case "detach":
                detach = cluster.readers.detach(step.party)
                if detach is not None and server in cluster.nodes:
                    cluster.give(server, [detach])
            case "acknowledge":
                self._acknowledge(step)
            case "scarce" | "full" | "room":
                self._fill(step)
            case "flip" | "spoil" | "copy" | "put-back":
                self._damage(step)
            case _:
                return False
        return True

    def _attach(self, party: str, keep: Keep, *, remembers: bool, pace: int, where: str | None = None) -> None:
        server = where or self.parties[party][0]
        self._player.arrive(party, server)
        self.parties[party] = server, keep
        before = self._cluster.readers.detach(party)
        given: list[ports.Input] = [self._cluster.readers.attach(party, keep, remembers=remembers, pace=pace)]
        self._cluster.give(server, given)
        if before is not None:  # that it has gone is noticed when another connection is there
            later = self._cluster.scheduler.now + self._random.randrange(60)
            self._cluster.scheduler.at(later, self._give_if_there, server, before)

    def _give_if_there(self, server: str, given: ports.Input) -> None:
        if server in self._cluster.nodes:
            self._cluster.give(server, [given])

    def _acknowledge(self, step: Step) -> None:
        readers = self._cluster.readers
        if step.party in readers and step.server in self._cluster.nodes:
            given = readers.acknowledge(step.party, readers[step.party].last - step.number)
            self._cluster.give(step.server, [] if given is None else [given])

    def _fill(self, step: Step) -> None:
        """The disk gets full, so that nothing can be written, or only scarce; or there is room again."""
        server, disk = step.server, self._cluster.disks.get(step.server)
        if disk is None:
            return
        self._cluster.faults[step.do] += step.do != "room"
        if step.do == "full":
            disk.is_full = True
        elif step.do == "room":
            disk.make_room()
        self.tell_of_room(server, is_there=step.do == "room")

    def tell_of_room(self, server: str, *, is_there: bool) -> None:
        """A running server notices whether there is room on its disk."""
        if server in self._cluster.nodes:
            self._cluster.give(server, [ports.Space(is_there)], lambda: self._full.update({server: not is_there}))

    def wish(self, step: Step) -> ports.Operation:
        """What a durable party asks for."""
        node, party = self._cluster.nodes[step.server], step.party
        log = node.logs.of(party) if party in node.logs else None
        match step.do:
            case "replay" if step.wish == "since":
                return ports.Replay(since=date_of(max(0, self._cluster.time(step.server) - step.number)))
            case "replay":
                return ports.Replay(step.number) if step.wish == "first" else ports.Replay(last=step.number)
            case "reject":
                first = self._cluster.readers[party].acknowledged + 1 if party in self._cluster.readers else 0
                return ports.Reject(first, "it makes no sense")
        letters = () if log is None else tuple(log.letters)[: step.nth]
        return ports.Letters("requeue" if step.do == "requeue" else "discard", letters)

    def asked(self, key: _Key, step: Step, operation: ports.Operation, id: NotificationId | None) -> None:
        """A server takes such a wish, or a publication that counts, in its next turn."""
        readers, party = self._cluster.readers, step.party
        facts = self.books[step.server].logs.get(party)
        if id is not None:
            self.promises[id] = Promise(id.origin, self.books[id.origin].turn + 1, key)
        match operation:
            case ports.Leave():
                self.parties.pop(party, None)
                self._left.add(party)
            case ports.Replay() if party in readers:
                connection = party, readers[party].reading
                if step.wish == "since" or readers[party].reading in [known for known, _ in self._asked_in.values()]:
                    self.passing_over.add(connection)
                self._asked_in[key] = readers[party].reading, readers[party].last
            case ports.Letters("requeue", letters) if facts is not None:
                for letter in letters:
                    if letter in facts.letters:
                        readers.requeued[party, self._content(step.server, party, facts.letters[letter].delivery)] += 1

    def _content(self, server: str, party: str, number: int) -> object:
        items = self.books[server].items_of(party)
        return items[number].content if number < len(items) else None

    def wanted_again(self, party: str, reading: int | None) -> list[int]:
        """The numbers of deliveries that were wanted once more in a connection."""
        return self._wanted_again.get((party, reading), [])

    def look(self) -> None:
        """Leases that are over are noticed."""
        for server, book in self.books.items():
            if server not in self._cluster.nodes:
                continue
            for party in sorted(self._known[server] - book.logs.keys()):
                if party in self._left:
                    self._left.discard(party)
                    continue
                self._lent[party] = self._player.parties[party].changes[-1]
                self._player.parties[party].forget(self._player.moment)
                self._player.epoch.is_busy = True
                self._cluster.readers.leave(party)
                self.parties.pop(party, None)
            self._known[server] = set(book.logs)

    def lent(self, party: str) -> Iterable[Change]:
        """What a party may hold again because the end of its lease was not written."""
        return [self._lent[party]] if party in self._lent else []

    def gather(self) -> None:
        """All durable parties are here, and acknowledge what they get."""
        readers = self._cluster.readers
        for server in self.books:
            self.tell_of_room(server, is_there=True)
        for party, (server, keep) in list(self.parties.items()):
            if party not in readers or readers[party].reading is None:
                self._attach(party, keep, remembers=self._random.random() < 0.5, pace=1)
                continue
            readers[party].pace = 1
            given = readers.acknowledge(party, readers[party].last)
            self._cluster.give(server, [] if given is None else [given])

    # -- damage --------------------------------------------------------------------------------------------------------

    def _damage(self, step: Step) -> None:
        server, disk = step.server, self._cluster.disks.get(step.server)
        if disk is None:
            return
        book = self.books[server]
        if step.do == "copy":
            disk.copy()
            return
        if step.do == "flip":
            entries: list[Any] = sorted((key for key in disk.records if key[0] == "entry"), reverse=True)
            if entries:
                key = entries[(step.nth - 1) % len(entries)]
                self._cluster.faults["flip"] += 1
                disk.damage(key)
                book.damaged.add(key[1])
            return
        self._player.kill(server)
        if step.do == "put-back":
            self._cluster.faults["put-back"] += disk.put_back()
            return
        keys = [key for key in disk.records if key[0] not in ("entry", "turn", "log", "first")]
        if keys:
            self._cluster.faults["spoil"] += 1
            disk.damage(keys[-step.nth % len(keys)])
            book.is_spoiled = True
