"""Filters and advertisements for a peer that cannot take them as they are: widened until it can.

A widened filter selects more, and a widened advertisement announces more, so nothing is missed. The receiving end drops
what it did not ask for.
"""

from __future__ import annotations

from typing import TypeVar

from palio.codec import msgpack
from palio.errors import DecodeError
from palio.model import Advertisement, Constraint, Filter, Limits, Notification, Pattern
from palio.model.envelope import Envelope
from palio.routing.messages import Advertise, Standing, Subscribe

_HEAD_BYTES = 7
"""Of the document of a filter or an advertisement: the array, the version, and the array of rows at its longest."""
_ROW_HEAD_BYTES = 2
"""Of the document of a constraint, beside its row."""

_SHORTEST = (False, 0, "")
"""Values with short documents: a peer that takes none of them under a name takes no notification with that name."""

D = TypeVar("D", Filter, Advertisement, Pattern, Constraint, Notification, Envelope)


def problem(document: D, limits: Limits) -> str:
    """Why a reader with these limits refuses a document; empty if it takes it.

    It is read as the peer reads it, so the two cannot disagree.

    >>> problem(Filter.parse("x = 1 and y = 2"), Limits(constraints=1))
    "constraints: constraints: more than the 1 allowed (limit 'constraints')"
    """
    try:
        msgpack.decode(type(document), msgpack.encode(document), limits)
    except DecodeError as error:
        return str(error)
    return ""


def widened(standing: Standing, limits: Limits) -> Standing | None:
    """The subscription, or advertisement, that a peer is sent instead; the same if the peer takes it as it is.

    There is none for an advertisement that mentions more names than the peer takes: names cannot be left out.
    """
    if isinstance(standing, Subscribe):
        filter = widened_filter(standing.filter, limits)
        return standing if filter is standing.filter else Subscribe(filter, standing.source)
    advertisement = widened_advertisement(standing.advertisement, limits)
    if advertisement is standing.advertisement or advertisement is None:
        return standing if advertisement is not None else None
    return Advertise(advertisement, standing.source)


def widened_filter(filter: Filter, limits: Limits) -> Filter:
    """The filter without as many constraints as necessary, those with the longest rows first.

    >>> str(widened_filter(Filter.parse('x = "long" and y = 1 and z = 2'), Limits(constraints=2)))
    'y = 1 and z = 2'
    """
    if not problem(filter, limits):
        return filter
    sizes = {each: _row_bytes(each) for each in filter.constraints if not problem(each, limits)}
    kept = sorted(sizes, key=sizes.__getitem__)[: limits.constraints]
    total = _HEAD_BYTES + sum(sizes[each] for each in kept)
    while kept and total > limits.document_bytes:
        total -= sizes[kept.pop()]
    chosen = set(kept)
    return Filter([each for each in filter.constraints if each in chosen])


def widened_advertisement(advertisement: Advertisement, limits: Limits) -> Advertisement | None:
    """The advertisement with ``any`` in place of the alternatives of as many names as necessary.

    A name that the peer cannot take is left out: notifications with it do not reach the peer either.

    >>> str(widened_advertisement(Advertisement.parse('x = 1; y = 1; y = 2; y = 3'), Limits(constraints=2)))
    'x = 1 and y any'
    """
    if not problem(advertisement, limits):
        return advertisement
    groups = advertisement.by_name()
    for name, group in list(groups.items()):
        anything = Constraint(name, "any")
        if not any(not problem(Notification({name: value}), limits) for value in _SHORTEST):
            del groups[name]
        elif any(problem(each, limits) for each in group):
            groups[name] = [anything]
    costs = {name: (len(group), sum(map(_row_bytes, group))) for name, group in groups.items()}
    count, size = sum(cost[0] for cost in costs.values()), _HEAD_BYTES + sum(cost[1] for cost in costs.values())
    for name in sorted(costs, key=costs.__getitem__, reverse=True):
        if count <= limits.constraints and size <= limits.document_bytes:
            break
        groups[name] = [Constraint(name, "any")]
        count, size = count - costs[name][0] + 1, size - costs[name][1] + _row_bytes(groups[name][0])
    found = Advertisement([each for group in groups.values() for each in group])
    return None if problem(found, limits) else found


def _row_bytes(constraint: Constraint) -> int:
    return len(msgpack.encode(constraint)) - _ROW_HEAD_BYTES
