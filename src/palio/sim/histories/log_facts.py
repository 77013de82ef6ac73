"""What is known of a log at a time, and how entries are read by somebody who knows nothing of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from palio.codec import frames
from palio.node.hybrid import microseconds_of
from palio.node.party_log import Keep, Letter


class Item(NamedTuple):
    """A delivery in a log."""

    frame: bytes
    position: int
    """Of its entry."""
    time: int
    expires: int
    """When it is worth nothing any more; zero: never."""
    content: object
    """Which notification it is."""


LOST = Item(b"", -1, 0, 0, None)
"""In the place of a delivery of which nothing is known any more."""


class LogFacts(msgspec.Struct, frozen=True):
    """What is known of a log."""

    identity: int
    number: int
    """By which entries know it."""
    keep: Keep
    length: int = 0
    done: int = 0
    """Lower numbers need not be delivered any more: by what the server has written."""
    acknowledged: int = 0
    """Lower numbers have been acknowledged: by what the party has said."""
    dropped: int = 0
    expired: int = 0
    fallen: frozenset[int] = frozenset()
    """Deliveries that have fallen out."""
    letters: Mapping[int, Letter] = {}
    lettered: frozenset[int] = frozenset()
    """Deliveries that have become dead letters."""
    forgotten: int = 0
    reading: int | None = None
    reader: int | None = None
    """The last connection, whether it is there or not."""
    away: int | None = None
    """Since when nobody reads, in the running time of the server."""


class State(NamedTuple):
    """What a server knows after a turn, by party; and keys of publications, with the times since when."""

    logs: dict[str, LogFacts]
    keys: dict[tuple[str, str], int]
    first: int
    """The position of the first entry that there is."""
    next: int
    """The position of the next one."""


def item_of(frame: bytes, position: int, time: int) -> Item:
    """A delivery, as its frame says it."""
    ((kind, content),) = frames.frames_of(frame)
    if kind != frames.DELIVER:
        return Item(frame, position, time, 0, frame)
    notification = frames.delivered(content)
    assert notification.envelope is not None
    expires = notification.envelope.expires
    known = notification.envelope.id, notification
    return Item(frame, position, time, 0 if expires is None else microseconds_of(expires), known)


def read_entry(data: bytes) -> tuple[int, int, list[Any], list[bytes]]:
    """Time, count, shares and frames of an entry."""
    end = 4 + int.from_bytes(data[:4], "big")
    _, time, count, _, shares = msgspec.msgpack.decode(data[4:end])
    found = []
    while end < len(data):
        begin, end = end, end + 4 + int.from_bytes(data[end : end + 4], "big")
        found.append(data[begin:end])
    return time, count, shares, found


def places(selection: bytes) -> Iterator[int]:
    """The places of the frames that a selection names."""
    numbers, number, shift = [], 0, 0
    for byte in selection:
        number += (byte % 128) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number = shift = 0
    place = 0
    for skipped, taken in zip(numbers[::2], numbers[1::2], strict=True):
        yield from range(place + skipped, place + skipped + taken)
        place += skipped + taken
