"""What a node takes and gives. Whoever drives it owns clock, network and disk."""

from __future__ import annotations

import msgspec

from palio.errors import PalioError
from palio.link.frames import Frame
from palio.model import Advertisement, Filter, Mode, Notification, Pattern, Trace
from palio.node.journal import Record
from palio.routing.router import Role


class Input(msgspec.Struct, frozen=True, gc=False):
    """Base of all that a node takes."""


class Subscribe(Input, frozen=True, gc=False):
    """A party wants what a filter matches, or the sequences that match a pattern."""

    filter: Filter | Pattern
    wait: bool = False
    """Answer only when the subscription has spread through the network."""


class Unsubscribe(Input, frozen=True, gc=False):
    """A party cancels all its subscriptions that a filter covers; or, position by position, a pattern."""

    filter: Filter | Pattern
    instead: tuple[Filter | Pattern, ...] = ()
    """What it wants from now on; nothing comes in between."""


class Advertise(Input, frozen=True, gc=False):
    """A party may publish what an advertisement announces."""

    advertisement: Advertisement
    wait: bool = False


class Unadvertise(Input, frozen=True, gc=False):
    """A party cancels all its advertisements that this one covers."""

    advertisement: Advertisement


class Publish(Input, frozen=True, gc=False):
    """A party publishes a notification."""

    notification: Notification
    trace: Trace | None = None
    """The span in which it does."""


class Watch(Input, frozen=True, gc=False):
    """A party wants to know, from now on, whether anybody wants what an advertisement announces, or offers what a
    filter matches; it need not hold either. The answer, and each change of it, is an :class:`Outlook`.
    """

    subject: Filter | Advertisement


class Unwatch(Input, frozen=True, gc=False):
    """A party does not want to know that any more."""

    subject: Filter | Advertisement


class Leave(Input, frozen=True, gc=False):
    """A party goes for good, with all that it wants, offers and has not fetched."""


Operation = Subscribe | Unsubscribe | Advertise | Unadvertise | Publish | Watch | Unwatch | Leave


class Request(Input, frozen=True, gc=False):
    """An operation of a party; answered by :class:`Reply` with the same number."""

    party: str
    number: int
    operation: Operation
    by: str | None = None
    """The party that acts for this one, if it is another; it gets the answer."""


class PublishBlock(Input, frozen=True, gc=False):
    """Many publications of a party at once, as the frames in which they came."""

    party: str
    frames: bytes
    mode: Mode | None = None
    """What acceptance is to promise; by default as much as this server can."""


class PublishWith(Input, frozen=True, gc=False):
    """A publication of a party that has options, and so goes beside blocks; numbered and answered as those in them."""

    party: str
    content: bytes
    """Of its frame."""
    mode: Mode | None = None
    """As in :class:`PublishBlock`; the options may say another one."""


class Connect(Input, frozen=True, gc=False):
    """Open a link to another server, and keep it."""

    peer: str
    role: Role = Role.PEER
    latency: int = 1
    """What the link counts for where there are several ways."""


class Disconnect(Input, frozen=True, gc=False):
    """End a link."""

    peer: str


class Doubt(Input, frozen=True, gc=False):
    """The way to a neighbour was interrupted, and is there again: find out whether it still knows the link."""

    peer: str


class Lost(Input, frozen=True, gc=False):
    """A neighbour cannot be reached and is not waited for any longer: until it is back there is no link to it."""

    peer: str


class Room(Input, frozen=True, gc=False):
    """Whether there is room for what neighbours bring; if not, they are asked to wait."""

    is_there: bool


class FromPeer(Input, frozen=True, gc=False):
    """A frame from another server."""

    peer: str
    frame: Frame


class Attach(Input, frozen=True, gc=False):
    """A party is here (again): send it what it has not acknowledged.

    Before that, what a node has for a party that is not here need not be passed on.
    """

    party: str


class Acknowledge(Input, frozen=True, gc=False):
    """A party has got all deliveries up to a number."""

    party: str
    number: int


class Persisted(Input, frozen=True, gc=False):
    """What :class:`Persist` asked for is on disk."""

    token: int


class Output(msgspec.Struct, frozen=True, gc=False):
    """Base of all that a node gives."""


class Send(Output, frozen=True, gc=False):
    """A frame for another server; it may get lost."""

    peer: str
    frame: Frame


class Deliver(Output, frozen=True, gc=False):
    """A notification for parties of this server, one copy each."""

    parties: tuple[str, ...]
    notification: Notification
    numbers: tuple[int, ...] = ()
    """The number of the delivery for each party, where deliveries are kept until they are acknowledged."""


class DeliverBlock(Output, frozen=True, gc=False):
    """Many notifications for a party of this server, as the frames in which they go."""

    party: str
    frames: bytes
    count: int


class Rest(Output, frozen=True, gc=False):
    """What was not handled of a :class:`PublishBlock`: give it again when what there is to deliver is on its way."""

    block: PublishBlock


class AcceptedUpTo(Output, frozen=True, gc=False):
    """All publications of a party up to a number are accepted, but for those that were refused one by one."""

    party: str
    number: int
    mode: Mode = Mode.MEMORY
    """What that promises."""


class DeliverSequence(Output, frozen=True, gc=False):
    """A sequence of notifications that matches a pattern, for a party of this server."""

    party: str
    pattern: Pattern
    notifications: tuple[Notification, ...]
    number: int | None = None
    """Of the delivery, where deliveries are kept; plain deliveries and sequences are numbered together."""


class Persist(Output, frozen=True):
    """Write records, all or none of them, after those of lower tokens; what depends on them waits for the answer.

    If they cannot be written, the node must be stopped at once, and made anew from what is on disk.
    """

    token: int
    records: tuple[Record, ...]


class Reply(Output, frozen=True, gc=True):
    """The answer to a request: it was done, or why not.

    It is known to the garbage collector, because an error may lead back to what holds the answer.
    """

    party: str
    number: int
    problem: PalioError | None = None


class Outlook(Output, frozen=True):
    """Whether there is somebody for what a party offers or wants, as far as this server knows."""

    party: str
    subject: Filter | Advertisement
    is_good: bool


class LinkUp(Output, frozen=True, gc=False):
    """There is a link to a neighbour."""

    peer: str


class LinkDown(Output, frozen=True, gc=False):
    """There is no link to a neighbour any more."""

    peer: str
    reason: str = ""


class LinkRefused(Output, frozen=True, gc=False):
    """A link that was wanted will not be."""

    peer: str
    reason: str
