"""What durable parties do in the simulator: read, count, acknowledge, and come back."""

from __future__ import annotations

from collections import Counter

from palio.errors import InternalError
from palio.node.party_log import Keep
from palio.node.ports import Acknowledge, Acknowledged, Attach, Detach, Position

KEEP = Keep(age=10**12, lease=10**12)
"""Nothing is too old, and nobody stays away for too long, unless a history says so."""


class Reader:
    """A durable party, as its program sees it."""

    __slots__ = (
        "acknowledged", "expected", "last", "log", "pace", "reading", "repeated", "since", "starts", "told",
    )  # fmt: skip

    def __init__(self) -> None:
        self.reading: int | None = None
        """The name of its connection, if it has one."""
        self.log = 0
        self.last = -1
        """The number of the last delivery that it has got."""
        self.expected: int | None = None
        """The number of the next one, if this connection has said it."""
        self.repeated = 0
        self.acknowledged = -1
        """The highest number that it has acknowledged."""
        self.pace = 1
        """After how many deliveries it acknowledges; zero: only when it is told to."""
        self.told = 0, 0
        """How many deliveries it was told to have fallen out, because there were too many, or they were too old."""
        self.starts: set[int] = set()
        """All numbers that were said to come next in this connection."""
        self.since: tuple[int, set[int]] | None = None
        """From which number on it reads in this connection, and what it has got since."""


class Readers:
    """All durable parties of a run. What must never be seen by a party is an error at once."""

    def __init__(self) -> None:
        self._readers: dict[str, Reader] = {}
        self._readings = 0
        self._contents: dict[tuple[str, int, int], object] = {}
        """What each number of each log of a party means, for ever."""
        self._got: dict[tuple[str, int], dict[int, None]] = {}
        """The numbers that each party has got of each log, also of one that it takes for ended."""
        self._had: dict[str, set[object]] = {}
        """All that each party has ever got."""
        self.requeued: Counter[tuple[str, object]] = Counter()
        """Dead letters that parties want delivered again, and that may come once more."""
        self.noted: dict[tuple[str, int], int] = {}
        """Up to which number a server has said that it will not forget what a party has got of a log."""
        self.may_skip = False
        """Whether deliveries may fall out that a position does not count; then somebody else has to judge that."""

    def __contains__(self, party: str) -> bool:
        return party in self._readers

    def __getitem__(self, party: str) -> Reader:
        return self._readers[party]

    def attach(self, party: str, keep: Keep, *, remembers: bool, pace: int = 1) -> Attach:
        """A party connects, and says what it has got, if it remembers that; another connection of it is replaced."""
        reader = self._readers.setdefault(party, Reader())
        self._readings += 1
        reader.reading, reader.expected, reader.pace = self._readings, None, pace
        reader.starts, reader.since = set(), None
        reader.acknowledged = self.noted.get((party, reader.log), -1)  # what else it has said may have been lost
        if not remembers or reader.last < 0:
            return Attach(party, keep, reader.reading)
        return Attach(party, keep, reader.reading, reader.log, reader.last)

    def detach(self, party: str) -> Detach | None:
        """A party goes away, if it is here."""
        reader = self._readers.get(party)
        if reader is None or reader.reading is None:
            return None
        gone, reader.reading = reader.reading, None
        return Detach(party, gone)

    def leave(self, party: str) -> None:
        """A party ends its log, or its server has."""
        self._readers.pop(party, None)

    def position(self, told: Position) -> None:
        """A party hears what number comes next."""
        reader = self._readers.get(told.party)
        if reader is None or reader.reading != told.reading:
            return
        if reader.log != told.log:
            got = self._got.get((told.party, told.log), {})
            reader.log, reader.last, reader.acknowledged = told.log, max(got, default=-1), -1
        if told.first > reader.last + 1 and not told.dropped and not told.expired and not self.may_skip:
            raise InternalError(f"{told.party} is at {told.first} after {reader.last}, and nothing fell out")
        if reader.expected is None or told.first < reader.expected:
            reader.since = told.first, set()
        reader.starts.add(told.first)
        reader.expected, reader.repeated, reader.told = told.first, told.repeated, (told.dropped, told.expired)

    def got(self, party: str, number: int, reading: int, content: object) -> bool | None:
        """A delivery has come: whether it is news, in its order; nothing if nobody is there to hear of it.

        What had fallen out may come late, when the party reads again.
        """
        reader = self._readers.get(party)
        if reader is None or reader.reading != reading:
            return None
        if reader.expected != number:
            raise InternalError(f"{party} got delivery {number} where {reader.expected} was to come")
        reader.expected = number + 1
        meant = self._contents.setdefault((party, reader.log, number), content)
        if meant != content:
            raise InternalError(f"{party} got {content} as delivery {number} of log {reader.log}, which was {meant}")
        if reader.since is not None:
            reader.since[1].add(number)
        is_marked = number < reader.repeated
        numbers = self._got.setdefault((party, reader.log), {})
        if number in numbers:
            if not is_marked:
                raise InternalError(f"{party} got delivery {number} again, and was not told so")
            return False
        numbers[number] = None
        is_next, reader.last = number > reader.last, max(reader.last, number)
        return self._is_news(party, content, is_marked=is_marked) and is_next

    def _is_news(self, party: str, content: object, *, is_marked: bool) -> bool:
        """What comes out of dead letters comes at another time than it would have."""
        had = self._had.setdefault(party, set())
        if content not in had:
            had.add(content)
            return not self.requeued[party, content]
        if self.requeued[party, content]:
            self.requeued[party, content] -= 1
        elif not is_marked:
            raise InternalError(f"{party} got {content} under another number, and was not told so")
        return False

    def has_got(self, party: str, log: int, number: int) -> bool:
        """Whether a party has ever got a delivery."""
        return number in self._got.get((party, log), {})

    def acknowledges(self, party: str, number: int) -> bool:
        """Whether a party acknowledges a delivery by itself, soon."""
        pace = self._readers[party].pace
        return pace > 0 and number % pace == pace - 1

    def acknowledge(self, party: str, number: int) -> Acknowledge | None:
        """A party has done with all up to a number that it has got."""
        reader = self._readers.get(party)
        if reader is None or reader.reading is None or not 0 <= number <= reader.last or reader.expected is None:
            return None
        reader.acknowledged = max(reader.acknowledged, number)
        return Acknowledge(party, number, reader.reading)

    def noted_for_good(self, told: Acknowledged) -> None:
        """A party hears that its server will not forget what it has got."""
        reader = self._readers.get(told.party)
        if reader is not None and reader.reading == told.reading:
            key = told.party, reader.log
            self.noted[key] = max(self.noted.get(key, -1), told.number)
