"""Every record of a durable party may be lost, alone or with another one: its deliveries arrive, or it is told."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any, NamedTuple

import pytest

from palio import Filter
from palio.node import ports, records
from palio.node.logs import LogSettings, Retention
from palio.node.party_log import MarkSettings
from palio.node.ports import Position, Request
from tests.node.durable import Durable, of_kind
from tests.node.test_log_mends import bounded
from tests.node.test_logs import ALL, NOTHING, got, publications

KINDS = ("mail", "owner", "cursor", "end", "mark", "letter", "sweep", "logs")
SETTINGS = {
    "no sweep": LogSettings(keep=ALL, marks=MarkSettings(2, 1 << 20, 100), recent_bytes=0),
    "sweeps": LogSettings(keep=ALL, marks=MarkSettings(100, 1 << 20, 100), recent_bytes=0, sweep=3),
    "sweeps and retention": LogSettings(
        keep=ALL, marks=MarkSettings(), recent_bytes=0, sweep=2, retention=Retention(age=10**15)
    ),
    "bounds": LogSettings(keep=bounded(bytes=2_000), marks=MarkSettings(3, 200, 3), recent_bytes=0, sweep=4),
}
COUNT = 14
"""Deliveries of eva, of which the first five are done: one as a dead letter."""
DONE = 5


def lived(name: str) -> Durable:
    """A server with two durable parties, of which one is behind."""
    server = Durable(log=SETTINGS[name])
    for party, filter in (("adam", Filter()), ("eva", Filter.parse("x >= 0")), ("bob", Filter.parse("x > 3"))):
        server.handle([ports.Attach(party, NOTHING, 1), Request(party, 1, ports.Subscribe(filter))], 0)
    for number in range(COUNT):
        server.handle([publications(number, number=number + 1)], number + 1)
        bob = ports.Acknowledge("bob", max(0, number - 4), 1)
        server.handle([bob, ports.Acknowledge("adam", number, 1)], number + 1)
        if number == 4:
            server.handle([ports.Acknowledge("eva", 3, 1)], number + 1)
            server.handle([Request("eva", 2, ports.Reject(4, "it makes no sense"))], number + 1)
            server.handle([ports.Detach("eva", 1)], number + 1)
    assert server.node.logs.of("eva").done == DONE
    return server


class Told(NamedTuple):
    """What eva hears when it is back."""

    log: int
    contents: dict[int, int]
    """By number."""
    repeated: int
    dropped: int
    firsts: list[int]


def comes_back(server: Durable, now: int) -> Told:
    """Eva reads and acknowledges until there is nothing more."""
    reading = now
    outputs = server.handle([ports.Attach("eva", NOTHING, reading)], now)
    contents: dict[int, int] = {}
    positions: list[Any] = []
    while True:
        positions += [each for each in of_kind(outputs, Position) if (each.party, each.reading) == ("eva", reading)]
        fresh = got(outputs, reading)
        for number, content in fresh:
            assert number not in contents, "once in a connection"
            contents[number] = content
        if not fresh:
            break
        outputs = server.handle([ports.Acknowledge("eva", fresh[-1][0], reading)], now)
    last = positions[-1]
    return Told(last.log, contents, positions[0].repeated, last.dropped, [each.first for each in positions])


def of_logs(server: Durable) -> list[bytes]:
    """The keys of all records from which logs are made."""
    return [key for key in sorted(server.records) if records.decode_value(key)[0] in KINDS]


def cases() -> list[tuple[str, bool]]:
    return [(name, is_other) for name in SETTINGS for is_other in (True, False)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "is_other"), cases())
def test_a_party_gets_what_it_has_not_acknowledged_whatever_records_are_lost(name: str, is_other: bool) -> None:
    """Of another incarnation if the store has found the damage; else a record is there and makes no sense."""
    before = lived(name)
    keys = of_logs(before)
    assert len(keys) > 8
    random = Random(name)
    chosen = [*combinations(keys, 1), *combinations(keys, 2)]
    chosen += [tuple(random.sample(keys, 3)) for _ in range(100)]
    for lost in chosen:
        _judge(before, lost, is_other=is_other)


def _judge(before: Durable, lost: tuple[bytes, ...], *, is_other: bool) -> None:
    server = Durable(log=before.settings.log)
    server.records, server.entries, server.first = dict(before.records), dict(before.entries), before.first
    for key in lost:
        if is_other:
            del server.records[key]
        else:
            server.records[key] = records.encode_value(("no", "sense"))
    server.die(100, incarnation=1_000 if is_other else 0)
    text = [records.describe(each) for each in lost]
    kinds = {records.decode_value(key)[:2] for key in lost}
    server.handle([publications(COUNT, number=COUNT + 1)], 101)
    if kinds >= {("mail", "eva"), ("owner", 2)}:
        told = comes_back(server, 102)
        assert told.log != 2, text  # its deliveries cannot be found; another log tells
        return
    server.die(102)
    told = comes_back(server, 103)
    must = {*range(DONE, COUNT + 1)}
    if told.dropped:
        assert name_of(before) == "bounds", text
    assert must <= set(told.contents.values()) | set(range(DONE, DONE + told.dropped)), (text, told)
    assert told.log > 2 or not is_other, text
    if told.log == 2:
        assert all(number == content for number, content in told.contents.items()), (text, told)
    again = [number for number, content in told.contents.items() if content < DONE]
    assert all(number < told.repeated for number in again), (text, "what it had got before is marked")
    more = comes_back(server, 104)
    assert not more.contents, (text, more)


def name_of(server: Durable) -> str:
    return next(name for name, each in SETTINGS.items() if each is server.settings.log)


@pytest.mark.parametrize("name", ["sweeps", "bounds"])
def test_marks_that_were_lost_keep_entries_from_being_trimmed(name: str) -> None:
    """Whichever mark is lost: eva acknowledges some deliveries, others go on, and what it has not got stays."""
    before = lived(name)
    marks = [key for key in of_logs(before) if records.decode_value(key)[:2] == ("mark", 2)]
    assert len(marks) > 2
    for lost, done in [(lost, done) for lost in marks for done in range(DONE, COUNT)]:
        server = Durable(log=before.settings.log)
        server.records, server.entries, server.first = dict(before.records), dict(before.entries), before.first
        del server.records[lost]
        server.die(100, incarnation=1_000)
        server.handle([ports.Attach("eva", NOTHING, 7)], 101)
        server.handle([ports.Acknowledge("eva", done, 7)], 101)
        server.handle([ports.Detach("eva", 7)], 101)
        for number in range(COUNT, COUNT + 8):
            server.handle([publications(number, number=number + 1)], 102)
            server.handle([ports.Acknowledge("bob", number - 4, 1), ports.Acknowledge("adam", number, 1)], 102)
        server.die(103)
        told = comes_back(server, 104)
        assert not told.dropped
        assert list(told.contents.values()) == list(range(done + 1, COUNT + 8)), records.describe(lost)


def test_a_mark_that_was_lost_has_its_size_again() -> None:
    before = lived("sweeps and retention")
    marks = before.node.logs.of("eva").marks
    assert len(marks) > 3
    for lost in marks:
        server = Durable(log=before.settings.log)
        server.records, server.entries, server.first = dict(before.records), dict(before.entries), before.first
        del server.records[records.encode_key(("mark", 2, lost.number))]
        server.die(100, incarnation=1_000)
        assert server.node.logs.of("eva").marks == marks
        server.handle([], 101)
        server.die(102)
        assert server.node.logs.of("eva").marks == marks, "it is written again"


def test_no_party_gets_the_deliveries_of_a_log_that_has_ended() -> None:
    """Numbers of logs are not given twice, though the record of the last one is lost."""
    server = lived("sweeps and retention")
    gone = [records.encode_key(("logs",)), records.encode_key(("mail", "bob")), records.encode_key(("owner", 3))]
    for key in gone:
        del server.records[key]
    server.die(100, incarnation=1_000)
    server.handle([ports.Attach("eve", NOTHING, 7), Request("eve", 1, ports.Subscribe(Filter.parse("x > 100")))], 101)
    assert server.node.logs.of("eve").number > 3
    server.die(102)
    outputs = server.handle([ports.Attach("eve", NOTHING, 8)], 103)
    assert not got(outputs, 8)
    assert server.node.logs.of("eve").next == 0
