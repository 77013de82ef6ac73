"""``or``, ``in`` and ``not`` against a direct evaluation of the expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Constraint, Filter, Limits, Notification, errors
from palio.model.value import Value

Predicate = Callable[[Notification], bool]


class Expression(NamedTuple):
    text: str
    holds: Predicate


CONSTRAINTS = [
    Constraint("x", "=", 1),
    Constraint("x", ">", 0),
    Constraint("x", "<=", 1, "integer"),
    Constraint("x", "any"),
    Constraint("y", "=", "ab"),
    Constraint("y", ">*", "a"),
    Constraint("y", "!*", "b"),
    Constraint("y", "absent"),
    Constraint("y", "any", type="string"),
]
SAMPLES: list[Value | None] = [None, 0, 1, 2, 0.5, 1.0, True, "", "a", "ab", "b"]
NOTIFICATIONS = [
    Notification({name: value for name, value in (("x", x), ("y", y)) if value is not None})
    for x in SAMPLES
    for y in SAMPLES
]


def leaf(constraint: Constraint) -> Expression:
    return Expression(str(constraint), lambda n: constraint.matches_value(n.get(constraint.name)))


def listed(values: list[int]) -> Expression:
    return Expression(
        f"x in ({', '.join(map(str, values))})", lambda n: type(n.get("x")) in (int, float) and n["x"] in values
    )


def negated(inner: Expression) -> Expression:
    return Expression(f"not ({inner.text})", lambda n: not inner.holds(n))


def joined(word: str, parts: list[Expression]) -> Expression:
    combine = all if word == "and" else any
    text = f" {word} ".join(f"({part.text})" for part in parts)
    return Expression(text, lambda n: combine(part.holds(n) for part in parts))


leaves = st.one_of(
    st.sampled_from(CONSTRAINTS).map(leaf),
    st.lists(st.integers(0, 2), min_size=1, max_size=3).map(listed),
    st.sampled_from([Expression("true", lambda n: True), Expression("false", lambda n: False)]),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(negated),
        st.builds(joined, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=5,
)


@given(expressions)
def test_a_union_selects_what_the_expression_says(expression: Expression) -> None:
    filters = Filter.parse_union(expression.text)
    assert filters
    for notification in NOTIFICATIONS:
        assert any(filter.matches(notification) for filter in filters) is expression.holds(notification)


def test_not_is_the_complement() -> None:
    texts = [str(filter) for filter in Filter.parse_union("not x = 5")]
    assert texts == ["x absent", "x != 5", "string x any", "boolean x any", "time x any", "bytes x any"]
    texts = [str(filter) for filter in Filter.parse_union("not integer x any")]
    assert texts == ["x absent", "float x any", "string x any", "boolean x any", "time x any", "bytes x any"]
    assert Filter.parse("not x any") == Filter.parse("x absent")
    assert Filter.parse("not x absent") == Filter.parse("x any")


def test_not_in_does_not_multiply() -> None:
    values = ", ".join(map(str, range(200)))
    assert len(Filter.parse_union(f"x not in ({values})")) == 6
    alternatives = " or ".join(f"x = {n}" for n in range(40))
    assert len(Filter.parse_union(f"not ({alternatives})")) == 6


def test_precedence() -> None:
    assert Filter.parse_union("a = 1 or b = 2 and c = 3") == Filter.parse_union("a = 1 or (b = 2 and c = 3)")
    assert Filter.parse_union("not a any and b = 1") == Filter.parse_union("(not a any) and b = 1")
    assert Filter.parse_union("a = 1 or b = 2; c = 3") == Filter.parse_union("(a = 1 or b = 2) and c = 3")
    assert Filter.parse_union("a = 1 or b = 2\nc = 3") == Filter.parse_union("(a = 1 or b = 2) and c = 3")


def test_contradictions_as_written_are_kept_and_others_dropped() -> None:
    assert str(Filter.parse("x = 1 and x = 2")) == "x = 1 and x = 2"
    assert Filter.parse_union("(x = 1 or y = 2) and x = 3") == (Filter.parse("y = 2 and x = 3"),)
    assert Filter.parse_union("false") == (Filter.parse("x = 1 and x = 2"),)
    assert Filter.parse_union("(x = 1 or x = 2) and x = 3") == (Filter.parse("false"),)


def test_expansion_is_bounded() -> None:
    text = " and ".join(f"(a{n} = 1 or b{n} = 1)" for n in range(30))
    with pytest.raises(errors.LimitError, match=r"filters after expanding or, in and not: .* at most 1,024"):
        Filter.parse_union(text)
    assert len(Filter.parse_union(" and ".join(f"(a{n} = 1 or b{n} = 1)" for n in range(10)))) == 1024
    numbers = ", ".join(map(str, range(1000)))
    with pytest.raises(errors.LimitError, match="combinations to try"):  # though only 1,000 would be left
        Filter.parse_union(f"x in ({numbers}) and x in ({numbers})")
    few = ", ".join(map(str, range(30)))
    with pytest.raises(errors.LimitError, match="combinations to try"):
        Filter.parse_union(" and ".join([f"x in ({few})"] * 100))
    with pytest.raises(errors.LimitError, match="at most 3"):
        Filter.parse_union("not a = 1", Limits(union_filters=3))
