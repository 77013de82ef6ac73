"""What parties asked for and got from running servers, as facts that the simulator's laws can judge.

Nobody outside a server knows when exactly it takes a request: after it was sent, and before it was answered. So there
are two records of each party: what it held for certain, and what it may have held. Publications are known by the
attribute ``n`` that each of them has, and not by the ids that servers give them; that the two agree is judged, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from palio.model import Advertisement, Envelope, Filter, Notification, Pattern
from palio.model.envelope import NotificationId
from palio.sim.engine.cluster import Delivery, SequenceDelivery
from palio.sim.histories.facts import Epoch, PartyRecord, Publication
from palio.sim.invariants.deliveries import DeliveryInvariants
from palio.sim.invariants.ideal_monitors import Ideal
from palio.sim.invariants.patterns import judge_words
from palio.sim.invariants.world import World

Subject = Filter | Pattern | Advertisement
_LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
_ADDING = ("subscribe", "advertise")


class Watched:
    """A pattern that a party has had since all was at rest; what it waits for comes from one publisher."""

    def __init__(self, party: str, pattern: Pattern, since: int, before: int) -> None:
        self.party = party
        self.ideal = Ideal(pattern)
        self.since = since
        """The moment from which on all that is published counts."""
        self.before = before
        """How many sequences the party had got until then."""


class Facts:
    """All that happened, in the order in which the test saw it."""

    def __init__(self, world: World, *, is_causal: bool) -> None:
        self._world = world
        self.sure: dict[str, PartyRecord] = {}
        self.possible: dict[str, PartyRecord] = {}
        self.uncertain: set[NotificationId] = set()
        self.deliveries: list[Delivery] = []
        self.sequences: list[SequenceDelivery] = []
        self.epoch = Epoch(0)
        self._law = DeliveryInvariants(self.sure, self.uncertain, is_causal=is_causal, possible=self.possible)
        self._moment = 0
        self._published: dict[int, Publication] = {}
        self._ids: dict[NotificationId, int] = {}
        """By the ids that servers gave."""
        self._named: dict[int, NotificationId] = {}
        self._watched: list[Watched] = []
        self._judged_sequences = 0
        self.problems: list[str] = []
        """Found on the way."""

    def tick(self) -> int:
        self._moment += 1
        return self._moment

    # -- what parties ask for ------------------------------------------------------------------------------------------

    def enter(self, party: str, server: str) -> None:
        self.sure[party], self.possible[party] = PartyRecord(server), PartyRecord(server)

    def asked(self, party: str, operation: str, subject: Subject) -> None:
        """What is added may count from now on; what is cancelled may not count any more."""
        records = self.possible if operation in _ADDING else self.sure
        self._note(records[party], operation, subject)

    def done(self, party: str, operation: str, subject: Subject, *, has_spread: bool) -> None:
        """What is added counts now; what was cancelled does not any more."""
        records = self.sure if operation in _ADDING else self.possible
        self._note(records[party], operation, subject)
        if operation == "subscribe" and has_spread:
            self.sure[party].spread.append((self._moment, self._moment))

    def _note(self, record: PartyRecord, operation: str, subject: Subject) -> None:
        getattr(record, operation)(self.tick(), subject)

    def died(self, server: str) -> None:
        """A server was killed: nothing is certain any more of what its parties held there."""
        moment = self.tick()
        self.epoch.is_disturbed = True
        self.epoch.died.add(server)
        for record in self.sure.values():
            if record.server == server:
                record.forget(moment)
        self._watched.clear()

    # -- what they publish and get -------------------------------------------------------------------------------------

    def published(self, party: str, life: int, notification: Notification) -> NotificationId:
        """A party sends a publication; ``life`` says how often its server has been started."""
        server, number = self.sure[party].server, notification["n"]
        assert isinstance(number, int)
        id = NotificationId(server, life, number)
        fact = Publication(id, self.tick(), server, party, notification, len(self.deliveries))
        self.epoch.publications.append(fact)
        self._published[number] = fact
        return id

    def refused(self, party: str, what: object) -> None:
        """Nothing that is asked for here may be refused."""
        self.problems.append(f"{party} was refused: {what}")

    def delivered(self, party: str, notification: Notification) -> None:
        """A party got a copy."""
        known = self._known(party, notification)
        if known is not None:
            server = self.sure[party].server
            self.deliveries.append(Delivery(0, server, party, known, self.tick()))

    def found(self, party: str, pattern: Pattern, notifications: Iterable[Notification]) -> None:
        """A party got a sequence."""
        given = tuple(notifications)
        if all(self._known(party, each) is not None for each in given):
            self.sequences.append(SequenceDelivery(0, self.sure[party].server, party, pattern, given))

    def _known(self, party: str, notification: Notification) -> Notification | None:
        """The notification by its own name, if what the server calls it is always the same and nobody else's."""
        number, envelope = notification.get("n"), notification.envelope
        if not isinstance(number, int) or number not in self._published or envelope is None:
            self.problems.append(f"{party} got {notification}, which nobody has published")
            return None
        is_one = self._ids.setdefault(envelope.id, number) == number
        if not is_one or self._named.setdefault(number, envelope.id) != envelope.id:
            self.problems.append(f"{party} got {notification} as {envelope.id}, others as {self._named.get(number)}")
            return None
        published = self._published[number]
        if envelope.publisher != published.party:
            self.problems.append(f"{party} got {notification} of {envelope.publisher}; it is of {published.party}")
        return _enveloped(notification, published)

    # -- the judgement -------------------------------------------------------------------------------------------------

    def watch(self, party: str, pattern: Pattern) -> None:
        """All is at rest, and a party has just got a new pattern: from now on its sequences are judged exactly."""
        self._watched.append(Watched(party, pattern, self.tick(), len(self._got(party, pattern))))

    def unwatch(self, party: str) -> None:
        """A party is about to cancel its patterns."""
        self._watched = [each for each in self._watched if each.party != party]

    def rest(self) -> list[str]:
        """All is at rest: what was wrong since the last time."""
        epoch, self.epoch = self.epoch, Epoch(self.tick())
        epoch.end = self._moment
        self.epoch.first_delivery = len(self.deliveries)
        found = [*self.problems, *self._law.judge(epoch, self.deliveries[epoch.first_delivery :], self._world)]
        found += judge_words(self.sequences[self._judged_sequences :])
        self._judged_sequences = len(self.sequences)
        found += self._judge_repetitions()
        found += self._judge_totals(epoch)
        self.problems = []
        return found

    def _judge_repetitions(self) -> Iterator[str]:
        """A sequence begins behind the last one: no notification is in two for the same pattern."""
        seen = set()
        for each in self.sequences:
            for one in each.notifications:
                key = each.party, each.pattern, one["n"]
                if key in seen:
                    yield f"{each.party} got {one} twice for {each.pattern}"
                seen.add(key)

    def _judge_totals(self, epoch: Epoch) -> Iterator[str]:
        for watched in self._watched:
            for each in epoch.publications:
                if each.moment > watched.since:
                    watched.ideal.feed(_enveloped(each.notification, each))
            got = self._got(watched.party, watched.ideal.pattern)[watched.before :]
            law = [tuple(id.sequence for id in found) for found in watched.ideal.found]
            if got != law:
                yield f"{watched.party} got for {watched.ideal.pattern} {got}, and should {law}"

    def _got(self, party: str, pattern: Pattern) -> list[tuple[object, ...]]:
        mine = [each for each in self.sequences if (each.party, each.pattern) == (party, pattern)]
        return [tuple(one["n"] for one in each.notifications) for each in mine]


def _enveloped(notification: Notification, published: Publication) -> Notification:
    return notification.with_envelope(Envelope(published.id, _LONG_AGO, published.party))
