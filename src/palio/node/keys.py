"""Keys of publications: what was published with a key that was there before counts once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_Key = tuple[str, str]
"""A party, and what it has chosen."""


class Keys:
    """The keys of the last publications, by party; bounded in number and age.

    >>> keys = Keys(most=2, age=10)
    >>> [keys.is_new("me", key, now) for key, now in [("a", 0), ("a", 1), ("b", 2), ("a", 13)]]
    [True, False, True, True]
    >>> keys.changes()
    [('me', 'b', None), ('me', 'a', 13)]
    """

    __slots__ = ("_age", "_changes", "_known", "_most")

    def __init__(self, most: int, age: int) -> None:
        self._most = most
        self._age = age
        self._known: dict[_Key, int] = {}
        """Since when each is known, the oldest first."""
        self._changes: dict[_Key, int | None] = {}

    def is_new(self, party: str, key: str, now: int) -> bool:
        """Whether a publication has a key that is not known; from now on it is."""
        self._forget(now)
        known = party, key
        if known in self._known:
            return False
        self._put(known, now)
        if len(self._known) > self._most:
            self._drop(next(iter(self._known)))
        return True

    def take_back(self, party: str, key: str) -> None:
        """The publication was refused after all."""
        self._drop((party, key))

    def _forget(self, now: int) -> None:
        while self._known:
            known, since = next(iter(self._known.items()))
            if since > now - self._age:
                return
            self._drop(known)

    def _put(self, known: _Key, now: int) -> None:
        self._known[known] = now
        self._changes.pop(known, None)
        self._changes[known] = now

    def _drop(self, known: _Key) -> None:
        if self._known.pop(known, None) is not None:
            self._changes.pop(known, None)
            self._changes[known] = None

    def changes(self) -> list[tuple[str, str, int | None]]:
        """What has changed since the last call: keys, with the time since which they are known, or none."""
        changes, self._changes = self._changes, {}
        return [(*known, since) for known, since in changes.items()]

    def restore(self, known: Iterable[tuple[str, str, int]]) -> None:
        """Take back what was known."""
        self._known = {(party, key): since for party, key, since in sorted(known, key=lambda each: each[2])}

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._known)
