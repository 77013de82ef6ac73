"""Random histories with patterns, judged by the law; what the law sees; suites."""

from __future__ import annotations

import pytest

from palio.errors import CallerError
from palio.sim.check import Case, cases
from palio.sim.generators.networks import FAULTS
from palio.sim.histories.history import History, Step
from palio.sim.replay import replay
from palio.sim.run import run
from palio.sim.suites import SUITES, suite_of
from tests.planted.catalogue import PLANTED
from tests.sim.effort import seeds
from tests.sim.test_docs import table

PATTERNS = SUITES["patterns"]


@pytest.mark.parametrize("architecture", PATTERNS.architectures)
@pytest.mark.parametrize("faults", PATTERNS.faults)
def test_nothing_is_violated(architecture: str, faults: str) -> None:
    for seed in seeds(3):
        assert run(PATTERNS.generate(seed, architecture, faults, 60)).violations == (), seed


def history(*steps: Step, window: int = 0, durable: bool = False, servers: tuple[str, ...] = ("a", "b")) -> History:
    return History("as", 0, servers, (*steps, Step(0, "settle")), durable, window)


def test_a_sequence_is_told() -> None:
    story = replay(
        history(
            Step(0, "subscribe", "a", "a/me", "x = 1 then x = 2"),
            Step(0, "publish", "a", "a/you", "x = 1"),
            Step(0, "publish", "a", "a/you", "x = 2"),
        )
    )
    assert story.outcome.violations == ()
    assert story.outcome.deliveries == 1
    told = [each for scene in story.scenes for each in scene.followed]
    assert "a/me gets for x = 1 then x = 2: a/0/0 then a/0/1" in told


UPSET = (
    Step(0, "connect", "a", peer="b"),
    Step(0, "settle"),
    Step(0, "subscribe", "a", "a/me", "x = 1 then x = 2"),
    Step(0, "settle"),
    Step(0, "publish", "b", "b/you", "x = 1"),
    Step(1, "publish", "a", "a/you", "x = 2"),
)
"""The first element has a longer way than the second."""


@pytest.mark.parametrize(("window", "deliveries"), [(0, 0), (100_000, 1)])
def test_a_window_puts_right_what_came_late(window: int, deliveries: int) -> None:
    outcome = run(history(*UPSET, window=window))
    assert (outcome.violations, outcome.deliveries) == ((), deliveries)


def test_without_a_window_one_monitor_would_find_more() -> None:
    """The strongest check sees it, where it applies: with large windows."""
    with PLANTED["window-ignored"].planted():
        violations = run(history(*UPSET, window=100_000)).violations
    assert any("one monitor finds [b/0/0 then a/0/0]" in each for each in violations)


def test_histories_of_a_suite_are_named_by_it() -> None:
    assert [str(case) for case in cases([3], ["as"], ["none"], suite="patterns")] == ["patterns-as-none-3"]
    assert Case("as", "none", 3, 60, "patterns").history() != Case("as", "none", 3, 60).history()
    with pytest.raises(CallerError, match="suite: 'knots' is none of trees, graphs, gateways, patterns, merging"):
        suite_of("knots")


def test_suites_are_told() -> None:
    assert table("suite")[1:] == [[f"`{suite.name}`", suite.description] for suite in SUITES.values()]


def test_planted_bugs_of_patterns_are_told() -> None:
    bugs = [bug for bug in PLANTED.values() if bug.suite == "patterns"]
    assert len(bugs) >= 8
    assert all(set(bug.faults) <= set(FAULTS) for bug in bugs)
    assert table("bug of patterns")[1:] == [
        [f"`{bug.name}`", bug.description, ", ".join(bug.architectures), ", ".join(bug.faults)] for bug in bugs
    ]


def test_histories_with_patterns_are_varied() -> None:
    stories = [PATTERNS.generate(seed, "as", "none", 60) for seed in range(30)]
    assert len({story.window for story in stories}) > 3
    texts = [step.text for story in stories for step in story.steps if step.do == "subscribe"]
    assert {text.count(" then ") for text in texts} == {0, 1, 2}
