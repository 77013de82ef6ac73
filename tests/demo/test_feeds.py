"""The feeds of the demonstration: the same for a seed, plausible, and all that they say is advertised."""

from __future__ import annotations

import hashlib
from itertools import groupby, islice

import pytest

from palio.client.subscriptions import read_wanted
from palio.demo.show import FEEDS, READERS, WRITERS
from palio.matching import Monitor
from palio.model import Advertisement, Filter, Notification, Pattern


def taken(feed: str, seed: int, count: int = 2_000) -> list[Notification]:
    return list(islice(FEEDS[feed](seed), count))


@pytest.mark.parametrize("feed", FEEDS)
def test_a_seed_gives_the_same_feed(feed: str) -> None:
    assert taken(feed, 7) == taken(feed, 7)
    assert taken(feed, 7) != taken(feed, 8)


def test_the_feeds_of_a_seed_stay_the_same_in_all_versions() -> None:
    told = "\n".join(str(each) for feed in FEEDS for each in taken(feed, 1, 200))
    assert hashlib.sha256(told.encode()).hexdigest()[:16] == "34cbdcf1346f9db8"


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
def test_all_that_is_published_is_advertised(writer: object) -> None:
    offers = [Advertisement.parse(offer) for offer in writer.offers]  # type: ignore[attr-defined]
    for notification in taken(writer.feed, 3):  # type: ignore[attr-defined]
        assert any(offer.announces(notification) for offer in offers), notification


def test_attributes_have_all_types() -> None:
    types = {type(value).__name__ for feed in FEEDS for each in taken(feed, 1) for value in each.values()}
    assert types == {"str", "int", "float", "bool", "datetime", "bytes"}


@pytest.mark.parametrize("seed", range(3))
def test_prices_walk_and_do_not_run_away(seed: int) -> None:
    prices: dict[object, float] = {}
    for tick in taken("ticks", seed, 5_000):
        price, change = tick["price"], tick["change"]
        assert isinstance(price, float)
        assert isinstance(change, float)
        before = prices.get(tick["symbol"])
        if before is not None:
            assert change == pytest.approx((price / before - 1) * 100, abs=0.01)
        assert abs(change) < 25
        prices[tick["symbol"]] = price
        assert 5 < price < 1_000


def test_flights_go_from_boarding_to_landing() -> None:
    by_flight = groupby(sorted(taken("flights", 2), key=lambda each: str(each["flight"])), lambda each: each["flight"])
    lives = [tuple(each["event"] for each in life) for _, life in by_flight]
    whole = {("boarding", "departed", "landed"), ("boarding", "delayed", "departed", "landed")}
    assert whole <= set(lives)
    assert sum(life not in whole for life in lives) <= 4  # those under way


@pytest.mark.parametrize("seed", range(3))
def test_every_reader_gets_something_and_nobody_everything(seed: int) -> None:
    everything = [each for feed in FEEDS for each in taken(feed, seed, 300)]
    for reader in READERS:
        wanted = read_wanted(reader.wanted)
        if isinstance(wanted[0], Pattern):
            monitor = Monitor(wanted[0])
            count = sum(monitor.feed(each) is not None for each in everything)
        else:
            count = sum(
                any(filter.matches(each) for filter in wanted if isinstance(filter, Filter)) for each in everything
            )
        assert 0 < count < len(everything) / 4, reader


def test_readers_and_feeds_are_at_different_servers() -> None:
    assert len({writer.server for writer in WRITERS}) == len(WRITERS)
    assert len({reader.server for reader in READERS}) == 5
