"""Links are there when they were asked for, and nothing but a wish ends them."""

from __future__ import annotations

import pytest

from palio.link.links import Links
from palio.routing.membership import CycleError, Membership
from palio.sim.engine.network import Weather
from palio.sim.histories.history import History, Step
from palio.sim.run import run
from tests.planted.catalogue import PLANTED


def violations(*steps: Step, architecture: str = "as") -> tuple[str, ...]:
    return run(History(architecture, 0, ("a", "b", "c"), (*steps, Step(0, "settle")))).violations


def connect(server: str, peer: str) -> Step:
    return Step(0, "connect", server, peer=peer)


SETTLE = Step(0, "settle")


def test_links_that_are_kept() -> None:
    steps = (
        connect("a", "b"),
        connect("b", "c"),
        SETTLE,
        connect("a", "c"),  # refused: it would close a cycle
        SETTLE,
        Step(0, "weather", weather=Weather(drop=0.3)),
        Step(0, "publish", "a", "a/me", "x = 1"),
        SETTLE,
        Step(0, "crash", "c"),
        SETTLE,
        Step(0, "disconnect", "b", peer="a"),
    )
    assert violations(*steps) == ()


def test_a_master_may_refuse() -> None:
    assert violations(connect("a", "b"), SETTLE, connect("a", "c"), architecture="hs") == ()


def test_a_link_that_is_not_opened_again() -> None:
    with PLANTED["not-opened-again"].planted():
        found = violations(connect("a", "b"), SETTLE, Step(0, "crash", "b"))
    assert found == ("there is no link from a to b, though it was asked for and not refused",)


def test_a_neighbour_that_breaks_the_rules() -> None:
    with PLANTED["filters-outlive-the-link"].planted():
        subscribe = Step(0, "subscribe", "a", "a/me", "x > 3")
        found = violations(
            connect("a", "b"),
            subscribe,
            SETTLE,
            Step(0, "disconnect", "a", peer="b"),
            Step(500, "connect", "a", peer="b"),
        )
    assert found[0].startswith("a gave up the link to b: 'a' cannot say Subscribe")


def test_a_link_that_closes_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Membership, "check", lambda *_: None)
    found = violations(connect("a", "b"), connect("b", "c"), SETTLE, connect("a", "c"))
    assert "the link from a to c came up, though it closes a cycle" in found


def test_a_link_that_is_refused_for_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Membership, peer: str, __: object) -> None:
        raise CycleError(f"a link to {peer} would close a cycle")

    monkeypatch.setattr(Membership, "check", refuse)
    assert violations(connect("a", "b"), architecture="hs") == (
        "a has no link to b because of a cycle, and there is none",
    )


def test_a_wish_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Links, "connect", lambda *_: [])
    assert violations(connect("a", "b")) == (
        "there is no link from a to b, though it was asked for and not refused",
        "a and b were to be in one tree, and are not",
    )
