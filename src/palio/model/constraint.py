"""A constraint: (name, type, operator, value) on one attribute."""

from __future__ import annotations

from palio.errors import InvalidConstraintError, brief
from palio.model.immutable import Immutable, setters
from palio.model.operator import HOLDS, Operator
from palio.model.syntax.printer import print_constraint
from palio.model.value import CLASSES_OF, TYPE_OF, Type, Value, check_name, check_value

_NUMERIC = (Type.INTEGER, Type.FLOAT, Type.NUMBER)
_OPERATORS = {operator.value: operator for operator in Operator}
_TYPES = {type.value: type for type in Type}
_ABSENT_CLASSES: tuple[type, ...] = (type(None),)


class Constraint(Immutable):
    """One condition on one attribute; immutable and hashable.

    Without a type it takes its value's family, so a number constrains integers and floats alike:

    >>> Constraint("level", ">", 3).matches_value(3.5)
    True
    >>> Constraint("level", ">", 3, type="integer").matches_value(3.5)
    False
    >>> Constraint("user", "absent").matches_value(None)
    True
    """

    __slots__ = ("classes", "name", "operator", "type", "value")

    name: str
    classes: tuple[type, ...]
    """Classes of the attribute values that fit; ``NoneType`` stands for absence."""
    type: Type
    operator: Operator
    value: Value | None

    def __init__(
        self, name: str, operator: Operator | str, value: Value | None = None, type: Type | str | None = None
    ) -> None:
        name = check_name(name)
        operator = _operator(operator, name)
        literal = _literal(name, operator, value)
        fit = _fit_type(name, operator, literal, type)
        self._fill(name, operator, literal, fit)

    @classmethod
    def of_checked(cls, name: str, operator: Operator, value: Value | None, type: Type) -> Constraint:
        """A constraint of parts that are known to be right, and to fit together."""
        made = cls.__new__(cls)
        made._fill(name, operator, value, type)
        return made

    def _fill(self, name: str, operator: Operator, value: Value | None, type: Type) -> None:
        _set_name(self, name)
        _set_type(self, type)
        _set_operator(self, operator)
        _set_value(self, value)
        _set_classes(self, _ABSENT_CLASSES if operator is Operator.ABSENT else CLASSES_OF[type])

    def matches_value(self, value: Value | None) -> bool:
        """Whether an attribute with this value (``None``: no such attribute) meets the constraint."""
        return value.__class__ in self.classes and HOLDS[self.operator](value, self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constraint):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, Type, Operator, Value | None]:
        # Literals of one type compare by value: "x = 5" and "x = 5.0" say the same.
        return self.name, self.type, self.operator, self.value

    def __str__(self) -> str:
        return print_constraint(self)

    def __repr__(self) -> str:
        parts = [repr(self.name), repr(self.operator.value)]
        if self.operator.takes_value:
            parts.append(repr(self.value))
        if self.type is not _default_type(self.operator, self.value):
            parts.append(f"type={self.type.value!r}")
        return f"Constraint({', '.join(parts)})"

    def __reduce__(self) -> tuple[object, ...]:
        return Constraint, (self.name, self.operator.value, self.value, self.type.value)


_set_classes, _set_name, _set_operator, _set_type, _set_value = setters(
    Constraint, "classes", "name", "operator", "type", "value"
)


def _misfit(name: str, problem: str) -> InvalidConstraintError:
    return InvalidConstraintError(f"constraint on {brief(name)}: {problem}")


def _operator(operator: Operator | str, name: str) -> Operator:
    try:
        return _OPERATORS[operator]
    except (KeyError, TypeError):
        known = " ".join(known.value for known in Operator)
        raise _misfit(name, f"unknown operator {brief(operator)}; one of {known}") from None


def _literal(name: str, operator: Operator, value: Value | None) -> Value | None:
    if not operator.takes_value:
        if value is not None:
            raise _misfit(name, f"operator {operator.value!r} takes no value")
        return None
    if value is None:
        raise _misfit(name, f"operator {operator.value!r} needs a value")
    return check_value(value, "constraint on", name)


def _default_type(operator: Operator, value: Value | None) -> Type:
    if not operator.takes_value:
        return Type.ANY
    family = TYPE_OF[value.__class__]
    return Type.NUMBER if family in _NUMERIC else family


def _fit_type(name: str, operator: Operator, value: Value | None, asked: Type | str | None) -> Type:
    """The constraint's type, after checking that type, operator and value go together."""
    default = _default_type(operator, value)
    if asked is None:
        fit = default
    else:
        try:
            fit = _TYPES[asked]
        except (KeyError, TypeError):
            known = ", ".join(known.value for known in Type)
            raise _misfit(name, f"unknown type {brief(asked)}; one of {known}") from None
    if operator is Operator.ABSENT and fit is not Type.ANY:
        raise _misfit(name, "'absent' takes no type, because nothing is there")
    if operator.takes_value:
        same_family = fit is default or (fit in _NUMERIC and default is Type.NUMBER)
        if not same_family:
            raise _misfit(name, f"a value of type {TYPE_OF[value.__class__].value} does not fit the type {fit.value}")
    if operator.strings_only and fit is not Type.STRING:
        raise _misfit(name, f"operator {operator.value!r} is for strings, not for {fit.value}")
    return fit
