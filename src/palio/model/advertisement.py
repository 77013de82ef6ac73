"""Advertisements: what a publisher announces that it may publish."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from palio.errors import InvalidConstraintError, brief
from palio.model.conditions import ConstraintSet, expect, same_words
from palio.model.constraint import Constraint
from palio.model.filter import Filter
from palio.model.immutable import fill
from palio.model.limits import DEFAULT_LIMITS, Limits
from palio.model.notification import Notification
from palio.model.operator import Operator
from palio.model.sets.alternatives import express_union
from palio.model.sets.plain import is_plain
from palio.model.sets.valueset import ValueSet, disjunction
from palio.model.syntax.parser import parse_advertisement
from palio.model.syntax.printer import print_constraints


class Advertisement(ConstraintSet):
    """Names with the values they may take; several constraints on one name are alternatives.

    It announces the notifications all of whose attributes it mentions. None of them need be there:

    >>> a = Advertisement.parse('event = "alarm" and event = "login" and integer level > 0')
    >>> a.announces(Notification(event="login")), a.announces(Notification(event="alarm", user="eva"))
    (True, False)
    >>> a.relevant_to(Filter.parse("level > 3"))
    True

    The advertisement without constraints announces only the notification without attributes.
    """

    __slots__ = ("_by_name", "_canonical", "_hash", "_sets")

    _by_name: dict[str, list[Constraint]]
    _canonical: Advertisement | bool | None
    """As in filters."""
    _hash: int | None
    _sets: dict[str, ValueSet] | None

    def __init__(self, constraints: Iterable[Constraint] = ()) -> None:
        super().__init__(constraints)
        for constraint in self.constraints:
            if constraint.operator is Operator.ABSENT:
                raise InvalidConstraintError(
                    f"constraint on {brief(constraint.name)}: "
                    "'absent' means nothing in an advertisement; leave the name out"
                )
        fill(self, "_by_name", self.by_name())
        fill(self, "_sets", None)
        fill(self, "_hash", None)
        fill(self, "_canonical", None)

    @classmethod
    def parse(cls, text: str, limits: Limits = DEFAULT_LIMITS) -> Advertisement:
        """Read a list of constraints, in either spelling; ``in`` lists alternatives.

        >>> print(Advertisement.parse('event in ("alarm", "login"); user any'))
        event = "alarm" and event = "login" and user any
        """
        return cls(parse_advertisement(text, limits))

    def announces(self, notification: Notification) -> bool:
        """Whether every attribute of the notification meets at least one constraint on its name."""
        expect(notification, Notification)
        return all(
            any(constraint.matches_value(value) for constraint in self._by_name.get(name, ()))
            for name, value in notification.items()
        )

    def value_sets(self) -> dict[str, ValueSet]:
        """The values that are announced for each name, names that can take none left out: the canonical form."""
        if self._sets is None:
            sets = {name: disjunction(group) for name, group in self._by_name.items()}
            fill(self, "_sets", {name: allowed for name, allowed in sets.items() if not allowed.is_empty})
        assert self._sets is not None
        return self._sets

    def canonical(self) -> Advertisement:
        """The same advertisement in its one canonical wording, the same for all advertisements that are equal.

        >>> print(Advertisement.parse("y any; x > 3 and x = 3 and x > 5").canonical())
        x >= 3 and y any
        """
        known = self._canonical
        if known is None:
            known = self._find_canonical()
            fill(self, "_canonical", known)
        return self if isinstance(known, bool) else known

    def _find_canonical(self) -> Advertisement | bool:
        """The canonical form, or true if this is it."""
        if all(map(is_plain, self.constraints)) and all(a.name < b.name for a, b in pairwise(self.constraints)):
            return True
        constraints = [each for name, allowed in self.value_sets().items() for each in express_union(name, allowed)]
        if same_words(self, constraints):
            return True
        found = Advertisement(constraints)
        for slot, value in (("_sets", self._sets), ("_hash", self._hash), ("_canonical", True)):
            fill(found, slot, value)  # all of it is the same
        return found

    def covers(self, other: Advertisement) -> bool:
        """Whether this advertisement announces everything that the other one announces.

        >>> Advertisement.parse("x any").covers(Advertisement.parse("x > 3 and x < 1"))
        True
        """
        expect(other, Advertisement)
        mine = self.value_sets()
        return all(name in mine and mine[name].covers(allowed) for name, allowed in other.value_sets().items())

    def relevant_to(self, filter: Filter) -> bool:
        """Whether something announced here can match the filter."""
        expect(filter, Filter)
        mine = self.value_sets()
        return all(
            wanted.absent or (name in mine and mine[name].meets(wanted)) for name, wanted in filter.value_sets().items()
        )

    def merge(self, other: Advertisement, most: int = DEFAULT_LIMITS.constraints) -> Advertisement | None:
        """The one advertisement that announces exactly what the two announce together, if there is one.

        Names may be missing from what is announced, so two advertisements make one when they differ in one name only.
        ``most`` bounds its constraints.

        >>> one, other = Advertisement.parse("x > 5; y any"), Advertisement.parse("x < 3; y any")
        >>> print(one.merge(other))
        x > 5 and x < 3 and y any
        >>> one.merge(Advertisement.parse("x < 3; z any")) is None
        True
        """
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        mine, theirs = self.value_sets(), other.value_sets()
        differing = [name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
        if len(differing) != 1:
            return None
        (name,) = differing
        alternatives = _broadest([*self._by_name.get(name, ()), *other._by_name.get(name, ())])
        constraints = [
            each
            for known, group in sorted({**self._by_name, name: alternatives}.items())
            if known in mine or known == name
            for each in group
        ]
        return Advertisement(constraints) if len(constraints) <= most else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Advertisement):
            return NotImplemented
        return self.constraints == other.constraints or self.value_sets() == other.value_sets()

    def __hash__(self) -> int:
        if self._hash is None:
            fill(self, "_hash", hash(frozenset(self.value_sets().items())))
        assert self._hash is not None
        return self._hash

    def __str__(self) -> str:
        return print_constraints(self.constraints)


def _broadest(alternatives: list[Constraint]) -> list[Constraint]:
    """Alternatives without those that another one makes superfluous."""
    kept: dict[Constraint, ValueSet] = {}
    for each in alternatives:
        allowed = disjunction([each])
        if not any(broader.covers(allowed) for broader in kept.values()):
            kept = {other: known for other, known in kept.items() if not allowed.covers(known)}
            kept[each] = allowed
    return list(kept)
