"""What parties ask for besides publishing: checked, and put into the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from palio.errors import CallerError
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
        self._most = node.settings.filters_per_party

    def perform(self, party: str, operation: ports.Operation) -> bool:
        """Do it; whether the party wants to wait until that has spread."""
        admission.check_name(party)
        router = self._node.router
        match operation:
            case ports.Subscribe(wanted, wait):
                self._subscribe(party, _plain(wanted))
                self.keep(party)
                return wait
            case ports.Unsubscribe(wanted, instead):
                self._unsubscribe(party, _plain(wanted), [_plain(each) for each in instead])
                self.keep(party)
            case ports.Advertise(advertisement, wait):
                admission.check_constraints(advertisement, self._limits)
                admission.check_room(len(router.profile(party).advertisements), self._most)
                router.advertise(party, advertisement)
                self.keep(party)
                return wait
            case ports.Unadvertise(advertisement):
                router.unadvertise(party, advertisement)
                self.keep(party)
            case ports.Watch() | ports.Unwatch():
                self._watch(party, operation)
            case ports.Leave():
                self._leave(party)
        return False

    def _subscribe(self, party: str, wanted: Wanted) -> None:
        admission.check_wanted(wanted, self._limits)
        held = len(self._node.router.profile(party).filters) + self._node.monitors.count(party)
        admission.check_room(held, self._most)
        self._add(party, wanted)

    def _add(self, party: str, wanted: Wanted) -> None:
        if isinstance(wanted, Filter):
            self._node.router.subscribe(party, wanted)
        else:
            with critical("the monitors of patterns", CallerError):
                self._node.monitors.subscribe(party, wanted)

    def _unsubscribe(self, party: str, wanted: Wanted, instead: Sequence[Wanted]) -> None:
        """All of it, or nothing if something that is wanted instead cannot be."""
        if instead:
            filters = self._node.router.profile(party).filters
            kept = sum(not (isinstance(wanted, Filter) and wanted.covers(each)) for each in filters)
            admission.check_room(kept + self._node.monitors.count(party) + len(instead) - 1, self._most)
        for each in instead:
            admission.check_wanted(each, self._limits)
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
            admission.check_constraints(operation.subject, self._limits)
            admission.check_room(len(outlooks.of(party)), self._most)
            outlooks.add(party, operation.subject)
        else:
            outlooks.remove(party, operation.subject)
        if self._keeping:
            self._keeping.watches(self._node, party)

    def _leave(self, party: str) -> None:
        node = self._node
        filters, advertisements = node.router.profile(party)
        operations: list[ports.Operation] = [
            *map(ports.Unsubscribe, filters),
            *map(ports.Unsubscribe, node.monitors.patterns(party)),
            *map(ports.Unadvertise, advertisements),
            *map(ports.Unwatch, node.outlooks.of(party)),
        ]
        for operation in operations:
            self.perform(party, operation)
        node.logs.end(party)
        node.router.board.log(party, is_logged=False)

    def keep(self, party: str) -> None:
        """Note what a party holds, if that is kept."""
        if self._keeping:
            self._keeping.party(self._node, party)


def _plain(wanted: Wanted) -> Wanted:
    """A pattern of one filter is that filter."""
    return wanted.filters[0] if isinstance(wanted, Pattern) and len(wanted) == 1 else wanted
