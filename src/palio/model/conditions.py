"""What filters and advertisements share: an ordered set of constraints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from palio.errors import CallerError, InvalidConstraintError, brief
from palio.model.constraint import Constraint
from palio.model.immutable import Immutable, fill

FORM = 1
"""The version of the canonical form. It changes whenever ``canonical()`` gives other words to some filter,
advertisement or pattern: stores then rebuild their keys when they are opened."""


def expect(value: object, cls: type) -> None:
    """Refuse an operand of the wrong class, which would otherwise fail somewhere deep."""
    if not isinstance(value, cls):
        raise CallerError(f"{brief(value)} is no {cls.__name__}; {cls.__name__}.parse(...) reads text")


def same_words(given: ConstraintSet, constraints: Sequence[Constraint]) -> bool:
    """Whether the constraints are these, in this order and with literals of these classes: 5 is not written as 5.0."""
    return given.constraints == tuple(constraints) and all(
        mine.value.__class__ is other.value.__class__
        for mine, other in zip(given.constraints, constraints, strict=True)
    )


class ConstraintSet(Immutable):
    """Constraints in the order in which they were written, each once."""

    __slots__ = ("constraints",)

    constraints: tuple[Constraint, ...]

    def __init__(self, constraints: Iterable[Constraint] = ()) -> None:
        try:
            given = tuple(constraints)
        except TypeError:
            raise InvalidConstraintError(
                f"{brief(constraints)} is no sequence of constraints; {type(self).__name__}.parse(...) reads text"
            ) from None
        for constraint in given:
            if not isinstance(constraint, Constraint):
                raise InvalidConstraintError(
                    f"{brief(constraint)} is no Constraint; {type(self).__name__}.parse(...) reads text"
                )
        fill(self, "constraints", tuple(dict.fromkeys(given)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the constraints speak of, sorted."""
        return tuple(sorted({constraint.name for constraint in self.constraints}))

    def by_name(self) -> dict[str, list[Constraint]]:
        """The constraints on each name, names sorted."""
        grouped: dict[str, list[Constraint]] = {name: [] for name in self.names}
        for constraint in self.constraints:
            grouped[constraint.name].append(constraint)
        return grouped

    def __iter__(self) -> Iterator[Constraint]:
        return iter(self.constraints)

    def __len__(self) -> int:
        return len(self.constraints)

    def __bool__(self) -> bool:
        return True  # the empty filter is a filter like any other

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.constraints,)
