"""Servers with different limits, some of an earlier release, judged by the law."""

from __future__ import annotations

import pytest

from palio.sim.histories.history import History, ServerLimits, Step
from palio.sim.run import run
from palio.sim.suites import SUITES
from tests.sim.effort import seeds

SUITE = SUITES["limits"]


@pytest.mark.parametrize("architecture", SUITE.architectures)
@pytest.mark.parametrize("faults", SUITE.faults)
def test_nothing_is_violated(architecture: str, faults: str) -> None:
    for seed in seeds(2):
        assert run(SUITE.generate(seed, architecture, faults, 60)).violations == (), seed


def test_histories_have_servers_of_both_releases_and_things_at_the_edge() -> None:
    histories = [SUITE.generate(seed, "as", "none", 60) for seed in range(20)]
    releases = {bool(limits.accepted) for history in histories for limits in history.limits.values()}
    assert releases == {True, False}
    texts = [step.text for history in histories for step in history.steps if step.do in ("subscribe", "publish")]
    assert any("a" * 40 in text for text in texts)
    assert History.from_json(histories[0].to_json()) == histories[0]


STEPS = (
    Step(0, "connect", "rome", peer="milan"),
    Step(0, "subscribe", "rome", "rome/me", "x any"),
    Step(0, "settle"),
    Step(0, "publish", "milan", "milan/you", 'x = "long"'),
    Step(0, "publish", "milan", "milan/you", 'x = "ok"'),
    Step(0, "settle"),
)


def test_a_server_of_an_earlier_release_gets_what_it_can_take() -> None:
    old = {"milan": ServerLimits({"value_bytes": 4}), "rome": ServerLimits({"value_bytes": 2}, {"value_bytes": 3})}
    outcome = run(History("as", 0, ("rome", "milan"), STEPS, limits=old))
    assert (outcome.violations, outcome.deliveries) == ((), 1)


def test_a_server_of_this_release_gets_everything() -> None:
    new = {"milan": ServerLimits({"value_bytes": 4}), "rome": ServerLimits({"value_bytes": 2})}
    outcome = run(History("as", 0, ("rome", "milan"), STEPS, limits=new))
    assert (outcome.violations, outcome.deliveries) == ((), 2)
