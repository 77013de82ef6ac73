"""Filters by the thousand, each population of one kind, so that an index has to divide itself in every way it knows.

A template is a function of a random number generator that returns a maker of filters; all the filters of one maker
share what the template fixes. Everything follows from the generator's seed, which is all that Hypothesis draws.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random

from palio import Constraint, Filter, Notification, Operator
from palio.model.value import MAX_INTEGER, MAX_MICROSECONDS, MIN_INTEGER, MIN_MICROSECONDS, Value
from tests.matching.strategies import (
    BYTES,
    EPOCH,
    FLOATS,
    INTEGERS,
    LENGTHS,
    LITERALS,
    NAMES,
    ORDER,
    OTHERS,
    STRINGS,
    TIMES,
    TYPED_ANY,
    candidates,
)

Maker = Callable[[], Filter]
Template = Callable[[Random], Maker]
TEMPLATES: dict[str, Template] = {}


def template(make: Template) -> Template:
    TEMPLATES[make.__name__] = make
    return make


def equal(name: str, value: Value, type: str | None = None) -> Constraint:
    return Constraint(name, "=", value, type)


def word(random: Random, letters: str = "ab", most: int = 12) -> str:
    return "".join(random.choices(letters, k=random.randint(0, most)))


def one_of(random: Random, makers: Sequence[Maker]) -> Maker:
    def make() -> Filter:
        return random.choice(makers)()

    return make


def any_value(random: Random) -> Value:
    return random.choice(random.choice(LITERALS))


def any_constraint(random: Random, name: str) -> Constraint:
    kind = random.randrange(10)
    if kind == 0:
        return Constraint(name, "absent")
    if kind == 1:
        return Constraint(name, "any", type=random.choice(TYPED_ANY))
    literal = any_value(random)
    if isinstance(literal, str):
        return Constraint(name, random.choice([op for op in Operator if op.takes_value]), literal)
    return Constraint(name, random.choice(ORDER), literal, number_type(random, literal))


def number_type(random: Random, literal: Value) -> str | None:
    number = isinstance(literal, int | float) and not isinstance(literal, bool)
    return random.choice([None, None, "integer", "float"]) if number else None


# -- equality ----------------------------------------------------------------------------------------------------------


@template
def one_equality_for_all(random: Random) -> Maker:
    shared = equal("kind", any_value(random))
    return lambda: Filter([shared, any_constraint(random, random.choice(NAMES))])


@template
def distinct_integers(random: Random) -> Maker:
    base = random.choice([0, 2**53 - 50, MAX_INTEGER - 3000, MIN_INTEGER])
    return lambda: Filter([equal("x", base + random.randrange(3000), random.choice([None, "integer", "float"]))])


@template
def distinct_floats(random: Random) -> Maker:
    step = random.choice([0.5, 1.0, 5e-324, 2.0**60])
    return lambda: Filter([equal("x", random.randrange(-1000, 1000) * step, random.choice([None, "integer", "float"]))])


@template
def equalities_of_all_types(random: Random) -> Maker:
    return lambda: Filter([equal("x", any_value(random))])


@template
def distinct_strings(random: Random) -> Maker:
    stem = random.choice(["", "a" * 7, "a" * 8, "a" * 16, "日本" * 5])
    return lambda: Filter([equal("x", f"{stem}{random.randrange(500)}" + "\0" * random.randrange(3))])


@template
def strings_at_the_edges_of_words(random: Random) -> Maker:
    return lambda: Filter([equal("x", "a" * random.choice(LENGTHS) + random.choice(["", "b", "\0", "é"]))])


@template
def distinct_times(random: Random) -> Maker:
    base = random.choice([0, MIN_MICROSECONDS, MAX_MICROSECONDS - 2000])
    return lambda: Filter([equal("x", EPOCH + timedelta(microseconds=base + random.randrange(2000)))])


@template
def distinct_bytes(random: Random) -> Maker:
    return lambda: Filter([equal("x", random.choice(BYTES) + bytes([random.randrange(256)]))])


@template
def pairs_of_equalities(random: Random) -> Maker:
    names = [f"p{number}" for number in range(6)]

    def make() -> Filter:
        first, second = random.sample(names, 2)
        return Filter([equal(first, random.randrange(8)), equal(second, random.choice("abcdefgh"))])

    return make


@template
def pairs_of_long_strings(random: Random) -> Maker:
    def make() -> Filter:
        numbers = random.randrange(20), random.randrange(20)
        return Filter([equal(name, f"of more than eight bytes {n}") for name, n in zip("pq", numbers, strict=True)])

    return make


@template
def pairs_with_a_range(random: Random) -> Maker:
    def make() -> Filter:
        low = random.randrange(100)
        fixed = [equal("kind", random.choice("abc")), equal("room", random.randrange(10))]
        return Filter([*fixed, Constraint("level", ">=", low), Constraint("level", "<", low + random.randrange(30))])

    return make


@template
def booleans(random: Random) -> Maker:
    return lambda: Filter(
        [Constraint(random.choice("abc"), random.choice(ORDER), random.random() < 0.5) for _ in range(3)]
    )


# -- ranges ------------------------------------------------------------------------------------------------------------

SCALES: dict[str, Callable[[int], Value]] = {
    "integer": lambda n: n - 5000,
    "large": lambda n: 2**53 - 5000 + n,
    "highest": lambda n: MAX_INTEGER - 10_000 + n,
    "lowest": lambda n: MIN_INTEGER + n,
    "float": lambda n: (n - 5000) / 4,
    "tiny": lambda n: (n - 5000) * 5e-324,
    "huge": lambda n: (n - 5000) / 5000 * sys.float_info.max,
    "mixed": lambda n: n / 2 if n % 2 else n // 2,
    "time": lambda n: EPOCH + timedelta(microseconds=n - 5000),
    "late": lambda n: TIMES[1] - timedelta(microseconds=10_000 - n),
    "string": lambda n: f"a prefix that all of them share {n:05}",
    "bytes": lambda n: b"shared\0\xff" + n.to_bytes(2, "big"),
}
"""Values of each kind in ascending order, for 0 to 10,000."""


def between(random: Random, scale: str, low: int, high: int) -> Filter:
    """The range from low to high on a scale, its ends open or closed."""
    bounds = [
        Constraint("x", random.choice([">", ">="]), SCALES[scale](max(low, 0))),
        Constraint("x", random.choice(["<", "<="]), SCALES[scale](min(high, 10_000))),
    ]
    return Filter(random.sample(bounds, 2))


def narrow(random: Random, scale: str) -> Maker:
    def make() -> Filter:
        low = random.randrange(10_000)
        return between(random, scale, low, low + random.randrange(4))

    return make


def wide(random: Random, scale: str) -> Maker:
    return lambda: between(random, scale, random.randrange(5000), random.randrange(5000, 10_000))


def one_sided(random: Random, scale: str) -> Maker:
    operators = [">", ">="] if random.random() < 0.3 else ["<", "<="] if random.random() < 0.5 else ORDER[2:]
    return lambda: Filter([Constraint("x", random.choice(operators), SCALES[scale](random.randrange(10_001)))])


def nested(random: Random, scale: str) -> Maker:
    middle = random.randrange(1, 10_000)

    def make() -> Filter:
        reach = random.randrange(2000)
        return between(random, scale, middle - reach, middle + reach)

    return make


def identical(random: Random, scale: str) -> Maker:
    low = random.randrange(10_000)
    high = random.randrange(low, 10_001)
    return lambda: between(random, scale, low, high)


def _ranges(shape: Callable[[Random, str], Maker], scale: str) -> Template:
    return lambda random: shape(random, scale)


for _scale in SCALES:
    for _shape in (narrow, wide, one_sided, nested, identical):
        TEMPLATES[f"{_shape.__name__}_{_scale}"] = _ranges(_shape, _scale)


@template
def ranges_of_all_kinds(random: Random) -> Maker:
    shapes = (narrow, wide, one_sided, nested, identical)
    makers = [random.choice(shapes)(random, scale) for scale in SCALES]
    return one_of(random, makers)


@template
def typed_ranges_with_other_literals(random: Random) -> Maker:
    """Integers bounded by floats, halves among them, and floats by integers that no float equals."""
    literals = [*INTEGERS, *FLOATS]
    return lambda: Filter(
        [
            Constraint("x", random.choice(ORDER), random.choice(literals), random.choice(["integer", "float", None]))
            for _ in range(random.choice([1, 2, 2]))
        ]
    )


@template
def ranges_on_several_names(random: Random) -> Maker:
    def make() -> Filter:
        chosen = random.sample("abcdef", random.randint(1, 4))
        return Filter([Constraint(name, random.choice([">", "<="]), random.randrange(50)) for name in chosen])

    return make


# -- strings -----------------------------------------------------------------------------------------------------------


@template
def prefixes_of_one_another(random: Random) -> Maker:
    whole = "".join(random.choices(random.choice(["a", "ab", "abc日"]), k=70))
    return lambda: Filter([Constraint("x", ">*", whole[: random.randrange(71)] + random.choice(["", "", "b"]))])


@template
def suffixes_of_one_another(random: Random) -> Maker:
    whole = "".join(random.choices(random.choice(["a", "ab", "abc日"]), k=70))
    return lambda: Filter([Constraint("x", "*<", random.choice(["", "", "b"]) + whole[random.randrange(71) :])])


@template
def distinct_prefixes(random: Random) -> Maker:
    return lambda: Filter([Constraint("x", ">*", word(random, "abcdefgh/", 9))])


@template
def distinct_suffixes(random: Random) -> Maker:
    return lambda: Filter([Constraint("x", "*<", word(random, "abcdefgh/", 9))])


@template
def short_needles(random: Random) -> Maker:
    return lambda: Filter([Constraint("x", "*", word(random, "abcdé\0", 5))])


@template
def long_needles(random: Random) -> Maker:
    """Many begin alike and differ only far behind, where a comparison of their first bytes does not look."""
    stem = "".join(random.choices("ab", k=70))

    def make() -> Filter:
        length = random.choice(LENGTHS)
        tail = "".join(random.choices("ab", k=random.choice([0, 1, 1, length])))
        return Filter([Constraint("x", "*", (stem[: length - len(tail)] + tail))])

    return make


@template
def needles_with_an_equality(random: Random) -> Maker:
    return lambda: Filter([Constraint("x", "*", word(random, "abc", 8)), equal("kind", random.choice("abcd"))])


@template
def negations_of_one_literal(random: Random) -> Maker:
    literal = random.choice(STRINGS)
    operators = ["!>*", "!*<", "!*", "!="]
    return lambda: Filter([Constraint("x", random.choice(operators), literal)])


@template
def negations_of_many_literals(random: Random) -> Maker:
    operators = random.choice([["!>*"], ["!*<"], ["!*"], ["!>*", "!*<", "!*", "!="]])
    return lambda: Filter([Constraint("x", random.choice(operators), word(random, "abc", 6))])


@template
def string_operators_mixed(random: Random) -> Maker:
    operators = [operator for operator in Operator if operator.takes_value]
    return lambda: Filter(
        [Constraint("x", random.choice(operators), word(random, "ab", 7)) for _ in range(random.randint(1, 3))]
    )


@template
def string_order_over_unicode(random: Random) -> Maker:
    letters = "a\0é\ud7ff\ue000\uffff\U00010000\U0010ffff"
    return lambda: Filter([Constraint("x", random.choice(ORDER[2:]), word(random, letters, 4)) for _ in range(2)])


# -- what nothing divides ----------------------------------------------------------------------------------------------


@template
def a_name_of_its_own_for_each(random: Random) -> Maker:
    def make() -> Filter:
        name = f"attribute number {random.randrange(3000)}"
        return Filter([random.choice([equal(name, random.randrange(3)), Constraint(name, "any")])])

    return make


@template
def presence_only(random: Random) -> Maker:
    return lambda: Filter([Constraint(random.choice(NAMES), "any", type=random.choice(TYPED_ANY)) for _ in range(2)])


@template
def absence_only(random: Random) -> Maker:
    return lambda: Filter([Constraint(name, "absent") for name in random.sample(NAMES, random.randint(1, 3))])


@template
def presence_and_absence(random: Random) -> Maker:
    return lambda: Filter(
        [Constraint(name, random.choice(["any", "absent"])) for name in random.sample(NAMES, random.randint(1, 5))]
    )


@template
def unequal_only(random: Random) -> Maker:
    few = random.choice([2, 5, 1000])
    return lambda: Filter([Constraint("x", "!=", random.choice([float, int, str])(random.randrange(few)))])


@template
def several_unequal(random: Random) -> Maker:
    return lambda: Filter([Constraint("x", "!=", any_value(random)) for _ in range(random.randint(1, 4))])


@template
def everything(random: Random) -> Maker:
    return lambda: Filter([] if random.random() < 0.9 else [any_constraint(random, "x")])


@template
def one_filter_many_times(random: Random) -> Maker:
    filter = Filter([any_constraint(random, name) for name in random.sample(NAMES, 2)])
    return lambda: filter


@template
def contradictions(random: Random) -> Maker:
    def make() -> Filter:
        kinds = [equal("x", 1), equal("x", 2), equal("x", "a"), Constraint("x", "absent"), Constraint("x", ">", 5)]
        return Filter([*random.sample(kinds, random.choice([1, 2, 2, 3])), any_constraint(random, "a")])

    return make


@template
def long_conjunctions(random: Random) -> Maker:
    base = [any_constraint(random, f"n{number}") for number in range(90)]

    def make() -> Filter:
        chosen = base[: random.choice([1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 70, 90])]
        if random.random() < 0.5:
            chosen[random.randrange(len(chosen))] = any_constraint(random, "n0")
        return Filter(chosen)

    return make


@template
def many_constraints_on_one_name(random: Random) -> Maker:
    return lambda: Filter(
        [Constraint("x", random.choice(["!=", ">=", "<", "!="]), random.randrange(100)) for _ in range(20)]
    )


@template
def anything(random: Random) -> Maker:
    return lambda: Filter([any_constraint(random, random.choice(NAMES)) for _ in range(random.randint(0, 4))])


@template
def mixture(random: Random) -> Maker:
    chosen = random.sample(sorted(TEMPLATES.keys() - {"mixture"}), 6)
    makers = [TEMPLATES[name](random) for name in chosen]
    return one_of(random, makers)


# -- populations and events --------------------------------------------------------------------------------------------


def population(random: Random, template: str, size: int) -> list[Filter]:
    make = TEMPLATES[template](random)
    return [make() for _ in range(size)]


def event(random: Random, filters: Sequence[Filter]) -> Notification:
    """A notification at the edges of one filter or two: mostly within, otherwise just outside or without the name."""
    attributes: dict[str, Value] = {}
    for filter in random.sample(filters, min(len(filters), random.choice([1, 1, 2]))):
        strict = random.random() < 0.7
        for name, group in filter.by_name().items():
            values = candidates(group)
            fitting = [value for value in values if all(constraint.matches_value(value) for constraint in group)]
            if strict and fitting:
                attributes.setdefault(name, random.choice(fitting))
            elif not strict and random.random() < 0.8:
                misses = [value for value in values if value not in fitting]
                attributes.setdefault(name, random.choice(misses or values))
    if random.random() < 0.2:
        attributes.setdefault(random.choice([*NAMES, "unknown"]), random.choice(OTHERS))
    if attributes and random.random() < 0.1:
        attributes.pop(random.choice(list(attributes)))
    return Notification(attributes)


def events(random: Random, filters: Sequence[Filter], count: int) -> list[Notification]:
    return [event(random, filters) for _ in range(count)] if filters else [Notification(x=1)]
