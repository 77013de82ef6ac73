"""Planted bugs of durable parties: numbers, cursors, bounds, promises, dead letters, and what is left after damage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from palio.model import Mode
from palio.node import entries, keeping, leases, reading
from palio.node.acceptances import Acceptances
from palio.node.entries import Entry
from palio.node.keys import Keys
from palio.node.leases import RunningTime
from palio.node.logs import Logs
from palio.node.node import Node
from palio.node.party_log import Letter, PartyLog
from palio.node.ports import Acknowledged, Output
from palio.node.publications import Publications
from palio.node.reading import Reading
from palio.node.salvage import Unlinked
from palio.sim.engine.readers import Readers
from tests.planted.bugs import Bugs

BUGS = Bugs("durability")
_Right = Callable[..., Any]
_ALL = ("ce", "as", "gs")
_CRASHES, _DISKS = ("crashes",), ("disks",)

# -- promises ----------------------------------------------------------------------------------------------------------


@BUGS.plant(Acceptances, "_holds", _ALL, _CRASHES)
def _accepted_before_it_is_synced(right: _Right) -> _Right:
    """A publication that is to be synced is acknowledged when it is written."""
    return lambda answers, token, mode: right(answers, token, Mode.LOCAL if mode is Mode.SYNCED else mode)


@BUGS.plant(Acceptances, "_holds", _ALL, _CRASHES)
def _accepted_before_it_is_written(right: _Right) -> _Right:
    """A publication that is to survive the process is acknowledged at once."""
    return lambda answers, token, mode: mode is Mode.LOCAL or right(answers, token, mode)


@BUGS.plant(Acceptances, "due", _ALL)
def _answers_overtake(right: _Right) -> _Right:
    """What is accepted in memory is acknowledged before what came earlier and waits for the disk."""

    def due(answers: Acceptances, token: int) -> Iterator[Output]:
        waiting, answers._waiting = answers._waiting, {}
        yield from right(answers, token)
        for party, fresh in answers._waiting.items():
            waiting.setdefault(party, deque()).extend(fresh)
        answers._waiting = waiting

    return due


@BUGS.plant(Publications, "_check_space", _ALL, _DISKS)
def _full_disk_ignored(_right: _Right) -> _Right:
    """Publications are taken though there is no room on the disk."""
    return lambda _publications: None


@BUGS.plant(Keys, "restore", _ALL, _CRASHES)
def _keys_forgotten(_right: _Right) -> _Right:
    """A server that comes back does not know the keys of publications any more."""
    return lambda _keys, _known: None


# -- how far parties have come -----------------------------------------------------------------------------------------


@BUGS.plant(Logs, "keep_cursor", _ALL)
def _cursor_not_kept(_right: _Right) -> _Right:
    """How far a party has come is not written."""
    return lambda _logs, _log: None


@BUGS.plant(Reading, "acknowledge", _ALL, _CRASHES)
def _noted_before_it_is_written(right: _Right) -> _Right:
    """A party is told that its acknowledgement will not be forgotten before that is on disk."""

    def acknowledge(reader: Reading, party: str, number: int, name: int) -> None:
        emit = reader._emit
        node: Node = emit.__self__  # type: ignore[attr-defined]

        def at_once(output: Output) -> None:
            (node._at_once if isinstance(output, Acknowledged) else node._outputs).append(output)

        reader._emit = at_once
        right(reader, party, number, name)
        reader._emit = emit

    return acknowledge


@BUGS.plant(Reading, "acknowledge", _ALL, ("crashes", "all"))
def _any_acknowledgement_counts(right: _Right) -> _Right:
    """An acknowledgement of a connection that is gone counts for the log that there is now."""

    def acknowledge(reader: Reading, party: str, number: int, name: int) -> None:
        log = reader._logs.of(party) if party in reader._logs else None
        right(reader, party, number, name if log is None or log.reader is None else log.reader)

    return acknowledge


@BUGS.plant(Logs, "_sweep", _ALL)
def _ends_not_kept(right: _Right) -> _Right:
    """A sweep does not write how long logs are."""

    def sweep(logs: Logs, now: int) -> None:
        logs._changed.clear()
        right(logs, now)

    return sweep


@BUGS.plant(Logs, "end", _ALL)
def _marks_outlive_the_log(right: _Right) -> _Right:
    """The marks of a log that has ended stay on disk."""

    def end(logs: Logs, party: str) -> None:
        if party in logs:
            logs.of(party).marks.clear()
        right(logs, party)

    return end


@BUGS.plant(Logs, "restore", _ALL, _CRASHES)
def _identity_given_again(right: _Right) -> _Right:
    """A server that comes back gives the identity of a log that has ended to another one."""

    def restore(logs: Logs, known: Mapping[Any, Any], *given: Any) -> None:
        right(logs, {key: value for key, value in known.items() if key != ("logs",)}, *given)

    return restore


# -- deliveries --------------------------------------------------------------------------------------------------------


@BUGS.plant(PartyLog, "send", _ALL)
def _redelivery_not_marked(right: _Right) -> _Right:
    """What was sent and not acknowledged is delivered again as if it were new."""

    def send(log: PartyLog, *given: int) -> None:
        high = log.high
        right(log, *given)
        log.high = high

    return send


@BUGS.plant(PartyLog, "send", _ALL)
def _marked_up_to_the_last_but_one(right: _Right) -> _Right:
    """The last delivery that was sent is not marked when it is delivered again."""

    def send(log: PartyLog, *given: int) -> None:
        high = log.high
        right(log, *given)
        log.high = max(high, log.high - 1)

    return send


@BUGS.plant(PartyLog, "credit", _ALL)
def _window_of_a_reader_ignored(_right: _Right) -> _Right:
    """Parties are sent everything at once."""
    return lambda log, _most: 0 if log.reading is None or log.is_fetching or log.is_blocked else 1 << 30


@BUGS.plant(entries, "selected", _ALL, ("slow",))
def _share_of_somebody_else(right: _Right) -> _Right:
    """Who reads an entry gets as many deliveries as are for it, but the first ones of the entry."""

    def selected(entry: Entry, selection: bytes) -> Any:
        count = sum(end - begin for begin, end in entries.ordinals(selection))
        return right(entry, entries.select(range(count)))

    return selected


@BUGS.plant(PartyLog, "begin_reading", _ALL)
def _begins_one_too_late(right: _Right) -> _Right:
    """Who reads again what it has got misses the first of it."""

    def begin_reading(log: PartyLog, number: int) -> None:
        right(log, number + 1 if number < log.done else number)

    return begin_reading


@BUGS.plant(Reading, "replay", ("ce",), ("slow",))
def _passes_over_what_was_not_sent(right: _Right) -> _Right:
    """Who wants something once more gets nothing of what waits before it."""

    def replay(reader: Reading, party: str, wish: Any) -> None:
        right(reader, party, wish)
        log = reader._logs.of(party)
        if wish.last >= 0:
            log.begin_reading(max(log.first, log.next - wish.last))

    return replay


@BUGS.plant(Readers, "got", _ALL)
def _for_whoever_reads_now(right: _Right) -> _Right:
    """What was on its way to a connection that was replaced is given to the next one."""

    def got(readers: Readers, party: str, number: int, reading: int, content: object) -> Any:
        now = readers[party].reading if party in readers else None
        return right(readers, party, number, reading if now is None else now, content)

    return got


# -- what falls out ----------------------------------------------------------------------------------------------------


@BUGS.plant(Logs, "_bound", _ALL)
def _dropped_not_counted(_right: _Right) -> _Right:
    """What is too much falls out, and nobody is told."""

    def bound(logs: Logs, log: PartyLog) -> None:
        if log.drop(log.bound()):
            logs.keep_cursor(log)

    return bound


@BUGS.plant(Logs, "announce", _ALL)
def _told_of_nothing(right: _Right) -> _Right:
    """What falls out is counted, and parties are told that nothing has."""

    def announce(logs: Logs, log: PartyLog, number: int) -> None:
        counted = log.dropped, log.expired
        log.dropped = log.expired = 0
        right(logs, log, number)
        log.dropped, log.expired = counted

    return announce


@BUGS.plant(Logs, "_bound", _ALL)
def _no_bounds(_right: _Right) -> _Right:
    """However much waits for a party, nothing falls out."""
    return lambda _logs, _log: None


@BUGS.plant(PartyLog, "drop", _ALL)
def _dropped_counts_as_acknowledged(right: _Right) -> _Right:
    """Deliveries that fell out count as acknowledged, so that a program without a cursor does not hear of them."""

    def drop(log: PartyLog, end: int) -> int:
        count: int = right(log, end)
        log.heard = max(log.heard, log.done)
        return count

    return drop


@BUGS.plant(PartyLog, "bound", _ALL)
def _one_too_many_dropped(right: _Right) -> _Right:
    """One delivery more falls out than has to."""

    def bound(log: PartyLog) -> int:
        found: int = right(log)
        return found + 1 if log.done < found < log.next else found

    return bound


@BUGS.plant(reading, "_expiry", _ALL)
def _expiry_ignored(_right: _Right) -> _Right:
    """What is worth nothing any more is delivered when its party comes back."""
    return lambda _frame: None


@BUGS.plant(Reading, "_pass_over", _ALL, _DISKS)
def _damage_not_counted(right: _Right) -> _Right:
    """What cannot be read any more is passed over, and nobody is told."""

    def pass_over(reader: Reading, log: PartyLog, end: int, why: str) -> bool:
        dropped = log.dropped
        is_done = bool(right(reader, log, end, why))
        log.dropped = dropped
        reader._logs.keep_cursor(log)
        return is_done

    return pass_over


@BUGS.plant(leases, "_lease_end", _ALL)
def _leases_end_too_early(right: _Right) -> _Right:
    """Who stays away for half of its lease loses its log."""
    return lambda log, away: (away + right(log, away)) // 2


@BUGS.plant(RunningTime, "resume", _ALL, _CRASHES)
def _leases_count_by_the_wall_clock(right: _Right) -> _Right:
    """Leases go on while a server is down, and follow its clock when that is put forward."""
    return lambda running, _written, now: right(running, now, now)


# -- entries -----------------------------------------------------------------------------------------------------------


@BUGS.plant(PartyLog, "needed", _ALL)
def _trimmed_too_far(_right: _Right) -> _Right:
    """Entries go though parties have not got what is in them."""
    return lambda _log: None


@BUGS.plant(Logs, "trim", _ALL)
def _never_trimmed(_right: _Right) -> _Right:
    """Entries that nobody needs stay."""
    return lambda _logs, _now: None


@BUGS.plant(PartyLog, "needs_mark", _ALL)
def _no_mark_behind_a_sweep(right: _Right) -> _Right:
    """When entries go, the first delivery in those that are left cannot be found."""
    return lambda log, position, _swept, after: right(log, position, 0, after)


# -- dead letters ------------------------------------------------------------------------------------------------------


@BUGS.plant(Reading, "_add_letter", _ALL)
def _letters_not_kept(_right: _Right) -> _Right:
    """What a party has rejected is not written."""

    def add_letter(_reader: Reading, log: PartyLog, letter: Letter) -> None:
        log.letters[log.letter] = letter
        log.letter += 1

    return add_letter


@BUGS.plant(Logs, "redeliver", _ALL)
def _requeued_letters_are_lost(_right: _Right) -> _Right:
    """Dead letters that are to be delivered again are forgotten."""
    return lambda *_: None


@BUGS.plant(Logs, "is_making", _ALL, ("slow", "none"))
def _rejected_before_it_is_written(_right: _Right) -> _Right:
    """A delivery that becomes a dead letter in the turn that brings it is lost."""
    return lambda *_: False


# -- damage ------------------------------------------------------------------------------------------------------------


@BUGS.plant(keeping, "salvaged", ("as", "gs"), _DISKS)
def _links_survive_damage(right: _Right) -> _Right:
    """A server that has lost data goes on with what it had agreed with its neighbours."""

    def salvaged(known: Mapping[Any, Any], life: int) -> Unlinked:
        left: Unlinked = right(known, life)
        return left._replace(records={**known, **left.records})

    return salvaged


@BUGS.plant(keeping, "salvaged", _ALL, _DISKS)
def _same_log_after_damage(right: _Right) -> _Right:
    """Logs keep their identities when data was lost, so that a number may mean two things."""

    def salvaged(known: Mapping[Any, Any], life: int) -> Unlinked:
        left: Unlinked = right(known, life)
        same = {key: value for key, value in known.items() if key[0] == "mail"}
        return left._replace(records={**left.records, **same})

    return salvaged


@BUGS.plant(Logs, "_rename", _ALL, _DISKS)
def _same_log_after_a_damaged_end(_right: _Right) -> _Right:
    """The numbers that were given in an entry that cannot be read are given again."""
    return lambda _logs, _doubtful: None
