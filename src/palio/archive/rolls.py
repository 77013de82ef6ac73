"""Rolls: the files that were written together, by their names; and which of them a reader takes.

A roll holds what is to be archived of a range of positions of the log. It has as many files as the notifications
have kinds of columns. Its name says all of that:

>>> part = Part.parse("2026-11-16/palio-1794817450-0000000042-0000000099-1of2.parquet")
>>> part.roll, part.number, part.of
(Roll(incarnation=1794817450, first=42, last=99), 1, 2)
>>> print(part)
palio-1794817450-0000000042-0000000099-1of2.parquet

Compaction writes a roll with the range of several, and the files of those stay for a while. So a reader that lists
the folder goes by :func:`current`: what lies in a larger roll that is complete counts no more, and a larger roll that
is not complete does not count yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_NAME = re.compile(r"palio-(\d+)-(\d{10,})-(\d{10,})-(\d+)of(\d+)\.parquet")


class Roll(NamedTuple):
    """A range of positions of one life of the log, both ends included; rolls are ordered as they were written."""

    incarnation: int
    first: int
    last: int

    def holds(self, other: Roll) -> bool:
        """Whether the other one is a part of this one."""
        return (
            self != other
            and self.incarnation == other.incarnation
            and self.first <= other.first
            and other.last <= self.last
        )


class Part(NamedTuple):
    """One of the files of a roll."""

    roll: Roll
    number: int
    """Its number, from one."""
    of: int
    """How many files the roll has."""

    @classmethod
    def parse(cls, path: str) -> Part | None:
        """What a name says, with folders before it or not; nothing if it is no file of an archive."""
        found = _NAME.fullmatch(path.rpartition("/")[2])
        if found is None:
            return None
        incarnation, first, last, number, count = map(int, found.groups())
        if first > last or not 1 <= number <= count:
            return None
        return cls(Roll(incarnation, first, last), number, count)

    def __str__(self) -> str:
        incarnation, first, last = self.roll
        return f"palio-{incarnation}-{first:010}-{last:010}-{self.number}of{self.of}.parquet"


class Listing(NamedTuple):
    """The files of an archive, sorted out."""

    current: dict[Roll, list[str]]
    """What a reader takes, in the order of the log."""
    replaced: dict[Roll, list[str]]
    """What lies in a larger roll by now."""
    unfinished: dict[Roll, list[str]]
    """Larger rolls that are not complete yet, while what lies in them is there."""
    incomplete: tuple[Roll, ...]
    """Those of the current ones that lack a file: about to be written or removed, or damaged."""
    others: tuple[str, ...]
    """Files that are none of an archive."""


def sort_out(paths: Iterable[str]) -> Listing:
    """Tell files that count from those that do not count any more, or not yet.

    >>> small = [f"palio-1-000000000{n}-000000000{n}-1of1.parquet" for n in (1, 2)]
    >>> large = [f"palio-1-0000000001-0000000002-{n}of2.parquet" for n in (1, 2)]
    >>> [roll[1:] for roll in sort_out([*small, large[0]]).unfinished]
    [(1, 2)]
    >>> [roll[1:] for roll in sort_out([*small, *large]).replaced]
    [(1, 1), (2, 2)]
    """
    files: dict[Roll, list[tuple[Part, str]]] = {}
    others = []
    for path in paths:
        part = Part.parse(path)
        if part is None:
            others.append(path)
        else:
            files.setdefault(part.roll, []).append((part, path))
    listing = Listing({}, {}, {}, _incomplete(files), tuple(others))
    enclosing: list[Roll] = []  # complete rolls that may hold what follows
    for roll in sorted(files, key=_outermost_first):
        paths_of_roll = [path for _, path in sorted(files[roll])]
        enclosing = [each for each in enclosing if each.incarnation == roll.incarnation and each.last >= roll.first]
        if any(each.holds(roll) for each in enclosing):
            listing.replaced[roll] = paths_of_roll
        else:
            listing.current[roll] = paths_of_roll
        if roll not in listing.incomplete:
            enclosing.append(roll)
    _set_unfinished_apart(listing)
    return listing._replace(incomplete=tuple(roll for roll in listing.incomplete if roll in listing.current))


def current(paths: Iterable[str]) -> list[str]:
    """The files that a reader of the archive takes, in the order of the log."""
    return [path for paths_of_roll in sort_out(paths).current.values() for path in paths_of_roll]


def _outermost_first(roll: Roll) -> tuple[int, int, int]:
    return roll.incarnation, roll.first, -roll.last


def _incomplete(files: dict[Roll, list[tuple[Part, str]]]) -> tuple[Roll, ...]:
    """Rolls of which a file is missing; files that disagree about how many there are do not make a complete one."""
    return tuple(
        roll
        for roll, parts in files.items()
        if len({part.of for part, _ in parts}) > 1
        or {part.number for part, _ in parts} != set(range(1, parts[0][0].of + 1))
    )


def _set_unfinished_apart(listing: Listing) -> None:
    """A roll that lacks a file while there are others within its range is about to be written: those count."""
    rolls = list(listing.current)  # outermost first: what lies in a roll follows it
    for index, roll in enumerate(rolls):
        if roll in listing.incomplete and index + 1 < len(rolls) and roll.holds(rolls[index + 1]):
            listing.unfinished[roll] = listing.current.pop(roll)
