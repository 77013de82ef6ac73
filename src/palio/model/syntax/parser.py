"""The text form of filters, patterns, advertisements and notifications.

One grammar serves both spellings. Blanks, line ends and comments (``#`` to the end of the line) separate tokens; at
the outermost level a line end also separates conditions, as ``;`` does. ::

    pattern       = filter { ["and"] "then" filter }
    filter        = [ statement { (";" | line end) statement } [";"] ]            all of them hold
    statement     = conjunction { "or" conjunction }
    conjunction   = term { "and" term }
    term          = "not" term | "(" statement ")" | "true" | "false" | condition
    condition     = [type] name ( operator value | "any" | "absent" | ["not"] "in" "(" value { "," value } ")" )
    name          = word | quoted string
    value         = quoted string | number | instant | b"bytes" | "true" | "false"
                  | after the type string, outside parentheses: anything up to ";" or the end of the line
                  | after the type time: an instant as the papers print it;  after the type bytes: hexadecimal digits

The parser keeps its own stack, so nesting is bounded by a limit and not by Python's recursion. ``not`` is pushed
down while reading: under an odd number of them conditions are complemented and ``and`` trades places with ``or``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from palio.errors import CallerError, LimitError, brief
from palio.model.constraint import Constraint
from palio.model.limits import Limits
from palio.model.operator import Operator
from palio.model.syntax import union
from palio.model.syntax.literals import HEXADECIMAL, PAPERS_INSTANT, read_instant
from palio.model.syntax.scanner import Kind, Scanner, Token
from palio.model.syntax.union import CONTRADICTION, Expansion, Term, Union
from palio.model.syntax.words import PAPERS_PREFIX, SYMBOLS, TYPE_WORDS
from palio.model.value import TYPE_OF, Type, Value

_NUMERIC = (Type.INTEGER, Type.FLOAT, Type.NUMBER)


def parse_union(text: str, limits: Limits) -> Union:
    """A filter with ``or``, ``in`` and ``not``, as a union of conjunctions."""
    scanner = Scanner(text, limits)
    result = _filter(scanner, Expansion(limits))
    if scanner.peek().is_("then"):
        raise scanner.error("'then' makes a pattern, not a filter", scanner.peek(), "a single filter")
    return result


def parse_pattern(text: str, limits: Limits) -> list[Term]:
    """A sequence of filters joined by ``then``, one conjunction each."""
    scanner = Scanner(text, limits)
    terms: list[Term] = []
    while True:
        while scanner.accept(";"):
            pass
        start = scanner.peek()
        if start.is_("then") or (start.kind is Kind.END and terms):
            raise scanner.unexpected(start, "a filter; 'true' matches everything")
        filters = _filter(scanner, Expansion(limits)) or [CONTRADICTION]
        if len(filters) > 1:
            problem = f"position {len(terms) + 1} of the pattern says {len(filters)} filters"
            raise scanner.error(problem, start, "one conjunction")
        terms.append(filters[0])
        if len(terms) > limits.pattern_filters:
            raise LimitError("pattern_filters", limits.pattern_filters, len(terms), "filters in one pattern")
        if not scanner.accept("then"):
            return terms


def parse_advertisement(text: str, limits: Limits) -> list[Constraint]:
    """A list of constraints; ``in`` stands for one constraint a value, because several on a name are alternatives."""
    scanner = Scanner(text, limits)
    constraints: list[Constraint] = []

    def read() -> None:
        condition = _condition(scanner, raw=True)
        if condition.negated:
            raise scanner.error("'not in' cannot be said in an advertisement", condition.start, "'in'")
        if condition.alternatives[0].operator is Operator.ABSENT:
            raise scanner.error("'absent' means nothing in an advertisement", condition.start, "no mention of the name")
        constraints.extend(condition.alternatives)
        if len(constraints) > limits.constraints:
            raise LimitError("constraints", limits.constraints, len(constraints), "constraints in one advertisement")

    _separated(scanner, read, "';', 'and' or the end (an advertisement lists constraints)")
    return constraints


def parse_notification(text: str, limits: Limits) -> list[tuple[str, Value]]:
    """Attributes ``[type] name = value``."""
    scanner = Scanner(text, limits)
    attributes: dict[str, Value] = {}

    def read() -> None:
        type_word, name = _type_and_name(scanner)
        if name.text in attributes:
            raise scanner.error(f"attribute {brief(name.text)} is given twice", name, "each name once")
        symbol = scanner.next()
        if symbol.kind is not Kind.SYMBOL or SYMBOLS.get(symbol.text) is not Operator.EQ:
            raise scanner.unexpected(symbol, "'='")
        token = _value(scanner, type_word, raw=True)
        assert token.value is not None
        _check_size(scanner, token.value, "value_bytes")
        attributes[name.text] = _typed_value(scanner, token, type_word)
        if len(attributes) > limits.attributes:
            raise LimitError("attributes", limits.attributes, len(attributes), "attributes in one notification")

    _separated(scanner, read, "';', 'and' or the end")
    return list(attributes.items())


def _separated(scanner: Scanner, read: Callable[[], None], expected: str) -> None:
    """Read items between separators up to the end of the text."""
    while True:
        while scanner.accept(";"):
            pass
        if scanner.peek().kind is Kind.END:
            return
        read()
        ahead = scanner.peek()
        if scanner.accept("and"):
            if scanner.peek().kind is Kind.END or scanner.peek().is_(";"):
                raise scanner.unexpected(scanner.peek(), "a name after 'and'")
        elif not (ahead.is_(";") or ahead.on_new_line or ahead.kind is Kind.END):
            raise scanner.unexpected(ahead, expected)


class _Scope:
    """A pair of parentheses (or the whole text) being read: what was joined by ``or`` and by ``and`` so far."""

    __slots__ = ("_alternatives", "_conjuncts", "_expansion", "negated", "opened")

    def __init__(self, negated: bool, expansion: Expansion, opened: Token | None = None) -> None:
        self.negated = negated
        self.opened = opened
        self._expansion = expansion
        self._alternatives: list[Union] = []
        self._conjuncts: list[Union] = []

    def add(self, operand: Union) -> None:
        """Join an operand by ``and``."""
        self._conjuncts.append(operand)

    def start_alternative(self) -> None:
        """What follows is joined by ``or``."""
        join = self._expansion.any_of if self.negated else self._expansion.all_of
        self._alternatives.append(join(self._conjuncts))
        self._conjuncts = []

    def close(self) -> Union:
        """What the scope has selected."""
        self.start_alternative()
        join = self._expansion.all_of if self.negated else self._expansion.any_of
        return join(self._alternatives)


def _filter(scanner: Scanner, expansion: Expansion) -> Union:
    """Statements up to ``then`` or the end; all of them hold."""
    statements: list[Union] = []
    while True:
        while scanner.accept(";"):
            pass
        if scanner.peek().kind is Kind.END or scanner.peek().is_("then"):
            return expansion.all_of(statements)
        statements.append(_statement(scanner, expansion))


_AFTER_TERM = "'and', 'or', 'then', ';' or the end"


def _statement(scanner: Scanner, expansion: Expansion) -> Union:
    """One statement, read with a stack of open parentheses instead of recursion."""
    scopes = [_Scope(False, expansion)]
    while True:
        opened = _operand(scanner, scopes, expansion)
        if opened:
            continue
        while len(scopes) > 1 and scanner.accept(")"):
            inner = scopes.pop()
            scopes[-1].add(inner.close())
        token = scanner.peek()
        if token.is_("and"):
            scanner.next()
            if len(scopes) == 1 and scanner.peek().is_("then"):
                return scopes[0].close()
        elif token.is_("or"):
            scanner.next()
            scopes[-1].start_alternative()
        elif len(scopes) > 1:
            _refuse_in_parentheses(scanner, scopes[-1], token)
        elif token.is_(";", "then") or token.kind is Kind.END or token.on_new_line:
            return scopes[0].close()
        else:
            raise scanner.unexpected(token, _AFTER_TERM)


def _operand(scanner: Scanner, scopes: list[_Scope], expansion: Expansion) -> bool:
    """Read ``not``s and one operand into the innermost scope; true if a parenthesis was opened instead."""
    scope = scopes[-1]
    negated = scope.negated
    token = scanner.peek()
    while token.is_("not"):
        negated = not negated
        scanner.next()
        token = scanner.peek()
    if token.is_("("):
        scopes.append(_Scope(negated, expansion, scanner.next()))
        if len(scopes) - 1 > scanner.limits.nesting:
            raise LimitError("nesting", scanner.limits.nesting, len(scopes) - 1, "parentheses within each other")
        return True
    if token.is_("true", "false"):
        scanner.next()
        scope.add(union.EVERYTHING if (token.text == "true") is not negated else union.NOTHING)
        return False
    condition = _condition(scanner, raw=len(scopes) == 1)
    spread = union.complement if condition.negated is not negated else union.selection
    scope.add(spread(condition.alternatives))
    return False


def _refuse_in_parentheses(scanner: Scanner, scope: _Scope, token: Token) -> NoReturn:
    if token.kind is Kind.END:
        assert scope.opened is not None
        raise scanner.error("parenthesis is never closed", scope.opened, "a matching ')'")
    if token.is_("then"):
        raise scanner.error("'then' inside parentheses", token, "patterns without parentheses")
    raise scanner.unexpected(token, "'and', 'or' or ')'")


class _Condition(NamedTuple):
    """Constraints on one name of which one must hold, or with ``negated`` none may."""

    alternatives: list[Constraint]
    negated: bool
    start: int


def _condition(scanner: Scanner, raw: bool) -> _Condition:
    """``[type] name operator value`` in all its forms; ``raw``: unquoted strings may be taken to the line's end."""
    type_word, name = _type_and_name(scanner)
    token = scanner.next()
    if token.kind is Kind.SYMBOL:
        value = _value(scanner, type_word, raw)
        if token.text == PAPERS_PREFIX:
            value = _starred_prefix(scanner, value)
        operator = SYMBOLS.get(token.text, Operator.PREFIX)
        return _Condition([_constraint(scanner, name, type_word, operator, value)], False, name.start)
    if token.is_("any", "absent"):
        return _Condition([_constraint(scanner, name, type_word, Operator(token.text), None)], False, name.start)
    negated = token.is_("not")
    if negated:
        token = scanner.next()
    if not token.is_("in"):
        operators = "'in' after 'not'" if negated else "an operator: " + " ".join(SYMBOLS) + " any absent in"
        raise scanner.unexpected(token, operators)
    values = _values(scanner, type_word)
    alternatives = [_constraint(scanner, name, type_word, Operator.EQ, value) for value in values]
    if len({alternative.type for alternative in alternatives}) > 1:
        raise scanner.error("values of different types in one list", values[0], "values of one type")
    return _Condition(alternatives, negated, name.start)


def _type_and_name(scanner: Scanner) -> tuple[Token | None, Token]:
    """The name, and the type word before it if there is one; both with their places."""
    first = scanner.next()
    if first.kind is Kind.WORD and first.text in TYPE_WORDS:
        ahead = scanner.peek()
        if ahead.kind is Kind.WORD or isinstance(ahead.value, str):
            return first, _name(scanner, scanner.next())
    return None, _name(scanner, first)


def _name(scanner: Scanner, token: Token) -> Token:
    """The token as a name, with the name as its text."""
    text = token.value if token.kind is Kind.LITERAL else token.text
    if not isinstance(text, str) or token.kind not in (Kind.WORD, Kind.LITERAL):
        hint = ' (quote it to use it as a name: "' + token.text + '")' if token.kind is Kind.KEYWORD else ""
        raise scanner.unexpected(token, "an attribute's name" + hint)
    if not text:
        raise scanner.error("empty name", token, "at least one character")
    if len(text.encode()) > scanner.limits.name_bytes:
        raise LimitError("name_bytes", scanner.limits.name_bytes, len(text.encode()), "bytes in a name")
    return token._replace(text=text)


def _values(scanner: Scanner, type_word: Token | None) -> list[Token]:
    """A list of values in parentheses."""
    if not scanner.accept("("):
        raise scanner.unexpected(scanner.peek(), "'(' and a list of values")
    values: list[Token] = []
    while True:
        values.append(_value(scanner, type_word, raw=False))
        if len(values) > scanner.limits.union_filters:
            raise LimitError("union_filters", scanner.limits.union_filters, len(values), "values in one list")
        if scanner.accept(")"):
            return values
        if not scanner.accept(","):
            raise scanner.unexpected(scanner.peek(), "',' or ')'")


def _value(scanner: Scanner, type_word: Token | None, raw: bool) -> Token:
    """A literal of the type, or of any type if none was written."""
    wanted = TYPE_WORDS[type_word.text] if type_word else None
    if wanted is Type.STRING and raw and not scanner.starts_quoted():
        token = scanner.raw_value()
        if not token.text:
            raise scanner.error("missing value", token, 'a string ("" for the empty one)')
    else:
        special = _SPECIAL_FORMS[wanted](scanner) if wanted in _SPECIAL_FORMS else None
        token = special or scanner.next()
    if token.value is None or (wanted and not _fits(wanted, token.value)):
        raise scanner.unexpected(token, _EXPECTED_LITERALS[wanted])
    if type_word and type_word.text == "char" and len(str(token.value)) != 1:
        raise scanner.error("a char is one character", token)
    return token


def _fits(wanted: Type, value: Value) -> bool:
    actual = TYPE_OF[value.__class__]
    return actual is wanted or (wanted in _NUMERIC and actual in _NUMERIC)


_EXPECTED_LITERALS: dict[Type | None, str] = {
    None: 'a value (strings in quotes, numbers, true, false, 2026-07-02T19:30:00Z, b"bytes")',
    Type.STRING: "a string in quotes",
    Type.INTEGER: "a number",
    Type.FLOAT: "a number",
    Type.NUMBER: "a number",
    Type.BOOLEAN: "true or false",
    Type.TIME: "an instant, such as 2026-07-02T19:30:00Z",
    Type.BYTES: 'b"..." or hexadecimal digits',
}


_SPECIAL_FORMS: dict[Type | None, Callable[[Scanner], Token | None]] = {
    Type.TIME: lambda scanner: scanner.match(PAPERS_INSTANT, read_instant),
    Type.BYTES: lambda scanner: scanner.match(HEXADECIMAL, lambda text, start, end: bytes.fromhex(text[start:end])),
}
"""Forms of literals that are accepted only behind a type."""


def _starred_prefix(scanner: Scanner, token: Token) -> Token:
    """The value of the papers' ``*=``, whose star at the end says that any text may follow."""
    value = token.value
    if not isinstance(value, str) or not value.endswith("*") or "*" in value[:-1]:
        raise scanner.error("'*=' needs a prefix followed by one star", token, "prefix*, or the operator >*")
    return token._replace(value=value[:-1])


def _constraint(
    scanner: Scanner, name: Token, type_word: Token | None, operator: Operator, value: Token | None
) -> Constraint:
    """The constraint, any misfit reported at its place in the text."""
    if value is not None and value.value is not None:
        _check_size(scanner, value.value, "literal_bytes")
    try:
        return Constraint(
            name.text, operator, value.value if value else None, TYPE_WORDS[type_word.text] if type_word else None
        )
    except CallerError as error:
        raise scanner.error(str(error), type_word or name) from None


def _typed_value(scanner: Scanner, token: Token, type_word: Token | None) -> Value:
    """The value of an attribute; a number written behind ``float`` is a float."""
    value = token.value
    assert value is not None
    wanted = TYPE_WORDS[type_word.text] if type_word else None
    if wanted is Type.FLOAT and not isinstance(value, float):
        assert isinstance(value, int)
        if float(value) != value:
            raise scanner.error(f"{value} is no float", token, f"a float such as {float(value)!r}")
        return float(value)
    if wanted is Type.INTEGER and not isinstance(value, int):
        raise scanner.error("not an integer", token, "a number without point and exponent")
    return value


def _check_size(scanner: Scanner, value: Value, limit: str) -> None:
    if isinstance(value, str | bytes):
        size = len(value.encode() if isinstance(value, str) else value)
        allowed = getattr(scanner.limits, limit)
        if size > allowed:
            raise LimitError(limit, allowed, size, "bytes in one string")
