"""Parties that are not connected any more, and how long the server remembers what they hold."""

from __future__ import annotations

from collections.abc import Iterable


class Absences:
    """Absent parties that are not durable, in the order in which they have left.

    >>> absences = Absences()
    >>> absences.note("eva", 1.0)
    >>> absences.note("adam", 2.0)
    >>> absences.over(before=1.5, most=10), absences.over(before=0.0, most=0)
    (['eva'], ['adam'])
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def begin(self, parties: Iterable[str], now: float) -> None:
        """These have held something in an earlier start of the server."""
        self._since = dict.fromkeys(parties, now)

    def note(self, party: str, now: float) -> None:
        """A party has left."""
        self._since.pop(party, None)
        self._since[party] = now

    def end(self, party: str) -> None:
        """A party is back."""
        self._since.pop(party, None)

    def since(self, party: str) -> float | None:
        """When a party has left, if it is absent and remembered."""
        return self._since.get(party)

    def over(self, before: float, most: int) -> list[str]:
        """Forget the parties that have left before a time, and the first ones of too many; returns them."""
        over = [party for party, since in self._since.items() if since < before]
        for party in over:
            del self._since[party]
        excess = list(self._since)[: max(0, len(self._since) - most)]
        for party in excess:
            del self._since[party]
        return over + excess
