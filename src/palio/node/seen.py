"""Which notifications were here already: none goes round in circles, even while two links close a cycle."""

from __future__ import annotations

MOST_ORIGINS = 10_000
"""Origins that are remembered. With more, the one that was heard of first is forgotten: of what it has published before
a copy would count as new, if there were a cycle.
"""
MOST_STARTS = 64
"""Starts of one server that are remembered. Notifications of earlier ones are not under way any more."""


class Seen:
    """Remembers the latest notification of each start of an origin; those of the server itself were here, all of them.

    In a tree those of one origin come in their order. While two links close a cycle a later one may be faster on the
    other way: then the earlier one counts as known, because order is promised always, and that it arrives only where
    the tree stays as it is.

    >>> seen = Seen("rome")
    >>> [seen.is_new("milan", 0, number) for number in (1, 3, 2, 3)], seen.is_new("rome", 7, 1)
    ([True, True, False, False], False)
    """

    __slots__ = ("_forgotten", "_latest", "_server")

    def __init__(self, server: str = "") -> None:
        self._server = server
        self._latest: dict[str, dict[int, int]] = {}
        """For each origin and start the highest number, the start that was heard of last at the end."""
        self._forgotten: list[tuple[str, int]] = []

    def restore(self, origin: str, start: int, latest: int) -> None:
        """Take back what was known of an origin."""
        self._latest.setdefault(origin, {})[start] = latest
        self._bound()

    def is_new(self, origin: str, start: int, sequence: int) -> bool:
        """Whether a notification comes for the first time, and none that was published after it came before."""
        starts = self._latest.get(origin)
        if starts is None:
            starts = self._latest[origin] = {}
            self._bound()
        latest = starts.get(start)
        if latest is None:
            if origin == self._server:
                return False
            if len(starts) >= MOST_STARTS:
                oldest = next(iter(starts))
                del starts[oldest]
                self._forgotten.append((origin, oldest))
        elif sequence <= latest:
            return False
        starts[start] = sequence
        return True

    def _bound(self) -> None:
        if len(self._latest) > MOST_ORIGINS:
            first = next(iter(self._latest))
            self._forgotten += [(first, start) for start in self._latest.pop(first)]

    def forgotten(self) -> list[tuple[str, int]]:
        """The origins and their starts that are not remembered any more since the last call."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten
