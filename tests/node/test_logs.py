"""Logs of durable parties, against a list that does the same in the simplest way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Filter, Notification
from palio.codec import frames
from palio.model import Mode
from palio.node import entries, ports
from palio.node.logs import LogSettings, Retention
from palio.node.party_log import Keep, MarkSettings
from palio.node.ports import (
    Acknowledged,
    Deliver,
    DeliverBlock,
    Fetch,
    Fetched,
    Output,
    Persist,
    Persisted,
    Position,
    PublishBlock,
    Reply,
    Request,
)
from palio.node.reading import GoneError
from palio.sim.engine.blocks import one_by_one
from tests.node.durable import Durable, of_kind

ALL = Keep(10**9, 1 << 50, 10**15, 10**15, 0, 10**6)
NOTHING = Keep(0, 0, 0, 0, 0, 0)
"""Whatever is usual."""


def small(**more: Any) -> LogSettings:
    """Marks, sweeps and little memory, so that few deliveries show what many would."""
    given: dict[str, Any] = {"keep": ALL, "marks": MarkSettings(1, 1 << 20, 1), "sweep": 1, "recent_bytes": 0, **more}
    return LogSettings(**given)


def publications(*values: int, number: int = 1) -> PublishBlock:
    block = b"".join(frames.publish(Notification(x=value), number + place) for place, value in enumerate(values))
    return PublishBlock("adam", block)


def got(outputs: list[Output], reading: int) -> list[tuple[int, int]]:
    """Numbers and contents of what the reader gets."""
    found: list[tuple[int, int]] = []
    for each in outputs:
        single: list[Any] = list(one_by_one(each)) if isinstance(each, DeliverBlock) else [each]
        mine = [one for one in single if isinstance(one, Deliver) and one.readings == (reading,)]
        found += [(one.numbers[0], one.notification["x"]) for one in mine]  # type: ignore[misc]
    return found


class Reader:
    """A party that checks what it is told against a list of all that was ever for it."""

    def __init__(self, server: Durable) -> None:
        self.server = server
        self.all: list[int] = []
        """What was delivered, by number."""
        self.reading = self.done = self.got = 0
        self.expected = 0
        self.lost = 0
        self.now = 0

    def give(self, *inputs: ports.Input) -> list[Output]:
        self.now += 1
        outputs = self.server.handle(inputs, self.now)
        for each in outputs:
            self.hear(each)
        return outputs

    def hear(self, output: Output) -> None:
        if isinstance(output, Position) and output.reading == self.reading:
            assert output.first <= max(self.done, self.got) or output.dropped, "nothing is passed over silently"
            self.expected = output.first
            self.lost = output.dropped
        for number, value in got([output], self.reading):
            assert number == self.expected, "numbers are told, or go on one by one"
            assert self.all[number] == value
            self.expected, self.got = number + 1, max(self.got, number + 1)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.integers(1, 4)),
            st.tuples(st.sampled_from(["attach", "detach", "die", "remember"]), st.just(0)),
            st.tuples(st.sampled_from(["acknowledge", "replay", "last"]), st.integers(0, 8)),
        ),
        max_size=30,
    ),
    window=st.sampled_from([1, 3, 1000]),
    bound=st.sampled_from([2, 5, 10**9]),
    recent=st.sampled_from([0, 300, 1 << 20]),
    marks=st.sampled_from([MarkSettings(1, 1 << 20, 1), MarkSettings(3, 1 << 20, 100), MarkSettings()]),
    sweep=st.sampled_from([1, 3, 256]),
)
def test_a_log_is_a_list_of_deliveries(
    steps: list[tuple[str, int]], window: int, bound: int, recent: int, marks: MarkSettings, sweep: int
) -> None:
    keep = Keep(bound, 1 << 50, 10**15, 10**15, 0, window)
    retention = Retention(age=10**15)
    log_settings = LogSettings(keep, retention, recent_bytes=recent, marks=marks, sweep=sweep)
    server = Durable(log=log_settings)
    reader = Reader(server)
    reader.reading = 1
    reader.give(ports.Attach("eva", NOTHING, 1), Request("eva", 1, ports.Subscribe(Filter.parse("x any"))))
    for do, much in steps:
        log = server.node.logs.of("eva")
        match do:
            case "publish":
                values = list(range(len(reader.all), len(reader.all) + much))
                reader.all += values
                reader.give(publications(*values))
            case "attach" | "remember":
                reader.reading += 1
                known = (log.identity, reader.got - 1) if do == "remember" else (0, -1)
                reader.give(ports.Attach("eva", NOTHING, reader.reading, *known))
            case "detach":
                reader.give(ports.Detach("eva", reader.reading))
            case "die":
                server.die(reader.now)
                reader.reading += 1
                reader.give(ports.Attach("eva", NOTHING, reader.reading))
            case "acknowledge" if log.reading is not None:
                number = min(reader.done + much, reader.got) - 1
                if number >= reader.done:
                    outputs = reader.give(ports.Acknowledge("eva", number, reader.reading))
                    assert of_kind(outputs, Acknowledged) == [Acknowledged("eva", reader.reading, number)]
                    reader.done = number + 1
            case "replay" | "last" if log.reading is not None:
                wish = ports.Replay(first=much) if do == "replay" else ports.Replay(last=much)
                (answer,) = of_kind(reader.give(Request("eva", 2, wish)), Reply)
                assert (answer.problem is None) == (do == "last" or much <= log.next)
        log = server.node.logs.of("eva")
        reader.done = max(reader.done, log.done)
        assert log.next == len(reader.all)
        assert log.done == max(reader.done, len(reader.all) - bound)
        assert log.dropped <= len(reader.all)
        assert log.next - log.done <= bound
    finish(reader)


def finish(reader: Reader) -> None:
    """Come back, and acknowledge whatever comes: in the end everything was there that did not fall out."""
    reader.reading += 1
    reader.give(ports.Attach("eva", NOTHING, reader.reading))
    for _ in range(2 * len(reader.all) + 2):
        log = reader.server.node.logs.of("eva")
        if log.done == log.next:
            break
        reader.give(ports.Acknowledge("eva", reader.expected - 1, reader.reading))
    log = reader.server.node.logs.of("eva")
    assert (log.done, log.sent) == (log.next, log.next)
    reader.server.die(reader.now)
    back = reader.server.node.logs.of("eva")
    assert (back.next, back.size, back.done, back.dropped) == (log.next, log.size, log.done, log.dropped)
    assert back.marks == log.marks


def test_what_is_gone_is_refused_with_what_there_is() -> None:
    server = Durable(log=small())
    server.handle([ports.Attach("eva", NOTHING, 1), Request("eva", 1, ports.Subscribe(Filter()))], 0)
    for number in range(9):
        server.handle([publications(number)], number + 1)
        server.handle([ports.Acknowledge("eva", number, 1)], number + 1)
    log = server.node.logs.of("eva")
    assert 0 < log.first <= 9
    assert min(server.entries, default=9) == server.node.logs.first > 0
    (answer,) = of_kind(server.handle([Request("eva", 2, ports.Replay(first=0))], 20), Reply)
    assert isinstance(answer.problem, GoneError)
    assert f"from number {log.first} to 8" in str(answer.problem)


def test_nothing_is_trimmed_that_somebody_needs_and_all_else_is() -> None:
    server = Durable(log=small(retention=Retention(age=5)))
    for name in ("eva", "bert"):
        server.handle([ports.Attach(name, NOTHING, 1), Request(name, 1, ports.Subscribe(Filter()))], 0)
    for number in range(6):
        server.handle([publications(number)], number)
        server.handle([ports.Acknowledge("eva", number, 1)], number)
    assert min(server.entries) == 0
    server.handle([ports.Acknowledge("bert", 3, 1)], 50)
    server.handle([publications(7)], 51)
    assert min(server.entries) == 4
    server.handle([Request("bert", 2, ports.Leave())], 52)
    server.handle([ports.Acknowledge("eva", 6, 1), publications(8)], 60)
    assert len(server.entries) <= 2
    assert not [key for key in server.records if b"bert" in key]


def test_nothing_is_trimmed_that_is_not_archived() -> None:
    server = Durable(log=small(everything=True, sweep=1))
    for number in range(6):
        server.handle([publications(number)], 10 * number)
    assert sorted(server.entries) == list(range(6))
    server.handle([ports.Archived(3)], 100)
    assert sorted(server.entries) == [3, 4, 5]
    server.handle([ports.Archived(1)], 110)  # an archiver that has begun anew
    server.handle([publications(6)], 120)
    assert sorted(server.entries) == [3, 4, 5, 6]
    server.handle([ports.Archived(7)], 130)
    assert server.node.logs.archived == 7
    assert sorted(server.entries) == []


def test_a_damaged_entry_is_counted_and_told() -> None:
    server = Durable(log=small(keep=Keep(10**9, 1 << 50, 10**15, 10**15, 0, 2)))
    server.handle([ports.Attach("eva", NOTHING, 1), Request("eva", 1, ports.Subscribe(Filter()))], 0)
    server.handle([ports.Detach("eva", 1)], 0)
    for number in range(5):
        server.handle([publications(number)], number)
    server.die(9)
    server.entries[1] = b""
    outputs = server.handle([ports.Attach("eva", NOTHING, 2)], 10)
    assert got(outputs, 2) == [(0, 0)]
    outputs = server.handle([ports.Acknowledge("eva", 0, 2)], 11)
    assert [(each.first, each.dropped) for each in of_kind(outputs, Position)] == [(2, 1)]
    assert got(outputs, 2) == [(2, 2), (3, 3)]


def test_deliveries_for_an_earlier_reader_are_not_for_the_next() -> None:
    """They waited for the disk while the party came back."""
    server = Durable()
    server.handle([ports.Attach("eva", NOTHING, 1), Request("eva", 1, ports.Subscribe(Filter()))], 0)
    node = server.node
    (persist,) = of_kind(node.handle([publications(1)], 1), Persist)
    later = of_kind(node.handle([ports.Attach("eva", NOTHING, 2)], 2), Persist)
    outputs = node.handle([Persisted(max(persist.token, *(each.token for each in later)))], 3)
    assert got(outputs, 1) == [(0, 1)]  # the driver knows that this connection is gone
    assert got(outputs, 2) == [(0, 1)]
    assert [each.reading for each in of_kind(outputs, Position)] == [2]


def test_acceptance_waits_for_what_it_promises_and_keeps_its_order() -> None:
    node = Durable().node
    node.handle([ports.Attach("eva", NOTHING, 1), Request("eva", 1, ports.Subscribe(Filter()))], 0)
    node.handle([Persisted(1)], 0)

    def publish(number: int, mode: Mode) -> list[Output]:
        frame = frames.publish_with(Notification(x=number), frames.Options(mode=mode), number)
        return node.handle([ports.PublishWith("adam", frame[frames.HEADER :])], number)

    def accepted(outputs: list[Output]) -> list[int]:
        return [each.number for each in of_kind(outputs, ports.AcceptedUpTo)]

    assert accepted(publish(1, Mode.MEMORY)) == [1]
    assert accepted(publish(2, Mode.LOCAL)) == []
    assert accepted(publish(3, Mode.SYNCED)) == []
    assert accepted(publish(4, Mode.MEMORY)) == []  # the one before it is not accepted yet
    node.handle([ports.Space(is_there=False)], 5)
    refused = publish(5, Mode.SYNCED)  # that is told at once: there may be no room for long
    assert (of_kind(refused, Reply)[0].number, accepted(refused)) == (5, [])
    assert accepted(node.handle([Persisted(5, is_synced=False)], 9)) == [2]
    assert accepted(node.handle([Persisted(9)], 9)) == [3, 4, 5]


@pytest.mark.parametrize(
    ("bounds", "kept"), [({"letters": 3}, 3), ({"letters_bytes": 100}, 2), ({"letters_bytes": 1}, 1)]
)
def test_dead_letters_have_bounds_also_after_a_death(bounds: dict[str, int], kept: int) -> None:
    server = Durable(log=small(**bounds))
    server.handle([ports.Attach("eva", NOTHING, 1), Request("eva", 1, ports.Subscribe(Filter()))], 0)
    server.handle([publications(*range(6))], 1)
    for number in range(5):
        server.handle([Request("eva", 2 + number, ports.Reject(number, "no"))], 2)
    server.die(3)
    server.handle([ports.Attach("eva", NOTHING, 2)], 4)
    server.handle([Request("eva", 9, ports.Reject(5, "no"))], 4)
    log = server.node.logs.of("eva")
    assert [each.delivery for each in log.letters.values()] == list(range(6 - kept, 6))
    assert (log.forgotten, log.letters_size) == (6 - kept, sum(len(each.frame) for each in log.letters.values()))


def test_a_publication_that_is_only_in_memory_writes_nothing() -> None:
    server = Durable(reserve=1_000, mode=Mode.MEMORY)
    server.handle([Request("eva", 1, ports.Subscribe(Filter()))], 0)
    server.handle([publications(1)], 1)  # numbers and times are reserved
    outputs = server.node.handle([publications(2)], 2)
    assert not of_kind(outputs, Persist)
    assert len(of_kind(outputs, DeliverBlock)) == 1
    before = server.node.publishing.count
    server.die(3)
    assert server.node.publishing.count > before


def test_a_new_incarnation_keeps_parties_and_their_logs_under_another_name() -> None:
    server = Durable(architecture="as", log=small())
    server.handle([ports.Attach("eva", NOTHING, 1), Request("eva", 1, ports.Subscribe(Filter()))], 0)
    server.handle([ports.Connect("rome")], 0)
    server.handle([ports.Detach("eva", 1), publications(1, 2)], 1)
    before = server.node.logs.of("eva").identity
    server.die(5, incarnation=77)
    assert server.node.links.wishes.keys() == {"rome"}
    assert not list(server.node.links.peers)
    outputs = server.handle([ports.Attach("eva", NOTHING, 2, before, 1)], 6)
    (position,) = of_kind(outputs, Position)
    assert (position.log, position.first) == (77, 0)
    assert got(outputs, 2) == [(0, 1), (1, 2)]
    (_, block) = server.handle([publications(3)], 7), None
    assert server.node.publishing.count == 1
    server.die(8)
    assert server.node.logs.of("eva").identity == 77
    assert block is None


@given(st.lists(st.integers(0, 40), unique=True).map(sorted))
def test_selections_say_which_frames_they_are(places: list[int]) -> None:
    selection = entries.select(places)
    assert [place for run in entries.ordinals(selection) for place in range(*run)] == places
    content = [frames.frame(0x20, bytes([place])) for place in range(41)]
    entry = entries.Entry(entries.Head(1, 0, 41, 0, ()), b"".join(content))
    assert b"".join(entries.selected(entry, selection)) == b"".join(content[place] for place in places)


@pytest.mark.parametrize("data", [b"", b"\0\0\0\5", b"\0\0\0\1\xc0", entries.encode(entries.Head(9, 0, 0, 0, ()), b"")])
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    with pytest.raises(entries.DecodeError):
        entries.decode(data)


def test_a_fetch_that_comes_too_late_does_no_harm() -> None:
    server = Durable(log=small())
    server.handle([ports.Attach("eva", NOTHING, 1), Request("eva", 1, ports.Subscribe(Filter()))], 0)
    server.handle([ports.Detach("eva", 1)], 0)
    server.handle([publications(1, 2)], 1)
    server.die(2)
    (persist,) = of_kind(said := server.node.handle([ports.Attach("eva", NOTHING, 2)], 3), Persist)
    (fetch,) = of_kind(said, Fetch)
    server.node.handle([ports.Attach("eva", NOTHING, 3)], 4)
    outputs = server.node.handle([Persisted(persist.token + 1), Fetched(fetch.token, server.read(0, 1, 1000))], 5)
    (again,) = of_kind(outputs, Fetch)
    assert got(server.node.handle([Fetched(again.token, server.read(0, 1, 1000))], 6), 3) == [(0, 1), (1, 2)]
    assert not server.node.handle([Fetched(again.token, ())], 7)
