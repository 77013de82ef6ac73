"""Judges what durable parties got, and what their servers have on disk, when all is at rest.

What servers write is judged on the way, turn by turn, by :mod:`palio.sim.histories.ledger`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from palio.node.hybrid import date_of
from palio.node.logs import Logs
from palio.node.node import Node
from palio.node.party_log import PartyLog
from palio.sim.engine.cluster import found_on
from palio.sim.histories.durable import Durable
from palio.sim.histories.facts import Epoch, Publication
from palio.sim.histories.log_facts import LOST, LogFacts
from palio.sim.histories.player import Player

_KEPT = (
    "name", "number", "identity", "keep", "next", "size", "done", "done_size", "dropped", "expired", "marks", "letters",
    "letter", "forgotten",
)  # fmt: skip
"""What of a log has to be the same in a server that is made from what is on disk."""


class DurabilityInvariants:
    """Asked after every rest."""

    def __init__(self, player: Player, durable: Durable) -> None:
        self._player = player
        self._durable = durable

    def is_excused(self, epoch: Epoch, publication: Publication, party: str) -> bool:
        """Whether a party need not have got something: it is in its log, worth nothing any more, or it is not durable.

        What is in a log is judged by that.
        """
        server = self._player.parties[party].server
        latest = max(self._player.cluster.time(each) for each in self._durable.books)  # one on the way may be ahead
        if publication.expires is not None and publication.expires <= date_of(latest):
            return True
        items = [
            each for (who, _), known in self._durable.books[server].items.items() if who == party for each in known
        ]
        known = publication.id, publication.notification
        if (party, known) in self._durable.books[server].lost or any(item.content == known for item in items):
            return True
        return party not in self._durable.parties and server in epoch.crashed | epoch.died

    def judge(self) -> Iterator[str]:
        """What is wrong at rest."""
        for server, book in self._durable.books.items():
            yield from book.problems
            node = self._player.cluster.nodes[server]
            for party, facts in book.logs.items():
                yield from self._judge_log(server, party, facts)
            yield from self._judge_disk(server, node)

    def _judge_log(self, server: str, party: str, facts: LogFacts) -> Iterator[str]:
        """A party that is here has got everything, but for what fell out, and was told so."""
        readers, book = self._player.cluster.readers, self._durable.books[server]
        if party not in readers or readers[party].reading is None:
            yield f"{party} has a log at {server}, and is not there"
            return
        reader = readers[party]
        if reader.log and reader.log != facts.identity:
            yield f"{party} reads log {reader.log}, and has log {facts.identity}"
        yield from self._judge_told(party, facts)
        if facts.done != facts.length:
            yield f"{party} has acknowledged {facts.done} of {facts.length} deliveries, and is here"
        missing = [
            number
            for number, item in enumerate(book.items_of(party)[: facts.length])
            if item is not LOST and number not in facts.fallen | facts.lettered
            and not any(readers.has_got(party, log, number) for log in book.identities(party, number))
        ]  # fmt: skip
        if missing:
            yield f"{party} has not got {missing} of {facts.length} deliveries, and nothing was said to have fallen out"
        yield from self._judge_reading(party, facts)

    def _judge_told(self, party: str, facts: LogFacts) -> Iterator[str]:
        """A party was told of all that has fallen out before what it got last, and not of more than was counted.

        In one turn something may fall out before a party is told, and something else after that.
        """
        readers, book = self._player.cluster.readers, self._durable.books[self._player.parties[party].server]
        told, expected = readers[party].told, readers[party].expected or 0
        claims = {(0, 0), *book.claims.get((party, facts.identity), ())}
        if not any(told[0] <= dropped and told[1] <= expired for dropped, expired in claims):
            yield f"{party} was told that {told} deliveries were dropped and expired, which was never so"
        unseen = [
            number
            for number in sorted(facts.fallen)
            if book.begun(party) <= number < expected and not readers.has_got(party, facts.identity, number)
        ]
        if len(unseen) > sum(told):
            yield f"{party} was told that {told} deliveries were dropped and expired, and has not got {unseen}"

    def _judge_reading(self, party: str, facts: LogFacts) -> Iterator[str]:
        """A party has got everything from where on it reads; what it wanted once more was where it began to."""
        reader = self._player.cluster.readers[party]
        book = self._durable.books[self._player.parties[party].server]
        if reader.since is None or (party, reader.reading) in self._durable.passing_over:
            return
        for number in self._durable.wanted_again(party, reader.reading):
            if number not in reader.starts and number < facts.length:
                yield f"{party} wanted delivery {number} once more, and has heard of {sorted(reader.starts)} only"
        first, got = reader.since
        now = self._player.cluster.time(book.server)
        missing = [
            number
            for number, item in enumerate(book.items_of(party)[: facts.length])
            if number >= first and number not in got and item is not LOST
            and item.position >= book.first and item.position not in book.damaged
            and item.time >= now - facts.keep.age and not 0 < item.expires <= now
            and number not in facts.fallen | facts.lettered
        ]  # fmt: skip
        if missing:
            yield f"{party} has read from {first} on, and has not got {missing}"

    def _judge_disk(self, server: str, node: Node) -> Iterator[str]:
        """On disk is what a server knows, and nothing that it does not need."""
        disk = self._player.cluster.disks[server]
        made = found_on(disk, node.settings, self._player.cluster.time(server))
        fresh = Node(node.settings, *made)
        is_whole = all(data for _, data in made[2])
        if is_whole and _state(fresh.logs) != _state(node.logs):
            yield f"{server} has on disk {_state(fresh.logs)}, and knows {_state(node.logs)}"
        if sorted(fresh.keys) != sorted(node.keys):
            yield f"{server} has on disk the keys {sorted(fresh.keys)}, and knows {sorted(node.keys)}"
        positions: list[Any] = sorted(key[1] for key in disk.records if key[0] == "entry")
        if positions != list(range(node.logs.first, node.logs.position)):
            yield f"{server} has on disk the entries {positions}, of {node.logs.first} to {node.logs.position}"
        numbers, names = {log.number for log in node.logs}, {log.name for log in node.logs}
        for key in disk.records:
            of_a_log = key[0] in ("mark", "letter") and key[1] not in numbers
            if of_a_log or (key[0] in ("mail", "cursor", "end") and key[1] not in names):
                yield f"{server} has on disk {key} of a log that has ended"


def _state(logs: Logs) -> dict[str, Any]:
    found: dict[str, Any] = {log.name: _state_of(log) for log in logs}
    return {"position": logs.position, "first": logs.first, "logs": dict(sorted(found.items()))}


def _state_of(log: PartyLog) -> dict[str, Any]:
    return {name: getattr(log, name) for name in _KEPT}
