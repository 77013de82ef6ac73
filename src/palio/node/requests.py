"""What parties ask for besides publishing: checked, and put into the tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from palio.errors import CallerError
from palio.matching.preparation import ENTERING, Preparation, Steps, cost_of, cost_of_reading
from palio.model import Filter, Pattern
from palio.node import admission, ports
from palio.node.containment import critical
from palio.node.keeping import Keeping

if TYPE_CHECKING:
    from palio.node.node import Node

Wanted = Filter | Pattern


class Requests:
    """Does what parties ask a node for; what cannot be leaves everything as it was."""

    def __init__(self, node: Node, keeping: Keeping | None) -> None:
        self._node = node
        self._keeping = keeping
        self._limits = node.settings.limits

    @property
    def _most(self) -> int:
        """How many filters a party may hold; that can change while the server runs."""
        return self._node.settings.filters_per_party

    def perform(self, party: str, operation: ports.Operation) -> bool:
        """Do it, after it was prepared; whether the party wants to wait until that has spread."""
        if isinstance(operation, ports.Subscribe | ports.Advertise) and operation.wait:
            self._node.spreading.check_room()
        self._check_room(party, operation)
        router = self._node.router
        match operation:
            case ports.Subscribe(wanted, wait):
                self._add(party, _plain(wanted))
                return wait
            case ports.Unsubscribe(wanted, instead):
                self._unsubscribe(party, _plain(wanted), [_plain(each) for each in instead])
            case ports.Advertise(advertisement, wait):
                router.advertise(party, advertisement)
                return wait
            case ports.Unadvertise(advertisement):
                router.unadvertise(party, advertisement)
            case ports.Watch() | ports.Unwatch():
                self._watch(party, operation)
            case ports.Leave():
                self._leave(party)
        return False

    def prepare(self, preparation: Preparation, party: str, operation: ports.Operation) -> Steps:
        """Make the comparisons ahead that an operation needs; each step says what it has cost.

        What will be refused needs none. A party that leaves gives up one thing after the other on the way.
        """
        admission.check_name(party)
        yield from self._check(operation)
        router = self._node.router
        match operation:
            case ports.Subscribe(wanted):
                yield from self._prepare(preparation, party, [_plain(wanted)], [])
            case ports.Unsubscribe(wanted, instead):
                yield from self._prepare(preparation, party, [_plain(each) for each in instead], [_plain(wanted)])
            case ports.Advertise(advertisement):
                yield from router.prepare_advertisements(preparation, party, [advertisement])
            case ports.Unadvertise(advertisement):
                yield from router.prepare_advertisements(preparation, party, [], [advertisement])
            case ports.Watch(subject):
                yield from self._node.outlooks.prepare(preparation, subject)
            case ports.Leave():
                for each in self._undoing(party):
                    part = router.preparations.open()
                    yield from self.prepare(part, party, each)
                    with router.prepared(part):
                        self.perform(party, each)

    def _prepare(self, preparation: Preparation, party: str, begins: Sequence[Wanted], ends: Sequence[Wanted]) -> Steps:
        filters, fewer = _filters(begins), _filters(ends)
        if filters or fewer:
            yield from self._node.router.prepare_filters(preparation, party, filters, fewer)
        patterns, gone = _patterns(begins), _patterns(ends)
        if patterns or gone:
            yield from self._node.monitors.prepare(preparation, party, patterns, gone)

    def _check(self, operation: ports.Operation) -> Steps:
        """Refuse what cannot be, filter by filter. The first look at a filter finds its canonical form."""
        wanted: Sequence[Wanted] = ()
        match operation:
            case ports.Subscribe(subscribed):
                wanted = (subscribed,)
            case ports.Unsubscribe(cancelled, instead):
                admission.check_number(len(instead), self._limits)
                wanted = instead
                yield ENTERING * cost_of(cancelled)
            case ports.Unadvertise(withdrawn):
                yield ENTERING * cost_of(withdrawn)
            case ports.Advertise(subject) | ports.Watch(subject):
                admission.check_constraints(subject, self._limits)
                yield cost_of_reading(subject)
        for each in wanted:
            for filter in (each,) if isinstance(each, Filter) else each.filters:
                if filter.is_satisfiable():  # else it is refused below
                    admission.check_constraints(filter, self._limits)
                yield cost_of_reading(filter)
            admission.check_wanted(_plain(each), self._limits)

    def _check_room(self, party: str, operation: ports.Operation) -> None:
        """Refuse more than a party may hold; the comparisons for that were made before."""
        router, monitors, outlooks = self._node.router, self._node.monitors, self._node.outlooks
        match operation:
            case ports.Subscribe(wanted):
                plain = _plain(wanted)
                growth = (
                    partial(router.growth, party, plain)
                    if isinstance(plain, Filter)
                    else partial(monitors.growth, party, plain)
                )
                admission.check_room(router.count_filters(party) + monitors.count(party), growth, self._most)
            case ports.Unsubscribe(wanted, instead) if instead:
                held = router.count_filters(party) + monitors.count(party)
                admission.check_growth(held, len(instead) - self._count_covered(party, _plain(wanted)), self._most)
            case ports.Advertise(offer):
                held = len(router.profile(party).advertisements)
                admission.check_room(held, partial(router.growth, party, offer), self._most)
            case ports.Watch(subject):
                asked = outlooks.of(party)
                admission.check_room(len(asked), lambda: subject not in asked, self._most)

    def _count_covered(self, party: str, wanted: Wanted) -> int:
        if isinstance(wanted, Filter):
            return self._node.router.count_covered(party, wanted)
        return self._node.monitors.count_covered(party, wanted)

    def _add(self, party: str, wanted: Wanted) -> None:
        if isinstance(wanted, Filter):
            self._node.router.subscribe(party, wanted)
        else:
            with critical("the monitors of patterns", CallerError):
                self._node.monitors.subscribe(party, wanted)

    def _unsubscribe(self, party: str, wanted: Wanted, instead: Sequence[Wanted]) -> None:
        """Put others in the place of what is wanted no longer."""
        if isinstance(wanted, Filter):
            self._node.router.unsubscribe(party, wanted)
        else:
            with critical("the monitors of patterns", CallerError):
                self._node.monitors.unsubscribe(party, wanted)
        for each in instead:
            self._add(party, each)

    def _watch(self, party: str, operation: ports.Watch | ports.Unwatch) -> None:
        outlooks = self._node.outlooks
        if isinstance(operation, ports.Watch):
            outlooks.add(party, operation.subject)
        else:
            outlooks.remove(party, operation.subject)
        if self._keeping:
            self._keeping.asks(self._node, party, operation.subject)

    def _undoing(self, party: str) -> list[ports.Operation]:
        """What a party would have to ask for to be rid of all that it holds."""
        node = self._node
        filters, advertisements = node.router.profile(party)
        return [
            *map(ports.Unsubscribe, filters),
            *map(ports.Unsubscribe, node.monitors.patterns(party)),
            *map(ports.Unadvertise, advertisements),
            *map(ports.Unwatch, node.outlooks.of(party)),
        ]

    def _leave(self, party: str) -> None:
        node = self._node
        for operation in self._undoing(party):
            self.perform(party, operation)
        node.logs.end(party)
        node.reading.leases.forget(party)
        node.router.board.log(party, is_logged=False)

    def end_lease(self, party: str, held: int, now: int) -> None:
        """A durable party has stayed away for too long: its log ends, and what is left of the filters that it held."""
        log = self._node.logs.of(party)
        self._leave(party)
        self._node.reading.leases.end(log, held, now)


def _plain(wanted: Wanted) -> Wanted:
    """A pattern of one filter is that filter."""
    return wanted.filters[0] if isinstance(wanted, Pattern) and len(wanted) == 1 else wanted


def _filters(wanted: Sequence[Wanted]) -> list[Filter]:
    return [each for each in wanted if isinstance(each, Filter)]


def _patterns(wanted: Sequence[Wanted]) -> list[Pattern]:
    return [each for each in wanted if isinstance(each, Pattern)]
