"""The ends of leases in slices: to remove all that a party holds may need many comparisons of filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from palio.matching.preparation import Preparation, Steps
from palio.node import ports
from palio.node.preparing import Allowance

if TYPE_CHECKING:
    from palio.node.node import Node


class _Ending(NamedTuple):
    steps: Steps
    """They remove what the party holds, one thing after the other."""
    held: int
    """The number of filters and patterns at the beginning."""


class LeaseEndings:
    """The parties of one node whose leases are over, and which still hold something.

    A lease has ended when nothing is left. If the party attaches before that, the rest is removed at once, so that it
    finds either all that it held or nothing.
    """

    def __init__(self, node: Node, allowance: Allowance) -> None:
        self._node = node
        self._allowance = allowance
        self._endings: dict[str, _Ending] = {}

    def __len__(self) -> int:
        return len(self._endings)

    def begin(self, party: str) -> None:
        """The lease of a party is over."""
        node = self._node
        held = len(node.router.profile(party).filters) + node.monitors.count(party)
        self._endings[party] = _Ending(node.requests.prepare(Preparation(), party, ports.Leave()), held)

    def work(self, now: int) -> None:
        """Remove as much as this turn permits."""
        node = self._node
        for party, ending in list(self._endings.items()):
            node.note_news()
            node.press()
            others = len(self) - 1 + len(node.arrivals) + len(node.preparing)
            if self._allowance.work(("lease", party), ending.steps, others):
                self._end(party, now)

    def finish(self, party: str, now: int) -> None:
        """The party attaches: remove the rest, if its lease is over."""
        ending = self._endings.get(party)
        if ending is not None:
            for _ in ending.steps:
                pass
            self._node.note_news()
            self._end(party, now)

    def _end(self, party: str, now: int) -> None:
        ending = self._endings.pop(party)
        if party in self._node.logs:  # else another party that may act for this one has ended the log
            self._node.requests.end_lease(party, ending.held, now)
