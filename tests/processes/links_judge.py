"""Judges the links campaign: of publications that were promised, which were lost; of all, which came twice or late."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tests.processes.kill_judge import KINDS, PartyRecord, PublisherRecord, contradictions
from tests.processes.kill_ledger import Delivered, Intent, Line, Missing, Wish


class Subscriber(NamedTuple):
    """A subscriber of the campaign."""

    server: str
    wish: Wish
    is_durable: bool


class SubscriberRecord(PartyRecord):
    """The deliveries of one subscriber.

    A server that uses another store has other logs: order and numbers are judged within a log. A server whose store was
    restored from an old copy may deliver again everything that its own durable subscribers got before that, once.
    """

    def __init__(self, name: str, subscriber: Subscriber) -> None:
        super().__init__(name, subscriber.wish, KINDS["acknowledging"])
        self.server, self.is_durable = subscriber.server, subscriber.is_durable
        self._may_come_again: set[tuple[str, int]] = set()

    def restored(self) -> None:
        """The store of its server was replaced by an old copy."""
        if self.is_durable:
            self._may_come_again = {*self.got}
            self._contents.clear()
            self._begin_log()

    def _begin_log(self) -> None:
        self._last.clear()
        self._noted = -1

    def _miss(self, line: Missing) -> None:
        """The subscriber was told of a gap. The judge compares with what was promised, so it need not believe that."""

    def _deliver(self, line: Delivered) -> None:
        if line.log != self.log:
            self.log = line.log
            self._begin_log()
        publication = line.by, line.n
        if publication in self._may_come_again:
            self._may_come_again.discard(publication)
            self.redelivered += 1
            del self.got[publication]
        super()._deliver(line)


class LinksVerdict(NamedTuple):
    """The result of a campaign, or of a part of it."""

    acknowledged: int = 0
    delivered: int = 0
    lost: int = 0
    twice: int = 0
    disordered: int = 0
    links_down_unexplained: int = 0
    links_down_explained: int = 0
    rounds: int = 0
    problems: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.twice or self.disordered or self.links_down_unexplained or self.problems)

    def plus(self, other: LinksVerdict) -> LinksVerdict:
        """Both together.

        >>> LinksVerdict(lost=1, problems=("a",)).plus(LinksVerdict(lost=2, rounds=1)).lost
        3
        """
        mine, others = self._asdict(), other._asdict()
        return LinksVerdict(**{name: mine[name] + others[name] for name in mine})


class LinksJudge:
    """Reads the ledger of the links campaign as it grows."""

    def __init__(self, publishers: Iterable[str], subscribers: Mapping[str, Subscriber]) -> None:
        self.publishers = {name: PublisherRecord(name) for name in publishers}
        self.subscribers = {name: SubscriberRecord(name, each) for name, each in subscribers.items()}
        self.is_promised = False
        """Whether publications that begin now must arrive if they are acknowledged."""
        self._promised: dict[tuple[str, int], Intent] = {}
        self.lost = 0
        self.problems: list[str] = []

    def take(self, program: str, line: Line) -> None:
        """One more line of one program."""
        if program in self.publishers:
            self.publishers[program].take(line)
            if self.is_promised and isinstance(line, Intent):
                self._promised[program, line.n] = line
        else:
            self.subscribers[program].take(line)

    @property
    def is_settled(self) -> bool:
        """Whether all publications were acknowledged or refused."""
        return all(each.is_settled for each in self.publishers.values())

    def missing(self, disturbed: Collection[str] = ()) -> dict[str, list[tuple[str, int]]]:
        """Promised publications that have not come to a subscriber, by subscriber.

        Plain subscribers at disturbed servers may have been without a connection, so nothing was promised to them.
        """
        owed = {
            publication: intent
            for publication, intent in self._promised.items()
            if publication[1] in self.publishers[publication[0]].accepted
        }
        found = {}
        for name, record in self.subscribers.items():
            if record.is_durable or record.server not in disturbed:
                absent = [
                    publication
                    for publication, intent in owed.items()
                    if publication not in record.got and record.wish.matches(publication[0], intent)
                ]
                if absent:
                    found[name] = absent
        return found

    def close_round(self, disturbed: Collection[str] = ()) -> int:
        """Nothing of what was promised is under way any more: what is missing is lost; how many are."""
        missing = self.missing(disturbed)
        for name, publications in missing.items():
            server = self.subscribers[name].server
            self.problems.append(f"{name} at {server} lost {len(publications)}: {publications[:5]}")
        self._promised.clear()
        lost = sum(map(len, missing.values()))
        self.lost += lost
        return lost

    def verdict(self) -> LinksVerdict:
        """The result so far, without what concerns links."""
        records: list[PublisherRecord | PartyRecord] = [*self.publishers.values(), *self.subscribers.values()]
        return LinksVerdict(
            acknowledged=sum(len(each.accepted) for each in self.publishers.values()),
            delivered=sum(len(each.got) for each in self.subscribers.values()),
            lost=self.lost,
            twice=sum(each.twice for each in self.subscribers.values()),
            disordered=sum(each.disordered for each in self.subscribers.values()),
            problems=(*self.problems, *(text for each in records for text in each.problems[:20])),
        )

    def contradictions(self) -> list[str]:
        """Publications with two ids, and ids of two publications."""
        return contradictions(self.subscribers.values())
