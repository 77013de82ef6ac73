"""What servers tell each other: one set of messages, whatever the architecture."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from palio.model import Advertisement, Filter, Notification, Pattern
from palio.model.envelope import NotificationId

Stamp = tuple[int, str, int]
"""Age and identity of a link: a number, and the server, with its incarnation, that opened the link."""

MOST_AGE = 1 << 62
"""The number of a stamp is lower, so that there are always higher ones."""


def has_bad_stamp(stamp: Stamp, members: Iterable[tuple[str, Stamp]] = ()) -> bool:
    """Whether the number of a stamp, or of one of several servers' stamps, is none that a server gives.

    >>> has_bad_stamp((7, "milan", 1)), has_bad_stamp((7, "milan", 1), [("rome", (1 << 63, "rome", 1))])
    (False, True)
    """
    return any(each[0] >= MOST_AGE for each in (stamp, *(of for _, of in members)))


WaveName = tuple[str, int, int]
"""The server that has begun a wave, with its incarnation, and a number."""


class Message(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """Base of all that travels in the sequence of a link."""


class Subscribe(Message, frozen=True, gc=False):
    """Somebody on this side of the link wants what the filter matches."""

    filter: Filter
    source: str = ""
    """In networks of any shape: the server whose parties want it."""


class Unsubscribe(Message, frozen=True, gc=False):
    """The filter, and no other one, does not count any more."""

    filter: Filter
    source: str = ""


class Advertise(Message, frozen=True, gc=False):
    """Somebody on this side of the link may publish what the advertisement announces."""

    advertisement: Advertisement
    source: str = ""
    """In networks of any shape: the server whose parties may publish it."""


class Unadvertise(Message, frozen=True, gc=False):
    """The advertisement, and no other one, does not count any more."""

    advertisement: Advertisement
    source: str = ""


class Publish(Message, frozen=True, gc=False):
    """A notification on its way; its envelope says which publication it is."""

    notification: Notification
    entry: str = ""
    """In networks of any shape: the server where it has entered the network; it travels on the paths from there."""
    hops: int = 0
    """There: how many links it may still go over, those of other networks of any shape included."""
    tags: tuple[int, ...] = ()
    """The tasks of the receiver whose monitors have taken it, as in :class:`Element`."""


class Members(Message, frozen=True, gc=False):
    """Servers that can, or can no longer, be reached over this link; for each the age of the youngest link between."""

    joined: tuple[tuple[str, Stamp], ...]
    left: tuple[str, ...]


class Account(Message, frozen=True, gc=False):
    """In networks of any shape: what a server says of its links, passed on by all others."""

    server: str
    incarnation: int
    number: int
    """Younger accounts have higher ones."""
    links: tuple[tuple[str, int, Stamp], ...]
    """The neighbours, with the latencies and stamps of the links to them."""
    beyond: tuple[tuple[str, Stamp], ...] = ()
    """Servers of other networks that are reached over it; for each the age of the youngest link between."""


class Spread(Message, frozen=True, gc=False):
    """Answer when everything that was sent before this has spread over all servers on your side."""

    token: int
    origin: str = ""
    """In networks of any shape: the server from which the wave has gone out."""
    wave: WaveName = ("", 0, 0)
    """The same wherever it goes: a server that it has not left yet passes it on no more if another network does."""


class Spreaded(Message, frozen=True, gc=False):
    """The answer to :class:`Spread`."""

    token: int


class Continue(Message, frozen=True, gc=False):
    """So far a pattern has been met, and from here you go on; with what I have held back."""

    tag: int
    position: int
    """How many of its filters."""
    after: tuple[datetime, NotificationId] | None
    """The place of what was taken last."""
    held: tuple[Notification, ...]


class Delegate(Message, frozen=True, gc=False):
    """Please watch a pattern from now on."""

    pattern: Pattern
    tag: int
    """The sender's number of this task."""
    path: tuple[str, ...]
    """The servers that have passed the pattern on; none of them is asked again."""
    state: Continue | None = None
    """How far it has been met. If that is not said yet, what comes waits until it is."""


class Accepted(Message, frozen=True, gc=False):
    """The answer to a :class:`Delegate` without a state: what I have sent you before this I have not looked at."""

    tag: int


class Element(Message, frozen=True, gc=False):
    """The monitors of these tasks have taken a notification, which you get for no other reason."""

    notification: Notification
    tags: tuple[int, ...]


class Recall(Message, frozen=True, gc=False):
    """Please stop watching, and answer."""

    tag: int


class Returned(Message, frozen=True, gc=False):
    """The answer to :class:`Recall`: nothing more is taken; this I have held back."""

    tag: int
    held: tuple[Notification, ...]


class Release(Message, frozen=True, gc=False):
    """Stop watching; no answer is needed."""

    tag: int


MonitorMessage = Delegate | Accepted | Continue | Element | Recall | Returned | Release
"""What is said about patterns that a neighbour watches."""
Control = Subscribe | Unsubscribe | Advertise | Unadvertise
"""What changes tables."""
Standing = Subscribe | Advertise
"""What counts until it is taken back."""


def begun(message: Control) -> Standing:
    """What a message says, or takes back."""
    match message:
        case Unsubscribe(filter, source):
            return Subscribe(filter, source)
        case Unadvertise(advertisement, source):
            return Advertise(advertisement, source)
    return message


def ended(message: Standing) -> Control:
    """What takes a message back."""
    match message:
        case Subscribe(filter, source):
            return Unsubscribe(filter, source)
        case Advertise(advertisement, source):
            return Unadvertise(advertisement, source)
