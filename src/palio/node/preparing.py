"""Requests of parties are prepared before they are done, so that no turn takes long.

To subscribe, or to cancel a subscription, may need many comparisons of filters. A turn makes only so many. A request
that needs more is given back to the driver, which gives it again in the next turn; what its party says after it waits
behind it. So whoever asks for much waits for it, and all others are served meanwhile.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from palio.matching.preparation import Preparation, Steps
from palio.node.ports import PublishBlock, PublishWith, Request

if TYPE_CHECKING:
    from palio.node.requests import Requests
    from palio.routing.router import Router

_SHARES = 16
"""Each party may make this part of a turn's comparisons, however many others there are."""

_Key = tuple[str, str | None, int]


class Job(NamedTuple):
    """Comparisons that are being made ahead of a change."""

    preparation: Preparation
    steps: Steps

    @classmethod
    def begin(cls, preparation: Preparation, steps: Steps) -> Job:
        """Make these comparisons, and then those with what has come meanwhile."""
        return cls(preparation, chain(steps, preparation.catch_up()))


class Allowance:
    """The comparisons of one turn, and the parties and neighbours that share them."""

    def __init__(self, budget: int) -> None:
        self.budget = self._left = budget
        self._spent: dict[tuple[str, ...], int] = {}
        """In this turn, by asker."""
        self.total = 0
        """The number of comparisons since the start."""
        self.most = 0
        """The highest number of comparisons of one turn."""

    def begin_turn(self) -> None:
        """Permit as many comparisons as in every turn."""
        self._left = self.budget
        if self._spent:
            self._spent = {}

    def work(self, asker: tuple[str, ...], steps: Steps, others: int) -> bool:
        """Make steps until all are made, or the asker has had its share of this turn; return whether all are made.

        ``others`` is the number of changes of other askers that wait for comparisons.
        """
        spent = self._spent.get(asker, 0)
        share = max(1, self.budget // _SHARES, spent + self._left // (others + 1))
        begun, is_done = spent, False
        while spent < share and not is_done:
            cost = next(steps, None)
            is_done = cost is None
            spent += cost or 0
        self._spent[asker] = spent
        self._left = max(0, self._left - (spent - begun))
        self.total += spent - begun
        self.most = max(self.most, sum(self._spent.values()))
        return is_done


class Preparing:
    """The requests of one server that are not prepared yet."""

    def __init__(self, router: Router, requests: Requests, allowance: Allowance) -> None:
        self._router = router
        self._requests = requests
        self._allowance = allowance
        self._jobs: dict[_Key, Job] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def holds_up(self, given: Request | PublishBlock | PublishWith) -> bool:
        """Whether something has to be given again because its party has asked before for what is not prepared yet."""
        if not self._jobs:
            return False
        asker = _asker(given)
        behind = [key for key in self._jobs if (key[0] if key[1] is None else key[1]) == asker]
        return bool(behind) and not (isinstance(given, Request) and _key(given) in behind)

    def advance(self, request: Request, others: int) -> Preparation | None:
        """Prepare a request; if that is not finished in this turn, it has to be given again.

        ``others`` is the number of neighbours whose messages wait for comparisons.
        """
        key = _key(request)
        job = self._jobs.pop(key, None)
        if job is None:
            preparation = self._router.preparations.open()
            job = Job.begin(preparation, self._requests.prepare(preparation, request.party, request.operation))
        try:
            is_done = self._allowance.work((_asker(request),), job.steps, len(self._jobs) + others)
        except Exception:
            self._router.preparations.close(job.preparation)
            raise
        if is_done:
            return job.preparation
        self._jobs[key] = job
        return None


def _asker(given: Request | PublishBlock | PublishWith) -> str:
    return given.by if isinstance(given, Request) and given.by is not None else given.party


def _key(request: Request) -> _Key:
    return request.party, request.by, request.number
