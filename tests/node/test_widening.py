"""Filters and advertisements for peers that cannot take them: wider, never narrower, and within the limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio import Advertisement, Constraint, Filter, Limits, Notification
from palio.node.widening import problem, widened, widened_advertisement, widened_filter
from palio.routing.messages import Advertise, Subscribe

_NAMES = st.sampled_from(["a", "b", "name", "long" * 5])
_WORDS = st.sampled_from(["", "x", "word", "w" * 9, "long" * 6])
_VALUES = _WORDS | st.integers(-3, 3)
_TAKING = st.builds(Constraint, _NAMES, st.sampled_from(["=", "!=", "<", ">="]), _VALUES)
_ANY = st.builds(Constraint, _NAMES, st.just("any"))
_ABSENT = st.builds(Constraint, _NAMES, st.just("absent"))
_FILTERS = st.lists(_TAKING | _ANY | _ABSENT, max_size=9).map(Filter)
_ADVERTISEMENTS = st.lists(_TAKING | _ANY, max_size=9).map(Advertisement)
_NOTIFICATIONS = st.dictionaries(_NAMES, _VALUES, max_size=4).map(Notification)
_LIMITS = st.builds(
    Limits,
    constraints=st.integers(1, 9),
    name_bytes=st.sampled_from([1, 4, 20]),
    literal_bytes=st.sampled_from([1, 5, 24]),
    value_bytes=st.sampled_from([1, 5, 24]),
    document_bytes=st.integers(30, 200),
)


@given(_FILTERS, _LIMITS)
def test_a_widened_filter_selects_all_that_the_filter_does(filter: Filter, limits: Limits) -> None:
    wide = widened_filter(filter, limits)
    assert not problem(wide, limits)
    assert set(wide.constraints) <= set(filter.constraints)
    if not problem(filter, limits):
        assert wide is filter


@given(_FILTERS, _LIMITS, _NOTIFICATIONS)
def test_what_the_filter_matches_the_widened_one_does(
    filter: Filter, limits: Limits, notification: Notification
) -> None:
    if filter.matches(notification):
        assert widened_filter(filter, limits).matches(notification)


def test_a_name_is_kept_if_the_shortest_notification_with_it_can_reach_the_peer() -> None:
    """A constraint needs more bytes than an attribute: what cannot be advertised can be published all the same."""
    limits = Limits(name_bytes=20, document_bytes=30)
    name = "longlonglonglonglong"
    assert not problem(Notification({name: ""}), limits)
    assert widened_advertisement(Advertisement([Constraint(name, "any")]), limits) is None


@given(_ADVERTISEMENTS, _LIMITS, st.lists(_NOTIFICATIONS, max_size=5))
def test_a_widened_advertisement_announces_all_that_can_reach_the_peer(
    advertisement: Advertisement, limits: Limits, notifications: list[Notification]
) -> None:
    wide = widened_advertisement(advertisement, limits)
    if wide is None:  # too many names, which cannot be left out
        anything = Advertisement(
            [Constraint(name, "any") for name in advertisement.names if len(name) <= limits.name_bytes]
        )
        assert problem(anything, limits)
        return
    assert not problem(wide, limits)
    for each in notifications:
        if advertisement.announces(each) and not problem(each, limits):
            assert wide.announces(each)


def test_the_longest_rows_go_first_and_no_more_than_necessary() -> None:
    filter = Filter.parse('a = "long long" and b = 1 and c = "word" and d = 2')
    assert str(widened_filter(filter, Limits(constraints=3))) == 'b = 1 and c = "word" and d = 2'
    assert str(widened_filter(filter, Limits(literal_bytes=4))) == 'b = 1 and c = "word" and d = 2'
    assert str(widened_filter(filter, Limits(constraints=1))) == "b = 1"
    assert widened_filter(filter, Limits(document_bytes=4)) == Filter()


def test_names_stay_in_advertisements_unless_nothing_with_them_can_pass() -> None:
    advertisement = Advertisement.parse('a = "long long"; a = "longer still"; b = 1; b = 2; b = 3')
    assert (
        str(widened_advertisement(advertisement, Limits(constraints=3)))
        == 'a = "long long" and a = "longer still" and b any'
    )
    assert str(widened_advertisement(advertisement, Limits(literal_bytes=2))) == "a any and b = 1 and b = 2 and b = 3"
    assert widened_advertisement(advertisement, Limits(constraints=1)) is None
    long = Advertisement.parse("short = 1; name_that_is_too_long any")
    assert str(widened_advertisement(long, Limits(name_bytes=8))) == "short = 1"


def test_sources_are_kept() -> None:
    limits = Limits(constraints=1)
    assert widened(Subscribe(Filter.parse("x = 1 and y = 1"), "rome"), limits) == Subscribe(
        Filter.parse("x = 1"), "rome"
    )
    many = Advertise(Advertisement.parse("x = 1; x = 2"), "rome")
    assert widened(many, limits) == Advertise(Advertisement.parse("x any"), "rome")
    assert widened(Advertise(Advertisement.parse("x any; y any")), limits) is None
