"""Logs for the archiver: entries as a server writes them, at random too; and what an archive of them must hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import strategies as st

from palio.archive import reading
from palio.codec import frames
from palio.model import Envelope, Notification, NotificationId
from palio.node import entries
from tests.codec.documents import DOCUMENTS, NAMES, TIMES, VALUES, exact, instant

SERVER = "milan"
BEGIN = datetime(2026, 11, 16, 10, tzinfo=UTC)


@dataclass
class Extent:
    name: str
    incarnation: int
    first: int
    next: int
    unsynced: int = 0

    @property
    def synced(self) -> int:
        return self.next - self.unsynced


class ListedLog:
    """A log in memory, with the manners of one on disk."""

    def __init__(self, log: Sequence[bytes] = (), *, incarnation: int = 1, first: int = 0, name: str = SERVER) -> None:
        self.entries = list(log)
        self.meta = Extent(name, incarnation, first, first + len(self.entries))
        self.begin = first

    def append(self, *log: bytes) -> None:
        self.entries += log
        self.meta.next += len(log)

    def trim(self, first: int) -> None:
        self.meta.first = first

    def read(self, position: int, end: int, most_bytes: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        size = 0
        for each in range(max(position, self.meta.first), min(end, self.meta.next)):
            found.append((each, self.entries[each - self.begin]))
            size += len(found[-1][1])
            if size >= most_bytes:
                break
        return found


def entry(notifications: Iterable[Notification], time: datetime = BEGIN, *, extra: Iterable[bytes] = ()) -> bytes:
    """An entry as the node writes it."""
    content = [frames.deliver(each) for each in notifications] + list(extra)
    microseconds = (time - instant(0)) // timedelta(microseconds=1)
    return entries.encode(entries.Head(entries.VERSION, microseconds, len(content), 0, ()), b"".join(content))


def published(
    notification: Notification,
    sequence: int,
    *,
    origin: str = SERVER,
    incarnation: int = 1,
    published: datetime = BEGIN,
) -> Notification:
    """As an access point sends it on."""
    return notification.with_envelope(Envelope(NotificationId(origin, incarnation, sequence), published, "palio:eva"))


def some(count: int, begin: int = 0, **more: object) -> list[Notification]:
    """Plain notifications, one after another; every third has another type of x."""
    return [
        published(Notification({"x": str(n) if n % 3 == 0 else n, "name": f"event {n}"}), n, **more)  # type: ignore[arg-type]
        for n in range(begin, begin + count)
    ]


def in_entries(notifications: Sequence[Notification], size: int = 5, time: datetime = BEGIN) -> list[bytes]:
    """So many in each entry."""
    return [entry(notifications[at : at + size], time) for at in range(0, len(notifications), size)]


def whole(notification: Notification) -> object:
    """All that must survive: types of values, signs of zeros, payload and envelope too."""
    return exact(notification), exact(notification.envelope)


def archived(folder: Path) -> list[object]:
    return [whole(each) for each in reading.notifications(folder)]


def ids(folder: Path) -> list[int]:
    return [each.envelope.id.sequence for each in reading.notifications(folder) if each.envelope is not None]


# -- at random ---------------------------------------------------------------------------------------------------------

_AWKWARD = [
    "x",
    "X",
    "_palio",
    "_PALIO",
    "__palio",
    "_payload",
    "position",
    "a.b",
    "a`b",
    "a b",
    "a\0b",
    "ß",
    "SS",
    "\u0131",  # an i without its dot
    "I",
]
_NAMES = st.one_of(st.sampled_from(_AWKWARD), NAMES)
_BARE = st.dictionaries(_NAMES, VALUES, max_size=5).map(Notification)
NOTIFICATIONS = st.one_of(_BARE, st.builds(Notification.with_payload, _BARE, st.binary(), NAMES))


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[bytes], list[Notification]]:
    """Entries, and the notifications of this server among what they hold."""
    log, own = [], []
    sequence = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 6))):
        batch, extra = [], []
        for notification in draw(st.lists(NOTIFICATIONS, max_size=5)):
            envelope = draw(DOCUMENTS[Envelope])
            is_own = draw(st.integers(0, 4)) > 0
            sequence += draw(st.integers(1, 3))
            id = NotificationId(SERVER if is_own else "rome", 1, sequence)
            made = notification.with_envelope(
                Envelope(id, envelope.published, envelope.publisher, envelope.expires, envelope.key, envelope.trace)
            )
            batch.append(made)
            own += [made] * is_own
        if draw(st.booleans()):
            extra.append(frames.frame(0x21, draw(st.binary(max_size=20))))  # something else that parties get
        log.append(entry(batch, draw(TIMES), extra=extra))
    return log, own
