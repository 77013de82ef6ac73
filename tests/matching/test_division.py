"""How well the index divides filters: counted in filters looked at, not in seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from palio import Constraint, Filter, Limits, Notification
from palio.errors import LimitError
from palio.matching import FilterIndex, LinearScan
from palio.model.value import Value
from tests.matching.twins import Twins

START = datetime(2026, 1, 1, tzinfo=UTC)
FILTERS = 20_000
EVENTS = 40


def looked_at_per_event(index: FilterIndex, events: Sequence[Notification]) -> float:
    before = index.stats()
    for event in events:
        index.match(event)
    after = index.stats()
    assert after.events - before.events == len(events)
    return (after.tested - before.tested) / len(events)


def word(number: int) -> str:
    """A different word for each number, with letters that spread over all of it."""
    return f"{number * 2654435761 % 2**32:08x}"


Population = tuple[Callable[[int], list[Constraint]], Callable[[int], Notification]]

POPULATIONS: dict[str, Population] = {
    "= string": (lambda i: [Constraint("x", "=", word(i))], lambda i: Notification(x=word(i))),
    "= integer": (lambda i: [Constraint("x", "=", i)], lambda i: Notification(x=i)),
    "= float by integer": (lambda i: [Constraint("x", "=", float(i))], lambda i: Notification(x=i)),
    "= beyond 2**53": (lambda i: [Constraint("x", "=", 2**53 + i)], lambda i: Notification(x=2**53 + i)),
    "= time": (
        lambda i: [Constraint("x", "=", START + timedelta(seconds=i))],
        lambda i: Notification(x=START + timedelta(seconds=i)),
    ),
    "= bytes": (lambda i: [Constraint("x", "=", word(i).encode())], lambda i: Notification(x=word(i).encode())),
    "= and =": (
        lambda i: [Constraint("x", "=", i % 150), Constraint("y", "=", i // 150)],
        lambda i: Notification(x=i % 150, y=i // 150),
    ),
    "narrow range": (
        lambda i: [Constraint("x", ">", i), Constraint("x", "<=", i + 2)],
        lambda i: Notification(x=i),
    ),
    "narrow range of floats": (
        lambda i: [Constraint("x", ">", i / 7), Constraint("x", "<=", (i + 2) / 7)],
        lambda i: Notification(x=i / 7),
    ),
    "narrow range of times": (
        lambda i: [
            Constraint("x", ">=", START + timedelta(seconds=i)),
            Constraint("x", "<", START + timedelta(seconds=i + 1)),
        ],
        lambda i: Notification(x=START + timedelta(seconds=i)),
    ),
    ">=": (lambda i: [Constraint("x", ">=", i)], lambda i: Notification(x=i % 50)),
    "<": (lambda i: [Constraint("x", "<", -i)], lambda i: Notification(x=-(i % 50))),
    ">= string": (
        lambda i: [Constraint("x", ">=", f"a long way in common/{i:06}")],
        lambda i: Notification(x=f"a long way in common/{i % 50:06}"),
    ),
    "< bytes": (
        lambda i: [Constraint("x", "<", b"%06d" % (FILTERS - i))],
        lambda i: Notification(x=b"%06d" % (FILTERS - i % 50)),
    ),
    "prefix": (
        lambda i: [Constraint("x", ">*", "http://" + word(i))],
        lambda i: Notification(x=f"http://{word(i)}/more"),
    ),
    "prefixes of many lengths": (
        lambda i: [Constraint("x", ">*", word(i) * (1 + i % 9))],
        lambda i: Notification(x=word(i) * 10),
    ),
    "suffix": (lambda i: [Constraint("x", "*<", word(i) + ".jpg")], lambda i: Notification(x=f"some {word(i)}.jpg")),
    "contains": (lambda i: [Constraint("x", "*", word(i))], lambda i: Notification(x=f"some {word(i)} text")),
    "contains, many lengths": (
        lambda i: [Constraint("x", "*", word(i) + "ab" * (i % 40))],
        lambda i: Notification(x="ab" * 9 + word(i) + "ab" * 60),
    ),
    "any": (lambda i: [Constraint(f"x{i}", "any")], lambda i: Notification({f"x{i}": 1, "y": 2})),
    "!= on many names": (lambda i: [Constraint(f"x{i}", "!=", i)], lambda i: Notification({f"x{i}": 1, "y": 2})),
    "!= that fails": (lambda _: [Constraint("x", "!=", 7)], lambda _: Notification(x=7)),
    "absent that fails": (lambda _: [Constraint("x", "absent")], lambda _: Notification(x=7)),
    "typed any that fails": (lambda _: [Constraint("x", "any", type="string")], lambda _: Notification(x=7)),
    "not prefix that fails": (lambda _: [Constraint("x", "!>*", "ab")], lambda _: Notification(x="abc")),
    "not suffix that fails": (lambda _: [Constraint("x", "!*<", "bc")], lambda _: Notification(x="abc")),
    "not contains that fails": (lambda _: [Constraint("x", "!*", "b")], lambda _: Notification(x="abc")),
    "boolean that fails": (
        lambda i: [Constraint("x", "=", True), Constraint("y", "!=", i)],
        lambda _: Notification(x=False, y=1),
    ),
    "one range for all, missed": (
        lambda _: [Constraint("x", ">=", 0), Constraint("x", "<=", 700)],
        lambda i: Notification(x=800 + i % 100),
    ),
    "all share one equality": (
        lambda i: [Constraint("type", "=", "alarm"), Constraint("x", "=", i)],
        lambda i: Notification(type="alarm", x=i),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("population", POPULATIONS)
def test_no_operator_costs_as_much_as_there_are_filters(population):
    """Beyond what matches, an event meets few of the filters, whatever operator they use."""
    make, meet = POPULATIONS[population]
    filters = [Filter(make(i)) for i in range(FILTERS)]
    index, scan = FilterIndex(filters), LinearScan(filters)
    events = [meet(i) for i in range(0, FILTERS, FILTERS // EVENTS)]
    for event in events[:5]:
        assert index.match(event) == scan.match(event)
    matches = sum(len(index.match(event)) for event in events) / len(events)
    assert looked_at_per_event(index, events) <= 2 * matches + FILTERS / 100


def test_events_teach_the_index():
    """Filters are filed by what looked best; when events turn out otherwise, they are filed anew."""
    random = Random(1)
    filters = [
        Filter([Constraint("x", ">", i % 1000), Constraint(f"r{random.randrange(200)}", "any")]) for i in range(3000)
    ]
    events = [Notification({"x": 5000, f"r{random.randrange(200)}": 1}) for _ in range(500)]
    index, scan = FilterIndex(filters), LinearScan(filters)
    for _ in range(20):
        tested = looked_at_per_event(index, events)
    assert index.stats().refiled > 0
    assert tested < 100
    assert all(index.match(event) == scan.match(event) for event in events[:50])


def test_events_that_change_are_followed():
    """First one attribute tells filters apart, then another."""
    filters = [Filter([Constraint("a", "*", f"{i:05}"), Constraint("b", ">", i)]) for i in range(800)]
    index, scan = FilterIndex(filters), LinearScan(filters)
    first = [Notification(a=f"--{i:05}--", b=5000) for i in range(500)]
    then = [Notification(a="".join(f"{i:05}" for i in range(0, 800, 2)), b=k % 20) for k in range(200)]
    for events, most in ((first, 50), (then, 150)):
        assert any(looked_at_per_event(index, events) < most for _ in range(160))
        assert all(index.match(event) == scan.match(event) for event in events[:20])


def test_filters_that_were_filed_anew_are_tested_in_full():
    """What the old way to a filter had settled, the new one has not."""
    filters = [Filter([Constraint("kind", "=", "abcd"[i % 4]), Constraint("b", ">", i)]) for i in range(800)]
    index, scan = FilterIndex(filters), LinearScan(filters)
    for k in range(12_000):
        index.match(Notification(kind="a", b=k % 20))
    assert index.stats().refiled > 0
    for event in (Notification(kind=kind, b=b) for kind in "abcde" for b in (0, 100, 700, 900)):
        assert index.match(event) == scan.match(event)


def test_events_teach_whatever_the_order_of_their_attributes():
    """Names are numbered as filters bring them; events have them in an order of their own."""
    filters = [Filter([Constraint("z", ">", i), Constraint("a", "*", f"{i:04}")]) for i in range(1000)]
    index = FilterIndex(filters)
    events = [Notification(a="".join(f"{i:04}" for i in range(1000)), z=k % 20) for k in range(100)]
    assert any(looked_at_per_event(index, events) < 150 for _ in range(160))
    assert index.match(events[0]) == LinearScan(filters).match(events[0])


USUAL: list[dict[str, Value]] = [
    {"kind": "a"},
    {"b": 1000},
    {"t": "".join(f"{number:03}" for number in range(900))},
    {f"r{number}": 1 for number in range(60)},
]


@pytest.mark.slow
def test_filters_come_and_go_while_the_index_learns():
    """What events have in common changes, and with it where filters are filed; those that went are not filed anew."""
    random = Random(2)

    def some_filter() -> Filter:
        parts = [Constraint("kind", "=", random.choice("abcd")), Constraint("b", ">", random.randrange(900))]
        parts += [Constraint("t", "*", f"{random.randrange(900):03}"), Constraint(f"r{random.randrange(60)}", "any")]
        return Filter(random.sample(parts, random.randint(2, 4)))

    def some_event(usual: dict[str, Value]) -> Notification:
        own: dict[str, Value] = {"kind": random.choice("abcd"), "b": random.randrange(1000)}
        own |= {"t": f"--{random.randrange(900):03}--", f"r{random.randrange(60)}": 1}
        return Notification(own | usual)

    twins = Twins()
    for usual in USUAL:
        for _ in range(20):
            twins.add_many([some_filter() for _ in range(50)])
            for _ in range(25):
                twins.remove(random.randrange(len(twins.ids)))
            events = [some_event(usual) for _ in range(30)]
            for event in events * 7:
                twins.index.match(event)
            for event in [*events[:4], *(some_event({}) for _ in range(4))]:
                assert twins.index.match(event) == twins.expected([event])[0]
    assert twins.index.stats().refiled > 100
    while twins.ids:
        twins.remove(random.randrange(len(twins.ids)))
    assert twins.index.stats().nodes == 1


# -- faults that were found --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contradiction", "event"),
    [
        ("x < {n} and x > {n}", Notification(x=2.0**53 + 4)),
        ("x <= {n} and x > {n}", Notification(x=2**53 + 5)),
        ("integer x < 2 and float x = -1", Notification(x=datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))),
    ],
)
def test_contradictions_match_nothing(contradiction, event):
    """Beyond 2**53 such filters were filed as if one number could meet them; or as a time, having no type left."""
    filters = [Filter.parse(contradiction.format(n=2**53 + i % 9)) for i in range(200)]
    filters += [Filter([Constraint("x", "=", 2**53 + i % 9)]) for i in range(200)]
    assert FilterIndex(filters).match(event) == LinearScan(filters).match(event)


def test_a_range_from_the_last_integer_to_a_float_beyond():
    """One integer and one float, which are not the same number: that is no equality."""
    ends = [Constraint("x", ">=", 2**63 - 1), Constraint("x", "<=", 2.0**63)]
    filters = [Filter([*ends, Constraint("y", "!=", i)]) for i in range(100)]
    index = FilterIndex(filters)
    for value in (2**63 - 1, 2.0**63, 2.0**63 - 1024, 5):
        event = Notification(x=value, y=-1)
        assert index.match(event) == LinearScan(filters).match(event)


def test_many_bounds_that_are_one_when_rounded():
    """A block of more filters than are moved at once was split in part, and what stayed behind was out of order."""
    filters = [Filter([Constraint("x", "<=", i)]) for i in range(200)]
    index = FilterIndex(filters)
    for _ in range(8000):
        index.match(Notification(x=9 * 10**18))
    more = [Filter([Constraint("x", "<=", 2**62 + k % 512)]) for k in range(16384)]
    more[8300] = Filter([Constraint("x", "<=", 2**62 + 100_000)])
    more[16300] = Filter([Constraint("x", "<=", 2**62 + 20_000)])
    index.add_many(more)
    assert index.match(Notification(x=2**62 + 50_000)) == [8500]
    assert index.match(Notification(x=2**62 + 10_000)) == [8500, 16500]


def test_nothing_is_left_of_filters_that_went():
    """The first of several sorted blocks stayed when it and then the others were emptied."""
    index = FilterIndex()
    for key in range(30):
        ids = [index.add(Filter([Constraint("k", "=", f"key{key}"), Constraint("x", ">", j)])) for j in range(80)]
        for id in ids:
            index.remove(id)
    left = index.stats()
    assert (left.filters, left.names, left.nodes) == (0, 0, 1)
    assert not any(left.partitions.values())


@pytest.mark.parametrize(("op", "sign"), [(">", 1), ("<", -1), (">=", 1), ("<=", -1)])
def test_bounds_beyond_all_that_are_left(op, sign):
    """The first of several sorted blocks takes all that is below the second, also when it has become empty."""
    twins = Twins([Filter([Constraint("x", op, sign * i)]) for i in range(300)])
    assert twins.index.stats().nodes > 5
    for _ in range(100):
        twins.remove(0)  # those that most events meet
    for _ in range(100):
        twins.remove(-1)
    twins.add_many([Filter([Constraint("x", op, sign * i)]) for i in (*range(-40, 40), *range(280, 360))])
    events = [Notification(x=sign * i) for i in (-41, -40, -39, 0, 1, 39, 40, 120, 190, 281, 320, 359, 360)]
    twins.check(events)


def test_names_of_filters_that_were_refused_are_forgotten():
    """All or nothing, also when what stops it is found only while filters are added."""
    index = FilterIndex(limits=Limits(constraints=2))
    with pytest.raises(LimitError):
        index.add_many([Filter.parse("a = 1"), Filter.parse("b = 1 and c = 1 and d = 1")])
    assert index.stats()[:2] == (0, 0)


def test_attributes_added_one_after_the_other_do_not_crowd_the_root():
    filters = [Filter([Constraint(f"name{i // 34}", "=", i % 34)]) for i in range(34 * 500)]
    index = FilterIndex(filters)
    assert sum(index.stats().partitions.values()) < 600
    event = Notification(name77=5, name401=33)
    assert index.match(event) == LinearScan(filters).match(event)
    assert sum(FilterIndex(filters[: 34 * 100]).stats().partitions.values()) < 200
