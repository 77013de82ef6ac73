"""Claims and what our runs say about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from palio.errors import CallerError, brief
from palio.lab import siena
from palio.lab.estimates import TooFewPointsError
from palio.lab.siena_claims import SITES
from palio.lab.study import Claim, Experiment, MissingRunsError, Results, Study, Verdict
from palio.lab.topology import Topology

STUDIES: dict[str, Study] = {study.name: study for study in siena.STUDIES}
"""By name."""


class Judged(NamedTuple):
    """A claim with its verdict."""

    study: str
    claim: Claim
    verdict: Verdict | None
    """None if the grid does not have the runs that the claim is about."""

    def document(self) -> dict[str, Any]:
        """The paper's words, the predicate, our figure, whether it holds."""
        return {
            "study": self.study,
            "claim": self.claim.name,
            "words": self.claim.words,
            "predicate": self.claim.predicate,
            "figure": self.verdict and self.verdict.figure,
            "holds": self.verdict and self.verdict.holds,
        }


def summary(judged: Sequence[Judged]) -> str:
    """How many claims hold."""
    verdicts = [each.verdict for each in judged if each.verdict is not None]
    return f"{sum(verdict.holds for verdict in verdicts)} of {len(verdicts)} claims hold"


def named(names: Sequence[str]) -> list[Study]:
    """The studies of certain names; all of them if none is named."""
    for name in names:
        if name not in STUDIES:
            raise CallerError(f"study: {brief(name)} is none of {', '.join(STUDIES)}")
    return [STUDIES[name] for name in names or STUDIES]


def experiments_of(studies: Sequence[Study], *, quick: bool) -> tuple[Experiment, ...]:
    """What has to be run for some studies."""
    wanted = {name for study in studies for name in study.experiments}
    return tuple(each for each in siena.experiments(quick=quick) if each.name in wanted)


def check_network(network: Topology) -> None:
    """Refuse a network of a size that the claims are not about."""
    sites = len(network.names)
    if sites != SITES:
        raise CallerError(f"network: the claims are about {SITES} sites, and it has {sites}; runs alone can be made")


def judge(studies: Sequence[Study], results: Results) -> list[Judged]:
    """Ask the results about every claim."""
    found = []
    for study in studies:
        for claim in study.claims:
            try:
                verdict: Verdict | None = claim.judge(results)
            except (MissingRunsError, TooFewPointsError):
                verdict = None
            found.append(Judged(study.name, claim, verdict))
    return found
