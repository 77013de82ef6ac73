"""What an attribute may be: the set of values, of every type, that a filter or an advertisement allows for a name.

Absence is one of the possibilities. Filters conjoin constraints (:func:`conjunction`), advertisements unite them
(:func:`disjunction`); either way the result is canonical, so that equal sets are equal tuples.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from palio.model.constraint import Constraint
from palio.model.operator import Operator
from palio.model.sets import strings
from palio.model.sets.cones import cone
from palio.model.sets.intervals import (
    BOOLEAN,
    BYTES,
    EMPTY,
    FLOAT,
    INTEGER,
    STRING,
    TIME,
    Bounds,
    Domain,
    fold,
    intersection,
    is_subset,
    union,
)
from palio.model.sets.strings import Shape, StringSet
from palio.model.value import Type


class Orders(NamedTuple):
    """The allowed values of the types that are nothing but ordered."""

    boolean: Bounds = EMPTY
    integer: Bounds = EMPTY
    float: Bounds = EMPTY
    time: Bounds = EMPTY
    bytes: Bounds = EMPTY


class ValueSet(NamedTuple):
    """The allowed values of one attribute, type by type, and whether it may be missing."""

    absent: bool = False
    orders: Orders = Orders()
    string: StringSet = strings.NOTHING

    @property
    def is_empty(self) -> bool:
        """Whether nothing is allowed, not even absence."""
        return self == NOTHING

    def covers(self, other: ValueSet) -> bool:
        """Whether everything that the other allows is allowed here."""
        return self == other or (
            self.absent >= other.absent
            and all(map(is_subset, other.orders, self.orders))
            and self.string.covers(other.string)
        )

    def meets(self, other: ValueSet) -> bool:
        """Whether something is allowed by both."""
        return (
            (self.absent and other.absent)
            or any(map(intersection, self.orders, other.orders))
            or self.string.meets(other.string)
        )


NOTHING = ValueSet()
ABSENT = ValueSet(absent=True)
PRESENT = ValueSet(False, Orders(BOOLEAN.full, INTEGER.full, FLOAT.full, TIME.full, BYTES.full), strings.EVERYTHING)
EVERYTHING = PRESENT._replace(absent=True)

DOMAINS: dict[Type, tuple[tuple[str, Domain], ...]] = {
    Type.BOOLEAN: (("boolean", BOOLEAN),),
    Type.INTEGER: (("integer", INTEGER),),
    Type.FLOAT: (("float", FLOAT),),
    Type.NUMBER: (("integer", INTEGER), ("float", FLOAT)),
    Type.TIME: (("time", TIME),),
    Type.BYTES: (("bytes", BYTES),),
}
"""For each type that is nothing but ordered: the fields of :class:`Orders` that it fills."""


def conjunction(constraints: Iterable[Constraint]) -> ValueSet:
    """What all of the constraints (on one name) allow."""
    constraints = list(constraints)
    fields = _common_fields(constraints)
    if fields is None:
        return NOTHING
    if fields == _EVERY_FIELD:
        return PRESENT  # nothing but a bare "any"
    if fields == {"absent"}:
        return ABSENT
    constraints = [constraint for constraint in constraints if constraint.operator.takes_value]
    if fields == {"string"}:
        return ValueSet(string=strings.conjoin(_string_shapes(constraints)))
    holes = [each.value for each in constraints if each.operator is Operator.NE]
    others = [each for each in constraints if each.operator is not Operator.NE]
    allowed = {}
    for field, domain in _DOMAIN_OF.items():
        if field in fields:
            but = domain.all_but([domain.select(Operator.EQ, value) for value in holes])
            allowed[field] = fold(intersection, [but, *(domain.select(each.operator, each.value) for each in others)])
    return ValueSet(orders=Orders(**allowed))


def disjunction(constraints: Iterable[Constraint]) -> ValueSet:
    """What at least one of the constraints (on one name) allows."""
    allowed: dict[str, list[Bounds]] = {}
    shapes: list[Shape] = []
    for constraint in constraints:
        if constraint.operator is Operator.ANY and constraint.type is Type.ANY:
            return PRESENT
        if constraint.type is Type.STRING:
            shapes.append(_string_shape(constraint))
        for field, domain in DOMAINS.get(constraint.type, ()):
            selected = domain.full
            if constraint.operator.takes_value:
                selected = domain.select(constraint.operator, constraint.value)
            allowed.setdefault(field, []).append(selected)
    order = fold(union, [EMPTY, *(shape.order for shape in shapes if not shape.has_atoms)])
    matched = strings.unite(order, [shape for shape in shapes if shape.has_atoms and _is_possible(shape)])
    united = {field: fold(union, sets) for field, sets in allowed.items()}
    return ValueSet(orders=Orders(**united), string=matched)


_DOMAIN_OF = {field: domain for domains in DOMAINS.values() for field, domain in domains}
_EVERY_FIELD = frozenset({"boolean", "integer", "float", "time", "bytes", "string"})
_FIELDS_OF = {
    **{type: frozenset(field for field, _ in domains) for type, domains in DOMAINS.items()},
    Type.STRING: frozenset({"string"}),
    Type.ANY: _EVERY_FIELD,
}


def _common_fields(constraints: list[Constraint]) -> frozenset[str] | None:
    """The parts of a value set that every constraint leaves open, or ``None`` for none."""
    fields: frozenset[str] = _EVERY_FIELD | {"absent"}
    for constraint in constraints:
        fields &= {"absent"} if constraint.operator is Operator.ABSENT else _FIELDS_OF[constraint.type]
    return fields or None


def _string_shapes(constraints: list[Constraint]) -> list[Shape]:
    """Shapes that together select what all of the constraints of type string select: one for all that is left out."""
    holes: list[Bounds] = []
    others: list[Shape] = []
    for each in constraints:
        if each.operator is Operator.NE:
            holes.append(STRING.select(Operator.EQ, each.value))
        elif each.operator is Operator.NOT_PREFIX:
            holes.append(cone(str(each.value)))
        else:
            others.append(_string_shape(each))
    return [Shape(STRING.all_but(holes)), *others]


def _string_shape(constraint: Constraint) -> Shape:
    """The strings that one constraint of type string selects."""
    text = constraint.value
    if text is None:  # any
        return Shape(STRING.full)
    assert isinstance(text, str)
    match constraint.operator:
        case Operator.PREFIX:
            return Shape(cone(text))
        case Operator.NOT_PREFIX:
            return Shape(STRING.complement(cone(text)))
        case Operator.SUFFIX:
            return Shape(STRING.full, suffix=text)
        case Operator.CONTAINS:
            return Shape(STRING.full, contains=(text,) if text else ())
        case Operator.NOT_SUFFIX:
            return Shape(STRING.full, no_suffix=(text,))
        case Operator.NOT_CONTAINS:
            return Shape(STRING.full, no_contains=(text,))
        case order:
            return Shape(STRING.select(order, text))


def _is_possible(shape: Shape) -> bool:
    """Whether some string meets the single atom; every string ends with, and contains, the empty one."""
    return "" not in shape.no_suffix and "" not in shape.no_contains
