"""The log of one durable party: its numbers, how far it has come, and where its deliveries lie."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec


class Keep(msgspec.Struct, frozen=True, gc=False):
    """The bounds of a durable party's log; times are in microseconds."""

    count: int = 1_000_000
    """Deliveries that may wait to be acknowledged; with more the oldest fall out."""
    bytes: int = 1 << 30
    """The same, by their size; what falls out is at least a mark's worth."""
    age: int = 7 * 86_400_000_000
    """Deliveries that are older fall out."""
    lease: int = 7 * 86_400_000_000
    """A party that stays away for so long loses its log, and all that it holds."""
    attempts: int = 0
    """What was sent in so many connections and never acknowledged becomes a dead letter; zero: never."""
    window: int = 10_000
    """Deliveries that may be sent and not acknowledged."""


class MarkSettings(msgspec.Struct, frozen=True, gc=False):
    """After how many deliveries, bytes or positions of the message log a party's next delivery is marked."""

    numbers: int = 4_096
    bytes: int = 1 << 20
    positions: int = 1_024


class Mark(NamedTuple):
    """Where a delivery lies."""

    number: int
    position: int
    """Of its entry in the message log, in which the party has none before it."""
    size: int
    """Bytes of the party's deliveries before it."""
    time: int


class Times:
    """About when deliveries came: samples of numbers and times, the fewer the more there would be.

    A sample is taken a second after the last one at the earliest. When there are too many, every second one goes.

    >>> times = Times()
    >>> for number in range(1_000):
    ...     times.note(number, number * 2_000_000)
    >>> len(times._samples) <= Times.MOST, times.of(0), times.of(800) <= 1_600_000_000
    (True, 0, True)
    """

    MOST = 64
    STEP = 1_000_000
    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: list[tuple[int, int]] = []

    def note(self, number: int, now: int) -> None:
        """A delivery comes now."""
        samples = self._samples
        if not samples or (number > samples[-1][0] and now >= samples[-1][1] + self.STEP):
            samples.append((number, now))
            if len(samples) > self.MOST:
                del samples[1::2]

    def of(self, number: int) -> int | None:
        """When a delivery came; or a little earlier, by about a 30th of the time since the first one at most."""
        place = bisect_right(self._samples, number, key=lambda sample: sample[0])
        return self._samples[place - 1][1] if place else None

    def forget(self, number: int) -> None:
        """Nobody asks for deliveries before this one any more."""
        place = bisect_right(self._samples, number, key=lambda sample: sample[0])
        del self._samples[: max(0, place - 1)]


class Letter(msgspec.Struct, frozen=True, gc=False):
    """A delivery with which its party could not do anything."""

    delivery: int
    reason: str
    time: int
    frame: bytes


class Flight(NamedTuple):
    """Deliveries that were sent together, with the sizes before and behind them."""

    end: int
    """The number behind the last one."""
    size: int
    """Bytes of the party's deliveries up to there."""


class PartyLog:
    """What a server knows of the log of a party.

    ``heard`` is behind the last delivery that the party has acknowledged. Deliveries below ``done`` are acknowledged or
    have fallen out. Those below ``sent`` are on their way to the reader, if there is one. ``next`` is the number of the
    next delivery.
    """

    __slots__ = (
        "attempts", "away", "deferred", "done", "done_size", "dropped", "expected", "expired", "flights", "forgotten",
        "heard", "high", "identity", "is_blocked", "is_fetching", "is_rejecting", "keep", "letter", "letters",
        "letters_size", "marks", "name", "next", "number", "place", "reader", "reading", "sent", "sent_size", "since",
        "size", "taken", "taken_size", "times",
    )  # fmt: skip

    def __init__(self, name: str, number: int, identity: int, keep: Keep) -> None:
        self.name = name
        self.number = number
        """By which entries know it."""
        self.identity = identity
        """By which the party knows it: numbers of another log mean something else."""
        self.keep = keep
        self.next = self.size = 0
        self.times = Times()
        """When deliveries came."""
        self.heard = self.done = self.done_size = 0
        self.dropped = self.expired = 0
        """Deliveries that fell out because there were too many, or they were too old."""
        self.attempts = 0
        """In how many connections the first delivery that is not acknowledged was sent."""
        self.high = 0
        """Numbers below this may have been sent."""
        self.away: int | None = None
        """Since when the party is not here, in the running time of the server."""
        self.marks: list[Mark] = []
        self.letters: dict[int, Letter] = {}
        self.letters_size = 0
        """Bytes of what they say."""
        self.letter = 0
        """The number of the next dead letter."""
        self.forgotten = 0
        """Dead letters that there was no room for."""
        # of the reader that there is
        self.reading: int | None = None
        self.reader: int | None = None
        """The last one: acknowledgements of others do not count, they may be of another log."""
        self.sent = self.sent_size = 0
        self.taken = self.taken_size = 0
        """Numbers below this the reader has acknowledged; and bytes before it."""
        self.expected = -1
        """The number that the reader takes the next delivery for."""
        self.place: int | None = None
        """A position at or before that of the next delivery to send, if it is known."""
        self.since: tuple[int, int] | None = None
        """Entries that are older than a time are passed over, up to a number."""
        self.is_fetching = False
        self.is_rejecting = False
        """Whether its first delivery that is not acknowledged is becoming a dead letter because it was rejected."""
        self.deferred: tuple[int, int] | None = None
        """An acknowledgement that waits for that: a number, and the connection that has said it."""
        self.is_blocked = False
        """Whether something has to be passed over, and what was sent before it is not acknowledged."""
        self.flights: deque[Flight] = deque()

    @property
    def first(self) -> int:
        """The number of the first delivery that there still is."""
        return self.marks[0].number if self.marks else self.next

    @property
    def is_behind(self) -> bool:
        """Whether there is a reader that has not been sent everything."""
        return self.reading is not None and self.sent < self.next

    def credit(self, most_bytes: int) -> int:
        """How many deliveries the reader may be sent now."""
        if (
            self.reading is None
            or self.is_fetching
            or self.is_blocked
            or self.sent_size - self.taken_size >= most_bytes
        ):
            return 0
        return max(0, self.taken + self.keep.window - self.sent)

    def add(self, count: int, size: int) -> int:
        """There are more deliveries; the number of the first one."""
        first = self.next
        self.next += count
        self.size += size
        return first

    def needs_mark(self, position: int, swept: int, after: MarkSettings) -> bool:
        """Whether the next delivery, the first of an entry, is to be marked.

        The first one behind each sweep is: entries go up to a sweep, and those that are left have to be found.
        """
        if not self.marks:
            return True
        last = self.marks[-1]
        return (
            self.next - last.number >= after.numbers
            or self.size - last.size >= min(after.bytes, self.keep.bytes // 8)
            or position - last.position >= after.positions
            or last.position < swept
        )

    def mark_of(self, number: int) -> Mark | None:
        """The last mark that is not behind a number."""
        place = bisect_right(self.marks, number, key=lambda mark: mark.number)
        return self.marks[place - 1] if place else None

    def needed(self) -> int | None:
        """The first position with something that is not acknowledged, or before it; none if there is nothing."""
        mark = self.mark_of(self.done) if self.done < self.next else None
        return None if mark is None else mark.position

    def keep_letter(self, number: int, letter: Letter) -> None:
        """There is a dead letter."""
        self.letters[number] = letter
        self.letters_size += len(letter.frame)

    def forget_letter(self, number: int) -> Letter:
        """There is one less."""
        letter = self.letters.pop(number)
        self.letters_size -= len(letter.frame)
        return letter

    def send(self, end: int, size: int, place: int) -> None:
        """All up to a number are on their way."""
        self.sent, self.expected, self.place = end, end, place
        self.sent_size += size
        self.high = max(self.high, end)
        self.flights.append(Flight(end, self.sent_size))

    def begin_reading(self, number: int) -> None:
        """Whoever reads gets everything from a number on."""
        mark = self.mark_of(number)
        self.sent = self.taken = number
        self.sent_size = self.taken_size = mark.size if mark is not None else self.size
        self.place, self.since, self.is_blocked = None, None, False
        self.flights.clear()

    def take(self, end: int) -> bool:
        """The reader has done with all up to a number; whether that is news."""
        self.is_blocked = False
        if end > self.taken:
            self.taken = min(end, self.sent)
            while self.flights and self.flights[0].end <= end:
                self.taken_size = self.flights.popleft().size
        self.heard = max(self.heard, end)
        if end <= self.done:
            return False
        self._finish(end)
        return True

    def drop(self, end: int) -> int:
        """What is below a number falls out; how many deliveries that are. Who reads again what is done goes on."""
        count, is_reading_again = max(0, end - self.done), self.sent < self.done
        if count:
            self._finish(end)
            if not is_reading_again:
                self.jump(end)
        return count

    def jump(self, end: int) -> None:
        """What is below a number is not sent any more."""
        self.is_blocked = False
        if self.sent < end:
            mark = self.mark_of(end)
            known = self.done_size if end >= self.done else 0 if mark is None else mark.size
            self.sent = self.taken = end
            self.sent_size = self.taken_size = max(self.sent_size, known)  # never more than there is before it
            self.flights.clear()
            self.place = None

    @property
    def waiting(self) -> int:
        """How many deliveries are not acknowledged."""
        return self.next - self.done

    @property
    def waiting_bytes(self) -> int:
        """About how many bytes they have."""
        return max(0, self.size - self.done_size) if self.waiting else 0

    def oldest(self, now: int) -> int:
        """For how long the first delivery has waited that is not acknowledged; zero if there is none."""
        time = self.times.of(self.done) if self.done < self.next else None
        return 0 if time is None else max(0, now - time)

    def _finish(self, end: int) -> None:
        self.done, self.attempts = end, 0
        self.times.forget(end)
        mark = self.mark_of(end)
        size = self.size if end >= self.next else self.done_size if mark is None else mark.size
        self.done_size = max(self.done_size, size, self.taken_size if end <= self.taken else 0)

    def bound(self) -> int:
        """The number below which everything falls out because there is too much."""
        bound = max(self.done, self.next - self.keep.count)
        excess = self.size - self.keep.bytes
        if excess > self.done_size:
            bound = max(bound, next((mark.number for mark in self.marks if mark.size >= excess), bound))
        return bound

    def too_old(self, now: int) -> int:
        """The number below which everything, as far as marks tell, falls out because it is too old."""
        oldest = now - self.keep.age
        place = bisect_left(self.marks, oldest, key=lambda mark: mark.time)
        return max(self.done, self.marks[place - 1].number) if place else self.done

    def trim(self, position: int) -> Sequence[Mark]:
        """Entries before a position are gone; the marks that are so, too."""
        place = bisect_left(self.marks, position, key=lambda mark: mark.position)
        gone, self.marks = self.marks[:place], self.marks[place:]
        return gone

    def cursor(self) -> tuple[int | None, ...]:
        """What changes often, as it is kept. Who is reading may have been sent everything when a server dies."""
        high = self.high if self.reading is None else -1
        return (self.done, self.done_size, self.dropped, self.expired, self.attempts, high, self.away, self.letter,
                self.forgotten, self.heard)  # fmt: skip

    def restore(self, cursor: Sequence[Any]) -> None:
        """Take back what was kept. Earlier releases did not keep which numbers were acknowledged."""
        (self.done, self.done_size, self.dropped, self.expired, self.attempts, self.high, self.away, self.letter,
         self.forgotten) = cursor[:9]  # fmt: skip
        self.heard = cursor[9] if len(cursor) > 9 else self.done


def all_sent(cursor: Sequence[Any]) -> tuple[Any, ...]:
    """A cursor by which all deliveries may have been sent, whatever it says."""
    return (*cursor[:5], -1, *cursor[6:])
