"""The message log of a server: deliveries for durable parties, each written once, found again by number.

What one turn has for durable parties is one entry (:mod:`palio.node.entries`). The last entries are kept in memory,
those that are not on disk yet among them; for others the driver is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from palio.codec import control, frames
from palio.errors import CallerError, DecodeError, brief
from palio.model import Notification
from palio.node import entries
from palio.node.entries import Entry, Head, Share
from palio.node.hybrid import microseconds_of
from palio.node.journal import Journal, Key
from palio.node.keys import KeyLimits
from palio.node.log_recovery import Recovery
from palio.node.party_log import Keep, Mark, MarkSettings, PartyLog
from palio.node.ports import Deliver, DeliverBlock, DeliverSequence, Output, Position
from palio.node.recent import Recent
from palio.node.watches import Found
from palio.routing.board import Dispatched


class Retention(msgspec.Struct, frozen=True):
    """For how long entries are kept that nobody has to get any more: until one of these is exceeded."""

    age: int = 0
    """In microseconds."""
    count: int = 1 << 62
    """Deliveries, each counted once."""
    bytes: int = 1 << 62


class LogSettings(msgspec.Struct, frozen=True):
    """How a server keeps what is for durable parties."""

    keep: Keep = Keep()
    """The bounds of parties that say nothing else; nobody gets more."""
    retention: Retention = Retention()
    recent_bytes: int = 32 << 20
    """Bytes of entries that stay in memory."""
    flight_bytes: int = 4 << 20
    """Bytes that may be on their way to one party; beyond that nothing more is sent."""
    letters: int = 1_000
    """Dead letters of one party; with more the oldest are forgotten."""
    letters_bytes: int = 16 << 20
    """The same by what they say; the last one is kept in any case."""
    keys: KeyLimits = KeyLimits()
    """Keys of publications that are known."""
    marks: MarkSettings = MarkSettings()
    sweep: int = 256
    """After so many entries it is noted how far all logs have come; who starts reads the rest."""
    sweep_bytes: int = 16 << 20
    """Or after so many bytes."""
    running_step: int = 60_000_000
    """Running time, in microseconds, after which it is written while a lease runs; a crash loses so much of it."""
    ended_leases: int = 10_000
    """Parties that are remembered because their leases have ended; with more the oldest are forgotten."""
    everything: bool = False
    """Whether publications that no durable party wants are written, too; for an archive."""


LOST_IDENTITY = 0
"""Of a log whose record was lost; no log has it."""


class Sweep(NamedTuple):
    """Where the log was when it was looked through: entries, deliveries and bytes before a position."""

    position: int
    time: int
    deliveries: int
    size: int


class Logs:
    """All durable parties of a server."""

    def __init__(
        self, settings: LogSettings, incarnation: int, journal: Journal, emit: Callable[[Output], object]
    ) -> None:
        self.settings = settings
        self._incarnation = incarnation
        self._journal = journal
        self._emit = emit
        self._logs: dict[str, PartyLog] = {}
        self._numbers: dict[int, PartyLog] = {}
        self._last = 0, 0
        """The last number and the last identity of a log."""
        self.position = 0
        """Of the entry that is being made."""
        self.first = 0
        """Of the first entry that there is."""
        self.count = self.size = 0
        """Deliveries, each once, and bytes of entries, in all entries that there ever were."""
        self._swept = Sweep(0, 0, 0, 0)
        self._sweeps: list[Sweep] = [self._swept]
        self._changed: dict[PartyLog, None] = {}
        """Since the last sweep."""
        self.recent = Recent(settings.recent_bytes)
        self._frames: list[bytes] = []
        self._count = 0
        """Of the frames of the entry."""
        self._expires = 0
        self._shares: dict[PartyLog, _Part] = {}
        self.stirred: dict[PartyLog, None] = {}
        """Parties to which something may have to be sent."""
        self._renamed: list[PartyLog] = []
        self._stale: list[Key] = []
        """Records of marks of entries that were damaged."""
        self._made: list[tuple[PartyLog, Mark]] = []
        """Marks that were made anew because their records were lost."""
        self._unowned: list[PartyLog] = []
        """Logs of which the record is lost that says whose they are, or that an earlier release has written."""
        self._may_trim = False
        self._is_pressed = False
        """Whether room is needed: then it is looked for whenever something was acknowledged."""
        self.ended_dropped = self.ended_expired = 0
        """Deliveries that had fallen out of logs that have ended since the server started."""
        self.archived: int | None = 0 if settings.everything else None
        """Entries before this position were archived, if anybody does."""

    def __contains__(self, party: str) -> bool:
        return party in self._logs

    def __bool__(self) -> bool:
        return bool(self._logs)

    def __iter__(self) -> Iterator[PartyLog]:
        return iter(self._logs.values())

    def of(self, party: str) -> PartyLog:
        """The log of a durable party."""
        log = self._logs.get(party)
        if log is None:
            raise CallerError(f"{brief(party)} is not durable: it has no log; connect with durable first")
        return log

    def by_number(self, number: int) -> PartyLog | None:
        """The log that entries know by a number."""
        return self._numbers.get(number)

    # -- parties -------------------------------------------------------------------------------------------------------

    def begin(self, party: str, keep: Keep) -> PartyLog:
        """The log of a party, which may be new; with these bounds from now on."""
        log = self._logs.get(party)
        if log is None:
            number, identity = self._last
            self._last = number + 1, max(identity + 1, self._incarnation)
            self._journal.put(("logs",), self._last)  # also if this one ends, there is no other of its number
            log = self._enter(PartyLog(party, *self._last, keep))
        elif log.keep == keep:
            return log
        log.keep = keep
        self._keep_log(log)
        return log

    def _enter(self, log: PartyLog) -> PartyLog:
        self._logs[log.name] = self._numbers[log.number] = log
        return log

    def _keep_log(self, log: PartyLog) -> None:
        self._journal.put(("mail", log.name), (log.number, log.identity, msgspec.structs.astuple(log.keep)))
        self._journal.put(("owner", log.number), log.name)  # if the other record is lost, this one tells

    def keep_cursor(self, log: PartyLog) -> None:
        """How far a party has come has changed."""
        self._journal.put(("cursor", log.name), log.cursor())

    def end(self, party: str) -> None:
        """A party has no log any more; nor will its numbers mean anything else."""
        log = self._logs.pop(party, None)
        if log is None:
            return
        log.reading = None
        self.ended_dropped += log.dropped
        self.ended_expired += log.expired
        del self._numbers[log.number]
        self._changed.pop(log, None)
        self._shares.pop(log, None)
        for key in (("mail", party), ("owner", log.number), ("cursor", party), ("end", party)):
            self._journal.delete(key)
        for mark in log.marks:
            self._journal.delete(("mark", log.number, mark.number))
        for letter in log.letters:
            self._journal.delete(("letter", log.number, letter))

    # -- deliveries ----------------------------------------------------------------------------------------------------

    def deliver(self, parties: Iterable[str], notification: Notification, now: int) -> None:
        """A notification is for some durable parties."""
        frame, envelope = frames.deliver(notification), notification.envelope
        expires = 0 if envelope is None or envelope.expires is None else microseconds_of(envelope.expires)
        self._put(frame, expires)
        live: list[tuple[str, int, int]] = []
        for party in parties:
            log = self._logs[party]
            number = self._share(log, len(frame), now)
            if self._is_live(log, number, 1):
                assert log.reading is not None
                live.append((party, number, log.reading))
                log.send(number + 1, len(frame), self.position)
        if live:
            names, numbers, readings = zip(*live, strict=True)
            self._emit(Deliver(names, notification, numbers, readings))

    def deliver_sequence(self, found: Found, now: int) -> None:
        """A sequence is for a durable party."""
        log = self._logs[found.party]
        told = tuple(control.enveloped(each) for each in found.notifications)
        frame = control.encode(control.Sequence(control.document(found.pattern)[1], told))
        self._put(frame, 0)
        number = self._share(log, len(frame), now)
        if self._is_live(log, number, 1):
            log.send(number + 1, len(frame), self.position)
            self._emit(DeliverSequence(*found, number, log.reading or 0))

    def redeliver(self, log: PartyLog, frame: bytes, expires: int, now: int) -> None:
        """A frame is for a durable party once more; it may be worth nothing from a time on."""
        self._put(frame, expires)
        self._share(log, len(frame), now)

    def deliver_block(self, done: Dispatched, now: int) -> None:
        """What a block of publications brings."""
        begin, self._count = self._count, self._count + done.log_count
        if done.log:
            self._frames.append(done.log)
        for party, block, count, selection in done.deliveries:
            log = self._logs.get(party)
            if log is None:
                self._emit(DeliverBlock(party, block, count))
                continue
            self._begin_share(log, now).add(begin, selection, count, len(block))
            first = log.add(count, len(block))
            self._bound(log)
            if self._is_live(log, first, count):
                log.send(first + count, len(block), self.position)
                self._emit(DeliverBlock(party, block, count, first, log.reading or 0))

    def _put(self, frame: bytes, expires: int) -> None:
        self._frames.append(frame)
        self._count += 1
        if expires and (not self._expires or expires < self._expires):
            self._expires = expires

    def _share(self, log: PartyLog, size: int, now: int) -> int:
        """The last frame is for a party, too."""
        self._begin_share(log, now).add_last(self._count - 1, size)
        number = log.add(1, size)
        self._bound(log)
        return number

    def _begin_share(self, log: PartyLog, now: int) -> _Part:
        part = self._shares.get(log)
        if part is None:
            part = self._shares[log] = _Part(log.next)
            log.times.note(log.next, now)
            self._changed[log] = None
            if log.needs_mark(self.position, self._swept.position, self.settings.marks):
                mark = Mark(log.next, self.position, log.size, now)
                log.marks.append(mark)
                self._journal.put(("mark", log.number, mark.number), mark[1:])
        return part

    def is_making(self, log: PartyLog, number: int) -> bool:
        """Whether a delivery is in the entry that is being made."""
        part = self._shares.get(log)
        return part is not None and number >= part.first

    def is_sound(self) -> bool:
        """Whether the entry in the making and the numbers of all logs agree; asked after a fault."""
        frames_made = sum(len(entries.frame_places(each)) - 1 for each in self._frames)
        return frames_made == self._count and all(
            part.first + part.count == log.next for log, part in self._shares.items()
        )

    def _bound(self, log: PartyLog) -> None:
        """What is too much falls out."""
        dropped = log.drop(log.bound())
        if dropped:
            log.dropped += dropped
            self.keep_cursor(log)

    def drop_old(self, log: PartyLog, now: int) -> None:
        """What is too old falls out, as far as marks tell."""
        expired = log.drop(log.too_old(now))
        if expired:
            log.expired += expired
            self.keep_cursor(log)

    def _is_live(self, log: PartyLog, number: int, count: int) -> bool:
        """Whether a reader can be sent deliveries as they come; it is told their number if it does not expect it."""
        if log.reading is None:
            return False
        if log.sent != number or log.credit(self.settings.flight_bytes) < count:
            self.stirred[log] = None
            return False
        self.announce(log, number)
        return True

    def announce(self, log: PartyLog, number: int) -> None:
        """Tell a reader the number of what comes next, unless it knows."""
        if log.expected != number and log.reading is not None:
            log.expected = number
            told = Position(log.name, log.reading, log.identity, number, log.high, log.dropped, log.expired)
            self._emit(told)

    # -- entries -------------------------------------------------------------------------------------------------------

    def finish(self, now: int) -> tuple[tuple[int, bytes], ...]:
        """The entry of this turn, if there is one, with its position."""
        if not self._frames:
            return ()
        shares = tuple([Share(log.number, *part.made()) for log, part in self._shares.items()])
        head, content = Head(entries.VERSION, now, self._count, self._expires, shares), b"".join(self._frames)
        data = entries.encode(head, content)
        made = self.position, data
        self.recent.add(self.position, Entry(head, content), len(data))
        self.position += 1
        self.count += self._count
        self.size += len(data)
        self._frames, self._shares, self._count, self._expires = [], {}, 0, 0
        settings, swept = self.settings, self._swept
        if self.position - swept.position >= settings.sweep or self.size - swept.size >= settings.sweep_bytes:
            self._sweep(now)
        return (made,)

    def _sweep(self, now: int) -> None:
        """Note how far all logs have come."""
        self._may_trim = True
        self._swept = Sweep(self.position, now, self.count, self.size)
        self._sweeps.append(self._swept)
        self._journal.put(("sweep", self.position), self._swept[1:])
        for log in self._changed:
            self._journal.put(("end", log.name), (log.next, log.size))
        self._changed.clear()
        for log in self._logs.values():
            self.drop_old(log, now)

    def note_archived(self, position: int) -> None:
        """All entries before a position are archived."""
        self.archived = max(self.archived or 0, position)
        self._may_trim = True

    def press(self, *, is_pressed: bool) -> None:
        """There is no room on the disk, or there is again."""
        self._is_pressed = self._may_trim = is_pressed

    def note_done(self) -> None:
        """Something was acknowledged."""
        self._may_trim |= self._is_pressed

    def trim(self, now: int) -> int | None:
        """The position before which nothing is needed any more, if that is news."""
        if not self._may_trim:
            return None
        if self._is_pressed and self.position > self._swept.position:
            self._sweep(now)
        # What is swept in this turn goes in the next one, which nothing else may ask for: all may be acknowledged.
        self._may_trim = self._is_pressed and self._swept.time == now and self._swept.position > self.first
        needed = self.position if self.archived is None else self.archived
        for log in self._logs.values():
            position = log.needed()
            needed = needed if position is None else min(needed, position)
        retention, gone = self.settings.retention, 0
        for place, sweep in enumerate(self._sweeps):
            is_over = (
                now - sweep.time > retention.age
                or self.count - sweep.deliveries > retention.count
                or self.size - sweep.size > retention.bytes
            )
            if sweep.position <= needed and is_over:
                gone = place
        if self._sweeps[gone].position <= self.first:
            return None
        for sweep in self._sweeps[:gone]:
            self._journal.delete(("sweep", sweep.position))
        del self._sweeps[:gone]
        self.first = self._sweeps[0].position
        for log in self._logs.values():
            for mark in log.trim(self.first):
                self._journal.delete(("mark", log.number, mark.number))
        return self.first

    # -- what is kept --------------------------------------------------------------------------------------------------

    def restore(self, known: Mapping[tuple[Any, ...], Any], tail: Iterable[tuple[int, bytes]], first: int) -> None:
        """Take back what was kept, and the entries since the last sweep, or more; the first that there is."""
        self._sweeps = sorted(Sweep(key[1], *value) for key, value in known.items() if key[0] == "sweep")
        if not self._sweeps or self._sweeps[0].position > first:
            self._sweeps.insert(0, Sweep(first, 0, 0, 0))
        self._swept = self._sweeps[-1]
        self.position, _, self.count, self.size = self._swept
        self._last = known.get(("logs",), self._last)
        for key, value in known.items():
            if key[0] == "mail":
                number, identity, keep = value
                log = self._enter(PartyLog(key[1], number, identity, Keep(*keep)))
                log.next, log.size = known.get(("end", log.name), (0, 0))
                self._last = max(self._last[0], number), max(self._last[1], identity)
                if ("owner", number) not in known:
                    self._unowned.append(log)
        for key, value in known.items():
            log_of = self._numbers.get(key[1]) if key[0] in ("mark", "letter") else None
            if log_of is not None and key[0] == "mark":
                log_of.marks.append(Mark(key[2], *value))
            elif log_of is not None:
                log_of.keep_letter(key[2], value)
        for log in self._logs.values():
            log.marks.sort()
            for mark in log.marks:
                log.times.note(mark.number, mark.time)
        recovery = Recovery(self._numbers, [sweep.position for sweep in self._sweeps])
        for position, data in tail:
            self.position = max(self.position, position + 1)
            self._recall(position, data, recovery)
        self._made = recovery.marks()
        self._changed = dict(recovery.grown)
        self._last = max(self._last[0], recovery.highest), self._last[1]
        self._rename({**recovery.doubtful, **dict.fromkeys(log for log in self if _is_another(log, known))})
        self.first = first
        for log in self._logs.values():
            self._recover(log, known.get(("cursor", log.name)))

    def _recall(self, position: int, data: bytes, recovery: Recovery) -> None:
        try:
            head = entries.decode(data).head
        except DecodeError:
            recovery.damaged()
            return
        if position >= self._swept.position:
            self.size += len(data)
            self.count += head.count
        recovery.take(position, head)

    def _rename(self, logs: Iterable[PartyLog]) -> None:
        """Logs of which some numbers may mean something that is lost are others from now on."""
        for log in logs:
            number, identity = self._last
            self._last = number, max(identity + 1, self._incarnation)
            log.identity = self._last[1]
            self._renamed.append(log)

    def keep_found(self, now: int, *, is_salvaged: bool) -> None:
        """What was found out when a node was made is kept: logs that have other names, and how long all are."""
        # After a clock was put back, what was swept before would be retained until it shows the same time again.
        self._sweeps = [each._replace(time=min(each.time, now)) for each in self._sweeps]
        self._swept = self._sweeps[-1]
        renamed, self._renamed = self._renamed, []
        if renamed:
            self._sweep(now)  # who starts the next time need not look at what is damaged
        for log in renamed:
            self._keep_log(log)
            self._journal.put(("logs",), self._last)
        for log in self._logs.values() if is_salvaged else renamed:
            self._journal.put(("end", log.name), (log.next, log.size))
            self.keep_cursor(log)
        stale, self._stale = self._stale, []
        for key in stale:
            self._journal.delete(key)
        made, self._made = self._made, []
        for log, mark in made:
            if mark in log.marks:
                self._journal.put(("mark", log.number, mark.number), mark[1:])
        unowned, self._unowned = self._unowned, []
        for log in unowned:
            self._keep_log(log)

    def _recover(self, log: PartyLog, cursor: Sequence[Any] | None) -> None:
        marks, ends = log.marks, range(self.first, self.position)
        log.marks = [mark for mark in marks if mark.position in ends and mark.number < log.next]
        kept = set(log.marks)
        self._stale += [("mark", log.number, mark.number) for mark in marks if mark not in kept]
        log.letters = dict(sorted(log.letters.items()))
        if cursor is not None:
            log.restore(cursor)
        else:  # that was lost; then what is gone was done with
            log.heard = log.done = log.first
            log.done_size = log.marks[0].size if log.marks else log.size
            log.dropped = log.drop(log.bound())
        if cursor is None or log.high < 0:
            log.high = log.next  # it was reading when the server died
        log.letter = max([log.letter, *(number + 1 for number in log.letters)])
        log.high = min(log.high, log.next)
        log.done = min(log.done, log.next)
        log.heard = min(log.heard, log.done)


def _is_another(log: PartyLog, known: Mapping[tuple[Any, ...], Any]) -> bool:
    """Whether a log needs another identity: its own is lost, or numbers were given that are not known any more."""
    cursor = known.get(("cursor", log.name))
    is_short = bool(log.marks) and log.marks[-1].number >= log.next
    return log.identity == LOST_IDENTITY or is_short or cursor is None or cursor[0] > log.next


class _Part:
    """What of the entry in the making is for one party."""

    __slots__ = ("_pieces", "_runs", "count", "first", "size")

    def __init__(self, first: int) -> None:
        self.first = first
        self.count = self.size = 0
        self._pieces: list[tuple[int, bytes]] = []
        """Selections of blocks, with the places at which these begin."""
        self._runs: list[int] = []
        """Single frames, where there are any since the last block."""

    def add(self, begin: int, selection: bytes, count: int, size: int) -> None:
        """Some frames of a block."""
        self._close()
        self._pieces.append((begin, selection))
        self.count += count
        self.size += size

    def add_last(self, place: int, size: int) -> None:
        """One more frame."""
        self._runs.append(place)
        self.count += 1
        self.size += size

    def _close(self) -> None:
        if self._runs:
            self._pieces.append((0, entries.select(self._runs)))
            self._runs = []

    def made(self) -> tuple[int, int, int, bytes]:
        """First number, count, size and selection."""
        self._close()
        begin, selection = self._pieces[0]
        if begin or len(self._pieces) > 1:
            places = [
                begin + place for begin, each in self._pieces for run in entries.ordinals(each) for place in range(*run)
            ]
            selection = entries.select(places)
        return self.first, self.count, self.size, selection
