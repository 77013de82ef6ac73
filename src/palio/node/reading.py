"""What durable parties do with their logs: come and go, read, acknowledge, read again, and reject."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial

import msgspec

from palio.codec import frames
from palio.errors import CallerError, DecodeError, brief
from palio.node import entries
from palio.node.entries import Share
from palio.node.hybrid import date_of, microseconds_of
from palio.node.journal import Journal
from palio.node.leases import Leases
from palio.node.logs import Logs
from palio.node.party_log import Keep, Letter, PartyLog
from palio.node.ports import Acknowledged, Attach, DeliverBlock, Fetch, Letters, Output, Replay, TellMissed
from palio.node.recent import RecentEntry

FETCH_BYTES = 1 << 20
"""Of entries that are asked for at once."""
_Then = Callable[[int, list[RecentEntry]], None]


class GoneError(CallerError):
    """Deliveries that are not there any more."""


class Reading:
    """Sends durable parties what their logs hold, as fast as they acknowledge."""

    def __init__(self, logs: Logs, journal: Journal, emit: Callable[[Output], object]) -> None:
        self._logs = logs
        self._journal = journal
        self._emit = emit
        self._fetches: dict[int, _Then] = {}
        self._token = 0
        self._later: list[Callable[[], None]] = []
        """What has to wait until the entry of this turn is finished."""
        self.leases = Leases(logs, journal, emit)

    # -- coming and going ----------------------------------------------------------------------------------------------

    def attach(self, given: Attach, wish: Keep, now: int) -> None:
        """A durable party is here: it gets what it has not acknowledged, or what is behind what it says it has got."""
        log = self._logs.begin(given.party, _within(wish, self._logs.settings.keep))
        log.reading = log.reader = given.reading
        log.away = None
        self._logs.drop_old(log, now)
        number, was_sent = log.done, log.done < log.high
        if given.log == log.identity and log.done <= given.after + 1 <= log.next:
            number, was_sent = given.after + 1, False
        log.begin_reading(number)
        log.expected = -1
        self.leases.tell(log.name, given.reading, given.log)
        if not given.log and log.heard < log.done:
            self._emit(TellMissed(log.name, given.reading, log.heard))
        self._logs.announce(log, number)
        if was_sent:
            log.attempts += 1
            if 0 < log.keep.attempts <= log.attempts:
                reason = f"sent in {log.attempts} connections and never acknowledged"
                self._bury(log, log.done, reason, now, lambda: None)
        self._logs.keep_cursor(log)
        self._logs.stirred[log] = None

    def detach(self, party: str, reading: int, now: int) -> None:
        """A connection of a party is gone."""
        log = self._logs.of(party) if party in self._logs else None
        if log is not None and log.reading == reading:
            log.reading = None
            self.leases.away(log, now)

    def acknowledge(self, party: str, number: int, reading: int) -> None:
        """A party has got everything up to a number."""
        log = self._logs.of(party) if party in self._logs else None
        if log is None or number >= log.next or reading != log.reader:
            return
        if log.is_rejecting:  # else what is rejected would count as acknowledged, and never become a dead letter
            log.deferred = number, reading
            return
        was_heard = log.heard
        if log.take(number + 1):
            self._logs.keep_cursor(log)
            self._logs.note_done()
        elif log.heard > was_heard:
            self._logs.keep_cursor(log)
        self.leases.forget(party)
        self._emit(Acknowledged(party, reading, number))
        self._logs.stirred[log] = None

    # -- sending -------------------------------------------------------------------------------------------------------

    def send(self, now: int) -> None:
        """Send what can be sent; the entry of this turn is finished."""
        later, self._later = self._later, []
        for each in later:
            each()
        stirred, self._logs.stirred = self._logs.stirred, {}
        for log in stirred:
            self._send(log, now)

    def _send(self, log: PartyLog, now: int) -> None:
        if log.expected < 0 and log.since is None:
            self._logs.announce(log, log.sent)  # behind the answer to who wanted it
        while log.is_behind and log.credit(self._logs.settings.flight_bytes):
            place, end = self._place(log), self._logs.recent.first
            log.place = place
            end = self._logs.position if end is None else end
            if place < end:
                log.is_fetching = True
                self._fetch(place, end, partial(self._fetched, log, (log.reading, place)))
                return
            if not self._send_from(log, self._logs.recent.since(place), now):
                return

    def _place(self, log: PartyLog) -> int:
        """A position at or before that of the next delivery."""
        mark = log.mark_of(log.sent)
        known = max(log.place or 0, self._logs.first)
        return known if mark is None else max(known, mark.position)

    def _send_from(self, log: PartyLog, found: Iterable[RecentEntry], now: int) -> bool:
        """Send what some entries have for a party; whether more may be sent. What is not there is lost."""
        for each in found:
            share = each.share(log.number)
            if share is None or share.first + share.count <= log.sent:
                log.place = each.position + 1
            elif not self._give(log, each, share, now):
                return False
        if log.place is not None and log.place >= self._logs.position and log.is_behind:
            return self._pass_over(log, log.next, "dropped")
        return True

    def _give(self, log: PartyLog, found: RecentEntry, share: Share, now: int) -> bool:
        """Send what an entry has; false if the rest has to wait."""
        end, head = share.first + share.count, found.entry.head
        if share.first > log.sent and not self._pass_over(log, share.first, "dropped"):
            return False
        if log.since is not None and head.time < log.since[0]:
            log.jump(min(end, log.since[1]))
        if log.sent >= end:
            pass
        elif head.time < now - log.keep.age:
            if not self._pass_over(log, end, "expired"):
                return False
        else:
            content = b"".join(entries.selected(found.entry, share.selection))
            if head.expires and head.expires <= now:
                return self._give_one_by_one(log, found.position, share, content, now)
            credit = log.credit(self._logs.settings.flight_bytes)
            self._deliver(log, share, content, min(log.sent + credit, end), found.position)
            if log.sent < end:
                return False
        log.place = found.position + 1
        return log.credit(self._logs.settings.flight_bytes) > 0

    def _deliver(self, log: PartyLog, share: Share, content: bytes, end: int, position: int) -> None:
        """Send deliveries of a share up to a number."""
        first = log.sent
        if end <= first:
            return
        if first > share.first or end < share.first + share.count:
            places = entries.frame_places(content)
            content = content[places[first - share.first] : places[end - share.first]]
        self._logs.announce(log, first)
        log.send(end, len(content), position)
        self._emit(DeliverBlock(log.name, content, end - first, first, log.reading or 0))

    def _give_one_by_one(self, log: PartyLog, position: int, share: Share, content: bytes, now: int) -> bool:
        """The same where some are worth nothing any more."""
        date, places = date_of(now), entries.frame_places(content)
        for number in range(log.sent, share.first + share.count):
            if not log.credit(self._logs.settings.flight_bytes):
                return False
            begin, end = places[number - share.first], places[number - share.first + 1]
            expiry = _expiry(content[begin:end])
            if expiry is not None and expiry <= date:
                if not self._pass_over(log, number + 1, "expired"):
                    return False
            else:
                self._deliver(log, share, content, number + 1, position)
        log.place = position + 1
        return True

    def _pass_over(self, log: PartyLog, end: int, why: str) -> bool:
        """Deliveries that cannot be sent count as done. While others before them are under way, that has to wait."""
        if log.done < log.sent < end:
            log.is_blocked = True
            return False
        count = log.drop(end)
        log.jump(end)
        if count:
            setattr(log, why, getattr(log, why) + count)
            self._logs.keep_cursor(log)
        return True

    # -- entries that are not in memory --------------------------------------------------------------------------------

    def _fetch(self, position: int, end: int, then: _Then) -> None:
        self._token += 1
        self._fetches[self._token] = then
        self._emit(Fetch(self._token, position, end, FETCH_BYTES))

    def fetched(self, token: int, found: Iterable[tuple[int, bytes]], now: int) -> None:
        """Entries that were asked for are here; damaged ones are empty."""
        then = self._fetches.pop(token, None)
        if then is not None:
            then(
                now,
                [RecentEntry(at, entries.decode(data) if data else entries.NOTHING, len(data)) for at, data in found],
            )

    def _fetched(self, log: PartyLog, asked: tuple[int | None, int], now: int, found: list[RecentEntry]) -> None:
        """Send what is here, unless it is read from another place by now."""
        log.is_fetching = False
        self._logs.stirred[log] = None
        if (log.reading, log.place) == asked and self._logs.by_number(log.number) is log:
            if not found:
                log.place = self._logs.recent.first or self._logs.position
            self._send_from(log, found, now)

    def _look_up(self, log: PartyLog, number: int, place: int, then: Callable[[bytes], None]) -> None:
        """Find the frame of a delivery; nothing if it is lost."""
        first = self._logs.recent.first
        end = self._logs.position if first is None else first

        def look(_now: int, found: Iterable[RecentEntry]) -> None:
            last = place
            for each in found:
                share, last = each.share(log.number), each.position + 1
                if share is not None and share.first <= number < share.first + share.count:
                    content = b"".join(entries.selected(each.entry, share.selection))
                    places = entries.frame_places(content)
                    then(content[places[number - share.first] : places[number - share.first + 1]])
                    return
            if last > place and last < self._logs.position:
                self._look_up(log, number, last, then)
            else:
                then(b"")

        if place < end:
            self._fetch(place, end, look)
        else:
            look(0, self._logs.recent.since(place))

    # -- wishes --------------------------------------------------------------------------------------------------------

    def replay(self, party: str, wish: Replay) -> None:
        """A party wants deliveries once more."""
        log = self._logs.of(party)
        if log.reading is None:
            raise CallerError("nobody reads; connect with durable, and ask there")
        since = None if wish.since is None else microseconds_of(wish.since)
        if since is not None:
            number = next((mark.number for mark in reversed(log.marks) if mark.time < since), -1)
            if number < 0 and log.first > 0:
                self._refuse_gone(log, f"what was delivered at {wish.since}")
            number = max(number, 0)
        elif wish.first >= 0:
            number = wish.first
            if number > log.next:
                raise CallerError(f"first: {number}; the next delivery has number {log.next}")
        elif wish.last >= 0:
            number = max(log.first, log.next - wish.last)
        else:
            raise CallerError("say from where on: first, since or last")
        was_sent = max(log.sent, log.done)
        number = min(number, was_sent)  # what it has not got yet is not passed over
        if number < log.first:
            self._refuse_gone(log, f"delivery {number}")
        log.begin_reading(number)
        log.since, log.expected = None if since is None else (since, was_sent), -1
        self._logs.stirred[log] = None

    @staticmethod
    def _refuse_gone(log: PartyLog, what: str) -> None:
        begin = f"; since {date_of(log.marks[0].time)}" if log.marks else ""
        raise GoneError(f"{what} is gone; there are deliveries from number {log.first} to {log.next - 1}{begin}")

    def reject(self, party: str, number: int, reason: str, now: int, then: Callable[[], None]) -> None:
        """A party cannot do anything with its first delivery that is not acknowledged."""
        log = self._logs.of(party)
        if number != log.done or number >= log.high:
            raise CallerError(
                f"delivery: {number} cannot be rejected; the first that is not acknowledged is {log.done}"
            )
        log.is_rejecting = True
        self._bury(log, number, reason, now, partial(self._rejected, log, then))

    def _rejected(self, log: PartyLog, then: Callable[[], None]) -> None:
        """A delivery is a dead letter; acknowledgements of later ones have waited for that."""
        log.is_rejecting, deferred, log.deferred = False, log.deferred, None
        then()
        if deferred is not None and self._logs.by_number(log.number) is log:
            self.acknowledge(log.name, *deferred)

    def _bury(self, log: PartyLog, number: int, reason: str, now: int, then: Callable[[], None]) -> None:
        """Make a delivery a dead letter, unless it is acknowledged first; nothing is sent meanwhile."""
        mark = log.mark_of(number)
        place = max(self._logs.first, 0 if mark is None else mark.position)
        log.is_fetching = True

        def found(frame: bytes) -> None:
            log.is_fetching = False
            if self._logs.by_number(log.number) is log and log.done == number:
                self._add_letter(log, Letter(number, reason, now, frame))
                log.take(number + 1)
                if log.sent == number:
                    log.jump(number + 1)
                self._logs.keep_cursor(log)
            self._logs.stirred[log] = None
            then()

        if self._logs.is_making(log, number):
            self._later.append(partial(self._look_up, log, number, place, found))
        else:
            self._look_up(log, number, place, found)

    def _add_letter(self, log: PartyLog, letter: Letter) -> None:
        settings = self._logs.settings
        log.keep_letter(log.letter, letter)
        self._journal.put(("letter", log.number, log.letter), letter)
        log.letter += 1
        while len(log.letters) > settings.letters or (
            log.letters_size > settings.letters_bytes and len(log.letters) > 1
        ):
            self._forget_letter(log, next(iter(log.letters)))
            log.forgotten += 1

    def _forget_letter(self, log: PartyLog, letter: int) -> Letter:
        self._journal.delete(("letter", log.number, letter))
        return log.forget_letter(letter)

    def letters(self, party: str, wish: Letters, now: int) -> None:
        """Do something with dead letters: all of them, or nothing."""
        log = self._logs.of(party)
        unknown = [each for each in wish.letters if each not in log.letters]
        if unknown:
            raise CallerError(f"letters: there is no dead letter {unknown[0]}")
        if wish.action not in ("requeue", "discard"):
            raise CallerError(f"action: {brief(wish.action)} is neither requeue nor discard")
        expiries = {each: _expiry(log.letters[each].frame) for each in wish.letters if log.letters[each].frame}
        for each in dict.fromkeys(wish.letters):
            letter = self._forget_letter(log, each)
            if wish.action == "requeue" and letter.frame:
                expiry = expiries[each]
                self._logs.redeliver(log, letter.frame, 0 if expiry is None else microseconds_of(expiry), now)
        self._logs.stirred[log] = None


def _within(wish: Keep, most: Keep) -> Keep:
    """The bounds that a party gets: what it wishes for, but not more than there may be."""
    fields = [
        (asked if asked > 0 else allowed) if name == "attempts" else (min(asked, allowed) if asked > 0 else allowed)
        for name, asked, allowed in zip(
            Keep.__struct_fields__, msgspec.structs.astuple(wish), msgspec.structs.astuple(most), strict=True
        )
    ]
    return Keep(*fields)


def _expiry(frame: bytes) -> datetime | None:
    """When a delivery is worth nothing any more, if ever."""
    ((kind, content),) = frames.frames_of(frame)
    if kind != frames.DELIVER:
        return None
    try:
        envelope = frames.delivered(content).envelope
    except DecodeError:
        return None  # it was larger than is usual; let the reader judge
    return None if envelope is None else envelope.expires
