"""What neighbours have to be told, as messages in the order in which they have to be said."""

from __future__ import annotations

from collections.abc import Sequence

from palio.model import Advertisement, Filter
from palio.routing.messages import Advertise, Control, Subscribe, Unadvertise, Unsubscribe
from palio.routing.table import Update


def messages_for(
    offered: Sequence[tuple[str, Update[Advertisement]]], wanted: Sequence[tuple[str, Update[Filter]]]
) -> list[tuple[str, list[Control]]]:
    """Make messages of the updates of each source, by neighbour: make before break.

    >>> messages_for([], [("", Update("rome", (Filter.parse("x > 1"),), ()))])
    [('rome', [Subscribe(filter=Filter.parse('x > 1'))])]
    """
    told: dict[str, list[Control]] = {}
    for source, offer in offered:
        told.setdefault(offer.peer, []).extend(Advertise(each, source) for each in offer.begun)
    for source, update in wanted:
        told.setdefault(update.peer, []).extend(Subscribe(each, source) for each in update.begun)
    for source, update in wanted:
        told[update.peer].extend(Unsubscribe(each, source) for each in update.ended)
    for source, offer in offered:
        told[offer.peer].extend(Unadvertise(each, source) for each in offer.ended)
    return list(told.items())
