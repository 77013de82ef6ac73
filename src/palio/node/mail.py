"""Deliveries that are kept, numbered for each party, until the party acknowledges them."""

from __future__ import annotations

from collections.abc import Iterable

from palio.model import Notification
from palio.node.journal import Journal
from palio.node.watches import Found

Content = Notification | Found
"""What a delivery brings: a notification, or a sequence that matches a pattern."""


class Mail:
    """What parties were sent and have not acknowledged."""

    __slots__ = ("_journal", "_kept", "_next")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next: dict[str, int] = {}
        self._kept: dict[str, dict[int, Content]] = {}

    def restore(self, next_numbers: Iterable[tuple[str, int]], kept: Iterable[tuple[str, int, Content]]) -> None:
        """Take back what was kept."""
        self._next = dict(next_numbers)
        for party, number, content in kept:
            self._kept.setdefault(party, {})[number] = content

    def add(self, parties: Iterable[str], content: Content) -> tuple[int, ...]:
        """A delivery for some parties; the number that it has for each."""
        numbers = []
        for party in parties:
            number = self._next.get(party, 0)
            self._next[party] = number + 1
            self._kept.setdefault(party, {})[number] = content
            self._journal.put(("mail", party), number + 1)
            self._journal.put(("mail", party, number), content)
            numbers.append(number)
        return tuple(numbers)

    def acknowledge(self, party: str, number: int) -> None:
        """A party has got everything up to a number."""
        kept = self._kept.get(party, {})
        for done in [each for each in kept if each <= number]:
            del kept[done]
            self._journal.delete(("mail", party, done))

    def forget(self, party: str) -> None:
        """A party will not fetch anything. If it comes back all the same, numbers go on: none has two meanings."""
        for number in self._kept.pop(party, {}):
            self._journal.delete(("mail", party, number))

    def kept(self, party: str) -> list[tuple[int, Content]]:
        """What a party has not acknowledged, in the order of the numbers."""
        return sorted(self._kept.get(party, {}).items(), key=lambda item: item[0])
