"""The model itself as a matcher: it asks every filter. Slow, and right by definition."""

from __future__ import annotations

from collections.abc import Iterable

from palio.errors import CallerError, LimitError, UnknownFilterError, brief
from palio.model import DEFAULT_LIMITS, Filter, Limits, Notification
from palio.model.conditions import expect


class LinearScan:
    """The :class:`~palio.matching.Matcher` that all others are compared with.

    >>> scan = LinearScan()
    >>> alarms = scan.add(Filter.parse('event = "alarm"'))
    >>> urgent, all = scan.add_many([Filter.parse("level > 7"), Filter()])
    >>> scan.match(Notification(event="alarm", level=5)) == [alarms, all]
    True
    >>> scan.remove(all)
    >>> scan.match(Notification(level=9)) == [urgent], scan.match_any(Notification(level=1)), len(scan), all in scan
    (True, False, 2, False)
    >>> scan.remove(all)
    Traceback (most recent call last):
    palio.errors.UnknownFilterError: no filter has the id 2
    """

    __slots__ = ("_filters", "_limits", "_next")

    def __init__(self, filters: Iterable[Filter] = (), *, limits: Limits = DEFAULT_LIMITS) -> None:
        expect_limits(limits)
        self._limits = limits
        self._filters: dict[int, Filter] = {}  # in the order of the ids, because those only grow
        self._next = 0
        self.add_many(filters)

    def add(self, filter: Filter) -> int:
        """Add a filter and return its id."""
        check_filter(filter, self._limits)
        id = self._next
        self._filters[id] = filter
        self._next += 1
        return id

    def add_many(self, filters: Iterable[Filter]) -> list[int]:
        """Add filters and return their ids; if one of them cannot be added, none is."""
        if not isinstance(filters, Iterable):
            raise CallerError(f"{brief(filters)} is no iterable of filters; add takes a single one")
        given = list(filters)
        for filter in given:
            check_filter(filter, self._limits)
        return [self.add(filter) for filter in given]

    def remove(self, id: int) -> None:
        """Remove the filter of this id."""
        if not isinstance(id, int) or isinstance(id, bool):
            raise CallerError(f"{brief(id)} is no id of a filter; add returns ids, which are integers")
        if self._filters.pop(id, None) is None:
            raise UnknownFilterError(f"no filter has the id {brief(id)}")

    def match(self, notification: Notification) -> list[int]:
        """The ids of all filters that match, sorted."""
        expect(notification, Notification)
        return [id for id, filter in self._filters.items() if filter.matches(notification)]

    def match_any(self, notification: Notification) -> bool:
        """Whether some filter matches."""
        expect(notification, Notification)
        return any(filter.matches(notification) for filter in self._filters.values())

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int) and not isinstance(id, bool) and id in self._filters


def expect_limits(limits: object) -> None:
    """Refuse what is no :class:`~palio.model.limits.Limits`."""
    if not isinstance(limits, Limits):
        raise CallerError(f"{brief(limits)} is no Limits; Limits(constraints=...) makes some")


def check_filter(filter: object, limits: Limits) -> None:
    """Refuse what is no filter, and a filter beyond the limits on constraints, names and literals.

    >>> check_filter(Filter.parse("x = 1 and y = 2"), Limits(constraints=1))
    Traceback (most recent call last):
    palio.errors.LimitError: constraints in one filter: 2 where at most 1 are allowed (limit 'constraints')
    """
    expect(filter, Filter)
    assert isinstance(filter, Filter)
    if len(filter) > limits.constraints:
        raise LimitError("constraints", limits.constraints, len(filter), "constraints in one filter")
    for constraint in filter:
        _check_size(constraint.name, "name_bytes", limits, f"bytes in the name {brief(constraint.name)}")
        _check_size(constraint.value, "literal_bytes", limits, f"bytes in the literal for {brief(constraint.name)}")


def _check_size(text: object, limit: str, limits: Limits, what: str) -> None:
    if isinstance(text, str | bytes):
        allowed = getattr(limits, limit)
        size = len(text.encode() if isinstance(text, str) else text)
        if size > allowed:
            raise LimitError(limit, allowed, size, what)
