"""What the simulator once found wrong with logs of durable parties, each as small as it can be."""

from __future__ import annotations

from typing import Any

import pytest

from palio import Filter, Notification
from palio.codec import frames
from palio.errors import InternalError
from palio.link.frames import Accept
from palio.node import ports
from palio.node.hybrid import date_of
from palio.node.keeping import Kept, tail_from
from palio.node.logs import Retention
from palio.node.party_log import Keep, MarkSettings
from palio.node.ports import Fetch, Fetched, Position, Reply, Request
from palio.node.quarantine import Quarantine
from palio.node.records import decode, decode_value, encode_value
from palio.node.waves import Asked, Passed
from tests.node.durable import Durable, of_kind
from tests.node.test_logs import ALL, NOTHING, got, publications, small


def attached(party: str = "eva", reading: int = 1, **options: Any) -> Durable:
    """A server with a durable party that wants everything."""
    server = Durable(**{"log": small(), **options})
    server.handle([ports.Attach(party, NOTHING, reading), Request(party, 1, ports.Subscribe(Filter()))], 0)
    return server


def bounded(**bounds: int) -> Keep:
    known = {"count": ALL.count, "bytes": ALL.bytes, "age": ALL.age, "lease": ALL.lease, "window": ALL.window}
    return Keep(**{**known, **bounds})


# -- reading again -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wish", [ports.Replay(first=3), ports.Replay(last=1)])
def test_reading_again_passes_over_nothing_that_was_not_sent(wish: ports.Replay) -> None:
    server = attached(log=small(keep=bounded(window=1)))
    server.handle([publications(0, 1, 2, 3)], 1)
    outputs = server.handle([Request("eva", 2, wish)], 2)
    assert of_kind(outputs, Reply)[0].problem is None
    assert got(outputs, 1) == [(1, 1)], "the next one, though the window was full: that begins anew"


def test_what_is_older_is_passed_over_only_as_far_as_it_was_sent() -> None:
    server = attached(log=small(keep=bounded(window=2), retention=Retention(age=10**15)))
    for number in range(4):
        server.handle([publications(number)], number + 1)
    outputs = server.handle([Request("eva", 2, ports.Replay(since=date_of(8)))], 9)
    assert got(outputs, 1) == [(2, 2), (3, 3)], "0 and 1 were sent, and are too old; the others were never sent"


def test_reading_again_goes_on_when_something_falls_out() -> None:
    server = attached(log=small(keep=bounded(count=1, window=1), retention=Retention(age=10**15)))
    for number in range(3):
        server.handle([publications(number)], number + 1)
        server.handle([ports.Acknowledge("eva", number, 1)], number + 1)
    assert got(server.handle([Request("eva", 2, ports.Replay(first=0))], 9), 1) == [(0, 0)]
    server.handle([publications(3, 4)], 10)
    assert server.node.logs.of("eva").dropped == 1
    assert got(server.handle([ports.Acknowledge("eva", 0, 1)], 11), 1) == [(1, 1)]


def test_what_was_fetched_for_another_place_is_not_sent() -> None:
    server = attached(log=small(keep=bounded(window=1), retention=Retention(age=10**15)))
    for number in range(4):
        server.handle([publications(number)], number + 1)
        server.handle([ports.Acknowledge("eva", number, 1)], number + 1)
    (fetch,) = of_kind(server.node.handle([Request("eva", 2, ports.Replay(first=2))], 9), Fetch)
    server.node.handle([Request("eva", 3, ports.Replay(first=0))], 9)
    late = Fetched(fetch.token, server.read(fetch.position, fetch.end, fetch.bytes))
    outputs = server.node.handle([late], 10)
    assert got(outputs, 1) == []
    (again,) = of_kind(outputs, Fetch)
    assert again.position == 0


def test_a_log_that_has_ended_is_not_read_for() -> None:
    server = attached(log=small(keep=bounded(window=1)))
    server.handle([ports.Detach("eva", 1), publications(0, 1)], 1)
    server.die(2)
    (fetch,) = of_kind(server.node.handle([ports.Attach("eva", NOTHING, 2)], 3), Fetch)
    server.node.handle([Request("eva", 2, ports.Leave())], 4)
    assert not of_kind(server.node.handle([Fetched(fetch.token, server.read(0, 2, 1_000))], 5), Fetch)


def test_what_is_left_when_entries_go_is_found() -> None:
    """Marks are rare, and entries go up to a sweep that is between two of them."""
    retention = Retention(age=10**15, count=3)
    server = attached(log=small(marks=MarkSettings(), sweep=2, retention=retention))
    for number in range(9):
        server.handle([publications(number)], number + 1)
        server.handle([ports.Acknowledge("eva", number, 1)], number + 1)
    first = min(server.entries)
    assert 0 < first < 8
    outputs = server.handle([Request("eva", 2, ports.Replay(first=first))], 20)
    assert [number for number, _ in got(outputs, 1)] == list(range(first, 9))


def test_sizes_are_not_counted_twice_by_reading_again() -> None:
    """What expires while it is read again is passed over, and the rest has the size that it had."""
    server = attached(log=small(keep=bounded(bytes=300), retention=Retention(age=10**15)))
    expiring = frames.publish_with(Notification(x=0), frames.Options(expires=date_of(50)), 1)
    server.handle([ports.PublishWith("adam", expiring[frames.HEADER :]), publications(1, 2)], 1)
    server.handle([ports.Acknowledge("eva", 2, 1)], 2)
    server.handle([Request("eva", 2, ports.Replay(first=0))], 100)
    server.handle([ports.Acknowledge("eva", 2, 1)], 101)
    log = server.node.logs.of("eva")
    assert log.done_size <= log.size
    assert log.taken_size <= log.size


# -- acknowledgements, dead letters ------------------------------------------------------------------------------------


def test_an_acknowledgement_of_another_connection_does_not_count() -> None:
    """It may be of a log that has ended."""
    server = attached()
    server.handle([publications(0)], 1)
    server.handle([Request("eva", 2, ports.Leave())], 2)
    server.handle([ports.Attach("eva", NOTHING, 2), Request("eva", 3, ports.Subscribe(Filter()))], 3)
    server.handle([publications(1)], 4)
    assert server.handle([ports.Acknowledge("eva", 0, 1)], 5) == []
    assert server.node.logs.of("eva").done == 0
    assert server.handle([ports.Acknowledge("eva", 0, 2)], 6) == [ports.Acknowledged("eva", 2, 0)]


def test_what_is_rejected_in_the_turn_that_brings_it_is_a_letter_with_its_content() -> None:
    server = attached()
    outputs = server.handle([publications(7), Request("eva", 2, ports.Reject(0, "no"))], 1)
    assert of_kind(outputs, Reply)[-1].problem is None
    (letter,) = server.node.logs.of("eva").letters.values()
    ((_, content),) = frames.frames_of(letter.frame)
    assert frames.delivered(content)["x"] == 7


def test_an_acknowledgement_behind_a_rejection_waits_until_the_letter_is_made() -> None:
    """The frame has to be read from disk, and meanwhile the party says more."""
    server = attached()
    server.handle([publications(0, 1, 2, 3)], 1)
    server.handle([ports.Acknowledge("eva", 0, 1)], 2)
    server.node.logs.recent._most = 0
    server.node.logs.recent._shrink()
    outputs = server.node.handle([Request("eva", 2, ports.Reject(1, "no")), ports.Acknowledge("eva", 3, 1)], 3)
    (fetch,) = of_kind(outputs, ports.Fetch)
    assert server.node.logs.of("eva").done == 1
    found = ports.Fetched(fetch.token, server.read(fetch.position, fetch.end, fetch.bytes))
    said = server.handle([found], 4)
    assert of_kind(said, Reply, ports.Acknowledged) == [Reply("eva", 2), ports.Acknowledged("eva", 1, 3)]
    log = server.node.logs.of("eva")
    assert (log.done, [letter.delivery for letter in log.letters.values()]) == (4, [1])


def test_a_letter_that_is_worth_nothing_any_more_is_not_delivered_again() -> None:
    server = attached()
    expiring = frames.publish_with(Notification(x=0), frames.Options(expires=date_of(50)), 1)
    server.handle([ports.PublishWith("adam", expiring[frames.HEADER :])], 1)
    server.handle([Request("eva", 2, ports.Reject(0, "no"))], 2)
    outputs = server.handle([Request("eva", 3, ports.Letters("requeue", (0,)))], 100)
    assert got(outputs, 1) == []
    assert server.node.logs.of("eva").expired == 1


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_numbers_and_identities_of_logs_are_given_once() -> None:
    server = attached()
    server.handle([ports.Attach("bert", NOTHING, 1)], 1)
    ended = server.node.logs.of("bert")
    server.handle([Request("bert", 2, ports.Leave())], 2)
    server.die(3)
    server.handle([ports.Attach("bert", NOTHING, 2)], 4)
    begun = server.node.logs.of("bert")
    assert begun.number > ended.number
    assert begun.identity > ended.identity


def test_waves_come_back_as_what_they_were() -> None:
    for wave in (Asked("eva", 3), Passed("rome", 4, ("bari", 0, 5))):
        found = decode_value(encode_value((wave, ("rome",))))[0]
        assert (found, type(found)) == (wave, type(wave))


def test_a_record_that_would_be_read_as_something_else_is_not_written() -> None:
    with pytest.raises(InternalError, match="Kept, which would be read as a plain tuple"):
        encode_value((Kept((), (), 0, None, Quarantine()),))


def test_a_durable_server_answers_a_wave_that_had_gone_out() -> None:
    server = Durable(architecture="as")
    (asked,) = of_kind(server.handle([ports.Connect("rome")], 0), ports.Send)
    accept = Accept(asked.frame.session, (("rome", (0, "", 0)),))
    server.handle([ports.FromPeer("rome", accept)], 0)
    server.node.spreading.waves.begin(Asked("eva", 1), ["rome"])
    server.handle([Request("eva", 2, ports.Subscribe(Filter()))], 1)
    server.die(2)
    ((wave, missing),) = server.node.spreading.waves.kept().values()
    assert (type(wave), missing) == (Asked, ("rome",))


# -- damage ------------------------------------------------------------------------------------------------------------


def spoiled(server: Durable, *kinds: str) -> None:
    """Records of some kinds cannot be read any more."""
    server.records = {key: value for key, value in server.records.items() if decode_value(key)[0] not in kinds}


def test_numbers_of_a_damaged_last_entry_do_not_mean_something_else() -> None:
    server = attached(log=small(sweep=100))
    server.handle([publications(0)], 1)
    outputs = server.handle([publications(1)], 2)
    assert got(outputs, 1) == [(1, 1)]
    before = server.node.logs.of("eva").identity
    server.entries[1] = b""
    server.die(3)
    (position,) = of_kind(server.handle([ports.Attach("eva", NOTHING, 2, before, 1)], 4), Position)
    assert position.log > before
    server.die(5)
    assert server.node.logs.of("eva").identity == position.log, "that is kept"
    assert [mark.number for mark in server.node.logs.of("eva").marks] == [0]


def test_a_damaged_entry_before_others_changes_no_log() -> None:
    server = attached(log=small(sweep=100))
    for number in range(3):
        server.handle([publications(number)], number + 1)
    before = server.node.logs.of("eva").identity
    server.entries[1] = b""
    server.die(5)
    log = server.node.logs.of("eva")
    assert (log.identity, log.next) == (before, 3)


def test_how_long_a_log_is_is_found_in_its_entries_when_the_record_is_lost() -> None:
    server = attached(log=small(retention=Retention(age=10**15)))
    server.handle([ports.Detach("eva", 1)], 1)
    for number in range(3):
        server.handle([publications(number)], number + 2)
    spoiled(server, "end")
    server.die(9, incarnation=1_000)
    assert server.node.logs.of("eva").next == 3
    server.handle([], 9)
    server.die(10)
    assert server.node.logs.of("eva").next == 3, "it is written again"
    assert got(server.handle([ports.Attach("eva", NOTHING, 2)], 11), 2) == [(0, 0), (1, 1), (2, 2)]


def test_all_entries_are_read_if_the_records_are_of_another_incarnation() -> None:
    server = attached()
    server.handle([publications(0)], 1)
    found = [decode(*each) for each in server.records.items()]
    assert (tail_from(found, 0), tail_from(found, 1)) == (1, 0)


@pytest.mark.parametrize("kinds", [("mail", "owner"), ("mail",), ("owner",), ("life",), ("cursor",), ("mark",)])
def test_a_server_comes_back_from_what_is_left(kinds: tuple[str, ...]) -> None:
    server = attached(architecture="as", log=small(retention=Retention(age=10**15)))
    server.handle([ports.Connect("rome")], 0)
    server.handle([publications(0, 1)], 1)
    server.handle([ports.Acknowledge("eva", 0, 1)], 2)
    spoiled(server, *kinds)
    server.die(3, incarnation=1_000)
    server.handle([], 3)
    assert not server.node.links.peers
    kept = {decode_value(key)[0] for key in server.records}
    is_gone = kinds == ("mail", "owner")
    assert is_gone == (not kept & {"mail", "owner", "cursor", "end", "mark"}), "no parts of logs that are lost"
    assert is_gone == bool(server.node.quarantined)
    server.die(4)
    assert server.node.settings.incarnation == 1_000
    assert decode_value(server.records[encode_value(("life",))]) == 1_000
    identities = [log.identity for log in server.node.logs]
    assert identities == [] if is_gone else min(identities) >= 1_000


def test_a_cursor_that_is_ahead_of_what_is_left_is_not_written_again() -> None:
    """Else what comes next would count as done with."""
    server = attached(log=small(sweep=100))
    server.handle([publications(0)], 1)
    server.handle([ports.Acknowledge("eva", 0, 1)], 2)
    server.entries[0] = b""
    server.die(3, incarnation=1_000)
    server.handle([publications(1)], 4)
    server.die(5)
    log = server.node.logs.of("eva")
    assert (log.done, log.next) == (0, 1)


def test_a_log_without_a_cursor_begins_where_it_still_is_and_within_its_bounds() -> None:
    server = attached(log=small(keep=bounded(count=2), retention=Retention(age=10**15, count=5)))
    for number in range(12):
        server.handle([publications(number)], number + 1)
        server.handle([ports.Acknowledge("eva", number, 1)], number + 1)
    spoiled(server, "cursor")
    server.die(20, incarnation=1_000)
    log = server.node.logs.of("eva")
    assert log.next - log.done == 2
    assert log.dropped == 10 - log.first


def test_what_an_old_disk_holds_may_have_been_sent() -> None:
    server = attached()
    server.handle([ports.Detach("eva", 1), publications(0, 1)], 1)
    copy = dict(server.records), dict(server.entries)
    assert got(server.handle([ports.Attach("eva", NOTHING, 2)], 2), 2) == [(0, 0), (1, 1)]
    server.records, server.entries = copy
    server.die(3, incarnation=1_000)
    (position,) = of_kind(server.handle([ports.Attach("eva", NOTHING, 3)], 4), Position)
    assert (position.log, position.first, position.repeated) == (1_000, 0, 2)


# -- room on the disk --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", [20, -1_000_000])
def test_all_that_is_acknowledged_goes_when_room_is_needed_also_after_a_start(clock: int) -> None:
    """Nobody acknowledges anything any more, so no acknowledgement makes the server look for room."""
    server = attached()
    server.handle([publications(0, 1, 2)], 1)
    server.handle([ports.Acknowledge("eva", 2, 1)], 2)
    assert len(server.entries) == 1
    server.die(clock)
    server.handle([ports.Space(is_there=False)], clock)
    server.handle([], clock + 1)
    assert server.entries == {}
    assert server.node.logs.trim(clock + 2) is None
    assert not server.node.logs._may_trim, "it does not look again and again"


def test_what_is_acknowledged_in_the_turn_that_brings_it_goes_when_room_is_needed() -> None:
    server = attached()
    server.handle([publications(0)], 1)
    server.handle([Request("eva", 2, ports.Reject(0, "no")), ports.Space(is_there=False)], 2)
    server.handle([Request("eva", 3, ports.Letters("requeue", (0,)))], 3)
    server.handle([ports.Acknowledge("eva", 1, 1)], 4)
    server.handle([], 5)
    assert server.entries == {}
