"""What every matcher can do, however it does it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from palio.model import Filter, Notification


@runtime_checkable
class Matcher(Protocol):
    """A set of filters under ids, and the question which of them match.

    An id belongs to one filter for ever: it is not given out again after its filter was removed, and equal filters
    have ids of their own.

    >>> from palio.matching import LinearScan
    >>> def count(matcher: Matcher, notification: Notification) -> int:
    ...     return len(matcher.match(notification))
    >>> count(LinearScan([Filter.parse("x = 1"), Filter.parse("x < 5")]), Notification(x=1))
    2
    """

    def add(self, filter: Filter) -> int:
        """Add a filter and return its id."""
        ...

    def add_many(self, filters: Iterable[Filter]) -> list[int]:
        """Add filters and return their ids, in the same order; all are added, or an error is raised and none is."""
        ...

    def remove(self, id: int) -> None:
        """Remove the filter of this id, or raise :class:`~palio.errors.UnknownFilterError`."""
        ...

    def match(self, notification: Notification) -> list[int]:
        """The ids of all filters that match, sorted."""
        ...

    def match_any(self, notification: Notification) -> bool:
        """Whether some filter matches."""
        ...

    def __len__(self) -> int: ...

    def __contains__(self, id: object) -> bool: ...
