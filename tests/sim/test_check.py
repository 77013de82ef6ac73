"""The checker: what a run comes to, sums over many runs, and digests that are the same everywhere."""

from __future__ import annotations

import pytest

from palio.errors import CallerError
from palio.node.ports import Operation, Unsubscribe
from palio.node.publications import Publications
from palio.node.requests import Requests
from palio.routing.architectures import ARCHITECTURES
from palio.sim.check import Case, cases, check
from palio.sim.generators.networks import FAULTS, generate
from palio.sim.histories.history import History, Step
from palio.sim.run import run
from tests.planted.catalogue import PLANTED
from tests.sim.digests import printed_under_any_hash_seed


def history(*steps: Step, architecture: str = "as", servers: tuple[str, ...] = ("a", "b", "c")) -> History:
    return History(architecture, 0, servers, steps)


def test_what_a_run_comes_to() -> None:
    outcome = run(
        history(
            Step(0, "connect", "a", peer="b"),
            Step(0, "subscribe", "a", "a/me", "x > 3"),
            Step(0, "settle"),
            Step(0, "publish", "b", "b/you", "x = 4"),
            Step(0, "settle"),
            Step(0, "disconnect", "a", peer="b"),
            Step(0, "crash", "b"),
            Step(0, "crash", "b"),
            Step(0, "settle"),
        )
    )
    assert (outcome.violations, outcome.step) == ((), None)
    assert (outcome.operations, outcome.deliveries) == (4, 1)
    assert outcome.faults == {"crash": 1, "disconnect": 1}
    assert outcome.messages > 1
    assert len(outcome.digest) == 64


def test_an_exception_inside_a_node_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("b")

    monkeypatch.setattr(Publications, "publish", fail)
    steps = Step(0, "settle"), Step(0, "publish", "a", "a/me", "x = 4"), Step(0, "settle")
    outcome = run(history(*steps))
    assert outcome.violations == ("KeyError: 'b'",)
    assert outcome.step == 1


def test_every_step_can_be_watched() -> None:
    seen: list[tuple[int, bool, str]] = []
    steps = Step(0, "connect", "a", peer="b"), Step(7, "crash", "b"), Step(5, "restart", "b")
    run(
        history(*steps),
        lambda player, step: seen.append((player.cluster.scheduler.now, "b" in player.cluster.nodes, step.do)),
    )
    assert seen == [(0, True, "connect"), (7, False, "crash"), (12, True, "restart")]


def test_a_seed_is_one_history_of_each_architecture_and_faults_take_turns() -> None:
    found = cases(range(2 * len(FAULTS)), ["hs", "as"], FAULTS)
    assert len(found) == 4 * len(FAULTS)
    assert [case.faults for case in found] == [*FAULTS] * 4


@pytest.mark.parametrize(
    ("architectures", "faults", "problem"),
    [
        (["hs", "xx"], ["none"], "architecture: 'xx' is none of ce, hs, as, aa, nf"),
        (["hs"], ["hail"], "faults: 'hail' is none of none, weather"),
        ([], ["none"], "architecture: name at least one of"),
    ],
)
def test_what_is_not_known_is_refused(architectures: list[str], faults: list[str], problem: str) -> None:
    with pytest.raises(CallerError, match=problem):
        cases(range(1), architectures, faults)


@pytest.mark.slow
def test_sums_by_architecture_do_not_depend_on_processes() -> None:
    told: list[tuple[int, int]] = []
    alone = check(range(4), ["ce", "aa"], progress=lambda *how_far: told.append(how_far), processes=1)
    assert told == [(number, 8) for number in range(1, 9)]
    assert [each.architecture for each in alone.by_architecture] == ["ce", "aa"]
    assert [each.runs for each in alone.by_architecture] == [4, 4]
    outcomes = [run(case.history()) for case in cases(range(4), ["ce", "aa"], FAULTS)]
    total = alone.total()
    assert total.operations == sum(each.operations for each in outcomes)
    assert total.deliveries == sum(each.deliveries for each in outcomes)
    assert total.faults["drop"] == sum(each.faults.get("drop", 0) for each in outcomes) > 0
    assert alone.failures == ()
    assert check(range(4), ["ce", "aa"], processes=2) == alone


def test_runs_that_violate_are_told() -> None:
    with PLANTED["copy-for-each-filter"].planted():
        report = check((0, 2), ["ce"], ["none"], processes=1)
    assert [str(each.case) for each in report.failures] == ["ce-none-0", "ce-none-2"]
    assert report.total().violations == 2
    assert all("twice" in each.outcome.violations[0] for each in report.failures)


_DIGESTS = """
from palio.sim.check import cases
from palio.sim.run import run
for case in cases(range(5, 11), ["hs", "as", "aa", "nf"], ["all", "races", "slow", "disks"]):
    print(case, run(case.history()).digest)
"""


@pytest.mark.slow
def test_digests_are_the_same_under_any_hash_seed() -> None:
    assert len(set(printed_under_any_hash_seed(_DIGESTS)[1::2])) == 24, "each run has its own"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_digest_tells_runs_apart_and_repeats(architecture: str) -> None:
    first, other = (Case(architecture, "none", seed, 60).history() for seed in (1, 2))
    assert run(first).digest == run(first).digest != run(other).digest


def test_a_fault_that_a_node_would_contain_is_a_violation() -> None:
    """Servers contain faults; the simulator must not, or it would be blind to bugs that raise."""
    right = Requests.perform

    def perform(self: Requests, party: str, operation: Operation) -> bool:
        if isinstance(operation, Unsubscribe):
            raise ZeroDivisionError("a bug")
        return right(self, party, operation)

    found = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Requests, "perform", perform)
        for seed in range(6):
            found += run(generate(seed, "as", "none")).violations
    assert "ZeroDivisionError: a bug" in found
