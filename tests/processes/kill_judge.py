"""Judges the kill campaign from its ledger alone: what was lost, came twice, or came in the wrong order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.processes.kill_ledger import (
    Accepted,
    Delivered,
    Intent,
    Life,
    Line,
    Missing,
    Noted,
    Refused,
    Spread,
    Trouble,
    Wish,
)

_MOST_TOLD = 20
"""Problems of one program that are told one by one."""


class Kind(NamedTuple):
    """How a durable party behaves."""

    name: str
    has_cursor: bool
    """Whether it keeps its cursor with its results, and comes back with it: then nothing comes twice to it, ever."""
    most: int = 0
    """Deliveries that may wait for it, if they are fewer than usual."""

    @property
    def is_bounded(self) -> bool:
        return self.most > 0


KINDS = {
    "acknowledging": Kind("acknowledging", False),
    "cursor": Kind("cursor", True),
    "bounded": Kind("bounded", True, 150),
}


class PublisherRecord:
    """What one publisher has tried, and was promised."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.intents: dict[int, Intent] = {}
        self.accepted: set[int] = set()
        self.refused: set[int] = set()
        self.problems: list[str] = []

    def take(self, line: Line) -> None:
        """One more line of its ledger."""
        match line:
            case Intent(n):
                if self.intents.setdefault(n, line) != line:
                    self.problems.append(f"{self.name} published {line} and {self.intents[n]}")
            case Accepted(n, mode):
                self.accepted.add(n)
                if mode != "synced":
                    self.problems.append(f"{self.name} was promised {mode} for {n}, and had asked for synced")
            case Refused(n):
                self.refused.add(n)
            case Trouble(text):
                self.problems.append(f"{self.name}: {text}")

    @property
    def is_settled(self) -> bool:
        """Whether all that it wanted to publish was acknowledged or refused."""
        return len(self.accepted) + len(self.refused) == len(self.intents)


class PartyRecord:
    """What one durable party has got, line by line."""

    def __init__(self, name: str, wish: Wish, kind: Kind) -> None:
        self.name, self.wish, self.kind = name, wish, kind
        self.lives = self.twice = self.disordered = self.redelivered = self.expired = 0
        self.has_spread = False
        self.got: dict[tuple[str, int], tuple[int, Delivered]] = {}
        """The first delivery of each publication, and in which life of the party it came."""
        self._told_gone: set[int] = set()
        """Numbers of which the party was told that they fell out of its bounds."""
        self._contents: dict[tuple[int, int], Delivered] = {}
        self._last: dict[str, int] = {}
        self._noted = -1
        self.log: int | None = None
        self.problems: list[str] = []

    def take(self, line: Line) -> None:
        """One more line of its ledger."""
        match line:
            case Life():
                self.lives += 1
            case Spread():
                self.has_spread = True
            case Noted(_, number):
                self._noted = max(self._noted, number)
            case Missing():
                self._miss(line)
            case Trouble(text):
                self._note(text)
            case Delivered():
                self._deliver(line)

    def _note(self, text: str) -> None:
        self.problems.append(f"{self.name}: {text}")

    def _miss(self, line: Missing) -> None:
        numbers = range(line.after + 1, line.before)
        if line.reason in ("dropped", "skipped") and self.kind.is_bounded:  # skipped are those that were dropped before
            self._told_gone.update(numbers)
        elif line.reason == "expired":
            self.expired += len(numbers)
        else:
            self._note(f"was told of a gap: {line}")

    def _deliver(self, line: Delivered) -> None:
        if self.log not in (None, line.log):
            self._note(f"got {line}, and its log was {self.log}")
        self.log = line.log
        content = self._contents.setdefault((line.log, line.number), line)
        if (content.id, content.by, content.n) != (line.id, line.by, line.n):
            self._note(f"got {content}, and later {line}")
        known = self.got.get((line.by, line.n))
        if known is not None:
            self._deliver_again(*known, line)
            return
        self.got[line.by, line.n] = self.lives, line
        last = self._last.get(line.by, -1)
        if line.n < last:
            self.disordered += 1
            self._note(f"got {line} after number {last} of {line.by}")
        self._last[line.by] = max(last, line.n)

    def _deliver_again(self, life: int, first: Delivered, line: Delivered) -> None:
        """It may come again only to a party that died before it had acknowledged it, and is marked then."""
        if life == self.lives:
            why = "in the same life"
        elif not line.is_repeated:
            why = "and it was not marked"
        elif (line.log, line.number) != (first.log, first.number):
            why = f"as {line.log}/{line.number}"
        elif line.number <= self._noted:
            why = "after it had been acknowledged for good"
        elif self.kind.has_cursor:
            why = "though the party said that it had it"
        else:
            self.redelivered += 1
            self.got[line.by, line.n] = self.lives, first
            return
        self.twice += 1
        self._note(f"got {first} again, {why}")

    @property
    def dropped(self) -> set[int]:
        """Numbers that fell out of the party's bounds. Who comes back with a cursor may still get what is on disk."""
        return self._told_gone - {number for _, number in self._contents}

    def unexplained(self) -> list[int]:
        """Numbers up to the last one that the party neither got nor was told to be gone."""
        numbers = {number for _, number in self._contents}
        return sorted({*range(max(numbers, default=-1) + 1)} - numbers - self._told_gone)


def contradictions(parties: Iterable[PartyRecord]) -> list[str]:
    """A publication has one id, whoever gets it, and an id is of one publication."""
    found, ids, publications = [], dict[tuple[str, int], str](), dict[str, tuple[str, int]]()
    for party in parties:
        for publication, (_, line) in party.got.items():
            if ids.setdefault(publication, line.id) != line.id:
                found.append(f"{party.name} got {publication} as {line.id}, others as {ids[publication]}")
            if publications.setdefault(line.id, publication) != publication:
                found.append(f"{party.name} got {publication} as {line.id}, which is {publications[line.id]}")
    return found[:_MOST_TOLD]


class Account(NamedTuple):
    """What one party was owed, and what became of it."""

    party: str
    kind: str
    acknowledged: int
    """Publications that it wants and whose publishers were told that they are accepted."""
    delivered: int
    redelivered: int
    dropped: int
    lost: int
    twice: int
    disordered: int
    lives: int


class Verdict(NamedTuple):
    """What came of a campaign."""

    acknowledged: int
    delivered: int
    expired: int
    dropped_by_bound: int
    lost: int
    twice: int
    disordered: int
    accounts: tuple[Account, ...]
    problems: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.twice or self.disordered or self.problems)


class Judge:
    """Reads the ledger as it grows."""

    def __init__(self, publishers: Iterable[str], parties: Mapping[str, tuple[Wish, Kind]]) -> None:
        self.publishers = {name: PublisherRecord(name) for name in publishers}
        self.parties = {name: PartyRecord(name, *each) for name, each in parties.items()}

    def take(self, program: str, lines: Iterable[Line]) -> int:
        """Lines of one program's ledger; how many."""
        record = self.publishers.get(program) or self.parties[program]
        count = 0
        for line in lines:
            record.take(line)
            count += 1
        return count

    def has_all_come(self) -> bool:
        """Whether each party has got what each publisher has published last: all before it has come, or never will.

        What is last may have fallen out of tiny bounds; then it counts how many have come or are gone.
        """
        last = {(each.name, n) for each in self.publishers.values() for n, one in each.intents.items() if one.is_mark}
        return bool(last) and all(
            last <= party.got.keys()
            or (party.kind.is_bounded and len(party.got) + len(party.dropped) >= self._owed(party))
            for party in self.parties.values()
        )

    def _owed(self, party: PartyRecord) -> int:
        return sum(
            party.wish.matches(publisher.name, intent)
            for publisher in self.publishers.values()
            for intent in publisher.intents.values()
        )

    def verdict(self) -> Verdict:
        """What the ledger says; all is at rest."""
        accounts, problems = [], [text for each in self.publishers.values() for text in each.problems[:_MOST_TOLD]]
        for publisher in self.publishers.values():
            if not publisher.is_settled:
                unsettled = sorted(publisher.intents.keys() - publisher.accepted)[:3]
                problems.append(f"{publisher.name} was never told whether it has published {unsettled}")
        problems += contradictions(self.parties.values())
        for party in self.parties.values():
            account, more = self._account(party)
            accounts.append(account)
            problems += [*party.problems, *more][:_MOST_TOLD]
        return Verdict(
            sum(len(each.accepted) for each in self.publishers.values()),
            sum(each.delivered for each in accounts),
            sum(each.expired for each in self.parties.values()),
            sum(each.dropped for each in accounts),
            sum(each.lost for each in accounts),
            sum(each.twice for each in accounts),
            sum(each.disordered for each in accounts),
            tuple(accounts),
            tuple(problems),
        )

    def _account(self, party: PartyRecord) -> tuple[Account, list[str]]:
        problems = []
        owed, wanted = set(), set()
        for publisher in self.publishers.values():
            for n, intent in publisher.intents.items():
                if party.wish.matches(publisher.name, intent):
                    wanted.add((publisher.name, n))
                    if n in publisher.accepted:
                        owed.add((publisher.name, n))
        if not party.has_spread:
            problems.append(f"{party.name} has never subscribed")
        strays = sorted(party.got.keys() - wanted)
        if strays:
            problems.append(f"{party.name} got {len(strays)} that it does not want: {strays[:5]}")
        unexplained = party.unexplained()
        if unexplained:
            problems.append(f"{party.name} never got {len(unexplained)} numbers: {unexplained[:5]}")
        missing = sorted(owed - party.got.keys())
        dropped = len(party.dropped)
        lost = max(0, len(missing) - dropped)
        if lost:
            problems.append(f"{party.name} lost {lost}: {missing[:5]}")
        if dropped > len(missing):
            problems.append(f"{party.name} was told that {dropped} are gone, and {len(missing)} are")
        delivered = len(party.got.keys() & owed)
        account = Account(
            party.name, party.kind.name, len(owed), delivered, party.redelivered, dropped, lost,
            party.twice, party.disordered, party.lives,
        )  # fmt: skip
        return account, problems
