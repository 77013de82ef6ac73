"""Leases of durable parties: they count the time during which the server runs, and their ends are told."""

from __future__ import annotations

from typing import Any

import pytest

from palio import Filter
from palio.node import ports
from palio.node.leases import EndedLease
from palio.node.logs import LogSettings
from palio.node.party_log import Keep
from palio.node.ports import LeaseEnded, Output, Position, Request, TellLeaseEnded
from tests.node.durable import Durable, of_kind
from tests.node.neighbours import BUDGET, LARGEST
from tests.node.test_logs import publications, small
from tests.routing.test_preparation import hostile

DAY = 86_400_000_000
LEASE = 7 * DAY
KEEP = Keep(10**6, 1 << 40, 10**18, LEASE, 0, 10**6)
START = 20_000 * DAY


def attach(reading: int, log: int = 0, after: int = -1, party: str = "eva") -> ports.Attach:
    return ports.Attach(party, KEEP, reading, log, after)


def absent(**more: Any) -> Durable:
    """A node with a party that has subscribed, and has gone at the time ``START``."""
    made = Durable(log=small(keep=KEEP, **more))
    made.handle([attach(1), Request("eva", 1, ports.Subscribe(Filter.parse("x any")))], START)
    made.handle([publications(1, 2, 3)], START)
    made.handle([ports.Acknowledge("eva", 0, 1), ports.Detach("eva", 1)], START)
    return made


def wake(durable: Durable, until: int) -> list[Output]:
    """Let a node do all that it has to do up to a time, as its driver would."""
    said: list[Output] = []
    while (deadline := durable.node.deadline) is not None and deadline <= until:
        said += durable.handle([], deadline)
    return said + durable.handle([], until)


@pytest.mark.parametrize("jump", [8 * DAY, 4_000 * DAY, -8 * DAY, -19_000 * DAY])
def test_a_clock_that_jumps_between_two_starts_ends_no_lease(jump: int) -> None:
    durable = absent()
    durable.die(START + jump)
    assert of_kind(wake(durable, START + jump + LEASE - 1), LeaseEnded) == []
    assert "eva" in durable.node.logs
    assert len(of_kind(wake(durable, START + jump + LEASE), LeaseEnded)) == 1
    assert "eva" not in durable.node.logs


def test_a_lease_counts_all_the_time_during_which_the_server_runs_and_no_other() -> None:
    durable, now = absent(), START
    for _ in range(6):
        now += DAY
        assert wake(durable, now) == []
        durable.handle([ports.Attach("other", KEEP, 9), ports.Detach("other", 9)], now)  # which is written
        now += 30 * DAY
        durable.die(now)
    assert of_kind(wake(durable, now + DAY - 1), LeaseEnded) == []
    assert [each.party for each in of_kind(wake(durable, now + DAY), LeaseEnded)] == ["eva"]


@pytest.mark.parametrize("step", [60_000_000, 3_600_000_000])
def test_an_idle_server_that_dies_loses_little_of_its_running_time(step: int) -> None:
    durable = absent(running_step=step)
    wake(durable, START + LEASE - DAY)
    durable.die(START + LEASE - DAY)
    left = DAY + max(step, LEASE // 16)
    assert of_kind(wake(durable, START + LEASE - 1), LeaseEnded) == [], "it never ends early"
    assert len(of_kind(wake(durable, START + LEASE - DAY + left), LeaseEnded)) == 1


def test_an_idle_server_does_not_write_for_ever() -> None:
    durable, writes = absent(running_step=1), 0
    while "eva" in durable.node.logs:
        assert durable.node.deadline is not None
        durable.handle([], durable.node.deadline)
        writes += 1
    assert writes < 700, writes
    assert durable.node.deadline is None


def test_absences_by_the_wall_clock_as_earlier_releases_wrote_them_begin_anew() -> None:
    durable = absent()
    running = {key: value for key, value in durable.records.items() if b"running" in key}
    assert len(running) == 1
    durable.records = {key: value for key, value in durable.records.items() if key not in running}
    durable.die(START + 8 * DAY)
    assert of_kind(wake(durable, START + 15 * DAY - 1), LeaseEnded) == []
    assert len(of_kind(wake(durable, START + 15 * DAY), LeaseEnded)) == 1


def test_what_is_dropped_is_told_to_the_driver_and_counted() -> None:
    durable = absent()
    log = durable.node.logs.of("eva")
    (ended,) = of_kind(wake(durable, START + LEASE), LeaseEnded)
    assert ended == LeaseEnded("eva", log.identity, LEASE, 2, log.size - log.done_size, 0, 1)
    assert ended.bytes > 0
    leases = durable.node.reading.leases
    assert (leases.count, leases.lost) == (1, 2)


def test_the_party_is_told_until_it_shows_that_it_knows() -> None:
    durable = absent()
    before = durable.node.logs.of("eva").identity
    now = START + LEASE
    wake(durable, now)
    for reading in (2, 3):
        told, position = of_kind(durable.handle([attach(reading, before, 0)], now), TellLeaseEnded, Position)
        assert told == TellLeaseEnded("eva", reading, before, 1, 2, START + LEASE)
        assert position.log != before
        durable.handle([ports.Detach("eva", reading)], now)
        now += DAY
        durable.die(now)
    durable.handle([attach(4), Request("eva", 2, ports.Subscribe(Filter.parse("x any")))], now)
    durable.handle([publications(4)], now)
    durable.handle([ports.Acknowledge("eva", 0, 4)], now)
    assert of_kind(durable.handle([attach(5)], now), TellLeaseEnded) == []
    assert not any(b"ended lease" in key for key in durable.records)


@pytest.mark.parametrize("knows", ["its log", "that it has left"])
def test_a_party_that_knows_its_new_log_or_leaves_is_not_told_again(knows: str) -> None:
    durable = absent()
    now = START + LEASE
    wake(durable, now)
    (position,) = of_kind(durable.handle([attach(2)], now), Position)
    if knows == "its log":
        assert of_kind(durable.handle([attach(3, position.log)], now), TellLeaseEnded) == []
    else:
        durable.handle([Request("eva", 3, ports.Leave())], now)
    assert not any(b"ended lease" in key for key in durable.records)
    assert of_kind(durable.handle([attach(4)], now), TellLeaseEnded) == []


def test_not_more_ends_are_remembered_than_there_may_be() -> None:
    durable = Durable(log=LogSettings(keep=KEEP, ended_leases=2))
    for place, party in enumerate("abc"):
        durable.handle([attach(1, party=party), ports.Detach(party, 1)], START + place)
    wake(durable, START + LEASE + 3)
    said = durable.handle([attach(2, party=party) for party in "abc"], START + LEASE + 4)
    assert [each.party for each in of_kind(said, TellLeaseEnded)] == ["b", "c"]


def test_what_is_remembered_fits_its_shape() -> None:
    durable = absent()
    identity = durable.node.logs.of("eva").identity
    wake(durable, START + LEASE)
    durable.die(START + LEASE + DAY)
    assert durable.node.quarantined == []
    assert durable.node.reading.leases._ended == {"eva": EndedLease(identity, 1, 2, START + LEASE)}


def holding_much(count: int = 120) -> tuple[Durable, int]:
    """The lease of an absent party is about to end, and its filters are hard to compare."""
    made = Durable(log=small(keep=KEEP))
    made.node.allowance.budget = 10**9
    made.handle([attach(1)], START)
    for number, each in enumerate(hostile(count)):
        made.handle([Request("eva", number, ports.Subscribe(each))], START)
    made.handle([ports.Detach("eva", 1)], START)
    made.node.allowance.budget, made.node.allowance.most = BUDGET, 0
    return made, START + LEASE


def test_the_end_of_a_lease_takes_several_turns_if_it_needs_many_comparisons() -> None:
    durable, end = holding_much()
    said, turns = durable.handle([], end), 1
    while durable.node.lease_endings:
        assert of_kind(said, LeaseEnded) == []
        assert durable.node.deadline == end, "there is more to do at once"
        said, turns = durable.handle([], end), turns + 1
    (ended,) = of_kind(said, LeaseEnded)
    assert (ended.party, ended.filters) == ("eva", 120)
    assert turns > 2
    assert durable.node.allowance.most < BUDGET + LARGEST
    assert durable.node.router.count_filters("eva") == 0
    assert "eva" not in durable.node.logs


@pytest.mark.parametrize("dies", [False, True])
def test_a_party_that_attaches_while_its_lease_ends_finds_nothing(dies: bool) -> None:
    durable, end = holding_much()
    while durable.node.router.count_filters("eva") == 120:
        durable.handle([], end)
    assert durable.node.router.count_filters("eva") > 0
    assert durable.node.lease_endings
    if dies:
        durable.die(end)
        wake(durable, end + 1)
    said = durable.handle([attach(2)], end + 2)
    assert len(of_kind(said, TellLeaseEnded)) == 1
    assert durable.node.router.count_filters("eva") == 0
    assert not durable.node.lease_endings
