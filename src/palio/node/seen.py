"""Which notifications were here already: none goes round in circles, even while two links close a cycle."""

from __future__ import annotations


class Seen:
    """Remembers the latest notification of each origin; those of the server itself were here, all of them.

    In a tree those of one origin come in their order. While two links close a cycle a later one may be faster on the
    other way: then the earlier one counts as known, because order is promised always, and that it arrives only where
    the tree stays as it is.

    >>> seen = Seen()
    >>> [seen.is_new("milan", 0, number) for number in (1, 3, 2, 3)]
    [True, True, False, False]
    """

    __slots__ = ("_latest", "_own")

    def __init__(self, server: str = "", incarnation: int = 0) -> None:
        self._own = server, incarnation
        self._latest: dict[tuple[str, int], int] = {}

    def restore(self, origin: str, incarnation: int, latest: int) -> None:
        """Take back what was known of an origin."""
        self._latest[origin, incarnation] = latest

    def is_new(self, origin: str, incarnation: int, sequence: int) -> bool:
        """Whether a notification comes for the first time, and none that was published after it came before."""
        key = origin, incarnation
        if sequence <= self._latest.get(key, -1) or key == self._own:
            return False
        self._latest[key] = sequence
        return True
