"""Which records fit together: a node starts on any set of records, and puts aside those that do not fit.

Most of what neighbours were told is not kept: it follows from the tables. So if a record is put aside on which tables
depend, nobody knows any more what neighbours were told, and all links have to begin anew (:attr:`Fitted.is_doubtful`).
Records of neighbours that are none were in no table: they are put aside, and nothing else happens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from palio.errors import CallerError, brief
from palio.model import Filter, Pattern
from palio.node import shapes
from palio.node.hybrid import date_of
from palio.node.logs import LOST_IDENTITY
from palio.node.settings import NodeSettings
from palio.node.watches import COLLECTING, Commission, Place, Watch
from palio.node.waves import Passed
from palio.routing.architectures import ARCHITECTURES
from palio.routing.messages import Account, Standing
from palio.routing.router import MONITORS, Role, Router
from palio.routing.topology import BadAccountError, check_account

Key = tuple[Any, ...]
Records = dict[Key, Any]

_OF_LINKS = (
    *("base", "in", "out", "held", "told", "untold", "behind", "compressed", "members", "takes", "widened", "gateway"),
)
"""Kinds of records that a neighbour has only while there is a link to it."""


class Misfit(NamedTuple):
    """A record that does not fit."""

    key: Key
    value: Any
    reason: str


class Fitted(NamedTuple):
    """Records that fit together, and others."""

    records: Records
    misfits: list[Misfit]
    is_doubtful: bool
    """Whether tables may be others than those from which neighbours were told what they know."""


def shaped(records: Mapping[Key, Any]) -> tuple[Records, list[Misfit]]:
    """The records that are what their kinds say, and the others."""
    found: Records = {}
    misfits: list[Misfit] = []
    for key, value in records.items():
        reason = shapes.problem(key, value)
        if reason is None:
            found[key] = value
        else:
            misfits.append(Misfit(key, value, reason))
    return found, misfits


def fit(records: Records, misfits: Iterable[Misfit], settings: NodeSettings, now: int, end: int | None) -> Fitted:
    """Find out which records fit together; they have the shapes of their kinds, but for those misfits.

    ``end`` is the position behind the last entry of the message log, if it is known.
    """
    fitting = _Fitting(records, settings)
    for each in misfits:
        fitting.note(each)
    fitting.number_anew(now)
    fitting.links()
    fitting.network(now)
    fitting.tables()
    fitting.patterns()
    fitting.waves()
    fitting.parties()
    fitting.logs(end)
    return Fitted(fitting.all(), fitting.misfits, fitting.is_doubtful)


_HARMLESS = frozenset(
    ("seen", "key", "mail", "owner", "cursor", "end", "mark", "letter", "sweep", "logs", "watch", "asks", "pending",
     "held back", "life", "architecture", "wish", "last", "ended", "closing", "answer", "link letter", "link letters",
     "running", "ended lease")
)  # fmt: skip
"""Kinds on which no table depends."""


class _Fitting:
    def __init__(self, records: Records, settings: NodeSettings) -> None:
        self._kinds: dict[str, Records] = {}
        for key, value in records.items():
            self._kinds.setdefault(key[0], {})[key] = value
        self.misfits: list[Misfit] = []
        self.is_doubtful = False
        self._settings = settings
        self._router: Router = ARCHITECTURES[settings.architecture](settings.server, settings.start)
        """As it will be: to be asked who may be a neighbour."""
        self._parcels: dict[str, list[tuple[int, int]]] = {}
        """Messages that wait for neighbours: the number of the first, and how many are kept together."""
        self._lost: set[str] = set()
        """Kinds of records that there was one of, and is none any more."""

    def of(self, *kinds: str) -> list[tuple[Key, Any]]:
        """The records of some kinds."""
        return [item for kind in kinds for item in self._kinds.get(kind, {}).items()]

    def all(self) -> Records:
        """The records that fit."""
        return {key: value for records in self._kinds.values() for key, value in records.items()}

    def get(self, key: Key) -> Any:
        """The value of a record, if there is one."""
        return self._kinds.get(key[0], {}).get(key)

    def put(self, key: Key, value: Any) -> None:
        """There is another record."""
        self._kinds.setdefault(key[0], {})[key] = value

    def note(self, misfit: Misfit) -> None:
        """A record is put aside."""
        self.misfits.append(misfit)
        self._lost.add(misfit.key[0])
        self.is_doubtful |= misfit.key[0] not in _HARMLESS

    def put_aside(self, key: Key, reason: str, *, is_orphan: bool = False) -> None:
        """Put a record aside; an orphan was in no table."""
        doubtful = self.is_doubtful
        self.note(Misfit(key, self._kinds[key[0]].pop(key), reason))
        if is_orphan:
            self.is_doubtful = doubtful

    def keep_only(self, kinds: tuple[str, ...], problem: Callable[[Key, Any], str | None]) -> None:
        """Put aside the records of some kinds that have a problem."""
        for key, value in self.of(*kinds):
            reason = problem(key, value)
            if reason is not None:
                self.put_aside(key, reason)

    def number_anew(self, now: int) -> None:
        """Numbers that are lost go on from the time: that is more than was ever given."""
        if "counters" in self._lost:
            self.put(("counters",), (now, now, date_of(now)))

    # -- links ---------------------------------------------------------------------------------------------------------

    def links(self) -> None:
        """Links to neighbours that there may be, whose sequences are whole."""
        for key, value in self.of("out"):
            self._parcels.setdefault(key[1], []).append((key[2], len(value)))
        for key, value in self.of("link"):
            reason = self._link_problem(key[1], value)
            if reason is not None:
                self.put_aside(key, reason)
        for key, _ in self.of(*_OF_LINKS):
            if key[1] not in self._router.peers:
                self.put_aside(key, f"{brief(key[1])} is no neighbour", is_orphan=True)
        for key, _ in self.of("gateway"):
            if self._router.peers[key[1]] is not Role.GATEWAY:
                self.put_aside(key, f"{brief(key[1])} is no gateway", is_orphan=True)
        self.keep_only(("wish", "last", "ended", "closing", "answer"), self._name_problem)

    def _name_problem(self, key: Key, _value: Any) -> str | None:
        return "a server is no neighbour of itself" if key[1] in ("", self._settings.server) else None

    def _link_problem(self, peer: str, value: Any) -> str | None:
        stamp, role, latency, _ = value
        if role not in {each.value for each in Role} or latency < 1:
            return f"a neighbour that is {brief(role)}, with a latency of {latency}"
        is_known = peer in self._settings.gateways or self.get(("gateway", peer)) is not None
        if role == Role.GATEWAY.value and not is_known:  # earlier releases have not written what it was
            return f"{brief(peer)} is no gateway in the configuration"
        reason = self._name_problem(("link", peer), value) or self._sequence_problem(peer)
        members = self.get(("members", peer))
        if reason is None and self._is_in_tree(role) and (members is None or members[0] != stamp):
            reason = "the servers behind the link are not known"
        if reason is None:
            try:
                self._router.connect(peer, Role(role))
            except CallerError as error:
                reason = str(error)
        return reason

    def _is_in_tree(self, role: str) -> bool:
        return self._router.topology is None or role == Role.GATEWAY.value

    def _sequence_problem(self, peer: str) -> str | None:
        """Messages that wait for a neighbour have consecutive numbers, from that which it expects on."""
        parcels = sorted(self._parcels.get(peer, ()))
        base = self.get(("base", peer)) or 0
        following = base
        for first, count in parcels:
            if first > following or following not in (first, base) or not count:
                return f"messages of the link are missing, from number {following} on"
            following = max(following, first + count)
        return None

    # -- the network ---------------------------------------------------------------------------------------------------

    def network(self, now: int) -> None:
        """What is known of other servers. If this server's own account is lost, the next one has a later number."""
        server = self._settings.server
        own: Key = ("account", server)
        self.keep_only(("members",), self._members_problem)
        self.keep_only(("account", "waiting"), self._account_problem)
        if "account" in self._lost and self._router.topology is not None and self.get(own) is None:
            self.put(own, Account(server, self._settings.start, now, ()))

    def _members_problem(self, key: Key, _value: Any) -> str | None:
        role = self._router.peers[key[1]]
        return None if self._is_in_tree(role.value) else "the neighbour is not in a tree"

    def _account_problem(self, key: Key, value: Any) -> str | None:
        if self._router.topology is None:
            return f"in the architecture {self._router.name} servers give no account of their links"
        if key[0] == "waiting":
            missing = [each for each in value if self.get(("account", each)) is None]
            return f"there is no account of {brief(missing[0])}" if missing else None
        if key[1] != value.server:
            return f"it is the account of {brief(value.server)}"
        try:
            check_account(key[1], value)
        except BadAccountError as error:
            return str(error)
        return None

    # -- tables --------------------------------------------------------------------------------------------------------

    def tables(self) -> None:
        """What neighbours hold, and what several of it stand for."""
        self.keep_only(("held", "told", "untold", "compressed", "widened"), self._source_problem)
        self.keep_only(("departed",), self._departed_problem)
        self.keep_only(("widened",), lambda _, forms: "it has several forms" if len(forms) > 1 else None)
        self.keep_only(
            ("link letter",),
            lambda key, _: None if self.get(("link letters", key[1])) is not None else "the link has no letters",
        )
        for kind in ("told", "compressed"):
            taken: dict[tuple[str, Standing], None] = {}
            for key, (_, parts) in self.of(kind):
                reason = self._parts_problem(key, parts, taken)
                if reason is not None:
                    self.put_aside(key, reason)
                else:
                    taken.update(dict.fromkeys((key[1], part) for part in parts))
        for key, _ in self.of("compressed"):
            whole = key[1], key[2]
            if whole not in taken and self.get(("held", *whole)) is not None:
                self.put_aside(key, "it stands for others, and the neighbour has said it, too")

    def _source_problem(self, key: Key, _value: Any) -> str | None:
        source = key[2].source
        if bool(source) is not self._router.names_sources(key[1]):
            return f"in the architecture {self._router.name} it has {'no' if source else 'a'} source"
        if key[0] not in ("held", "compressed"):
            return None
        if self._router.peers.get(source) is Role.GATEWAY:
            return f"its source is {brief(source)}, which is a gateway and so is not in this network"
        return "it is said of this server itself" if source == self._settings.server else None

    def _departed_problem(self, key: Key, _value: Any) -> str | None:
        source = key[1].source
        if bool(source) is (self._router.topology is None):
            return f"in the architecture {self._router.name} it has {'no' if source else 'a'} source"
        return "it is said of this server itself" if source == self._settings.server else None

    def _parts_problem(
        self, key: Key, parts: Collection[Standing], taken: Mapping[tuple[str, Standing], None]
    ) -> str | None:
        kind, peer, whole = key
        if len(parts) < 1 or len(dict.fromkeys(parts)) < len(parts):
            return "it stands for nothing, or for something twice"
        if any(type(part) is not type(whole) or part.source != whole.source for part in parts):
            return "it stands for something of another kind or source"
        if any((peer, part) in taken for part in parts):
            return "something else stands for a part of it"
        is_heard = kind == "compressed" and self._router.peers[peer] is not Role.GATEWAY
        if is_heard and any(self.get(("held", peer, part)) is None for part in parts):
            return "it stands for something that the neighbour has not said"
        return None

    # -- patterns ------------------------------------------------------------------------------------------------------

    def patterns(self) -> None:
        """How far patterns have been met; of those that make no sense parties keep the pattern, which begins anew."""
        lent: dict[Commission, None] = {}
        for key, state in self.of("pattern"):
            reason = self._watch_problem(key[1], key[2], state, lent)
            if reason is not None:
                is_orphan = isinstance(key[1], Commission) and key[1].peer not in self._router.peers
                self.put_aside(key, reason, is_orphan=is_orphan)
                if isinstance(key[1], str) and key[1] != MONITORS:
                    self.put(key, begun_anew(key[1], key[2], state))
        needed = {
            step
            for key, state in self.of("pattern")
            if state[7][0] is not Place.AWAY
            for step in state[6]
            if isinstance(step, Pattern)
        }
        self.keep_only(
            ("pattern",),
            lambda key, _: "no pattern consists of it" if key[1] == MONITORS and key[2] not in needed else None,
        )
        self.keep_only(("pending", "held back"), self._arrival_problem)

    def _watch_problem(
        self, owner: str | Commission, pattern: Pattern, state: Any, lent: dict[Commission, None]
    ) -> str | None:
        _, _, position, taken, _, _, factors, (place, peer, tag, _, _), *wording = state
        is_own = isinstance(owner, str)
        filters = [filter for step in factors for filter in (step if isinstance(step, Pattern) else (step,))]
        if filters != list(pattern.filters) or position >= len(filters) or len(taken) != (position if is_own else 0):
            return "what was taken does not fit the pattern"
        if wording and wording[0] != pattern:
            return "another wording, which does not mean the same"
        spreads = self._router.advertisements_spread
        if isinstance(owner, Commission) and (not spreads or self._router.peers.get(owner.peer) is not Role.PEER):
            return f"{brief(owner.peer)} is no neighbour for which patterns are watched"
        if place in (Place.OVER, Place.EXPECTED) and (is_own or place is Place.OVER):
            return f"a pattern that is {place.value}"
        if place in (Place.HERE, Place.EXPECTED):
            return "a pattern that is here, and lent" if tag else None
        if place is Place.AWAY and not tag and spreads:
            return None  # it waits until the neighbour has room for it
        at = Commission(peer, tag)
        if not tag or at in lent or not spreads or self._router.peers.get(peer) is not Role.PEER:
            return f"a pattern that is at {brief(peer)} as number {tag}, which cannot be"
        lent[at] = None
        return None

    def _arrival_problem(self, key: Key, value: Any) -> str | None:
        watch = key[2] if key[0] == "pending" else value[2]
        state: Any = None if watch is None else self.get(watch)
        if watch is not None and state is None:
            return "the pattern for which it waits is not there"
        is_pending = key[0] == "pending" and state is not None
        return "the pattern does not let anything wait" if is_pending and state[7][0] not in COLLECTING else None

    # -- what parties have asked for -----------------------------------------------------------------------------------

    def waves(self) -> None:
        """Waves that have gone out to neighbours; whoever has passed one on waits for the answer."""
        for key, (waiting, missing) in self.of("wave"):
            passed = [waiting.peer] if isinstance(waiting, Passed) else []
            gone = [peer for peer in (*passed, *missing) if peer not in self._router.peers]
            if gone or not missing:
                reason = f"{brief(gone[0])} is no neighbour" if gone else "it has come back"
                self.put_aside(key, reason, is_orphan=not passed or passed[0] in gone)

    def parties(self) -> None:
        """What parties hold, and ask about."""
        self.keep_only(("party", "holds"), lambda key, _: "a party without a name" if key[1] == MONITORS else None)
        self.keep_only(("holds", "asks"), _wording_problem)
        self.keep_only(("watch",), lambda _, subjects: self._question_problem(subjects))
        self.keep_only(("asks",), lambda key, _: self._question_problem((key[2],)))

    def _question_problem(self, subjects: Iterable[Any]) -> str | None:
        router = self._router
        for each in subjects:
            is_known = router.advertisements_spread if isinstance(each, Filter) else router.subscriptions_spread
            if not is_known:
                return f"in the architecture {router.name} servers cannot tell of {brief(str(each))}"
        return None

    # -- logs ----------------------------------------------------------------------------------------------------------

    def logs(self, end: int | None) -> None:
        """Logs of durable parties, each with a number of its own, and what belongs to them."""
        numbers: dict[int, str] = {}
        for key, (number, _, _) in self.of("mail"):
            if number in numbers or key[1] == MONITORS:
                self.put_aside(key, f"its log has number {number}, as that of {brief(numbers.get(number))}")
            else:
                numbers[number] = key[1]
        self._own(numbers)
        names = set(numbers.values())
        self.keep_only(("cursor", "end"), lambda key, _: None if key[1] in names else "there is no such log")
        self.keep_only(("mark", "letter"), lambda key, _: None if key[1] in numbers else "there is no such log")
        if end is not None:
            reason = f"the message log ends before position {end}"
            self.keep_only(("sweep",), lambda key, _: reason if key[1] > end else None)

    def _own(self, numbers: dict[int, str]) -> None:
        """A log whose own record is lost is known by its number still; it has the bounds that there are by default."""
        keep = msgspec.structs.astuple(self._settings.log.keep)
        for key, party in self.of("owner"):
            if key[1] in numbers and numbers[key[1]] != party:
                self.put_aside(key, f"the log is that of {brief(numbers[key[1]])}")
            elif key[1] not in numbers and (party in numbers.values() or party == MONITORS):
                self.put_aside(key, f"{brief(party)} has another log")
            elif key[1] not in numbers:
                numbers[key[1]] = party
                self.put(("mail", party), (key[1], LOST_IDENTITY, keep))


def _wording_problem(key: Key, wording: Any) -> str | None:
    """Of what a party holds the key is the canonical form; the words that the party has used are beside it."""
    is_same = wording is True or (type(wording) is type(key[2]) and wording == key[2])
    return None if is_same else "a wording that does not mean the same"


def begun_anew(party: str, pattern: Any, state: Any) -> tuple[Any, ...]:
    """The state of a party's pattern of which nothing has been met."""
    wording = state[8] if len(state) > 8 and state[8] == pattern else pattern
    return Watch(party, wording, 0).state()
