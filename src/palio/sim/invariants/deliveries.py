"""Judges what parties got: what had to be delivered, what must not be, and in which order.

It knows facts alone and not where they come from: it judges servers that are simulated, and servers that run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from palio.model.envelope import NotificationId
from palio.sim.engine.cluster import Delivery
from palio.sim.histories.facts import Epoch, PartyRecord, Publication
from palio.sim.invariants.world import World


class DeliveryInvariants:
    """Asked after every rest."""

    def __init__(
        self,
        parties: Mapping[str, PartyRecord],
        uncertain: Collection[NotificationId],
        *,
        is_causal: bool,
        possible: Mapping[str, PartyRecord] | None = None,
        excused: Callable[[Epoch, Publication, str], bool] | None = None,
    ) -> None:
        """Remember the facts; they may grow.

        ``uncertain`` are publications that may or may not have been accepted, ``is_causal`` says whether nothing comes
        after what depends on it. Who does not know when exactly a party's wish was taken gives two records of it: what
        it held for certain, and what it may have held (``possible``). ``excused`` says whether somebody else judges
        that a party has not got something.
        """
        self._parties = parties
        self._possible = parties if possible is None else possible
        self._uncertain = uncertain
        self._is_causal = is_causal
        self._excused = excused
        self._publications: dict[NotificationId, Publication] = {}
        self._known: dict[str, set[NotificationId]] = {}
        """For each party the notifications that what it got or published may depend on."""
        self._depends: dict[NotificationId, set[NotificationId]] = {}
        self._got: dict[str, dict[NotificationId, None]] = {}
        self._behind: dict[str, set[NotificationId]] = {}
        """For each party all that its deliveries so far depend on: too late for it now."""
        self._last: dict[tuple[str, str, str, int], int] = {}

    def judge(self, epoch: Epoch, deliveries: Sequence[Delivery], world: World) -> Iterator[str]:
        """What was wrong with the deliveries of an epoch that has ended."""
        for each in epoch.publications:
            self._publications[each.id] = each
        yield from self._judge_deliveries(epoch, deliveries, world)
        yield from self._judge_missing(epoch, deliveries, world)

    def _judge_deliveries(self, epoch: Epoch, deliveries: Sequence[Delivery], world: World) -> Iterator[str]:
        self._note_dependencies(epoch, deliveries)
        for each in deliveries:
            envelope = each.notification.envelope
            assert envelope is not None
            id, party = envelope.id, each.party
            publication = self._publications.get(id)
            if publication is None or publication.notification != each.notification:
                yield f"{party} got {id}, which nobody has published"
                continue
            if publication.trace != envelope.trace:
                yield f"{party} got {id} with the trace {envelope.trace}, and not {publication.trace}"
            got = self._got.setdefault(party, {})
            if id in got:
                yield f"{party} got {id} twice"
            if id in self._behind.setdefault(party, set()) and self._is_causal and not epoch.had_cycle:
                yield f"{party} got {id} after something that depends on it"
            got[id] = None
            self._behind[party] |= self._depends[id]
            record = self._possible[party]
            held = [record.at(publication.moment), *record.between(publication.moment, each.moment)]
            if not any(filter.matches(each.notification) for change in held for filter in change.filters):
                yield f"{party} got {id} ({each.notification}), which it never wanted"
            key = (party, publication.party, id.origin, id.incarnation)
            if not epoch.is_disturbed and not world.lets_pass(publication.server, each.server, each.notification):
                yield f"{party} got {id} ({each.notification}), which may not get there"
            if self._last.get(key, -1) > id.sequence:
                yield f"{party} got {id} of {publication.party} out of order"
            self._last[key] = id.sequence

    def _note_dependencies(self, epoch: Epoch, deliveries: Sequence[Delivery]) -> None:
        """What each publication depends on: all that its publisher had got or published before, and so on."""
        place = 0
        for publication in epoch.publications:
            while place < publication.deliveries - epoch.first_delivery:
                self._learn(deliveries[place])
                place += 1
            known = self._known.setdefault(publication.party, set())
            self._depends[publication.id] = set(known)
            known.add(publication.id)
        for delivery in deliveries[place:]:
            self._learn(delivery)

    def _learn(self, delivery: Delivery) -> None:
        assert delivery.notification.envelope is not None
        id = delivery.notification.envelope.id
        self._known.setdefault(delivery.party, set()).update({id}, self._depends.get(id, ()))

    def _judge_missing(self, epoch: Epoch, deliveries: Sequence[Delivery], world: World) -> Iterator[str]:
        got = {(each.party, each.notification.envelope.id) for each in deliveries if each.notification.envelope}
        for publication in epoch.publications:
            for name, party in self._parties.items():
                if (name, publication.id) in got or not self.must_get(epoch, publication, party, world):
                    continue
                if self._excused is not None and self._excused(epoch, publication, name):
                    continue
                yield f"{name} did not get {publication.id} ({publication.notification})"

    def depends_on(self, id: NotificationId) -> set[NotificationId]:
        """All that the publisher of a notification had got or published before it, and so on."""
        return self._depends.get(id, set())

    def must_get(self, epoch: Epoch, publication: Publication, party: PartyRecord, world: World) -> bool:
        """Whether a notification had to reach a party."""
        if publication.id in self._uncertain:
            return False
        is_near = party.server == publication.server and party.server not in epoch.died
        if not is_near and (epoch.is_disturbed or party.server not in world.reachable(publication.server)):
            return False
        if not self._was_wanted(epoch, publication, party, is_near=is_near):
            return False
        if world.is_advertising(publication.server) and not self._was_announced(epoch, publication):
            return False
        return world.lets_pass(publication.server, party.server, publication.notification)

    def _was_wanted(self, epoch: Epoch, publication: Publication, party: PartyRecord, *, is_near: bool) -> bool:
        """Whether what a party wanted had spread before it was published, and stood until all was at rest."""
        moments = [epoch.begin]
        moments += [taken for told, taken in party.spread if epoch.begin <= told < publication.moment]
        if is_near:
            moments.append(publication.moment)
        for moment in moments:
            later = party.between(moment, epoch.end)
            for filter in party.at(moment).filters:
                if filter.matches(publication.notification) and all(
                    any(each.covers(filter) for each in change.filters) for change in later
                ):
                    return True
        return False

    def _was_announced(self, epoch: Epoch, publication: Publication) -> bool:
        """Whether the publisher had advertised it when all was at rest, and went on doing so."""
        record = self._parties[publication.party]
        later = record.between(epoch.begin, epoch.end)
        return any(
            offer.announces(publication.notification)
            and all(any(each.covers(offer) for each in change.advertisements) for change in later)
            for offer in record.at(epoch.begin).advertisements
        )
