"""Patterns: sequences of filters, matched by sequences of notifications."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from palio.errors import CallerError, brief
from palio.model.conditions import expect
from palio.model.filter import Filter
from palio.model.immutable import Immutable, fill
from palio.model.limits import DEFAULT_LIMITS, Limits
from palio.model.syntax.parser import parse_pattern


class Pattern(Immutable):
    """One filter after another; immutable and hashable.

    >>> p = Pattern.parse('symbol = "MSFT" and change < 0 then symbol = "NSCP" and change > 0')
    >>> len(p), p.covers(Pattern.parse('symbol = "MSFT" and change < -1 then symbol = "NSCP" and change > 0'))
    (2, True)
    """

    __slots__ = ("filters",)

    filters: tuple[Filter, ...]

    def __init__(self, filters: Iterable[Filter]) -> None:
        try:
            given = tuple(filters)
        except TypeError:
            raise CallerError(f"{brief(filters)} is no sequence of filters; Pattern.parse(...) reads text") from None
        if not given:
            raise CallerError("a pattern needs at least one filter")
        for filter in given:
            expect(filter, Filter)
        fill(self, "filters", given)

    @classmethod
    def parse(cls, text: str, limits: Limits = DEFAULT_LIMITS) -> Pattern:
        r"""Read filters joined by ``then`` or ``and then``.

        >>> len(Pattern.parse("string a = x\nand then\nstring a = y"))
        2
        """
        return cls(map(Filter, parse_pattern(text, limits)))

    def covers(self, other: Pattern) -> bool:
        """Whether both have the same length and each filter covers the other's at its position."""
        expect(other, Pattern)
        return len(self.filters) == len(other.filters) and all(
            mine.covers(theirs) for mine, theirs in zip(self.filters, other.filters, strict=True)
        )

    def canonical(self) -> Pattern:
        """The same pattern with each filter in its canonical wording: the same for all patterns that are equal.

        >>> print(Pattern.parse("x > 3 and x > 1 then y any and x = 1").canonical())
        x > 3 then x = 1 and y any
        """
        filters = tuple([filter.canonical() for filter in self.filters])
        is_canonical = all(mine is other for mine, other in zip(self.filters, filters, strict=True))
        return self if is_canonical else Pattern(filters)

    def is_satisfiable(self) -> bool:
        """Whether some sequence matches."""
        return all(filter.is_satisfiable() for filter in self.filters)

    def __iter__(self) -> Iterator[Filter]:
        return iter(self.filters)

    def __len__(self) -> int:
        return len(self.filters)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        return self.filters == other.filters

    def __hash__(self) -> int:
        return hash(self.filters)

    def __str__(self) -> str:
        return " then ".join(map(str, self.filters))

    def __repr__(self) -> str:
        return f"Pattern.parse({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Pattern, (self.filters,)
