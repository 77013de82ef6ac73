"""Comparisons that are made ahead of changes of a router's tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from palio.matching.preparation import Preparation, Steps
from palio.matching.views import E
from palio.model import Advertisement, Filter
from palio.routing.antichain import Antichain
from palio.routing.messages import Advertise, Control, Subscribe, Unsubscribe
from palio.routing.table import Table

Place = tuple[Table[Any], str]
"""A table, and the neighbour, or the source, that holds there what a message is about."""


def element_of(message: Control) -> Filter | Advertisement:
    """The filter or the advertisement of a message."""
    return message.filter if isinstance(message, Subscribe | Unsubscribe) else message.advertisement


def for_party(
    preparation: Preparation,
    held: Antichain[E],
    tables: Sequence[Table[E]],
    change: tuple[str, Sequence[E], Sequence[E]],
) -> Steps:
    """Compare with what a party holds, and then with what is in tables. ``change`` has the party and what begins and
    ends.
    """
    party, begins, ends = change
    yield from held.prepare(preparation, begins, ends)
    begun, gone = held.foresee(preparation, begins, ends)
    for table in tables:
        yield from table.prepare_parties(
            preparation, party, [each.canonical() for each in begun], [each.canonical() for each in gone]
        )


def for_message(preparation: Preparation, places: Iterable[Place], message: Control) -> Steps:
    """Compare with what is in the tables that a message of a neighbour changes."""
    element = element_of(message)
    begins = isinstance(message, Subscribe | Advertise)
    for table, holder in places:
        yield from table.prepare_peer(preparation, holder, element, begins=begins)
