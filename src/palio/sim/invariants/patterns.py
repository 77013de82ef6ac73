"""Judges the sequences that parties got for their patterns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from palio.model import Notification, Pattern
from palio.model.envelope import NotificationId
from palio.node.settings import Delegation
from palio.sim.engine.cluster import SequenceDelivery
from palio.sim.engine.recording import Arrived
from palio.sim.histories.facts import Epoch, PartyRecord, Publication
from palio.sim.histories.federation import architecture_of
from palio.sim.histories.history import LARGE_WINDOW
from palio.sim.histories.player import Player
from palio.sim.invariants.ideal_monitors import AccessPoint, Ideal, Sequence, place
from palio.sim.invariants.oracle import Oracle

_Key = tuple[str, Pattern]


class _Tracked(NamedTuple):
    """A pattern that was at rest before anything was published for it, and has stood since."""

    ideal: Ideal
    before: int
    """How many sequences the party had got for the pattern until then."""


class PatternInvariants:
    """Asked after every rest of a player, when the oracle has been."""

    def __init__(self, player: Player, oracle: Oracle) -> None:
        self._player = player
        self._oracle = oracle
        self._tracked: dict[_Key, _Tracked] = {}
        self._known: dict[NotificationId, Notification] = {}
        """Publications with their envelopes, as they were seen anywhere."""
        self._remembered: set[NotificationId] = set()
        """What was published since a server last lost everything."""
        self._judged = 0

    def judge(self) -> list[str]:
        """What was wrong in the epoch that has just ended."""
        player, epoch = self._player, self._player.epochs[-2]
        logs = {server: player.cluster.log(server) for server in player.history.servers}
        arrived = {
            server: {
                event.notification.envelope.id: event.notification
                for entry in log
                for event in entry.events
                if isinstance(event, Arrived) and event.notification.envelope
            }
            for server, log in logs.items()
        }
        for found in arrived.values():
            self._known.update(found)
        fresh = player.cluster.sequences[self._judged :]
        self._judged = len(player.cluster.sequences)
        problems = [*self._judge_order(epoch), *judge_words(fresh)]
        for server, log in logs.items():
            problems += self._judge_patterns(server)
            if not self._delegates(server):
                point = AccessPoint(player.history.window)
                point.follow(log)
                problems += self._judge_sequences(server, point.found())
        problems += self._judge_arrivals(epoch, arrived)
        problems += self._judge_totals(epoch)
        return problems

    def _delegates(self, server: str) -> bool:
        """Whether monitors may run elsewhere: then it is not said what reaches a server for them."""
        is_advertising = architecture_of(self._player.history.architecture, server) in ("aa", "ga")
        return is_advertising and self._player.history.delegation is not Delegation.NONE

    # -- time ----------------------------------------------------------------------------------------------------------

    def _judge_order(self, epoch: Epoch) -> Iterator[str]:
        """What depends on something is after it in the order of publications.

        A server that has lost everything does not know any more how late it was, and those that hear from it do not.
        """
        if epoch.died:
            self._remembered.clear()
            return
        self._remembered.update(each.id for each in epoch.publications)
        for publication in epoch.publications:
            mine = self._known.get(publication.id)
            for other in sorted(self._oracle.deliveries.depends_on(publication.id) & self._remembered):
                theirs = self._known.get(other)
                if mine is not None and theirs is not None and place(mine) <= place(theirs):
                    yield f"{publication.id} depends on {other}, and is not after it in the order of publications"

    # -- what parties got ----------------------------------------------------------------------------------------------

    def _judge_sequences(self, server: str, law: Mapping[_Key, list[Sequence]]) -> Iterator[str]:
        """What a server's parties got since it last lost everything."""
        cluster = self._player.cluster
        got: dict[_Key, list[Sequence]] = {}
        for each in cluster.sequences[cluster.first_sequence.get(server, 0) :]:
            if each.server == server:
                got.setdefault((each.party, each.pattern), []).append(_ids(each))
        for key in {**law, **got}:
            if got.get(key, []) != law.get(key, []):
                yield f"{key[0]} got for {key[1]} {_list(got.get(key, []))}, and should {_list(law.get(key, []))}"

    def _judge_patterns(self, server: str) -> Iterator[str]:
        node = self._player.cluster.nodes[server]
        if node.monitors.deadline is not None:
            yield f"{server} still holds something back"
        for name, record in self._player.parties.items():
            if record.server == server and set(node.monitors.patterns(name)) != set(record.patterns):
                yield f"{name} has patterns {_list(node.monitors.patterns(name))}, and should {_list(record.patterns)}"

    # -- what had to come ----------------------------------------------------------------------------------------------

    def _judge_arrivals(self, epoch: Epoch, arrived: Mapping[str, Mapping[NotificationId, object]]) -> Iterator[str]:
        world = self._oracle.world()
        for name, record in self._player.parties.items():
            if self._delegates(record.server):
                continue
            taken_apart = record.taken_apart()
            for publication in epoch.publications:
                if publication.id not in arrived[record.server] and self._oracle.deliveries.must_get(
                    epoch, publication, taken_apart, world
                ):
                    yield f"{publication.id} did not come for a pattern of {name}"

    def _judge_totals(self, epoch: Epoch) -> Iterator[str]:
        """Where nothing is disturbed and nothing overtakes: exactly what one monitor finds among all publications.

        Nothing does where windows are large, or all publications come from one server. With groups some are missed.
        """
        if epoch.is_disturbed:
            self._tracked.clear()
            return
        still: dict[_Key, _Tracked] = {}
        for name, record in self._player.parties.items():
            for pattern in record.patterns if self._is_exact(record.server) else ():
                key = name, pattern
                if _stood(record, pattern, epoch):
                    tracked = self._tracked.get(key)
                    if tracked is not None and self._feed(epoch, record, tracked.ideal):
                        still[key] = tracked
                        got = self._got(key)[tracked.before :]
                        if got != tracked.ideal.found:
                            yield f"{name} got for {pattern} {_list(got)}, and one monitor finds " + _list(
                                tracked.ideal.found
                            )
                elif not self._relevant(epoch, pattern):
                    still[key] = _Tracked(Ideal(pattern), len(self._got(key)))
        self._tracked = still

    def _is_exact(self, server: str) -> bool:
        return not self._delegates(server) or self._player.history.delegation is Delegation.WHOLE

    def _feed(self, epoch: Epoch, record: PartyRecord, ideal: Ideal) -> bool:
        """Show one monitor all publications; false if it is not certain that they had to come."""
        world, taken_apart = self._oracle.world(), record.taken_apart()
        relevant = self._relevant(epoch, ideal.pattern)
        if self._player.history.window < LARGE_WINDOW and len({each.server for each in relevant}) > 1:
            return False
        for publication in relevant:
            if (
                not self._oracle.deliveries.must_get(epoch, publication, taken_apart, world)
                or publication.id not in self._known
            ):
                return False
        for each in sorted((self._known[publication.id] for publication in relevant), key=place):
            ideal.feed(each)
        return True

    def _relevant(self, epoch: Epoch, pattern: Pattern) -> list[Publication]:
        return [each for each in epoch.publications if any(filter.matches(each.notification) for filter in pattern)]

    def _got(self, key: _Key) -> list[Sequence]:
        return [_ids(each) for each in self._player.cluster.sequences if (each.party, each.pattern) == key]


def judge_words(sequences: Iterable[SequenceDelivery]) -> Iterator[str]:
    """Each sequence is one: also where a server has lost what could tell more."""
    for each in sequences:
        places = [place(one) for one in each.notifications]
        if not all(filter.matches(one) for filter, one in zip(each.pattern, each.notifications, strict=True)):
            yield f"{each.party} got {_named(each)} for {each.pattern}, which it does not match"
        elif places != sorted(set(places)):
            yield f"{each.party} got {_named(each)} for {each.pattern}, which is not in order"


def _stood(record: PartyRecord, pattern: Pattern, epoch: Epoch) -> bool:
    """Whether a party had a pattern from one rest to the next."""
    changes = [record.at(epoch.begin), *record.between(epoch.begin, epoch.end)]
    return all(pattern in change.patterns for change in changes)


def _ids(each: SequenceDelivery) -> Sequence:
    return tuple(one.envelope.id for one in each.notifications if one.envelope)


def _named(each: SequenceDelivery) -> str:
    return " then ".join(map(str, _ids(each)))


def _list(found: object) -> str:
    return "[" + " | ".join(_words(each) for each in found) + "]"  # type: ignore[attr-defined]


def _words(each: object) -> str:
    return " then ".join(map(str, each)) if isinstance(each, tuple) else str(each)
