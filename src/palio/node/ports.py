"""What a node takes and gives. Whoever drives it owns clock, network and disk."""

from __future__ import annotations

from datetime import datetime

import msgspec

from palio.errors import PalioError
from palio.link.frames import Frame
from palio.model import Advertisement, Filter, Mode, Notification, NotificationId, Pattern, Trace
from palio.node.journal import Record
from palio.node.party_log import Keep
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


class Replay(Input, frozen=True, gc=False):
    """A durable party wants deliveries once more: from a number or a time on, or the last ones."""

    first: int = -1
    since: datetime | None = None
    last: int = -1


class Reject(Input, frozen=True, gc=False):
    """A durable party cannot do anything with its first delivery that is not acknowledged: it is a dead letter now."""

    delivery: int
    reason: str


class Letters(Input, frozen=True, gc=False):
    """A durable party wants dead letters delivered again (``requeue``), or forgotten (``discard``)."""

    action: str
    letters: tuple[int, ...]


Operation = (
    Subscribe | Unsubscribe | Advertise | Unadvertise | Publish | Watch | Unwatch | Leave | Replay | Reject | Letters
)


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
    """What acceptance is to promise; by default what this server is told to."""
    source: int = 0
    """A name of the connection over which they came; answers are for that one."""


class PublishWith(Input, frozen=True, gc=False):
    """A publication of a party that has options, and so goes beside blocks; numbered and answered as those in them."""

    party: str
    content: bytes
    """Of its frame."""
    mode: Mode | None = None
    """As in :class:`PublishBlock`; the options may say another one."""
    source: int = 0


class Connect(Input, frozen=True, gc=False):
    """Open a link to another server, and keep it. If the link is wanted with another role or latency, renew it."""

    peer: str
    role: Role = Role.PEER
    latency: int = 1
    """What the link counts for where there are several ways."""


class Disconnect(Input, frozen=True, gc=False):
    """End a link, and open it no longer."""

    peer: str
    bars: bool = True
    """Whether the neighbour's own questions for the link are refused until there is an :class:`Allow`."""
    reason: str = ""
    """For the operator of the neighbour; if empty, that the operator of this server has removed the link."""


class Allow(Input, frozen=True, gc=False):
    """Accept links from a neighbour again that was disconnected here."""

    peer: str


class Expect(Input, frozen=True, gc=False):
    """The role in the configuration of a neighbour that opens the link itself; ``None`` if it is not configured."""

    peer: str
    role: Role | None


class Doubt(Input, frozen=True, gc=False):
    """The way to a neighbour was interrupted, and is there again: find out whether it still knows the link."""

    peer: str
    limits: tuple[int, ...] | None = None
    """What the neighbour takes, if it cannot say so itself when links are opened (:func:`palio.model.limits.to_wire`).
    Empty if it can. None if nothing is known of it that was not known before.
    """


class Lost(Input, frozen=True, gc=False):
    """A neighbour cannot be reached and is not waited for any longer: until it is back there is no link to it."""

    peer: str


class DiscardLinkLetters(Input, frozen=True, gc=False):
    """Forget publications that a neighbour could not take; numbers that are not known do no harm."""

    peer: str
    letters: tuple[int, ...]


class Room(Input, frozen=True, gc=False):
    """Whether there is room for what neighbours bring; if not, they are asked to wait."""

    is_there: bool


class FromPeer(Input, frozen=True, gc=False):
    """A frame from another server."""

    peer: str
    frame: Frame


class Attach(Input, frozen=True, gc=False):
    """A party is here (again). A durable one reads its log from now on; it has none before it says what to keep.

    Before that, what a node has for a party that is not here need not be passed on.
    """

    party: str
    keep: Keep | None = None
    """The bounds of the log of a durable party; zero for what is usual."""
    reading: int = 0
    """A name for this time: what is for an earlier reader of the log is not for this one."""
    log: int = 0
    """Which log the party knows."""
    after: int = -1
    """The number of the last delivery that it has got, if it knows."""


class Detach(Input, frozen=True, gc=False):
    """A durable party has gone."""

    party: str
    reading: int


class Acknowledge(Input, frozen=True, gc=False):
    """A durable party has done with all deliveries up to a number. What its last connection says counts."""

    party: str
    number: int
    reading: int = 0


class Fetched(Input, frozen=True, gc=False):
    """Entries of the log that :class:`Fetch` asked for, as many as were reasonable; damaged ones are empty."""

    token: int
    entries: tuple[tuple[int, bytes], ...]


class Space(Input, frozen=True, gc=False):
    """Whether there is room on the disk for more; if not, nothing is published that had to be written."""

    is_there: bool


class Archived(Input, frozen=True, gc=False):
    """All entries of the log before a position are archived."""

    position: int


class Persisted(Input, frozen=True, gc=False):
    """What :class:`Persist` asked for is written, and perhaps on disk."""

    token: int
    is_synced: bool = True


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
    """If the parties are durable: the number of the delivery for each."""
    readings: tuple[int, ...] = ()
    """And for which readers of their logs it is."""


class DeliverBlock(Output, frozen=True, gc=False):
    """Many notifications for a party of this server, as the frames in which they go."""

    party: str
    frames: bytes
    count: int
    first: int | None = None
    """If the party is durable: the number of the first one."""
    reading: int = 0


class Position(Output, frozen=True, gc=False):
    """What a durable party gets next has this number."""

    party: str
    reading: int
    log: int
    """The identity of its log."""
    first: int
    repeated: int
    """Lower numbers may have been delivered before."""
    dropped: int
    """So many deliveries have fallen out because there were too many."""
    expired: int
    """So many because they were too old."""


class TellLeaseEnded(Output, frozen=True, gc=False):
    """Tell a durable party that its lease had ended while it was away, and with it a log that it had."""

    party: str
    reading: int
    log: int
    """The identity of that log."""
    done: int
    """Deliveries with lower numbers were acknowledged."""
    lost: int
    """Deliveries that were dropped with it."""
    time: int
    """When."""


class TellMissed(Output, frozen=True, gc=False):
    """Tell a durable party that deliveries have fallen out of its log since it last acknowledged one."""

    party: str
    reading: int
    first: int
    """The number of the first of them; the position that follows says where the log goes on."""


class LeaseEnded(Output, frozen=True, gc=False):
    """A durable party has stayed away for longer than its lease: its log has ended, and all that it held."""

    party: str
    log: int
    lease: int
    """In microseconds."""
    lost: int
    """Deliveries that were not acknowledged."""
    bytes: int
    """Of these."""
    letters: int
    filters: int
    """Filters and patterns that it had subscribed to."""


class Acknowledged(Output, frozen=True, gc=False):
    """It will not be forgotten that a durable party has got all deliveries up to a number."""

    party: str
    reading: int
    number: int


class Fetch(Output, frozen=True, gc=False):
    """Read entries of the log from a position on and before an end, of so many bytes at most, but one at least."""

    token: int
    position: int
    end: int
    bytes: int


class Rest(Output, frozen=True, gc=False):
    """What was not handled, to be given again before anything else that its party says.

    Of a :class:`PublishBlock`, when what there is to deliver is on its way; a :class:`Request` that needs more
    comparisons than one turn makes, and what its party has said after it, in the next turn.
    """

    given: PublishBlock | PublishWith | Request

    @property
    def asker(self) -> str:
        """The party that has said it."""
        given = self.given
        return given.by if isinstance(given, Request) and given.by is not None else given.party


class AcceptedUpTo(Output, frozen=True, gc=False):
    """All publications of a party up to a number are accepted, but for those that were refused one by one."""

    party: str
    number: int
    mode: Mode = Mode.MEMORY
    """What that promises."""
    source: int = 0
    """The connection over which they came."""


class Duplicate(Output, frozen=True, gc=False):
    """The key of a publication was known: it counts once. Its acceptance follows."""

    party: str
    number: int
    source: int = 0
    """The connection over which it came."""


class DeliverSequence(Output, frozen=True, gc=False):
    """A sequence of notifications that matches a pattern, for a party of this server."""

    party: str
    pattern: Pattern
    notifications: tuple[Notification, ...]
    number: int | None = None
    """Of the delivery, if the party is durable; plain deliveries and sequences are numbered together."""
    reading: int = 0


class Persist(Output, frozen=True):
    """Write records, all or none of them, after those of lower tokens; what depends on them waits for the answer.

    If they cannot be written, the node must be stopped at once, and made anew from what is on disk.
    """

    token: int
    records: tuple[Record, ...]
    entries: tuple[tuple[int, bytes], ...] = ()
    """What is added to the message log, with positions."""
    trim: int | None = None
    """Entries of the log before this position are not needed any more."""
    is_pressing: bool = True
    """Whether it has to be on disk soon: somebody waits for that, and not only for its being written."""


class Reply(Output, frozen=True, gc=True):
    """The answer to a request: it was done, or why not.

    It is known to the garbage collector, because an error may lead back to what holds the answer.
    """

    party: str
    number: int
    problem: PalioError | None = None
    source: int = 0
    """Of a publication: the connection over which it came."""


class Outlook(Output, frozen=True):
    """Whether there is somebody for what a party offers or wants, as far as this server knows."""

    party: str
    subject: Filter | Advertisement
    is_good: bool


class Fault(Output, frozen=True, gc=False):
    """A fault of the node itself: an input could not be handled, and its sender was told so."""

    where: str
    """The kind of input, or what was done for it."""
    stack: str
    """The class of the exception and the calls that led to it; no values, because they may hold content."""
    party: str = ""
    reading: int = 0
    """The connection that reads a log and must be closed, if there is one: the party resumes with another one."""


class Unsendable(Output, frozen=True, gc=False):
    """A publication does not go to a neighbour, which cannot take it; it is among the letters of the link."""

    peer: str
    id: NotificationId
    reason: str


class LinkUp(Output, frozen=True, gc=False):
    """There is a link to a neighbour."""

    peer: str


class LinkDown(Output, frozen=True, gc=False):
    """There is no link to a neighbour any more."""

    peer: str
    reason: str = ""
    discarded: int = 0
    """Publications that waited for the neighbour and are discarded; some of them may have arrived."""


class LinkRefused(Output, frozen=True, gc=False):
    """A link that was wanted will not be."""

    peer: str
    reason: str
