"""What parties may ask for."""

from __future__ import annotations

from collections.abc import Callable

from palio.errors import CallerError, LimitError, brief
from palio.model import Advertisement, Filter, Notification, Pattern
from palio.model.limits import Limits
from palio.model.value import Value
from palio.routing.router import MONITORS


class UnsatisfiableFilterError(CallerError):
    """A filter that nothing can match."""


class NotAdvertisedError(CallerError):
    """A publication that its publisher has not advertised, where that is asked for."""


class NotAllowedError(CallerError):
    """A party acts for another one without the right to."""


class NoStoreError(CallerError):
    """Something that only a server with a store can promise."""


class FullDiskError(CallerError):
    """A publication that cannot be written, because there is no room on the server's disk."""


def check_name(party: str) -> None:
    """Refuse a party without a name."""
    if party == MONITORS:
        raise CallerError("party: empty; it is a URI by which the party is known")


def check_wanted(wanted: Filter | Pattern, limits: Limits) -> None:
    """Refuse what nothing can match, or a pattern that is too long; its filters are checked one by one."""
    if not wanted.is_satisfiable():
        raise UnsatisfiableFilterError(f"nothing can match {brief(str(wanted))}")
    if isinstance(wanted, Pattern) and len(wanted) > limits.pattern_filters:
        raise LimitError("pattern_filters", limits.pattern_filters, len(wanted), "filters in one pattern")


def check_constraints(element: Filter | Advertisement, limits: Limits) -> None:
    """Refuse what is too large, as it was said or in its canonical form: that is what other servers get.

    A literal of the canonical form may be longer by a byte or two, where it is the end of a prefix's range.
    """
    for form in (element, element.canonical()):
        found = len(form.constraints)
        if found > limits.constraints:
            raise LimitError("constraints", limits.constraints, found, "constraints in one filter")
        for constraint in form:
            size = _bytes_in(constraint.value)
            if size > limits.literal_bytes:
                raise LimitError("literal_bytes", limits.literal_bytes, size, "bytes in a literal")


def _bytes_in(value: Value | None) -> int:
    return len(value.encode() if isinstance(value, str) else value) if isinstance(value, str | bytes) else 0


def check_number(found: int, limits: Limits) -> None:
    """Refuse more subscriptions at once than one filter with ``or`` may stand for."""
    if found > limits.union_filters:
        raise LimitError("union_filters", limits.union_filters, found, "subscriptions in the place of others")


def check_growth(held: int, growth: int, most: int) -> None:
    """Refuse that a party holds more than it may; a request that does not make it more is allowed in any case."""
    if growth > 0 and held + growth > most:
        raise LimitError("filters_per_party", most, held + growth, "filters of one party")


def check_room(held: int, growth: Callable[[], int], most: int) -> None:
    """The same for one more; how much that makes is worked out only if it matters."""
    if held >= most:
        check_growth(held, growth(), most)


def check_size(notification: Notification, limits: Limits) -> None:
    """Refuse what is too large."""
    if len(notification) > limits.attributes:
        raise LimitError("attributes", limits.attributes, len(notification), "attributes in one notification")
