"""The ledger of the kill campaign: what publishers were promised and what durable parties have processed, as lines.

Each program appends to a file of its own, with one write for each line. Processes are killed here, not machines: what
was written survives its writer, and need not be synced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

MOST_X = 100
"""The attribute ``x`` of publications is below this."""


class Wish(NamedTuple):
    """What a durable party subscribes to; everybody gets the marks that publishers set at the end."""

    publisher: str | None = None
    low: int = 0
    high: int = MOST_X

    @property
    def text(self) -> str:
        """As a filter.

        >>> Wish("p1", 0, 50).text
        '(x >= 0 and x < 50 and by = "p1") or mark any'
        """
        by = "" if self.publisher is None else f' and by = "{self.publisher}"'
        return f"(x >= {self.low} and x < {self.high}{by}) or mark any"

    def matches(self, publisher: str, intent: Intent) -> bool:
        """What the filter should select, without asking it."""
        return intent.is_mark or (self.publisher in (None, publisher) and self.low <= intent.x < self.high)


class Intent(NamedTuple):
    """A publisher is about to publish something, or does so again."""

    n: int
    x: int
    is_mark: bool


class Accepted(NamedTuple):
    """A publication was acknowledged."""

    n: int
    mode: str


class Refused(NamedTuple):
    """A publication was refused, or the publisher gave it up."""

    n: int
    reason: str


class Life(NamedTuple):
    """A program was started."""


class Spread(NamedTuple):
    """What a program wants or offers has spread through the network."""


class Delivered(NamedTuple):
    """A party has processed a delivery."""

    log: int
    number: int
    id: str
    by: str
    n: int
    is_repeated: bool


class Noted(NamedTuple):
    """The server has noted for good that a party is done with all deliveries up to a number."""

    log: int
    number: int


class Missing(NamedTuple):
    """A party was told that deliveries are gone: after a number, and before one."""

    log: int
    after: int
    before: int
    reason: str


class Trouble(NamedTuple):
    """Something that should never happen was seen by a program."""

    text: str


Line = Intent | Accepted | Refused | Life | Spread | Delivered | Noted | Missing | Trouble
_KINDS: dict[str, type[Any]] = {
    "intent": Intent, "accepted": Accepted, "refused": Refused, "life": Life, "spread": Spread,
    "delivered": Delivered, "noted": Noted, "missing": Missing, "trouble": Trouble,
}  # fmt: skip
_NAMES = {kind: name for name, kind in _KINDS.items()}


class Book:
    """The file of one program, to which it appends."""

    def __init__(self, path: Path) -> None:
        follower = Follower(path)
        self.before = list(follower.news())
        """What earlier lives have written."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.truncate(self._file, follower.place)  # a line that is not whole was never written
        self.write(Life())

    def write(self, line: Line) -> None:
        """Append a line; when this returns, it survives the death of this process."""
        data = json.dumps([_NAMES[type(line)], *line], separators=(",", ":")).encode() + b"\n"
        assert os.write(self._file, data) == len(data)


class Follower:
    """Reads what is appended to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.place = 0
        """Where the lines that were read end."""

    def news(self) -> Iterator[Line]:
        """The lines that are new; one that is not whole waits."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self.place)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self.place += end
        for each in data[:end].splitlines():
            name, *fields = json.loads(each)
            yield _KINDS[name](*fields)
