"""What neighbours held whose links have ended, as far as its removal needs comparisons of filters.

The end of a link takes effect at once: nothing is sent to the neighbour any more. But when a broad filter ends, those
below it have to be compared with each other, because other neighbours are told of the maximal ones. Until that is done
the filter stays in the tables, held by nobody (:data:`~palio.routing.table.DEPARTED`), and other neighbours keep it as
well. They only get to know later that it has ended. Records say what is still to be removed, so that a server that
stops in the middle goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from palio.node.journal import Journal
from palio.node.preparing import Allowance, Job
from palio.routing.messages import Standing, ended
from palio.routing.table import DEPARTED

if TYPE_CHECKING:
    from palio.node.node import Node


class Departures:
    """Removes from the tables of one node what nobody holds any more, within the comparisons of each turn."""

    def __init__(self, node: Node, allowance: Allowance, journal: Journal | None) -> None:
        self._node = node
        self._allowance = allowance
        self._journal = journal
        self._waiting: dict[Standing, None] = {}
        self._job: Job | None = None
        """The comparisons for the first one, if they have begun."""

    def __len__(self) -> int:
        """How much waits."""
        return len(self._waiting)

    def note(self) -> None:
        """A neighbour is gone, and may have left something."""
        for standing in self._node.router.standing(DEPARTED):
            if standing not in self._waiting:
                self._waiting[standing] = None
                if self._journal is not None:
                    self._journal.put(("departed", standing), True)

    def restore(self, found: Iterable[Standing]) -> None:
        """Go on with what an earlier life of the server has left."""
        for standing in found:
            self._node.router.recall(standing)
            self._waiting[standing] = None

    def work(self) -> None:
        """Remove as much as this turn permits."""
        router = self._node.router
        while self._waiting:
            standing = next(iter(self._waiting))
            job, self._job = self._job, None
            if job is None:
                preparation = router.preparations.open()
                job = Job.begin(preparation, router.prepare_hearing(preparation, DEPARTED, ended(standing)))
            others = len(self._node.arrivals) + len(self._node.preparing) + self._node.outlooks.is_behind
            if not self._allowance.work(("departures",), job.steps, others):
                self._job = job
                return
            del self._waiting[standing]
            with router.prepared(job.preparation):
                router.forget(standing)
            self._node.note_news()
            if self._journal is not None:
                self._journal.delete(("departed", standing))
