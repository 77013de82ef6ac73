"""Requests of parties are prepared before they are done, so that no turn takes long.

To subscribe, or to cancel a subscription, may need many comparisons of filters. A turn makes only so many. A request
that needs more is given back to the driver, which gives it again in the next turn; what its party says after it waits
behind it. So whoever asks for much waits for it, and all others are served meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from palio.matching.preparation import Preparation, Steps
from palio.node.ports import PublishBlock, PublishWith, Request

if TYPE_CHECKING:
    from palio.node.requests import Requests
    from palio.routing.router import Router

_SHARES = 16
"""Each party may make this part of a turn's comparisons, however many others there are."""

_Key = tuple[str, str | None, int]


class _Job(NamedTuple):
    preparation: Preparation
    steps: Steps


class Preparing:
    """The requests of one server that are not prepared yet."""

    def __init__(self, router: Router, requests: Requests, budget: int) -> None:
        self._router = router
        self._requests = requests
        self._budget = self._left = budget
        self._least = max(1, budget // _SHARES)
        self._jobs: dict[_Key, _Job] = {}
        self._spent: dict[str, int] = {}
        """In this turn, by who has asked."""

    def __len__(self) -> int:
        return len(self._jobs)

    def holds_up(self, given: Request | PublishBlock | PublishWith) -> bool:
        """Whether something has to be given again because its party has asked before for what is not prepared yet."""
        if not self._jobs:
            return False
        asker = _asker(given)
        behind = [key for key in self._jobs if (key[0] if key[1] is None else key[1]) == asker]
        return bool(behind) and not (isinstance(given, Request) and _key(given) in behind)

    def begin_turn(self) -> None:
        """From now on as many comparisons may be made as in every turn."""
        self._left = self._budget
        if self._spent:
            self._spent = {}

    def advance(self, request: Request) -> Preparation | None:
        """Prepare a request; if that is not finished in this turn, it has to be given again."""
        key = _key(request)
        job = self._jobs.pop(key, None)
        if job is None:
            preparation = self._router.preparations.open()
            job = _Job(preparation, self._requests.prepare(preparation, request.party, request.operation))
        try:
            is_done = self._work(_asker(request), job.steps)
        except Exception:
            self._router.preparations.close(job.preparation)
            raise
        if is_done:
            return job.preparation
        self._jobs[key] = job
        return None

    def _work(self, asker: str, steps: Steps) -> bool:
        """Go on until all is done, or the asker has had its share of this turn."""
        spent = self._spent.get(asker, 0)
        share = max(self._least, spent + self._left // (len(self._jobs) + 1))
        begun, is_done = spent, False
        while spent < share and not is_done:
            cost = next(steps, None)
            is_done = cost is None
            spent += cost or 0
        self._spent[asker] = spent
        self._left = max(0, self._left - (spent - begun))
        return is_done


def _asker(given: Request | PublishBlock | PublishWith) -> str:
    return given.by if isinstance(given, Request) and given.by is not None else given.party


def _key(request: Request) -> _Key:
    return request.party, request.by, request.number
