"""What a durable party says of itself, and how places in its log are named."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Literal, NamedTuple, Self

import msgspec

from palio.codec import control
from palio.errors import CallerError, brief

_CURSOR = re.compile(r"(\d{1,19})/(-1|\d{1,19})", re.ASCII)
_MOST = 2**63 - 1
_COUNTS = ("count", "bytes", "attempts", "window")
_TIMES = ("age", "lease")
GapReason = Literal["dropped", "expired", "skipped", "other-log", "lease-ended"]


class Cursor(NamedTuple):
    """A delivery of a durable party: its log and its number there. An application may keep it with its own results.

    >>> str(Cursor(3, 41))
    '3/41'
    >>> Cursor.parse("3/41").number
    41
    """

    log: int
    number: int
    """Of the delivery; -1 is the place before the first."""

    def __str__(self) -> str:
        return f"{self.log}/{self.number}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what ``str`` has written."""
        found = _CURSOR.fullmatch(text) if isinstance(text, str) else None
        if found is None or max(int(found[1]), int(found[2])) > _MOST:
            raise CallerError(f"{brief(text)} is no cursor; it is a log and a number in it, such as 3/41")
        return cls(int(found[1]), int(found[2]))


class Gap(msgspec.Struct, frozen=True):
    """Deliveries that this client will never get.

    >>> gap = Gap(Cursor(3, 41), Cursor(3, 50), "expired")
    >>> gap.count
    8
    >>> print(gap)
    8 deliveries after 3/41 are gone, because they were too old; it goes on with 3/50
    """

    after: Cursor
    """The last delivery before them."""
    before: Cursor
    """The first delivery after them."""
    reason: GapReason
    """Why most of them are gone: they fell out of the log's bounds, were too old, or the server passed over them (they
    were acknowledged before, for example); or all of the log is gone, and another one has begun: the server has lost
    it, or the party had stayed away for longer than its lease."""
    lost: int | None = None
    """How many the server has dropped when the lease ended."""

    @property
    def count(self) -> int | None:
        """How many they are. If the log is another one, this is known only if the lease ended."""
        return self.lost if self.after.log != self.before.log else self.before.number - self.after.number - 1

    def __str__(self) -> str:
        what = "deliveries" if self.count is None else f"{self.count:,} deliver{'y' if self.count == 1 else 'ies'}"
        verb = "is" if self.count == 1 else "are"
        return f"{what} after {self.after} {verb} gone, because {_WHY[self.reason]}; it goes on with {self.before}"


_WHY: dict[GapReason, str] = {
    "dropped": "more waited than the log may hold",
    "expired": "they were too old",
    "skipped": "the server passed over them",
    "other-log": "the server has lost the log and begun another one",
    "lease-ended": "the party was away for longer than its lease, which also ended its subscriptions",
}


class Durable(msgspec.Struct, frozen=True, kw_only=True):
    """What is for the party waits for it at the server, until it is acknowledged. Zero means what is usual there.

    >>> Durable(count=10_000, age=timedelta(days=7)).wire(Cursor(3, 41)).after
    41
    """

    count: int = 0
    """So many deliveries may wait; with more the oldest fall out."""
    bytes: int = 0
    """The same, by their size."""
    age: timedelta | float = 0
    """And so old may they be; as a number, in seconds."""
    lease: timedelta | float = 0
    """If the party stays away for so long, its log ends, with all that it holds; as a number, in seconds."""
    attempts: int = 0
    """What was sent in so many connections and never acknowledged becomes a dead letter."""
    window: int = 0
    """So many deliveries may be sent and not acknowledged."""
    after: Cursor | str | None = None
    """Begin after this delivery; by default, after the last one that was acknowledged."""
    settle: float = 5.0
    """For so many seconds after the first subscription, what matches none waits for one that may still come; later
    it counts as acknowledged, because nobody wants it."""
    on_gap: Callable[[Gap], object] | None = None
    """Called when deliveries are gone, before those after them come."""

    def check(self) -> None:
        """Refuse what makes no sense."""
        for name in _COUNTS:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
                raise CallerError(f"durable: {name}: {brief(value)} is no count; it is an integer, and not negative")
        for name in _TIMES:
            microseconds(getattr(self, name), f"durable: {name}")
        if not isinstance(self.settle, int | float) or not self.settle >= 0:
            raise CallerError(f"durable: settle: {brief(self.settle)} is no number of seconds")
        if self.on_gap is not None and not callable(self.on_gap):
            raise CallerError("durable: on_gap: it is a function of a Gap")
        self.cursor  # noqa: B018 (it is read)

    @property
    def cursor(self) -> Cursor | None:
        """After which delivery the application wants to begin, if it says so."""
        if isinstance(self.after, str):
            return Cursor.parse(self.after)
        if self.after is not None and not isinstance(self.after, Cursor):
            raise CallerError(f"durable: after: {brief(self.after)} is no Cursor, nor the text of one")
        return self.after

    def wire(self, cursor: Cursor | None) -> control.Durable:
        """As it is said to the server; and which delivery the party has got last."""
        return control.Durable(
            self.count,
            self.bytes,
            microseconds(self.age, "durable: age"),
            microseconds(self.lease, "durable: lease"),
            self.attempts,
            self.window,
            *(cursor or (0, -1)),
        )


def microseconds(given: timedelta | float, place: str) -> int:
    """A duration, given as such or in seconds.

    >>> microseconds(1.5, "age")
    1500000
    >>> microseconds(-1, "age")
    Traceback (most recent call last):
    palio.errors.CallerError: age: -1 is no duration; it is a timedelta, or a number of seconds, and not negative
    """
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds * 10**6 <= _MOST:
        raise CallerError(
            f"{place}: {brief(given)} is no duration; it is a timedelta, or a number of seconds, and not negative"
        )
    return round(seconds * 10**6)


def read_durable(given: Durable | bool | None) -> Durable | None:
    """What the option ``durable`` says."""
    if isinstance(given, Durable):
        given.check()
        return given
    if given is not None and not isinstance(given, bool):
        raise CallerError(f"durable: {brief(given)} is neither true nor a Durable")
    return Durable() if given else None
