"""What parties may ask for."""

from __future__ import annotations

from palio.errors import CallerError, LimitError, brief
from palio.model import Advertisement, Filter, Notification, Pattern
from palio.model.limits import Limits
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
    """Refuse what is too large, or what nothing can match."""
    if not wanted.is_satisfiable():
        raise UnsatisfiableFilterError(f"nothing can match {brief(str(wanted))}")
    if isinstance(wanted, Filter):
        check_constraints(wanted, limits)
        return
    if len(wanted) > limits.pattern_filters:
        raise LimitError("pattern_filters", limits.pattern_filters, len(wanted), "filters in one pattern")
    for filter in wanted:
        check_constraints(filter, limits)


def check_constraints(element: Filter | Advertisement, limits: Limits) -> None:
    """Refuse what is too large."""
    found = len(element.constraints)
    if found > limits.constraints:
        raise LimitError("constraints", limits.constraints, found, "constraints in one filter")


def check_room(held: int, most: int) -> None:
    """Refuse one more of what a party holds."""
    if held >= most:
        raise LimitError("filters_per_party", most, held + 1, "filters of one party")


def check_size(notification: Notification, limits: Limits) -> None:
    """Refuse what is too large."""
    if len(notification) > limits.attributes:
        raise LimitError("attributes", limits.attributes, len(notification), "attributes in one notification")
