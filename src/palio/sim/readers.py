"""What durable parties do in the simulator: read, count, acknowledge, and come back."""

from __future__ import annotations

from palio.errors import InternalError
from palio.node.party_log import Keep
from palio.node.ports import Acknowledge, Attach, Input, Position

KEEP = Keep(age=10**15, lease=10**15)
"""Nothing is too old, and nobody stays away for too long, unless a history says so."""


class Reader:
    """A durable party, as its program sees it."""

    __slots__ = ("expected", "last", "log", "reading", "repeated")

    def __init__(self) -> None:
        self.reading = 0
        self.log = 0
        self.last = -1
        """The number of the last delivery that it has got."""
        self.expected: int | None = None
        """The number of the next one, if this connection has said it."""
        self.repeated = 0


class Readers:
    """All durable parties of a run."""

    def __init__(self) -> None:
        self._readers: dict[str, Reader] = {}
        self._readings = 0
        self._known: dict[tuple[str, int], int] = {}
        """The last number that each party has got of each log: a party that has left may find its log still there."""

    def attach(self, party: str, keep: Keep, *, remembers: bool) -> list[Input]:
        """A party connects, and says what it has got, and done with, if it remembers that."""
        reader = self._readers.setdefault(party, Reader())
        self._readings += 1
        reader.reading, reader.expected = self._readings, None
        if not remembers or reader.last < 0:
            return [Attach(party, keep, reader.reading)]
        attach = Attach(party, keep, reader.reading, reader.log, reader.last)
        return [attach, Acknowledge(party, reader.last, reader.reading)]

    def __contains__(self, party: str) -> bool:
        return party in self._readers

    def leave(self, party: str) -> None:
        """A party ends its log."""
        reader = self._readers.pop(party, None)
        if reader is not None:
            self._known[party, reader.log] = reader.last

    def lose(self, party: str) -> None:
        """The server of a party has lost its log."""
        self._readers.pop(party, None)
        for key in [key for key in self._known if key[0] == party]:
            del self._known[key]

    def position(self, told: Position) -> None:
        """A party hears what number comes next."""
        reader = self._readers.get(told.party)
        if reader is None or reader.reading != told.reading:
            return
        if reader.log != told.log:
            reader.log, reader.last = told.log, self._known.get((told.party, told.log), -1)
        if told.first > reader.last + 1 and not told.dropped and not told.expired:
            raise InternalError(f"{told.party} is at {told.first} after {reader.last}, and nothing fell out")
        reader.expected, reader.repeated = told.first, told.repeated

    def got(self, party: str, number: int, reading: int) -> bool | None:
        """A delivery has come: whether it is news; nothing if nobody is there to hear of it."""
        reader = self._readers.get(party)
        if reader is None or reader.reading != reading:
            return None
        if reader.expected != number:
            raise InternalError(f"{party} got delivery {number} where {reader.expected} was to come")
        reader.expected = number + 1
        if number <= reader.last:
            if number >= reader.repeated:
                raise InternalError(f"{party} got delivery {number} again, and was not told so")
            return False
        reader.last = number
        return True
