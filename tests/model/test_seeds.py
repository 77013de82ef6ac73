"""The tables and figures of the papers as cases."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from palio import Advertisement, Filter, Notification, Pattern

# Thesis, table 3.2. "02:40:03" is no instant, so it stands here as a string.
TABLE_3_2 = [
    ("string event = alarm", "string event = alarm; string date = 02:40:03", True),
    ("string event = alarm; integer level > 3", "string event = alarm; string date = 02:40:03", False),
    (
        "string event = alarm; integer level > 3; integer level < 7",
        "string event = alarm; integer level = 10",
        False,
    ),
    ("string event = alarm; integer level > 3; integer level < 7", "string event = alarm; integer level = 5", True),
]


@pytest.mark.parametrize(("filter", "notification", "matches"), TABLE_3_2)
def test_table_3_2(filter: str, notification: str, matches: bool) -> None:
    assert Filter.parse(filter).matches(Notification.parse(notification)) is matches


ALARMS = "string event = alarm\ntime date any\ninteger level > 0"

# Thesis, table 3.3. Its last row contradicts the definition above it: an announced level meets "level any".
TABLE_3_3 = [
    (ALARMS, "string event = alarm; integer level > 3", True),
    (ALARMS, "string event = alarm; integer level > 3; string user any", False),
    (ALARMS, "integer level > 5", True),
    (ALARMS, "integer level any", True),
]


@pytest.mark.parametrize(("advertisement", "filter", "relevant"), TABLE_3_3)
def test_table_3_3(advertisement: str, filter: str, relevant: bool) -> None:
    assert Advertisement.parse(advertisement).relevant_to(Filter.parse(filter)) is relevant


# Journal paper, the table of advertisements: several constraints on one name are alternatives.
LOGINS = "string event = alarm; string event = login; string username any"
ANNOUNCED = [
    ("string event = alarm", "string event = alarm", True),
    ("string event = alarm", "string event = alarm; string date = 02:40:03", False),
    (LOGINS, "string event = login; string username = eva", True),
    (LOGINS, "string event = logout; string username = eva", False),
    (LOGINS, "string event = alarm", True),
    (LOGINS, "", True),
    ("", "", True),
    ("", "string event = alarm", False),
]


@pytest.mark.parametrize(("advertisement", "notification", "announced"), ANNOUNCED)
def test_announced(advertisement: str, notification: str, announced: bool) -> None:
    assert Advertisement.parse(advertisement).announces(Notification.parse(notification)) is announced


FIGURE_3_3 = """
string event = finance/exchanges/stock
time date = Mar 4 11:43:37 MST 1998
string exchange = NYSE
string name = Walt Disney Co.
string symbol = DIS
float prior = 105.25
float change = -4
integer volume = 2260600
float earn = 2.04
"""
FIGURE_3_4 = "string event >* finance/exchanges/\nstring exchange = NYSE\nstring symbol = DIS\nfloat change < 0"
FIRST_PAPER_FIGURE_4 = (
    "string event *= finance/exchanges/*\nstring exchange == NYSE\nstring symbol == DIS\nfloat change < 0"
)
FIRST_PAPER_FIGURE_5 = """string event *= finance/exchanges/*
string symbol == MSFT
float change < 0

and then
string event *= finance/exchanges/*
string symbol == NSCP
float change > 0"""


def test_figure_3_3_is_a_notification() -> None:
    notification = Notification.parse(FIGURE_3_3)
    assert notification == Notification(
        event="finance/exchanges/stock",
        date=datetime(1998, 3, 4, 18, 43, 37, tzinfo=UTC),
        exchange="NYSE",
        name="Walt Disney Co.",
        symbol="DIS",
        prior=105.25,
        change=-4.0,
        volume=2260600,
        earn=2.04,
    )


@pytest.mark.parametrize("text", [FIGURE_3_4, FIRST_PAPER_FIGURE_4])
def test_figure_3_4_selects_figure_3_3(text: str) -> None:
    assert Filter.parse(text).matches(Notification.parse(FIGURE_3_3))
    assert Filter.parse(text) == Filter.parse(
        'event >* "finance/exchanges/" and exchange = "NYSE" and symbol = "DIS" and float change < 0'
    )


def test_first_paper_figure_5_is_a_pattern() -> None:
    pattern = Pattern.parse(FIRST_PAPER_FIGURE_5)
    assert [filter.names for filter in pattern] == [("change", "event", "symbol")] * 2
    assert pattern.filters[1].matches(Notification(event="finance/exchanges/stock", symbol="NSCP", change=0.5))


def test_prefix_and_suffix_examples() -> None:
    assert Filter.parse('host >* "www"').matches(Notification(host="www.elet.polimi.it"))
    assert Filter.parse('host *< "edu"').matches(Notification(host="www.cs.colorado.edu"))


def test_unsubscription_covers_what_it_cancels() -> None:
    """Thesis 3.3.8: an unsubscription cancels the subscriptions that it covers."""
    cancel = Filter.parse("string event = alarm")
    assert cancel.covers(Filter.parse("string event = alarm; integer level > 3"))
    assert not Filter.parse("string event = alarm; integer level > 3").covers(cancel)


def test_merging_example_of_the_batching_section() -> None:
    """Over integers = 1, = 2, > 2 together are >= 1."""
    one, two, more = (Filter.parse(f"integer x {text}") for text in ("= 1", "= 2", "> 2"))
    pair = one.merge(two)
    assert pair is not None
    assert pair.merge(more) == Filter.parse("integer x >= 1")
