r"""Strings in code-point order: prefixes as intervals, finite pieces, and what almost all members begin with.

The strings that begin with a prefix form an interval, here called its *cone*. Between a string ``s`` and
``s + "\0"`` there is nothing, so an interval ``[low, high)`` of strings is finite exactly when ``high`` is
``low`` followed by NULs; every other interval contains a whole cone.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator

from palio.model.sets.intervals import Bounds, fold, pieces, union

_LAST = "\U0010ffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = "\ud7ff", "\ue000"


def next_character(character: str) -> str | None:
    """The next Unicode scalar value, surrogates being none; ``None`` after the last."""
    if character == _LAST:
        return None
    return _AFTER_SURROGATES if character == _BEFORE_SURROGATES else chr(ord(character) + 1)


def cone_end(prefix: str) -> str | None:
    """The lowest string above all that begin with the prefix, if there is one.

    >>> cone_end("ab")
    'ac'
    """
    stem = prefix.rstrip(_LAST)
    if not stem:
        return None
    following = next_character(stem[-1])
    assert following is not None
    return stem[:-1] + following


def cone(prefix: str) -> Bounds:
    """The strings that begin with the prefix."""
    end = cone_end(prefix)
    return (prefix,) if end is None else (prefix, end)


def is_finite(bounds: Bounds) -> bool:
    """Whether the set holds finitely many strings."""
    return all(_is_run(low, high) for low, high in pieces(bounds))


def split_finite(bounds: Bounds) -> tuple[Bounds, Bounds]:
    """The finite pieces and the infinite ones."""
    finite: list[str] = []
    infinite: list[str] = []
    for low, high in pieces(bounds):
        (finite if _is_run(low, high) else infinite).extend(_interval(low, high))
    return tuple(finite), tuple(infinite)


def points(bounds: Bounds) -> Iterator[str]:
    """The strings of a finite set, upwards."""
    for low, high in pieces(bounds):
        for length in range(len(low), len(high or "")):
            assert high is not None
            yield high[:length]


def of_points(strings: Iterable[str]) -> Bounds:
    """The set of just these strings."""
    runs: list[Bounds] = [(string, string + "\0") for string in strings]
    return fold(union, runs) if runs else ()


def essential_prefix(bounds: Bounds) -> str:
    r"""The longest prefix that all but finitely many strings of an infinite set begin with.

    >>> essential_prefix(("ab", "ac"))
    'ab'
    >>> essential_prefix(("ab", "ac\0"))  # all but "ac" itself
    'ab'
    """
    return os.path.commonprefix(
        [_essential_prefix(low, high) for low, high in pieces(bounds) if not _is_run(low, high)]
    )


def settle(bounds: Bounds, is_free: Callable[[str], bool]) -> Bounds:
    """Choose, among the sets that differ in finitely many *free* strings, always the same one.

    A free string is one whose membership does not matter. Each follows the string right after it, so that two
    sets which differ only in free strings (and only in finitely many) settle to the same boundaries.
    """
    lowered = [_interval(_lower(low, is_free), high) for low, high in pieces(bounds)]
    joined = fold(union, [(), *lowered])
    return sum((_interval(low, _retract(low, high, is_free)) for low, high in pieces(joined)), ())


def _lower(low: str, is_free: Callable[[str], bool]) -> str:
    """The lower end of an interval, moved down over free strings."""
    while low.endswith("\0") and is_free(low[:-1]):
        low = low[:-1]
    return low


def _retract(low: str, high: str | None, is_free: Callable[[str], bool]) -> str | None:
    """The upper end of an interval, moved down over free strings, at most to its lower end."""
    while high is not None and high > low and high.endswith("\0") and is_free(high[:-1]):
        high = high[:-1]
    return high


def _interval(low: str, high: str | None) -> Bounds:
    if low == high:
        return ()
    return (low,) if high is None else (low, high)


def _is_run(low: str, high: str | None) -> bool:
    """Whether ``[low, high)`` is just low, low + NUL, and so on: a finite interval."""
    return high is not None and high.startswith(low) and not high[len(low) :].strip("\0")


def _essential_prefix(low: str, high: str | None) -> str:
    if high is None:
        return _leading_last(low)
    # The highest strings may be single ones (high without a NUL), and so may the lowest (when high begins with
    # low and a NUL): leave both aside.
    high = high.rstrip("\0")
    while high.startswith(low) and high[len(low)] == "\0":
        low += "\0"
    stem = os.path.commonprefix([low, high])
    if stem == low:
        return stem + "\0" if high == stem + "\1" else stem
    branch = low[len(stem)]
    if high == stem + (next_character(branch) or ""):
        return stem + branch + _leading_last(low[len(stem) + 1 :])
    return stem


def _leading_last(text: str) -> str:
    return _LAST * (len(text) - len(text.lstrip(_LAST)))
