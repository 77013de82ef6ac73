"""Bugs planted into the code are found by the checker, each within few seeds."""

from __future__ import annotations

import pytest

from palio.routing.architectures import Hierarchical
from palio.routing.router import Router
from palio.sim.generators.networks import FAULTS
from palio.sim.suites import SUITES
from tests.planted.catalogue import HISTORIES, MOST_SEEDS, PLANTED, catch, catch_all, is_caught_by, stored


def test_there_are_enough() -> None:
    assert len(PLANTED) >= 20
    for name, bug in PLANTED.items():
        assert bug.name == name
        assert bug.description
        assert set(bug.architectures) <= set(SUITES[bug.suite].architectures)
        assert set(bug.faults) <= set(FAULTS)


SLOW = {"limits-of-peers-ignored", "configured-limits-between-servers", "never-sent-again"}
"""Their histories are long."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] if each in SLOW else []) for each in PLANTED]
)
def test_a_planted_bug_is_caught_by_its_stored_history(name: str) -> None:
    """`python -m tests.planted --store NAME` searches for another history when the code has changed."""
    assert is_caught_by(PLANTED[name], stored(name))


def test_no_history_is_left_over() -> None:
    assert {path.stem for path in HISTORIES.iterdir()} == set(PLANTED)


@pytest.mark.parametrize("name", ["lost-resurfacing", "break-before-make"])
def test_the_search_finds_a_planted_bug(name: str) -> None:
    caught = catch(name)
    assert caught.case is not None
    assert caught.case.seed < MOST_SEEDS
    assert caught.violations


def test_bugs_are_taken_out_again() -> None:
    right, inherited = Router.control, Hierarchical.control
    assert right is inherited
    with PLANTED["lost-resurfacing"].planted():
        assert Hierarchical.control is not inherited
        assert Router.control is right
    assert "control" not in vars(Hierarchical)
    with pytest.raises(KeyError), PLANTED["break-before-make"].planted():
        raise KeyError
    assert Router.control is right


@pytest.mark.slow
def test_bugs_that_are_not_found_are_told() -> None:
    names = ["copy-for-each-filter", "wave-overtakes"]
    told: list[tuple[int, int]] = []
    caught = catch_all(seeds=1, progress=lambda *far: told.append(far), processes=1, names=names)
    assert [each.case and str(each.case) for each in caught] == ["ce-none-0", None]
    assert told == [(1, 2), (2, 2)]
    assert catch_all(seeds=1, processes=2, names=names) == caught
