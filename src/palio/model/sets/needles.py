"""Looking for many strings at once, in time linear in their number."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache

_SEPARATOR = "\ud800"  # a surrogate: in no valid string, so no match spans two texts


def _is_hashing_better(count: int, lengths: Iterable[int], size: int) -> bool:
    """Whether to hash every piece of a text of this size, of each length, rather than search for the strings in turn.

    A search runs at the speed of memory; a piece costs an object. Both weights are in units of a character searched.
    """
    return count * (160 + size) > sum(size * (256 + length // 3) for length in lengths)


class Needles:
    """Strings to look for in, or at the end of, many texts.

    >>> needles = Needles(["ab", "c"])
    >>> needles.any_in("xaby"), needles.any_ends("xaby"), needles.any_ends("xc")
    (True, False, True)
    """

    __slots__ = ("_lengths", "_strings")

    def __init__(self, strings: Collection[str]) -> None:
        self._strings = frozenset(strings)
        self._lengths = sorted({len(string) for string in self._strings})

    def any_in(self, text: str) -> bool:
        """Whether one of the strings occurs in the text."""
        if not _is_hashing_better(len(self._strings), self._lengths, len(text)):
            return any(string in text for string in self._strings)
        return any(
            text[start : start + length] in self._strings
            for length in self._lengths
            for start in range(len(text) - length + 1)
        )

    def any_ends(self, text: str) -> bool:
        """Whether the text ends with one of the strings."""
        return any(text[len(text) - length :] in self._strings for length in self._lengths if length <= len(text))


@lru_cache(1024)
def needles_of(strings: tuple[str, ...]) -> Needles:
    """The same; a set of strings that is compared with one other is compared with many."""
    return Needles(strings)


def all_inside(needles: Collection[str], texts: Collection[str]) -> bool:
    """Whether each of the needles occurs in one of the texts.

    >>> all_inside(["b", "xy"], ["abc", "wxyz"]), all_inside(["cw"], ["abc", "wxyz"])
    (True, False)
    """
    joined = _SEPARATOR.join(texts)
    wanted = set(needles)
    lengths = {len(needle) for needle in wanted}
    if not _is_hashing_better(len(wanted), lengths, len(joined)):
        return all(needle in joined for needle in wanted)
    for length in lengths:
        wanted.difference_update(joined[start : start + length] for start in range(len(joined) - length + 1))
    return not wanted
