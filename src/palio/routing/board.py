"""Who holds which filters, in compiled form: encoded publications find their parties without the interpreter."""

from __future__ import annotations

from typing import NamedTuple

from palio import _core
from palio.errors import CallerError, PalioError
from palio.matching import FilterIndex
from palio.model.envelope import NotificationId
from palio.model.limits import DEFAULT_LIMITS, MOST_NAME_BYTES, Limits
from palio.model.value import MAX_INTEGER

MOST_BYTES = 16 << 20
"""Of deliveries that one call makes, about: many parties may want every publication of a large block."""


class Other(NamedTuple):
    """A publication that a neighbour, or a pattern, wants too."""

    offset: int
    """Of its document in the block."""
    size: int
    sequence: int
    published: int
    """In microseconds."""


class Dispatched(NamedTuple):
    """What became of a block of publications."""

    consumed: int
    """Bytes of the block that were handled; the rest has to be given again."""
    accepted: int
    """How many publications were, each with the next sequence number and a time that is a microsecond later."""
    last_number: int
    """The highest number that a publication has; zero if none wants an answer."""
    deliveries: list[tuple[str, bytes, int, bytes]]
    """For each party that gets something: frames, and how many; and, if they are logged, which of the log's."""
    others: list[Other]
    refused: list[tuple[int, PalioError]]
    """The numbers of publications that are none, and why."""
    log: bytes
    """The frames of what is logged, each once."""
    log_count: int


class Board:
    """The parties of the filters of an index.

    >>> from palio import Filter, Notification
    >>> from palio.codec import frames
    >>> index = FilterIndex()
    >>> board = Board(index)
    >>> board.add(index.add(Filter.parse("x > 3")), "eva")
    >>> block = frames.publish(Notification(x=5), 1) + frames.publish(Notification(x=1), 2)
    >>> done = board.dispatch(block, NotificationId("milan", 0, 7), 1_000_000, "adam")
    >>> done.accepted, [(party, count) for party, _, count, _ in done.deliveries]
    (2, [('eva', 1)])
    """

    __slots__ = ("_board", "_held", "_limits", "_logged", "_names", "_numbers", "_unused", "_words")

    def __init__(self, index: FilterIndex) -> None:
        self._board = _core.Board(index._core)
        self._numbers: dict[str, int] = {}
        """Parties that hold a filter at least are known by numbers."""
        self._names: list[str] = []
        self._held: list[int] = []
        """How many filters each holds."""
        self._unused: list[int] = []
        self._logged: set[str] = set()
        self._limits: Limits | None = None
        """Those of the last block, and in the form in which they are compared."""
        self._words: tuple[int, int, int, int, int] = _words(DEFAULT_LIMITS)

    def add(self, slot: int, party: str) -> None:
        """A party holds a filter."""
        number = self._numbers.get(party)
        if number is None:
            number = self._numbers[party] = self._unused.pop() if self._unused else len(self._names)
            if number == len(self._names):
                self._names.append(party)
                self._held.append(0)
            self._names[number] = party
            if self._logged:
                self._board.set_logged(number, party in self._logged)
        self._held[number] += 1
        self._board.add(slot, number)

    def remove(self, slot: int, party: str) -> None:
        """A party holds a filter no longer."""
        number = self._numbers[party]
        self._board.remove(slot, number)
        self._held[number] -= 1
        if not self._held[number]:
            del self._numbers[party]
            self._unused.append(number)
            self._board.set_logged(number, False)

    def held_by(self, party: str) -> int:
        """How many filters a party holds."""
        number = self._numbers.get(party)
        return 0 if number is None else self._held[number]

    def log(self, party: str, *, is_logged: bool = True) -> None:
        """Whether deliveries to a party are logged."""
        (self._logged.add if is_logged else self._logged.discard)(party)
        if party in self._numbers:
            self._board.set_logged(self._numbers[party], is_logged)

    def set_others(self, slot: int, has_others: bool) -> None:
        """Whether a filter has holders that are no parties: then what it matches is among the :class:`Other`."""
        self._board.set_others(slot, has_others)

    def forget(self, slot: int) -> None:
        """Nobody holds a filter any more."""
        self._board.forget(slot)

    def dispatch(  # noqa: PLR0913 (what is on an envelope)
        self,
        block: bytes,
        first: NotificationId,
        published: int,
        publisher: str,
        *,
        goes_on: bool = False,
        is_logged: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Dispatched:
        """Handle frames of publications by one publisher, the first of which gets this id and time.

        ``goes_on`` says that all of them are wanted elsewhere, too; ``is_logged`` that all are logged, and not only
        those for certain parties.
        """
        if max(len(publisher), len(first.origin)) > MOST_NAME_BYTES:
            raise CallerError(f"names have at most {MOST_NAME_BYTES:,} bytes; an envelope would not fit its frame")
        if limits is not self._limits:
            self._limits, self._words = limits, _words(limits)
        consumed, accepted, last, deliveries, others, refused, log, log_count = self._board.dispatch(
            block, first.origin, first.incarnation, first.sequence, published, publisher, goes_on, is_logged,
            MOST_BYTES, *self._words,
        )  # fmt: skip
        names = self._names
        return Dispatched(
            consumed,
            accepted,
            last,
            [(names[number], frames, count, selection) for number, frames, count, selection in deliveries],
            [Other(*each) for each in others],
            refused,
            log,
            log_count,
        )


def _words(limits: Limits) -> tuple[int, int, int, int, int]:
    return (
        min(limits.attributes, MAX_INTEGER),
        min(limits.name_bytes, MAX_INTEGER),
        min(limits.value_bytes, MAX_INTEGER),
        min(limits.payload_bytes, MAX_INTEGER),
        min(limits.document_bytes, MAX_INTEGER),
    )
