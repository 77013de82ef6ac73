"""Deliveries that are kept, numbered for each party, until the party acknowledges them."""

from __future__ import annotations

from collections.abc import Iterable

from palio.model import Notification
from palio.node.journal import Journal


class Mail:
    """What parties were sent and have not acknowledged."""

    __slots__ = ("_journal", "_kept", "_next")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next: dict[str, int] = {}
        self._kept: dict[str, dict[int, Notification]] = {}

    def restore(self, next_numbers: Iterable[tuple[str, int]], kept: Iterable[tuple[str, int, Notification]]) -> None:
        """Take back what was kept."""
        self._next = dict(next_numbers)
        for party, number, notification in kept:
            self._kept.setdefault(party, {})[number] = notification

    def add(self, parties: Iterable[str], notification: Notification) -> tuple[int, ...]:
        """A notification for some parties; the number that it has for each."""
        numbers = []
        for party in parties:
            number = self._next.get(party, 0)
            self._next[party] = number + 1
            self._kept.setdefault(party, {})[number] = notification
            self._journal.put(("mail", party), number + 1)
            self._journal.put(("mail", party, number), notification)
            numbers.append(number)
        return tuple(numbers)

    def acknowledge(self, party: str, number: int) -> None:
        """A party has got everything up to a number."""
        kept = self._kept.get(party, {})
        for done in [each for each in kept if each <= number]:
            del kept[done]
            self._journal.delete(("mail", party, done))

    def kept(self, party: str) -> list[tuple[int, Notification]]:
        """What a party has not acknowledged, in the order of the numbers."""
        return sorted(self._kept.get(party, {}).items(), key=lambda item: item[0])
