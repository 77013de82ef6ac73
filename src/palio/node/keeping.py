"""Turns what changes in a node into records, and records into what the node was."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from palio.model import NotificationId
from palio.node import records
from palio.node.fitting import Misfit, begun_anew, fit, shaped
from palio.node.journal import Journal, Record
from palio.node.loading import CONFIRMED, QUARANTINE, UNCONFIRMED, Quarantined
from palio.node.party_log import all_sent
from palio.node.seen import Seen
from palio.routing.messages import Advertise, Control, Members, Message, Standing, Subscribe, begun
from palio.routing.router import MONITORS, Profile

if TYPE_CHECKING:
    from palio.node.node import Node

_NOTHING = Profile((), ())


class Kept(NamedTuple):
    """What there is of an earlier life of a node."""

    records: Iterable[Record]
    tail: Iterable[tuple[int, bytes]]
    """The end of the message log."""
    first: int
    """The position of the first entry that there is."""
    end: int | None = None
    """The position behind the last one, if it is known."""


_OWN = (
    *("party", "watch", "logs", "mail", "cursor", "end", "mark", "sweep", "letter", "key", "wish"),
    *("link letter", "link letters"),
)
"""Kinds of records that count though data was lost."""

_FORMER = ("last", "ended")
"""Kinds of records that earlier releases wrote and that have no meaning any more."""


def tail_from(records: Collection[Record], incarnation: int, end: int | None = None) -> int:
    """The position from which on entries of the message log, which has this end, are needed to make a node.

    All are if the records are of another incarnation: one that says how long a log was may be lost.
    """
    if (("life",), incarnation) not in records:
        return 0
    positions = [key[1] for key, _ in records if key[0] == "sweep" and len(key) == 2 and isinstance(key[1], int)]
    return max((each for each in positions if end is None or each <= end), default=0)


def salvaged(known: Mapping[tuple[Any, ...], Any], life: int) -> dict[tuple[Any, ...], Any]:
    """What counts in a new life of a server that has lost data.

    Logs of parties are others from now on, because numbers may have been given that are not known here; and what they
    hold may have been sent. Sequences that were half found are given up.
    """
    logs = {key[1]: value for key, value in known.items() if key[0] == "mail"}
    numbers = {number for number, _, _ in logs.values()}
    found = {key: value for key, value in known.items() if key[0] in _OWN and _has_log(key, logs, numbers)}
    for place, (party, (number, _, keep)) in enumerate(logs.items()):
        found["mail", party] = number, life + place, keep
        if ("cursor", party) in known:
            found["cursor", party] = all_sent(known["cursor", party])
    for key, value in known.items():
        if key[0] == "pattern" and isinstance(key[1], str) and key[1] != MONITORS:
            found[key] = begun_anew(key[1], key[2], value)
    if ("counters",) in known:
        found["counters",] = 0, 0, known["counters",][2]
    return found


def _has_log(key: tuple[Any, ...], parties: Collection[str], numbers: Collection[int]) -> bool:
    """Whether a record is of a log that is known, or of none."""
    match key[0]:
        case "cursor" | "end":
            return key[1] in parties
        case "mark" | "letter":
            return key[1] in numbers
    return True


class Keeping:
    """Collects the records of one node. A batch of inputs is kept as a whole or not at all.

    What neighbours were told is kept only as far as it is not what the tables say at the end of a batch.
    """

    def __init__(self) -> None:
        self.journal = Journal()
        self._counters: tuple[int, int, datetime] = (-1, -1, datetime.min.replace(tzinfo=UTC))
        self._waves: dict[int, Any] = {}
        self._members: dict[str, None] = {}
        self._waiting: tuple[str, ...] = ()
        self._held: dict[str, dict[Standing, None]] = {}
        """What is on disk of what each neighbour holds."""

    def party(self, node: Node, name: str) -> None:
        """What a party holds has changed."""
        profile = node.router.profile(name)
        self.journal.put(("party", name), None if profile == _NOTHING else profile)

    def watches(self, node: Node, name: str) -> None:
        """What a party wants to know has changed."""
        self.journal.put(("watch", name), node.outlooks.of(name) or None)

    def heard(self, peer: str, message: Message) -> None:
        """A neighbour has said something that counts from now on; accounts of links are kept in the end."""
        if isinstance(message, Control):
            self.held(peer, message)
        elif isinstance(message, Members):
            self.members(peer)

    def held(self, peer: str, message: Control) -> None:
        """A neighbour has said what it holds, or does no longer."""
        if isinstance(message, Subscribe | Advertise):
            self._held.setdefault(peer, {})[message] = None
            self.journal.put(("held", peer, message), CONFIRMED)
        else:
            standing = begun(message)
            self._held.get(peer, {}).pop(standing, None)
            self.journal.delete(("held", peer, standing))

    def seen(self, seen: Seen, id: NotificationId) -> None:
        """A notification was seen for the first time; of starts of its origin that are too old nothing is kept."""
        self.journal.put(("seen", id.origin, id.incarnation), id.sequence)
        for start in seen.forgotten():
            self.journal.delete(("seen", id.origin, start))

    def members(self, peer: str) -> None:
        """The servers behind a neighbour have changed."""
        self._members[peer] = None

    def gone(self, peer: str) -> None:
        """A neighbour is about to be forgotten, with all that was written of it."""
        for message in self._held.pop(peer, {}):
            self.journal.delete(("held", peer, message))
        self._members[peer] = None

    def finish(self, node: Node) -> tuple[Record, ...]:
        """All that has changed since the last call."""
        self._keep_counters(node)
        for party, key, since in node.keys.changes():
            self.journal.put(("key", party, key), since)
        for peer in self._members:
            known = node.router.membership.links().get(peer)
            self.journal.put(("members", peer), known)
        self._members.clear()
        if node.router.topology is not None:
            for account in node.router.topology.learned():
                self.journal.put(("account", account.server), account)
            waiting = node.router.topology.waiting()
            if waiting != self._waiting:
                self._waiting = waiting
                self.journal.put(("waiting",), waiting or None)
        for about, value in {**node.telling.records(), **node.neighbours.compression.records()}.items():
            self.journal.put(about, value)
        waves = node.spreading.waves.kept()
        for number in [number for number in self._waves if number not in waves]:
            self.journal.delete(("wave", number))
        for number, wave in waves.items():
            if self._waves.get(number) != wave:
                self.journal.put(("wave", number), wave)
        self._waves = waves
        node.links.keep()
        return self.journal.take()

    def _keep_counters(self, node: Node) -> None:
        """Numbers and times of publications are written ahead, so that most need not be."""
        count, latest, time = node.publishing.count, node.router.membership.latest, node.publishing.clock.latest
        known = self._counters
        if count > known[0] or latest != known[1] or time > known[2]:
            reserve = node.settings.reserve
            ahead = max(known[0], count if count <= known[0] else count + reserve)
            time = max(known[2], time if time <= known[2] else time + timedelta(microseconds=reserve))
            self._counters = ahead, latest, time
            self.journal.put(("counters",), self._counters)

    def restore(self, node: Node, kept: Kept, now: int) -> None:
        """Make a new node what it was when the records were written; those that do not fit are put aside.

        If they are of another incarnation, data was lost: then what parties hold counts, and their logs, but nothing
        that was agreed with neighbours.
        """
        life = node.settings.incarnation
        given: dict[tuple[Any, ...], Any] = {key: value for key, value in kept.records if value is not None}
        found, misfits = shaped(given)
        is_other = bool(found) and found.get(("life",)) != life
        fitted = fit(salvaged(found, life) if is_other else found, misfits, node.settings, now, kept.end)
        known = fitted.records
        self._counters = known.get(("counters",), (0, 0, node.publishing.clock.latest))
        node.publishing.count, latest, node.publishing.clock.latest = self._counters
        self._waves = {key[1]: value for key, value in known.items() if key[0] == "wave"}
        node.spreading.waves.restore(self._waves)
        node.router.membership.restore(latest, {key[1]: value for key, value in known.items() if key[0] == "members"})
        ups = node.links.restore(known, now)
        for up in ups:
            node.neighbours.restore(up)
        node.peer_limits.restore(known, [up.peer for up in ups])
        if node.router.topology is not None:
            accounts = [value for key, value in known.items() if key[0] == "account"]
            self._waiting = known.get(("waiting",), ())
            node.router.topology.restore(accounts, self._waiting)
        self._restore_tables(node, known)
        node.delegating.restore(known, node.monitors.restore(known, now))
        untold = [Misfit(key, known.pop(key), "it is not what the tables say") for key in node.tell_nobody(known)]
        for key, value in known.items():
            if key[0] == "seen":
                node.seen.restore(key[1], key[2], value)
        node.logs.restore(known, kept.tail, kept.first)
        for log in node.logs:
            node.router.board.log(log.name)
        self.journal.take()
        if found.get(("life",)) != life:
            for changed in dict.fromkeys([*found, *known]) if is_other else ():
                self.journal.put(changed, known.get(changed))
            self.journal.put(("life",), life)
        for former in [key for key in known if key[0] in _FORMER]:
            self.journal.delete(former)
        node.logs.keep_found(now, is_salvaged=is_other)
        self._put_aside(node, [*fitted.misfits, *untold], known)
        node.keys.restore((key[1], key[2], value) for key, value in known.items() if key[0] == "key")
        node.reading.begin(now)
        if fitted.is_doubtful or untold:
            node.begin_links_anew()

    def _put_aside(self, node: Node, misfits: Iterable[Misfit], known: Mapping[tuple[Any, ...], Any]) -> None:
        """Keep what does not fit under other keys."""
        for key, value, reason in misfits:
            identity = records.encode_key(key)
            self.journal.put(key, known.get(key))
            self.journal.put((QUARANTINE, identity), (records.encode_value(value), reason))
            node.quarantined.append(Quarantined(records.describe(identity), reason))

    def _restore_tables(self, node: Node, known: Mapping[tuple[Any, ...], Any]) -> None:
        for peer, counting in node.neighbours.compression.restore(known):
            node.router.receive(peer, counting)
        held = [key[1:] for key in known if key[0] == "held"]
        for peer, message in held:
            self._held.setdefault(peer, {})[message] = None
            if known["held", peer, message] is UNCONFIRMED:
                node.neighbours.unconfirmed[peer, message] = None
        for kind in (Advertise, Subscribe):
            for peer, message in held:
                if isinstance(message, kind):
                    node.neighbours.recall(peer, message)
        for key, profile in known.items():
            if key[0] == "party":
                node.router.put_in(key[1], profile)
        for key, subjects in known.items():
            if key[0] == "watch":
                for subject in subjects:
                    node.outlooks.add(key[1], subject)
