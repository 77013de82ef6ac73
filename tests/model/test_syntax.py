"""Text to values and back: both spellings, every literal, errors that point, limits at their edge."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Advertisement, Constraint, Filter, Limits, Notification, Pattern, errors
from tests.model.strategies import any_constraints

BOTH_SPELLINGS = [
    ("string event = alarm ; integer level > 3 ; float x < 7", 'event = "alarm" and integer level > 3; float x < 7'),
    ("string event = alarm\ninteger level > 3\n", 'event = "alarm" and integer level > 3'),
    ("number level > 3", "level > 3"),
    ("string name = Walt Disney Co.  ; boolean open = true", 'name = "Walt Disney Co." and open = true'),
    ('string name = " x;y "; float f >= 2', 'name = " x;y " and float f >= 2'),
    ("date at >= 2026-07-02T19:30:00+02:00", "at >= 2026-07-02T17:30:00Z"),
    ("time at = Thu Jul 2 19:30:00 CDT 2026", "at = 2026-07-03T00:30:00Z"),
    ("byte-array key = 00ff", r'key = b"\x00\xff"'),
    ("bytes key = b\"a'\"", "key = b'a\\''"),
    ("char grade == A", 'grade = "A"'),
    ("string event *= finance/*", 'event >* "finance/"'),
    ("string user any; room absent", "string user any and room absent"),
    ("integer level > 3 and event = \"alarm\"", 'integer level > 3; event = "alarm"'),
    ("string s = any thing and more", 's = "any thing and more"'),
    ("string time = noon", '"time" = "noon"'),
    ("date = 5 and string any", '"date" = 5 and "string" any'),
    ("x = 1 AND y = 2 And z IN (3)", "x = 1 and y = 2 and z = 3"),
    ("x = +5 and y = .5 and z = 5.", "x = 5 and y = 0.5 and z = 5.0"),
    ("((x = 1) and ((y = 2)))", "x = 1 and y = 2"),
    ("x = 1\nand\ny = 2", "x = 1 and y = 2"),
    ("x = 1 # one\n  # two\ny = 2 # three", "x = 1 and y = 2"),
    ('x = "#1" # the first\nstring y = C # minor', 'x = "#1" and y = "C # minor"'),
    ("", "true"),
    (" ;\n; ", "true"),
    ("not not x any", "x any"),
    ("not false", "true"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), BOTH_SPELLINGS)
def test_spellings(one: str, two: str) -> None:
    assert Filter.parse(one).constraints == Filter.parse(two).constraints


LITERALS = [
    ("5", 5), ("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1), ("007", 7),
    ("0" * 5000 + "5", 5), ("-" + "0" * 5000 + "5", -5),
    ("5.0", 5.0), ("1e3", 1000.0), ("-0.5", -0.5), ("1E-2", 0.01), ("1e22", 1e22),
    ("true", True), ("FALSE", False),
    ('"a b"', "a b"), ("'it''s'", None), (r"'it\'s'", "it's"), (r'"\"\\\/\b\f\n\r\t"', '"\\/\b\f\n\r\t'),
    (r'"\u00e9\ud83d\ude00"', "é😀"), ('"é😀"', "é😀"), ('""', ""),
    ('b"abc"', b"abc"), (r'b"\x00\xff\\\""', b'\x00\xff\\"'), ('b""', b""),
    ("2026-07-02T19:30:00Z", datetime(2026, 7, 2, 19, 30, tzinfo=UTC)),
    ("2026-07-02t19:30z", datetime(2026, 7, 2, 19, 30, tzinfo=UTC)),
    ("2026-07-02T19:30:00.25-0330", datetime(2026, 7, 2, 23, 0, 0, 250000, tzinfo=UTC)),
    ("0001-01-01T00:00:00.000001Z", datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), [literal for literal in LITERALS if literal[1] is not None])
def test_literals(text: str, value: object) -> None:
    (constraint,) = Filter.parse(f"x = {text}")
    assert constraint.value == value
    assert type(constraint.value) is type(value)
    assert Notification.parse(f"x = {text}") == Notification(x=value)  # type: ignore[arg-type]


# -- round trips -------------------------------------------------------------------------------------------------------


@given(any_constraints())
def test_constraint_prints_back(constraint: Constraint) -> None:
    assert Filter.parse(str(constraint)).constraints == (constraint,)


@given(st.lists(any_constraints(), max_size=5).map(Filter))
def test_filter_prints_back(filter: Filter) -> None:
    assert Filter.parse(str(filter)).constraints == filter.constraints
    assert eval(repr(filter), {"Filter": Filter}) == filter
    assert Filter.parse(str(filter.canonical())) == filter


@given(st.lists(st.lists(any_constraints(), max_size=3).map(Filter), min_size=1, max_size=4).map(Pattern))
def test_pattern_prints_back(pattern: Pattern) -> None:
    again = Pattern.parse(str(pattern))
    assert [filter.constraints for filter in again] == [filter.constraints for filter in pattern]
    assert eval(repr(pattern), {"Pattern": Pattern}) == pattern


@given(st.lists(any_constraints().filter(lambda c: c.operator != "absent"), max_size=5).map(Advertisement))
def test_advertisement_prints_back(advertisement: Advertisement) -> None:
    assert Advertisement.parse(str(advertisement)).constraints == advertisement.constraints
    assert eval(repr(advertisement), {"Advertisement": Advertisement}) == advertisement


@given(st.lists(any_constraints(), min_size=1, max_size=5).map(Filter))
def test_a_filter_is_one_line(filter: Filter) -> None:
    assert list(Filter.parse_lines(str(filter).splitlines())) == [filter]


# -- errors point at the place -----------------------------------------------------------------------------------------

ERRORS = [
    ("x", 1, 2, "end of text", "an operator"),
    ("x =", 1, 4, "end of text", "a value"),
    ("x = alarm", 1, 5, "unexpected 'alarm'", "strings in quotes"),
    ("x = nan", 1, 5, "unexpected 'nan'", "a value"),
    ("x = inf", 1, 5, "unexpected 'inf'", "a value"),
    ("x = 1e999", 1, 5, "too large for a float", "a finite number"),
    ("x = 9223372036854775808", 1, 5, "64-bit", "1e20"),
    ("x = -9223372036854775809", 1, 5, "64-bit", "1e20"),
    ("x = " + "9" * 5000, 1, 5, "64-bit", "1e20"),
    ("x = 12abc", 1, 5, "malformed number", "a number"),
    ("x = 1.2.3", 1, 5, "malformed number", "a number"),
    ("x = -", 1, 5, "malformed number", "a number"),
    ("x =\n\n", 1, 4, "end of text", "a value"),
    ("string x = a\ud800b", 1, 12, "lone surrogate", "scalar"),
    ('x = "abc', 1, 5, "unterminated string", 'closing "'),
    ("x = 'abc\n'", 1, 5, "unterminated string", "closing '"),
    ('x = b"abc', 1, 5, "unterminated string", 'closing "'),
    (r'x = "a\qb"', 1, 7, "unknown escape", "\\n"),
    (r'x = "a\x41"', 1, 7, "unknown escape", "uNNNN"),
    (r'x = "\ud800"', 1, 5, "lone surrogate", "scalar"),
    ('x = b"é"', 1, 7, "beyond ASCII", "\\xNN"),
    (r'x = b"\u0041"', 1, 7, "unknown escape", "\\xNN"),
    ("x = 2026-07-02", 1, 5, "not an instant", "zone"),
    ("x = 2026-07-02T19:30:00", 1, 5, "not an instant", "zone"),
    ("x = 2026-02-30T00:00:00Z", 1, 5, "no such instant", ""),
    ("x = 2026-07-02T19:30:60Z", 1, 5, "no such instant", ""),
    ("x = 2026-07-02T19:30:00.1234567Z", 1, 5, "not an instant", ""),
    ("x = 0001-01-01T00:00:00+01:00", 1, 5, "no such instant", ""),
    ("time x = Jul 2 19:30:00 XYZ 2026", 1, 25, "unknown time zone XYZ", "UTC"),
    ("time x = Foo 2 19:30:00 UTC 2026", 1, 10, "no such instant", ""),
    ("x ~ 5", 1, 3, "unexpected character '~'", ""),
    ("x => 5", 1, 4, "unexpected '>'", "a value"),
    ("x !< 5", 1, 3, "unexpected character '!'", ""),
    ("x >* 5", 1, 1, "'>*' is for strings, not for number", ""),
    ("y = 1 and integer x >* 5", 1, 11, "'>*' is for strings", ""),
    ('integer x > "a"', 1, 13, "unexpected", "a number"),
    ("boolean x = 1", 1, 13, "unexpected '1'", "true or false"),
    ("bytes x = 0g", 1, 11, "malformed number", ""),
    ("integer x absent", 1, 1, "'absent' takes no type", ""),
    ("string x =", 1, 11, "missing value", "empty one"),
    ("char x = ab", 1, 10, "one character", ""),
    ("string x *= abc", 1, 13, "prefix followed by one star", ">*"),
    ("string x *= a*b*", 1, 13, "prefix followed by one star", ">*"),
    ("x = 1 y = 2", 1, 7, "unexpected 'y'", "'and'"),
    ("x = 1 and", 1, 10, "end of text", "name"),
    ("x = 1 or", 1, 9, "end of text", "name"),
    ("not", 1, 4, "end of text", "name"),
    ("and = 5", 1, 1, "unexpected 'and'", "quote it"),
    ('"" = 5', 1, 1, "empty name", ""),
    ("5 = x", 1, 1, "unexpected '5'", "name"),
    ("(x = 1", 1, 1, "never closed", "')'"),
    ("x = 1)", 1, 6, "unexpected ')'", ""),
    ("()", 1, 2, "unexpected ')'", "name"),
    ("(x = 1; y = 2)", 1, 7, "unexpected ';'", "')'"),
    ("x in 5", 1, 6, "unexpected '5'", "'('"),
    ("x in ()", 1, 7, "unexpected ')'", "a value"),
    ("x in (1 2)", 1, 9, "unexpected '2'", "','"),
    ('x in (1, "a")', 1, 7, "different types", "one type"),
    ("x not 5", 1, 7, "unexpected '5'", "'in'"),
    ("x = 1 then y = 2", 1, 7, "'then' makes a pattern", "single filter"),
    ('a = 1 and\n  b = "x" and\n  c ? 5', 3, 5, "unexpected character '?'", ""),
    ("x = 1 or y = 2", 1, 1, "this says 2 filters", "parse_union"),
]


@pytest.mark.parametrize(("text", "line", "column", "problem", "expected"), ERRORS)
def test_errors_point_at_the_place(text: str, line: int, column: int, problem: str, expected: str) -> None:
    with pytest.raises(errors.TextSyntaxError) as caught:
        Filter.parse(text)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert problem in error.problem
    assert expected in error.expected
    shown, caret = str(error).split("\n")[-2:]
    place = caret.index("^")
    assert shown[place : place + 1] == text.split("\n")[line - 1][column - 1 : column].replace("\n", "")


PATTERN_ERRORS = [
    ("then x = 5", 1, 1, "unexpected 'then'"),
    ("x = 5 then ;", 1, 13, "end of text"),
    ("; then x = 5", 1, 3, "unexpected 'then'"),
    ("x = 5\nthen\n  y in (1, 2)", 3, 3, "position 2 of the pattern says 2 filters"),
    ("x = 1 then", 1, 11, "end of text"),
    ("x = 1 then then y = 1", 1, 12, "unexpected 'then'"),
    ("(x = 1 then y = 2)", 1, 8, "'then' inside parentheses"),
    ("x = 1 or y = 2 then z = 3", 1, 1, "position 1 of the pattern says 2 filters"),
]


@pytest.mark.parametrize(("text", "line", "column", "problem"), PATTERN_ERRORS)
def test_pattern_errors(text: str, line: int, column: int, problem: str) -> None:
    with pytest.raises(errors.TextSyntaxError, match="line") as caught:
        Pattern.parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("x = 1 or y = 2", "unexpected 'or'"),
        ("not x = 1", "unexpected 'not'"),
        ("(x = 1)", "unexpected '('"),
        ("x not in (1)", "'not in' cannot be said in an advertisement"),
        ("x = 1 and", "end of text"),
        ("x = 1 and;", "unexpected ';'"),
        ("x = 1 then y = 1", "unexpected 'then'"),
    ],
)
def test_advertisement_errors(text: str, fragment: str) -> None:
    with pytest.raises(errors.TextSyntaxError, match="line 1") as caught:
        Advertisement.parse(text)
    assert fragment in str(caught.value)


def test_absent_in_an_advertisement_is_pointed_at() -> None:
    with pytest.raises(errors.TextSyntaxError, match=r"line 1, column 11: 'absent' means nothing in an advertisement"):
        Advertisement.parse("y any and x absent")


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("x > 1", "unexpected '>'; expected '='"),
        ("x = 1; x = 2", "attribute 'x' is given twice"),
        ("integer x = 1.0", "not an integer"),
        ("integer x = true", "expected a number"),
        ("float x = 9007199254740993", "9007199254740993 is no float; expected a float such as 9007199254740992.0"),
        ("x = 1 y = 2", "expected ';', 'and' or the end"),
        ("x", "expected '='"),
    ],
)
def test_notification_errors(text: str, fragment: str) -> None:
    with pytest.raises(errors.TextSyntaxError) as caught:
        Notification.parse(text)
    assert fragment in str(caught.value)


def test_errors_in_long_lines_show_the_neighbourhood() -> None:
    text = "x = 1 and " * 500 + "y ~ 5" + " and z = 1" * 100
    with pytest.raises(errors.TextSyntaxError) as caught:
        Filter.parse(text)
    shown, caret = str(caught.value).split("\n")[1:]
    assert len(shown) < 90
    assert shown[caret.index("^")] == "~"


def test_files_of_filters() -> None:
    assert list(Filter.parse_lines("x = 1\n\ny = 2\r\n")) == [Filter.parse("x = 1"), Filter.parse("y = 2")]
    breaks = 'x = "\u2028\u2029\x0b\x0c\x1c\x85"'  # no ends of lines, as in a file
    assert list(Filter.parse_lines(f"{breaks}\ry = 2")) == [Filter.parse(breaks), Filter.parse("y = 2")]
    with pytest.raises(errors.CallerError, match="line 1 of the input is no str but bytes"):
        list(Filter.parse_lines([b"x = 1"]))  # type: ignore[list-item]


def test_errors_in_a_file_name_the_line() -> None:
    with pytest.raises(errors.CallerError, match="filter on line 3 of the input: line 1, column 5"):
        list(Filter.parse_lines(["x = 1", "# comment", "y = bare"]))


# -- limits at their edge ----------------------------------------------------------------------------------------------


def limit_of(parse: object, text: str, limits: Limits) -> str | None:
    try:
        parse(text, limits)  # type: ignore[operator]
    except errors.LimitError as error:
        return error.limit if error.actual > error.allowed and error.limit in str(error) else str(error)
    return None


EDGES = [
    (Filter.parse, "text_characters", lambda n: "x=1" + " " * (n - 3), 10),
    (Filter.parse, "nesting", lambda n: "(" * n + "x=1" + ")" * n, 5),
    (Filter.parse_union, "union_filters", lambda n: " or ".join(f"x={i}" for i in range(n)), 7),
    (Filter.parse_union, "union_filters", lambda n: f"x in ({','.join(map(str, range(n)))})", 7),
    (Filter.parse, "constraints", lambda n: " and ".join(f"x!={i}" for i in range(n)), 7),
    (Filter.parse_union, "constraints", lambda n: f"x not in ({','.join(map(str, range(n)))})", 7),
    (Advertisement.parse, "constraints", lambda n: f"x in ({','.join(map(str, range(n)))})", 7),
    (Pattern.parse, "pattern_filters", lambda n: " then ".join(["x=1"] * n), 3),
    (Notification.parse, "attributes", lambda n: ";".join(f"x{i}=1" for i in range(n)), 3),
    (Filter.parse, "name_bytes", lambda n: "é" * (n // 2) + "=1", 6),
    (Notification.parse, "name_bytes", lambda n: f'"{"a" * n}"=1', 6),
    (Filter.parse, "literal_bytes", lambda n: f'x="{"a" * n}"', 6),
    (Filter.parse, "literal_bytes", lambda n: f'x=b"{"a" * n}"', 6),
    (Filter.parse, "literal_bytes", lambda n: "string x = " + "a" * n, 6),
    (Notification.parse, "value_bytes", lambda n: f'x="{"a" * n}"', 6),
]


@pytest.mark.parametrize(("parse", "limit", "text", "allowed"), EDGES)
def test_limits_at_their_edge(parse: object, limit: str, text: object, allowed: int) -> None:
    limits = Limits(**{limit: allowed})
    assert limit_of(parse, text(allowed), limits) is None  # type: ignore[operator]
    step = 2 if "é" in text(4) else 1  # type: ignore[operator]
    assert limit_of(parse, text(allowed + step), limits) == limit  # type: ignore[operator]


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "9"])
def test_limits_are_positive_integers(value: object) -> None:
    with pytest.raises(errors.CallerError, match="limit 'nesting' must be a positive integer"):
        Limits(nesting=value)  # type: ignore[arg-type]


# -- hostile text ------------------------------------------------------------------------------------------------------

BIG = Limits(text_characters=20_000_000, nesting=10_000_000)
HOSTILE = [
    "(" * 10_000_000,
    "not " * 2_500_000,
    ")" * 10_000_000,
    '"' * 9_999_999,
    "x = 1 and (" * 900_000,
    "\\" * 10_000_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:9])
def test_ten_megabytes_are_refused_at_once(text: str) -> None:
    for parse in (Filter.parse, Filter.parse_union, Pattern.parse, Advertisement.parse, Notification.parse):
        with pytest.raises(errors.LimitError, match="text_characters"):
            parse(text)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["(" * 200_000, "not " * 200_000 + "x", "(not " * 100_000, "[" * 1_000_000])
def test_nesting_does_not_recurse(text: str) -> None:
    """Even with the limits raised, depth costs memory and not Python's stack."""
    with pytest.raises(errors.TextSyntaxError):
        Filter.parse(text, BIG)


def test_deep_but_balanced_nesting_is_read() -> None:
    depth = 50_000
    assert Filter.parse("(" * depth + "x = 1" + ")" * depth, BIG) == Filter.parse("x = 1")


PIECES = [*"ab1\"'()<>=!*;,. \n\\-x:TZ", " and ", " or ", " not ", " in ", " then ", "string ", "time ", "x = 1", "¹"]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_text_is_parsed_or_refused_with_a_palio_error(text: str) -> None:
    for parse in (Filter.parse, Filter.parse_union, Pattern.parse, Advertisement.parse, Notification.parse):
        try:
            value = parse(text)
        except errors.CallerError:
            continue
        if isinstance(value, Filter | Pattern | Notification | Advertisement):
            assert type(value).parse(str(value)) == value
