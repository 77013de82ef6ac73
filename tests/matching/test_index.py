"""The index answers as the model does: on every operator and type, in every way of asking."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Constraint, Filter, Notification
from palio.codec import msgpack
from palio.errors import CallerError, ReadOnlyError, UnknownFilterError
from palio.matching import FilterIndex, LinearScan, Matcher
from palio.model.value import Value
from tests.matching.populations import TEMPLATES, events, population
from tests.matching.strategies import FILTERS, aimed_lists, examples, long_filters, meetings
from tests.matching.twins import Twins, body_batch, column_batches, drain, flat, pairs_of

every_template = pytest.mark.parametrize("template", TEMPLATES)
SEEDS = st.integers(0, 2**32 - 1)


# -- small indexes -----------------------------------------------------------------------------------------------------


@given(meeting=meetings())
def test_small_indexes(meeting):
    filters, notifications = meeting
    Twins(filters).check(notifications)


@given(filter=FILTERS, data=st.data())
def test_single_filters(filter, data):
    Twins([filter]).check(data.draw(aimed_lists([filter])))


@examples(2)
@given(filters=st.lists(long_filters(), min_size=1, max_size=3), data=st.data())
def test_long_filters(filters, data):
    """The last constraint counts as much as the first: one that fails, anywhere, is enough."""
    twins = Twins(filters)
    whole = {constraint.name: constraint.value for constraint in filters[0]}
    changed = data.draw(st.sampled_from(sorted(whole)))
    lacking = {name: value for name, value in whole.items() if name != changed}
    notifications = [Notification(whole), Notification(lacking), Notification({**whole, changed: "something else"})]
    assert twins.index.match(notifications[0])
    twins.check(notifications)


@given(meeting=meetings(), count=st.integers(0, 16))
def test_adding_one_by_one_and_together_is_the_same(meeting, count):
    filters, notifications = meeting
    together, built, mixed = Twins(filters), FilterIndex(filters), Twins(filters[:count])
    for filter in filters[count:]:
        mixed.add(filter)
    mixed.check(notifications)
    assert len(built) == len(filters)
    for notification in notifications:
        assert built.match(notification) == together.index.match(notification)


@given(meeting=meetings(), data=st.data())
def test_removing(meeting, data):
    filters, notifications = meeting
    twins = Twins(filters)
    for place in data.draw(st.lists(st.integers(0, 40), max_size=len(filters))):
        removed = twins.remove(place)
        assert removed not in twins.index
        with pytest.raises(UnknownFilterError):
            twins.index.remove(removed)
    twins.check_membership()
    twins.check(notifications)


@examples(2)
@given(meeting=meetings(), data=st.data())
def test_reopening(meeting, data):
    filters, notifications = meeting
    twins = Twins(filters)
    for place in data.draw(st.lists(st.integers(0, 40), max_size=len(filters) // 2)):
        twins.remove(place)
    check_reopened(twins, notifications)


def check_reopened(twins: Twins, notifications: list[Notification]) -> None:
    """A file keeps filters and ids, and the index in it takes no changes but can be written again."""
    with tempfile.TemporaryDirectory() as folder:
        opened = twins.reopened(Path(folder, "index"))
        twins.check(notifications, opened)
        assert all(id in opened for id in twins.ids.values())
        assert not any(id in opened for id in twins.gone)
        with pytest.raises(ReadOnlyError):
            opened.add(Filter())
        with pytest.raises(ReadOnlyError):
            opened.remove(next(iter(twins.ids.values()), 0))
        Path(folder, "again").write_bytes(opened.dumps())
        twins.check(notifications, FilterIndex.open(str(Path(folder, "again"))))


def test_both_are_matchers():
    assert isinstance(FilterIndex(), Matcher)
    assert isinstance(LinearScan(), Matcher)


def test_the_empty_index():
    twins = Twins()
    twins.check([Notification(), Notification(x=1)])
    check_reopened(twins, [Notification(), Notification(x=1)])
    assert 0 not in twins.index


def test_equal_filters_have_ids_of_their_own():
    twins = Twins([Filter.parse("x = 1"), Filter.parse("x = 1"), Filter.parse("x = 1.0"), Filter(), Filter()])
    assert len(twins.index.match(Notification(x=1))) == 5
    twins.remove(1)
    twins.check([Notification(x=1), Notification()])
    twins.add(Filter.parse("x = 1"))
    twins.check([Notification(x=1), Notification()])


def test_payloads_are_not_seen():
    twins = Twins([Filter.parse("x = 1"), Filter.parse("data any")])
    twins.check([Notification(x=1).with_payload(b"data", "data"), Notification().with_payload(b"", "x")])


def test_memory_and_statistics():
    index = FilterIndex()
    empty = index.memory_usage()
    assert type(empty) is int
    index.add_many(population(Random(1), "mixture", 2000))
    assert index.memory_usage() > empty >= 0
    assert index.stats() is not None


def test_memory_that_matching_keeps_is_counted() -> None:
    index = FilterIndex(Filter((Constraint(f"name{i}", "any"),)) for i in range(10_000))
    before = index.memory_usage()
    index.match(Notification({"name9999": 1}))
    assert index.memory_usage() - before > 10_000 * 16  # a table with a place for each name


def test_every_month_of_leap_years_and_others():
    """Times come as objects, encoded, and in columns, and each of these is converted in a way of its own."""
    years = (1, 4, 1900, 2000, 2023, 2024)
    days = [datetime(year, month, 1, 12, tzinfo=UTC) for year in years for month in range(1, 13)]
    days += [day - timedelta(days=1) for day in days[1:]]
    twins = Twins([Filter([Constraint("x", op, day)]) for day in days for op in ("=", "<")])
    twins.check([Notification(x=day) for day in days])


def test_unequal_to_a_number_whose_bits_are_those_of_another():
    """The least float has the bits of the integer 1, and 1.0 those of a large integer; a boolean is no number."""
    pairs: list[tuple[Value, Value]] = [(1, 5e-324), (5e-324, 1), (0x3FF0000000000001, 1 + 2.0**-52), (1, True)]
    for literal, value in pairs:
        one, other = Constraint("x", "!=", literal), Constraint("y", "!=", 2)
        twins = Twins([Filter([one]), Filter([one, other]), Filter([other, one])])
        twins.check([Notification(x=value, y=1), Notification(x=literal, y=1)])


def test_every_order_operator_at_the_edges_of_exact_numbers():
    """Where integers cease to be floats, and where they end: every literal against every value near one of them."""
    edges: list[int | float] = [sign * (2**53 + near) for sign in (1, -1) for near in (-1, 0, 1, 2)]
    edges += [2**63 - 1, 2**63 - 2, -(2**63), 1 - 2**63, 2**63 - 1024, 2**24 + 1]
    edges += [float(edge) for edge in edges] + [2.0**63, 2.0**64, -(2.0**63) - 2048, -(2.0**64)]
    filters = [Filter([Constraint("x", op, edge)]) for op in ("=", "!=", "<", "<=", ">", ">=") for edge in edges]
    Twins(filters).check([Notification(x=edge) for edge in edges])
    for filter, edge in ((filter, edge) for filter in filters for edge in edges):
        assert FilterIndex([filter]).match_any(Notification(x=edge)) is filter.matches(Notification(x=edge))


@pytest.mark.parametrize("length", [31, 32, 33, 34, 40, 64, 65])
def test_long_filters_that_are_divided(length):
    """What the way to a bucket has settled is marked in 32 bits: what comes after them is tested all the same."""
    others = [Constraint(f"n{number}", "!=", 0) for number in range(length - 1)]
    first = [Filter([Constraint("key", "=", key), *others]) for key in range(100)]
    last = [Filter([*others, Constraint("key", "=", key)]) for key in range(100)]
    whole: dict[str, Value] = {constraint.name: 1 for constraint in others}
    for filters in (first, first + last):
        index, scan = FilterIndex(filters), LinearScan(filters)
        assert index.stats().partitions["equal"] > 0
        for name in whole:
            event = Notification({**whole, "key": 5, name: 0})
            assert index.match(event) == scan.match(event) == []
        event = Notification({**whole, "key": 5})
        assert index.match(event) == scan.match(event) != []


def test_the_one_predicate_that_is_left_of_a_long_filter():
    """All share thirty-two predicates, so these are settled on the way; the last one is each filter's own."""
    shared = [Constraint(f"n{number}", "any") for number in range(32)]
    filters = [Filter([*shared, Constraint("key", "!=", key)]) for key in range(100)]
    index, scan = FilterIndex(filters), LinearScan(filters)
    assert index.stats().partitions["group"] > 30
    event = Notification({**{constraint.name: 1 for constraint in shared}, "key": 5})
    assert index.match(event) == scan.match(event)
    assert len(index.match(event)) == 99


@pytest.mark.parametrize("before", [0, 31, 32, 40, 63, 64])
@pytest.mark.parametrize("apart", [1, 2, 63, 64, 100])
def test_many_matches_close_together_and_far_apart(before, apart):
    """They are found in the order of the tree, and sorted in different ways if they are many or far apart."""
    miss = Filter.parse("x = 2")
    hits = [Filter.parse(text) for text in ("x any", "x = 1", "x > 0", "x != 5 and y absent", "x < 2 and x > -9")]
    filters = [miss] * before
    for number in range(600):
        filters += [hits[number * 7 % 5], *[miss] * (apart - 1)]
    index = FilterIndex(filters)
    assert index.match(Notification(x=1)) == list(range(before, before + 600 * apart, apart))


# -- batches -----------------------------------------------------------------------------------------------------------


@examples(2)
@given(meeting=meetings())
def test_every_limit(meeting):
    filters, notifications = meeting
    twins = Twins(filters)
    expected = flat(twins.expected(notifications))
    batch = body_batch(notifications)
    for limit in range(1, len(expected) + 2):
        assert drain(twins.index, batch, limit, "body") == expected
    for members, columns in column_batches(notifications):
        wanted = flat(twins.expected(members))
        for limit in {1, 2, len(wanted) - 1, len(wanted), len(wanted) + 1} - {-1, 0}:
            assert drain(twins.index, columns, limit) == wanted


@pytest.mark.parametrize("limit", [1, 7, 100, 255, 256, 257, 4096, 2**31, 2**62])
def test_limits_on_large_results(limit):
    random = Random(limit)
    twins = Twins([Filter()] * 150 + population(random, "mixture", 100))
    notifications = events(random, list(twins.scan._filters.values()), 12)
    expected = flat(twins.expected(notifications))
    assert len(expected) > 1000
    assert drain(twins.index, body_batch(notifications), limit, "body") == expected


@given(meeting=meetings(), data=st.data())
def test_null_bodies_match_nothing(meeting, data):
    filters, notifications = meeting
    twins = Twins([*filters, Filter(), Filter()])
    if data.draw(st.booleans()):  # then ids are no longer what the index has numbered its filters by
        twins.remove(0)
    rows: list[Notification | None] = []
    for notification in notifications:
        rows += [None] * data.draw(st.integers(0, 2)) + [notification]
    rows += [None] * data.draw(st.integers(0, 2))
    expected = [[] if row is None else twins.expected([row])[0] for row in rows]
    for type in (pa.binary(), pa.large_binary()):
        batch = body_batch(rows, type)
        assert pairs_of(twins.index.match_batch(batch, bodies="body")) == flat(expected)
        assert list(twins.index.match_counts(batch, bodies="body")) == [len(ids) for ids in expected]
        assert drain(twins.index, batch, 1, "body") == flat(expected)


@given(meeting=meetings(), data=st.data())
def test_slices_of_batches(meeting, data):
    """The rows of a slice are counted from its start, also where bits of validity and booleans are packed."""
    filters, notifications = meeting
    twins = Twins(filters)
    for members, batch in column_batches(notifications * 5):
        start = data.draw(st.integers(0, len(members)))
        length = data.draw(st.integers(0, len(members) - start))
        expected = twins.expected(members[start : start + length])
        piece = batch.slice(start, length)
        assert pairs_of(twins.index.match_batch(piece)) == flat(expected)
        assert list(twins.index.match_counts(piece)) == [len(ids) for ids in expected]
        bodies = body_batch(members).slice(start, length)
        assert pairs_of(twins.index.match_batch(bodies, bodies="body")) == flat(expected)


WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


@given(meeting=meetings())
def test_large_strings_and_bytes(meeting):
    filters, notifications = meeting
    twins = Twins(filters)
    for members, batch in column_batches(notifications):
        schema = pa.schema([(field.name, WIDE.get(field.type, field.type)) for field in batch.schema])
        if batch.num_columns:
            assert pairs_of(twins.index.match_batch(batch.cast(schema))) == flat(twins.expected(members))


def test_columns_of_nulls_and_batches_without_rows_or_columns():
    twins = Twins([Filter(), Filter.parse("x any"), Filter.parse("x absent"), Filter.parse("y = 1")])
    nulls = pa.record_batch({"x": pa.nulls(3), "y": pa.array([1, None, 2]), "z": pa.array([None] * 3, pa.string())})
    rows = [Notification(y=1), Notification(), Notification(y=2)]
    assert pairs_of(twins.index.match_batch(nulls)) == flat(twins.expected(rows))
    for batch in (nulls.slice(1, 0), body_batch([]), pa.record_batch([], schema=pa.schema([]))):
        bodies = "body" if "body" in batch.schema.names else None
        assert pairs_of(twins.index.match_batch(batch, bodies=bodies, limit=5)) == []
        assert list(twins.index.match_counts(batch, bodies=bodies)) == []
    bare = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert pairs_of(twins.index.match_batch(bare)) == flat(twins.expected([Notification()] * 3))


def test_a_struct_array_is_a_batch():
    twins = Twins([Filter.parse("x > 1")])
    rows = pa.array([{"x": 1}, {"x": 2}])
    assert pairs_of(twins.index.match_batch(rows)) == flat(twins.expected([Notification(x=1), Notification(x=2)]))


NARROW = {
    "int8": [1, -128, 127, None],
    "int16": [1, -(2**15), None],
    "int32": [1, -(2**31), None],
    "uint8": [1, 255, None],
    "uint16": [1, 2**16 - 1, None],
    "uint32": [1, 2**32 - 1, None],
    "uint64": [1, 2**63 - 1, None],
    "float32": [1.0, 0.5, -0.0, None],
    "string_view": ["a", "a string of more than twelve bytes", "", None],
    "binary_view": [b"a", b"a string of more than twelve bytes", b"", None],
}


@pytest.mark.parametrize("name", NARROW)
def test_other_types_are_taken_exactly_or_refused(name):
    """A type of column that the index knows must be read right; one that it does not know must be refused."""
    values = NARROW[name]
    literals = [value for value in values if value is not None]
    filters = [Filter([Constraint("x", op, value)]) for op in ("=", "<", ">=", "!=") for value in literals]
    twins = Twins([*filters, Filter.parse("x any"), Filter.parse("integer x any"), Filter.parse("x absent")])
    batch = pa.record_batch({"x": pa.array(values, getattr(pa, name)())})
    rows = [Notification() if value is None else Notification(x=value) for value in values]
    try:
        matches = twins.index.match_batch(batch)
    except CallerError as error:
        assert "'x'" in str(error)  # noqa: PT017
    else:
        assert pairs_of(matches) == flat(twins.expected(rows))


def test_columns_of_results():
    """The results are Python numbers, buffers and Arrow arrays, and outlive the index and the batch."""
    index = FilterIndex([Filter.parse("x > 1"), Filter.parse("x > 2")])
    first, second = index.match(Notification(x=3))
    batch = pa.record_batch({"x": [1, 2, 3]})
    rows, ids, continuation, skipped = index.match_batch(batch)
    counts = index.match_counts(batch)
    del index, batch
    assert continuation is None
    assert skipped == []
    for column, expected in ((rows, [1, 2, 2]), (ids, [first, first, second]), (counts, [0, 1, 2])):
        assert list(column) == expected
        assert all(type(number) is int for number in column)
        assert memoryview(column).tolist() == expected
        array = pa.array(column)
        assert array.to_pylist() == expected
        assert pa.types.is_integer(array.type)
        assert array.null_count == 0
    view = memoryview(ids)
    array = pa.array(ids)
    del rows, ids, counts, column
    assert view.tolist() == array.to_pylist() == [first, first, second]


def test_continuing_after_an_update_goes_on_or_fails_loudly():
    index = FilterIndex()
    ids = index.add_many([Filter()] * 20)
    batch = pa.record_batch({"x": [1, 2, 3]})
    page = index.match_batch(batch, limit=25)
    found = pairs_of(page)
    index.remove(ids[10])
    added = index.add(Filter())
    try:
        rest = pairs_of(index.match_batch(batch, after=page.continuation))
    except CallerError:
        return
    everything = {(row, id) for row in range(3) for id in [*ids, added]}
    assert not set(found) & set(rest)
    missing = everything - set(found) - set(rest)
    assert {id for _, id in missing} <= {ids[10], added}


@pytest.mark.parametrize("size", [1_000, 50_000, 262_144])
def test_long_texts_and_many_needles(tmp_path, size):
    """Every part of a text is looked for, whatever its length; a file bounds the work of that, but not as tightly."""
    random = Random(size)
    letters = "".join(random.choices("abcdefghij", k=size))
    needles = ["".join(random.choices("abcdefghij", k=random.randint(4, 40))) for _ in range(200)]
    needles += [letters[-30:], letters[:5], letters[size // 2 : size // 2 + 12]]
    twins = Twins([Filter((Constraint("x", "*", needle),)) for needle in needles])
    event = Notification(x=letters)
    assert twins.index.match(event) == twins.expected([event])[0] != []
    assert twins.reopened(tmp_path / "index").match(event) == twins.expected([event])[0]


# -- hashes that coincide ----------------------------------------------------------------------------------------------

MANY = 200_000
"""Of so many things about five pairs have the same hash of 32 bits, which must not be taken for one another."""

COINCIDENCES: dict[str, Callable[[int], Notification]] = {
    "strings": lambda i: Notification(x=f"they all begin alike, {i:06}"),
    "integers": lambda i: Notification(x=i),
    "pairs": lambda i: Notification(x="the same", y=i),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", COINCIDENCES)
def test_values_whose_hashes_coincide(kind):
    notifications = [COINCIDENCES[kind](i) for i in range(MANY)]
    names = list(notifications[0])
    index = FilterIndex(Filter([Constraint(name, "=", event[name]) for name in names]) for event in notifications)
    batch = pa.record_batch({name: [event[name] for event in notifications] for name in names})
    assert index.stats().nodes > MANY
    assert list(index.match_batch(batch).ids) == list(range(MANY))


@pytest.mark.slow
def test_names_whose_hashes_coincide():
    names = [f"the name of attribute {i:06}" for i in range(MANY)]
    index = FilterIndex(Filter([Constraint(name, "any")]) for name in names)
    assert index.stats().names == MANY
    assert all(index.match(Notification({name: 1})) == [i] for i, name in enumerate(names))


# -- populations -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_template
@examples(50)
@given(seed=SEEDS)
def test_populations(template, seed):
    """Hundreds and thousands of filters of one kind, before and after half of them are removed, and from a file."""
    random = Random(seed)
    filters = population(random, template, random.choice([40, 300, 300, 1500]))
    twins = Twins(filters)
    notifications = events(random, filters, 25)
    twins.check(notifications)
    for _ in range(len(filters) // 2):
        twins.remove(random.randrange(len(filters)))
    twins.check(notifications)
    check_reopened(twins, notifications[:8])


@pytest.mark.slow
@every_template
@examples(100)
@given(seed=SEEDS)
def test_scripts(template, seed):
    """Long random scripts of updates: grow, churn, shrink to nothing, grow again from another population."""
    random = Random(seed)
    twins = Twins()
    for kind in (template, random.choice(sorted(TEMPLATES))):
        filters = population(random, kind, 700)
        notifications = events(random, filters, 12)
        run_script(random, twins, filters, notifications)
        assert len(twins.index) == 0
        assert not any(twins.index.match_any(notification) for notification in notifications)
    twins.check_membership()


def run_script(random: Random, twins: Twins, filters: list[Filter], notifications: list[Notification]) -> None:
    waiting = iter(filters)
    while chunk := [filter for filter, _ in zip(waiting, range(random.choice([1, 1, 40, 150])), strict=False)]:
        if len(chunk) == 1:
            twins.add(chunk[0])
        else:
            twins.add_many(chunk)
        for _ in range(random.choice([0, len(chunk) // 3])):
            twins.remove(random.randrange(len(filters)))
        if random.random() < 0.3:
            check_quickly(twins, random.sample(notifications, min(4, len(notifications))))
    for _ in range(200):
        twins.remove(random.choice([0, -1, random.randrange(len(filters))]))
        twins.add(random.choice(filters))
    twins.check(notifications)
    while twins.ids:
        twins.remove(random.choice([0, 0, -1, random.randrange(len(filters))]))
        if len(twins.ids) in (400, 200, 33, 32, 31, 2, 1):
            check_quickly(twins, notifications)
            twins.check_membership()


def check_quickly(twins: Twins, notifications: list[Notification]) -> None:
    for notification, ids in zip(notifications, twins.expected(notifications), strict=True):
        assert twins.index.match(notification) == ids
        assert twins.index.match_any(notification) is bool(ids)
        assert twins.index.match_encoded(msgpack.encode(notification)) == ids


@every_template
def test_nothing_is_left_of_filters_that_went(template):
    """No node, no partition, no name, and their memory is used again: coming and going costs none in the long run."""
    filters = population(Random(1), template, 300)
    index = FilterIndex()
    memory = []
    for _ in range(12):
        for id in index.add_many(filters):
            index.remove(id)
        left = index.stats()
        assert (left.filters, left.names, left.nodes) == (0, 0, 1)
        assert not any(left.partitions.values())
        memory.append(index.memory_usage())
    assert memory[-1] < 1.02 * memory[2]


@pytest.mark.slow
def test_thousands_of_filters():
    """One large index of everything, built in two ways."""
    random = Random(7)
    filters = [filter for template in TEMPLATES for filter in population(random, template, 60)]
    random.shuffle(filters)
    twins = Twins(filters)
    notifications = events(random, filters, 150)
    twins.check(notifications)
    assert len(filters) > 5000
    check_reopened(twins, notifications)
