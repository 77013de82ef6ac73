"""Turns what changes in a node into records, and records into what the node was."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from palio.model import Advertisement, Filter, NotificationId
from palio.node import records
from palio.node.fitting import Misfit, fit, shaped
from palio.node.journal import Journal, Record
from palio.node.loading import CONFIRMED, UNCONFIRMED
from palio.node.quarantine import Quarantine
from palio.node.salvage import Unlinked, moved, salvaged
from palio.node.seen import Seen
from palio.node.shapes import problem
from palio.routing.border import Gateway
from palio.routing.messages import Advertise, Control, Members, Message, Standing, Subscribe, begun
from palio.routing.router import Profile

if TYPE_CHECKING:
    from palio.node.node import Node


Element = Filter | Advertisement


class Kept(NamedTuple):
    """What there is of an earlier life of a node."""

    records: Iterable[Record]
    tail: Iterable[tuple[int, bytes]]
    """The end of the message log."""
    first: int
    """The position of the first entry that there is."""
    end: int | None
    """The position behind the last one, if it is known."""
    quarantine: Quarantine
    """Where records are put aside that do not fit."""


_OF_LOGS = ("logs", "mail", "owner", "cursor", "end", "mark", "sweep")
"""Kinds of records from which the logs of parties are made, with the entries since the last sweep."""

_FORMER = ("last", "ended")
"""Kinds of records that earlier releases wrote and that have no meaning any more."""


def tail_from(records: Collection[Record], incarnation: int, end: int | None = None) -> int:
    """The position from which on entries of the message log, which has this end, are needed to make a node.

    All are if the records are of another incarnation, or one that belongs to a log is not what it should be: what else
    is lost can be found out from the entries.
    """
    known: dict[tuple[Any, ...], Any] = dict(records)
    of_logs = [(key, value) for key, value in known.items() if key[0] in _OF_LOGS]
    is_whole = all(problem(key, value) is None for key, value in of_logs) and all(
        ("cursor", key[1]) in known for key, _ in of_logs if key[0] == "mail"
    )
    if known.get(("life",)) != incarnation or not is_whole:
        return 0
    positions = [key[1] for key, _ in of_logs if key[0] == "sweep"]
    return max((each for each in positions if end is None or each <= end), default=0)


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

    def asks(self, node: Node, party: str, subject: Element) -> None:
        """A party asks about demand or supply, or has stopped asking."""
        known = subject.canonical()
        self.journal.put(("asks", party, known), _kept(known, node.outlooks.wording(party, known)))

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
        """A notification was seen for the first time; nothing is kept of origins and starts that are too old."""
        self.journal.put(("seen", id.origin, id.incarnation), id.sequence)
        self._forget_seen(seen)

    def _forget_seen(self, seen: Seen) -> None:
        for origin, start in seen.forgotten():
            self.journal.delete(("seen", origin, start))

    def members(self, peer: str) -> None:
        """The servers behind a neighbour have changed."""
        self._members[peer] = None

    def gateway(self, peer: str, gateway: Gateway) -> None:
        """What passes a gateway, from now on. What other neighbours were told depends on it."""
        self.journal.put(("gateway", peer), (gateway.imports, gateway.exports, gateway.offers))

    def gone(self, peer: str) -> None:
        """A neighbour is about to be forgotten, with all that was written of it."""
        self.journal.delete(("gateway", peer))
        for message in self._held.pop(peer, {}):
            self.journal.delete(("held", peer, message))
        self._members[peer] = None

    def finish(self, node: Node) -> tuple[Record, ...]:
        """All that has changed since the last call."""
        self._keep_counters(node)
        for (party, element), wording in node.router.holdings.take():
            self.journal.put(("holds", party, element), _kept(element, wording))
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
        left = self._left(found, node, is_other=is_other)
        fitted = fit(left.records, misfits, node.settings, now, kept.end)
        known = fitted.records
        self._counters = known.get(("counters",), (0, 0, node.publishing.clock.latest))
        node.publishing.count, latest, node.publishing.clock.latest = self._counters
        self._waves = {key[1]: value for key, value in known.items() if key[0] == "wave"}
        node.spreading.waves.restore(self._waves)
        node.router.membership.restore(latest, {key[1]: value for key, value in known.items() if key[0] == "members"})
        ups = node.links.restore(known, now)
        for up in ups:
            node.neighbours.restore(up, _gateway(known.get(("gateway", up.peer))))
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
        self._forget_seen(node.seen)
        node.links.make_room()  # there may be more than are allowed by now
        node.peer_limits.letters.bound()
        self._keep_one_by_one(node, known)
        self._keep_changed(found, known, is_unlinked=left.records is not found)
        for key, value in ((("life",), life), (("architecture",), node.settings.architecture)):
            if found.get(key) != value:
                self.journal.put(key, value)
        node.logs.keep_found(now, is_salvaged=is_other)
        self._put_aside(node, [*fitted.misfits, *untold], known, kept.quarantine)
        node.keys.restore((key[1], key[2], value) for key, value in known.items() if key[0] == "key")
        node.reading.leases.begin(known, now)
        for lost in left.lost:
            node.emit(lost)
        if fitted.is_doubtful or untold:
            node.begin_links_anew()
        node.take_over_gateways()

    def _keep_changed(
        self, found: Mapping[tuple[Any, ...], Any], known: Mapping[tuple[Any, ...], Any], *, is_unlinked: bool
    ) -> None:
        """What does not count any more is deleted, and what counts instead is kept."""
        for changed in dict.fromkeys([*found, *known]) if is_unlinked else ():
            if found.get(changed) != known.get(changed):
                self.journal.put(changed, known.get(changed))
        for former in [key for key in known if key[0] in _FORMER]:
            self.journal.delete(former)

    def _keep_one_by_one(self, node: Node, known: Mapping[tuple[Any, ...], Any]) -> None:
        """Keep one record for each element that a party holds, and for each of its questions.

        Earlier releases wrote all that a party holds into one record, and all that it asks about into another. Of
        records that do not fit together, some do not count any more.
        """
        held = dict(node.router.holdings.take())
        for key in known:
            if key[0] in ("party", "watch") or (key[0] == "holds" and held.get((key[1], key[2])) is None):
                self.journal.delete(key)
            if key[0] == "watch":
                for subject in known[key]:
                    self.asks(node, key[1], subject)
        for (party, element), wording in held.items():
            if wording is not None and ("holds", party, element) not in known:
                self.journal.put(("holds", party, element), _kept(element, wording))

    @staticmethod
    def _left(found: dict[tuple[Any, ...], Any], node: Node, *, is_other: bool) -> Unlinked:
        """What counts of what was found."""
        if is_other:
            return salvaged(found, node.settings.incarnation)
        if found.get(("architecture",), node.settings.architecture) != node.settings.architecture:
            return moved(found, node.settings.architecture)
        return Unlinked(found, [])

    def _put_aside(
        self, node: Node, misfits: Iterable[Misfit], known: Mapping[tuple[Any, ...], Any], quarantine: Quarantine
    ) -> None:
        """Keep what does not fit under other keys."""
        for key, value, reason in misfits:
            self.journal.put(key, known.get(key))
            node.quarantined.append(quarantine.put(records.encode_key(key), records.encode_value(value), reason))
        for about, content in quarantine.changes():
            self.journal.put(about, content)

    def _restore_tables(self, node: Node, known: Mapping[tuple[Any, ...], Any]) -> None:
        for peer, counting in node.neighbours.compression.restore(known):
            node.router.receive(peer, counting)
        node.neighbours.recall_offers()
        held = [key[1:] for key in known if key[0] == "held"]
        for peer, message in held:
            self._held.setdefault(peer, {})[message] = None
            if known["held", peer, message] is UNCONFIRMED:
                node.neighbours.unconfirmed[peer, message] = None
        for kind in (Advertise, Subscribe):
            for peer, message in held:
                if isinstance(message, kind):
                    node.neighbours.recall(peer, message)
        node.departures.restore(key[1] for key in known if key[0] == "departed")
        self._restore_parties(node, known)

    @staticmethod
    def _restore_parties(node: Node, known: Mapping[tuple[Any, ...], Any]) -> None:
        for key, value in known.items():
            if key[0] == "holds":
                node.router.put_in(key[1], _profile(key[2] if value is True else value))
        for key, profile in known.items():
            if key[0] == "party":
                node.router.put_in(key[1], profile)
        for key, value in known.items():
            if key[0] == "watch":
                for subject in value:
                    node.outlooks.add(key[1], subject)
            elif key[0] == "asks":
                node.outlooks.add(key[1], key[2] if value is True else value)


def _kept(
    element: Filter | Advertisement, wording: Filter | Advertisement | None
) -> Filter | Advertisement | bool | None:
    """The words that a party has used for what it holds, unless they are the canonical ones."""
    return None if wording is None else wording is element or wording


def _profile(wording: Element) -> Profile:
    return Profile((wording,), ()) if isinstance(wording, Filter) else Profile((), (wording,))


def _gateway(kept: tuple[Any, ...] | None) -> Gateway | None:
    return None if kept is None else Gateway(*kept)
