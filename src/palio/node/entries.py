"""Entries of the log: what one turn of a node has for those who get it for certain, in one piece.

An entry is its head (a MessagePack array, after its length in four bytes) and the frames of all its deliveries, each
once. The head says which of them are for whom: a *selection* is pairs of numbers, how many frames to pass over and how
many to take, each in seven bits a byte, the lowest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from palio.codec.parts import UNREADABLE
from palio.errors import DecodeError, brief

VERSION = 1
_LENGTH = 4


class Share(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What of an entry is for one reader."""

    reader: int
    """The number of its log."""
    first: int
    """The number of its first delivery; the others follow."""
    count: int
    size: int
    """Bytes of their frames."""
    selection: bytes


class Head(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an entry says of itself."""

    version: int
    time: int
    """When it was made, in microseconds since 1970."""
    count: int
    """Of its frames."""
    expires: int
    """When the first of them is worth nothing any more, in microseconds; zero if none ever is."""
    shares: tuple[Share, ...]


class Entry(NamedTuple):
    """An entry that was read."""

    head: Head
    frames: bytes


NOTHING = Entry(Head(VERSION, 0, 0, 0, ()), b"")
"""In the place of an entry that is lost."""
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Head)


def encode(head: Head, content: bytes) -> bytes:
    """The bytes of an entry.

    >>> entry = encode(Head(VERSION, 7, 1, 0, (Share(0, 3, 1, 5, select([0])),)), bytes.fromhex("00 00 00 01 04"))
    >>> decode(entry).head.shares[0].first
    3
    """
    packed = _encoder.encode(head)
    return b"".join((len(packed).to_bytes(_LENGTH, "big"), packed, content))


def decode(data: bytes) -> Entry:
    """Read an entry; what is none is refused with :class:`~palio.errors.DecodeError`."""
    begin = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
    try:
        head = _decoder.decode(memoryview(data)[_LENGTH:begin])
    except UNREADABLE as error:
        raise DecodeError(f"no entry of a log: {brief(str(error))}") from error
    if head.version != VERSION:
        raise DecodeError(f"an entry of version {head.version}; known is {VERSION}")
    return Entry(head, data[begin:])


def select(ordinals: Iterable[int]) -> bytes:
    """The selection of some frames, by their places in rising order.

    >>> select([0, 1, 2]).hex(), select([300, 302]).hex()
    ('0003', 'ac02010101')
    """
    out = bytearray()
    place = begin = end = 0
    for ordinal in ordinals:
        if ordinal != end or end == begin:
            if end > begin:
                _put(out, begin - place)
                _put(out, end - begin)
                place = end
            begin = ordinal
        end = ordinal + 1
    if end > begin:
        _put(out, begin - place)
        _put(out, end - begin)
    return bytes(out)


def _put(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def ordinals(selection: bytes) -> Iterator[tuple[int, int]]:
    """Where each run of selected frames begins and ends.

    >>> list(ordinals(select([0, 1, 5])))
    [(0, 2), (5, 6)]
    """
    numbers = _numbers(selection)
    place = 0
    for skipped in numbers:
        taken = next(numbers, 0)
        yield place + skipped, place + skipped + taken
        place += skipped + taken


def _numbers(selection: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in selection:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0


def selected(entry: Entry, selection: bytes) -> list[bytes]:
    """The selected frames, as few pieces: those that lie behind each other are one."""
    runs = list(ordinals(selection))
    if runs == [(0, entry.head.count)]:
        return [entry.frames]
    places = frame_places(entry.frames)
    return [entry.frames[places[begin] : places[end]] for begin, end in runs]


def frame_places(content: bytes) -> Sequence[int]:
    """Where each frame begins, and where the last one ends."""
    places, place, size = [0], 0, len(content)
    while place < size:
        place += _LENGTH + int.from_bytes(content[place : place + _LENGTH], "big")
        places.append(place)
    return places
