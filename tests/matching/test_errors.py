"""Whatever is wrong with what the caller passes is said with a typed error, and changes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest

from palio import Advertisement, Constraint, Filter, Limits, Notification, Pattern
from palio.codec import msgpack
from palio.errors import (
    CallerError,
    DecodeError,
    FileFormatError,
    LimitError,
    PalioError,
    PeerError,
    ReadOnlyError,
    UnknownFilterError,
)
from palio.matching import FilterIndex, LinearScan
from tests.codec.test_limits import sized
from tests.matching.arrow_by_hand import batch
from tests.matching.twins import pairs_of

both = pytest.mark.parametrize("make", [FilterIndex, LinearScan], ids=lambda cls: cls.__name__)
no_filters = pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        "x = 1",
        b"x",
        Notification(x=1),
        Constraint("x", "any"),
        Advertisement(),
        Pattern([Filter()]),
        Filter,
        [],
    ],
    ids=lambda wrong: type(wrong).__name__,
)


def test_the_errors_are_in_the_tree():
    assert issubclass(UnknownFilterError, CallerError)
    assert issubclass(UnknownFilterError, KeyError)
    assert issubclass(ReadOnlyError, CallerError)
    assert issubclass(FileFormatError, PeerError)
    assert issubclass(FileFormatError, ValueError)
    assert str(UnknownFilterError("no filter has the id 5")) == "no filter has the id 5"


# -- filters -----------------------------------------------------------------------------------------------------------


@both
@no_filters
def test_adding_what_is_no_filter(make, wrong):
    matcher = make([Filter()])
    with pytest.raises(CallerError):
        matcher.add(wrong)
    for many in ([wrong], [Filter(), wrong], [wrong, Filter()], iter([Filter(), wrong])):
        with pytest.raises(CallerError):
            matcher.add_many(many)
        with pytest.raises(CallerError):
            make(many if isinstance(many, list) else [wrong])
    assert len(matcher) == 1
    assert len(matcher.match(Notification())) == 1


@both
@pytest.mark.parametrize("wrong", [None, 5, Filter.parse("x = 1"), Notification(x=1), "x = 1"], ids=repr)
def test_adding_many_of_what_is_no_iterable_of_filters(make, wrong):
    matcher = make()
    with pytest.raises(CallerError):
        matcher.add_many(wrong)
    with pytest.raises(CallerError):
        make(wrong)
    assert len(matcher) == 0


@both
def test_an_iterable_that_fails(make):
    """The caller's own error comes through, and nothing was added."""

    class OwnError(Exception):
        pass

    def filters() -> Iterator[Filter]:
        yield Filter()
        raise OwnError

    matcher = make()
    with pytest.raises(OwnError):
        matcher.add_many(filters())
    assert len(matcher) == 0
    assert matcher.match(Notification()) == []


@both
def test_an_iterable_that_uses_the_matcher(make):
    matcher = make()

    def filters() -> Iterator[Filter]:
        for number in range(3):
            matcher.add(Filter([Constraint("own", "=", number)]))
            yield Filter()

    ids = matcher.add_many(filters())
    assert len(set(ids)) == 3
    assert len(matcher) == 6
    assert matcher.match(Notification()) == sorted(ids)
    assert len(matcher.match(Notification(own=1))) == 4


@both
def test_adding_nothing(make):
    matcher = make()
    assert matcher.add_many([]) == []
    assert matcher.add_many(()) == []
    assert len(matcher) == 0


# -- limits ------------------------------------------------------------------------------------------------------------

MEASURED = {
    "constraints": ("constraints", lambda size: Filter([Constraint(f"x{number}", "any") for number in range(size)])),
    "constraints on one name": ("constraints", lambda size: Filter([Constraint("x", "!=", n) for n in range(size)])),
    "name": ("name_bytes", lambda size: Filter([Constraint(sized(size), "any")])),
    "second name": ("name_bytes", lambda size: Filter([Constraint("a", "any"), Constraint(sized(size), "=", 1)])),
    "name that must be absent": ("name_bytes", lambda size: Filter([Constraint(sized(size), "absent")])),
    "string": ("literal_bytes", lambda size: Filter([Constraint("x", "=", sized(size))])),
    "prefix": ("literal_bytes", lambda size: Filter([Constraint("x", ">*", sized(size))])),
    "needle": ("literal_bytes", lambda size: Filter([Constraint("a", "=", 1), Constraint("x", "!*", sized(size))])),
    "bytes": ("literal_bytes", lambda size: Filter([Constraint("x", "<", bytes(size))])),
}


@both
@pytest.mark.parametrize(("limit", "build"), MEASURED.values(), ids=MEASURED)
@pytest.mark.parametrize("allowed", [2, 9, 40, None])
def test_limits_on_filters_at_their_edge(make, limit, build, allowed):
    limits = Limits() if allowed is None else Limits(**{limit: allowed})
    allowed = getattr(limits, limit)
    matcher = make(limits=limits)
    fits, exceeds = build(allowed), build(allowed + 1)
    kept = [matcher.add(fits), *matcher.add_many([fits, fits])]
    assert len(make([fits], limits=limits)) == 1
    for attempt in (
        lambda: matcher.add(exceeds),
        lambda: matcher.add_many([fits, exceeds]),
        lambda: matcher.add_many([exceeds, fits]),
        lambda: make([fits, exceeds], limits=limits),
    ):
        with pytest.raises(LimitError) as caught:
            attempt()
        assert (caught.value.limit, caught.value.allowed, caught.value.actual) == (limit, allowed, allowed + 1)
    assert len(matcher) == 3
    everything = {constraint.name: value for constraint in fits if (value := constraint.value) is not None}
    assert set(matcher.match(Notification(everything))) <= set(kept)


@both
def test_filters_at_the_default_limits_match(make):
    name, literal = sized(256), sized(1024)
    matcher = make([Filter([Constraint(name, op, literal)]) for op in ("=", ">*", "*<", "*", ">=", "<=")])
    assert len(matcher.match(Notification({name: literal}))) == 6
    assert matcher.match(Notification({name: literal[:-1]})) == matcher.match(Notification({name: ""}))
    whole = make([Filter([Constraint(f"x{number}", "=", number) for number in range(256)])])
    assert whole.match_any(Notification({f"x{number}": number for number in range(256)}))
    assert not whole.match_any(Notification({f"x{number}": number for number in range(255)}))


@both
@pytest.mark.parametrize("wrong", [None, 5, {"constraints": 5}, Limits], ids=repr)
def test_limits_that_are_none(make, wrong):
    with pytest.raises(CallerError):
        make(limits=wrong)


@both
def test_limits_beyond_all_bounds(make):
    matcher = make(limits=Limits(constraints=2**64, name_bytes=2**64, literal_bytes=2**64))
    matcher.add(Filter([Constraint("n" * 5000, "*", "l" * 5000)]))
    assert matcher.match_any(Notification({"n" * 5000: "l" * 5001}))


@pytest.mark.slow
def test_more_names_than_an_index_has_numbers_for():
    """Those that are one too many are refused, all or nothing; names that went make room for others."""
    most = 2**20 - 1
    names = [Constraint(f"{number:x}", "any") for number in range(most + 1)]
    index = FilterIndex(Filter(names[start : start + 256]) for start in range(0, most - 255, 256))
    last, beyond = Filter(names[most - 255 : most]), names[most]
    for attempt in (lambda: index.add_many([last, Filter([beyond])]), lambda: index.add(Filter([*last, beyond]))):
        with pytest.raises(LimitError) as caught:
            attempt()
        assert (caught.value.limit, caught.value.allowed, caught.value.actual) == ("names", most, most + 1)
        assert index.stats()[:2] == (4095, most - 255)
    index.add(last)
    with pytest.raises(LimitError):
        index.add(Filter([names[0], beyond]))
    assert index.stats()[:2] == (4096, most)
    assert not index.match_any(Notification({beyond.name: 1}))
    index.remove(0)
    assert index.match(Notification({beyond.name: 1})) == []
    assert index.match(Notification({beyond.name: 1, names[0].name: 1})) == []
    id = index.add(Filter([beyond]))
    assert index.match(Notification({beyond.name: 1, names[0].name: 1})) == [id]


# -- ids ---------------------------------------------------------------------------------------------------------------


@both
def test_ids_that_are_unknown(make):
    matcher = make()
    first, second = matcher.add_many([Filter(), Filter()])
    matcher.remove(first)
    unknown = [
        first,
        -1,
        -(2**31),
        -(2**63),
        -(2**64),
        second + 1,
        2**31,
        2**32 + second,
        2**63,
        2**64 + second,
        10**50,
    ]
    for id in unknown:
        with pytest.raises(UnknownFilterError) as caught:
            matcher.remove(id)
        assert isinstance(caught.value, CallerError)
        assert isinstance(caught.value, KeyError)
        assert not str(caught.value).startswith(("'", '"'))
        assert id not in matcher
    assert second in matcher
    assert matcher.match(Notification()) == [second]


@both
@pytest.mark.parametrize("wrong", [None, "0", 0.0, b"0", [0], (0,), Filter()], ids=repr)
def test_ids_that_are_no_integers(make, wrong):
    matcher = make([Filter()])
    with pytest.raises(CallerError):
        matcher.remove(wrong)
    assert len(matcher) == 1


@both
def test_unknown_in_an_empty_matcher(make):
    matcher = make()
    for id in (0, 1, -1):
        with pytest.raises(UnknownFilterError):
            matcher.remove(id)
        assert id not in matcher


# -- notifications -----------------------------------------------------------------------------------------------------

no_notifications = pytest.mark.parametrize(
    "wrong", [None, 5, "x = 1", {"x": 1}, Filter(), b"\x92\x01\x80", [("x", 1)], Notification], ids=repr
)


@both
@no_notifications
@pytest.mark.parametrize("filters", [[], [Filter()], [Filter.parse("x = 1")]], ids=len)
def test_matching_what_is_no_notification(make, wrong, filters):
    """Also in an empty index, which could answer without looking."""
    matcher = make(filters)
    with pytest.raises(CallerError):
        matcher.match(wrong)
    with pytest.raises(CallerError):
        matcher.match_any(wrong)


# -- batches -----------------------------------------------------------------------------------------------------------

INDEX = FilterIndex([Filter.parse("x > 1"), Filter.parse("x any"), Filter()])
BATCH = pa.record_batch({"x": [1, 2, 3]})
BODIES = pa.record_batch({"body": pa.array([msgpack.encode(Notification(x=number)) for number in range(3)])})


class Lying:
    """It has the method, but what the method does is wrong."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.answer


@pytest.mark.parametrize(
    "wrong",
    [None, 5, "x", {"x": [1]}, [1], Notification(x=1), pa.table({"x": [1]}), ..., pa.RecordBatch],
    ids=lambda wrong: type(wrong).__name__,
)
@pytest.mark.parametrize("bodies", [None, "body"])
def test_batches_that_are_none(wrong, bodies):
    for ask in (INDEX.match_batch, INDEX.match_counts, FilterIndex().match_batch, FilterIndex().match_counts):
        with pytest.raises(CallerError):
            ask(wrong, bodies=bodies)


@pytest.mark.parametrize("answer", [None, 5, (), (None,), (None, None), ("schema", "array"), ...], ids=repr)
def test_batches_that_lie(answer):
    for ask in (INDEX.match_batch, INDEX.match_counts):
        with pytest.raises(CallerError):
            ask(Lying(answer))


def test_arrays_that_are_no_batches():
    for array in (pa.array([1, 2]), pa.array(["a"]), pa.array([[1], [2]])):
        with pytest.raises(CallerError):
            INDEX.match_batch(array)


def test_batches_that_were_consumed():
    capsules = BATCH.__arrow_c_array__()
    assert pairs_of(INDEX.match_batch(Lying(capsules))) == pairs_of(INDEX.match_batch(BATCH))
    with pytest.raises(CallerError):
        INDEX.match_batch(Lying(capsules))


@pytest.mark.parametrize("wrong", ["missing", "", "Body", 5, b"body", 0, ["body"]], ids=repr)
def test_columns_of_bodies_that_are_not_there(wrong):
    for ask in (INDEX.match_batch, INDEX.match_counts):
        with pytest.raises(CallerError):
            ask(BODIES, bodies=wrong)


def test_columns_of_bodies_that_are_no_bytes():
    for column in ([1, 2], [1.5], ["text"], [True], [[b"x"]]):
        with pytest.raises(CallerError):
            INDEX.match_batch(pa.record_batch({"body": column}), bodies="body")


def test_bodies_that_are_damaged():
    with pytest.raises(DecodeError):
        INDEX.match_batch(pa.record_batch({"body": [msgpack.encode(Notification()), b"\xff"]}), bodies="body")


@pytest.mark.parametrize("column", [[[1]], [{"a": 1}]], ids=["list", "struct"])
def test_columns_of_values_that_no_attribute_has(column):
    with pytest.raises(CallerError, match="x"):
        INDEX.match_batch(pa.record_batch({"x": column}))


def test_batches_of_more_rows_than_results_have_numbers_for():
    rows = batch()
    rows.array.length = 2**31 - 1
    assert pairs_of(INDEX.match_batch(rows, limit=1)) == [(0, 2)]
    rows = batch()
    rows.array.length = 2**31
    with pytest.raises(LimitError) as caught:
        INDEX.match_batch(rows, limit=1)
    assert (caught.value.limit, caught.value.allowed, caught.value.actual) == ("rows", 2**31 - 1, 2**31)


def test_two_columns_of_one_name():
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(CallerError):
        INDEX.match_batch(twice)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_floats_that_are_no_values(value):
    """They are refused or left out, but never compared."""
    index = FilterIndex([Filter.parse("x >= 0"), Filter.parse("x < 0"), Filter.parse("x != 0"), Filter.parse("x = 0")])
    try:
        found = pairs_of(index.match_batch(pa.record_batch({"x": [value]})))
    except PalioError:
        return
    assert found == []


# -- limits of results and continuations -------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [0, -1, -(2**63), -(2**70), 1.0, "5", b"5", [5], float("nan")], ids=repr)
def test_limits_of_results_that_are_none(wrong):
    with pytest.raises(CallerError):
        INDEX.match_batch(BATCH, limit=wrong)
    with pytest.raises(CallerError):
        INDEX.match_batch(BODIES, bodies="body", limit=wrong)


def test_limits_of_results_beyond_all_bounds():
    try:
        found = pairs_of(INDEX.match_batch(BATCH, limit=2**70))
    except CallerError:
        return
    assert found == pairs_of(INDEX.match_batch(BATCH))


@pytest.mark.parametrize("wrong", [0, 5, "x", (0, 0), b"", ..., BATCH, INDEX], ids=lambda wrong: str(type(wrong)))
def test_continuations_that_are_none(wrong):
    with pytest.raises(CallerError):
        INDEX.match_batch(BATCH, after=wrong)


def test_continuations_of_another_index():
    other = FilterIndex([Filter(), Filter(), Filter()])
    foreign = other.match_batch(BATCH, limit=1).continuation
    assert foreign is not None
    with pytest.raises(CallerError):
        INDEX.match_batch(BATCH, after=foreign)


def test_continuations_beyond_a_shorter_batch():
    """A continuation from another batch: refused, or nothing is left of a batch that ends before it."""
    late = INDEX.match_batch(BATCH, limit=7).continuation
    assert late is not None
    try:
        found = pairs_of(INDEX.match_batch(BATCH.slice(0, 1), after=late))
    except CallerError:
        return
    assert found == []


def test_a_continuation_may_be_used_again():
    first = INDEX.match_batch(BATCH, limit=2)
    rest = [pairs_of(INDEX.match_batch(BATCH, after=first.continuation)) for _ in range(2)]
    assert rest[0] == rest[1]
    assert pairs_of(first) + rest[0] == pairs_of(INDEX.match_batch(BATCH))


def test_errors_leave_the_index_as_it_was():
    index = FilterIndex([Filter.parse("x > 1")])
    before = index.dumps()
    for attempt in (
        lambda: index.add(None),
        lambda: index.add_many([Filter(), None]),
        lambda: index.remove(10**9),
        lambda: index.match(None),
        lambda: index.match_encoded(b"\xff"),
        lambda: index.match_batch(None),
    ):
        with pytest.raises(PalioError):
            attempt()
    assert index.match(Notification(x=2)) == FilterIndex([Filter.parse("x > 1")]).match(Notification(x=2))
    assert index.dumps() == before


WITH_LITTLE_MEMORY = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
from palio import Constraint, Filter, Notification
from palio.matching import FilterIndex
index = FilterIndex()
long = [Constraint("x", "!=", f"{i:01000}") for i in range(250)]
print(index.add(Filter(long)), index.add(Filter.parse("y = 2")), index.match(Notification(x="1", y=2)))
"""


def test_a_long_filter_asks_for_no_more_addresses_than_it_needs():
    command = [sys.executable, "-c", WITH_LITTLE_MEMORY]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout, found.stderr) == ("0 1 [0, 1]\n", "")
