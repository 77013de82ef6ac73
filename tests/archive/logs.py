"""Logs for the archiver: entries as a server writes them, in memory; and what archives of them must hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from palio.codec import frames
from palio.model import Envelope, Notification, NotificationId
from palio.node import entries

SERVER = "milan"
BEGIN = datetime(2026, 11, 16, 10, tzinfo=UTC)


@dataclass
class Extent:
    name: str
    incarnation: int
    first: int
    next: int


class ListedLog:
    """A log in memory, with the manners of one on disk."""

    def __init__(self, log: Sequence[bytes] = (), *, incarnation: int = 1, first: int = 0, name: str = SERVER) -> None:
        self.entries = list(log)
        self.extent = Extent(name, incarnation, first, first + len(self.entries))
        self.begin = first

    def append(self, *log: bytes) -> None:
        self.entries += log
        self.extent.next += len(log)

    def trim(self, first: int) -> None:
        self.extent.first = first

    @property
    def meta(self) -> Extent:
        return self.extent

    def read(self, position: int, end: int, most_bytes: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        size = 0
        for each in range(max(position, self.extent.first), min(end, self.extent.next)):
            found.append((each, self.entries[each - self.begin]))
            size += len(found[-1][1])
            if size >= most_bytes:
                break
        return found


def entry(notifications: Iterable[Notification], time: datetime = BEGIN, *, extra: Iterable[bytes] = ()) -> bytes:
    """An entry as the node writes it."""
    content = [frames.deliver(each) for each in notifications] + list(extra)
    microseconds = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return entries.encode(entries.Head(entries.VERSION, microseconds, len(content), 0, ()), b"".join(content))


def published(
    notification: Notification, sequence: int, *, origin: str = SERVER, incarnation: int = 1, seconds: float = 0.0
) -> Notification:
    """As an access point sends it on."""
    time = BEGIN + timedelta(seconds=seconds)
    return notification.with_envelope(Envelope(NotificationId(origin, incarnation, sequence), time, "palio:eva"))


def whole(notification: Notification) -> tuple[object, ...]:
    """All of a notification that must survive: types of values, payload and envelope too."""
    values = [(name, type(value), repr(value)) for name, value in notification.items()]
    return (*values, notification.payload, notification.envelope)
