"""The studies of the wide-area event service: their grids, and whether predicates can tell what they should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from palio.lab.estimates import estimate
from palio.lab.siena import OBJECTS, PARTIES, STUDIES, experiments
from palio.lab.siena_claims import ARCHITECTURES, SITES
from palio.lab.study import Measured, MissingRunsError, Results, Run, Setting
from palio.lab.topology import transit_stub
from palio.lab.verify import judge

CLAIMS = {claim.name: claim for study in STUDIES for claim in study.claims}


class World(NamedTuple):
    """A world in which all claims are true; each field can be changed for one in which some are not."""

    centralized: float = 1.0
    """By which exponent ce grows."""
    flat: float = 0.0
    sparse: float = 0.5
    hierarchy: Callable[[int], float] = lambda objects: {1: 0.9, 10: 1.2, 100: 1.5, 1_000: 2.0}[objects]
    wild: Callable[[int], float] = lambda objects: {1: 0.004, 10: 0.01, 100: 0.02, 1_000: 0.04}[objects]
    calm: float = -0.5
    advertising: float = 1.0
    even: float = 0.5
    uneven: float = 2.0
    worst: float = 2.0
    fall: float = -0.5
    dearest: float = 1e6
    peers: float = 1.0
    advantage: Callable[[int], float] = lambda parties: 1.5 if parties == 50 else 0.8
    subscription: float = 20.0
    amortized: float = -1.0
    behaviour: float = 0.0
    difference: float = 0.0
    lonely: float = 0.0
    taken: float = -1.0

    def cost(self, setting: Setting, sign: int) -> float:
        architecture, objects, parties = setting[:3]
        if architecture == "ce":
            return float(objects * 0.001 + max(parties, 1) ** self.centralized)
        peers = objects * min(max(parties, 1), 100) ** self.sparse * max(parties / 100, 1) ** self.flat
        if architecture == "hs":
            return peers * self.hierarchy(objects)
        wild = self.wild(objects) * (setting.publications / 20) ** self.calm if architecture == "aa" else 0.001
        if parties >= 100:
            wild = 0.001
        return peers * (self.advertising if architecture == "aa" else 1) * (1 + sign * wild)

    def service_cost(self, setting: Setting) -> float:
        architecture, objects, parties = setting[:3]
        if architecture == "ce":
            return self.dearest * max(parties, 1) ** -0.01
        if architecture == "hs" and objects == 1:
            return float(self.advantage(parties) * max(parties, 1) ** self.fall)
        scale = {"as": self.peers if objects == 1_000 else 1.0, "hs": 1.2, "aa": 1.05}[architecture]
        return float(scale * max(parties, 1) ** self.fall)

    def figures(self, run: Run) -> dict[str, float]:
        setting, sign = run.setting, (-1) ** run.repetition
        parties, is_hierarchy = max(setting.parties, 1), setting.architecture == "hs"
        spread = (self.even if setting.objects == 1 else self.uneven) if is_hierarchy else 1.0
        notification = 5.0 + (10 + self.difference * parties if is_hierarchy else 0)
        if run.experiment == "siena-no-party":
            notification = 10.0 + self.lonely * setting.publications if is_hierarchy else self.lonely
        if run.experiment == "siena-one-notification":
            notification = setting.publications**self.taken
        return {
            "cost": self.cost(setting, sign),
            "service_cost": self.service_cost(setting),
            "site_variation": spread,
            "subscription_cost": (1 if is_hierarchy else self.subscription)
            * parties**self.amortized
            * (setting.notifications / 15) ** self.behaviour,
            "notification_cost": notification,
        }

    def results(self, *, quick: bool) -> Results:
        measured = []
        for experiment in experiments(quick=quick):
            for run in experiment.runs():
                worst = 1.0
                if run.setting.architecture == "hs":
                    worst = 1 / self.worst if run.setting.objects == 1 else self.worst
                measured.append(Measured(run, self.figures(run), {"s0": worst, "s1": 0.1}))
        return Results(measured)


def test_all_claims_can_hold() -> None:
    results = World().results(quick=False)
    assert {name: claim.judge(results) for name, claim in CLAIMS.items() if not claim.judge(results).holds} == {}
    assert len(CLAIMS) == sum(len(study.claims) for study in STUDIES) == 21


@pytest.mark.parametrize(
    ("world", "broken"),
    [
        (World(centralized=0.5), {"explosive-centralized"}),
        (World(flat=0.3), {"explosive-centralized", "flat-after-saturation"}),
        (World(sparse=1.2), {"sub-linear-before"}),
        (World(hierarchy=lambda _: 0.9), {"hierarchy-dearer", "hierarchy-dearer-with-objects"}),
        (World(hierarchy=lambda _: 1.3), {"hierarchy-dearer-with-objects"}),
        (World(wild=lambda _: 0.02), {"advertising-unstable"}),
        (World(wild=lambda _: 0.001), {"advertising-unstable"}),
        (World(calm=0.5), {"advertising-calmer"}),
        (World(advertising=1.3), {"advertising-close"}),
        (World(even=1.5), {"hierarchy-even-at-few"}),
        (World(uneven=0.7), {"peers-even-at-many"}),
        (World(worst=0.8), {"worst-site"}),
        (World(fall=0.1), {"amortized-past-saturation"}),
        (World(dearest=0.1), {"centralized-dearest"}),
        (World(peers=1.5), {"peers-good-at-many-objects"}),
        (World(advantage=lambda _: 0.8), {"hierarchy-advantage"}),
        (World(subscription=1.5), {"subscriptions-dear-for-peers"}),
        (World(amortized=-0.1), {"subscriptions-amortized"}),
        (World(behaviour=0.5), {"subscriptions-insensitive"}),
        (World(difference=0.01), {"constant-difference"}),
        (World(lonely=0.1), {"without-parties"}),
        (World(taken=-0.5), {"one-notification"}),
    ],
    ids=lambda value: "+".join(sorted(value)) if isinstance(value, set) else "",
)
def test_each_claim_can_fail(world: World, broken: set[str]) -> None:
    results = world.results(quick=False)
    assert {name for name, claim in CLAIMS.items() if not claim.judge(results).holds} == broken


def test_the_quick_grid_is_enough_for_all_but_one() -> None:
    results = World(advantage=lambda parties: 1.5 if parties == 100 else 0.8).results(quick=True)
    missing = []
    for name, claim in CLAIMS.items():
        try:
            assert claim.judge(results).holds, name
        except MissingRunsError:
            missing.append(name)
    assert missing == ["peers-good-at-many-objects"]


def test_claims_say_what_they_mean() -> None:
    for claim in CLAIMS.values():
        assert len(claim.predicate) > 20
        assert claim.words


def test_grids() -> None:
    full, quick = experiments(quick=False), experiments(quick=True)
    assert len(list(full[0].runs())) == 4 * len(OBJECTS) * len(PARTIES) * 10
    assert [each.name for each in full] == [each.name for each in quick]
    names = [run.name for experiment in full for run in experiment.runs()]
    assert len(set(names)) == len(names)
    assert len(transit_stub(1).names) == SITES


def test_settings_are_compared_in_the_same_situation() -> None:
    network = transit_stub(1)

    def hosts(setting: Setting, repetition: int = 3) -> tuple[Counter[str], Counter[str]]:
        made = Run("siena", setting, repetition).scenario(network)
        objects, parties = (Counter({each.site: each.number for each in some}) for some in (made.objects, made.parties))
        return objects, parties

    objects, parties = hosts(Setting("as", 10, 100))
    assert (objects.total(), parties.total()) == (10, 100)
    for architecture in ARCHITECTURES:
        assert hosts(Setting(architecture, 10, 100, publications=5, notifications=3)) == (objects, parties)
    assert hosts(Setting("as", 10, 100), 4) != (objects, parties)
    more_objects, more_parties = hosts(Setting("as", 20, 300))
    assert objects < more_objects
    assert parties < more_parties
    assert Run("siena", Setting("as", 10, 100, network="other"), 3).seed != Run("siena", Setting("as", 10, 100), 3).seed


def test_an_interval_holds_the_mean_of_most_samples() -> None:
    random = Random(1)
    inside = 0
    for _ in range(1_000):
        found = estimate(random.gauss(5, 2) for _ in range(5))
        inside += found.low <= 5 <= found.high
    assert 930 <= inside <= 970


def test_a_grid_with_one_number_of_parties_past_saturation_has_no_slope_to_judge() -> None:
    results = World().results(quick=False)
    few = Results(each for each in results.select("siena") if each.run.setting.parties in (1, 10_000))
    judged = {each.claim.name: each.verdict for each in judge(STUDIES, few)}
    assert judged["explosive-centralized"] is None
    assert judged["centralized-dearest"] is not None
