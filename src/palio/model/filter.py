"""Filters: which notifications a subscriber wants, and how filters relate to one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from palio.errors import CallerError, InternalError, PalioError, TextSyntaxError
from palio.model.conditions import ConstraintSet, expect, same_words
from palio.model.constraint import Constraint
from palio.model.explanation import Explanation, explain
from palio.model.immutable import fill
from palio.model.limits import DEFAULT_LIMITS, Limits
from palio.model.notification import Notification
from palio.model.operator import HOLDS
from palio.model.sets.express import express
from palio.model.sets.merging import merge_sets
from palio.model.sets.plain import is_plain, is_plain_range
from palio.model.sets.valueset import EVERYTHING, ValueSet, conjunction
from palio.model.syntax.parser import parse_union
from palio.model.syntax.printer import EVERYTHING as EVERYTHING_TEXT
from palio.model.syntax.printer import print_constraints
from palio.model.syntax.union import CONTRADICTION

_Test = tuple[str, tuple[type, ...], Callable[[Any, Any], bool], Any]


class Filter(ConstraintSet):
    """A conjunction of constraints; immutable, hashable, and equal to every filter that says the same.

    >>> f = Filter.parse('event = "alarm" and level > 3')
    >>> f.matches(Notification(event="alarm", level=5, room="B12"))
    True
    >>> f.covers(Filter.parse('event = "alarm" and level >= 7'))
    True
    >>> Filter.parse("integer x > 3; integer x < 5") == Filter.parse("integer x = 4")
    True

    The filter without constraints matches everything.
    """

    __slots__ = ("_canonical", "_hash", "_satisfiable", "_sets", "_tests")

    _canonical: Filter | bool | None
    """The canonical form, once it was asked for; true if that is this object, which must not refer to itself."""
    _hash: int | None
    _satisfiable: bool
    _sets: dict[str, ValueSet] | None
    _tests: tuple[_Test, ...]

    def __init__(self, constraints: Iterable[Constraint] = ()) -> None:
        super().__init__(constraints)
        fill(self, "_sets", None)
        fill(self, "_hash", None)
        fill(self, "_canonical", None)
        tests = tuple((each.name, each.classes, HOLDS[each.operator], each.value) for each in self.constraints)
        fill(self, "_tests", tests)

    @classmethod
    def parse(cls, text: str, limits: Limits = DEFAULT_LIMITS) -> Filter:
        """Read one filter, in either spelling.

        >>> print(Filter.parse("string event = alarm; integer level > 3"))
        event = "alarm" and integer level > 3
        """
        filters = cls.parse_union(text, limits)
        if len(filters) != 1:
            raise TextSyntaxError(
                f"this says {len(filters)} filters",
                text,
                0,
                "one conjunction; Filter.parse_union reads 'or', 'in', 'not'",
            )
        return filters[0]

    @classmethod
    def parse_union(cls, text: str, limits: Limits = DEFAULT_LIMITS) -> tuple[Filter, ...]:
        """Read a filter with ``or``, ``in`` and ``not`` as the set of filters that together say it.

        ``not`` is the complement: it also selects what lacks the attribute or has it with another type.

        >>> [str(f) for f in Filter.parse_union('event in ("alarm", "fire") and level > 3')]
        ['event = "alarm" and level > 3', 'event = "fire" and level > 3']
        """
        return tuple(cls(term) for term in parse_union(text, limits)) or (NOTHING,)

    @classmethod
    def parse_lines(cls, lines: Iterable[str], limits: Limits = DEFAULT_LIMITS) -> Iterator[Filter]:
        """Read a file of filters, one a line; empty lines and lines that begin with ``#`` are passed over.

        >>> [str(f) for f in Filter.parse_lines(["# alarms", "level > 3", "", "level any"])]
        ['level > 3', 'level any']
        """
        if isinstance(lines, str):
            lines = lines.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # strings may have other ends of lines
        for number, line in enumerate(lines, 1):
            if not isinstance(line, str):
                raise CallerError(f"line {number} of the input is no str but {type(line).__name__}; open files as text")
            if line.strip() and not line.lstrip().startswith("#"):
                try:
                    parsed = cls.parse(line.rstrip("\r\n"), limits)
                except PalioError as error:
                    raise CallerError(f"filter on line {number} of the input: {error}") from error
                yield parsed

    def matches(self, notification: Notification) -> bool:
        """Whether every constraint holds for the notification."""
        try:
            get = notification._attributes.get
        except AttributeError:
            expect(notification, Notification)
            raise
        for name, classes, holds, literal in self._tests:
            value = get(name)  # None, and so NoneType, for an absent attribute
            if value.__class__ not in classes or not holds(value, literal):
                return False
        return True

    def explain(self, notification: Notification) -> Explanation:
        """Which constraints failed on the notification, and why.

        >>> print(Filter.parse('event = "alarm" and level > 3').explain(Notification(event="alarm", level=2)))
        does not match: 1 of 2 constraints fails
          holds  event = "alarm"
          fails  level > 3        level is 2
        """
        expect(notification, Notification)
        return explain(self.constraints, notification)

    def value_sets(self) -> dict[str, ValueSet]:
        """What the filter allows for each name it speaks of: its canonical form as data."""
        if self._sets is None:
            sets = {name: conjunction(group) for name, group in self.by_name().items()}
            fill(self, "_satisfiable", not any(allowed.is_empty for allowed in sets.values()))
            fill(self, "_sets", sets)
        assert self._sets is not None
        return self._sets

    def is_satisfiable(self) -> bool:
        """Whether some notification matches.

        >>> Filter.parse("x > 3 and x < 2").is_satisfiable()
        False
        """
        self.value_sets()
        return self._satisfiable

    def covers(self, other: Filter) -> bool:
        """Whether this filter matches everything that the other one matches."""
        expect(other, Filter)
        theirs = other.value_sets()
        if not other._satisfiable:
            return True
        return all(allowed.covers(theirs.get(name, EVERYTHING)) for name, allowed in self.value_sets().items())

    def canonical(self) -> Filter:
        """The same filter in its one canonical wording, the same for all filters that are equal.

        Its encoding identifies the filter: in messages, in stores, and between servers.

        >>> print(Filter.parse("integer x > 3; integer x < 5; integer x != 9").canonical())
        integer x = 4
        """
        known = self._canonical
        if known is None:
            known = self._find_canonical()
            fill(self, "_canonical", known)
        return self if isinstance(known, bool) else known

    def _find_canonical(self) -> Filter | bool:
        """The canonical form, or true if this is it."""
        if self._is_plain():
            return True
        if not self.is_satisfiable():
            return same_words(self, CONTRADICTION) or NOTHING
        constraints: list[Constraint] = []
        grouped = self.by_name()
        for name, allowed in self.value_sets().items():
            if len(grouped[name]) == 1 and is_plain(grouped[name][0]):
                constraints.append(grouped[name][0])
                continue
            spoken = express(name, allowed, most=_ANY_NUMBER, is_of_filter=True)
            if spoken is None:
                raise InternalError(f"canonical form of {self} cannot be said as a filter; please report this")
            constraints.extend(spoken)
        if same_words(self, constraints):
            return True
        found = Filter(constraints)
        for slot, value in (("_sets", self._sets), ("_satisfiable", True), ("_hash", self._hash), ("_canonical", True)):
            fill(found, slot, value)  # all of it is the same
        return found

    def _is_plain(self) -> bool:
        """Whether the filter is seen at once to be in canonical form."""
        before, constraints, place = "", self.constraints, 0
        while place < len(constraints):
            name = constraints[place].name
            end = place + 1
            while end < len(constraints) and constraints[end].name == name:
                end += 1
            if name <= before or not (
                is_plain(constraints[place]) if end == place + 1 else is_plain_range(constraints[place:end])
            ):
                return False
            before, place = name, end
        return True

    def merge(self, other: Filter, most: int = DEFAULT_LIMITS.constraints) -> Filter | None:
        """The one filter that selects exactly what the two select together, if there is one.

        ``most`` bounds its constraints: "1 or 9" over integers is seven times "not".

        >>> print(Filter.parse("integer x = 1").merge(Filter.parse("integer x > 1")))
        integer x >= 1
        >>> Filter.parse("x = 1").merge(Filter.parse("y = 1")) is None
        True
        """
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        merged = merge_sets(self.value_sets(), other.value_sets())
        if merged is None:
            return None
        spoken = [express(name, allowed, most) for name, allowed in merged.items()]
        constraints = [constraint for group in spoken if group is not None for constraint in group]
        return None if None in spoken or len(constraints) > most else Filter(constraints)

    def _key(self) -> frozenset[tuple[str, ValueSet]] | None:
        """What tells filters apart: their canonical sets, and nothing if nothing can match."""
        return frozenset(self.value_sets().items()) if self.is_satisfiable() else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        if self._sets is not None and self._sets is other._sets:
            return True  # a filter and its canonical form
        return self.constraints == other.constraints or self._key() == other._key()

    def __hash__(self) -> int:
        if self._hash is None:
            fill(self, "_hash", hash(self._key()))
        assert self._hash is not None
        return self._hash

    def __str__(self) -> str:
        return print_constraints(self.constraints) or EVERYTHING_TEXT


_ANY_NUMBER = 2**31

NOTHING = Filter(CONTRADICTION)
"""The filter that nothing can match: the canonical form of every contradiction."""
