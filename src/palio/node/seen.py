"""Which notifications were here already: none goes round in circles, even while two links close a cycle."""

from __future__ import annotations

_WINDOW = 1024


class Seen:
    """Remembers the latest notifications of each origin.

    >>> seen = Seen()
    >>> [seen.is_new("milan", 0, number) for number in (1, 3, 2, 3)]
    [True, True, True, False]
    """

    __slots__ = ("_origins",)

    def __init__(self) -> None:
        self._origins: dict[tuple[str, int], tuple[int, int]] = {}

    def restore(self, origin: str, incarnation: int, state: tuple[int, int]) -> None:
        """Take back what was known of an origin."""
        self._origins[origin, incarnation] = state

    def state(self, origin: str, incarnation: int) -> tuple[int, int]:
        """What is known of an origin: its latest number, and which of those before it were here."""
        return self._origins[origin, incarnation]

    def is_new(self, origin: str, incarnation: int, sequence: int) -> bool:
        """Whether a notification comes for the first time; those far behind the latest one count as known."""
        key = origin, incarnation
        latest, mask = self._origins.get(key, (-1, 0))
        ahead = sequence - latest
        if ahead > 0:
            mask = (mask << ahead | 1) & _ALL if ahead < _WINDOW else 1
            self._origins[key] = sequence, mask
            return True
        bit = 1 << -ahead
        if -ahead >= _WINDOW or mask & bit:
            return False
        self._origins[key] = latest, mask | bit
        return True


_ALL = (1 << _WINDOW) - 1
